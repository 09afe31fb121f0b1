//! Several threads, each with a trace unit of its own.

use crate::Funnel;
use crate::etm4::{Statistics, Unit, UnitConfig, UnitError};
use backsight_arm::etm4::Config;
use backsight_arm::frame::{FormatterConfig, NotASource};
use backsight_core::{Execution, TraceId};
use core::fmt;

/// Trace bytes that a unit may collect before they go to the funnel.
const BATCH: usize = 32;

/// A system of trace units: one per thread, made when the thread is first seen, all in one formatted stream.
pub struct System {
    template: UnitConfig,
    first_id: u8,
    traced: Vec<Traced>,
    current: Option<usize>,
    funnel: Funnel,
}

struct Traced {
    thread: u32,
    id: TraceId,
    config: Config,
    unit: Unit,
    bytes: Vec<u8>,
}

/// Why a system cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemError {
    /// There can be no such unit.
    Unit(UnitError),
    /// There are more threads than trace IDs.
    TooManyThreads(NotASource),
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(error) => error.fmt(f),
            Self::TooManyThreads(error) => write!(f, "too many threads: {error}"),
        }
    }
}

impl core::error::Error for SystemError {}

impl System {
    /// A system whose units are all like `template`, with trace IDs from that of its TRCTRACEIDR on.
    ///
    /// # Errors
    /// If there can be no such unit, or its trace ID names no source.
    pub fn new(template: UnitConfig, formatter: FormatterConfig) -> Result<Self, SystemError> {
        let first_id = template.config.trace_id();
        Unit::new(template.clone()).map_err(SystemError::Unit)?;
        if !TraceId::new(first_id).is_source() {
            return Err(SystemError::TooManyThreads(NotASource(TraceId::new(first_id))));
        }
        Ok(Self { template, first_id, traced: Vec::new(), current: None, funnel: Funnel::new(formatter, 8) })
    }

    /// One step of execution; [`Execution::Thread`] says whose the following are. Frames go to `sink`.
    ///
    /// # Errors
    /// If there are more threads than trace IDs. Those before go on.
    pub fn push(&mut self, item: Execution, sink: &mut impl FnMut(&[u8])) -> Result<(), SystemError> {
        if let Execution::Thread(thread) = item {
            self.current = Some(self.find(thread)?);
            return Ok(());
        }
        let current = match self.current {
            Some(current) => current,
            None => self.find(0)?,
        };
        self.current = Some(current);
        let Some(Traced { id, unit, bytes, .. }) = self.traced.get_mut(current) else { return Ok(()) };
        unit.push(item, bytes);
        if bytes.len() >= BATCH {
            self.funnel.push(*id, bytes, sink).map_err(SystemError::TooManyThreads)?;
            bytes.clear();
        }
        Ok(())
    }

    /// Execution ends.
    ///
    /// # Errors
    /// Never: every unit got a good trace ID when it was made.
    pub fn finish(&mut self, sink: &mut impl FnMut(&[u8])) -> Result<(), SystemError> {
        for Traced { id, unit, bytes, .. } in &mut self.traced {
            unit.finish(bytes);
            self.funnel.push(*id, bytes, sink).map_err(SystemError::TooManyThreads)?;
            bytes.clear();
        }
        self.funnel.finish(sink).map_err(SystemError::TooManyThreads)
    }

    /// The threads seen so far, each with the configuration of its unit and what became of its instructions.
    pub fn threads(&self) -> impl Iterator<Item = (u32, Config, Statistics)> {
        self.traced.iter().map(|traced| (traced.thread, traced.config, traced.unit.statistics()))
    }

    fn find(&mut self, thread: u32) -> Result<usize, SystemError> {
        if let Some(place) = self.traced.iter().position(|traced| traced.thread == thread) {
            return Ok(place);
        }
        let number = usize::from(self.first_id) + self.traced.len();
        let id = TraceId::new(number.min(0x7F) as u8);
        if !id.is_source() {
            return Err(SystemError::TooManyThreads(NotASource(id)));
        }
        let mut options = self.template.clone();
        options.config.registers.traceidr = id.get().into();
        let config = options.config;
        let unit = Unit::new(options).map_err(SystemError::Unit)?;
        self.traced.push(Traced { thread, id, config, unit, bytes: Vec::new() });
        Ok(self.traced.len() - 1)
    }
}
