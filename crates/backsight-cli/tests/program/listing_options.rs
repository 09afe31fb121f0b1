//! What is listed of an execution: filters, limits, calls, and what is said about it.

use std::collections::BTreeSet;

use backsight_testing::repository;
use serde_json::Value;

use crate::flow::elf_with_symbols;
use crate::support::{FIRST_CONFIG, Scratch, backsight_reading, first_stream, line, words};

fn json(arguments: &str) -> Vec<Value> {
    let run = line(&format!("{arguments} --format json --quiet")).done();
    run.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn riscv() -> String {
    repository().join("testdata/captures/calls-riscv64").display().to_string()
}

#[test]
fn a_range_filter_cuts_the_ranges_that_it_lists() {
    let lines = json("flow FIRST --range 0x40001c..0x400024");
    // An exception in this part of the program is listed too.
    let ranges: Vec<&Value> = lines.iter().filter(|line| line["event"] == "range").collect();
    assert!(ranges.len() > 10);
    let mut instructions = 0;
    for range in ranges {
        let address = |name: &str| {
            let text = range[name].as_str().expect("an address");
            u64::from_str_radix(&text[2..], 16).expect("hexadecimal")
        };
        let (start, end) = (address("start"), address("end"));
        assert!(start >= 0x40_001C && end <= 0x40_0024, "{range}");
        assert_eq!(range["instructions"], (end - start) / 4, "{range}");
        // The branch of the program is the second instruction of this part of it.
        assert_eq!(range["last"] != "", end == 0x40_0020, "{range}");
        instructions += (end - start) / 4;
    }
    let run = line("flow FIRST --range 0x40001c..0x400024 --format pcs").done();
    assert_eq!(run.out.lines().count() as u64, instructions);
    assert!(
        run.err.starts_with(&format!("{instructions} of 1681 instructions listed; decoded:\n1681 ")),
        "{}",
        run.err
    );
    let all = line("flow FIRST").done();
    assert!(!all.err.contains("listed"), "{}", all.err);
}

#[test]
fn every_listing_stops_after_as_many_lines_as_are_asked_for() {
    let capture = riscv();
    for options in [
        "flow FIRST",
        "flow FIRST --format json",
        "flow FIRST --format opencsd",
        "flow FIRST --format pcs",
        "flow FIRST --format branches",
        "flow FIRST --disasm",
        "flow FIRST --threads 2",
        &format!("flow {capture} --calls"),
        &format!("flow {capture} --calls=tree --format json"),
        &format!("flow {capture} --truth"),
        &format!("flow {capture} --truth --format pcs"),
    ] {
        let all = line(&format!("{options} --quiet")).done().out;
        for limit in [0, 1, 7] {
            let some = line(&format!("{options} --quiet --limit {limit}")).done().out;
            let expected: String = all.lines().take(limit).flat_map(|line| [line, "\n"]).collect();
            assert_eq!(some, expected, "{options} --limit {limit}");
        }
        let more = line(&format!("{options} --quiet --limit 99999999")).done().out;
        assert_eq!(more, all, "{options}");
    }
    let said = line("flow FIRST --limit 3").done().err;
    assert_eq!(said, "3 lines listed, no more were asked for\n");
}

#[test]
fn functions_and_files_choose_together() {
    let capture = riscv();
    let pcs = |options: &str| line(&format!("flow {capture} --format pcs --quiet {options}")).done().out;
    let counts = ["ackermann", "program"].map(|name| pcs(&format!("--function {name}")).lines().count());
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    let both = pcs("--function ackermann --function program").lines().count();
    // What the program calls is in its calls.
    assert_eq!(both, counts[1]);
    assert_eq!(pcs("--module calls"), pcs(""));
    line(&format!("flow {capture} --module libc.so.6")).could_not("the code is in calls");
    let scratch = Scratch::new();
    let other = scratch.file("other.bin", [0; 64]);
    let none = pcs(&format!("--image {}@0x500000 --module other.bin", other.display()));
    assert_eq!(none, "");
}

#[test]
fn what_happens_inside_calls_of_a_function_is_the_same_everywhere() {
    let calls = repository().join("testdata/captures/calls-aarch64").display().to_string();
    let lines = |text: &str| -> Vec<String> {
        line(&format!("{text} --quiet")).done().out.lines().map(str::to_owned).collect()
    };
    for capture in [riscv(), calls] {
        let tree = lines(&format!("flow {capture} --calls=tree --format json"));
        let nodes = tree.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let program = nodes.clone().find(|node| node["function"] == "program").expect("a function");
        let total = program["total"]["instructions"].as_u64().expect("a number");
        let pcs = lines(&format!("flow {capture} --format pcs --function program"));
        assert_eq!(pcs.len() as u64, total);
        let own = program["own"]["instructions"].as_u64().expect("a number");
        assert!(own < total, "it calls others");
        // The calls that were under way when a window began count.
        let last = lines(&format!("flow {capture} --format pcs --function program --last 700"));
        assert!(last.len() > 100, "{}", last.len());
        assert_eq!(last, pcs[pcs.len() - last.len()..]);
        let counted = line(&format!("profile {capture} --function program --last 700")).done().out;
        assert!(counted.starts_with(&format!("{} instructions in ", last.len())), "{counted}");
    }
}

#[test]
fn packets_of_a_function_are_those_that_report_something_of_it() {
    let calls = repository().join("testdata/captures/calls-aarch64").display().to_string();
    let indexes = |text: &str| -> BTreeSet<u64> {
        let lines = line(&format!("{text} --format json --quiet")).done().out;
        let json = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        json.map(|object| object["index"].as_u64().expect("a number")).collect()
    };
    for capture in [riscv(), calls] {
        let (packets, all) = (indexes(&format!("packets {capture}")), indexes(&format!("flow {capture}")));
        for function in ["ackermann", "program"] {
            for window in ["", "--last 3000", "--from #500 --to #2000"] {
                let wanted = indexes(&format!("flow {capture} --function {function} {window}"));
                let listed = indexes(&format!("packets {capture} --function {function} {window}"));
                let what = format!("{capture} {function} {window}");
                assert!(listed.is_superset(&wanted) && listed.is_subset(&packets), "{what}");
                let others: Vec<_> =
                    listed.iter().filter(|index| all.contains(index) && !wanted.contains(index)).collect();
                assert!(others.is_empty(), "{what}: {others:?}");
                assert!(!wanted.is_empty() && listed.len() < packets.len(), "{what}");
            }
        }
        let text = line(&format!("packets {capture} --function ackermann")).done();
        assert!(text.out.starts_with("# ") && text.err.contains("of --function ackermann"), "{}", text.err);
        let limited = line(&format!("packets {capture} --function ackermann --limit 3 --format json")).done();
        assert_eq!(limited.out.lines().count(), 3);
        line(&format!("packets {capture} --function nobody")).could_not("nobody");
    }
}

#[test]
fn a_thread_is_chosen_by_its_number_and_a_context_by_its_identifier() {
    let calls = repository().join("testdata/captures/calls-aarch64").display().to_string();
    let pcs = |options: &str| line(&format!("flow {calls} --format pcs --quiet {options}")).done().out;
    let all = pcs("");
    assert!(!all.is_empty());
    assert_eq!(
        [pcs("--thread 12210"), pcs("--context 12210"), pcs("--context 5 --thread 12210")],
        [(); 3].map(|()| all.clone())
    );
    assert_eq!(pcs("--thread 7"), "");
    let counted = |options: &str| line(&format!("profile {calls} {options}")).done().out;
    assert_eq!(counted("--thread 12210").lines().next(), counted("").lines().next());
    line(&format!("profile {calls} --thread 7")).could_not("--thread");
    let packets =
        |options: &str| line(&format!("packets {calls} --quiet --format json {options}")).done().out;
    assert!(packets("--thread 12210").lines().count() > 100);
    assert_eq!(packets("--thread 7"), "");
    let scratch = Scratch::new();
    let report = scratch.path("report.html").display().to_string();
    line(&format!("report {calls} --function ackermann -o {report}")).done();
    assert!(std::fs::read_to_string(report).expect("a report").contains("--function ackermann"));
}

#[test]
fn a_trace_from_its_beginning_does_not_begin_with_a_gap() {
    for capture in ["FIRST", &riscv()] {
        let run = line(&format!("flow {capture}")).done();
        assert!(!run.out.contains("gap:") && !run.err.contains("gap"), "{}", run.err);
    }
    let mut stream = vec![0xF7; 40];
    stream.extend_from_slice(&first_stream());
    let run = backsight_reading(&words(&format!("flow - {FIRST_CONFIG}")), &[&stream]).done();
    assert!(run.out.contains("gap: not synchronised yet"), "{}", run.out);
}

#[test]
fn calls_and_disassembly_are_refused_where_a_format_has_no_room_for_them() {
    for format in ["opencsd", "pcs", "branches"] {
        for option in ["--calls", "--calls=tree", "--disasm"] {
            line(&format!("flow FIRST --format {format} {option}"))
                .wrong_use("is for --format text and json");
        }
    }
    line("flow FIRST --calls=upwards").wrong_use("tree");
}

#[test]
fn calls_are_as_deep_whatever_the_filter_lists() {
    let capture = riscv();
    let all = line(&format!("flow {capture} --calls --quiet")).done().out;
    let depth = |line: &str| line[4..].len() - line[4..].trim_start().len();
    for name in ["start", "program", "ackermann"] {
        let some = line(&format!("flow {capture} --calls --quiet --function {name}")).done().out;
        // The outermost call of it that is under way.
        let mut around = None;
        let is_inside = |line: &&str| {
            around = around.filter(|&around| depth(line) >= around);
            if around.is_none() && line[4..].trim_start().starts_with(&format!("{name} ")) {
                around = Some(depth(line));
            }
            around.is_some()
        };
        assert_eq!(some.lines().collect::<Vec<_>>(), all.lines().filter(is_inside).collect::<Vec<_>>());
    }
    // Calls less returns: the program has neither tail calls nor gaps so far.
    let (mut depth, mut expected) = (0, 0);
    for range in json(&format!("flow {capture}")) {
        depth += match range["last"].as_str() {
            Some("call" | "indirect call") => 1,
            Some("return") => -1,
            _ => 0,
        };
        expected = expected.max(depth);
    }
    let deepest =
        json(&format!("flow {capture} --calls")).iter().filter_map(|line| line["depth"].as_u64()).max();
    assert_eq!(deepest, u64::try_from(expected).ok());
}

#[test]
fn a_call_tree_adds_up_to_what_was_executed() {
    let capture = riscv();
    let nodes = json(&format!("flow {capture} --calls=tree"));
    let own: u64 = nodes.iter().map(|node| node["own"]["instructions"].as_u64().expect("a number")).sum();
    assert_eq!((own, &nodes[0]["total"]["instructions"]), (40000, &40000.into()));
    assert_eq!((&nodes[0]["function"], &nodes[0]["depth"]), (&"_start".into(), &0.into()));
}

#[test]
fn names_from_a_file_cannot_move_the_cursor() {
    let scratch = Scratch::new();
    let elf = scratch.file("code.elf", elf_with_symbols(b"a\x1b[2J"));
    for options in ["", "--calls", "--calls=tree", "--format json", "--calls --format json"] {
        let run = line(&format!("flow FIRST --quiet {options} --image {}", elf.display())).done();
        assert!(!run.out.contains('\x1b') && run.out.contains("[2J"), "{options}: {}", run.out);
    }
}

#[test]
fn no_progress_is_shown_on_the_lines_of_a_listing() {
    let script = std::path::Path::new("/usr/bin/script");
    if !script.exists() {
        return backsight_testing::skipped("no /usr/bin/script to make a terminal with");
    }
    let (capture, program) = (riscv(), env!("CARGO_BIN_EXE_backsight"));
    let run = |options: &str| {
        let inner = format!("{program} flow {capture} --disasm {options}");
        let mut outer = std::process::Command::new(script);
        outer.args(["-qefc", &inner, "/dev/null"]).stdin(std::process::Stdio::null());
        String::from_utf8_lossy(&outer.output().expect("script").stdout).into_owned()
    };
    let listed = run("--color never");
    assert!(listed.lines().count() > 40_000 && !listed.contains('\x1b'), "a bar is among the lines");
}
