//! ETMv4 and ETE: periods, thresholds, depths, buffers, Q elements and identification registers. Filters and comparators
//! have no range to sweep: any address is one, and the tests of losses try them against what a filter should let through.

use backsight_arm::etm4::Config;
use backsight_core::Execution;
use backsight_unit::etm4::{Fifo, FrontEnd, Unit, UnitConfig};

use crate::Effort;
use crate::support::decode::{
    addresses, assert_same, follow_unknown_paths, in_order, stretches, trace, truth,
};
use crate::support::{Flavour, Program, Walk, Walker};

/// TRCCONFIGR: cycle counts, context IDs, VMIDs, timestamps, return stack.
const EVERYTHING: u32 = 1 << 4 | 1 << 6 | 1 << 7 | 1 << 11 | 1 << 12;

fn units(ete: bool, effort: Effort) -> Vec<(String, UnitConfig)> {
    let mut units = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut UnitConfig)| {
        for everything in [false, true] {
            let mut config = if ete { Config::ete_default() } else { Config::etm4_default() };
            config.registers.configr |= if everything { EVERYTHING } else { 0 };
            let mut unit = UnitConfig::new(config);
            change(&mut unit);
            units.push((format!("{what}, {}", if everything { "everything on" } else { "as it is" }), unit));
        }
    };
    for syncpr in 0..=20 {
        add(format!("TRCSYNCPR={syncpr}"), &|unit| unit.controls.syncpr = syncpr);
    }
    for threshold in effort.values(0, 0xFFF) {
        add(format!("TRCCCCTLR={threshold}"), &|unit| unit.config.registers.ccctlr = threshold as u32);
    }
    for depth in 1..=15 {
        add(format!("return_stack_depth={depth}"), &|unit| unit.return_stack_depth = depth);
    }
    for id in effort.values(1, 0x6F) {
        add(format!("TRCTRACEIDR={id}"), &|unit| unit.config.registers.traceidr = id as u32);
    }
    for period in effort.values(1, 1 << 20) {
        add(format!("timestamp_period={period}"), &|unit| unit.timestamps.period = period);
        add(format!("event_period={period}"), &|unit| unit.events = Some((period, 0xF)));
    }
    for divider in effort.values(1, u32::MAX.into()) {
        add(format!("timestamp_divider={divider}"), &|unit| unit.timestamps.divider = divider as u32);
    }
    for first in effort.values(0, u64::MAX) {
        add(format!("first_timestamp={first}"), &|unit| unit.timestamps.first = first);
    }
    for bits in 1..=15 {
        add(format!("events={bits}"), &|unit| unit.events = Some((100, bits)));
    }
    for depth in effort.values(1, 200) {
        add(format!("TRCIDR8={depth}"), &|unit| {
            unit.config.registers.idr8 = depth as u32;
            unit.front_end = Some(FrontEnd { seed: depth, wrong: 50, longest_path: 6 });
        });
    }
    for value in effort.values(0, 100) {
        add(format!("wrong={value}"), &|unit| {
            unit.config.registers.idr8 = 20;
            unit.front_end = Some(FrontEnd { seed: value, wrong: value as u8, longest_path: 6 });
        });
        add(format!("longest_path={value}"), &|unit| {
            unit.config.registers.idr8 = 20;
            unit.front_end = Some(FrontEnd { seed: value, wrong: 40, longest_path: value as u8 });
        });
    }
    // Fields of the identification registers: sizes of cycle counts, context IDs, VMIDs and timestamps, and the version.
    for (field, shift, values) in [
        ("TRCIDR2.CCSIZE", 25, &[0, 1, 2, 3, 4, 5, 6, 7, 8][..]),
        ("TRCIDR2.CIDSIZE", 5, &[0, 4]),
        ("TRCIDR2.VMIDSIZE", 10, &[0, 1, 2, 4]),
    ] {
        for &value in values {
            let mask = if shift == 25 { 0xF } else { 0x1F };
            add(format!("{field}={value}"), &|unit| {
                let idr2 = &mut unit.config.registers.idr2;
                *idr2 = *idr2 & !(mask << shift) | value << shift;
            });
        }
    }
    for size in [6, 8] {
        add(format!("TRCIDR0.TSSIZE={size}"), &|unit| {
            let idr0 = &mut unit.config.registers.idr0;
            *idr0 = *idr0 & !(0x1F << 24) | size << 24;
        });
    }
    if !ete {
        for minor in 0..=5 {
            add(format!("TRCIDR1.TRCARCHMIN={minor}"), &|unit| {
                let idr1 = &mut unit.config.registers.idr1;
                *idr1 = *idr1 & !0xF0 | minor << 4;
            });
        }
    }
    if ete {
        for atoms in effort.values(0, 64) {
            add(format!("source_addresses={atoms}"), &|unit| unit.source_addresses = Some(atoms as u32));
        }
    }
    units
}

fn sweep(effort: Effort) {
    let (mut tried, mut possible) = (0, 0);
    for ete in [false, true] {
        for flavour in [Flavour::A64, Flavour::AArch32] {
            let program = Program::random(7, flavour, ete);
            let walk = Walk {
                seed: 7,
                steps: effort.instructions() / 4,
                handlers: true,
                interrupts: 50,
                contexts: 100,
                gaps: 200,
                cycles: true,
            };
            let items = Walker::run(&program, walk);
            let truth = truth(&items);
            for (what, unit) in units(ete, effort) {
                tried += 1;
                // What is switched on must have a size.
                if Unit::new(unit.clone()).is_err() {
                    continue;
                }
                possible += 1;
                let decoded = trace(&unit, &program, &items);
                let what = || format!("{what}, {flavour:?}, {}", if ete { "ETE" } else { "ETMv4" });
                assert_same(&addresses(&program, &decoded.events), &truth, what);
            }
        }
    }
    println!("ETMv4 and ETE: {possible} units decode to the truth");
    assert!(possible * 10 > tried * 9, "{possible} of {tried} units can be");
}

fn short_walk(program: &Program, effort: Effort) -> Vec<Execution> {
    Walker::run(program, Walk { seed: 7, steps: effort.instructions() / 4, ..Walk::default() })
}

/// A buffer that is too small loses instructions: the rest is a part of the truth, and the unit counted what is missing.
fn sweep_buffers(effort: Effort) {
    let (mut units, mut overflows) = (0, 0);
    for (flavour, ete) in [(Flavour::A64, false), (Flavour::AArch32, false), (Flavour::A64, true)] {
        let program = Program::random(7, flavour, ete);
        let items = short_walk(&program, effort);
        let truth = truth(&items);
        let sizes = effort.values(1, u32::MAX.into()).into_iter().map(|value| value as u32);
        let fifos = sizes
            .flat_map(|value| [Fifo { capacity: value, drain: 300 }, Fifo { capacity: 90, drain: value }]);
        for fifo in fifos {
            let config = if ete { Config::ete_default() } else { Config::etm4_default() };
            let mut unit = UnitConfig::new(config);
            unit.fifo = Some(fifo);
            unit.controls.syncpr = 8;
            let decoded = trace(&unit, &program, &items);
            let statistics = decoded.statistics;
            let found = in_order(&stretches(&program, &decoded.events), &truth) as u64;
            assert_eq!(found, statistics.traced, "{fifo:?}, {flavour:?}");
            assert_eq!(statistics.traced + statistics.lost, truth.len() as u64, "{fifo:?}, {flavour:?}");
            (units, overflows) = (units + 1, overflows + statistics.overflows);
        }
    }
    println!("ETMv4 and ETE: {units} units with a buffer lose what they say, {overflows} times");
    assert!(overflows > 100, "the buffers were full {overflows} times");
}

/// Q elements of any length: how many instructions were executed, and where they end.
fn sweep_q(effort: Effort) {
    let (mut units, mut unknown) = (0, 0);
    for flavour in [Flavour::A64, Flavour::AArch32] {
        let program = Program::random(7, flavour, false);
        let items = short_walk(&program, effort);
        let truth = truth(&items);
        for longest_q in effort.values(1, u32::MAX.into()) {
            let mut unit = UnitConfig::default();
            unit.config.registers.configr |= 1 << 12 | 1 << 13;
            unit.config.registers.idr0 |= 3 << 15;
            unit.controls.set_range(2, 0x40_0000, 0x40_7FFF);
            unit.controls.qctlr = 0x104;
            unit.longest_q = longest_q as u32;
            let decoded = trace(&unit, &program, &items);
            let what = || format!("longest_q={longest_q}, {flavour:?}");
            unknown += follow_unknown_paths(&program, &decoded.events, &truth, what);
            units += 1;
        }
    }
    println!(
        "ETMv4: {units} units with Q elements report the truth, {unknown} paths of unknown instructions"
    );
    assert!(unknown > 500, "{unknown} paths");
}

#[test]
fn buffers_of_any_size_lose_what_they_say() {
    sweep_buffers(Effort::Quick);
}

#[test]
#[ignore = "minutes: tests/options/run"]
fn buffers_of_any_size_lose_what_they_say_thoroughly() {
    sweep_buffers(Effort::Thorough);
}

#[test]
fn q_elements_of_any_length_decode_to_the_truth() {
    sweep_q(Effort::Quick);
}

#[test]
#[ignore = "minutes: tests/options/run"]
fn q_elements_of_any_length_decode_to_the_truth_thoroughly() {
    sweep_q(Effort::Thorough);
}

#[test]
fn registers_and_settings_decode_to_the_truth() {
    sweep(Effort::Quick);
}

#[test]
#[ignore = "minutes: tests/options/run"]
fn registers_and_settings_decode_to_the_truth_thoroughly() {
    sweep(Effort::Thorough);
}
