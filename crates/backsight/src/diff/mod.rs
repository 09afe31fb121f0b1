//! Where two executions part, and where they come together again.
//!
//! Both are read at the same time, as [`steps`](crate::steps), and compared instruction by instruction. Where the next ones differ,
//! what both have ahead is searched for the nearest place from which on they are the same again: after the handler of an
//! exception or interrupt that only one took, after more turns of a loop that one made, or after anything else that fits into
//! [`Settings::look`] instructions. Turns are compared with the turn before, so that a loop that waits may turn any number of times more
//! on one side. Memory is bounded by `look`, whatever the length.

mod compare;
mod effects;
mod resync;
mod sides;
mod stream;
#[cfg(test)]
mod tests;

use backsight_core::{AddressSpace, Cause};

use crate::steps::{Bytes, Register, Step};

pub use compare::compare;
pub use sides::{Side, compare_sides};
pub use stream::Steps;

/// What is compared, and how far is looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Opcodes, where both know them. Addresses and instruction sets always are.
    pub opcodes: bool,
    /// Causes of exceptions, where both know them.
    pub exceptions: bool,
    /// Loads and stores, where both have them.
    pub accesses: bool,
    /// Registers that an instruction wrote, where both have them.
    pub registers: bool,
    /// Instructions after a difference in which the executions are searched for the same again.
    pub look: usize,
    /// Instructions that have to be the same for that.
    pub resync: usize,
    /// Instructions that are shown of each part of a difference.
    pub context: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let (look, resync, context) = (1 << 17, 8, 3);
        Self { opcodes: true, exceptions: true, accesses: true, registers: true, look, resync, context }
    }
}

/// An instruction with its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The instruction.
    pub step: Step,
    /// Instructions of its source before it.
    pub number: u64,
    /// The latest time before it.
    pub time: Option<u64>,
    /// Where code is looked up.
    pub space: AddressSpace,
}

/// What one side has between two places at which both are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Instructions before it on its side.
    pub number: u64,
    /// The latest time before it.
    pub time: Option<u64>,
    /// How many instructions.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Shown>,
    /// The exception that was taken right before.
    pub exception: Option<Cause>,
}

/// A difference. Sides are 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What it is.
    pub what: What,
    /// The last instructions before it, which are the same on both sides.
    pub before: Vec<[Shown; 2]>,
    /// What each side has.
    pub parts: [Part; 2],
    /// The first instructions after it, which are the same on both sides.
    pub after: Vec<[Shown; 2]>,
}

/// Kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Other instructions.
    Path,
    /// One begins before the other.
    Start,
    /// One ends before the other.
    End {
        /// The side that ends.
        side: usize,
    },
    /// A loop turned more often on one side.
    Loop {
        /// That side.
        side: usize,
        /// Instructions of a turn.
        period: usize,
        /// How many times more.
        turns: u64,
    },
    /// Only one side took an exception or interrupt.
    Handler {
        /// That side.
        side: usize,
        /// Which one.
        cause: Cause,
    },
    /// The trace of a side has a gap: this is no difference.
    Missing {
        /// That side.
        side: usize,
    },
    /// Another opcode at the same address.
    Opcode,
    /// Exceptions with different causes, or one that only one side has; the instructions are the same.
    Cause([Option<Cause>; 2]),
    /// The last instruction before accessed memory in another way.
    Access {
        /// It is a store.
        store: bool,
        /// The first byte of each side that the other has not: where it is, and what it is if that is known.
        bytes: [Option<(u64, Option<u8>)>; 2],
    },
    /// A register that the last instruction before wrote has other contents.
    Register {
        /// The register.
        register: Register,
        /// What each side has in it.
        values: [Bytes; 2],
    },
    /// Within the instructions that were looked at, they are not the same again. The rest was not compared.
    NotFound,
}

impl What {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Start => "start",
            Self::End { .. } => "end",
            Self::Loop { .. } => "loop",
            Self::Handler { .. } => "exception",
            Self::Missing { .. } => "missing",
            Self::Opcode => "opcode",
            Self::Cause(_) => "cause",
            Self::Access { .. } => "access",
            Self::Register { .. } => "register",
            Self::NotFound => "not found",
        }
    }

    /// All names.
    pub const NAMES: [&'static str; 11] = [
        "path",
        "start",
        "end",
        "loop",
        "exception",
        "missing",
        "opcode",
        "cause",
        "access",
        "register",
        "not found",
    ];
}

/// What came of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Instructions that are the same on both sides.
    pub equal: u64,
    /// Instructions that only one side has.
    pub only: [u64; 2],
    /// Instructions of each side that the other has no trace of.
    pub missing: [u64; 2],
    /// How many differences of each kind there are, in the order of [`What::NAMES`].
    pub kinds: [u64; 11],
    /// Loads, stores and registers that were compared.
    pub effects: [u64; 3],
    /// Nobody wanted more, or nothing was found.
    pub stopped: bool,
}

impl Summary {
    /// How many differences there are. What a trace is missing is none.
    pub fn differences(&self) -> u64 {
        let kinds = What::NAMES.iter().zip(self.kinds);
        kinds.filter(|(name, _)| **name != "missing").map(|(_, count)| count).sum()
    }

    pub(crate) fn count(&mut self, what: &What) {
        let index = What::NAMES.iter().position(|name| *name == what.name());
        self.kinds.iter_mut().skip(index.unwrap_or(usize::MAX)).take(1).for_each(|count| *count += 1);
    }
}
