//! Tarmac logs, as files and on standard input, and registers and memory at their moments.

use std::collections::BTreeMap;

use backsight_testing::{corpus, repository};

use crate::support::{Scratch, backsight_reading, line, words};

fn log() -> String {
    repository().join("testdata/tarmac/calls.tarmac").display().to_string()
}

#[test]
fn a_log_is_listed_from_a_file_and_from_standard_input() {
    let log = log();
    let listed = line(&format!("flow {log} --format pcs --quiet")).done().out;
    assert_eq!(listed.lines().count(), 32);
    let contents = std::fs::read(&log).expect("a bundled log");
    let (first, rest) = contents.split_at(1000);
    let read = backsight_reading(&words("flow - --format pcs --quiet"), &[first, rest]).done().out;
    assert_eq!(read, listed);
    backsight_reading(&words("flow - --format pcs"), &[b"no log of anything\n"]).wrong_use("--protocol");
    let text = line(&format!("flow {log} --disasm --quiet")).done().out;
    assert!(text.contains("svc #0x0") && text.contains("exception return"), "{text}");
    line(&format!("doctor {log}")).done();
    let functions = line(&format!("profile {log} --format collapsed --quiet")).done().out;
    assert!(functions.lines().any(|line| line.ends_with(" 6")), "{functions}");
}

#[test]
fn state_has_registers_memory_and_who_wrote_them() {
    let log = log();
    let text = line(&format!("state {log} --at #4 --memory 0xfff0+8 --quiet")).done().out;
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
    assert!(
        text.starts_with("#4 t0x4 ") && text.lines().next().expect("a line").ends_with("at 0x1034"),
        "{text}"
    );
    assert!(row("x30 ").contains("000000000000100c") && row("x30 ").contains("0x1008"), "{text}");
    assert!(row("0x000000000000fff0 ").contains("0c 10 00 00 00 00 00 00"), "{text}");
    assert!(text.lines().all(|line| !line.starts_with("x31")), "{text}");
    line(&format!("state {log} --at #400")).could_not("does not come to #400");
    line(&format!("state {log} --memory 0+0")).wrong_use("bytes can be shown");
    line("state FIRST").could_not("Tarmac");
    line("state - --at #4").wrong_use("--protocol");
}

#[test]
fn a_log_is_encoded_by_every_unit_of_its_architecture_and_decoded_to_the_same_instructions() {
    let (log, scratch) = (log(), Scratch::new());
    let executed = |capture: &str| line(&format!("flow {capture} --format pcs --quiet")).done().out;
    let expected = executed(&log);
    for (number, unit) in ["etm4", "ete"].iter().enumerate() {
        let capture = scratch.path(&format!("trace-{number}")).display().to_string();
        line(&format!("encode {log} -o {capture} --unit {unit} --quiet")).done();
        assert_eq!(executed(&capture), expected, "{unit}");
        let exceptions = line(&format!("flow {capture} --quiet")).done().out;
        assert!(exceptions.contains("Call: SVC, HVC or SMC"), "{exceptions}");
    }
}

#[test]
fn what_a_trace_says_is_written_as_a_log_that_is_read_as_the_same() {
    let scratch = Scratch::new();
    let captures = repository().join("testdata/captures");
    let executed = |capture: &str| line(&format!("flow {capture} --format pcs --quiet")).done().out;
    for name in ["calls-aarch64", "interwork-arm"] {
        let capture = captures.join(name).display().to_string();
        let path = scratch.path(&format!("{name}.tarmac")).display().to_string();
        line(&format!("flow {capture} --format tarmac --quiet -o {path}")).done();
        assert_eq!(executed(&path), executed(&capture), "{name}");
        let text = line(&format!("flow {path} --quiet")).done().out;
        assert!(!text.contains("names another address"), "{name}");
    }
    let riscv = captures.join("calls-riscv64").display().to_string();
    line(&format!("flow {riscv} --format tarmac")).wrong_use("Arm");
    line(&format!("flow {riscv} --format tarmac --disasm")).wrong_use("--disasm");
}

#[test]
fn an_index_has_the_states_of_a_log() {
    let scratch = Scratch::new();
    let path = scratch.file("run.tarmac", std::fs::read(log()).expect("a bundled log"));
    let log = path.display().to_string();
    let states = |options: &str| line(&format!("state {log} --quiet {options}")).done().out;
    let wanted = [
        "--at #4 --memory 0xfff0+8",
        "--at end",
        "--at #20 --writer x30 --writer 0xfff0",
        "--since #1 --at #12",
    ];
    let expected = wanted.map(states);
    assert!(expected[2].contains("last") && expected[2].contains("next"), "{}", expected[2]);
    assert!(expected[3].contains(" -> "), "{}", expected[3]);
    let said = line(&format!("index {log}")).done().err;
    assert!(said.contains("run.tarmac.states") && said.contains("run.tarmac.index"), "{said}");
    assert_eq!(wanted.map(states), expected);
    let file = scratch.path("run.tarmac.states");
    let mut bytes = std::fs::read(&file).expect("an index");
    bytes[9] ^= 1;
    std::fs::write(&file, bytes).expect("a file");
    let text = line(&format!("state {log} {}", wanted[0])).done();
    assert!(text.err.contains("an index of another capture"), "{}", text.err);
    assert_eq!(text.out, expected[0]);
    line(&format!("state {log} --writer 5+0")).wrong_use("--writer");
}

#[test]
fn other_logs_are_encoded_and_decoded_to_the_same_instructions_and_accesses() {
    let Some(folder) = corpus().map(|corpus| corpus.join("tarmac")) else { return };
    let scratch = Scratch::new();
    let executed = |capture: &str| line(&format!("flow {capture} --format pcs --quiet")).done().out;
    for (name, units) in [
        ("calculator-aarch64-fastmodel", ["etm4", "ete"]),
        ("calculator-aarch32-fastmodel", ["ptm", "etm3 --config data=both"]),
        ("calltests/calltest32", ["etm4", "ptm"]),
        ("calltests/calltest64", ["etm4", "ete"]),
        ("quicksort", ["etm4", "ete"]),
    ] {
        let log = folder.join(format!("{name}.tarmac")).display().to_string();
        let expected = executed(&log);
        for unit in units {
            let capture = scratch.path(&format!("{name}-{unit}").replace(['/', ' '], "-"));
            let capture = capture.display().to_string();
            line(&format!("encode {log} -o {capture} --unit {unit} --quiet")).done();
            assert_eq!(executed(&capture), expected, "{name} {unit}");
            if unit.contains("data") {
                assert_eq!(accesses(&capture), accesses(&log), "{name} {unit}");
                let back = scratch.path("back.tarmac").display().to_string();
                line(&format!("flow {capture} --format tarmac --quiet -o {back}")).done();
                assert_eq!((executed(&back), accesses(&back)), (expected.clone(), accesses(&log)));
            }
        }
    }
}

/// The accesses of a capture: what was done where, and the value, without the order of instructions around them.
fn accesses(capture: &str) -> Vec<String> {
    let text = line(&format!("flow {capture} --quiet")).done().out;
    let accesses = text.lines().filter_map(|line| line.split_once("-- ").map(|(_, what)| what));
    let accesses = accesses.filter(|what| what.starts_with("load of") || what.starts_with("store of"));
    accesses.map(str::to_owned).collect()
}

#[test]
fn call_trees_and_profiles_are_those_of_arms_utilities() {
    let Some(folder) = corpus().map(|corpus| corpus.join("tarmac")) else { return };
    let (log, elf) = (folder.join("quicksort.tarmac"), folder.join("quicksort.elf"));
    let command = format!("flow {} --image {} --calls=tree --quiet", log.display(), elf.display());
    let tree = line(&command).done().out;
    // By stack of functions: calls, instructions, instructions of its own. What is entered by a branch counts for what it is entered from.
    let mut found: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    let mut stack: Vec<(usize, String)> = Vec::new();
    for row in tree.lines().skip(1) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [_, calls, all, own, name] = words[..] else { panic!("{row}") };
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let depth = row.find(name).expect("it is there");
        stack.retain(|(outer, _)| *outer < depth);
        let is_branch = matches!(name, "c_entry" | "sys_exit");
        if !is_branch {
            stack.push((depth, name.to_owned()));
        }
        let path: Vec<&str> = stack.iter().map(|(_, name)| name.as_str()).collect();
        let sums = found.entry(path.join(";")).or_default();
        let entered = if is_branch { [0, 0] } else { [number(calls), number(all)] };
        (sums[0], sums[1], sums[2]) = (sums[0] + entered[0], sums[1] + entered[1], sums[2] + number(own));
    }
    // Calls of the reference: its lines are indented by depth, with the times of the first and the last instruction.
    let mut expected: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let reference = std::fs::read_to_string(folder.join("calltree-quicksort-symbols.ref")).expect("a file");
    let mut names: Vec<(usize, String)> = Vec::new();
    for row in reference.lines().filter(|row| row.trim_start().starts_with("o ")) {
        let depth = row.len() - row.trim_start().len();
        let times: Vec<u64> = row
            .split("t:")
            .skip(1)
            .map(|rest| rest.split(' ').next().unwrap_or("").parse().expect("a time"))
            .collect();
        names.retain(|(outer, _)| *outer < depth);
        names.push((depth, row.rsplit(": ").next().expect("a name").trim().to_owned()));
        let path: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
        let sums = expected.entry(path.join(";")).or_default();
        (sums[0], sums[1]) = (sums[0] + 1, sums[1] + times[1] - times[0] + 1);
    }
    let known: BTreeMap<_, _> = found.iter().map(|(path, sums)| (path.clone(), [sums[0], sums[1]])).collect();
    assert_eq!(known, expected);
    // The flame graph counts time: for each call one less than instructions, and one more where it is called from.
    let reference = std::fs::read_to_string(folder.join("flamegraph-quicksort-symbols.ref")).expect("a file");
    for row in reference.lines() {
        let (path, time) = row.rsplit_once(' ').expect("a stack and a time");
        let is_callee = |other: &&String| other.rsplit_once(';').is_some_and(|(caller, _)| caller == path);
        let calls: u64 = found.keys().filter(is_callee).map(|callee| found[callee][0]).sum();
        let sums = found[path];
        assert_eq!(sums[2] + calls - sums[0], time.parse::<u64>().expect("a number"), "{path}");
    }
    // The profile: calls, and time with what was called.
    let reference = std::fs::read_to_string(folder.join("profile-quicksort-symbols.ref")).expect("a file");
    for row in reference.lines().skip(1) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let of_function = found.iter().filter(|(path, _)| path.rsplit(';').next() == words.get(3).copied());
        let sums = of_function.fold([0, 0], |sum, (_, one)| [sum[0] + one[0], sum[1] + one[1]]);
        assert_eq!(words[1..3], [sums[0].to_string(), sums[1].to_string()], "{row}");
    }
}
