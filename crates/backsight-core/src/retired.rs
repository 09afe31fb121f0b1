//! What a processor did: the truth that trace units encode and decoders recover.
//!
//! A program run is a sequence of [`Execution`] items. Simulators, QEMU and commit logs produce it; trace
//! units, compressors and tests consume it. The items are separate so that the common one, an instruction
//! without memory accesses, stays small.

use crate::{Address, Context, Isa};

/// One step of execution, in program order of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// The items that follow belong to this thread (or hart, or core). Without one: thread 0.
    Thread(u32),
    /// The context that the following instructions run in.
    Context(Context),
    /// An instruction retired.
    Instruction(Retired),
    /// A load or store of the instruction just before.
    Access(Access),
    /// Something that came to the program from outside, with the instruction just before.
    Input(Input),
    /// An exception or interrupt was taken: control goes to its handler.
    Trap(Trap),
    /// Execution was not observed for a while: the next instruction need not follow from the last.
    Gap,
}

/// One instruction that retired. An instruction that faults does not retire: it shows as a [`Trap`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Where it is.
    pub address: Address,
    /// Where the program continues: the target of a taken branch, else the following instruction. A trap
    /// taken after this instruction does not show here: `next` is then where the handler would return to.
    pub next: Address,
    /// Cycle in which it retired; 0 everywhere if cycles are not known.
    pub cycle: u64,
    /// The opcode, as fetched: 16-bit ones in the low half; 32-bit T32 as `first halfword << 16 | second`.
    pub opcode: u32,
    /// Size in bytes, 2 or 4.
    pub size: u8,
    /// Instruction set.
    pub isa: Isa,
    /// A branch that was taken, or (A32, T32) an instruction whose condition passed. False for branches not taken
    /// and failed conditions; true for everything unconditional.
    pub taken: bool,
}

impl Retired {
    /// The address after the instruction.
    #[inline]
    pub const fn end(&self) -> Address {
        self.address.plus(self.size as u64)
    }
}

/// A load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub address: Address,
    /// The value, zero-extended; 0 if it is not known.
    pub value: u64,
    /// Number of bytes, 1 to 8; wider accesses are several items.
    pub size: u8,
    /// A store.
    pub store: bool,
    /// `value` holds the value.
    pub known: bool,
}

/// What comes to a program from outside: it follows from nothing that the program did. With the code, the first
/// state and these items, everything else that a program does can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// What a system call returned.
    Result(u64),
    /// What a counter showed that was read: time, cycles.
    Counter(u64),
    /// The system gave a register a value: at the start of a program or thread, and where a signal handler starts or
    /// has returned.
    Register {
        /// Its number in DWARF for the architecture.
        number: u16,
        /// The value.
        value: u64,
    },
    /// The system wrote to the program's memory.
    Memory {
        /// Where.
        address: Address,
        /// The bytes, zero-extended.
        value: u64,
        /// Number of bytes, 1 to 8; more are several items.
        size: u8,
    },
    /// The system cleared memory of the program: it is zero now, or gone.
    Cleared {
        /// Where.
        address: Address,
        /// Number of bytes.
        length: u64,
    },
}

impl Input {
    /// The items for bytes that the system wrote to memory.
    pub fn written(address: Address, bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.chunks(8).enumerate().map(move |(number, part)| {
            let mut value = [0; 8];
            value[..part.len()].copy_from_slice(part);
            Self::Memory {
                address: address.plus(8 * number as u64),
                value: u64::from_le_bytes(value),
                size: part.len() as u8,
            }
        })
    }
}

/// Why control went to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// Caused by an instruction: fault, system call, breakpoint.
    Exception,
    /// From outside.
    Interrupt,
}

/// An exception or interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Exception or interrupt.
    pub kind: TrapKind,
    /// The architecture's number: RISC-V `cause` without its interrupt bit, Arm the exception TYPE of the trace packets.
    pub cause: u32,
    /// RISC-V `tval`; 0 on Arm.
    pub value: u64,
    /// Where the handler would return to: the instruction that faulted, or the next one to execute.
    pub return_address: Address,
    /// Where the handler begins.
    pub handler: Address,
    /// Cycle of the trap; 0 if cycles are not known.
    pub cycle: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stay_small() {
        assert!(size_of::<Retired>() <= 32);
        assert!(size_of::<Execution>() <= 48);
    }

    #[test]
    fn bytes_that_the_system_wrote_are_pieces_of_at_most_eight() {
        let pieces = Input::written(Address(0x1000), &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let first = Input::Memory { address: Address(0x1000), value: 0x0807_0605_0403_0201, size: 8 };
        assert!(pieces.eq([first, Input::Memory { address: Address(0x1008), value: 9, size: 1 }]));
    }
}
