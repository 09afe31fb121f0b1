//! perf.data that Android's simpleperf recorded, against what simpleperf itself made of it.

use std::collections::BTreeMap;
use std::path::Path;

use backsight::{Event, OpenOptions};

/// Ranges that end in a branch, and branches that were taken, as offsets in the program; 0 is somewhere else.
type Lists = (BTreeMap<(u64, u64), u64>, BTreeMap<(u64, u64), u64>);

/// What simpleperf wrote: counts, each followed by so many lines.
fn expected(text: &str) -> Lists {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let lines = |separator: &str| {
        let of = |line: &str| {
            let (pair, count) = line.split_once(':')?;
            let (first, second) = pair.split_once(separator)?;
            Some(((hexadecimal(first), hexadecimal(second)), count.parse().unwrap()))
        };
        text.lines().take_while(|line| !line.starts_with("//")).filter_map(of).collect::<BTreeMap<_, _>>()
    };
    let branches = lines("->");
    let ranges = text.lines().filter(|line| !line.contains("->") && !line.starts_with("//"));
    let ranges = ranges.filter_map(|line| {
        let (pair, count) = line.split_once(':')?;
        let (first, last) = pair.split_once('-')?;
        Some(((hexadecimal(first), hexadecimal(last)), count.parse().unwrap()))
    });
    (ranges.collect(), branches)
}

fn executed(file: &Path, base: u64) -> Lists {
    let folder = file.parent().unwrap();
    let capture = OpenOptions::new().symfs(folder).open(file).unwrap_or_else(|error| panic!("{error}"));
    let inside = |address: u64| if address >> 13 == base >> 13 { address - base } else { 0 };
    let (mut ranges, mut branches) = Lists::default();
    let mut from: Option<u64> = None;
    let summary = capture.execution().run(|item| match item.value {
        Event::Range(range) => {
            if let Some(from) = from.take() {
                *branches.entry((from, inside(range.start.0))).or_default() += 1;
            }
            let last = inside(range.end.0 - u64::from(range.last_size));
            *ranges.entry((inside(range.start.0), last)).or_default() += 1;
            from = range.executed.then_some(last);
        }
        // Tracing stops, or code is missing: the branch went somewhere else.
        Event::TraceOn(_) | Event::NoMemory { .. } | Event::EndOfTrace { .. } => {
            if let Some(from) = from.take() {
                *branches.entry((from, 0)).or_default() += 1;
            }
        }
        _ => {}
    });
    let summary = summary.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        summary.buffers.iter().all(|buffer| buffer.sources.iter().all(|source| source.accounting.bad == 0))
    );
    (ranges, branches)
}

#[test]
fn branches_and_ranges_are_those_that_simpleperf_found() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    let folder = corpus.join("simpleperf");
    let (ranges, mut branches) = expected(&std::fs::read_to_string(folder.join("perf_inject.data")).unwrap());
    // The trace names 0x10a4 right after this return, and execution goes on there: simpleperf leaves the target out, perf
    // and we do not.
    assert_eq!(branches.remove(&(0x1088, 0)), Some(1));
    branches.insert((0x1088, 0x10A4), 1);
    for (name, base) in
        [("perf_etm.data", 0x58_2B2B_0000), ("perf_with_unformatted_trace.data", 0x62_9B29_2000)]
    {
        let (our_ranges, our_branches) = executed(&folder.join(name), base);
        assert_eq!(our_ranges, ranges, "{name}");
        assert_eq!(our_branches, branches, "{name}");
    }
}

#[test]
fn a_program_of_another_build_is_refused_and_named() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    let folder = std::env::temp_dir().join(format!("backsight-{}-other-build", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut program = std::fs::read(corpus.join("simpleperf/etm_test_loop")).unwrap();
    let id = [0x0C, 0x9A, 0x20, 0xBF];
    let position = program.windows(4).position(|window| window == id).expect("the program has a build ID");
    program[position] = 0x0D;
    std::fs::write(folder.join("etm_test_loop"), program).unwrap();
    std::fs::copy(corpus.join("simpleperf/perf_etm.data"), folder.join("perf.data")).unwrap();
    let capture = OpenOptions::new().symfs(&folder).open(folder.join("perf.data")).unwrap();
    let summary = capture.execution().run(|item| assert!(!matches!(item.value, Event::Range(_)))).unwrap();
    let warnings = capture.code().unwrap().warnings().join("\n");
    assert!(warnings.contains("is another version: it has build ID 0d9a20bf"), "{warnings}");
    assert!(summary.buffers[0].sources[0].statistics.gaps.no_memory > 0);
    let _ = std::fs::remove_dir_all(&folder);
}
