//! What is written is what the formats say, and what their readers take.

mod analysis;
mod hostile_names;
mod page;
mod probes;
mod readers;
#[path = "../support/mod.rs"]
mod support;
mod well_formed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backsight::Capture;
use backsight_profile::export::{Coverage, ExportOptions, FORMATS, Format, sample_profile};
use backsight_profile::{CountOptions, Profile, count};
use serde_json::Value;

fn capture(name: &str) -> PathBuf {
    backsight_testing::repository().join("testdata/captures").join(name)
}

fn profile_of(path: &Path) -> Profile {
    let capture = Capture::open(path).expect("a capture");
    let options = CountOptions { timeline: 10_000, paths: 4, ..CountOptions::default() };
    count(&capture, capture.execution(), &options).expect("a profile").0
}

fn exported(profile: &Profile, format: &str) -> Vec<u8> {
    let options = ExportOptions { title: "a <test> & \"more\"".to_owned(), ..ExportOptions::default() };
    let mut out = Vec::new();
    let format = Format::named(format).expect("a format of that name");
    format.write(profile, &options, &mut out).expect("memory takes everything");
    out
}

fn text(profile: &Profile, format: &str) -> String {
    String::from_utf8(exported(profile, format)).expect("text")
}

fn json(profile: &Profile, format: &str) -> Value {
    serde_json::from_slice(&exported(profile, format)).expect("JSON")
}

#[test]
fn every_format_has_a_name_of_its_own_and_writes_every_capture() {
    let mut names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FORMATS.len());
    for name in ["calls-riscv64", "calls-aarch64", "interwork-arm"] {
        let profile = profile_of(&capture(name));
        for format in FORMATS {
            assert!(!exported(&profile, format.name).is_empty(), "{name}, {}", format.name);
        }
    }
}

#[test]
fn a_capture_without_names_is_written_as_far_as_it_goes_and_the_rest_is_said() {
    let profile = profile_of(&capture("first"));
    for format in FORMATS {
        let mut out = Vec::new();
        let written = format.write(&profile, &ExportOptions::default(), &mut out);
        let missing = format.missing(&profile, &ExportOptions::default());
        match format.name {
            "llvm" | "llvm-binary" | "gcc" | "fdata" | "lcov" | "cobertura" => {
                assert!(out.is_empty(), "{}", format.name);
                let why = written.expect_err(format.name).to_string();
                assert!(why.contains("lines") || why.contains("symbols"), "{}: {why}", format.name);
            }
            _ => written.expect(format.name),
        }
        if matches!(format.name, "llvm" | "collapsed" | "pprof") {
            assert!(missing.iter().any(|what| what.contains("symbols")), "{}: {missing:?}", format.name);
        }
    }
}

#[test]
fn samples_of_a_location_are_the_greatest_count_of_its_instructions() {
    let profile = profile_of(&capture("calls-aarch64"));
    let functions = sample_profile(&profile).expect("lines");
    let ackermann = &functions["ackermann"];
    let counted = profile.functions.iter().find(|one| one.name == "ackermann").expect("the function");
    // The loop back to its first instruction enters it as well, by the rules of the format.
    assert!(ackermann.head >= counted.entries, "{} {}", ackermann.head, counted.entries);
    let most =
        profile.blocks.iter().filter(|block| profile.functions[block.function as usize].name == "ackermann");
    let most = most.map(|block| block.count).max().unwrap_or(0);
    let body = ackermann.body.values().map(|samples| samples.count).max().unwrap_or(0);
    assert!(body >= most, "{body} {most}");
    let targets: u64 = ackermann.body.values().filter_map(|samples| samples.targets.get("ackermann")).sum();
    assert_eq!(targets + outside(&profile, "ackermann"), ackermann.head);
}

/// Entries of a function from other functions.
fn outside(profile: &Profile, name: &str) -> u64 {
    let function = profile.functions.iter().position(|one| one.name == name).expect("the function") as u32;
    let start = profile.functions[function as usize].start;
    let edges = profile.edges.iter().filter(|edge| {
        let (from, to) = (&profile.blocks[edge.from as usize], &profile.blocks[edge.to as usize]);
        edge.kind.is_branch() && from.function != function && Some(to.start) == start
    });
    edges.map(|edge| edge.count).sum()
}

#[test]
fn collapsed_stacks_add_up_to_all_instructions() {
    for name in ["calls-riscv64", "calls-aarch64"] {
        let profile = profile_of(&capture(name));
        let text = text(&profile, "collapsed");
        let sum: u64 = text
            .lines()
            .map(|line| line.rsplit_once(' ').expect("a cost").1.parse::<u64>().expect("a number"))
            .sum();
        assert_eq!(sum, profile.totals.instructions);
        assert!(text.contains("_start;start;program;ackermann"), "{text}");
    }
}

#[test]
fn speedscope_calls_open_and_close_inside_of_each_other() {
    let profile = profile_of(&capture("calls-riscv64"));
    let file = json(&profile, "speedscope");
    let frames = file["shared"]["frames"].as_array().expect("frames").len() as u64;
    let evented = file["profiles"].as_array().expect("profiles").iter().find(|one| one["type"] == "evented");
    let evented = evented.expect("calls over time");
    let (mut open, mut last, mut count) = (Vec::new(), 0, 0);
    for event in evented["events"].as_array().expect("events") {
        let (frame, at) = (event["frame"].as_u64().expect("a frame"), event["at"].as_u64().expect("a time"));
        assert!(frame < frames && at >= last, "{event}");
        last = at;
        count += 1;
        match event["type"].as_str() {
            Some("O") => open.push(frame),
            Some("C") => assert_eq!(open.pop(), Some(frame), "{event}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty() && count > 1000, "{count} events");
    assert!(last <= evented["endValue"].as_u64().expect("an end"));
    let sampled = file["profiles"].as_array().expect("profiles").iter().find(|one| one["type"] == "sampled");
    let weights = sampled.expect("sums")["weights"].as_array().expect("weights").iter();
    assert_eq!(weights.filter_map(Value::as_u64).sum::<u64>(), profile.totals.instructions);
}

#[test]
fn chrome_slices_of_a_thread_nest() {
    let profile = profile_of(&capture("calls-aarch64"));
    let file = json(&profile, "chrome");
    let mut open: Vec<f64> = Vec::new();
    let mut count = 0;
    for event in file["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "X") {
        let begin = event["ts"].as_f64().expect("a time");
        let end = begin + event["dur"].as_f64().expect("a duration");
        while open.last().is_some_and(|&around| around <= begin + 1e-9) {
            open.pop();
        }
        assert!(open.last().is_none_or(|&around| end <= around + 1e-9), "{event} ends after {open:?}");
        open.push(end);
        count += 1;
    }
    assert!(count > 1000, "{count} slices");
}

#[test]
fn firefox_tables_are_as_long_as_they_say_and_point_into_each_other() {
    let profile = profile_of(&capture("calls-aarch64"));
    let file = json(&profile, "firefox");
    let thread = &file["threads"][0];
    for table in
        ["samples", "stackTable", "frameTable", "funcTable", "resourceTable", "markers", "nativeSymbols"]
    {
        let length = thread[table]["length"].as_u64().expect("a length");
        for (name, column) in thread[table].as_object().expect("a table") {
            let column = column.as_array().map(|column| column.len() as u64);
            assert!(column.is_none_or(|column| column == length), "{table}.{name}");
        }
    }
    let inside = |table: &str, column: &str, into: &str| {
        let most = match into {
            "stringArray" => thread[into].as_array().expect("strings").len() as u64,
            into => thread[into]["length"].as_u64().expect("a length"),
        };
        let column = thread[table][column].as_array().expect("a column");
        assert!(column.iter().filter_map(Value::as_u64).all(|number| number < most), "{table} into {into}");
    };
    inside("samples", "stack", "stackTable");
    inside("stackTable", "prefix", "stackTable");
    inside("stackTable", "frame", "frameTable");
    inside("frameTable", "func", "funcTable");
    inside("funcTable", "name", "stringArray");
    inside("funcTable", "resource", "resourceTable");
    let weights = thread["samples"]["weight"].as_array().expect("weights").iter().filter_map(Value::as_u64);
    assert_eq!(weights.sum::<u64>(), profile.totals.instructions);
}

#[test]
fn coverage_has_every_line_and_the_counts_of_those_that_ran() {
    let profile = profile_of(&capture("calls-aarch64"));
    let coverage = Coverage::of(&profile);
    let (_, file) = coverage.files.iter().find(|(name, _)| *name == "src/calls.c").expect("the file");
    let (covered, all) = file.line_sums();
    assert!(covered > 5 && covered < all, "{covered} of {all} lines");
    let (_, counts) = file.functions.iter().find(|((_, name), _)| name == "ackermann").expect("the function");
    assert!(counts.entries > 100, "{counts:?}");
    assert!(file.branches.values().any(|branch| !branch.is_executed()), "some branches never ran");
    assert!(file.branches.values().any(|branch| branch.covered() == 2));
    // What a branch of the line did is no more than what the line did.
    let hits: BTreeMap<u32, u64> = file.lines.clone();
    for ((line, _), branch) in &file.branches {
        assert!(branch.taken + branch.not_taken <= hits.get(line).copied().unwrap_or(u64::MAX), "{line}");
    }
}

#[test]
fn the_map_of_edges_is_the_same_for_the_same_run() {
    let map = exported(&profile_of(&capture("calls-riscv64")), "afl");
    assert_eq!(map.len(), 1 << 16);
    assert_eq!(map, exported(&profile_of(&capture("calls-riscv64")), "afl"));
    assert_ne!(map, exported(&profile_of(&capture("calls-aarch64")), "afl"));
    assert!(map.iter().filter(|&&count| count > 0).count() > 10);
}

#[test]
fn ranges_of_an_address_format_cover_all_instructions() {
    let profile = profile_of(&capture("calls-aarch64"));
    let text = text(&profile, "profgen");
    let mut lines = text.lines();
    let count: usize = lines.next().and_then(|line| line.parse().ok()).expect("a number of ranges");
    let mut instructions = 0;
    for line in lines.by_ref().take(count) {
        let (range, count) = line.split_once(':').expect("a count");
        let (start, last) = range.split_once('-').expect("a range");
        let number = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
        instructions += ((number(last) - number(start)) / 4 + 1) * count.parse::<u64>().expect("a number");
    }
    assert_eq!(instructions, profile.totals.instructions);
    let branches: usize = lines.next().and_then(|line| line.parse().ok()).expect("a number of branches");
    assert_eq!(lines.count(), branches);
}
