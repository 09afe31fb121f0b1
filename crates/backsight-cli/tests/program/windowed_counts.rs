//! `profile`, `report` and `packets` of windows, and `--compare`: the counts are those of what `flow` lists in the same window.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backsight_testing::repository;
use serde_json::Value;

use crate::support::{Scratch, line};

/// Counts by name, or by address.
type Sums = BTreeMap<String, u64>;

fn bundled(name: &str) -> PathBuf {
    repository().join("testdata/captures").join(name)
}

/// Captures of all protocols that trace execution: the bundled ones, and what they executed traced by other units; and a damaged one.
fn captures(scratch: &Scratch) -> Vec<String> {
    let mut captures: Vec<_> =
        ["first", "calls-aarch64", "calls-riscv64", "interwork-arm"].map(bundled).into();
    for (from, unit) in [
        ("calls-riscv64", "ntrace"),
        ("calls-aarch64", "ete"),
        ("interwork-arm", "ptm"),
        ("interwork-arm", "etm3"),
    ] {
        let target = scratch.path(unit);
        let arguments = format!("--unit {unit} --quiet -o {}", target.display());
        line(&format!("encode {} {arguments}", bundled(from).display())).done();
        captures.push(target);
    }
    captures.push(damaged(scratch, &bundled("calls-aarch64")));
    captures.into_iter().map(|path| path.display().to_string()).collect()
}

/// The same with some bytes of its trace changed, here and there.
fn damaged(scratch: &Scratch, capture: &Path) -> PathBuf {
    let copy = scratch.copy_of(capture, "damaged");
    let mut trace = std::fs::read(copy.join("trace.bin")).expect("trace");
    let length = trace.len();
    (1..12).for_each(|number| trace[number * length / 12] ^= 0x5A);
    std::fs::write(copy.join("trace.bin"), trace).expect("written");
    copy
}

fn pcs(capture: &str, window: &str) -> Vec<u64> {
    let listed = line(&format!("flow {capture} --format pcs --quiet {window}")).done().out;
    listed.lines().map(hexadecimal).collect()
}

#[track_caller]
fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address")
}

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().skip(1).map(|line| line.split(',').collect())
}

/// How often each instruction was executed, by the table of blocks: at addresses that flow lists.
fn by_address(capture: &str, window: &str, addresses: &[u64]) -> BTreeMap<u64, u64> {
    let table = line(&format!("profile {capture} --format blocks --quiet {window}")).done().out;
    let mut sums = BTreeMap::new();
    for row in rows(&table) {
        let (start, end) = (hexadecimal(row[0]), hexadecimal(row[1]));
        let count: u64 = row[3].parse().expect("a count");
        for &address in addresses.iter().filter(|address| (start..end).contains(*address)) {
            *sums.entry(address).or_default() += count;
        }
    }
    sums
}

/// Instructions and entries of each function.
fn by_function(capture: &str, window: &str) -> (Sums, Sums) {
    let table = line(&format!("profile {capture} --format functions --quiet {window}")).done().out;
    let column = |number: usize| {
        let mut sums = Sums::new();
        for row in rows(&table) {
            *sums.entry(format!("{} {}", row[1], row[3])).or_default() +=
                row[number].parse::<u64>().expect("a count");
        }
        sums.retain(|_, count| *count > 0);
        sums
    };
    (column(5), column(4))
}

fn added(mut one: Sums, other: Sums) -> Sums {
    other.into_iter().for_each(|(name, count)| *one.entry(name).or_default() += count);
    one
}

#[test]
fn the_profile_of_a_window_counts_what_flow_lists_in_it() {
    let scratch = Scratch::new();
    for capture in captures(&scratch) {
        let count = pcs(&capture, "").len();
        assert!(count > 500, "{capture}: {count}");
        let (third, half) = (count / 3, count / 2);
        for window in [
            format!("--from #{third} --to #{}", third + 77),
            format!("--from #7 --to #{half}"),
            format!("--around #{half}"),
            "--last 33".to_owned(),
            "--to end".to_owned(),
            "--from @0x40 --to @0x80".to_owned(),
        ] {
            let listed = pcs(&capture, &window);
            if listed.is_empty() {
                continue;
            }
            let mut expected = BTreeMap::new();
            listed.iter().for_each(|address| *expected.entry(*address).or_default() += 1);
            let addresses: Vec<u64> = expected.keys().copied().collect();
            assert_eq!(by_address(&capture, &window, &addresses), expected, "{capture} {window}");
            let total: u64 = by_function(&capture, &window).0.values().sum();
            assert_eq!(total, listed.len() as u64, "{capture} {window}");
        }
    }
}

#[test]
fn windows_that_meet_add_up_to_the_window_that_they_make() {
    let scratch = Scratch::new();
    for capture in captures(&scratch) {
        let count = pcs(&capture, "").len();
        for (a, b, c) in [(10, 11, 12), (5, count / 4, count / 2), (count / 3, count / 2, count)] {
            let of = |from: usize, to: usize| by_function(&capture, &format!("--from #{from} --to #{to}"));
            let (one, other, both) = (of(a, b), of(b, c), of(a, c));
            assert_eq!(added(one.0, other.0), both.0, "instructions: {capture} {a} {b} {c}");
            // The step between the two is in neither, so that a loop to the first instruction of a function looks like its beginning.
            let entries: u64 = added(one.1, other.1).values().sum();
            let expected: u64 = both.1.values().sum();
            assert!(
                (expected..=expected + 1).contains(&entries),
                "{capture} {a} {b} {c}: {entries} {expected}"
            );
        }
    }
}

#[test]
fn a_profile_by_an_index_is_the_same_as_without() {
    let scratch = Scratch::new();
    for name in ["first", "calls-aarch64", "calls-riscv64"] {
        let capture = scratch.copy_of(&bundled(name), name).display().to_string();
        let answers = || {
            [
                "profile CAPTURE --last 500",
                "profile CAPTURE --from #900 --to #1200 --format json",
                "packets CAPTURE --around #700",
            ]
            .map(|arguments| line(&format!("{} --quiet", arguments.replace("CAPTURE", &capture))).done().out)
        };
        let without = answers();
        line(&format!("index {capture} --quiet")).done();
        assert_eq!(answers(), without, "{name}");
    }
}

#[test]
fn packets_of_windows_that_meet_are_all_packets() {
    let scratch = Scratch::new();
    for capture in captures(&scratch) {
        let packets = |window: &str| {
            let listed = line(&format!("packets {capture} --quiet {window}")).done().out;
            let (headers, lines): (Vec<_>, Vec<_>) =
                listed.lines().map(str::to_owned).partition(|line| line.starts_with('#'));
            (headers, lines)
        };
        let (headers, all) = packets("");
        assert_eq!(headers, [""; 0], "{capture}");
        let half = pcs(&capture, "").len() / 2;
        for (one, other) in [
            (format!("#{half}"), format!("#{}", half + 60)),
            ("@0x40".to_owned(), "@0x91".to_owned()),
            ("start".to_owned(), "end-20".to_owned()),
        ] {
            let windows =
                [format!("--to {one}"), format!("--from {one} --to {other}"), format!("--from {other}")];
            let parts: Vec<_> = windows
                .iter()
                .filter(|window| *window != "--to start")
                .map(|window| packets(window))
                .collect();
            assert!(
                parts.iter().all(|(headers, _)| headers.iter().any(|line| line.contains("packets from @")))
            );
            let joined: Vec<String> = parts.into_iter().flat_map(|(_, lines)| lines).collect();
            assert_eq!(joined, all, "{capture} {one} {other}");
        }
    }
}

#[test]
fn the_packets_of_a_window_are_those_that_report_it() {
    let capture = bundled("calls-riscv64").display().to_string();
    let listed = line(&format!("flow {capture} --from #1000 --to #9000 --format json --quiet")).done().out;
    let index = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["index"].as_u64();
    let first = listed.lines().find_map(index).expect("an index");
    let packets =
        line(&format!("packets {capture} --from #1000 --to #9000 --format json --quiet")).done().out;
    assert_eq!(packets.lines().next().and_then(index), Some(first));
    let run = line(&format!("packets {capture} --from #1000 --to #9000 --format summary")).done();
    let said = format!("{} packet", packets.lines().count());
    assert!(run.err.contains(&said) && run.err.contains(" decoded"), "{said}: {}", run.err);
}

#[test]
fn a_report_of_a_window_has_its_counts() {
    let capture = bundled("calls-aarch64").display().to_string();
    let page = line(&format!("report {capture} --from #1000 --to #3000 --quiet")).done().out;
    assert!(page.contains("\"instructions\":2000,"), "the window has 2000 instructions");
    assert!(page.contains("2000 instructions from #1000 to #3000"), "the facts say which");
}

#[test]
fn a_comparison_has_the_counts_of_both_sides() {
    let capture = bundled("calls-aarch64").display().to_string();
    let (this, other) =
        (by_function(&capture, "--to #9000").0, by_function(&capture, "--from #9000 --to #30000").0);
    let command = format!("profile {capture} --to #9000 --compare-from #9000 --compare-to #30000 --quiet");
    let json = line(&format!("{command} --format json")).done().out;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["this"]["instructions"], &json["other"]["instructions"]),
        (&9000.into(), &21000.into())
    );
    let functions = json["functions"].as_array().expect("functions");
    let sums = |side: &str| {
        let counts = functions.iter().map(|row| row[side]["instructions"].as_u64().expect("a number"));
        counts.filter(|count| *count > 0).collect::<Vec<_>>()
    };
    let sorted = |mut counts: Vec<u64>| {
        counts.sort_unstable();
        counts
    };
    assert_eq!(sorted(sums("this")), sorted(this.values().copied().collect()));
    assert_eq!(sorted(sums("other")), sorted(other.values().copied().collect()));
    let differences: Vec<i64> =
        functions.iter().map(|row| row["difference"].as_i64().expect("a number")).collect();
    assert!(
        differences.is_sorted_by_key(|difference| std::cmp::Reverse(difference.abs())),
        "{differences:?}"
    );
    assert_eq!(differences.iter().sum::<i64>(), 12_000);
    let lines = json["lines"].as_array().expect("lines").iter();
    let of_lines: u64 = lines.map(|row| row["this"].as_u64().expect("a number")).sum();
    assert_eq!(of_lines + json["this"]["without_line"].as_u64().expect("a number"), 9000);
    let text = line(&command).done().out;
    assert!(text.contains("this ") && text.contains("9000 instructions") && text.contains("ratio"), "{text}");
}

#[test]
fn a_capture_beside_itself_has_no_differences() {
    let capture = bundled("calls-riscv64").display().to_string();
    let json = line(&format!("profile {capture} --compare {capture} --format json --quiet")).done().out;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    for row in json["functions"].as_array().expect("functions") {
        assert_eq!(row["difference"], 0, "{row}");
        assert!(row["ratio"].is_null() || row["ratio"] == 1.0, "{row}");
    }
    let page = line(&format!("report {capture} --compare {capture} --quiet")).done().out;
    assert!(page.contains("\"compare\":{\"functions\":[["), "the page has the comparison");
}

#[test]
fn one_time_axis_has_windows_by_time() {
    let all = line("flow FIRST --all --quiet").done().out;
    let all: Vec<&str> = all.lines().collect();
    let windows = ["--to t0x100000800", "--from t0x100000800"]
        .map(|window| line(&format!("flow FIRST --all --quiet {window}")).done().out);
    assert!(windows.iter().all(|window| !window.is_empty()));
    assert_eq!(windows.concat().lines().collect::<Vec<_>>(), all);
}

#[test]
fn windows_and_comparisons_that_make_no_sense_are_refused() {
    for (arguments, says) in [
        ("profile FIRST --last 5 --from #3", "cannot be used with"),
        ("report FIRST --around 17", "a moment is #INSTRUCTION"),
        ("packets FIRST --last five", "invalid digit"),
        ("profile FIRST --time 5..0x10", "--from t0x5 --to t0x10"),
        ("flow FIRST --time 5..", "--from t0x5"),
        ("flow FIRST --all --from #5", "times as in t5000"),
        ("profile FIRST --compare FIRST --format lcov", "--format json"),
        ("profile FIRST --compare FIRST --scale 2", "--compare cannot be used with --scale"),
        ("profile - --protocol etm4 --compare FIRST", "read once"),
    ] {
        line(arguments).wrong_use(says);
    }
    for (arguments, says) in [
        ("profile FIRST --from #99999999", "--from #99999999: no source of"),
        ("report FIRST --from t0xffffffffffff", "comes to that moment"),
        ("packets FIRST --from #99999999", "comes to that moment"),
        ("flow FIRST --all --from t0xffffffffffff", "comes to that moment"),
        ("profile FIRST --compare /nowhere", "/nowhere"),
    ] {
        line(&format!("{arguments} --quiet")).could_not(says);
    }
}
