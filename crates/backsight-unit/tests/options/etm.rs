//! PTM and ETMv3: periods, depths, sizes, versions, data trace.

use std::ops::Range;

use backsight_arm::etm::packets;
use backsight_arm::{etm3, ptm};
use backsight_core::{Execution, Located};
use backsight_flow::Event;
use backsight_flow::etm::{Follower, Protocol as Followed};
use backsight_testing::Random;
use backsight_unit::etm::{Protocol as Traced, Unit, UnitConfig};

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

/// Units of a protocol, each with its name: what is swept, with every value of one option. `own` are words that only this
/// protocol has.
fn units<C: Traced>(
    effort: Effort,
    (option, values): (&str, &[&str]),
    own: &[(&str, &[&str])],
    depths: Range<u8>,
) -> Vec<(String, UnitConfig<C>)> {
    let mut units = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut UnitConfig<C>)| {
        for (which, on) in [("nothing", NOTHING), ("everything", EVERYTHING)] {
            for value in values {
                let mut config = C::default();
                let words = on.iter().copied().chain([(option, *value)]);
                words.for_each(|(word, value)| config.set(word, value).expect("a word of the protocol"));
                let mut unit = UnitConfig::new(config);
                change(&mut unit);
                units.push((format!("{what}, {which} on, {option}={value}"), unit));
            }
        }
    };
    for depth in depths {
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
        add(format!("ETMTRACEIDR={id}"), &|unit| unit.config.registers_mut().traceidr = id as u32);
    }
    for (word, values) in WORDS.iter().chain(own) {
        for value in *values {
            let what = format!("{word}={value}");
            add(what, &|unit| unit.config.set(word, value).expect("a word of the protocol"));
        }
    }
    units
}

fn ptm_units(effort: Effort) -> Vec<(String, UnitConfig<ptm::Config>)> {
    let own: [(&str, &[&str]); 2] = [("barriers", &["0", "1"]), ("version", &["1.0", "1.1"])];
    units(effort, ("return_stack", &["0", "1"]), &own, 1..16)
}

fn etm3_units(effort: Effort) -> Vec<(String, UnitConfig<etm3::Config>)> {
    let own: [(&str, &[&str]); 2] =
        [("alternative_branches", &["0", "1"]), ("version", &["3.0", "3.1", "3.2", "3.3", "3.4", "3.5"])];
    units(effort, ("data", &["none", "address", "value", "both"]), &own, 0..0)
}

fn follow<C: Traced + Followed>(
    unit: &UnitConfig<C>,
    program: &Program,
    items: &[Execution],
    what: &str,
) -> Vec<Event> {
    let (mut traced, mut bytes) = (Unit::new(*unit), Vec::new());
    traced.push_all(items, &mut bytes);
    traced.finish(&mut bytes);
    let mut follower = Follower::new(&unit.config, program);
    let mut events = Vec::new();
    let mut sink = |event: Located<Event>| events.push(event.value);
    packets(&unit.config, &bytes, &mut |packet| {
        assert!(C::is_packet(&packet.value), "{what}: {packet:x?}");
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
        let events = follow(unit, &program, &items, what);
        assert_same(&addresses(&program, &events), &truth, || what.clone());
    }
    println!("PTM: {} units decode to the truth", units.len());
}

fn sweep_etm3(effort: Effort) {
    let (program, items) = executed(effort);
    let truth = truth(&items);
    let units = etm3_units(effort);
    for (what, unit) in &units {
        let events = follow(unit, &program, &items, what);
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
