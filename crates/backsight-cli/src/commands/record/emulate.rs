//! Programs under QEMU.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use backsight_capture::events::EventLog;
use backsight_run::qemu::{RunOptions, Tools, run as run_qemu};
use backsight_run::{CodeMap, Journal, Observation, Target};

use super::code::Code;
use super::tracer::Tracer;
use super::{Ended, Record};
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Instructions between two looks at the progress.
const LOOK: u64 = 1 << 20;

/// Are QEMU and its plugin there?
pub fn check(target: Target) -> Result {
    Tools::find(target, None, None).map(drop).map_err(Failure::new)
}

/// Runs the program to its end.
pub fn run(
    command: &Record,
    tracer: &mut Tracer,
    code: &mut Code,
    stop: &AtomicBool,
) -> Result<(Ended, EventLog)> {
    let options = RunOptions {
        program: command.path().to_owned(),
        arguments: command.program.iter().skip(1).cloned().collect(),
        sysroot: command.sysroot.clone(),
        cpu: command.cpu.clone(),
        ..RunOptions::default()
    };
    let limit = command.limit.unwrap_or(u64::MAX);
    let progress = Progress::instructions(command.limit, command.quiet);
    let mut journal = Journal::new();
    // A capture calls the program as its user did.
    let given = command.path().to_string_lossy().into_owned();
    let mut records = Vec::new();
    let mut looked = 0;
    let mut full = false;
    let outcome = run_qemu(&options, stop, &mut |item| {
        let item = match item {
            Observation::Map(map) if map.program => Observation::Map(CodeMap { path: &given, ..map }),
            item => item,
        };
        if !full {
            journal.note(None, &item, &mut records);
        }
        match item {
            _ if full => {}
            Observation::Execution(item) => {
                full = !tracer.push(item) || tracer.instructions() >= limit;
                if full {
                    stop.store(true, Ordering::Relaxed);
                }
                if tracer.instructions() - looked >= LOOK {
                    progress.add(tracer.instructions() - looked);
                    looked = tracer.instructions();
                }
            }
            Observation::Map(map) => {
                code.unmap(map.address.0, map.length);
                if !map.path.is_empty() && !map.writable {
                    code.map(Path::new(map.path), map.address.0, map.length, map.offset);
                }
            }
            Observation::Unmap { address, length } => code.unmap(address.0, length),
            Observation::Code { address, bytes } => code.see(address, bytes),
            Observation::ProcessStarts { .. }
            | Observation::ThreadStarts { .. }
            | Observation::ThreadEnds { .. } => {}
        }
    });
    drop(progress);
    let outcome = outcome.map_err(Failure::new)?;
    let mut notes = Vec::new();
    if let Some(error) = outcome.error {
        notes.push(format!("the recording is damaged, what came before is kept: {error}"));
    }
    if code.changed() > 0 {
        notes.push(format!(
            "code changed at {} addresses while the program ran: the capture keeps the last",
            code.changed()
        ));
    }
    let how = if full && tracer.instructions() >= limit {
        "the instruction limit was reached".to_owned()
    } else if stop.load(Ordering::Relaxed) {
        "interrupted".to_owned()
    } else {
        format!("the program ended: {}", outcome.status)
    };
    Ok((Ended { how, notes }, EventLog { records, problems: Vec::new() }))
}
