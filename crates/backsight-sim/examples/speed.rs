//! How fast the simulator is: `cargo run --release -p backsight-sim --example speed -- PROGRAM [ARGUMENTS]`.

use backsight_core::Execution;
use backsight_sim::{Options, Simulator};
use std::hint::black_box;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("usage: speed PROGRAM [ARGUMENTS]")?;
    let file = std::fs::read(path)?;
    let load = || Simulator::load(&file, Options { arguments: arguments.clone(), ..Options::default() });
    let report = |what: &str, simulator: &Simulator, start: Instant| {
        let seconds = start.elapsed().as_secs_f64();
        let count = simulator.retired();
        eprintln!("{what}: {count} instructions, {:.0} M/s", count as f64 / seconds / 1e6);
    };

    let mut simulator = load()?;
    let start = Instant::now();
    let exit = simulator.run(&mut |_| {});
    report("nothing reported", &simulator, start);
    eprintln!("{exit}; unknown system calls: {:?}", simulator.unknown_system_calls());

    let mut simulator = load()?;
    let mut sum = 0u64;
    let start = Instant::now();
    simulator.run(&mut |item| {
        if let Execution::Instruction(retired) = item {
            sum = sum.wrapping_add(retired.next.0 ^ u64::from(retired.opcode) ^ u64::from(retired.taken));
        }
    });
    black_box(sum);
    report("instructions summed up", &simulator, start);

    let mut simulator = load()?;
    let start = Instant::now();
    simulator.run(&mut |item| {
        black_box(&item);
    });
    report("instructions written to memory", &simulator, start);

    let mut simulator = load()?;
    let start = Instant::now();
    simulator.run_with_accesses(&mut |item| {
        black_box(&item);
    });
    report("instructions and accesses written to memory", &simulator, start);
    Ok(())
}
