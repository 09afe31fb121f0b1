//! Registers and memory at moments of a log.
//!
//! A Tarmac log says of every instruction what it wrote. What was in registers and memory before an instruction follows from the lines
//! before it. A [`StateIndex`] has that at moments some megabytes apart, so that any other is reached by reading one part of the log:
//! registers as they were, and of memory what each part changed. Without one, a log is read from its beginning.
//!
//! What is where: `pieces`: a log read on several threads; `make`, `file`: an index, made and kept; `index`: what it says; `walk`: the
//! states at the lines of a log, and who wrote what.

mod file;
mod index;
mod make;
mod pieces;
mod walk;

use backsight_core::{Address, Budget, Door};
use backsight_flow::Event;
use backsight_tarmac::{Config, Instruction};

use crate::decode::{Decode, Execution};
use crate::moments::{InWindow, Moment, Moments, Place, Window};
use crate::protocol::Configuration;
use crate::{Buffer, Capture, Error, Item, Result, Source};

pub use self::index::StateIndex;
pub use self::make::Making;
pub use self::walk::{MemoryChange, States, Touch, Watched};
pub use backsight_tarmac::{Bank, Class, Contents, Machine, ModeKind, Register, Writer, register_named};

/// Registers and memory before an instruction.
#[derive(Clone, Debug)]
pub struct State {
    /// What is known.
    pub machine: Machine,
    /// The core that the instruction is of.
    pub core: u16,
    /// The instruction that is executed next; `None` at the end.
    pub next: Option<Address>,
    /// Where that is; `None` at the end.
    pub place: Option<Place>,
}

/// Where a moment is in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// Offset of the line of the instruction that is executed next; `u64::MAX` at the end.
    pub offset: u64,
    /// The core that it is of.
    pub core: u16,
    /// Its line; `None` at the end.
    pub instruction: Option<Instruction>,
    /// Where that is; `None` at the end.
    pub place: Option<Place>,
}

impl Capture {
    /// The source that is a Tarmac log, and its buffer, if there is one.
    pub fn log(&self) -> Option<(Source, &Buffer)> {
        self.buffers().iter().find_map(|buffer| {
            let is_log = |source: &&Source| matches!(source.decoding(), Configuration::Tarmac(_));
            buffer.sources().find(is_log).map(|source| (source.clone(), buffer))
        })
    }

    /// How the lines of the Tarmac log are read, and its buffer, if there is one.
    pub fn log_settings(&self) -> Option<(Config, &Buffer)> {
        let (source, buffer) = self.log()?;
        let Configuration::Tarmac(config) = source.decoding() else { return None };
        Some((**config, buffer))
    }

    /// The opcodes of the instructions of a log, where they were executed: addresses and bytes. Nothing if the capture is no log, or can be
    /// read once only.
    pub fn log_code(&self) -> Vec<(u64, Vec<u8>)> {
        crate::logs::parts(&self.description).unwrap_or_default()
    }
}

/// What was in registers and memory at a moment of a source.
///
/// # Errors
/// If the source is no log, can be read once only, or cannot be read.
pub fn state_at<'c>(
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    source: &Source,
    moment: Moment,
    budget: Option<u64>,
) -> Result<State> {
    let capture = moments.capture();
    let size = capture.buffer(source.buffer()).and_then(Buffer::size).unwrap_or(0);
    let budget = Budget::of(Door::History, budget, size);
    let mut states = States::new(capture, source, None)?.most_memory(budget.limit());
    let at = states.find(moments, decode, source, moment)?;
    let machine = states.before(at.offset)?.clone();
    let core = if at.instruction.is_some() { at.core } else { states.last_core() };
    let next = at.instruction.map(|it| Address(it.address));
    Ok(State { machine, core, next, place: at.place })
}

impl<'c> States<'c> {
    /// Where a moment of the source is in its log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn find(
        &self,
        moments: &Moments<'c>,
        decode: &Decode<'c, Execution>,
        source: &Source,
        moment: Moment,
    ) -> Result<LogPlace> {
        let mut first = First(None);
        let window = Window { from: Some(moment), to: None };
        let found = moments.take(decode.clone(), source, window, &mut first)?;
        let Some(next) = first.0 else {
            return Ok(LogPlace { offset: u64::MAX, core: 0, instruction: None, place: None });
        };
        let place = found.places.map(|(place, _)| place);
        let wrong = || Error::Absent(format!("source {}: the log is not what it was", source.name()));
        // The range may begin before the moment.
        let (offset, instruction) = self.line_of(next.offset, next.core, next.address)?.ok_or_else(wrong)?;
        Ok(LogPlace { offset, core: next.core, instruction: Some(instruction), place })
    }
}

/// The first instruction of a window.
struct Next {
    core: u16,
    address: Address,
    /// The range that it is in begins there in the log.
    offset: u64,
}

/// Wants the first instruction of a window, and nothing after it.
struct First(Option<Next>);

impl InWindow for First {
    fn item(&mut self, item: Item<'_, Event>) {
        if let Event::Range(range) = item.value
            && self.0.is_none()
        {
            let (core, offset) = (item.sub_source, item.offset);
            self.0 = Some(Next { core, address: range.start, offset });
        }
    }

    fn has_enough(&self) -> bool {
        self.0.is_some()
    }
}
