//! `--from`, `--to`, `--last` and `--around`: what lies between two moments.

use backsight_testing::repository;

use crate::support::line;

fn riscv() -> String {
    repository().join("testdata/captures/calls-riscv64").display().to_string()
}

fn lines(arguments: &str) -> Vec<String> {
    line(&format!("{arguments} --quiet")).done().out.lines().map(str::to_owned).collect()
}

#[test]
fn windows_are_the_lines_that_they_name() {
    for capture in ["FIRST", &riscv()] {
        let all = lines(&format!("flow {capture} --format pcs"));
        let count = all.len();
        assert!(count > 1000, "{count}");
        for (window, expected) in [
            ("--from #10 --to #500".to_owned(), 10..500),
            ("--to 0x10".replace("0x10", "#0x10"), 0..16),
            ("--from #1000".to_owned(), 1000..count),
            ("--last 7".to_owned(), count - 7..count),
            ("--last 99999999".to_owned(), 0..count),
            ("--from end-100 --to end-50".to_owned(), count - 100..count - 50),
            ("--around #300".to_owned(), 200..400),
            ("--around #20".to_owned(), 0..120),
            ("--around end-10".to_owned(), count - 110..count),
            ("--from start --to end".to_owned(), 0..count),
            ("--from #5 --to #5".to_owned(), 5..5),
            (format!("--around #{count}"), count - 100..count),
            ("--from @0".to_owned(), 0..count),
        ] {
            let given = lines(&format!("flow {capture} --format pcs {window}"));
            assert_eq!(given, all[expected], "{capture} {window}");
        }
    }
}

#[test]
fn a_window_of_everything_is_the_listing() {
    let capture = riscv();
    for options in [
        "flow FIRST",
        "flow FIRST --format json",
        "flow FIRST --format opencsd",
        "flow FIRST --disasm",
        &format!("flow {capture} --calls"),
        &format!("flow {capture} --calls=tree"),
        &format!("flow {capture} --format branches"),
        &format!("flow {capture} --function ackermann"),
        &format!("flow {capture} --format json"),
    ] {
        let (all, window) =
            (line(&format!("{options} --quiet")), line(&format!("{options} --quiet --from start")));
        assert_eq!(all.done().out, window.done().out, "{options}");
    }
}

#[test]
fn windows_by_time_meet() {
    let events = |window: &str| lines(&format!("flow FIRST {window}"));
    let all = events("");
    let time = all.iter().find_map(|line| Some(line.split("timestamp ").nth(1)?.to_owned()));
    let time = time.expect("a timestamp");
    let time = time.split(' ').next().expect("a number");
    let (before, after) = (events(&format!("--to t{time}")), events(&format!("--from t{time}")));
    assert!(!before.is_empty() && !after.is_empty(), "t{time}");
    assert_eq!([before, after].concat(), all);
}

#[test]
fn what_was_looked_at_is_said() {
    let run = line("flow FIRST --last 5 --format pcs").done();
    assert!(run.err.contains("5 instructions from ") && run.err.contains(" decoded"), "{}", run.err);
    let run = line(&format!("flow {} --from #5 --to #9 --format pcs", riscv())).done();
    assert!(run.err.contains("4 instructions from #5 to #9"), "{}", run.err);
}

#[test]
fn windows_that_make_no_sense_are_refused() {
    for (arguments, says) in [
        ("flow FIRST --from 17", "a moment is #INSTRUCTION"),
        ("flow FIRST --last 5 --from #3", "cannot be used with"),
        ("flow FIRST --around #3 --to #9", "cannot be used with"),
        ("flow FIRST --all --last 5", "--all has one time axis"),
        ("flow FIRST --truth --last 5", "--truth takes the whole execution"),
        ("flow FIRST --from 1ms", "how fast its timestamps count"),
    ] {
        line(arguments).wrong_use(says);
    }
    for (arguments, says) in [
        ("flow FIRST --from #99999999", "--from #99999999: no source of"),
        ("flow FIRST --around t0xffffffffffff", "comes to that moment"),
    ] {
        line(&format!("{arguments} --quiet")).could_not(says);
    }
}
