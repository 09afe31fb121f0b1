//! What the units of PTM and ETMv3 write, decoded, is what was executed and accessed.

use crate::support::accesses::with_accesses;
use crate::support::decode::{addresses, assert_same, truth};
use crate::support::{Flavour, Program, Walk, Walker};
use backsight_arm::etm::Decoder;
use backsight_arm::{etm3, ptm};
use backsight_core::{Address, Execution, Located};
use backsight_flow::etm::{Follower, Options, Protocol as Followed};
use backsight_flow::{AccessKind, Event};
use backsight_testing::Random;
use backsight_unit::etm::{Protocol as Traced, Statistics, Unit, UnitConfig};

fn any_walk(random: &mut Random, seed: u64) -> Walk {
    Walk {
        seed,
        steps: 1500,
        handlers: random.below(3) != 0,
        interrupts: [0, 3, 50, 200][random.below(4) as usize],
        contexts: [0, 20, 100][random.below(3) as usize],
        gaps: [0, 0, 200][random.below(3) as usize],
        cycles: random.below(3) != 0,
    }
}

/// Exceptions, by return address.
fn exceptions(events: &[Event]) -> Vec<Option<Address>> {
    let returns = |event: &Event| match event {
        Event::Exception { return_address, .. } => Some(*return_address),
        _ => None,
    };
    events.iter().filter_map(returns).collect()
}

fn traps(items: &[Execution]) -> usize {
    items.iter().filter(|item| matches!(item, Execution::Trap(_))).count()
}

/// The bytes that a unit writes of these items.
fn traced<C: Traced>(unit: UnitConfig<C>, items: &[Execution]) -> (Vec<u8>, Statistics) {
    let (mut unit, mut bytes) = (Unit::new(unit), Vec::new());
    unit.push_all(items, &mut bytes);
    unit.finish(&mut bytes);
    (bytes, unit.statistics())
}

fn follow<C: Followed>(
    config: &C,
    program: &Program,
    bytes: &[u8],
    chunk: usize,
    blocks: usize,
) -> Vec<Event> {
    let options = Options { cached_blocks: blocks, ..Options::default() };
    let mut follower = Follower::with_options(config, program, options);
    let mut decoder = Decoder::<C>::new(config);
    let mut events = Vec::new();
    let mut sink = |event: Located<Event>| events.push(event.value);
    for piece in bytes.chunks(chunk) {
        decoder.feed(piece, &mut |packet| {
            assert!(C::is_packet(&packet.value), "{packet:x?}");
            follower.push(packet, &mut sink);
        });
    }
    decoder.finish(&mut |packet| panic!("{packet:x?}"));
    follower.finish(&mut sink);
    events
}

#[test]
fn ptm_gives_what_was_executed_in_every_configuration() {
    let mut stacked = 0;
    for seed in 0..150 {
        let random = &mut Random(seed);
        let mut config = ptm::Config::default();
        for (option, one_of) in
            [("cyclecount", 3), ("branch_broadcast", 4), ("return_stack", 2), ("barriers", 3), ("vmid", 3)]
        {
            config.set(option, if random.below(one_of) == 0 { "1" } else { "0" }).unwrap();
        }
        config.set("context_id", ["0", "1", "2", "4"][random.below(4) as usize]).unwrap();
        config.set("timestamp_bits", ["0", "48", "64"][random.below(3) as usize]).unwrap();
        config.set("timestamp_encoding", ["gray", "binary"][random.below(2) as usize]).unwrap();
        config.set("version", ["1.0", "1.1", "1.1"][random.below(3) as usize]).unwrap();
        let mut options = UnitConfig::new(config);
        options.sync_period = [0, 64, 1024][random.below(3) as usize];
        options.return_stack_depth = 1 + random.below(15) as u8;
        options.timestamps.period = 1 + random.below(300);
        let program = Program::random(seed, Flavour::AArch32, false);
        let walk = any_walk(random, seed);
        let items = Walker::run(&program, walk);
        let (bytes, statistics) = traced(options, &items);
        let events = follow(&config, &program, &bytes, usize::MAX, 1 << 16);
        let what = || format!("seed {seed}\n{options:x?}\n{walk:?}");
        assert_same(&addresses(&program, &events), &truth(&items), what);
        assert_eq!(exceptions(&events).len(), traps(&items), "{}", what());
        assert!(follow(&config, &program, &bytes, 7, 1) == events, "cache and pieces: {}", what());
        stacked += usize::from(config.return_stack());
        assert_eq!(statistics.instructions, truth(&items).len() as u64);
    }
    assert!(stacked > 30);
}

/// An access: who did it, where, what, how wide, and whether it stored.
type Seen = (Option<Address>, Option<u64>, Option<u64>, u8, bool);

fn accesses_of(items: &[Execution], addresses: bool, values: bool) -> Vec<Seen> {
    let mut last = None;
    let mut seen = Vec::new();
    for item in items {
        match item {
            Execution::Instruction(retired) => last = Some(retired.address),
            Execution::Access(access) => {
                let address = addresses.then_some(access.address.0);
                seen.push((last, address, values.then_some(access.value), access.size, access.store));
            }
            _ => {}
        }
    }
    seen
}

fn accesses_in(events: &[Event]) -> Vec<Seen> {
    let seen = |event: &Event| match event {
        Event::Access(access) => {
            let store = match access.kind() {
                AccessKind::Load => false,
                AccessKind::Store => true,
                other => panic!("{other:?}"),
            };
            let address = access.address().map(|address| address.0);
            Some((access.instruction(), address, access.value(), access.size(), store))
        }
        _ => None,
    };
    events.iter().filter_map(seen).collect()
}

#[test]
fn etm3_gives_what_was_executed_and_accessed_in_every_configuration() {
    let mut compared = 0;
    for seed in 0..150 {
        let random = &mut Random(seed);
        let mut config = etm3::Config::default();
        for (option, one_of) in
            [("cyclecount", 3), ("branch_broadcast", 4), ("alternative_branches", 2), ("vmid", 3)]
        {
            config.set(option, if random.below(one_of) == 0 { "1" } else { "0" }).unwrap();
        }
        let data = ["none", "address", "value", "both"][random.below(4) as usize];
        config.set("data", data).unwrap();
        config.set("context_id", ["0", "1", "2", "4"][random.below(4) as usize]).unwrap();
        config.set("timestamp_bits", ["0", "48", "64"][random.below(3) as usize]).unwrap();
        let version = ["3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.5"][random.below(7) as usize];
        config.set("version", version).unwrap();
        let mut options = UnitConfig::new(config);
        options.sync_period = [0, 64, 1024][random.below(3) as usize];
        options.timestamps.period = 1 + random.below(300);
        let program = Program::random(seed, Flavour::AArch32, false);
        let walk = any_walk(random, seed);
        let items = with_accesses(&Walker::run(&program, walk), random);
        let (bytes, _) = traced(options, &items);
        let events = follow(&config, &program, &bytes, usize::MAX, 1 << 16);
        let what = || format!("seed {seed}\n{options:x?}\n{walk:?}");
        assert_same(&addresses(&program, &events), &truth(&items), what);
        assert_eq!(exceptions(&events).len(), traps(&items), "{}", what());
        if data != "none" {
            let expected = accesses_of(&items, config.data_addresses(), config.data_values());
            assert!(accesses_in(&events) == expected, "accesses: {}", what());
            compared += expected.len();
        }
        assert!(follow(&config, &program, &bytes, 7, 1) == events, "cache and pieces: {}", what());
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn etm3_of_data_only_mode_gives_accesses_without_instructions() {
    let random = &mut Random(5);
    let program = Program::random(5, Flavour::AArch32, false);
    let items = with_accesses(&Walker::run(&program, Walk::default()), random);
    let mut config = etm3::Config::default();
    config.set("data", "both").unwrap();
    config.set("data_only", "1").unwrap();
    let (bytes, _) = traced(UnitConfig::new(config), &items);
    let events = follow(&config, &program, &bytes, usize::MAX, 1 << 16);
    let values: Vec<Option<u64>> = events
        .iter()
        .filter_map(|event| match event {
            Event::Access(access) => {
                assert_eq!((access.kind(), access.instruction()), (AccessKind::Unknown, None));
                Some(access.value())
            }
            Event::Range(range) => panic!("{range:x?}"),
            _ => None,
        })
        .collect();
    let expected: Vec<Option<u64>> =
        accesses_of(&items, true, true).into_iter().map(|(_, _, value, ..)| value).collect();
    assert!(!values.is_empty() && values == expected);
}
