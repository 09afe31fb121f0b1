//! How fast the simulator is, and writing and reading what it reports:
//! `cargo run --release -p backsight-run --example simulator_speed -- PROGRAM [ARGUMENTS]`.

use backsight_core::{Execution, Isa};
use backsight_run::retired::{RetiredReader, RetiredWriter};
use backsight_sim::{Options, Simulator};
use std::hint::black_box;
use std::time::Instant;

/// Time that this thread ran, where the system reports it (Linux); else time that passed.
struct Stopwatch(Instant, Option<u64>);

impl Stopwatch {
    fn start() -> Self {
        Self(Instant::now(), running())
    }

    fn seconds(&self) -> f64 {
        match (self.1, running()) {
            (Some(before), Some(now)) => (now - before) as f64 / 1e9,
            _ => self.0.elapsed().as_secs_f64(),
        }
    }
}

fn running() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("usage: speed PROGRAM [ARGUMENTS]")?;
    let file = std::fs::read(path)?;
    let load = || Simulator::load(&file, Options { arguments: arguments.clone(), ..Options::default() });
    let report = |what: &str, simulator: &Simulator, start: Stopwatch| rate(what, simulator.retired(), start);

    let mut simulator = load()?;
    let start = Stopwatch::start();
    let exit = simulator.run(&mut |_| {});
    report("nothing reported", &simulator, start);
    eprintln!("{exit}; unknown system calls: {:?}", simulator.unknown_system_calls());

    let mut simulator = load()?;
    let mut sum = 0u64;
    let start = Stopwatch::start();
    simulator.run(&mut |item| {
        if let Execution::Instruction(retired) = item {
            sum = sum.wrapping_add(retired.next.0 ^ u64::from(retired.opcode) ^ u64::from(retired.taken));
        }
    });
    black_box(sum);
    report("instructions summed up", &simulator, start);

    let mut simulator = load()?;
    let start = Stopwatch::start();
    simulator.run(&mut |item| {
        black_box(&item);
    });
    report("instructions written to memory", &simulator, start);

    let mut simulator = load()?;
    let start = Stopwatch::start();
    simulator.run_with_accesses(&mut |item| {
        black_box(&item);
    });
    report("instructions and accesses written to memory", &simulator, start);

    let mut simulator = load()?;
    let mut writer = RetiredWriter::new(Vec::new(), Isa::Rv64)?;
    let mut failed = None;
    let start = Stopwatch::start();
    simulator.run(&mut |item| failed = writer.push(&item).err().or(failed.take()));
    report("instructions written as a stream", &simulator, start);
    let file = writer.finish()?;

    let mut items = Vec::new();
    load()?.run(&mut |item| {
        if items.len() < 10_000_000 {
            items.push(item);
        }
    });
    let mut writer = RetiredWriter::new(Vec::with_capacity(file.len()), Isa::Rv64)?;
    let start = Stopwatch::start();
    for item in &items {
        writer.push(item)?;
    }
    writer.finish()?;
    rate("writing alone", items.len() as u64, start);

    let mut sum = 0u64;
    let start = Stopwatch::start();
    RetiredReader::new(&file[..])?.read(&mut |item| {
        if let Execution::Instruction(retired) = item {
            sum = sum.wrapping_add(retired.next.0 ^ u64::from(retired.opcode));
        }
    })?;
    black_box(sum);
    report("stream read", &simulator, start);
    eprintln!(
        "stream: {} bytes, {:.4} per instruction",
        file.len(),
        file.len() as f64 / simulator.retired() as f64
    );
    Ok(())
}

fn rate(what: &str, count: u64, start: Stopwatch) {
    let seconds = start.seconds();
    eprintln!("{what}: {count} instructions, {:.0} M/s", count as f64 / seconds / 1e6);
}
