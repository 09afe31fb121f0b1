//! What the page is told, beside what `flow --calls`, `profile` and the library say.

use std::collections::{BTreeMap, HashMap};

use backsight::Capture;
use backsight::calls::ShadowStack;
use backsight::moments::{Moment, Window};
use backsight_profile::{CountOptions, count, count_windows};
use backsight_view::{View, ViewOptions};
use serde_json::Value;

const CAPTURES: [&str; 3] = ["calls-aarch64", "calls-riscv64", "interwork-arm"];

fn capture(name: &str) -> Capture {
    Capture::open(format!("../../testdata/captures/{name}")).expect("a capture of the repository")
}

/// Gives a view of captures to a test, with its index.
fn with_view<T>(captures: &[Capture], test: impl FnOnce(&View<'_>) -> T) -> T {
    let mut view = View::new(ViewOptions { threads: 2, ..ViewOptions::default() });
    for capture in captures {
        view.add(capture.name(), capture, capture.execution(), None).expect("it can be read");
    }
    std::thread::scope(|scope| {
        view.start(scope);
        view.wait();
        // A test that fails ends, too.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&view)));
        view.end();
        outcome.unwrap_or_else(|why| std::panic::resume_unwind(why))
    })
}

fn ask(view: &View<'_>, question: &str, values: &[(&str, &str)]) -> Value {
    let values: Vec<_> =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let answer = view.answer(question, &values);
    assert_eq!(answer.status, 200, "{question} {values:?}: {}", String::from_utf8_lossy(&answer.body));
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn calls(view: &View<'_>, from: u64, to: u64, columns: u32) -> Value {
    let (from, to, columns) = (from.to_string(), to.to_string(), columns.to_string());
    let values = [
        ("recording", "0"),
        ("source", "0"),
        ("from", &*from),
        ("to", &*to),
        ("columns", &*columns),
        ("rows", "512"),
    ];
    ask(view, "calls", &values)
}

/// Instructions of each function of its own, by depth, as stays of the whole execution up to a moment say it.
fn stays(capture: &Capture, from: u64, to: u64) -> BTreeMap<(u64, String), u64> {
    let source = &capture.execution().sources().expect("sources")[0];
    let mut stack = ShadowStack::new(capture.code().expect("code").seen_by(source));
    let mut sums = BTreeMap::new();
    let window =
        |from, to| Window { from: Some(Moment::Instruction(from)), to: Some(Moment::Instruction(to)) };
    let moments = capture.moments();
    let mut run = |window, is_wanted: bool| {
        let mut sink = |visit: backsight::calls::Visit<'_>| {
            if is_wanted {
                *sums.entry((visit.depth as u64, visit.function.to_string())).or_default() +=
                    visit.own.instructions;
            }
        };
        moments
            .run(capture.execution(), source, window, |item| stack.push(&item.value, &mut sink))
            .expect("a run");
        stack.flush(&mut sink);
    };
    run(window(0, from), false);
    run(window(from, to), true);
    sums.retain(|_, sum| *sum > 0);
    sums
}

/// The same from boxes: what a call has, without those in the row below it.
fn own(answer: &Value) -> BTreeMap<(u64, String), u64> {
    let (from, to) = (answer["from"].as_u64().expect("from"), answer["to"].as_u64().expect("to"));
    let mut sums: BTreeMap<(u64, String), i64> = BTreeMap::new();
    let number = |value: &Value| value.as_u64().expect("a number");
    let boxes: Vec<_> = answer["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| {
            let name = answer["names"][number(&call[4]).to_string()][0].as_str().expect("a name").to_owned();
            (number(&call[1]), number(&call[2]).max(from), number(&call[3]).min(to), name)
        })
        .collect();
    let mut by_row: HashMap<u64, Vec<&(u64, u64, u64, String)>> = HashMap::new();
    boxes.iter().for_each(|one| by_row.entry(one.0).or_default().push(one));
    for (row, begin, end, name) in &boxes {
        *sums.entry((*row, name.clone())).or_default() += (end - begin) as i64;
        let around = row
            .checked_sub(1)
            .and_then(|row| by_row.get(&row)?.iter().find(|one| one.1 <= *begin && one.2 >= *end));
        if let Some((row, _, _, name)) = around {
            *sums.entry((*row, name.clone())).or_default() -= (end - begin) as i64;
        } else {
            assert_eq!(*row, 0, "no call is around {name} at {begin}");
        }
    }
    sums.into_iter()
        .filter(|(_, sum)| *sum != 0)
        .map(|(key, sum)| (key, u64::try_from(sum).expect("no call is longer than the one around it")))
        .collect()
}

#[test]
fn calls_of_any_window_are_those_of_the_whole_execution() {
    for name in CAPTURES {
        let captures = [capture(name)];
        with_view(&captures, |view| {
            let overview = ask(view, "overview", &[]);
            let end = overview["recordings"][0]["sources"][0]["instructions"].as_u64().expect("instructions");
            assert!(end > 1_000, "{name}: {end}");
            for (from, length) in [(0, 3_000), (1, 1), (end / 3, 777), (end / 2, 4_000), (end - 900, 900)] {
                let to = (from + length).min(end);
                // A column for each instruction: nothing is too small.
                let answer = calls(view, from, to, (to - from) as u32);
                assert_eq!(answer["kind"], "all");
                assert!(answer["sums"].as_array().expect("sums").is_empty(), "{name}");
                assert_eq!(own(&answer), stays(&captures[0], from, to), "{name} #{from} to #{to}");
            }
        });
    }
}

#[test]
fn what_is_too_small_is_summed_up_and_nothing_is_lost() {
    let captures = [capture("calls-aarch64")];
    with_view(&captures, |view| {
        let fine = calls(view, 5_000, 9_000, 4_000);
        for columns in [400, 50, 7] {
            let answer = calls(view, 5_000, 9_000, columns);
            let number = |value: &Value| value.as_u64().expect("a number");
            let in_rows = |answer: &Value| {
                let mut rows: BTreeMap<u64, u64> = BTreeMap::new();
                for call in answer["calls"].as_array().expect("calls") {
                    *rows.entry(number(&call[1])).or_default() +=
                        number(&call[3]).min(9_000) - number(&call[2]).max(5_000);
                }
                for sum in answer["sums"].as_array().expect("sums") {
                    *rows.entry(number(&sum[1])).or_default() += number(&sum[5]);
                }
                rows
            };
            assert_eq!(in_rows(&answer), in_rows(&fine), "{columns} columns");
            let [calls, sums] =
                ["calls", "sums"].map(|what| answer[what].as_array().expect("a list").len() as u64);
            let rows = number(&answer["lanes"][0]["rows"]);
            assert!(sums > 0, "{columns} columns");
            // Each column of a row has one sum, and the end of one call and the beginning of another at most.
            assert!(
                calls + sums <= 3 * u64::from(columns) * rows,
                "{columns} columns: {calls} calls, {sums} sums"
            );
        }
    });
}

#[test]
fn profiles_of_windows_are_those_of_profile() {
    let captures = [capture("calls-aarch64")];
    let source = captures[0].execution().sources().expect("sources")[0].clone();
    with_view(&captures, |view| {
        let shown = |answer: &Value| {
            let list = answer["functions"].as_array().expect("functions").iter();
            let mut list: Vec<_> = list
                .map(|one| {
                    (
                        one["name"].as_str().expect("a name").to_owned(),
                        one["instructions"].as_u64(),
                        one["inclusive"].as_u64(),
                    )
                })
                .collect();
            list.sort();
            list
        };
        let counted = |profile: &backsight_profile::Profile| {
            let inclusive = profile.inclusive_instructions();
            let list = profile.functions.iter().zip(inclusive);
            let mut list: Vec<_> =
                list.map(|(one, sum)| (one.name.clone(), Some(one.instructions), Some(sum))).collect();
            list.sort();
            list
        };
        let window = Window { from: Some(Moment::Instruction(3_000)), to: Some(Moment::Instruction(11_000)) };
        let moments = captures[0].moments();
        let decode = captures[0].execution();
        let (part, _) = count_windows(
            &captures[0],
            &moments,
            decode,
            vec![(source, window)],
            &CountOptions::default(),
            1,
        )
        .expect("a profile");
        assert_eq!(shown(&ask(view, "profile", &[("w", "0.0:3000-11000")])), counted(&part));
        let (whole, _) =
            count(&captures[0], captures[0].execution(), &CountOptions::default()).expect("a profile");
        let end = whole.totals.instructions;
        let all = format!("0.0:0-{end}");
        assert_eq!(shown(&ask(view, "profile", &[("w", &all)])), counted(&whole));
        let code = ask(view, "function", &[("w", &all), ("function", "0")]);
        assert!(!code["instructions"].as_array().expect("code").is_empty());
        let difference = ask(view, "compare", &[("a", "0.0:0-5000"), ("b", "0.0:5000-11000")]);
        assert!(!difference["functions"].as_array().expect("functions").is_empty());
    });
}

#[test]
fn steps_go_on_and_back_and_say_where_that_is() {
    let captures = [capture("calls-aarch64"), capture("calls-riscv64")];
    with_view(&captures, |view| {
        for recording in ["0", "1"] {
            let at = |instruction: u64, step: Option<(&str, bool)>| {
                let instruction = instruction.to_string();
                let mut values =
                    vec![("recording", recording), ("source", "0"), ("instruction", &*instruction)];
                if let Some((step, is_back)) = step {
                    values.push(("step", step));
                    values.extend(is_back.then_some(("back", "1")));
                }
                ask(view, "at", &values)
            };
            let number = |value: &Value| value["instruction"].as_u64().expect("a number");
            let here = at(2_000, None);
            assert_eq!(number(&here), 2_000);
            assert_eq!(number(&at(2_000, Some(("instruction", false)))), 2_001);
            assert_eq!(number(&at(2_000, Some(("instruction", true)))), 1_999);
            let out = at(2_000, Some(("out", false)));
            assert!(out["depth"].as_u64() < here["depth"].as_u64(), "{out}");
            let frames = here["frames"].as_array().expect("frames");
            assert_eq!(frames.len() as u64, here["depth"].as_u64().expect("depth").max(1));
            let code =
                ask(view, "code", &[("recording", recording), ("source", "0"), ("instruction", "2000")]);
            let rows = code["instructions"].as_array().expect("instructions");
            assert!(rows.iter().any(|row| row[0] == here["address"]), "{code}");
            // The innermost call of the chart is that of the stack.
            let chart = ask(
                view,
                "calls",
                &[
                    ("recording", recording),
                    ("source", "0"),
                    ("from", "1990"),
                    ("to", "2010"),
                    ("columns", "20"),
                ],
            );
            let calls = chart["calls"].as_array().expect("calls").iter();
            let around =
                calls.filter(|call| call[2].as_u64() <= Some(2_000) && call[3].as_u64() > Some(2_000));
            let innermost = around.max_by_key(|call| call[1].as_u64()).expect("a call");
            assert_eq!(chart["names"][innermost[4].to_string()][0], frames[0]["function"]);
        }
    });
}

#[test]
fn searches_find_what_find_finds() {
    let captures = [capture("calls-aarch64")];
    with_view(&captures, |view| {
        let find = |more: &[(&str, &str)]| {
            let values =
                [&[("recording", "0"), ("source", "0"), ("kind", "function"), ("what", "ackermann")], more]
                    .concat();
            ask(view, "find", &values)
        };
        let all = find(&[("limit", "500")]);
        let hits: Vec<_> = all["hits"]
            .as_array()
            .expect("hits")
            .iter()
            .filter_map(|hit| hit["instruction"].as_u64())
            .collect();
        assert!(hits.len() > 10 && hits.is_sorted());
        let after = find(&[("from", &(hits[3] + 1).to_string()), ("limit", "1")]);
        assert_eq!(after["hits"][0]["instruction"].as_u64(), Some(hits[4]));
        let before = find(&[("to", &hits[3].to_string()), ("last", "1")]);
        assert_eq!(before["hits"][0]["instruction"].as_u64(), Some(hits[2]));
        let names = ask(view, "functions", &[("recording", "0"), ("what", "ACKER")]);
        assert_eq!(names[0][0], "ackermann");
    });
}

#[test]
fn exporters_write_windows() {
    let captures = [capture("calls-aarch64")];
    with_view(&captures, |view| {
        for format in ["perfetto", "speedscope", "pprof", "collapsed", "report"] {
            let values = [("w", "0.0:100-9000"), ("format", format)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            let answer = view.answer("export", &values);
            assert_eq!(answer.status, 200, "{format}");
            assert!(answer.file.is_some() && answer.body.len() > 100, "{format}");
        }
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    let captures = [capture("first")];
    with_view(&captures, |view| {
        let questions: [(&str, &[(&str, &str)]); 9] = [
            ("nothing", &[]),
            ("calls", &[]),
            ("calls", &[("recording", "7"), ("source", "0"), ("from", "0"), ("to", "1")]),
            ("calls", &[("recording", "0"), ("source", "9"), ("from", "0"), ("to", "1")]),
            ("at", &[("recording", "0"), ("source", "0"), ("instruction", "-1")]),
            ("at", &[("recording", "0"), ("source", "0"), ("instruction", "1"), ("step", "sideways")]),
            ("profile", &[("w", "0.0:5-1")]),
            (
                "find",
                &[("recording", "0"), ("source", "0"), ("kind", "function"), ("what", "no such function")],
            ),
            ("export", &[("w", "0.0:0-10"), ("format", "no such format")]),
        ];
        for (question, values) in questions {
            let values: Vec<_> =
                values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let answer = view.answer(question, &values);
            assert!(answer.status >= 400, "{question} {values:?}");
            let why: Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert!(why["error"].as_str().is_some_and(|why| !why.is_empty()));
        }
        // Numbers as large as they come are no harm.
        let end = u64::MAX.to_string();
        let answer = ask(
            view,
            "calls",
            &[
                ("recording", "0"),
                ("source", "0"),
                ("from", "0"),
                ("to", &end),
                ("columns", "4000000000"),
                ("rows", "4000000000"),
                ("first", "4000000000"),
            ],
        );
        assert!(answer["calls"].as_array().expect("calls").is_empty());
    });
}
