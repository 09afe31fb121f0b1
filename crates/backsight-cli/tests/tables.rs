//! `export` and `pieces`, as users meet them; in a build with tables.

mod support;

use std::process::Output;

use support::{Scratch, run};

fn capture(name: &str) -> String {
    backsight_testing::repository().join("testdata/captures").join(name).display().to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn parquet_is_written_once_and_then_kept() {
    let scratch = Scratch::new("export");
    let folder = scratch.path("out").display().to_string();
    let arguments =
        ["export", &capture("first"), &capture("calls-riscv64"), "--table", "all", "--parquet", &folder];
    let first = run(&arguments);
    assert!(first.status.success(), "{}", said(&first));
    assert!(said(&first).contains("0 there already"), "{}", said(&first));
    let part = scratch.path("out/ranges/capture=first/source=16/part-0.parquet");
    assert!(std::fs::read(part).expect("a part").starts_with(b"PAR1"));
    let again = run(&arguments);
    assert!(again.status.success() && said(&again).contains(": 0 written, "), "{}", said(&again));
    // Files that are laid out in another way are other files.
    for other in [["--compression", "none"], ["--row-group", "50"]] {
        let written = run(&[arguments.as_slice(), other.as_slice()].concat());
        assert!(
            written.status.success() && said(&written).contains(", 0 there already"),
            "{}",
            said(&written)
        );
    }
}

#[test]
fn a_stream_of_arrow_goes_to_standard_output() {
    let output =
        run(&["export", &capture("first"), "--columns", "start,function", "--limit", "10", "--arrow", "-"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(output.stdout.starts_with(&[0xFF; 4]), "{:?}", &output.stdout[..output.stdout.len().min(16)]);
    assert_eq!(said(&output).trim(), "10 rows");
}

#[test]
fn a_capture_that_cannot_be_read_is_not_the_end() {
    let scratch = Scratch::new("export-bad");
    let (folder, bad) =
        (scratch.path("out").display().to_string(), scratch.path("bad").display().to_string());
    let output = run(&["export", &bad, &capture("first"), "--parquet", &folder]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("1 of 2 captures could not be read"), "{}", said(&output));
    assert!(scratch.path("out/ranges/capture=first/source=16/part-0.parquet").exists());
    assert!(
        scratch
            .path("out/damage/capture=bad/source=__HIVE_DEFAULT_PARTITION__/part-unreadable.parquet")
            .exists()
    );
}

#[test]
fn what_makes_no_sense_is_wrong_use() {
    let first = capture("first");
    let cases: [(&[&str], &str); 12] = [
        (&["--columns", "strat", "--arrow", "/dev/null"], "column `strat`: table ranges has"),
        (
            &["--where", "start == 'x'", "--arrow", "/dev/null"],
            "filter, at character 10: column `start` is uint64",
        ),
        (&["--table", "rangs", "--arrow", "/dev/null"], "table `rangs`: there are sources, packets"),
        (&["--table", "ranges,calls", "--arrow", "/dev/null"], "one table"),
        (&["--table", "ranges,ranges", "--parquet", "/dev/null/x"], "named twice"),
        (&["--buffer", "nothing", "--arrow", "/dev/null"], "nothing"),
        (&["--id", "99", "--arrow", "/dev/null"], "--id 0x63: no source has it"),
        (&[], "--parquet"),
        (&["--compression", "zip", "--parquet", "/dev/null/x"], "possible values: none, snappy"),
        (&["--row-group", "0", "--parquet", "/dev/null/x"], "0 is not in 1.."),
        (&["--row-group", "5", "--arrow", "/dev/null"], "cannot be used with '--arrow <FILE>'"),
        (
            &["--image", "missing.elf", "--parquet", "/dev/null/x"],
            "--image missing.elf: there is no such file",
        ),
    ];
    for (arguments, expected) in cases {
        let output = run(&[&["export", &first], arguments].concat());
        assert!(
            !output.status.success() && said(&output).contains(expected),
            "{arguments:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn pieces_are_listed_for_people_and_for_programs() {
    let path = capture("calls-aarch64");
    let text = run(&["pieces", &path, "--bytes", "2000"]);
    assert!(text.status.success(), "{}", said(&text));
    let json = run(&["pieces", &path, "--bytes", "2000", "--json"]);
    let lines: Vec<_> = String::from_utf8_lossy(&json.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), String::from_utf8_lossy(&text.stdout).lines().count());
    assert!(lines.iter().all(|line| line.contains("\"identity\"") && line.contains("\"version\":3")));
    let output = run(&["pieces", "-", "--protocol", "etm4"]);
    assert!(!output.status.success());
    for (options, words) in [(["--id", "99"], "0x63"), (["--table", "nothing"], "events, damage, profile")] {
        let output = run(&[&["pieces", path.as_str()], options.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
}
