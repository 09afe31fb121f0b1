//! How many instructions a second the ETMv4 unit takes: `cargo run --release -p backsight-unit --example etm4_unit_speed`.

#[path = "../tests/support/mod.rs"]
mod support;

use backsight_arm::etm4::Config;
use backsight_core::Execution;
use backsight_unit::etm4::{Unit, UnitConfig};
use std::time::{Duration, Instant};
use support::{Flavour, Program, Walk, Walker};

/// The batch stays in the cache, as it does where instructions are made and traced in turn.
const STEPS: u64 = 20_000;
const ROUNDS: u64 = 200;

fn main() {
    for (name, flavour, configr) in [
        ("A64", Flavour::A64, 0xC1),
        ("A64, return stack", Flavour::A64, 0x10C1),
        ("A64, branch broadcast", Flavour::A64, 0xC9),
        ("A64, cycle counts", Flavour::A64, 0xD1),
        ("A32 and T32", Flavour::AArch32, 0xC1),
    ] {
        let program = Program::with_blocks(7, flavour, false, 8);
        let walk =
            Walk { steps: STEPS, interrupts: 10_000, handlers: false, cycles: true, ..Walk::default() };
        let items = Walker::run(&program, walk);
        let mut config = Config::etm4_default();
        config.registers.configr = configr;
        let (mut best, mut length) = (f64::MAX, 0);
        for _ in 0..10 {
            let start = clock();
            length = run(config, &items);
            best = best.min((clock() - start).as_secs_f64());
        }
        let instructions = (STEPS * ROUNDS) as f64;
        let (rate, size) = (instructions / best / 1e6, length as f64 * 8.0 / instructions);
        println!("{name:24} {rate:7.0} M instructions/s, {size:.2} bits an instruction");
    }
}

fn run(config: Config, items: &[Execution]) -> u64 {
    let mut unit = Unit::new(UnitConfig::new(config)).expect("a unit that can be");
    let mut bytes = Vec::new();
    let mut length = 0;
    for _ in 0..ROUNDS {
        bytes.clear();
        unit.push_all(items, &mut bytes);
        length += bytes.len() as u64;
    }
    length
}

/// Time that this thread has had a processor, where the system tells; else the time of day.
fn clock() -> Duration {
    thread_local!(static START: Instant = Instant::now());
    let elapsed = START.with(Instant::elapsed);
    let on_processor = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = on_processor.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or(elapsed, Duration::from_nanos)
}
