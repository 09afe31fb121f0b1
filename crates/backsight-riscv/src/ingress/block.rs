//! One block of retired instructions.

use backsight_isa::rv::{Decoded, JumpKind, Operation, Source};

/// How a block ends. Encoders with three bits know codes 0 to 6 only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Itype {
    /// Nothing special; with three bits also inferable jumps and calls.
    #[default]
    None = 0,
    /// An exception after the last retired instruction.
    Exception = 1,
    /// An interrupt after the last retired instruction.
    Interrupt = 2,
    /// A return from a trap.
    TrapReturn = 3,
    /// A branch, not taken.
    NotTaken = 4,
    /// A branch, taken.
    Taken = 5,
    /// An uninferable jump of any kind (three bits).
    Uninferable = 6,
    /// A call through a register.
    UninferableCall = 8,
    /// A call.
    InferableCall = 9,
    /// A jump through a register.
    UninferableJump = 10,
    /// A jump.
    InferableJump = 11,
    /// A co-routine swap.
    CoroutineSwap = 12,
    /// A return.
    Return = 13,
    /// A jump through a register that leaves its return address elsewhere than in x1 or x5.
    OtherUninferable = 14,
    /// The same with the target in the opcode.
    OtherInferable = 15,
}

impl Itype {
    /// The type with that code; `None` for the reserved code 7 and beyond 15.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::None,
            1 => Self::Exception,
            2 => Self::Interrupt,
            3 => Self::TrapReturn,
            4 => Self::NotTaken,
            5 => Self::Taken,
            6 => Self::Uninferable,
            8 => Self::UninferableCall,
            9 => Self::InferableCall,
            10 => Self::UninferableJump,
            11 => Self::InferableJump,
            12 => Self::CoroutineSwap,
            13 => Self::Return,
            14 => Self::OtherUninferable,
            15 => Self::OtherInferable,
            _ => return None,
        })
    }

    /// The type of an instruction that retired, in four bits.
    pub const fn of(decoded: &Decoded, taken: bool) -> Self {
        match decoded.operation {
            Operation::Branch if taken => Self::Taken,
            Operation::Branch => Self::NotTaken,
            Operation::TrapReturn => Self::TrapReturn,
            Operation::Jump { kind, source } => Self::of_jump(kind, matches!(source, Source::Opcode)),
            _ => Self::None,
        }
    }

    /// The type of a jump; `direct`: its target is in the opcode.
    #[inline]
    pub const fn of_jump(kind: JumpKind, direct: bool) -> Self {
        // A table: a processor cannot foresee which jump comes next.
        const TYPES: [[Itype; 2]; 5] = [
            [Itype::UninferableCall, Itype::InferableCall],
            [Itype::UninferableJump, Itype::InferableJump],
            [Itype::Return, Itype::Return],
            [Itype::CoroutineSwap, Itype::CoroutineSwap],
            [Itype::OtherUninferable, Itype::OtherInferable],
        ];
        TYPES[kind as usize][direct as usize]
    }

    /// The same as an encoder with three bits sees it.
    pub const fn narrow(self) -> Self {
        match self {
            Self::InferableCall | Self::InferableJump | Self::OtherInferable => Self::None,
            Self::UninferableCall
            | Self::UninferableJump
            | Self::CoroutineSwap
            | Self::Return
            | Self::OtherUninferable => Self::Uninferable,
            other => other,
        }
    }

    /// A branch, taken or not.
    #[inline]
    pub const fn is_branch(self) -> bool {
        matches!(self, Self::NotTaken | Self::Taken)
    }

    /// An exception or interrupt.
    #[inline]
    pub const fn is_trap(self) -> bool {
        matches!(self, Self::Exception | Self::Interrupt)
    }

    /// Ends in an uninferable discontinuity, unless a return stack or the instruction before resolves it.
    #[inline]
    pub const fn is_uninferable(self) -> bool {
        matches!(
            self,
            Self::TrapReturn
                | Self::Uninferable
                | Self::UninferableCall
                | Self::UninferableJump
                | Self::CoroutineSwap
                | Self::Return
                | Self::OtherUninferable
        )
    }

    /// Leaves a return address on the return stack.
    #[inline]
    pub const fn is_call(self) -> bool {
        matches!(self, Self::UninferableCall | Self::InferableCall)
    }
}

/// What to do with the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ctype {
    /// Do not report it.
    #[default]
    Unreported = 0,
    /// Report it soon.
    Imprecise = 1,
    /// Report the first instruction with it.
    Precise = 2,
    /// Report also the last instruction before it.
    AsynchronousDiscontinuity = 3,
}

/// One block of retired instructions, or a trap without any.
///
/// Fields that an encoder keeps of every block lie side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Address of the first instruction. Without retired instructions: where an exception happened.
    pub iaddr: u64,
    /// Context.
    pub context: u64,
    /// Time.
    pub time: u64,
    /// Cause of a trap, without the interrupt bit.
    pub cause: u64,
    /// Trap value of an exception.
    pub tval: u64,
    /// Implementation-defined value that filters may look at.
    pub impdef: u64,
    /// Half-words retired; 0: nothing retired.
    pub iretire: u32,
    /// Cycles since the block before.
    pub cycles: u32,
    /// The last instruction has 2^ilastsize half-words.
    pub ilastsize: u8,
    /// How the block ends.
    pub itype: Itype,
    /// Privilege of the retired instructions.
    pub privilege: u8,
    /// The jump at the end goes where the instruction before it says.
    pub sijump: bool,
    /// What to do with the context.
    pub ctype: Ctype,
    /// trigger[2+]: report the last instruction.
    pub notify: bool,
    /// `trigger[0]`: tracing starts with this block.
    pub trace_on: bool,
    /// `trigger[1]`: tracing stops after this block.
    pub trace_off: bool,
}

impl Block {
    /// Address of the last instruction.
    #[inline]
    pub const fn last(&self) -> u64 {
        let before = (self.iretire as u64).saturating_sub(1 << (self.ilastsize & 3));
        self.iaddr.wrapping_add(2 * before)
    }

    /// Is the first instruction the last, too?
    #[inline]
    pub const fn is_single(&self) -> bool {
        is_single(self.iretire, self.ilastsize)
    }

    /// Address after the last instruction: where execution falls through to, and the return address of a call.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.iaddr.wrapping_add(2 * self.iretire as u64)
    }
}

/// Is the first instruction of a block the last, too?
#[inline]
pub(super) const fn is_single(iretire: u32, ilastsize: u8) -> bool {
    iretire <= 1 << (ilastsize & 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_and_end_are_computed_from_half_words() {
        // 1000 divuw, 1004 add, 1008 or, 100c c.jalr
        let block = Block { iaddr: 0x1000, iretire: 7, ilastsize: 0, ..Block::default() };
        assert_eq!((block.last(), block.end()), (0x100C, 0x100E));
        // 0988 lbu, 098c csrrw
        let block = Block { iaddr: 0x988, iretire: 4, ilastsize: 1, ..Block::default() };
        assert_eq!((block.last(), block.end()), (0x98C, 0x990));
    }

    #[test]
    fn codes_come_back_and_seven_is_reserved() {
        for code in 0..=15 {
            assert_eq!(Itype::from_code(code).map(|itype| itype as u8), (code != 7).then_some(code));
        }
        assert_eq!(Itype::from_code(16), None);
    }
}
