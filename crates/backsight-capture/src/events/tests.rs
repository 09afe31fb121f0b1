use super::*;
use proptest::prelude::*;

const EXAMPLE: &str = "\
%system-event-log version=1
%frequency coresight=50000000
%snapshot at=begin complete=1
1000 declare_process CURRENT pid=* base=0 image=\"/boot/vmlinux\" build-id=9f31c0de
1000 declare_process CURRENT pid=412 base=0x10000 image=\"/usr/bin/demo\" build-id=0a1b2c3d
1000 declare_library CURRENT pid=412 base=0xb6e00000 image=\"/lib/libc.so.6\"
1000 declare_thread CURRENT tid=413 pid=412
1000 declare_asid CURRENT asid=0x21 pid=412
%snapshot at=end
20480 patch_code pid=412 addr=0xb5000000 len=8 code=0000a0e11eff2fe1
20900 patch_code pid=412 addr=0xb5001000 len=4096 file=\"code/jit-17.bin\"
31000 declare_library START pid=412 base=0xb5800000 image=\"/lib/plugin.so\" build-id=77aa
32000 define_trace END id=0x10 source=\"ETM_0\"
32000 define_trace START id=0x18 source=\"ETM_0\" format=ETM3.5 ETMCR=0x10001000
40000 declare_process END pid=412 base=0x10000 image=\"/usr/bin/demo\" build-id=0a1b2c3d
";

fn parse(lines: &str) -> EventLog {
    EventLog::parse("log", &format!("%system-event-log version=1\n{lines}")).unwrap()
}

fn problem(line: &str) -> String {
    let log = parse(line);
    assert_eq!(log.records, []);
    assert_eq!(log.problems.len(), 1, "{line}");
    log.problems[0].to_string()
}

#[test]
fn the_example_is_read() {
    let log = EventLog::parse("log", EXAMPLE).unwrap();
    assert_eq!(log.problems, []);
    assert_eq!(log.records.len(), 14);
    let Item::Mapping(State::Current, kernel) = &log.records[2].item else { panic!("{:?}", log.records[2]) };
    assert_eq!((kernel.pid, kernel.image.as_deref(), kernel.main), (Pid::All, Some("/boot/vmlinux"), true));
    let Item::Patch(patch) = &log.records[8].item else { panic!("{:?}", log.records[8]) };
    assert_eq!(patch.code, PatchCode::Inline(vec![0, 0, 0xA0, 0xE1, 0x1E, 0xFF, 0x2F, 0xE1]));
    let Item::DefineTrace(State::Start, definition) = &log.records[12].item else { panic!() };
    assert_eq!((definition.id.get(), definition.format.as_deref()), (0x18, Some("ETM3.5")));
    assert_eq!(definition.items, [("ETMCR".to_owned(), "0x10001000".to_owned())]);
    assert_eq!((log.records[12].line, log.records[12].time), (14, Some(32000)));
}

#[test]
fn a_log_written_is_read_back() {
    let log = EventLog::parse("log", EXAMPLE).unwrap();
    let again = EventLog::parse("log", &log.to_string()).unwrap();
    assert_eq!(again, log);
}

#[test]
fn a_file_that_does_not_begin_as_a_log_is_refused() {
    for text in ["", "1000 switch cpu=0 pid=1", "%system-event-log", "%system-event-log version=2"] {
        assert!(EventLog::parse("log", text).is_err(), "{text}");
    }
}

#[test]
fn lines_that_make_no_sense_are_reported_by_line_and_skipped() {
    assert_eq!(problem("5 switch cpu=0"), "log:2: expected `pid=`");
    assert_eq!(problem("5 switch cpu=x pid=1"), "log:2: `cpu` is `x`, expected a number");
    assert_eq!(problem("5 boom"), "log:2: event `boom` is not known");
    assert_eq!(problem("%boom"), "log:2: directive `%boom` is not known");
    assert_eq!(
        problem("5 declare_thread tid=1 pid=1"),
        "log:2: expected START, END or CURRENT after declare_thread"
    );
    assert_eq!(
        problem("5 patch_code pid=1 addr=0 len=4 code=0000"),
        "log:2: `code` holds 2 bytes, `len` says 4"
    );
    assert_eq!(
        problem("5 define_trace START id=0x70 source=x"),
        "log:2: `id` is no trace ID, expected 0x01 to 0x6f"
    );
    assert_eq!(problem("5 declare_library START pid=1 base=0"), "log:2: expected `image=` or `build-id=`");
    assert_eq!(problem("5 switch cpu=0 pid=1 name=\"x"), "log:2: the string has no closing quote");
    assert_eq!(problem("5 switch cpu=0 pid=1 pid=2"), "log:2: `pid` is given twice");
    assert_eq!(problem("soon switch cpu=0 pid=1"), "log:2: `time` is `soon`, expected a number");
}

#[test]
fn comments_and_unknown_keys_are_ignored_but_not_in_strings() {
    let log = parse(
        "# all of it\n  5 switch cpu=0 pid=1 flavour=sweet # behind\n\n6 declare_thread START tid=1 pid=1 name=\"a # b\\\"\\x41\"\r\n",
    );
    assert_eq!(log.problems, []);
    assert_eq!(log.records.len(), 2);
    let Item::Thread { name, .. } = &log.records[1].item else { panic!() };
    assert_eq!(name.as_deref(), Some("a # b\"A"));
}

#[test]
fn records_are_sorted_by_time_and_those_without_stay_behind_their_predecessor() {
    let log =
        parse("30 switch cpu=3 pid=1\n- switch cpu=4 pid=1\n10 switch cpu=1 pid=1\n20 switch cpu=2 pid=1\n");
    let cpus: Vec<u32> = log
        .records
        .iter()
        .map(|record| if let Item::Switch { cpu, .. } = record.item { cpu } else { u32::MAX })
        .collect();
    assert_eq!(cpus, [1, 2, 3, 4]);
}

#[test]
fn times_of_other_clocks_are_brought_to_the_global_timestamp() {
    let log = parse(
        "%frequency coresight=100\n%clock name=os freq=1000 sync=5000:70\n5000 switch cpu=0 pid=1\n6000 switch cpu=0 pid=2\n4000 switch cpu=0 pid=3\n%clock name=coresight\n171 switch cpu=0 pid=4\n%clock name=odd\n9 switch cpu=0 pid=5",
    );
    let times: Vec<Option<u64>> = log.records[1..].iter().map(|record| record.time).collect();
    assert_eq!(log.problems.len(), 1, "a time before the zero of the global timestamp");
    assert_eq!(times, [Some(70), Some(170), Some(171), None]);
}

/// A log of processes that map and unmap, longer than what is read at once.
fn long_log() -> EventLog {
    let mut lines = String::from("%frequency coresight=1000\n%snapshot at=begin complete=1\n");
    lines.push_str("5 declare_process CURRENT pid=1 base=0 image=a size=16\n%snapshot at=end\n");
    for time in 0..HEAD {
        let time = 10 + 2 * time;
        lines.push_str(&format!("{time} declare_library START pid=1 base=64 image=b size=16\n"));
        lines.push_str(&format!("{} declare_library END pid=1 base=64 image=b size=16\n", time + 1));
    }
    parse(&lines)
}

fn events_of(text: &str) -> Events {
    Events::open(&crate::folder::Memory::file("log", text.as_bytes())).expect("a log")
}

#[test]
fn a_long_log_that_changes_nothing_of_the_past_says_so() {
    let log = long_log();
    let text = log.to_string();
    let first = text.lines().next().unwrap();
    let rest = text.len() - first.len() - 1;
    assert_eq!(first, format!("%system-event-log version=1 forward={rest}"));
    let events = events_of(&text);
    assert!(events.is_forward() && events.changes());
    assert_eq!((events.frequency(), events.survey().records), (Some(1000), log.records.len() as u64));
    assert_eq!(events.log(), &log);
    let mut reader = events.records();
    let mut count = 0;
    while let Some(record) = reader.next() {
        assert_eq!(record, &log.records[count]);
        count += 1;
    }
    assert_eq!((count, reader.take_problems()), (log.records.len(), Vec::new()));
}

#[test]
fn a_log_that_was_changed_is_not_believed_to_be_read_forward() {
    let text = long_log().to_string();
    let cut = text.rfind("\n10 ").unwrap()..text.find("\n12 ").unwrap();
    let mut without = text.clone();
    without.replace_range(cut, "");
    assert!(!events_of(&without).is_forward());
    assert_eq!(events_of(&without).survey().problems, []);
    assert!(!events_of(&text.replace(" forward=", " version2=")).is_forward());
}

#[test]
fn events_that_say_something_of_the_past_are_not_read_forward() {
    let base = long_log();
    assert!(base.is_forward());
    for line in [
        "9000000 declare_library END pid=1 base=128 image=c size=16",
        "9000000 declare_library CURRENT pid=1 base=128 image=c size=16",
        "9000000 declare_process END pid=1 base=0 image=other size=16",
        "9000000 declare_thread END tid=7 pid=1",
        "9000000 declare_asid CURRENT asid=7 pid=1",
        "9000000 declare_asid START asid=7 pid=1 cpu=0",
        "9000000 switch cpu=0 pid=1",
        "9000000 define_trace START id=0x10 source=x",
        "%lost",
        "%frequency coresight=7",
    ] {
        let log = EventLog::parse("log", &format!("{base}{line}\n")).unwrap();
        assert_eq!(log.problems, []);
        assert!(!log.is_forward(), "{line}");
        assert!(log.to_string().starts_with("%system-event-log version=1\n"), "{line}");
    }
    for line in [
        "9000000 declare_library START pid=1 base=128 image=c size=16",
        "9000000 declare_process END pid=1 base=0 image=a size=16",
        "9000000 declare_asid START asid=7 pid=1",
        "- patch_code pid=1 addr=0 len=1 code=00",
    ] {
        assert!(EventLog::parse("log", &format!("{base}{line}\n")).unwrap().is_forward(), "{line}");
    }
}

#[test]
fn of_very_many_lines_that_make_no_sense_some_are_named_and_the_rest_is_counted() {
    let log = parse(&"boom\n".repeat(1500));
    assert_eq!(log.problems.len(), 1001);
    assert_eq!(log.problems[1000].to_string(), "log: 500 more lines are not understood");
}

#[test]
fn lines_of_every_length_come_out_of_files_as_they_stand() {
    let mut text = String::from("%system-event-log version=1\n");
    for length in [1, 100, 65_000, 65_536, 65_537, 200_000, 3, 131_072] {
        text.push_str(&format!("5 declare_thread START tid=1 pid=1 name=\"{}\"\r\n", "é".repeat(length)));
    }
    for ending in ["", "6 switch cpu=0 pid=1"] {
        let text = format!("{text}{ending}");
        let expected = EventLog::parse("log", &text).unwrap();
        assert_eq!(expected.records.len(), 8 + usize::from(!ending.is_empty()));
        assert_eq!(events_of(&text).log(), &expected);
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/]{1,8}", "[ -~\\n\\t\u{0}\u{e4}]{0,12}"]
}

fn item() -> impl Strategy<Value = Item> {
    let state = prop_oneof![Just(State::Start), Just(State::End), Just(State::Current)];
    let pid = prop_oneof![Just(Pid::All), any::<u64>().prop_map(Pid::Process)];
    let numbers =
        (any::<u64>(), any::<u64>(), proptest::option::of(any::<u64>()), proptest::option::of(any::<u32>()));
    let code = prop_oneof![
        Just(PatchCode::InMemory),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(PatchCode::Inline),
        (text(), any::<u64>()).prop_map(|(path, offset)| PatchCode::File(path, offset)),
        text().prop_map(PatchCode::Id),
    ];
    (0..7, state, pid, numbers, text(), proptest::option::of(text()), any::<bool>(), code).prop_map(
        |(kind, state, pid, (a, b, c, cpu), text, name, flag, code)| match kind {
            0 => Item::Mapping(
                state,
                Box::new(Mapping {
                    main: flag,
                    pid,
                    base: Address(a),
                    image: Some(text.into()),
                    build_id: name.clone().map(Into::into),
                    size: c,
                    offset: b,
                    relocated: flag,
                    name,
                    cpu,
                }),
            ),
            1 => Item::Thread { state, tid: a, pid, name: name.map(Into::into) },
            2 => Item::Asid { state, asid: a as u32, pid, cpu },
            3 => {
                let length = if let PatchCode::Inline(bytes) = &code { bytes.len() as u64 } else { b };
                Item::Patch(Box::new(Patch { pid, address: Address(a), length, code }))
            }
            4 => Item::DefineTrace(
                state,
                Box::new(TraceDefinition {
                    id: TraceId::new(1 + (a % 0x6F) as u8),
                    source: text,
                    format: name,
                    items: vec![("TRCCONFIGR".to_owned(), "0x1".to_owned())],
                }),
            ),
            5 => Item::Lost(c),
            _ => Item::Switch { cpu: a as u32, pid, tid: c },
        },
    )
}

proptest! {
    #[test]
    fn any_log_comes_back(items in proptest::collection::vec((proptest::option::of(any::<u32>()), item()), 0..20)) {
        let records: Vec<Record> = items
            .into_iter()
            .map(|(time, item)| {
                let time = time.filter(|_| !matches!(item, Item::Lost(_))).map(u64::from);
                Record { line: 0, time, item }
            })
            .collect();
        let log = EventLog { records, problems: Vec::new() };
        let mut again = EventLog::parse("log", &log.to_string()).unwrap();
        prop_assert_eq!(&again.problems, &[]);
        again.records.iter_mut().for_each(|record| record.line = 0);
        let mut expected = EventLog::parse("log", &again.to_string()).unwrap();
        expected.records.iter_mut().for_each(|record| record.line = 0);
        prop_assert_eq!(&again, &expected, "written and read again it stays");
        let sorted = |log: &EventLog| {
            let mut lines: Vec<String> = log.records.iter().map(|record| format!("{:?}", record)).collect();
            lines.sort();
            lines
        };
        prop_assert_eq!(sorted(&again), sorted(&log));
    }

    #[test]
    fn no_text_makes_the_reader_fail_badly(text in "[ -~\\n\\t\"\\\\#=%]{0,200}") {
        let whole = format!("%system-event-log version=1\n{text}");
        let log = EventLog::parse("log", &whole).unwrap();
        let events = events_of(&whole);
        prop_assert_eq!(events.log(), &log);
        let _ = EventLog::parse("log", &text);
    }
}

#[test]
fn code_that_takes_the_place_of_other_code_is_known() {
    let mapped = "- declare_process START pid=1 base=0x1000 image=\"/p\" size=0x1000\n";
    let replaces = |lines: &str| Events::from(parse(&format!("{mapped}{lines}"))).replaces_code_untimed();
    let patch = |address: &str, len: u32| {
        format!("- patch_code pid=1 addr={address} len={len} code={}\n", "00".repeat(len as usize))
    };
    assert!(!replaces(""));
    assert!(!replaces(mapped), "the same is said twice");
    assert!(!replaces(&[patch("0x8000", 8), patch("0x8008", 8)].concat()), "made once");
    assert!(replaces(&[patch("0x8000", 8), patch("0x8000", 8)].concat()));
    assert!(replaces(&[patch("0x8000", 16), patch("0x8008", 4)].concat()));
    assert!(replaces(&patch("0x1ffc", 4)), "over what is mapped");
    let timed = [patch("0x8000", 8), patch("0x8000", 8).replacen('-', "5", 1)].concat();
    assert!(!replaces(&timed), "the log says when");
}
