//! Execution as waves.

use std::collections::BTreeMap;

use backsight_testing::repository;

use crate::support::{Scratch, line};

fn log() -> String {
    repository().join("testdata/tarmac/calls.tarmac").display().to_string()
}

/// A value change dump, read strictly: the waves by `scope.name`, with their values over time.
fn dumped(text: &str) -> BTreeMap<String, Vec<(u64, String)>> {
    let (head, changes) = text.split_once("$enddefinitions $end\n").expect("an end of the head");
    let mut names: BTreeMap<&str, (String, &str, usize)> = BTreeMap::new();
    let mut scope = String::new();
    let mut words = head.split_whitespace();
    while let Some(word) = words.next() {
        let rest: Vec<&str> = words.by_ref().take_while(|word| *word != "$end").collect();
        match (word, rest.as_slice()) {
            ("$scope", ["module", name]) => scope = (*name).to_owned(),
            ("$var", [kind, bits, code, name, ..]) => {
                let known =
                    names.insert(code, (format!("{scope}.{name}"), kind, bits.parse().expect("a width")));
                assert!(known.is_none(), "{code} twice");
            }
            ("$upscope" | "$version" | "$comment" | "$timescale" | "$date", _) => {}
            other => panic!("{other:?}"),
        }
    }
    let mut waves: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    let mut time = None;
    for change in changes.lines().filter(|line| !line.starts_with('$')) {
        if let Some(next) = change.strip_prefix('#') {
            let next = next.parse::<u64>().expect("a time");
            assert!(time.is_none_or(|time| time < next), "{time:?} {next}");
            time = Some(next);
            continue;
        }
        let (value, code) = change.split_once(' ').expect("a value and a code");
        let (name, kind, bits) = &names[code];
        match value.split_at(1) {
            ("s", _) => assert_eq!(*kind, "string"),
            ("b", digits) => {
                assert!(*kind == "wire" && (1..=*bits).contains(&digits.len()), "{change}");
                assert!(digits.bytes().all(|digit| b"01x".contains(&digit)), "{change}");
            }
            _ => panic!("{change}"),
        }
        waves.entry(name.clone()).or_default().push((time.expect("a time"), value[1..].to_owned()));
    }
    waves
}

fn number(digits: &str) -> u64 {
    u64::from_str_radix(digits, 2).expect("known digits")
}

#[test]
fn waves_of_a_log_have_its_instructions_registers_and_memory() {
    let log = log();
    let run = line(&format!(
        "profile {log} --format vcd --register x0 --register w30 --register nothing --memory 0xfff0"
    ))
    .done();
    assert!(run.err.contains("--register nothing"), "{}", run.err);
    let waves = dumped(&run.out);
    let find = |end: &str| waves.iter().find(|(name, _)| name.ends_with(end)).expect(end).1;
    let pcs = line(&format!("flow {log} --format pcs --quiet")).done().out;
    let listed: Vec<u64> =
        pcs.lines().map(|pc| u64::from_str_radix(pc.trim_start_matches("0x"), 16).expect("a pc")).collect();
    let shown: Vec<u64> = find(".pc").iter().map(|(_, digits)| number(digits)).collect();
    assert_eq!(shown, listed);
    assert!(find(".exception").iter().any(|(_, text)| text.contains("SVC")), "{:?}", find(".exception"));
    assert!(find(".depth").iter().map(|(_, digits)| number(digits)).max() > Some(1));
    let links: Vec<u64> = find(".w30")
        .iter()
        .filter(|(_, value)| !value.contains('x'))
        .map(|(_, digits)| number(digits))
        .collect();
    assert!(links.contains(&0x100C), "{links:x?}");
    assert!(find(".memory_fff0_8").iter().any(|(_, value)| value.trim_start_matches('x').ends_with("1100")));
    // By instructions, each has a place of its own.
    let run = line(&format!("profile {log} --format vcd --axis instructions --quiet")).done();
    let waves = dumped(&run.out);
    let pcs = &waves.iter().find(|(name, _)| name.ends_with(".pc")).expect("a pc").1;
    assert_eq!(pcs.iter().map(|(time, _)| *time).collect::<Vec<_>>(), (0..32).collect::<Vec<_>>());
}

#[test]
fn waves_of_a_trace_are_written_by_instruction_where_it_has_no_time() {
    let run = repository().join("testdata/captures/calls-riscv64").display().to_string();
    let waves =
        dumped(&line(&format!("profile {run} --format vcd --from #100 --to #200 --quiet")).done().out);
    let find = |end: &str| waves.iter().find(|(name, _)| name.ends_with(end)).expect(end).1;
    assert_eq!(find(".pc").iter().map(|(time, _)| *time).collect::<Vec<_>>(), (100..200).collect::<Vec<_>>());
    assert!(find(".function").iter().any(|(_, name)| name == "ackermann"), "{:?}", find(".function"));
}

#[test]
fn fst_goes_into_a_file_and_options_of_waves_belong_to_waves() {
    let scratch = Scratch::new();
    let (log, path) = (log(), scratch.path("run.fst"));
    line(&format!("profile {log} --format fst")).wrong_use("-o FILE");
    line(&format!("profile {log} --format fst --register x0 -o {}", path.display())).done();
    let bytes = std::fs::read(&path).expect("a file");
    assert_eq!((bytes[0], bytes[8]), (0, 73), "a head of 329 bytes");
    line(&format!("profile {log} --format fst -o /dev/null")).wrong_use("no regular file");
    line(&format!("profile {log} --register x0")).wrong_use("--format vcd");
    line(&format!("profile {log} --format vcd --memory 0x1000:17")).wrong_use("SIZE from 1 to 16");
    line(&format!("profile {log} --format vcd --function main")).wrong_use("leave out --range");
}

/// Values that are known, without zeros at the beginning: the last at each time, as far as they change.
fn known(wave: &[(u64, String)]) -> Vec<(u64, String)> {
    let plain = |text: &String| {
        let short = text.trim_start_matches('0');
        if short.is_empty() && !text.is_empty() { "0".to_owned() } else { short.to_owned() }
    };
    let mut known: Vec<(u64, String)> = Vec::new();
    for (time, value) in wave {
        let value = plain(value);
        if known.is_empty() && value.bytes().all(|digit| digit == b'x') {
            continue;
        }
        match known.last_mut() {
            Some(last) if last.0 == *time => last.1 = value,
            Some(last) if last.1 == value => {}
            _ => known.push((*time, value)),
        }
    }
    known
}

#[test]
fn gtkwave_reads_the_same_from_both_formats() {
    let scratch = Scratch::new();
    let path = scratch.path("run.fst");
    let run = repository().join("testdata/captures/calls-riscv64").display().to_string();
    let options = "--register x0 --register x30 --memory 0xfff0 --quiet";
    for (capture, options) in [(log(), options), (run, "--quiet")] {
        line(&format!("profile {capture} --format fst {options} -o {}", path.display())).done();
        let Ok(read) = std::process::Command::new("fst2vcd").arg(&path).output() else {
            return backsight_testing::skipped("fst2vcd is not installed (gtkwave)");
        };
        // It shows blanks by their numbers, and question marks with a mark before them.
        let read = String::from_utf8(read.stdout).expect("text").replace("\\040", "_").replace("\\?", "?");
        let read = dumped(&read);
        let text = dumped(&line(&format!("profile {capture} --format vcd {options}")).done().out);
        for (name, wave) in &text {
            assert_eq!(known(&read[name]), known(wave), "{name}");
        }
        assert!(read.keys().eq(text.keys()) || read.len() > text.len(), "{:?}", read.keys());
    }
}
