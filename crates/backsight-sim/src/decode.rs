//! Opcodes, taken apart once and executed many times.

use crate::compressed::expand;
use backsight_core::{Address, Isa, Retired};

/// A register number that stands for "nowhere": x0 as a destination.
pub const NOWHERE: u8 = 32;

/// What an instruction does. Those that are rare, or many of a kind, are taken apart further when they execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[rustfmt::skip]
#[allow(missing_docs, reason = "the names are those of the manual")]
pub enum Kind {
    Lui, Auipc, Jal, Jalr, Beq, Bne, Blt, Bge, Bltu, Bgeu,
    Lb, Lh, Lw, Ld, Lbu, Lhu, Lwu, Sb, Sh, Sw, Sd,
    Addi, Slti, Sltiu, Xori, Ori, Andi, Slli, Srli, Srai, Addiw, Slliw, Srliw, Sraiw,
    Add, Sub, Sll, Slt, Sltu, Xor, Srl, Sra, Or, And, Addw, Subw, Sllw, Srlw, Sraw,
    Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu, Mulw, Divw, Divuw, Remw, Remuw,
    Flw, Fld, Fsw, Fsd,
    /// FMADD and kin.
    FloatFused,
    /// Everything else of OP-FP.
    Float,
    /// LR, SC and AMO.
    Atomic,
    Fence, FenceI, Ecall, Ebreak,
    /// CSR instructions.
    Csr,
    Illegal,
}

/// An instruction, ready to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The opcode as fetched.
    pub opcode: u32,
    /// The immediate operand.
    pub imm: i32,
    /// What it does.
    pub kind: Kind,
    /// Destination; [`NOWHERE`] for x0. Floating-point instructions have f0 here.
    pub rd: u8,
    /// First source.
    pub rs1: u8,
    /// Second source.
    pub rs2: u8,
    /// Bytes: 2 or 4.
    pub size: u8,
    /// Bytes from the start of its block.
    pub offset: u16,
}

impl Op {
    /// Can execution go on elsewhere than after it? Then it ends a block. So do instructions that read counters: those
    /// are exact between blocks only.
    pub fn ends_block(&self) -> bool {
        use Kind::*;
        matches!(self.kind, Jal | Jalr | Beq | Bne | Blt | Bge | Bltu | Bgeu | Ecall | Ebreak | Csr | Illegal)
    }

    /// Its address in the block that begins at `start`.
    #[inline(always)]
    pub fn address(&self, start: u64) -> u64 {
        start.wrapping_add(u64::from(self.offset))
    }

    /// The address after it.
    #[inline(always)]
    pub fn end(&self, start: u64) -> u64 {
        self.address(start).wrapping_add(u64::from(self.size))
    }

    /// Where it branches or jumps to.
    #[inline(always)]
    pub fn target(&self, start: u64) -> u64 {
        self.address(start).wrapping_add(i64::from(self.imm) as u64)
    }

    /// The instruction as it is reported.
    #[inline(always)]
    pub fn retired(&self, start: u64, next: u64, taken: bool) -> Retired {
        Retired {
            address: Address(self.address(start)),
            next: Address(next),
            cycle: 0,
            opcode: self.opcode,
            size: self.size,
            isa: Isa::Rv64,
            taken,
        }
    }
}

/// Decodes the instruction that begins with halfword `first`, as the first of a block; `second` is the one after it.
pub fn decode(first: u16, second: u16) -> Op {
    if first & 3 == 3 {
        return full(u32::from(second) << 16 | u32::from(first));
    }
    match expand(first) {
        Some(opcode) => Op { opcode: u32::from(first), size: 2, ..full(opcode) },
        None => {
            let (opcode, kind, rd) = (u32::from(first), Kind::Illegal, NOWHERE);
            Op { opcode, imm: 0, kind, rd, rs1: 0, rs2: 0, size: 2, offset: 0 }
        }
    }
}

fn i_immediate(opcode: u32) -> i32 {
    opcode as i32 >> 20
}

fn s_immediate(opcode: u32) -> i32 {
    (opcode as i32 >> 25) << 5 | (opcode >> 7 & 0x1F) as i32
}

fn b_immediate(opcode: u32) -> i32 {
    (opcode as i32 >> 31) << 12
        | ((opcode >> 7 & 1) << 11 | (opcode >> 25 & 0x3F) << 5 | (opcode >> 8 & 0xF) << 1) as i32
}

fn u_immediate(opcode: u32) -> i32 {
    (opcode & 0xFFFF_F000) as i32
}

fn j_immediate(opcode: u32) -> i32 {
    (opcode as i32 >> 31) << 20
        | ((opcode >> 12 & 0xFF) << 12 | (opcode >> 20 & 1) << 11 | (opcode >> 21 & 0x3FF) << 1) as i32
}

fn full(opcode: u32) -> Op {
    let (kind, imm) = kind(opcode).unwrap_or((Kind::Illegal, 0));
    let rd = (opcode >> 7 & 0x1F) as u8;
    let to_float = matches!(kind, Kind::Flw | Kind::Fld | Kind::FloatFused | Kind::Float);
    Op {
        opcode,
        imm,
        kind,
        // Those of OP-FP that write an integer register look at the opcode again.
        rd: if rd == 0 && !to_float { NOWHERE } else { rd },
        rs1: (opcode >> 15 & 0x1F) as u8,
        rs2: (opcode >> 20 & 0x1F) as u8,
        size: 4,
        offset: 0,
    }
}

fn kind(opcode: u32) -> Option<(Kind, i32)> {
    let funct3 = opcode >> 12 & 7;
    let funct7 = opcode >> 25;
    let imm = i_immediate(opcode);
    Some(match opcode & 0x7F {
        0x03 => (loads(funct3)?, imm),
        0x07 => (*[Kind::Flw, Kind::Fld].get(funct3.checked_sub(2)? as usize)?, imm),
        0x0F => (*[Kind::Fence, Kind::FenceI].get(funct3 as usize)?, 0),
        0x13 => immediates(opcode)?,
        0x17 => (Kind::Auipc, u_immediate(opcode)),
        0x1B => word_immediates(opcode)?,
        0x23 => (*[Kind::Sb, Kind::Sh, Kind::Sw, Kind::Sd].get(funct3 as usize)?, s_immediate(opcode)),
        0x27 => (*[Kind::Fsw, Kind::Fsd].get(funct3.checked_sub(2)? as usize)?, s_immediate(opcode)),
        0x2F if matches!(funct3, 2 | 3) && is_atomic(opcode) => (Kind::Atomic, 0),
        0x33 => (registers(funct3, funct7)?, 0),
        0x37 => (Kind::Lui, u_immediate(opcode)),
        0x3B => (word_registers(funct3, funct7)?, 0),
        // Single and double only.
        0x43 | 0x47 | 0x4B | 0x4F if funct7 & 3 < 2 => (Kind::FloatFused, 0),
        0x53 if crate::hart::float::is_valid(opcode) => (Kind::Float, 0),
        0x63 => (branches(funct3)?, b_immediate(opcode)),
        0x67 if funct3 == 0 => (Kind::Jalr, imm),
        0x6F => (Kind::Jal, j_immediate(opcode)),
        0x73 => match opcode {
            0x73 => (Kind::Ecall, 0),
            0x0010_0073 => (Kind::Ebreak, 0),
            _ if !funct3.is_multiple_of(4) => (Kind::Csr, 0),
            _ => return None,
        },
        _ => return None,
    })
}

fn loads(funct3: u32) -> Option<Kind> {
    use Kind::*;
    [Lb, Lh, Lw, Ld, Lbu, Lhu, Lwu].get(funct3 as usize).copied()
}

fn branches(funct3: u32) -> Option<Kind> {
    use Kind::*;
    Some(match funct3 {
        0 => Beq,
        1 => Bne,
        4 => Blt,
        5 => Bge,
        6 => Bltu,
        7 => Bgeu,
        _ => return None,
    })
}

fn immediates(opcode: u32) -> Option<(Kind, i32)> {
    use Kind::*;
    let imm = i_immediate(opcode);
    let shift = imm & 0x3F;
    Some(match (opcode >> 12 & 7, opcode >> 26) {
        (0, _) => (Addi, imm),
        (1, 0x00) => (Slli, shift),
        (2, _) => (Slti, imm),
        (3, _) => (Sltiu, imm),
        (4, _) => (Xori, imm),
        (5, 0x00) => (Srli, shift),
        (5, 0x10) => (Srai, shift),
        (6, _) => (Ori, imm),
        (7, _) => (Andi, imm),
        _ => return None,
    })
}

fn word_immediates(opcode: u32) -> Option<(Kind, i32)> {
    use Kind::*;
    let imm = i_immediate(opcode);
    let shift = imm & 0x1F;
    Some(match (opcode >> 12 & 7, opcode >> 25) {
        (0, _) => (Addiw, imm),
        (1, 0x00) => (Slliw, shift),
        (5, 0x00) => (Srliw, shift),
        (5, 0x20) => (Sraiw, shift),
        _ => return None,
    })
}

fn registers(funct3: u32, funct7: u32) -> Option<Kind> {
    use Kind::*;
    let row = match funct7 {
        0x00 => [Add, Sll, Slt, Sltu, Xor, Srl, Or, And],
        0x01 => [Mul, Mulh, Mulhsu, Mulhu, Div, Divu, Rem, Remu],
        0x20 => [Sub, Illegal, Illegal, Illegal, Illegal, Sra, Illegal, Illegal],
        _ => return None,
    };
    row.get(funct3 as usize).copied()
}

fn word_registers(funct3: u32, funct7: u32) -> Option<Kind> {
    use Kind::*;
    let row = match funct7 {
        0x00 => [Addw, Sllw, Illegal, Illegal, Illegal, Srlw, Illegal, Illegal],
        0x01 => [Mulw, Illegal, Illegal, Illegal, Divw, Divuw, Remw, Remuw],
        0x20 => [Subw, Illegal, Illegal, Illegal, Illegal, Sraw, Illegal, Illegal],
        _ => return None,
    };
    row.get(funct3 as usize).copied()
}

fn is_atomic(opcode: u32) -> bool {
    match opcode >> 27 {
        // LR has no second source.
        0x02 => opcode >> 20 & 0x1F == 0,
        0x00 | 0x01 | 0x03 | 0x04 | 0x08 | 0x0C | 0x10 | 0x14 | 0x18 | 0x1C => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_is_small() {
        assert_eq!(size_of::<Op>(), 16);
    }

    #[test]
    fn immediates_have_their_sign() {
        let op = decode(0x0113, 0xFF01); // addi sp, sp, -16
        assert_eq!((op.kind, op.imm, op.rd, op.rs1), (Kind::Addi, -16, 2, 2));
        let op = decode(0xBFFD, 0); // c.j .-2
        assert_eq!((op.kind, op.imm, op.size, op.opcode), (Kind::Jal, -2, 2, 0xBFFD));
        let op = decode(0x8FE3, 0xFE05); // beq a1, zero, .-2
        assert_eq!((op.kind, op.imm, op.rs1), (Kind::Beq, -2, 11));
    }

    #[test]
    fn x0_as_a_destination_is_nowhere() {
        assert_eq!(decode(0x0013, 0).rd, NOWHERE);
    }
}
