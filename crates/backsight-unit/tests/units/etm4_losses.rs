//! Gaps in the trace are where the unit was told to be silent, or where it lost data, and nowhere else.

use crate::support::decode::{addresses, assert_same, in_order, stretches, trace, truth};
use crate::support::{Flavour, Program, Walk, Walker};
use backsight_arm::etm4::{Config, Packet};
use backsight_core::{Address, Execution};
use backsight_flow::{Event, NoSync, TraceOn};
use backsight_isa::{Class, classify_retired};
use backsight_testing::Random;
use backsight_unit::etm4::{Fifo, UnitConfig};

fn walk(seed: u64) -> Walk {
    Walk { seed, steps: 3000, interrupts: 150, ..Walk::default() }
}

/// What a filter lets through, said in the simplest way: the instructions that it sees, and those behind them up to
/// the next P0 instruction.
fn filtered(items: &[Execution], sees: impl FnMut(Address) -> bool) -> Vec<Address> {
    let seen: Vec<bool> = truth(items).into_iter().map(sees).collect();
    let mut seen = seen.into_iter();
    let mut traced = Vec::new();
    let mut in_block = false;
    for item in items {
        match item {
            Execution::Instruction(retired) => {
                in_block |= seen.next() == Some(true);
                if in_block {
                    traced.push(retired.address);
                    let class = classify_retired(retired).class;
                    in_block = !matches!(class, Class::DirectBranch | Class::IndirectBranch | Class::Isb);
                }
            }
            Execution::Trap(_) => in_block = false,
            _ => {}
        }
    }
    traced
}

#[test]
fn an_address_filter_lets_blocks_through_that_begin_inside() {
    for seed in 0..20 {
        for flavour in [Flavour::A64, Flavour::AArch32] {
            let program = Program::random(seed, flavour, false);
            let items = Walker::run(&program, walk(seed));
            let mut options = UnitConfig::default();
            options.config.registers.configr |= 1 << 12;
            options.controls.set_range(0, 0x40_0000, 0x40_4FFF);
            options.controls.set_range(1, 0x40_1020, 0x40_103F);
            options.controls.viiectlr = 0x2_0001;
            let sees = |address: Address| {
                (0x40_0000..0x40_5000).contains(&address.0) && !(0x40_1020..0x40_1040).contains(&address.0)
            };
            let decoded = trace(&options, &program, &items);
            let expected = filtered(&items, sees);
            assert_same(&addresses(&program, &decoded.events), &expected, || format!("{flavour:?} {seed}"));
            assert_eq!(decoded.statistics.traced, expected.len() as u64);
            assert_eq!(decoded.statistics.filtered, (truth(&items).len() - expected.len()) as u64);
        }
    }
}

#[test]
fn a_filter_by_exception_level_leaves_the_handlers_out() {
    let program = Program::random(4, Flavour::A64, false);
    let items = Walker::run(&program, Walk { interrupts: 20, ..walk(4) });
    let mut options = UnitConfig::default();
    options.controls.victlr |= 1 << 21;
    let decoded = trace(&options, &program, &items);
    let mut level = 0;
    let mut expected = Vec::new();
    for item in &items {
        match item {
            Execution::Context(context) => level = context.level(),
            Execution::Instruction(retired) if level == 0 => expected.push(retired.address),
            _ => {}
        }
    }
    assert!(decoded.statistics.filtered > 100);
    assert_same(&addresses(&program, &decoded.events), &expected, || "EL1 left out".into());
}

#[test]
fn start_and_stop_addresses_switch_tracing() {
    let program = Program::random(9, Flavour::A64, false);
    let items = Walker::run(&program, walk(9));
    let truth = truth(&items);
    let (start, stop) = (truth[500], truth[700]);
    let mut options = UnitConfig::default();
    options.controls.acvr[0] = start.0;
    options.controls.acvr[1] = stop.0;
    options.controls.vissctlr = 0x2_0001;
    options.controls.victlr = 0;
    let decoded = trace(&options, &program, &items);
    let mut started = false;
    let expected = filtered(&items, |address| {
        let sees = started || address == start;
        started = sees && address != stop;
        sees
    });
    assert_same(&addresses(&program, &decoded.events), &expected, || format!("{start} to {stop}"));
}

#[test]
fn a_full_buffer_loses_whole_stretches_and_says_so() {
    let mut overflows = 0;
    for seed in 0..60 {
        let random = &mut Random(seed);
        let flavour = if seed % 2 == 0 { Flavour::A64 } else { Flavour::AArch32 };
        let program = Program::random(seed, flavour, false);
        let items = Walker::run(&program, walk(seed));
        let truth = truth(&items);
        let mut config = if seed % 3 == 0 { Config::ete_default() } else { Config::etm4_default() };
        config.registers.configr |= (random.next() as u32) & 0x1810;
        config.registers.idr8 = [0, 0, 7][random.below(3) as usize];
        let mut options = UnitConfig::new(config);
        options.fifo =
            Some(Fifo { capacity: 60 + random.below(100) as u32, drain: 50 + random.below(600) as u32 });
        options.controls.syncpr = 8;
        let decoded = trace(&options, &program, &items);
        let stretches = stretches(&program, &decoded.events);
        let statistics = decoded.statistics;
        assert_eq!(in_order(&stretches, &truth) as u64, statistics.traced, "seed {seed}");
        assert_eq!(statistics.traced + statistics.lost, truth.len() as u64, "seed {seed}");
        let count = |wanted: Event| decoded.events.iter().filter(|&&event| event == wanted).count() as u64;
        assert_eq!(count(Event::NoSync(NoSync::Overflow)), statistics.overflows, "seed {seed}");
        let unfinished = u64::from(decoded.packets.last() == Some(&Packet::Overflow));
        assert_eq!(
            count(Event::TraceOn(TraceOn::Overflow)) + unfinished,
            statistics.overflows,
            "seed {seed}"
        );
        assert_eq!(statistics.lost == 0, statistics.overflows == 0);
        overflows += statistics.overflows;
    }
    assert!(overflows > 100, "the buffer was full {overflows} times");
}

#[test]
fn a_gap_costs_nothing_but_the_gap() {
    let program = Program::random(3, Flavour::A64, false);
    let items = Walker::run(&program, Walk { gaps: 50, ..walk(3) });
    let decoded = trace(&UnitConfig::default(), &program, &items);
    assert_same(&addresses(&program, &decoded.events), &truth(&items), || "gaps".into());
    let gaps = items.iter().filter(|item| matches!(item, Execution::Gap)).count();
    let restarts = decoded.events.iter().filter(|event| matches!(event, Event::TraceOn(_))).count();
    assert!(gaps > 20 && (gaps - 3..=gaps + 1).contains(&restarts), "{gaps} gaps, {restarts} restarts");
}

#[test]
fn without_a_halt_the_last_instructions_before_a_gap_stay_untold() {
    let program = Program::random(3, Flavour::A64, false);
    let items = Walker::run(&program, Walk { gaps: 50, ..walk(3) });
    let options = UnitConfig { halt_at_end: false, ..UnitConfig::default() };
    let decoded = trace(&options, &program, &items);
    let stretches = stretches(&program, &decoded.events);
    let truth = truth(&items);
    assert_eq!(in_order(&stretches, &truth) as u64, decoded.statistics.traced);
    assert!(decoded.statistics.untold > 20);
    assert_eq!(decoded.statistics.traced + decoded.statistics.untold, truth.len() as u64);
}
