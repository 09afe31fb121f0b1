//! What is asked for is what a decoder reads back, and every access obeys the rules of the registers: for random
//! requests, ID registers and systems.

use std::cell::Cell;
use std::fs;

use backsight_arm::etm4::Config;
use backsight_capture::Capture;
use backsight_session::{Action, Error, Request, Session, System, Target, Timestamps, UnitConfig, output};
use backsight_testing::repository;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// What a unit can have, as fields of its ID registers.
#[derive(Clone, Debug)]
struct Unit {
    ete: bool,
    idr0: u32,
    idr2: u32,
    idr3: u32,
    idr4: u32,
    idr5: u32,
}

fn unit() -> impl Strategy<Value = Unit> {
    let idr0 = (any::<u32>(), prop_oneof![Just(0u32), Just(6), Just(8)])
        .prop_map(|(bits, size)| bits & 0xE0FF_FFE0 & !(1 << 6) | size << 24 | 1);
    let sizes = (prop_oneof![Just(4u32), Just(8)], prop_oneof![Just(0u32), Just(4)], 0u32..2);
    let idr2 = sizes.prop_map(|(address, context, vmid)| address | context << 5 | vmid << 10);
    (any::<bool>(), idr0, idr2, any::<u32>(), any::<u32>(), any::<u32>()).prop_map(
        |(ete, idr0, idr2, idr3, idr4, idr5)| Unit {
            ete,
            idr0,
            idr2,
            idr3: idr3 & 0x0FFF_F0FF,
            idr4: (idr4 & 0xFFFF_FFF0) | (idr4 % 9),
            idr5,
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let ranges = prop::collection::vec((0u64..1 << 33, 1u64..1 << 20), 0..4)
        .prop_map(|ranges| ranges.into_iter().map(|(start, size)| start..start + size).collect());
    let timestamps = prop_oneof![
        Just(None),
        Just(Some(Timestamps::AtSynchronisation)),
        any::<u16>().prop_map(|period| Some(Timestamps::EveryCycles(period))),
    ];
    let switches = any::<[bool; 4]>();
    let counts = (prop::option::of(0u32..5000), prop::option::of(6u8..24), prop::option::of(any::<u32>()));
    let events = prop::collection::vec(0u16..40, 0..4);
    (ranges, timestamps, switches, counts, events, 0..4usize).prop_map(
        |(ranges, timestamps, switches, (cycle_counts, sync_period, only_context), events, sink)| {
            let [context_id, vmid, branch_broadcast, return_stack] = switches;
            Request {
                sink: Some(["etr", "tpiu", "etf2", "etb"][sink].to_owned()),
                ranges,
                only_context,
                context_id,
                vmid,
                cycle_counts,
                timestamps,
                branch_broadcast,
                return_stack,
                events,
                sync_period,
                ..Request::default()
            }
        },
    )
}

/// Two units of this make, funnels, ETFs and a replicator before an ETR or ETB and a TPIU.
fn system(unit: &Unit, last: &str, static_links: bool) -> String {
    let Unit { ete, idr0, idr2, idr3, idr4, idr5 } = unit;
    let (kind, idr1, devarch) =
        if *ete { ("ete", 0x4100_FFF3u32, 0x4773_5A13u32) } else { ("etm4", 0x4100_F440, 0) };
    let address = |at: u32| if static_links { String::new() } else { format!("address={at:#x}\n") };
    let mut text = String::new();
    for number in 0..2 {
        text += &format!(
            "[unit{number}]\nkind={kind}\naddress={:#x}\ncpu={number}\ncore=Cortex-A55\nout=funnel:{}\nTRCIDR0={idr0:#x}\n\
             TRCIDR1={idr1:#x}\nTRCIDR2={idr2:#x}\nTRCIDR3={idr3:#x}\nTRCIDR4={idr4:#x}\nTRCIDR5={idr5:#x}\n\
             TRCDEVARCH={devarch:#x}\n",
            0x10_0000 + number * 0x1000,
            2 * number + 1,
        );
    }
    text += &format!("[funnel]\nkind=funnel\n{}out=etf1\n", address(0x20_0000));
    text += "[etf1]\nkind=etf\naddress=0x210000\nout=etf2\n[etf2]\nkind=etf\naddress=0x220000\nout=split\n";
    text += &format!("[split]\nkind=replicator\n{}out0={last}\nout1=tpiu\n", address(0x23_0000));
    text += "[tpiu]\nkind=tpiu\naddress=0x240000\nwidth=16\n";
    text + &format!("[{last}]\nkind={last}\naddress=0x250000\nmemory=0x80000000\nmemory_size=0x10000\n")
}

/// What the decoder makes of the package.
fn decoded(session: &Session) -> Vec<(u8, Config)> {
    let folder = std::env::temp_dir().join(format!("backsight-session-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in output::package(session) {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(folder.join(output::BUFFER), []).unwrap();
    let capture = Capture::open(&folder).unwrap();
    let read = |source: &backsight_capture::Source| {
        let mut config = Config::etm4_default();
        for register in &source.registers {
            config.set_register(&register.name, register.value.unwrap() as u32).unwrap();
        }
        (source.id.unwrap().get(), config)
    };
    let configs = capture.sources.iter().map(read).collect();
    assert_eq!(capture.warnings, Vec::<String>::new());
    fs::remove_dir_all(&folder).unwrap();
    configs
}

/// Does a unit have what is asked for? Said a second time, in other words than the crate's.
fn possible(unit: &Unit, request: &Request) -> bool {
    let bit = |register: u32, number: u32| register >> number & 1 == 1;
    let counter = matches!(request.timestamps, Some(Timestamps::EveryCycles(_)));
    let contexts = request.only_context.is_some();
    let wide = unit.idr2 & 0x1F == 8;
    let ranges = request.ranges.len().max(usize::from(contexts));
    let threshold =
        |least: u32| request.cycle_counts.is_none_or(|cycles| cycles >= least.max(1) && cycles < 4096);
    let selectors = request.events.len() + usize::from(counter);
    [
        !request.branch_broadcast || bit(unit.idr0, 5),
        request.cycle_counts.is_none() || bit(unit.idr0, 7),
        threshold(unit.idr3 & 0xFFF),
        !request.return_stack || bit(unit.idr0, 9),
        request.timestamps.is_none() || unit.idr0 >> 24 & 0x1F != 0,
        request.timestamps != Some(Timestamps::EveryCycles(0)),
        !request.context_id || unit.idr2 >> 5 & 0x1F == 4,
        !request.vmid || unit.idr2 >> 10 & 0x1F != 0,
        request.sync_period.is_none_or(|period| !bit(unit.idr3, 25) && (8..=20).contains(&period)),
        ranges <= (unit.idr4 & 0xF) as usize,
        wide || request.ranges.iter().all(|range| range.end <= 1 << 32),
        !contexts || unit.idr4 >> 24 & 0xF > 0,
        request.events.len() <= (unit.idr0 >> 10 & 3) as usize + 1,
        request.events.len() <= (unit.idr5 >> 9 & 7) as usize,
        unit.ete || request.events.iter().all(|&input| u32::from(input) < unit.idr5 & 0x1FF),
        !counter || unit.idr5 >> 28 & 7 > 0,
        selectors <= 2 * (unit.idr4 >> 16 & 0xF) as usize,
    ]
    .iter()
    .all(|holds| *holds)
}

#[test]
fn what_is_asked_for_is_what_a_decoder_reads_back() {
    let accepted = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig { cases: 3000, ..ProptestConfig::default() });
    let cases = (unit(), request(), any::<bool>(), any::<bool>());
    let run = runner.run(&cases, |(unit, mut request, modest, static_links)| {
        if modest {
            // Half of the requests are such that many units can do what they ask for.
            request.events.clear();
            request.ranges.truncate(1);
            request.sync_period = None;
            request.cycle_counts = request.cycle_counts.map(|cycles| cycles.clamp(0x800, 0xFFF));
        }
        let last = if request.sink.as_deref() == Some("etb") { "etb" } else { "etr" };
        let system = System::parse("system.ini", &system(&unit, last, static_links)).unwrap();
        match Session::new(&system, &request) {
            Err(error) => prop_assert!(!possible(&unit, &request), "{error}"),
            Ok(session) => {
                prop_assert!(possible(&unit, &request), "{request:?}");
                check(&unit, &request, &session);
                accepted.set(accepted.get() + 1);
            }
        }
        Ok(())
    });
    run.unwrap_or_else(|failed| panic!("{failed}"));
    assert!(accepted.get() > 100, "only {} of 3000 requests were possible", accepted.get());
}

proptest! {
    #[test]
    fn a_damaged_description_is_refused_or_read_and_nothing_else(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        (name, sink) in prop_oneof![Just(("four-cores", "etr")), Just(("armv7", "etb"))],
    ) {
        let path = repository().join(format!("testdata/systems/{name}.ini"));
        let text = fs::read_to_string(path).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        let words =
            ["out = etm0", "out1 = funnel1:7", "kind = ete", "kind = ptm", "address = 0", "width = 0", "TRCIDR4 = -1",
                "ETMCCR = 0xffffffff", "[", ""];
        for (line, word) in edits {
            let line = line.index(lines.len());
            lines[line] = words[word.index(words.len())];
        }
        if let Ok(system) = System::parse("system.ini", &lines.join("\n")) {
            let _ = Session::new(&system, &Request { sink: Some(sink.to_owned()), ..Request::default() });
        }
    }

    #[test]
    fn a_step_that_is_left_out_is_noticed(left_out in 0usize..200) {
        let system = bundled();
        let request = Request { sink: Some("etr".to_owned()), ..Request::default() };
        let session = Session::new(&system, &request).unwrap();
        let mut start = session.start.clone();
        let step = start.remove(left_out % session.start.len());
        let must_be_there = match (step.action, step.register.to_string().as_str()) {
            // Writes that others depend on. A setting that is missing is found by what a decoder reads back.
            (Action::Write(_), "LAR" | "CLAIMSET" | "TRCLAR" | "TRCCLAIMSET" | "TRCOSLAR" | "TRCPDCR" | "FUNCTL") => true,
            (Action::Write(value), "CTL") => value == 1,
            (Action::Wait { value, .. }, "STS" | "TRCSTATR") => value != 0,
            _ => false,
        };
        let mut target = Target::new(&system);
        let refused = target.run(&start).is_err();
        prop_assert!(refused || !must_be_there, "{step:?}");
    }
}

fn check(unit: &Unit, request: &Request, session: &Session) {
    for (found, (id, config)) in session.units.iter().zip(decoded(session)) {
        assert_eq!((found.id, id), (config.trace_id(), config.trace_id()));
        assert_eq!(config.is_ete(), unit.ete);
        assert_eq!(config.return_stack(), request.return_stack);
        assert_eq!(config.branch_broadcast(), request.branch_broadcast);
        assert_eq!(config.cycle_counting(), request.cycle_counts.is_some());
        assert_eq!(config.registers.ccctlr, request.cycle_counts.unwrap_or(0));
        assert_eq!(config.timestamps(), request.timestamps.is_some());
        assert_eq!((config.context_id(), config.vmid()), (request.context_id, request.vmid));
        assert!(!config.data_trace() && !config.conditional() && !config.loads_p0() && !config.stores_p0());
        let UnitConfig::Etm4(mut known) = found.config else { panic!("{:?}", found.config) };
        // Not in the package: they do not change how the stream is read.
        (known.registers.idr4, known.registers.idr5) = (0, 0);
        assert_eq!(config.registers, known.registers);
    }
    let starts = session.start.iter().map(|step| step.component.as_str());
    let mut order: Vec<_> = starts.collect();
    order.dedup();
    assert_eq!(order.first().copied(), request.sink.as_deref(), "the sink comes first");
    assert_eq!(order[order.len() - 2..], ["unit0", "unit1"], "the trace units come last");
    check_ranges(request, session);
    let accesses = session.start.len() + session.stop.len();
    let lines = |text: &str, starts: &[&str]| {
        text.lines().filter(|line| starts.iter().any(|start| line.trim_start().starts_with(start))).count()
    };
    assert_eq!(
        lines(&output::words(session), &["write 0x", "wait 0x", "read 0x", "read-trace 0x"]),
        accesses
    );
    let script = output::openocd(session);
    assert_eq!(lines(&script, &["mww 0x", "trace_wait 0x", "echo \"", "trace_read 0x"]), accesses);
    assert_eq!(lines(&output::c_table(session), &["{ 0x"]), accesses);
}

/// The comparators of every unit hold the ranges, both ends included.
fn check_ranges(request: &Request, session: &Session) {
    for name in ["unit0", "unit1"] {
        let written = |register: String| {
            let step = session
                .start
                .iter()
                .find(|step| step.component == name && step.register.to_string() == register);
            match step.map(|step| step.action) {
                Some(Action::Write(value)) => u64::from(value),
                other => panic!("{register}: {other:?}"),
            }
        };
        let comparator = |number: usize| {
            written(format!("TRCACVR{number}[31:0]")) | written(format!("TRCACVR{number}[63:32]")) << 32
        };
        for (number, range) in request.ranges.iter().enumerate() {
            assert_eq!(comparator(2 * number)..comparator(2 * number + 1) + 1, *range);
            assert_eq!(written("TRCVIIECTLR".to_owned()) >> number & 1, 1);
        }
    }
}

fn bundled() -> System {
    System::open(&repository().join("testdata/systems/four-cores.ini")).unwrap()
}

#[test]
fn the_bundled_system_can_do_what_its_page_says() -> Result<(), Error> {
    let request = Request {
        units: vec![("etm0".to_owned(), None), ("etm2".to_owned(), Some(0x22))],
        sink: Some("tpiu".to_owned()),
        ranges: vec![0x40_0000..0x50_0000, 0xFFFF_0000_0000..0xFFFF_0000_1000],
        cycle_counts: Some(16),
        timestamps: Some(Timestamps::EveryCycles(5000)),
        events: vec![4, 9],
        return_stack: true,
        ..Request::default()
    };
    let session = Session::new(&bundled(), &request)?;
    assert_eq!(session.units.iter().map(|unit| unit.id).collect::<Vec<_>>(), [0x10, 0x22]);
    assert_eq!(session.units[0].config.register("TRCCONFIGR"), Some(0x1811));
    Ok(())
}

#[test]
fn programming_a_unit_that_is_on_is_refused() {
    let system = bundled();
    let request = Request { sink: Some("etr".to_owned()), ..Request::default() };
    let session = Session::new(&system, &request).unwrap();
    let mut target = Target::new(&system);
    target.run(&session.start).unwrap();
    let setting = session.start.iter().find(|step| step.register.to_string() == "TRCCONFIGR").unwrap();
    assert_eq!(target.run(std::slice::from_ref(setting)).unwrap_err().why, "the unit is on");
    let sink_off = session.stop.iter().rfind(|step| step.register.to_string() == "CTL").unwrap();
    assert!(target.run(std::slice::from_ref(sink_off)).unwrap_err().why.contains("flushed"));
}

#[test]
fn other_orders_are_refused() {
    let system = bundled();
    let request = Request { sink: Some("etr".to_owned()), ..Request::default() };
    let session = Session::new(&system, &request).unwrap();
    let first_unit = session.start.iter().position(|step| step.component == "etm0").unwrap();
    let mut units_first = session.start.clone();
    units_first.rotate_left(first_unit);
    let refused = Target::new(&system).run(&units_first).unwrap_err();
    assert!(refused.why.contains("between it and a sink"), "{refused}");

    let first_link = session.stop.iter().position(|step| step.component == "funnel1").unwrap();
    let mut links_first = session.stop.clone();
    links_first.rotate_left(first_link);
    let mut target = Target::new(&system);
    target.run(&session.start).unwrap();
    let refused = target.run(&links_first).unwrap_err();
    assert!(refused.why.contains("a trace unit is on"), "{refused}");

    let mut claimed = Target::new(&system);
    let claims = |step: &&backsight_session::RegisterAccess| step.register.to_string() == "CLAIMSET";
    let mut claim = session.start.iter().find(claims).unwrap().clone();
    claim.action = Action::Write(2);
    claimed.run(&session.start[..1]).unwrap();
    claimed.run(&[claim]).unwrap();
    assert!(claimed.run(&session.start).unwrap_err().why.contains("waited for"));
}

#[test]
fn a_recorded_trace_is_described_as_its_recording_did() {
    let request = Request {
        units: vec![("etm0".to_owned(), Some(0x10))],
        sink: Some("etr".to_owned()),
        return_stack: true,
        timestamps: Some(Timestamps::AtSynchronisation),
        context_id: true,
        vmid: true,
        ..Request::default()
    };
    let session = Session::new(&bundled(), &request).unwrap();
    let recorded = Capture::open(repository().join("testdata/captures/calls-aarch64")).unwrap();
    for register in &recorded.sources[0].registers {
        let ours = session.units[0].config.register(&register.name).map(u64::from);
        assert_eq!(ours, register.value, "{}", register.name);
    }
}
