//! Runs a program under QEMU and says what it executed: `qemu_record [--pcs] PROGRAM ARGUMENTS…`.
//! With `--pcs`, one line per instruction on standard error: thread and address.

use std::io::Write;
use std::time::Instant;

use backsight_core::Execution;
use backsight_run::qemu::{EmulationOptions, run};
use backsight_run::{Observation, Stop};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = EmulationOptions::default();
    let mut arguments = std::env::args_os().skip(1).peekable();
    let mut pcs = false;
    while let Some(argument) = arguments.next_if(|argument| argument.as_encoded_bytes().starts_with(b"--")) {
        match argument.to_str() {
            Some("--pcs") => pcs = true,
            Some("--memory") => options.memory = true,
            Some("--values") => options.values = true,
            Some("--sysroot") => options.sysroot = arguments.next().map(Into::into),
            _ => {
                return Err(
                    "usage: qemu_record [--pcs] [--memory] [--values] [--sysroot DIR] PROGRAM …".into()
                );
            }
        }
    }
    options.program = arguments.next().ok_or("which program?")?.into();
    options.arguments = arguments.collect();
    let mut out = std::io::BufWriter::new(std::io::stderr());
    let mut thread = 0;
    let (mut instructions, mut accesses) = (0u64, 0u64);
    let start = Instant::now();
    let outcome = run(&options, &Stop::new(), &mut |item| match item {
        Observation::Execution(Execution::Thread(number)) => thread = number,
        Observation::Execution(Execution::Instruction(retired)) => {
            instructions += 1;
            if pcs {
                let _ = writeln!(out, "{thread} {} {}", retired.address, retired.isa);
            }
        }
        Observation::Execution(Execution::Access(_)) => accesses += 1,
        Observation::Execution(other) if pcs => drop(writeln!(out, "{thread} {other:x?}")),
        Observation::Map(map) if pcs => drop(writeln!(out, "{map:x?}")),
        Observation::Code { .. } => {}
        other if pcs => drop(writeln!(out, "{other:x?}")),
        _ => {}
    })?;
    out.flush()?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{outcome:?}");
    let speed = instructions as f64 / seconds / 1e6;
    eprintln!(
        "{instructions} instructions, {accesses} accesses, {seconds:.3} s, {speed:.1} M instructions/s"
    );
    Ok(())
}
