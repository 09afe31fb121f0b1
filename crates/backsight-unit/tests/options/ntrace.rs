//! N-Trace: histories, counters, return stack, resynchronisation, sources, time.

use backsight_core::Located;
use backsight_flow::Event;
use backsight_flow::ntrace::{Follower, Options};
use backsight_isa::rv::Set;
use backsight_riscv::ntrace::{
    Config, Decoder, Dialect, MOST_RETURNS, MOST_SOURCE_BITS, Message, Mode, Packet,
};
use backsight_unit::ntrace::{Settings, Timestamps, Unit, UnitConfig};
use backsight_unit::riscv::retire::{Architecture, MOST_PORTS, Retirement};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::Effort;
use crate::riscv::Run;

fn units(effort: Effort) -> Vec<(String, UnitConfig)> {
    let mut units = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut UnitConfig)| {
        for mode in [Mode::History, Mode::Branch] {
            for repeat in [false, true] {
                let settings =
                    Settings { mode, repeat_history: repeat, repeat_branch: repeat, ..Settings::default() };
                let mut unit = UnitConfig { settings, ..UnitConfig::default() };
                change(&mut unit);
                units.push((format!("{what}, {mode:?}, repeat {repeat}"), unit));
            }
        }
    };
    // Every length: repetitions of short histories are not like those of long ones.
    for history_bits in 1..=62 {
        add(format!("history_bits={history_bits}"), &|unit| unit.settings.history_bits = history_bits);
    }
    // One instruction has up to two half-words.
    for limit in effort.values(2, u32::MAX.into()) {
        add(format!("count_limit={limit}"), &|unit| unit.settings.count_limit = limit as u32);
    }
    for return_stack in effort.values(0, MOST_RETURNS.into()) {
        add(format!("return_stack={return_stack}"), &|unit| {
            unit.settings.return_stack = return_stack as u8;
        });
    }
    for mode in [ResyncMode::Packets, ResyncMode::Cycles, ResyncMode::HalfWords] {
        for limit in effort.values(1, 1 << 19) {
            let resync = Resync { mode, limit };
            add(format!("{resync:?}"), &|unit| unit.settings.resync = resync);
        }
    }
    for source_bits in 0..=MOST_SOURCE_BITS {
        let source = ((1u32 << source_bits) - 1) as u16;
        add(format!("source_bits={source_bits}"), &|unit| {
            (unit.config.source_bits, unit.settings.source) = (source_bits, source);
        });
    }
    for code in 0..16 {
        add(format!("start={code}"), &|unit| unit.settings.start = code);
        add(format!("end={code}"), &|unit| unit.settings.end = code);
    }
    for number in 1..=MOST_PORTS {
        for architecture in [Architecture::Branches(number), Architecture::Blocks(number)] {
            let retirement = Retirement::new(architecture);
            add(retirement.to_string(), &|unit| unit.retirement = Some(retirement));
        }
    }
    for timestamps in [Timestamps::Synchronising, Timestamps::All] {
        add(format!("{timestamps:?}"), &|unit| unit.settings.timestamps = timestamps);
    }
    add("ownership".to_owned(), &|unit| unit.settings.ownership = true);
    units
}

fn check(run: &Run, unit: &UnitConfig, what: &str) {
    let mut traced = Unit::new(*unit).expect("a unit that can be");
    let mut bytes = Vec::new();
    traced.push_all(&run.items, &mut bytes);
    traced.finish(&mut bytes);
    let config = Config { dialect: Some(Dialect::Ratified), ..unit.config };
    let (mut decoder, mut events) = (Decoder::new(&config), Vec::new());
    let mut follower =
        Follower::with_options(Set::RV64, &run.image, Options { config, ..Options::default() });
    let mut sink = |event: Located<Event>| events.push(event.value);
    let mut each = |packet: Located<Packet>| {
        assert!(!matches!(packet.value.message, Message::Bad(_)), "{what}: {packet:x?}");
        assert_eq!(packet.value.source, unit.settings.source, "{what}");
        follower.push(packet, &mut sink);
    };
    decoder.feed(&bytes, &mut each);
    decoder.finish(&mut each);
    follower.finish(&mut sink);
    run.check(&events, what);
}

fn sweep(effort: Effort) {
    for name in ["calls", "sort"] {
        let run = Run::new(name, effort);
        let units = units(effort);
        println!("N-Trace, {name}: {} units", units.len());
        for (what, unit) in units {
            check(&run, &unit, &format!("{name}, {what}"));
        }
    }
}

#[test]
fn settings_decode_to_the_truth() {
    sweep(Effort::Quick);
}

#[test]
#[ignore = "minutes: tests/options/run"]
fn settings_decode_to_the_truth_thoroughly() {
    sweep(Effort::Thorough);
}
