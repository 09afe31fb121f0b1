//! RISC-V: RV32 and RV64, two or four bytes an instruction.
//!
//! There is no link register in hardware: `jal` and `jalr` may write any register, and which of them is a call or a
//! return is a matter of convention about x1 and x5, which trace encoders and decoders share. A jump through a
//! register has a known target nonetheless if the instruction just before it was the `lui` or `auipc` that wrote
//! that register.

use backsight_core::{Address, Isa};

use crate::table::{bits, sign_extend};
use crate::{Class, Flags, Instruction};

mod compressed;
mod quick_look;

pub use quick_look::{QuickLook, is_plain, look_at_special, quick_look};

/// Which encodings the processor has. Zcmp and Zcmt take the place of the compressed stores of double-precision
/// registers, so that a processor with C and D cannot have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Set {
    /// 64-bit registers.
    pub wide: bool,
    /// Push, pop and return in one instruction (Zcmp).
    pub zcmp: bool,
    /// Jumps through a table (Zcmt).
    pub zcmt: bool,
}

impl Set {
    /// RV32GC.
    pub const RV32: Self = Self { wide: false, zcmp: false, zcmt: false };
    /// RV64GC.
    pub const RV64: Self = Self { wide: true, zcmp: false, zcmt: false };

    /// The instruction set in the words that all parts share.
    pub const fn isa(self) -> Isa {
        if self.wide { Isa::Rv64 } else { Isa::Rv32 }
    }

    /// An address that fits the registers.
    const fn wrap(self, address: Address) -> Address {
        if self.wide { address } else { Address(address.0 & 0xFFFF_FFFF) }
    }
}

/// What a jump is by convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JumpKind {
    /// Leaves the return address in x1 or x5.
    Call,
    /// Leaves no return address.
    Jump,
    /// Goes to the address in x1 or x5.
    Return,
    /// Goes to one of x1 and x5, and leaves the return address in the other.
    CoroutineSwap,
    /// Leaves the return address in a register other than x1 and x5.
    OtherWithLink,
}

/// Where a jump takes its target from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From its opcode: the target is in [`Instruction::target`].
    Opcode,
    /// From a register other than x0, plus an immediate.
    Register {
        /// The register.
        rs1: u8,
        /// What is added.
        immediate: i32,
    },
    /// From the jump table (`cm.jt`, `cm.jalt`).
    Table {
        /// The entry.
        index: u8,
    },
    /// From the stack (`cm.popret`, `cm.popretz`).
    Stack,
}

/// What an instruction is, as far as trace is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// None of the others.
    #[default]
    Other,
    /// A conditional branch.
    Branch,
    /// An unconditional jump.
    Jump {
        /// By convention.
        kind: JumpKind,
        /// Where its target comes from.
        source: Source,
    },
    /// A return from a trap: `mret`, `sret`, `uret`, `dret`, `mnret`.
    TrapReturn,
    /// `ecall`: never retires.
    EnvironmentCall,
    /// `ebreak`, `c.ebreak`: never retires.
    Breakpoint,
    /// `lui`, `c.lui`, `auipc`.
    UpperImmediate {
        /// The register written.
        rd: u8,
        /// What it gets, in place: the low 12 bits are 0.
        immediate: i32,
        /// The address of the instruction is added (`auipc`).
        from_pc: bool,
    },
}

/// An instruction with all that a decoder of RISC-V trace needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// In the words that all instruction sets share. A jump with a known target is a direct branch.
    pub instruction: Instruction,
    /// In those of RISC-V.
    pub operation: Operation,
}

impl Decoded {
    /// Does the flow go on at a place that is not in the opcode? Jumps through registers, tables and the stack, and
    /// returns from traps.
    pub const fn is_uninferable(&self) -> bool {
        match self.operation {
            Operation::Jump { source, .. } => !matches!(source, Source::Opcode),
            Operation::TrapReturn => true,
            _ => false,
        }
    }

    /// The target of this jump through a register if `before`, at `address`, is the instruction retired just before
    /// it and wrote that register.
    pub fn sequential_target(&self, set: Set, before: &Self, address: Address) -> Option<Address> {
        let Operation::Jump { source: Source::Register { rs1, immediate }, .. } = self.operation else {
            return None;
        };
        let Operation::UpperImmediate { rd, immediate: upper, from_pc } = before.operation else {
            return None;
        };
        let base = if from_pc { address } else { Address(0) };
        let target = base.offset(i64::from(upper)).offset(i64::from(immediate));
        (rd == rs1).then(|| set.wrap(Address(target.0 & !1)))
    }
}

/// The size in bytes of the instruction that begins with this halfword.
#[inline]
pub const fn size(first: u16) -> u8 {
    if first & 3 == 3 { 4 } else { 2 }
}

/// The opcode of the instruction at the start of `bytes`, two-byte ones in the low half; `None` if there are too few
/// bytes.
#[inline]
pub fn opcode(bytes: &[u8]) -> Option<u32> {
    crate::classify::rv_opcode(bytes)
}

/// What the instruction `opcode` at `address` does, in the words that all instruction sets share. A two-byte opcode
/// is in the low half; the upper half is then ignored.
#[inline]
pub fn classify(set: Set, opcode: u32, address: Address) -> Instruction {
    decode(set, opcode, address).instruction
}

/// What the instruction `opcode` at `address` does. A two-byte opcode is in the low half; the upper half is then
/// ignored.
pub fn decode(set: Set, opcode: u32, address: Address) -> Decoded {
    if size(opcode as u16) == 2 {
        return compressed::decode(set, opcode & 0xFFFF, address);
    }
    let new = Builder { set, address, size: 4 };
    let funct3 = bits(opcode, 14, 12);
    match bits(opcode, 6, 0) {
        0x03 | 0x07 => new.load(),
        0x23 | 0x27 => new.store(),
        0x0F => match funct3 {
            0 => new.class(Class::DataBarrier),
            1 => new.class(Class::Isb),
            _ => new.other(),
        },
        0x2F => match bits(opcode, 31, 27) {
            0b00010 => new.load(),
            0b00011 => new.store(),
            _ => new.access(true, true),
        },
        0x17 => new.upper(bits(opcode, 11, 7), opcode & 0xFFFF_F000, true),
        0x37 => new.upper(bits(opcode, 11, 7), opcode & 0xFFFF_F000, false),
        0x63 => new.branch(b_immediate(opcode)),
        0x67 if funct3 == 0 => new.jump_register(
            bits(opcode, 11, 7),
            bits(opcode, 19, 15),
            sign_extend(bits(opcode, 31, 20), 12) as i32,
        ),
        0x6F => new.jump(bits(opcode, 11, 7), j_immediate(opcode)),
        0x73 => system(new, opcode),
        _ if opcode == u32::MAX => new.undefined(),
        _ => new.other(),
    }
}

fn system(new: Builder, opcode: u32) -> Decoded {
    match opcode {
        0x0000_0073 => new.with(Operation::EnvironmentCall, Class::Other, Flags::NONE),
        0x0010_0073 => new.with(Operation::Breakpoint, Class::Other, Flags::NONE),
        // uret, sret, mret, mnret, dret
        0x0020_0073 | 0x1020_0073 | 0x3020_0073 | 0x7020_0073 | 0x7B20_0073 => {
            let flags = Flags { exception_return: true, ..Flags::NONE };
            new.with(Operation::TrapReturn, Class::IndirectBranch, flags)
        }
        // wfi, wrs.nto, wrs.sto
        0x1050_0073 | 0x00D0_0073 | 0x01D0_0073 => new.class(Class::Wait),
        // csrrw x0, cycle, x0: what assemblers write for an instruction that never is one.
        0xC000_1073 => new.undefined(),
        _ if bits(opcode, 14, 12) == 4 && bits(opcode, 31, 28) == 0b0110 => {
            let store = bits(opcode, 25, 25) == 1;
            new.access(!store, store)
        }
        _ => new.other(),
    }
}

/// imm[12|10:5] in 31:25, imm[4:1|11] in 11:7.
fn b_immediate(opcode: u32) -> i64 {
    let value = bits(opcode, 31, 31) << 12
        | bits(opcode, 7, 7) << 11
        | bits(opcode, 30, 25) << 5
        | bits(opcode, 11, 8) << 1;
    sign_extend(value, 13)
}

/// imm[20|10:1|11|19:12] in 31:12.
fn j_immediate(opcode: u32) -> i64 {
    let value = bits(opcode, 31, 31) << 20
        | bits(opcode, 19, 12) << 12
        | bits(opcode, 20, 20) << 11
        | bits(opcode, 30, 21) << 1;
    sign_extend(value, 21)
}

const fn is_link(register: u32) -> bool {
    matches!(register, 1 | 5)
}

/// The kind of a jump that leaves its return address in `rd` and takes its target from `rs1` (0: from the opcode).
const fn kind(rd: u32, rs1: u32) -> JumpKind {
    match (is_link(rd), is_link(rs1)) {
        (true, true) if rd != rs1 => JumpKind::CoroutineSwap,
        (true, _) => JumpKind::Call,
        (false, true) => JumpKind::Return,
        (false, false) if rd == 0 => JumpKind::Jump,
        (false, false) => JumpKind::OtherWithLink,
    }
}

/// Makes the result for one instruction.
#[derive(Clone, Copy)]
struct Builder {
    set: Set,
    address: Address,
    size: u8,
}

impl Builder {
    fn with(self, operation: Operation, class: Class, flags: Flags) -> Decoded {
        let plain = Instruction::plain(self.set.isa(), self.size);
        Decoded { instruction: Instruction { class, flags, ..plain }, operation }
    }

    fn to(self, target: Address, mut decoded: Decoded) -> Decoded {
        decoded.instruction.target = self.set.wrap(target);
        decoded
    }

    fn class(self, class: Class) -> Decoded {
        self.with(Operation::Other, class, Flags::NONE)
    }

    fn other(self) -> Decoded {
        self.class(Class::Other)
    }

    fn undefined(self) -> Decoded {
        self.with(Operation::Other, Class::Other, Flags { undefined: true, ..Flags::NONE })
    }

    fn access(self, load: bool, store: bool) -> Decoded {
        self.with(Operation::Other, Class::Other, Flags { load, store, ..Flags::NONE })
    }

    fn load(self) -> Decoded {
        self.access(true, false)
    }

    fn store(self) -> Decoded {
        self.access(false, true)
    }

    fn upper(self, rd: u32, immediate: u32, from_pc: bool) -> Decoded {
        let operation = Operation::UpperImmediate { rd: rd as u8, immediate: immediate as i32, from_pc };
        self.with(operation, Class::Other, Flags::NONE)
    }

    fn branch(self, offset: i64) -> Decoded {
        let flags = Flags { conditional: true, ..Flags::NONE };
        self.to(self.address.offset(offset), self.with(Operation::Branch, Class::DirectBranch, flags))
    }

    fn jump_from(self, kind: JumpKind, source: Source) -> Decoded {
        let class = if source == Source::Opcode { Class::DirectBranch } else { Class::IndirectBranch };
        let link = matches!(kind, JumpKind::Call | JumpKind::CoroutineSwap | JumpKind::OtherWithLink);
        let flags = Flags { link, returns: kind == JumpKind::Return, ..Flags::NONE };
        self.with(Operation::Jump { kind, source }, class, flags)
    }

    fn jump(self, rd: u32, offset: i64) -> Decoded {
        self.to(self.address.offset(offset), self.jump_from(kind(rd, 0), Source::Opcode))
    }

    fn jump_register(self, rd: u32, rs1: u32, immediate: i32) -> Decoded {
        if rs1 == 0 {
            let target = Address(i64::from(immediate & !1) as u64);
            return self.to(target, self.jump_from(kind(rd, 0), Source::Opcode));
        }
        self.jump_from(kind(rd, rs1), Source::Register { rs1: rs1 as u8, immediate })
    }
}

#[cfg(test)]
mod tests;
