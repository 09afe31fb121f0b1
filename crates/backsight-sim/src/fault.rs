//! Why an instruction could not be executed.

use backsight_core::{Address, Trap, TrapKind};
use std::fmt;

/// A RISC-V exception, with the numbers of `scause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cause {
    /// Not an instruction of this processor.
    IllegalInstruction = 2,
    /// EBREAK.
    Breakpoint = 3,
    /// An atomic instruction on an address that is not a multiple of its size.
    StoreAddressMisaligned = 6,
    /// More memory was touched than the simulator may use.
    OutOfMemory = 24,
    /// A replay has no more values.
    EndOfRecording = 25,
    /// A store changes code that was decoded. The simulator handles it; no program sees it.
    CodeWritten = 26,
    /// Fetched from where there is no code.
    InstructionPageFault = 12,
    /// A load from where nothing may be read.
    LoadPageFault = 13,
    /// A store, or an atomic instruction, where nothing may be written.
    StorePageFault = 15,
}

/// An exception that ended the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub cause: Cause,
    /// The instruction.
    pub pc: u64,
    /// The address that was accessed, or the opcode that was illegal.
    pub value: u64,
}

impl Fault {
    /// The trap that it is, to a handler at this address; 0 where there is none.
    pub fn trap(&self, handler: u64) -> Trap {
        Trap {
            kind: TrapKind::Exception,
            cause: self.cause as u32,
            value: self.value,
            return_address: Address(self.pc),
            handler: Address(handler),
            cycle: 0,
        }
    }

    /// The signal that Linux would send.
    pub fn signal(&self) -> u8 {
        match self.cause {
            Cause::IllegalInstruction => 4,
            Cause::Breakpoint => 5,
            Cause::StoreAddressMisaligned => 7,
            Cause::OutOfMemory | Cause::EndOfRecording => 9,
            _ => 11,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, pc, value } = self;
        match cause {
            Cause::IllegalInstruction => write!(f, "illegal instruction {value:#010x} at pc {pc:#x}"),
            Cause::Breakpoint => write!(f, "breakpoint at pc {pc:#x}"),
            Cause::OutOfMemory => write!(f, "out of memory: pc {pc:#x} touched {value:#x}"),
            Cause::InstructionPageFault => write!(f, "no code at pc {pc:#x}"),
            Cause::LoadPageFault => {
                write!(f, "bad memory access: pc {pc:#x} reads {value:#x}")
            }
            Cause::StorePageFault => write!(f, "bad memory access: pc {pc:#x} writes {value:#x}"),
            Cause::EndOfRecording => write!(f, "the recording ended at pc {pc:#x}"),
            Cause::CodeWritten => write!(f, "pc {pc:#x} writes code at {value:#x}"),
            Cause::StoreAddressMisaligned => {
                write!(f, "misaligned atomic access: pc {pc:#x}, address {value:#x}")
            }
        }
    }
}
