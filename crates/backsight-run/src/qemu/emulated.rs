//! A program under QEMU as a source of execution.

use std::os::unix::process::ExitStatusExt;

use backsight_core::Isa;

use super::driver::{EmulationOptions, Outcome, run, target_of};
use super::{QemuError, Tools};
use crate::{Ended, Ending, Error, ExecutionSource, Observation, Stop, Target};

/// A program that is ready to run under QEMU.
#[derive(Clone, Debug)]
pub struct EmulatedProgram {
    options: EmulationOptions,
    target: Target,
    stop: Stop,
}

impl EmulatedProgram {
    /// Looks at the program, and for QEMU and its plugin.
    ///
    /// # Errors
    /// If one of them is not there; the message says how to get it.
    pub fn new(options: EmulationOptions) -> Result<Self, QemuError> {
        let target = target_of(&options.program)?;
        Tools::find(target, options.qemu.as_deref(), options.plugin.as_deref())?;
        Ok(Self { options, target, stop: Stop::new() })
    }

    /// What kind of program it is.
    pub fn target(&self) -> Target {
        self.target
    }

    fn ending(&self, outcome: &Outcome) -> Ending {
        let ended = match (outcome.status.code(), outcome.status.signal()) {
            _ if self.stop.is_requested() => Ended::Stopped,
            (Some(status), _) => Ended::Status(status),
            (None, signal) => Ended::Signal(signal.unwrap_or(0)),
        };
        let damage = |error| format!("the recording is damaged, what came before is kept: {error}");
        let mut notes: Vec<String> = outcome.error.map(damage).into_iter().collect();
        if matches!(ended, Ended::Status(_)) && !outcome.summary.complete {
            notes.push(
                "the program ran on after its recording ended, as one does that closes all its files: the rest is missing"
                    .to_owned(),
            );
        }
        Ending { ended, notes }
    }
}

impl ExecutionSource for EmulatedProgram {
    fn isa(&self) -> Isa {
        self.target.first_isa()
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// One with QEMU, one with what it sends.
    fn busy_cores(&self) -> usize {
        2
    }

    fn run(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        self.options.blocks = false;
        self.run_as_asked(sink)
    }

    fn run_blocks(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        self.options.blocks = true;
        self.run_as_asked(sink)
    }
}

impl EmulatedProgram {
    fn run_as_asked(&self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        let outcome = run(&self.options, &self.stop, sink)?;
        Ok(self.ending(&outcome))
    }
}
