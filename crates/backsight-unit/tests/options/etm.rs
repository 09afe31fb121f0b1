//! PTM and ETMv3: periods, depths, sizes, versions, data trace.

use backsight_arm::{etm3, ptm};
use backsight_core::{Execution, Located};
use backsight_flow::{Event, etm3 as etm3_flow, ptm as ptm_flow};
use backsight_testing::Random;
use backsight_unit::{etm3 as etm3_unit, ptm as ptm_unit};

use crate::Effort;
use crate::support::accesses::with_accesses;
use crate::support::decode::{addresses, assert_same, truth};
use crate::support::{Flavour, Program, Walk, Walker};

/// What is switched on beside the option that is swept.
const NOTHING: &[(&str, &str)] = &[];
const EVERYTHING: &[(&str, &str)] = &[
    ("cyclecount", "1"),
    ("branch_broadcast", "1"),
    ("context_id", "4"),
    ("vmid", "1"),
    ("timestamp_bits", "64"),
];

/// Words of a configuration that both have, each with its values.
const WORDS: &[(&str, &[&str])] = &[
    ("context_id", &["0", "1", "2", "4"]),
    ("timestamp_bits", &["0", "48", "64"]),
    ("timestamp_encoding", &["gray", "binary"]),
    ("cyclecount", &["0", "1"]),
    ("branch_broadcast", &["0", "1"]),
    ("vmid", &["0", "1"]),
];

fn executed(effort: Effort) -> (Program, Vec<Execution>) {
    let program = Program::random(7, Flavour::AArch32, false);
    let walk = Walk {
        seed: 7,
        steps: effort.instructions() / 4,
        handlers: true,
        interrupts: 50,
        contexts: 100,
        gaps: 200,
        cycles: true,
    };
    let items = with_accesses(&Walker::run(&program, walk), &mut Random(7));
    (program, items)
}

fn ptm_units(effort: Effort) -> Vec<(String, ptm_unit::UnitConfig)> {
    let mut units = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut ptm_unit::UnitConfig)| {
        for (which, on) in [("nothing", NOTHING), ("everything", EVERYTHING)] {
            for return_stack in ["0", "1"] {
                let mut config = ptm::Config::default();
                let words = on.iter().copied().chain([("return_stack", return_stack)]);
                words.for_each(|(word, value)| config.set(word, value).expect("a word of PTM"));
                let mut unit = ptm_unit::UnitConfig::new(config);
                change(&mut unit);
                units.push((format!("{what}, {which} on, return_stack={return_stack}"), unit));
            }
        }
    };
    for depth in 1..=15 {
        add(format!("return_stack_depth={depth}"), &|unit| unit.return_stack_depth = depth);
    }
    for value in effort.values(0, 1 << 20) {
        add(format!("sync_period={value}"), &|unit| unit.sync_period = value);
    }
    for value in effort.values(1, 1 << 20) {
        add(format!("timestamp_period={value}"), &|unit| unit.timestamps.period = value);
    }
    for value in effort.values(0, u64::MAX) {
        add(format!("first_timestamp={value}"), &|unit| unit.timestamps.first = value);
    }
    for id in effort.values(1, 0x6F) {
        add(format!("ETMTRACEIDR={id}"), &|unit| unit.config.registers.traceidr = id as u32);
    }
    let own: [(&str, &[&str]); 2] = [("barriers", &["0", "1"]), ("version", &["1.0", "1.1"])];
    for (word, values) in WORDS.iter().chain(&own) {
        for value in *values {
            add(format!("{word}={value}"), &|unit| unit.config.set(word, value).expect("a word of PTM"));
        }
    }
    units
}

fn etm3_units(effort: Effort) -> Vec<(String, etm3_unit::UnitConfig)> {
    let mut units = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut etm3_unit::UnitConfig)| {
        for (which, on) in [("nothing", NOTHING), ("everything", EVERYTHING)] {
            for data in ["none", "address", "value", "both"] {
                let mut config = etm3::Config::default();
                let words = on.iter().copied().chain([("data", data)]);
                words.for_each(|(word, value)| config.set(word, value).expect("a word of ETMv3"));
                let mut unit = etm3_unit::UnitConfig::new(config);
                change(&mut unit);
                units.push((format!("{what}, {which} on, data={data}"), unit));
            }
        }
    };
    for value in effort.values(0, 1 << 20) {
        add(format!("sync_period={value}"), &|unit| unit.sync_period = value);
    }
    for value in effort.values(1, 1 << 20) {
        add(format!("timestamp_period={value}"), &|unit| unit.timestamps.period = value);
    }
    for value in effort.values(0, u64::MAX) {
        add(format!("first_timestamp={value}"), &|unit| unit.timestamps.first = value);
    }
    for id in effort.values(1, 0x6F) {
        add(format!("ETMTRACEIDR={id}"), &|unit| unit.config.registers.traceidr = id as u32);
    }
    let own: [(&str, &[&str]); 2] =
        [("alternative_branches", &["0", "1"]), ("version", &["3.0", "3.1", "3.2", "3.3", "3.4", "3.5"])];
    for (word, values) in WORDS.iter().chain(&own) {
        for value in *values {
            add(format!("{word}={value}"), &|unit| unit.config.set(word, value).expect("a word of ETMv3"));
        }
    }
    units
}

fn follow_ptm(unit: &ptm_unit::UnitConfig, program: &Program, items: &[Execution], what: &str) -> Vec<Event> {
    let (mut traced, mut bytes) = (ptm_unit::Unit::new(*unit), Vec::new());
    traced.push_all(items, &mut bytes);
    traced.finish(&mut bytes);
    let mut follower = ptm_flow::Follower::new(&unit.config, program);
    let mut events = Vec::new();
    let mut sink = |event: Located<Event>| events.push(event.value);
    ptm::packets(&unit.config, &bytes, &mut |packet| {
        let is_bad = matches!(packet.value, ptm::Packet::Bad(_) | ptm::Packet::Unsynchronised);
        assert!(!is_bad, "{what}: {packet:x?}");
        follower.push(packet, &mut sink);
    });
    follower.finish(&mut sink);
    events
}

fn follow_etm3(
    unit: &etm3_unit::UnitConfig,
    program: &Program,
    items: &[Execution],
    what: &str,
) -> Vec<Event> {
    let (mut traced, mut bytes) = (etm3_unit::Unit::new(*unit), Vec::new());
    traced.push_all(items, &mut bytes);
    traced.finish(&mut bytes);
    let mut follower = etm3_flow::Follower::new(&unit.config, program);
    let mut events = Vec::new();
    let mut sink = |event: Located<Event>| events.push(event.value);
    etm3::packets(&unit.config, &bytes, &mut |packet| {
        let is_bad = matches!(packet.value, etm3::Packet::Bad(_) | etm3::Packet::Unsynchronised);
        assert!(!is_bad, "{what}: {packet:x?}");
        follower.push(packet, &mut sink);
    });
    follower.finish(&mut sink);
    events
}

/// Addresses and values of accesses, as far as they are traced.
fn accesses(events: &[Event]) -> Vec<(Option<u64>, Option<u64>)> {
    let accesses = events.iter().filter_map(|event| match event {
        Event::Access(access) => Some((access.address().map(|address| address.0), access.value())),
        _ => None,
    });
    accesses.collect()
}

fn sweep_ptm(effort: Effort) {
    let (program, items) = executed(effort);
    let truth = truth(&items);
    let units = ptm_units(effort);
    for (what, unit) in &units {
        let events = follow_ptm(unit, &program, &items, what);
        assert_same(&addresses(&program, &events), &truth, || what.clone());
    }
    println!("PTM: {} units decode to the truth", units.len());
}

fn sweep_etm3(effort: Effort) {
    let (program, items) = executed(effort);
    let truth = truth(&items);
    let units = etm3_units(effort);
    for (what, unit) in &units {
        let events = follow_etm3(unit, &program, &items, what);
        assert_same(&addresses(&program, &events), &truth, || what.clone());
        if !unit.config.data_trace() {
            continue;
        }
        let (addresses, values) = (unit.config.data_addresses(), unit.config.data_values());
        let expected: Vec<(Option<u64>, Option<u64>)> = items
            .iter()
            .filter_map(|item| match item {
                Execution::Access(access) => {
                    Some((addresses.then_some(access.address.0), values.then_some(access.value)))
                }
                _ => None,
            })
            .collect();
        assert!(expected == accesses(&events), "{what}: accesses");
    }
    println!("ETMv3: {} units decode to the truth, accesses included", units.len());
}

#[test]
fn settings_of_ptm_decode_to_the_truth() {
    sweep_ptm(Effort::Quick);
}

#[test]
fn settings_of_etm3_decode_to_the_truth() {
    sweep_etm3(Effort::Quick);
}

#[test]
#[ignore = "minutes: tests/options/run"]
fn settings_of_ptm_decode_to_the_truth_thoroughly() {
    sweep_ptm(Effort::Thorough);
}

#[test]
#[ignore = "minutes: tests/options/run"]
fn settings_of_etm3_decode_to_the_truth_thoroughly() {
    sweep_etm3(Effort::Thorough);
}
