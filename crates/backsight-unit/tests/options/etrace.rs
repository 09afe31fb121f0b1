//! E-Trace: parameters, options, resynchronisation, framings, buffers, retirement.

use backsight_core::Located;
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings as Following};
use backsight_isa::rv::Set;
use backsight_riscv::encap::{Encapsulation, Framing};
use backsight_riscv::etrace::{Config, Content, Decoder, ImplicitReturn, Message, Options, Params, set};
use backsight_unit::etrace::{Fifo, Settings, Unit, UnitConfig};
use backsight_unit::riscv::retire::{Architecture, MOST_PORTS, Retirement};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::Effort;
use crate::riscv::Run;

/// Nothing is switched on.
fn plain() -> UnitConfig {
    let params = Params {
        iaddress_width: 64,
        ecause_width: 5,
        implicit_return: ImplicitReturn::Returns,
        ..Params::default()
    };
    UnitConfig { params, framing: Framing::ATB, ..UnitConfig::default() }
}

/// Everything that leaves something out is switched on.
fn everything() -> UnitConfig {
    let params = Params {
        bpred_size: 4,
        cache_size: 4,
        f0s_width: 1,
        return_stack_size: 3,
        call_counter_size: 2,
        sijump: 1,
        ..plain().params
    };
    let options = Options {
        implicit_return: true,
        jump_target_cache: true,
        branch_prediction: true,
        sijump: true,
        ..Options::default()
    };
    UnitConfig { params, options, ..plain() }
}

/// Units with one parameter of any value; the fields that it is about are there.
fn parameters(run: &Run, effort: Effort) -> Vec<(String, UnitConfig)> {
    let mut units = Vec::new();
    for (name, _) in Params::default().list() {
        let sensible = match name {
            // Addresses must fit, and compressed instructions begin at any half-word.
            "iaddress_width" => run.address_bits()..=64,
            "iaddress_lsb" => 0..=1,
            _ => 0..=255,
        };
        for value in effort.values(0, 255).into_iter().filter(|value| sensible.contains(value)) {
            for (which, mut unit) in [("nothing", plain()), ("everything", everything())] {
                if set(&mut unit.params, &mut unit.options, &format!("{name}={value}")).is_err() {
                    break;
                }
                match name {
                    "context_width" => unit.params.nocontext = 0,
                    "time_width" => unit.params.notime = 0,
                    _ => {}
                }
                units.push((format!("{name}={value}, {which} on"), unit));
            }
        }
    }
    units
}

fn settings(effort: Effort) -> Vec<(String, UnitConfig)> {
    let mut units = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut UnitConfig)| {
        for (which, mut unit) in [("nothing", plain()), ("everything", everything())] {
            change(&mut unit);
            units.push((format!("{what}, {which} on"), unit));
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
        for type_bits in 0..=2 {
            let framing = Framing::Standard(Encapsulation { source_bits, time_bytes: 0, type_bits });
            let source = ((1u32 << source_bits) - 1) as u16;
            add(format!("{framing:?}"), &|unit| (unit.framing, unit.source) = (framing, source));
        }
        let framing = Framing::Reference { hart_bits: source_bits };
        add(format!("{framing:?}"), &|unit| unit.framing = framing);
    }
    for value in effort.values(1, 1 << 16).into_iter().map(|value| value as u32) {
        let fifo = Fifo { capacity: value + Fifo::LEAST - 1, drain: 100, lossless: true };
        add(format!("{fifo:?}"), &|unit| unit.fifo = Some(fifo));
        let fifo = Fifo { capacity: Fifo::LEAST, drain: value, lossless: true };
        add(format!("{fifo:?}"), &|unit| unit.fifo = Some(fifo));
    }
    for number in 1..=MOST_PORTS {
        for architecture in [Architecture::Branches(number), Architecture::Blocks(number)] {
            let retirement = Retirement::new(architecture);
            add(retirement.to_string(), &|unit| unit.retirement = Some(retirement));
            let retirement = Retirement { ports: MOST_PORTS + 1 - number, ..retirement };
            add(retirement.to_string(), &|unit| unit.retirement = Some(retirement));
        }
    }
    units
}

/// Traces a program and follows its trace; `None` if there can be no such unit.
pub fn traced_and_followed(run: &Run, unit: &UnitConfig, what: &str) -> Option<Vec<Event>> {
    let mut traced = Unit::new(*unit).ok()?;
    let mut bytes = Vec::new();
    traced.push_all(&run.items, &mut bytes);
    traced.finish(&mut bytes);
    let config = Config { params: unit.params, options: unit.options, framing: unit.framing };
    let (mut decoder, mut events) = (Decoder::new(&config), Vec::new());
    // Narrow addresses do not make the program one of 32 bits.
    let following = Following { set: Set::RV64, ..Following::from(&config) };
    let mut follower = Follower::new(following, &run.image);
    let mut sink = |event: Located<Event>| events.push(event.value);
    let mut each = |message: Located<Message>| {
        let good = matches!(message.value.content, Content::Instruction(_) | Content::Null);
        assert!(good, "{what}: {message:x?}");
        follower.push(message, &mut sink);
    };
    decoder.feed(&bytes, &mut each);
    decoder.finish(&mut each);
    follower.finish(&mut sink);
    Some(events)
}

fn check(run: &Run, unit: &UnitConfig, what: &str) -> bool {
    let events = traced_and_followed(run, unit, what);
    events.iter().for_each(|events| run.check(events, what));
    events.is_some()
}

fn sweep(effort: Effort) {
    let runs = ["calls", "sort"].map(|name| (name, Run::new(name, effort)));
    for (name, run) in &runs {
        let units = parameters(run, effort).into_iter().chain(settings(effort));
        let (mut tried, mut possible) = (0, 0);
        for (what, unit) in units {
            tried += 1;
            possible += usize::from(check(run, &unit, &format!("{name}, {what}")));
        }
        println!("E-Trace, {name}: {possible} units decode to the truth");
        assert!(possible * 10 > tried * 9, "{possible} of {tried} units can be");
    }
}

#[test]
fn parameters_and_settings_decode_to_the_truth() {
    sweep(Effort::Quick);
}

#[test]
#[ignore = "minutes: tests/options/run"]
fn parameters_and_settings_decode_to_the_truth_thoroughly() {
    sweep(Effort::Thorough);
}
