//! The encoder for CVA6: resynchronisation, full addresses, retirement, framings.
//!
//! Its packets name the last instruction of a block, so that those before it are not in the trace after a jump that is
//! no return, and at the beginning: they follow one another up to the named one. Everything else is the truth.

use backsight_core::Address;
use backsight_flow::Event;
use backsight_riscv::encap::{Encapsulation, Framing};
use backsight_unit::cva6::Fidelity;
use backsight_unit::etrace::{Settings, UnitConfig};
use backsight_unit::riscv::retire::{Architecture, MOST_PORTS, Retirement};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::Effort;
use crate::etrace::traced_and_followed;
use crate::riscv::Run;

fn units(effort: Effort) -> Vec<(String, UnitConfig)> {
    let mut units = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut UnitConfig)| {
        for full_address in [false, true] {
            let params = backsight_riscv::cva6::params();
            let cva6 = Some(Fidelity::Followable);
            let mut unit = UnitConfig { params, cva6, framing: Framing::Pulp, ..UnitConfig::default() };
            unit.options.full_address = full_address;
            change(&mut unit);
            units.push((format!("{what}, full addresses {full_address}"), unit));
        }
    };
    for mode in [ResyncMode::Packets, ResyncMode::Cycles, ResyncMode::HalfWords] {
        for limit in effort.values(1, 1 << 19) {
            let resync = Resync { mode, limit };
            add(format!("{resync:?}"), &|unit| unit.settings = Settings { resync, ..Settings::default() });
        }
    }
    for sync_period in effort.values(0, 1 << 16) {
        add(format!("sync_period={sync_period}"), &|unit| unit.sync_period = sync_period);
    }
    for source_bits in 0..=16u8 {
        let framing = Framing::Standard(Encapsulation { source_bits, time_bytes: 0, type_bits: 1 });
        let source = ((1u32 << source_bits) - 1) as u16;
        add(format!("{framing:?}"), &|unit| (unit.framing, unit.source) = (framing, source));
    }
    for number in 1..=MOST_PORTS {
        for architecture in [Architecture::Branches(number), Architecture::Blocks(number)] {
            let retirement = Retirement::new(architecture);
            add(retirement.to_string(), &|unit| unit.retirement = Some(retirement));
        }
    }
    units
}

/// Compares what was followed with the truth; gives the number of instructions that are not in the trace.
fn agree(run: &Run, events: &[Event], what: &str) -> usize {
    let (mut at, mut hidden) = (0, 0);
    // The trace begins with the last instruction of a block.
    let mut may_hide = true;
    for event in events {
        match event {
            Event::Range(range) => {
                let followed = run.addresses(range);
                let from = if std::mem::take(&mut may_hide) { plain_up_to(run, at, range.start) } else { 0 };
                let expected = run.truth.get(at + from..at + from + followed.len());
                assert_eq!(expected, Some(&followed[..]), "{what}: from instruction {at} on");
                (at, hidden) = (at + from + followed.len(), hidden + from);
            }
            Event::PathUnknown { .. } => may_hide = true,
            Event::NoMemory { .. } | Event::Mismatch { .. } | Event::NoSync(_) => {
                panic!("{what}: {event:x?}")
            }
            _ => {}
        }
    }
    assert_eq!(at, run.truth.len(), "{what}: every instruction up to the last is reported");
    hidden
}

/// How many instructions of the truth follow one another up to an address.
fn plain_up_to(run: &Run, at: usize, address: Address) -> usize {
    let rest = &run.truth[at.min(run.truth.len())..];
    let follows = |pair: &[Address]| (2..=4).contains(&pair[1].0.wrapping_sub(pair[0].0));
    let plain = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
    rest.iter().take(plain).position(|&executed| executed == address).unwrap_or(0)
}

fn check(run: &Run, unit: &UnitConfig, what: &str) -> usize {
    let events = traced_and_followed(run, unit, what).unwrap_or_else(|| panic!("{what}: no such unit"));
    agree(run, &events, what)
}

fn sweep(effort: Effort) {
    for name in ["calls", "sort"] {
        let run = Run::new(name, effort);
        let units = units(effort);
        let hidden: usize =
            units.iter().map(|(what, unit)| check(&run, unit, &format!("{name}, {what}"))).sum();
        let count = units.len();
        println!(
            "CVA6, {name}: {count} units decode to the truth but for {hidden} instructions that are not sent"
        );
        assert!(hidden < count * run.truth.len() / 20, "{hidden} instructions are not in the trace");
    }
}

#[test]
fn settings_decode_to_the_truth_but_for_what_is_not_sent() {
    sweep(Effort::Quick);
}

#[test]
#[ignore = "minutes: tests/options/run"]
fn settings_decode_to_the_truth_but_for_what_is_not_sent_thoroughly() {
    sweep(Effort::Thorough);
}
