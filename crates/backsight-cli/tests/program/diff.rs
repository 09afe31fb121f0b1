//! Two executions side by side: logs with edited copies of themselves, and one run traced by two units.

use backsight_testing::repository;
use serde_json::Value;

use crate::support::{Scratch, backsight_reading, line, words};

fn log() -> String {
    repository().join("testdata/tarmac/calls.tarmac").display().to_string()
}

/// A copy of the log, changed.
fn edited(scratch: &Scratch, name: &str, edit: impl Fn(&str) -> String) -> String {
    let text = std::fs::read_to_string(log()).expect("a bundled log");
    let path = scratch.path(name);
    std::fs::write(&path, edit(&text)).expect("a copy");
    path.display().to_string()
}

/// The differences of two captures, and the summary.
fn differences(arguments: &str) -> (Vec<Value>, Value) {
    let run = line(&format!("diff {arguments} --format json --quiet"));
    let mut lines: Vec<Value> =
        run.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let summary = lines.pop().expect("a summary");
    assert_eq!(summary["kind"], "summary");
    assert_eq!(run.status, if summary["same"] == true { 0 } else { 3 }, "{}", run.err);
    (lines, summary)
}

/// Which instruction of a log is the last before its line with this number, and that line.
fn instructions(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains(" IT ")).collect()
}

#[test]
fn a_log_is_the_same_as_itself_from_a_file_and_from_standard_input() {
    let log = log();
    let out = line(&format!("diff {log} {log}")).done().out;
    assert!(out.contains("32 instructions are the same\n") && out.ends_with("no difference\n"), "{out}");
    let contents = std::fs::read(&log).expect("a bundled log");
    let (first, rest) = contents.split_at(contents.len() / 2);
    let run = backsight_reading(&words(&format!("diff - {log} --quiet")), &[first, rest]).done();
    assert!(run.out.ends_with("no difference\n"), "{}", run.out);
    line("diff - - --protocol tarmac").wrong_use("standard input");
    line(&format!("diff {log} {log} --id 0 --other-id 1 --other-id 2")).wrong_use("--other-id");
    line(&format!("diff {log} {log} --other-id 1")).wrong_use("--id");
    line(&format!("diff {log} {log} --from #4000")).could_not("no instruction was compared");
}

#[test]
fn registers_and_memory_that_differ_are_found_at_their_instruction() {
    let scratch = Scratch::new();
    let log = log();
    let text = std::fs::read_to_string(&log).expect("a bundled log");
    let after = instructions(&text)[4].to_owned();
    let (_, rest) = text.split_once(&after).expect("an instruction");
    let register = rest.lines().find(|line| line.contains(" R X")).expect("a register").to_owned();
    let changed = register.rsplit_once(' ').expect("a value").0.to_owned() + " 00000000DEADBEEF";
    let other = edited(&scratch, "register.tarmac", |text| text.replacen(&register, &changed, 1));
    let (found, summary) = differences(&format!("{log} {other}"));
    assert_eq!(found[0]["kind"], "register", "{found:?}");
    assert_eq!(found[0]["second"]["value"], "00000000deadbeef");
    assert_eq!((summary["equal"].as_u64(), summary["only_first"].as_u64()), (Some(32), Some(0)));
    let (found, _) = differences(&format!("{log} {other} --compare opcodes,accesses"));
    assert!(found.is_empty(), "{found:?}");
    let store = text.lines().find(|line| line.contains(" MW8 ")).expect("a store").to_owned();
    let changed = store.rsplit_once(' ').expect("a value").0.to_owned() + " 1111111111111111";
    let other = edited(&scratch, "store.tarmac", |text| text.replacen(&store, &changed, 1));
    let (found, _) = differences(&format!("{log} {other}"));
    let kinds: Vec<_> = found.iter().map(|one| one["kind"].as_str().expect("a kind")).collect();
    assert_eq!(found[0]["access"], "store", "{found:?}");
    assert!(kinds.iter().all(|kind| *kind == "access"), "{kinds:?}");
}

#[test]
fn a_loop_that_turns_more_often_is_listed_with_its_turns() {
    let scratch = Scratch::new();
    let polling = |turns: usize| {
        let mut text = String::new();
        let mut time = 0;
        let mut put = |address: u64, opcode: u32, name: &str| {
            time += 1;
            text += &format!("{time} clk IT ({time}) {address:08x} {opcode:08x} O EL1h_ns : {name}\n");
        };
        put(0x1000, 0xD503_201F, "NOP");
        for _ in 0..turns {
            put(0x1004, 0xB940_0020, "LDR w0,[x1]");
            put(0x1008, 0x34FF_FFE0, "CBZ w0,{pc}-4");
        }
        (0..20).for_each(|index| put(0x100C + 4 * index, 0xD503_201F, "NOP"));
        text
    };
    let at = |name: &str, turns| {
        let path = scratch.path(name);
        std::fs::write(&path, polling(turns)).expect("a log");
        path.display().to_string()
    };
    let (one, other) = (at("one.tarmac", 3), at("other.tarmac", 5000));
    let (found, summary) = differences(&format!("{one} {other}"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0]["turns"].as_u64(), found[0]["period"].as_u64()), (Some(4997), Some(2)));
    assert_eq!((found[0]["side"].as_str(), summary["equal"].as_u64()), (Some("second"), Some(27)));
    let run = line(&format!("diff {one} {other}"));
    assert_eq!(run.status, 3);
    for words in ["a loop of 2 instructions turns 4997 times more in the second", "#7", "cbz", "1 loop"] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    assert!(run.err.is_empty(), "{}", run.err);
}

#[test]
fn two_units_tell_the_same_of_one_run() {
    let scratch = Scratch::new();
    let run = repository().join("testdata/captures/calls-riscv64").display().to_string();
    let at = |name: &str| scratch.path(name).display().to_string();
    let (etrace, ntrace) = (at("etrace"), at("ntrace"));
    line(&format!("encode {run} --quiet --unit etrace -o {etrace}")).done();
    line(&format!("encode {run} --quiet --unit ntrace -o {ntrace}")).done();
    let (found, summary) = differences(&format!("{etrace} {ntrace}"));
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(summary["equal"], 40_000);
    let (_, summary) = differences(&format!("{etrace} {ntrace} --from #1000 --to #3000"));
    assert_eq!(summary["equal"], 2000);
    // The same program from another place on is another execution until both come to the same.
    let (found, summary) = differences(&format!("{etrace} {ntrace} --other-from #50"));
    assert_eq!((found.len(), summary["same"].as_bool()), (1, Some(false)));
    assert_eq!((found[0]["kind"].as_str(), summary["only_first"].as_u64()), (Some("start"), Some(50)));
}

#[test]
fn units_of_arm_tell_the_same_of_one_run() {
    let scratch = Scratch::new();
    for (capture, units) in
        [("calls-aarch64", ["etm4", "ete", "etm4"]), ("interwork-arm", ["etm4", "ptm", "etm3"])]
    {
        let run = repository().join("testdata/captures").join(capture).display().to_string();
        let encoded = units.map(|unit| {
            let out = scratch.path(&format!("{capture}-{unit}")).display().to_string();
            line(&format!("encode {run} --quiet --force --unit {unit} -o {out}")).done();
            out
        });
        for other in &encoded[1..] {
            let (found, summary) = differences(&format!("{} {other}", encoded[0]));
            assert!(found.is_empty() && summary["equal"] == 40_000, "{other}: {found:?}");
        }
    }
}

#[test]
fn an_interrupt_that_only_one_log_has_is_found_with_its_handler() {
    let scratch = Scratch::new();
    let log = log();
    let text = std::fs::read_to_string(&log).expect("a bundled log");
    let next = instructions(&text)[6].to_owned();
    let address =
        next.split_whitespace().find(|word| word.len() >= 8 && word.starts_with("0000")).expect("an address");
    let address = address.split(':').next().expect("a virtual address");
    let handler = format!(
        "9 clk E {address} 00000080 CoreEvent_IRQ\n9 clk IT (9) 00000280 d503201f O EL1h_ns : NOP\n\
         9 clk IT (9) 00000284 d69f03e0 O EL1h_ns : ERET\n{next}"
    );
    let other = edited(&scratch, "irq.tarmac", |text| text.replacen(&next, &handler, 1));
    let (found, summary) = differences(&format!("{log} {other}"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0]["kind"].as_str(), found[0]["side"].as_str()), (Some("exception"), Some("second")));
    assert_eq!(found[0]["second"]["count"], 2);
    assert_eq!((summary["equal"].as_u64(), summary["only_second"].as_u64()), (Some(32), Some(2)));
}

#[test]
fn other_programs_have_nothing_in_common() {
    let run = repository().join("testdata/captures/calls-riscv64").display().to_string();
    let (found, summary) = differences(&format!("FIRST {run}"));
    assert_eq!(found.len(), 1);
    assert_eq!(summary["complete"], found[0]["kind"] != "not found");
}
