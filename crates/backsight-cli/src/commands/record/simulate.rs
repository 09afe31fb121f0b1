//! Programs in the built-in simulator.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backsight_capture::events::{EventLog, Item, Mapping, Pid, Record as EventRecord, State};
use backsight_core::Address;
use backsight_sim::{ElfError, Exit, Options, Simulator};

use super::code::Code;
use super::tracer::Tracer;
use super::{Ended, Record};
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// The number that the one process has.
const PROCESS: u64 = 1;
/// Instructions between two looks at the progress.
const LOOK: u64 = 1 << 20;

/// A program that is loaded.
pub struct Loaded(Simulator);

/// Loads the program; nothing is written yet.
pub fn load(command: &Record, program: &[u8], stop: &Arc<AtomicBool>) -> Result<Loaded> {
    let options = Options {
        arguments: command.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        instructions: command.limit.unwrap_or(u64::MAX),
        interrupt: Arc::clone(stop),
        ..Options::default()
    };
    let simulator = Simulator::load(program, options).map_err(|error| {
        let name = command.path().display().to_string();
        Failure::new(match error {
            ElfError::Dynamic => format!("{name}: {error}, or record it under QEMU: --qemu --sysroot DIR"),
            _ => format!("{name}: {error}"),
        })
    })?;
    Ok(Loaded(simulator))
}

/// Runs the program to its end.
pub fn run(loaded: Loaded, command: &Record, tracer: &mut Tracer, stop: &AtomicBool) -> Ended {
    let Loaded(mut simulator) = loaded;
    let progress = Progress::instructions(command.limit, command.quiet);
    let mut looked = 0;
    let exit = simulator.run(&mut |item| {
        if !tracer.push(item) {
            stop.store(true, Ordering::Relaxed);
        }
        let done = tracer.instructions();
        if done - looked >= LOOK {
            progress.add(done - looked);
            looked = done;
        }
    });
    drop(progress);
    let mut notes = Vec::new();
    for (number, count) in simulator.unknown_system_calls() {
        notes.push(format!("system call {number} is not known here and failed with ENOSYS ({count} times)"));
    }
    let how = match exit {
        Exit::Fault(fault) => format!("the program crashed: {fault} (signal {})", fault.signal()),
        Exit::Status(_) | Exit::Signal(_) => format!("the program {exit}"),
        other => other.to_string(),
    };
    Ended { how, notes }
}

/// The code of the program, and the log that says so.
pub fn events(path: &Path, contents: &[u8], code: &mut Code) -> Result<EventLog> {
    code.add_program(path, contents)?;
    let mapping = Mapping {
        main: true,
        pid: Pid::Process(PROCESS),
        base: Address(0),
        image: Some(path.display().to_string()),
        build_id: None,
        size: None,
        offset: 0,
        relocated: false,
        name: None,
        cpu: None,
    };
    let record = EventRecord { line: 1, time: None, item: Item::Mapping(State::Start, Box::new(mapping)) };
    Ok(EventLog { records: vec![record], problems: Vec::new() })
}
