//! Runs a static RV64 program, as the program's own standard streams and status:
//! `cargo run --release -p backsight-sim --example run -- PROGRAM [ARGUMENTS]`. The number of instructions goes to
//! standard error.

use backsight_sim::{Options, Simulator};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first().cloned() else {
        eprintln!("usage: run PROGRAM [ARGUMENTS]");
        return ExitCode::from(2);
    };
    let loaded = std::fs::read(&path).map_err(|error| error.to_string()).and_then(|file| {
        Simulator::load(&file, Options { arguments, ..Options::default() }).map_err(|error| error.to_string())
    });
    let mut simulator = match loaded {
        Ok(simulator) => simulator,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let exit = simulator.run(&mut |_| {});
    eprintln!("{path}: {exit}; {} instructions", simulator.retired());
    for missing in simulator.missing() {
        eprintln!("{path}: {missing}");
    }
    ExitCode::from(exit.status().unwrap_or(1))
}
