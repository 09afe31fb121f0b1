//! Execution as single instructions of one hart, in batches, with what is known of each: what comparisons and waves are made of.
//!
//! A trace gives the instructions of its ranges, with opcodes out of the code. A Tarmac log gives its own opcodes, and what was written to
//! registers. Batches are bounded, so that a reader and whoever takes them can be on threads of their own.

mod log;
mod trace;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use backsight_core::{Accounting, Address, AddressSpace, Cause, Isa};
use backsight_flow::{Event, TracedAccess};
pub use backsight_tarmac::{Bytes, Register};

use crate::calls::ShadowStack;
use crate::decode::{Decode, Execution};
use crate::moments::{Moments, Window};
use crate::protocol::Configuration;
use crate::{Error, Result, Source};

/// Instructions of a batch, about.
const BATCH: usize = 1 << 12;

/// Notes of a batch, about.
const MOST_NOTES: usize = 1 << 14;

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it is.
    pub address: Address,
    /// The opcode, as fetched: 16-bit ones in the low half; 32-bit T32 as `first halfword << 16 | second`.
    pub opcode: u32,
    /// Size in bytes.
    pub size: u8,
    /// Instruction set.
    pub isa: Isa,
    /// The opcode is known.
    pub is_fetched: bool,
    /// It returned from an exception.
    pub returns: bool,
}

const _: () = assert!(size_of::<Step>() <= 16);

impl Step {
    /// Its bytes in memory; none if they are not known.
    pub fn bytes(&self) -> Vec<u8> {
        let word = match (self.size, self.isa) {
            (4, Isa::T32 | Isa::ThumbEe) => self.opcode.rotate_left(16),
            _ => self.opcode,
        };
        let size = if self.is_fetched { usize::from(self.size).min(4) } else { 0 };
        word.to_le_bytes().into_iter().take(size).collect()
    }
}

/// What is known beside the instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Note {
    /// It is this time.
    Time(u64),
    /// The next instruction has this number among those of its source.
    Number(u64),
    /// Code is looked up in this space.
    Space(AddressSpace),
    /// So many calls are under way, where somebody asks.
    Depth(u32),
    /// An exception or interrupt was taken.
    Exception {
        /// Which one.
        cause: Cause,
        /// Where the handler would return to, where that is known.
        return_address: Option<Address>,
    },
    /// What comes next need not follow from what came before.
    Gap,
    /// The instruction before read or wrote memory.
    Access(TracedAccess),
    /// Accesses are missing.
    AccessesLost,
    /// The instruction before wrote a register, which then held this, as far as it is known: of long ones, the lowest 16 bytes.
    Register(Register, Bytes),
}

/// Some instructions one after the other, with what is known beside them. What is noted of an instruction is in the batch of that.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The instructions.
    pub steps: Vec<Step>,
    /// Notes, in order, each with the number of instructions of the batch that come before it.
    pub notes: Vec<(u32, Note)>,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The harts that were met.
    pub harts: BTreeSet<u16>,
    /// What became of the bytes.
    pub decoded: Accounting,
    /// Writes of registers that there was no room for.
    pub lost: u64,
}

/// Gathers a batch, and hands it on.
struct Batches<'s, 'c> {
    batch: Batch,
    sink: &'s mut dyn FnMut(Batch) -> ControlFlow<()>,
    has_enough: bool,
    /// The number of the next instruction of this hart, and of any.
    own: Option<u64>,
    next: u64,
    /// Space and time that were noted.
    space: Option<AddressSpace>,
    time: Option<u64>,
    /// The calls under way, where somebody asks.
    calls: Option<ShadowStack<'c>>,
    depth: Option<u32>,
}

impl<'s, 'c> Batches<'s, 'c> {
    fn new(sink: &'s mut dyn FnMut(Batch) -> ControlFlow<()>, calls: Option<ShadowStack<'c>>) -> Self {
        let (batch, has_enough, own, next, space, time, depth) = Default::default();
        Self { batch, sink, has_enough, own, next, space, time, calls, depth }
    }

    fn note(&mut self, note: Note) {
        self.batch.notes.push((self.batch.steps.len() as u32, note));
    }

    /// Follows the calls of the hart.
    fn follow(&mut self, event: &Event) {
        let Some(calls) = &mut self.calls else { return };
        calls.push(event, &mut |_| ());
        let depth = u32::try_from(calls.depth()).unwrap_or(u32::MAX);
        if let Event::Range(_) = event
            && self.depth.replace(depth) != Some(depth)
        {
            self.note(Note::Depth(depth));
        }
    }

    /// An instruction is next: what was noted before is complete.
    #[inline]
    fn begin_step(&mut self) {
        if self.batch.steps.len() >= BATCH || self.batch.notes.len() >= MOST_NOTES {
            self.send();
        }
        if self.own != Some(self.next) {
            self.note(Note::Number(self.next));
        }
    }

    #[inline]
    fn step(&mut self, step: Step) {
        self.batch.steps.push(step);
        self.next += 1;
        self.own = Some(self.next);
    }

    fn time(&mut self, time: u64) {
        // A clock that went back is no way to go back.
        if self.time < Some(time) {
            self.time = Some(time);
            self.note(Note::Time(time));
        }
    }

    fn space(&mut self, space: AddressSpace) {
        if self.space.replace(space) != Some(space) {
            self.note(Note::Space(space));
        }
    }

    /// The instruction before returned from an exception.
    fn mark_return(&mut self) {
        if let Some(step) = self.batch.steps.last_mut() {
            step.returns = true;
        }
    }

    /// An access by an instruction: the last one, or the last one at that address.
    fn access(&mut self, access: TracedAccess) {
        const FAR: usize = 256;
        let end = self.batch.steps.len();
        let recent = self.batch.steps.iter().enumerate().rev().take(FAR);
        let by = access.instruction().and_then(|by| {
            recent.into_iter().find(|(_, step)| step.address == by).map(|(index, _)| index as u32 + 1)
        });
        let at = by.unwrap_or(end as u32);
        let place = self.batch.notes.iter().rposition(|(before, _)| *before <= at).map_or(0, |last| last + 1);
        // What comes before the next instruction comes after what this one did.
        let place = if by.is_some_and(|by| (by as usize) < end) { place } else { self.batch.notes.len() };
        self.batch.notes.insert(place, (at, Note::Access(access)));
    }

    fn send(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if (!batch.steps.is_empty() || !batch.notes.is_empty()) && (self.sink)(batch).is_break() {
            self.has_enough = true;
        }
    }
}

/// Reads the instructions of a hart of a source in a window; the first hart that is met if none is named. With `calls`, how many
/// calls are under way is noted, too.
///
/// # Errors
/// As [`Moments::take`].
pub fn read<'c>(
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    (source, hart): (&Source, Option<u16>),
    window: Window,
    calls: bool,
    sink: &mut dyn FnMut(Batch) -> ControlFlow<()>,
) -> Result<Read> {
    let code = moments.capture().code()?.seen_by(source);
    let mut batches = Batches::new(sink, calls.then(|| ShadowStack::new(code)));
    let read = match source.decoding() {
        Configuration::Tarmac(config) => {
            let numbers = numbers(moments, decode, source, window)?;
            let Some(buffer) = moments.capture().buffer(source.buffer()) else {
                return Err(Error::misuse(format!("buffer {}: there is none", source.buffer())));
            };
            log::read(buffer, config, hart, numbers, &mut batches)?
        }
        _ => trace::read(moments, decode.clone(), source, hart, window, &mut batches)?,
    };
    batches.send();
    Ok(read)
}

/// The harts of a source. All of it is read for that.
///
/// # Errors
/// As [`Moments::take`].
pub fn harts<'c>(
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    source: &Source,
) -> Result<BTreeSet<u16>> {
    let mut harts = BTreeSet::new();
    moments.run(decode.clone().positions(false), source, Window::default(), |item| {
        if let Event::Range(_) = item.value {
            harts.insert(item.sub_source);
        }
    })?;
    Ok(harts)
}

/// The instructions of a window, as numbers.
fn numbers<'c>(
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    source: &Source,
    window: Window,
) -> Result<std::ops::Range<u64>> {
    let number = |moment, otherwise: u64| -> Result<u64> {
        match moment {
            None => Ok(otherwise),
            Some(crate::moments::Moment::Instruction(number)) => Ok(number),
            Some(moment) => {
                let place = moments.place_of(decode.clone(), source, moment)?;
                Ok(place.map_or(u64::MAX, |place| place.instructions))
            }
        }
    };
    Ok(number(window.from, 0)?..number(window.to, u64::MAX)?)
}
