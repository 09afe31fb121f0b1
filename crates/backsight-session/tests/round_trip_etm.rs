//! ETMv3 and PTM: what is asked for is what a decoder reads back, and every access obeys the rules of the registers, for
//! random requests and ID registers.

use std::cell::Cell;
use std::fs;

use backsight_arm::{etm3, ptm};
use backsight_capture::{Capture, Source};
use backsight_session::{Action, Data, Request, Session, System, Target, Timestamps, output};
use backsight_testing::repository;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

#[derive(Clone, Debug)]
struct Unit {
    ptm: bool,
    minor: u32,
    ccr: u32,
    ccer: u32,
    core: &'static str,
}

impl Unit {
    fn describe(&self) -> String {
        let Self { ptm, minor, ccr, ccer, core } = self;
        let (kind, major) = if *ptm { ("ptm", 3) } else { ("etm3", 2) };
        format!(
            "[unit]\nkind={kind}\naddress=0x1000\ncpu=3\ncore={core}\nout=etb\nETMIDR={:#x}\nETMCCR={ccr:#x}\n\
             ETMCCER={ccer:#x}\n[etb]\nkind=etb\naddress=0x2000\n",
            0x4100_F000 | major << 8 | minor << 4
        )
    }

    fn is_latest(&self) -> bool {
        self.minor == if self.ptm { 1 } else { 5 }
    }
}

fn unit() -> impl Strategy<Value = Unit> {
    let core = prop_oneof![Just("Cortex-A9"), Just("Cortex-R5"), Just("Cortex-M4"), Just("")];
    (any::<bool>(), 0u32..4, any::<u32>(), any::<u32>(), core).prop_map(|(ptm, version, ccr, ccer, core)| {
        Unit {
            ptm,
            minor: if ptm { version & 1 } else { 2 + version },
            ccr: (ccr & 0xFFFF_FFF0) | (ccr % 9),
            ccer,
            core,
        }
    })
}

fn request() -> impl Strategy<Value = Request> {
    let ranges = prop::collection::vec((0u64..1 << 32, 1u64..1 << 20), 0..3)
        .prop_map(|ranges| ranges.into_iter().map(|(start, size)| start..start + size).collect());
    let timestamps = prop_oneof![
        Just(None),
        Just(Some(Timestamps::AtSynchronisation)),
        (0u16..5000).prop_map(|period| Some(Timestamps::EveryCycles(period))),
    ];
    let data = prop_oneof![
        2 => Just(None),
        1 => prop_oneof![Just(Data::Addresses), Just(Data::Values), Just(Data::Both)].prop_map(Some),
    ];
    let counts = (prop::option::of(0u32..3), prop::option::of(7u8..13), prop::option::of(any::<u32>()));
    let events = prop::collection::vec(0u16..4, 0..2);
    (ranges, timestamps, data, any::<[bool; 4]>(), counts, events).prop_map(
        |(ranges, timestamps, data, switches, (cycle_counts, sync_period, only_context), events)| {
            let [context_id, vmid, branch_broadcast, return_stack] = switches;
            Request {
                ranges,
                timestamps,
                data,
                context_id,
                vmid,
                branch_broadcast,
                return_stack,
                cycle_counts,
                sync_period,
                only_context,
                events,
                ..Request::default()
            }
        },
    )
}

/// Does a unit have what is asked for? Said a second time, in other words than the crate's.
fn possible(unit: &Unit, request: &Request) -> bool {
    let bit = |number: u32| unit.ccer >> number & 1 == 1;
    let counter = matches!(request.timestamps, Some(Timestamps::EveryCycles(_)));
    let contexts = request.only_context.is_some();
    let microcontroller = !unit.ptm && unit.core == "Cortex-M4";
    [
        request.events.is_empty(),
        request.cycle_counts.is_none_or(|threshold| threshold == 1),
        request.sync_period.is_none_or(|period| (8..=11).contains(&period)),
        request.data.is_none() || !unit.ptm,
        !request.return_stack || unit.ptm && bit(23),
        !request.vmid || unit.is_latest() && bit(26),
        request.timestamps.is_none() || bit(22) && (unit.ptm || unit.is_latest()),
        request.timestamps != Some(Timestamps::EveryCycles(0)),
        !counter || unit.ccr >> 13 & 7 > 0,
        !request.context_id || !microcontroller,
        !contexts || unit.ccr >> 24 & 3 > 0,
        request.ranges.len().max(usize::from(contexts)) <= (unit.ccr & 0xF) as usize,
        request.ranges.iter().all(|range| range.end < 1 << 32),
    ]
    .iter()
    .all(|holds| *holds)
}

/// The one source of the package.
fn packaged(session: &Session) -> Source {
    let folder = std::env::temp_dir().join(format!("backsight-session-etm-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in output::package(session) {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(folder.join(output::BUFFER), []).unwrap();
    let capture = Capture::open(&folder).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(capture.warnings, Vec::<String>::new());
    capture.sources[0].clone()
}

/// What a register was written with at last; changes of single bits are not counted.
fn written(session: &Session, register: &str) -> Option<u32> {
    let step = session
        .start
        .iter()
        .rfind(|step| step.register.to_string() == register && !matches!(step.action, Action::Wait { .. }));
    match step?.action {
        Action::Write(value) => Some(value),
        other => panic!("{register}: {other:?}"),
    }
}

fn check(unit: &Unit, request: &Request, session: &Session) {
    let source = packaged(session);
    let registers: Vec<(String, u32)> = source
        .registers
        .iter()
        .map(|register| (register.name.clone(), register.value.unwrap() as u32))
        .collect();
    let format = source.format.clone();
    let context_bytes = if request.context_id { 4 } else { 0 };
    if unit.ptm {
        let mut config = ptm::Config::default();
        registers.iter().for_each(|(name, value)| assert!(config.registers.set(name, *value)));
        assert_eq!(format, format!("PFT1.{}", unit.minor));
        assert_eq!((config.minor(), u32::from(config.trace_id())), (unit.minor as u8, 0x10));
        assert_eq!(config.cycle_accurate(), request.cycle_counts.is_some());
        assert_eq!(config.branch_broadcast(), request.branch_broadcast);
        assert_eq!(config.return_stack(), request.return_stack);
        assert_eq!(config.timestamps(), request.timestamps.is_some());
        assert_eq!((config.vmid(), config.context_id_bytes()), (request.vmid, context_bytes));
        assert_eq!(config.barriers_are_waypoints(), unit.ccer >> 24 & 1 == 1);
    } else {
        let mut config = etm3::Config::default();
        registers.iter().for_each(|(name, value)| assert!(config.registers.set(name, *value)));
        assert_eq!(format, format!("ETM3.{}", unit.minor));
        assert_eq!((config.minor(), u32::from(config.trace_id())), (unit.minor as u8, 0x10));
        assert_eq!(config.cycle_accurate(), request.cycle_counts.is_some());
        assert_eq!(config.branch_broadcast(), request.branch_broadcast);
        assert_eq!(config.timestamps(), request.timestamps.is_some());
        assert_eq!((config.vmid(), config.context_id_bytes()), (request.vmid, context_bytes));
        let addresses = matches!(request.data, Some(Data::Addresses | Data::Both));
        let values = matches!(request.data, Some(Data::Values | Data::Both));
        assert_eq!((config.data_addresses(), config.data_values()), (addresses, values));
        assert!(!config.data_only() && !config.coprocessor_transfers());
    }
    check_filters(request, session);
    let counted = written(session, "ETMCNTRLDVR1");
    let period = match request.timestamps {
        Some(Timestamps::EveryCycles(period)) => Some(period.into()),
        _ => None,
    };
    assert_eq!(counted, period);
    assert_eq!(written(session, "ETMSYNCFR"), Some(1 << request.sync_period.unwrap_or(10)));
}

/// The comparators hold the ranges, without their ends; without any, everything is traced.
fn check_filters(request: &Request, session: &Session) {
    let context = request.only_context;
    assert_eq!(written(session, "ETMCIDCVR1"), context);
    let mut ranges = request.ranges.clone();
    if ranges.is_empty() && context.is_some() {
        ranges.push(0..0xFFFF_FFFF);
    }
    let kind = if context.is_some() { 0x101 } else { 1 };
    for (number, range) in ranges.iter().enumerate() {
        for (comparator, address) in [(2 * number + 1, range.start), (2 * number + 2, range.end)] {
            assert_eq!(written(session, &format!("ETMACVR{comparator}")).map(u64::from), Some(address));
            assert_eq!(written(session, &format!("ETMACTR{comparator}")), Some(kind));
        }
    }
    let included = if ranges.is_empty() { 1 << 24 } else { (1 << ranges.len()) - 1 };
    assert_eq!(written(session, "ETMTECR1"), Some(included));
}

#[test]
fn what_is_asked_for_is_what_a_decoder_reads_back() {
    let accepted = Cell::new([0, 0]);
    let mut runner = TestRunner::new(ProptestConfig { cases: 3000, ..ProptestConfig::default() });
    let run = runner.run(&(unit(), request(), any::<bool>()), |(unit, mut request, modest)| {
        if modest {
            // Half of the requests are such that many units can do what they ask for.
            request.events.clear();
            request.vmid = false;
            request.sync_period = None;
            request.cycle_counts = request.cycle_counts.map(|_| 1);
            request.return_stack &= unit.ptm;
            request.data = request.data.filter(|_| !unit.ptm);
        }
        let system = System::parse("system.ini", &unit.describe()).unwrap();
        match Session::new(&system, &request) {
            Err(error) => prop_assert!(!possible(&unit, &request), "{error}"),
            Ok(session) => {
                prop_assert!(possible(&unit, &request), "{request:?}");
                check(&unit, &request, &session);
                let mut counts = accepted.get();
                counts[usize::from(unit.ptm)] += 1;
                accepted.set(counts);
            }
        }
        Ok(())
    });
    run.unwrap_or_else(|failed| panic!("{failed}"));
    let counts = accepted.get();
    assert!(counts.iter().all(|count| *count > 100), "only {counts:?} of 3000 requests were possible");
}

fn bundled() -> System {
    System::open(&repository().join("testdata/systems/armv7.ini")).unwrap()
}

fn everything() -> Session {
    Session::new(&bundled(), &Request { sink: Some("etb".to_owned()), ..Request::default() }).unwrap()
}

#[test]
fn a_step_that_is_left_out_is_noticed() {
    let (system, session) = (bundled(), everything());
    let mut noticed = 0;
    for left_out in 0..session.start.len() {
        let mut start = session.start.clone();
        let step = start.remove(left_out);
        let must_be_there = match (step.action, step.register.to_string().as_str()) {
            (Action::Write(_), "ETMLAR" | "ETMCLAIMSET" | "ETMOSLAR" | "ETMPDCR" | "FUNCTL") => true,
            (Action::Change { mask: 1, .. } | Action::Change { mask: 0x400, value: 0 }, "ETMCR") => true,
            (Action::Wait { value, .. }, "ETMSR") => value != 0,
            _ => false,
        };
        let refused = Target::new(&system).run(&start).is_err();
        assert!(refused || !must_be_there, "{step:?}");
        noticed += usize::from(refused);
    }
    assert!(noticed > 20, "{noticed}");
}

#[test]
fn the_programming_bit_is_changed_alone_and_first() {
    let (system, session) = (bundled(), everything());
    let mut target = Target::new(&system);
    target.run(&session.start).unwrap();
    let of_unit = |step: &&backsight_session::RegisterAccess| step.component == "ptm0";
    let setting = session.start.iter().filter(of_unit).find(|step| step.register.to_string() == "ETMTEEVR");
    assert_eq!(target.run(&[setting.unwrap().clone()]).unwrap_err().why, "the unit is on");
    let control =
        session.stop.iter().filter(of_unit).find(|step| step.register.to_string() == "ETMCR").unwrap();
    for (action, why) in [
        (Action::Change { mask: 1 << 12, value: 1 << 12 }, "the unit is on"),
        (Action::Change { mask: 1, value: 1 }, "the unit is on"),
        (Action::Write(1 << 12 | 1 << 10), "nothing else is changed together with the programming bit"),
        (Action::Change { mask: 1, value: 3 }, "bits that are not to be changed have a value"),
    ] {
        let mut step = control.clone();
        step.action = action;
        assert_eq!(target.run(&[step]).unwrap_err().why, why);
    }
}

#[test]
fn what_a_unit_does_not_have_is_refused_in_words() {
    let request = |unit: &str| Request {
        units: vec![(unit.to_owned(), None)],
        sink: Some("tpiu".to_owned()),
        ..Request::default()
    };
    for (request, expected) in [
        (
            Request { events: vec![1], ..request("ptm0") },
            "ptm0: events in the trace: the trace unit cannot, says its kind, PTM",
        ),
        (
            Request { cycle_counts: Some(16), ..request("ptm0") },
            "ptm0: cycle count threshold 16: it has none",
        ),
        (Request { data: Some(Data::Both), ..request("ptm0") }, "data trace: the trace unit cannot"),
        (Request { vmid: true, ..request("ptm0") }, "VMIDs: the trace unit cannot, says ETMCCER bit 26"),
        (
            Request { return_stack: true, ..request("etm") },
            "return stack: the trace unit cannot, says its kind, ETMv3",
        ),
        (
            Request { context_id: true, ..request("etm") },
            "context IDs: the trace unit cannot, says the profile",
        ),
        (
            Request { ranges: vec![0..4, 8..12], ..request("etm") },
            "2 address ranges: it has comparators for 0",
        ),
        (Request { ranges: vec![0..4, 4..1 << 33], ..request("ptm0") }, "its addresses have 32 bits"),
        (Request { sync_period: Some(12), ..request("ptm0") }, "2^12: 8 to 11 is possible"),
    ] {
        let refused = Session::new(&bundled(), &request).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    for (from, to, expected) in [
        ("ETMIDR = 0x411CF300", "ETMIDR = 0x411CF250", "it is of kind ptm, whose ETMIDR"),
        ("ETMIDR = 0x4114F250", "ETMIDR = 0x4114F210", "it is of kind etm3, whose ETMIDR has 0x220 to 0x25F"),
        ("ETMCCER = 0x18541800", "TRCIDR0 = 0", "`TRCIDR0` is not known for kind etm3"),
    ] {
        let path = repository().join("testdata/systems/armv7.ini");
        let text = fs::read_to_string(path).unwrap().replace(from, to);
        let request = Request { sink: Some("etb".to_owned()), ..Request::default() };
        let session = System::parse("armv7.ini", &text).and_then(|system| Session::new(&system, &request));
        let refused = session.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn the_reduced_counter_of_a_microcontroller_is_programmed_by_its_one_register() {
    let request = Request {
        units: vec![("etm".to_owned(), None)],
        sink: Some("tpiu".to_owned()),
        timestamps: Some(Timestamps::EveryCycles(1000)),
        ..Request::default()
    };
    let session = Session::new(&bundled(), &request).unwrap();
    assert_eq!(written(&session, "ETMCNTRLDVR1"), Some(1000));
    assert_eq!(written(&session, "ETMCNTENR1"), None);
    assert_eq!(written(&session, "ETMTSEVR"), Some(0x40));
}
