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
fn calls_of_a_window_begin_with_those_under_way() {
    let capture = riscv();
    let all = lines(&format!("flow {capture} --calls"));
    // Somewhere deep in the program.
    let deep = lines(&format!("find {capture} --function ackermann --nth 8"));
    let moment = deep[0].split(' ').next().expect("a moment").to_owned();
    let window = lines(&format!("flow {capture} --calls --from {moment}"));
    let around: Vec<_> = window.iter().map_while(|line| line.strip_suffix("  under way")).collect();
    assert!(around.len() > 3, "{window:?}");
    assert_eq!(around[..4], ["0x01  _start", "0x01    start", "0x01      program", "0x01        ackermann"]);
    // A call begins: what is listed after that is what is listed of the whole.
    let rest = &window[around.len()..];
    assert_eq!(rest, &all[all.len() - rest.len()..]);
    let json = lines(&format!("flow {capture} --calls --format json --from {moment}"));
    let first: serde_json::Value = serde_json::from_str(&json[0]).expect("JSON");
    assert_eq!((&first["event"], &first["function"]), (&"under_way".into(), &"_start".into()), "{first}");
    assert_eq!(json.iter().filter(|line| line.contains("\"under_way\"")).count(), around.len());
    // In the tree, callers have their place, and costs are those of the window.
    let tree = lines(&format!("flow {capture} --calls=tree --from {moment}"));
    let costs = |line: &String| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let total = lines(&format!("flow {capture} --format pcs --from {moment}")).len().to_string();
    let outermost = costs(&tree[1]);
    assert_eq!((outermost[0].as_str(), outermost[1].as_str()), ("0", total.as_str()), "{tree:?}");
    assert_eq!(outermost.last().map(String::as_str), Some("_start"), "{tree:?}");
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
