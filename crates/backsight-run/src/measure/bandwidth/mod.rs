//! What an Arm trace unit sends, and how fast: one program, traced in every configuration.
//!
//! Every instruction that retires goes to one unit for each [`Configuration`]. Time is counted in cycles of the
//! processor: those that the instructions carry, or a steady number of instructions a cycle where they carry none. All
//! bytes that a unit writes while an instruction retires count for the cycle of that instruction. They are the bytes of
//! one source, before frames are put around them.

mod buffer;
mod configuration;
mod kinds;
mod loops;
mod peak;

use backsight_arm::etm4::{Config, Decoder};
use backsight_core::{Execution, Isa};

pub use self::buffer::{Buffer, Drain};
pub use self::configuration::{Configuration, configurations};
pub use self::kinds::{Family, Kinds, Share};
pub use self::loops::Loop;
pub use self::peak::Peak;
use crate::units::{TraceUnit, UnitError};
use crate::{Ended, Error, ExecutionSource, Observation, UnitKind};

/// Bytes that are decoded at a time.
const CHUNK: usize = 1 << 16;

/// What is measured, and under which assumptions.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The unit: ETMv4 or ETE.
    pub unit: UnitKind,
    /// Thousandths of an instruction in a cycle, where instructions do not carry their cycles; not 0.
    pub instructions_per_kilocycle: u64,
    /// Windows for peaks, in cycles.
    pub windows: Vec<u64>,
    /// Rates at which a buffer after the unit is emptied.
    pub drains: Vec<Drain>,
    /// Instructions to trace, at most.
    pub limit: u64,
}

/// What tracing a program gave.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    /// Its name.
    pub name: String,
    /// The instruction set that it starts in.
    pub isa: Isa,
    /// Instructions of its first thread, which is the one that is traced.
    pub instructions: u64,
    /// Cycles that they took.
    pub cycles: u64,
    /// Instructions of other threads.
    pub left_out: u64,
    /// How its run ended.
    pub ended: Ended,
    /// What each configuration sent, or why there is no such unit.
    pub sent: Vec<Result<Sent, String>>,
}

/// What one unit sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// All bytes.
    pub bytes: u64,
    /// The packets that they are.
    pub kinds: Kinds,
    /// Most bytes in any window, for each of [`Conditions::windows`].
    pub peaks: Vec<u64>,
    /// The smallest buffer that never overflows, in bytes, for each of [`Conditions::drains`].
    pub buffers: Vec<u64>,
}

impl Bandwidth {
    /// Bytes for each instruction of a configuration.
    pub fn bytes_per_instruction(&self, sent: &Sent) -> f64 {
        sent.bytes as f64 / self.instructions.max(1) as f64
    }

    /// Bytes for each cycle of a configuration.
    pub fn bytes_per_cycle(&self, sent: &Sent) -> f64 {
        sent.bytes as f64 / self.cycles.max(1) as f64
    }

    /// Does more arrive in all than this drain can take? Then the buffer grows for as long as the program runs.
    pub fn is_faster_than(&self, sent: &Sent, drain: Drain) -> bool {
        u128::from(sent.bytes) * u128::from(drain.cycles) > u128::from(self.cycles) * u128::from(drain.bytes)
    }
}

/// Runs a program and traces it in every configuration.
///
/// # Errors
/// If it cannot be run, no Arm unit can trace it, or no instruction retires.
pub fn bandwidth(
    name: &str,
    source: &mut dyn ExecutionSource,
    configurations: &[Configuration],
    conditions: &Conditions,
) -> Result<Bandwidth, Error> {
    let isa = source.isa();
    if !conditions.unit.isas.contains(&isa) {
        let (name, title) = (name.to_owned(), conditions.unit.title);
        return Err(Error::Unit(UnitError::Isa { name, title, isa }));
    }
    let mut units: Vec<_> = configurations
        .iter()
        .map(|configuration| MeasuredUnit::new(isa, configuration, conditions))
        .collect();
    let mut clock = Clock::new(conditions.instructions_per_kilocycle);
    let (mut first_thread, mut left_out) = (true, 0);
    let stop = source.stop();
    let ending = source.run(&mut |seen| {
        let Observation::Execution(mut execution) = seen else { return };
        match &mut execution {
            Execution::Thread(thread) => first_thread = *thread == 0,
            Execution::Instruction(_) if !first_thread => left_out += 1,
            Execution::Instruction(_) if clock.instructions == conditions.limit => stop.request_at_once(),
            Execution::Instruction(retired) => {
                clock.tick(&mut retired.cycle);
                units.iter_mut().flatten().for_each(|unit| unit.push(&execution, clock.now));
            }
            _ if first_thread && clock.instructions < conditions.limit => {
                units.iter_mut().flatten().for_each(|unit| unit.push(&execution, clock.now));
            }
            _ => {}
        }
    })?;
    let limited = clock.instructions == conditions.limit && ending.ended == Ended::Stopped;
    let ended = if limited { Ended::Limit } else { ending.ended };
    if clock.instructions == 0 {
        return Err(Error::NothingExecuted { name: name.to_owned(), ended });
    }
    let sent = units.into_iter().map(|unit| unit.map(|unit| unit.finish(clock.now))).collect();
    let (instructions, cycles) = (clock.instructions, clock.cycles());
    Ok(Bandwidth { name: name.to_owned(), isa, instructions, cycles, left_out, ended, sent })
}

/// When instructions retire.
struct Clock {
    instructions: u64,
    instructions_per_kilocycle: u64,
    first: Option<u64>,
    now: u64,
}

impl Clock {
    fn new(instructions_per_kilocycle: u64) -> Self {
        Self { instructions: 0, instructions_per_kilocycle, first: None, now: 0 }
    }

    /// An instruction retires, which gets a cycle if it has none: units take cycle 0 for none.
    fn tick(&mut self, cycle: &mut u64) {
        if *cycle == 0 {
            let elapsed =
                u128::from(self.instructions) * 1000 / u128::from(self.instructions_per_kilocycle.max(1));
            *cycle = 1 + elapsed as u64;
        }
        self.instructions += 1;
        self.now = self.now.max(*cycle);
        self.first.get_or_insert(self.now);
    }

    fn cycles(&self) -> u64 {
        self.now + 1 - self.first.unwrap_or(self.now)
    }
}

/// A unit, and what it sent so far.
struct MeasuredUnit {
    unit: Box<dyn TraceUnit>,
    decoder: Decoder,
    /// What was written and is not decoded yet.
    bytes: Vec<u8>,
    written: u64,
    kinds: Kinds,
    peaks: Vec<Peak>,
    buffers: Vec<Buffer>,
}

impl MeasuredUnit {
    fn new(isa: Isa, configuration: &Configuration, conditions: &Conditions) -> Result<Self, String> {
        let template =
            conditions.unit.program(isa, &configuration.settings).map_err(|error| error.to_string())?;
        let id = template.first_id();
        let mut config = Config::etm4_default();
        for register in template.describe(id).registers {
            let value = register.value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
            config.set_register(&register.name, value).map_err(|error| error.to_string())?;
        }
        Ok(Self {
            unit: template.build(id).map_err(|error| error.to_string())?,
            decoder: Decoder::new(&config),
            bytes: Vec::with_capacity(CHUNK),
            written: 0,
            kinds: Kinds::default(),
            peaks: conditions.windows.iter().map(|&window| Peak::new(window)).collect(),
            buffers: conditions.drains.iter().map(|&drain| Buffer::new(drain)).collect(),
        })
    }

    fn push(&mut self, execution: &Execution, now: u64) {
        let before = self.bytes.len();
        self.unit.push(std::slice::from_ref(execution), &mut self.bytes);
        self.wrote(before, now);
    }

    fn wrote(&mut self, before: usize, now: u64) {
        let bytes = (self.bytes.len() - before) as u64;
        if bytes == 0 {
            return;
        }
        self.written += bytes;
        self.peaks.iter_mut().for_each(|peak| peak.add(now, bytes));
        self.buffers.iter_mut().for_each(|buffer| buffer.add(now, bytes));
        if self.bytes.len() >= CHUNK {
            self.decode();
        }
    }

    fn decode(&mut self) {
        let Self { decoder, kinds, bytes, .. } = self;
        decoder.feed(bytes, &mut |packet| kinds.count(&packet));
        bytes.clear();
    }

    fn finish(mut self, now: u64) -> Sent {
        let before = self.bytes.len();
        self.unit.finish(&mut self.bytes);
        self.wrote(before, now);
        self.decode();
        let Self { mut decoder, mut kinds, written, peaks, buffers, .. } = self;
        decoder.finish(&mut |packet| kinds.count(&packet));
        Sent {
            bytes: written,
            kinds,
            peaks: peaks.iter().map(Peak::bytes).collect(),
            buffers: buffers.iter().map(Buffer::bytes).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
