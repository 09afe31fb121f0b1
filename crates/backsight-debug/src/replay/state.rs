//! What is known of registers and memory.

use std::ops::Range;

/// A place in the execution of a source, of which something is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The source, by its number in [`Replay::sources`](super::Replay::sources).
    pub source: usize,
    /// The hart, where several share the source; else 0.
    pub hart: u16,
    /// Instructions of the source before it: the next one is the one that the program counter names.
    pub instruction: u64,
}

/// A register, by the number that DWARF gives it: x0 to x30 and sp are 0 to 31 on A64, r0 to r15 are 0 to 15 on A32 and T32, x0 to x31
/// are 0 to 31, f0 to f31 are 32 to 63 and fflags, frm and fcsr are 4097 to 4099 on RISC-V. The program counter is not asked for: trace
/// says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u16);

/// What is done to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touch {
    /// It is written, by the program or for it.
    Write,
    /// It is read.
    Read,
    /// Either.
    Any,
}

/// An instruction that read or wrote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The number of the instruction in its source.
    pub instruction: u64,
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub length: u64,
    /// It wrote them.
    pub is_write: bool,
}

/// What is known of registers and memory at each place of an execution, beyond what trace of control flow says: that is the
/// program counter, and code. Whatever is not known is said to be unknown, and never made up.
pub trait State {
    /// The value of a register before the instruction at a place; `None` if it is not known.
    fn register(&mut self, at: At, register: Register) -> Option<u64>;

    /// Puts the bytes of memory from an address on, as they were before the instruction at a place, into `bytes`, and sets `known` for
    /// those that are known. What is not known is left as it is. Both are of one length.
    fn memory(&mut self, at: At, address: u64, bytes: &mut [u8], known: &mut [bool]);

    /// The last instruction of the source before a place that touched any byte of these.
    fn last_access_before(&mut self, at: At, addresses: Range<u64>, touch: Touch) -> Option<Access>;

    /// The first instruction of the source from a place on, itself included, that touched any byte of these.
    fn next_access_after(&mut self, at: At, addresses: Range<u64>, touch: Touch) -> Option<Access>;

    /// Whether the instruction at a place touched any byte of these.
    fn access_at(&mut self, at: At, addresses: Range<u64>, touch: Touch) -> Option<Access> {
        self.next_access_after(at, addresses, touch).filter(|access| access.instruction == at.instruction)
    }

    /// Are accesses known, so that debuggers may stop at them?
    fn knows_accesses(&self) -> bool {
        false
    }

    /// A number by which a place can be compared with places of other sources: how much was executed before it, by all. `None`:
    /// only the trace says what time it was.
    fn order(&mut self, _at: At) -> Option<u64> {
        None
    }

    /// Where a source was when so much was executed: the number of its next instruction.
    fn place_in(&mut self, _source: usize, _order: u64) -> Option<u64> {
        None
    }

    /// What is known of a source, in words.
    fn words(&self, _source: usize) -> String {
        "registers and memory are not known: the trace has control flow alone".to_owned()
    }
}

/// Nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl State for Unknown {
    fn register(&mut self, _at: At, _register: Register) -> Option<u64> {
        None
    }

    fn memory(&mut self, _at: At, _address: u64, _bytes: &mut [u8], _known: &mut [bool]) {}

    fn last_access_before(&mut self, _at: At, _addresses: Range<u64>, _touch: Touch) -> Option<Access> {
        None
    }

    fn next_access_after(&mut self, _at: At, _addresses: Range<u64>, _touch: Touch) -> Option<Access> {
        None
    }
}
