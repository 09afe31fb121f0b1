//! From executed instructions to blocks and notes.

use crate::block::Block;
use crate::code::{Code, Kind};
use crate::notes::Note;
use backsight_core::{Execution, Retired, RetiredBlock};
use std::fmt;

/// Why an item cannot be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// An address has more bits than records have room for, or is odd.
    Address {
        /// The address.
        address: u64,
        /// Bits that there is room for.
        bits: u32,
    },
    /// An instruction is neither 2 nor 4 bytes long.
    Size(u8),
    /// The program has more code than both sides can keep.
    TooMuchCode,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address, .. } if address % 2 != 0 => {
                write!(f, "an instruction at {address:#x}: addresses of instructions are even")
            }
            Self::Address { address, bits } => {
                write!(f, "an instruction at {address:#x}: records have room for {bits} address bits")
            }
            Self::Size(size) => write!(f, "an instruction of {size} bytes: expected 2 or 4"),
            Self::TooMuchCode => f.write_str("more than 64 MB of code were executed"),
        }
    }
}

impl std::error::Error for Unfit {}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It was taken.
    Done,
    /// It was taken; the other side does not know the instruction yet.
    New,
    /// It was not taken: the code at its address has changed. The keeper of the records must end them here, call
    /// [`Splitter::forget`] and push again.
    Changed,
}

/// Where blocks and notes go.
pub trait Parts {
    /// A block.
    fn block(&mut self, block: &Block, code: &mut Code);
    /// A note after this many instructions.
    fn note(&mut self, at: u64, note: &Note);
}

/// Splits.
#[derive(Clone, Debug)]
pub struct Splitter {
    address_bits: u32,
    start: u64,
    count: u32,
    last: u64,
    /// The address after the last instruction, and where the program goes on.
    end: u64,
    next: u64,
    fresh: bool,
    /// It was noted where the last instruction goes, or there is none yet.
    noted: bool,
    /// Instructions since the last flush.
    instructions: u64,
}

impl Splitter {
    /// For addresses of so many bits.
    pub fn new(address_bits: u32) -> Self {
        Self {
            address_bits,
            start: 0,
            count: 0,
            last: 0,
            end: 0,
            next: u64::MAX,
            fresh: true,
            noted: true,
            instructions: 0,
        }
    }

    /// Instructions since the last flush.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Takes an item.
    #[inline]
    pub fn push(
        &mut self,
        item: &Execution,
        code: &mut Code,
        parts: &mut impl Parts,
    ) -> Result<Pushed, Unfit> {
        match item {
            Execution::Instruction(retired) => self.instruction(retired, code, parts),
            item => {
                self.note(item, parts);
                Ok(Pushed::Done)
            }
        }
    }

    /// Takes an instruction if that is easy: it is in a page looked at lately, follows the one before, is no branch and goes
    /// on to the next one. Nearly all are; `false` for the others, which are to be [pushed](Self::push).
    #[inline]
    pub fn push_plain(&mut self, retired: &Retired, code: &Code) -> bool {
        let Some(op) = code.recent(retired.address.0).first() else { return false };
        let end = retired.address.0.wrapping_add(u64::from(op.size));
        let easy = retired.address.0 == self.next
            && retired.next.0 == end
            && op.is(retired)
            && op.kind == Kind::Plain
            && retired.taken;
        if easy {
            if self.count == 0 {
                self.start = retired.address.0;
            }
            self.count += 1;
            self.instructions += 1;
            self.last = retired.address.0;
            self.end = end;
            self.next = end;
            self.noted = false;
        }
        easy
    }

    /// Takes straight-line code that is known to be as it is here: plain but for its last instruction, which is `kind`. `false`,
    /// and nothing is done, if it does not begin where the program goes on.
    #[inline]
    pub fn push_known(
        &mut self,
        block: &RetiredBlock<'_>,
        kind: Kind,
        code: &mut Code,
        parts: &mut impl Parts,
    ) -> bool {
        let (Some(first), Some((_, last))) = (block.code.first(), block.split_last()) else { return false };
        if first.address.0 != self.next {
            return false;
        }
        if self.count == 0 {
            self.start = first.address.0;
        }
        self.count += block.code.len() as u32;
        self.instructions += block.code.len() as u64;
        self.last = last.address.0;
        self.end = last.end().0;
        self.next = block.next.0;
        self.noted = false;
        if kind != Kind::Plain || self.next != self.end || !block.taken {
            self.branch(&last, kind, code, parts);
        }
        true
    }

    /// Notes an item that is no instruction.
    pub fn note(&mut self, item: &Execution, parts: &mut impl Parts) {
        self.note_next(parts);
        parts.note(self.instructions, &Note::Item(*item));
    }

    #[inline]
    fn instruction(
        &mut self,
        retired: &Retired,
        code: &mut Code,
        parts: &mut impl Parts,
    ) -> Result<Pushed, Unfit> {
        let address = retired.address.0;
        let known = code.at(address);
        let mut pushed = Pushed::Done;
        let op = match known {
            Some(op) if op.is(retired) => op,
            Some(_) => return Ok(Pushed::Changed),
            None => {
                self.check(retired)?;
                code.insert(retired).ok_or(Unfit::TooMuchCode)?;
                pushed = Pushed::New;
                code.at(address).ok_or(Unfit::TooMuchCode)?
            }
        };
        if address != self.next {
            self.check(retired)?;
            self.break_off(code, parts);
        }
        if self.count == 0 {
            self.start = address;
        }
        self.count += 1;
        self.instructions += 1;
        self.last = address;
        self.end = address.wrapping_add(u64::from(op.size));
        self.next = retired.next.0;
        self.noted = false;
        if op.kind != Kind::Plain || self.next != self.end || !retired.taken {
            self.branch(retired, op.kind, code, parts);
        }
        Ok(pushed)
    }

    /// Whatever is not plain.
    #[inline]
    fn branch(&mut self, retired: &Retired, kind: Kind, code: &mut Code, parts: &mut impl Parts) {
        let implied = match kind {
            Kind::Plain => self.end,
            Kind::Jump | Kind::Call => code.target(self.last),
            Kind::Conditional if self.next == self.end => self.end,
            Kind::Conditional => {
                let target = code.target(self.last);
                if self.next == target || retired.taken { target } else { self.end }
            }
            Kind::Indirect | Kind::IndirectCall | Kind::Return => self.next,
        };
        if retired.taken != (kind != Kind::Conditional || self.next != self.end) {
            parts.note(self.instructions, &Note::Flip);
        }
        if kind != Kind::Plain {
            self.emit(kind, implied, code, parts);
        }
        if implied != self.next {
            // It went where it cannot go by its opcode.
            self.note_next(parts);
            self.emit(kind, implied, code, parts);
            self.fresh = true;
        }
    }

    /// The next instruction is not where the last one went.
    #[cold]
    fn break_off(&mut self, code: &mut Code, parts: &mut impl Parts) {
        self.note_next(parts);
        self.emit(Kind::Plain, self.end, code, parts);
        self.fresh = true;
    }

    /// Gives the block so far, if there is one.
    #[inline]
    fn emit(&mut self, kind: Kind, next: u64, code: &mut Code, parts: &mut impl Parts) {
        if self.count == 0 {
            return;
        }
        let block = Block {
            start: self.start,
            last: self.last,
            end: self.end,
            next,
            count: self.count,
            kind,
            taken: kind == Kind::Conditional && next != self.end,
            fresh: self.fresh,
        };
        self.count = 0;
        self.fresh = false;
        parts.block(&block, code);
    }

    fn note_next(&mut self, parts: &mut impl Parts) {
        if !self.noted {
            self.noted = true;
            parts.note(self.instructions, &Note::Next(self.next.wrapping_sub(self.end)));
        }
    }

    /// Gives what is left, so that everything pushed so far can be restored without what follows.
    pub fn flush(&mut self, code: &mut Code, parts: &mut impl Parts) {
        self.note_next(parts);
        self.emit(Kind::Plain, self.end, code, parts);
        self.instructions = 0;
    }

    /// The code at an address is no longer what it was.
    pub fn forget(&mut self, retired: &Retired, code: &mut Code) -> Result<(), Unfit> {
        self.check(retired)?;
        code.insert(retired).ok_or(Unfit::TooMuchCode)
    }

    fn check(&self, retired: &Retired) -> Result<(), Unfit> {
        let (address, bits) = (retired.address.0, self.address_bits);
        if address % 2 != 0 || bits < 64 && address >> bits != 0 {
            return Err(Unfit::Address { address, bits });
        }
        if retired.size != 2 && retired.size != 4 { Err(Unfit::Size(retired.size)) } else { Ok(()) }
    }
}
