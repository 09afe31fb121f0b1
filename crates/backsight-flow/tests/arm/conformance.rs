//! Every ETMv4 and ETE buffer of the corpus gives the elements that are expected of it, but for lines that are
//! known to be wrong there.

use crate::corpus;
use crate::corpus::Buffer;
use backsight_flow::etm4::Options;
use backsight_flow::opencsd;
use backsight_testing::gunzip;

/// Lines of the expected side that a decoder following the protocol does not give: buffer, line, rule.
const KNOWN_DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "ete_ip/ETB_1",
        "INSTR_RANGE(exec range=0x1aa948:[0x1b37f4] num_i(9131) last_sz(4) (ISA=A32) E ---)",
        "an exception while the target of an indirect branch is awaited has no range: execution did not continue \
         behind the branch",
    ),
    (
        "ete_spec_2/ETB_1",
        "INSTR_RANGE(exec range=0x2709c:[0x270a0] num_i(1) last_sz(4) (ISA=A64) E BR)",
        "behind an exception nothing is known until an address gives the handler: its return address is not where \
         execution continues",
    ),
];

#[test]
fn elements_are_as_expected() {
    let Some(buffers) = corpus::buffers(None) else { return };
    let mut lines = 0;
    let mut seen = 0;
    let mut wrong = Vec::new();
    for buffer in buffers {
        let actual = elements(&buffer);
        let expected = String::from_utf8(gunzip(&buffer.expected)).expect("text");
        let (known, unknown) = compare(&buffer.name, &expected, &actual);
        lines += expected.lines().count();
        seen += known;
        wrong.extend(unknown);
    }
    println!("{lines} lines, {seen} known differences, {} unknown ones", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen, KNOWN_DIFFERENCES.len(), "a known difference is gone: take it off the list");
}

/// The elements of a buffer, one canonical line each, sources in rising order.
fn elements(buffer: &Buffer) -> Vec<String> {
    let mut by_source: Vec<(u8, Vec<String>)> = Vec::new();
    for source in &buffer.sources {
        let cycle_counts = source.config.cycle_counting();
        let events = source.events(Options::default());
        let lines = events.iter().filter_map(|event| opencsd::element(&event.value, cycle_counts));
        let lines: Vec<_> = lines.map(|element| canonical(&element.to_string())).collect();
        if !lines.iter().all(|line| line.starts_with("NO_SYNC") || line.starts_with("EO_TRACE")) {
            by_source.push((source.config.trace_id(), lines));
        }
    }
    by_source.sort_by_key(|(id, _)| *id);
    let lines = by_source
        .into_iter()
        .flat_map(|(id, lines)| lines.into_iter().map(move |line| format!("{id:x}\t{line}")));
    lines.collect()
}

/// Every run of blanks is one blank, and there is none just inside the outer parentheses.
fn canonical(line: &str) -> String {
    let line = line.strip_prefix("OCSD_GEN_TRC_ELEM_").expect("a name");
    let (name, arguments) = line.split_once('(').expect("an opening parenthesis");
    let arguments = arguments.strip_suffix(')').expect("a closing parenthesis");
    format!("{name}({})", arguments.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Counts the known differences of a buffer and describes the unknown ones.
fn compare(buffer: &str, expected: &str, actual: &[String]) -> (usize, Vec<String>) {
    let mut known = 0;
    let mut actual = actual.iter().peekable();
    for (number, line) in expected.lines().enumerate() {
        if actual.next_if(|actual| *actual == line).is_some() {
            continue;
        }
        let element = line.split_once('\t').map_or(line, |(_, element)| element);
        if KNOWN_DIFFERENCES.iter().any(|(of, known, _)| *of == buffer && *known == element) {
            known += 1;
            continue;
        }
        let found = actual.next().map_or("<end>", String::as_str);
        return (
            known,
            vec![format!("{buffer} line {}:\n  expected {line}\n  actual   {found}", number + 1)],
        );
    }
    let rest = actual.next().map(|line| format!("{buffer}: one more line: {line}"));
    (known, rest.into_iter().collect())
}
