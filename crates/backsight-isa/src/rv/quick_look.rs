//! What a quick look at an opcode shows: enough for most instructions, where only the kind of flow matters.

use super::{JumpKind, Set, kind};
use crate::table::bits;

/// What a quick look at an opcode shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuickLook {
    /// It certainly goes to the next instruction and sets no upper immediate.
    Plain,
    /// It is a conditional branch.
    Branch,
    /// It is a jump.
    Jump {
        /// By convention.
        kind: JumpKind,
        /// Its target is in the opcode.
        direct: bool,
    },
    /// It may be anything else: [`decode`](super::decode) says.
    Other,
}

/// For each value of bits 6:0, which values of bits 15:13 belong to instructions that may not be plain: a bit for each,
/// and the same again for the bits above, which do not matter. First for RV32, then for RV64.
const SPECIAL: [[u32; 128]; 2] = {
    let mut tables = [[0; 128]; 2];
    let mut low = 0;
    while low < 128 {
        let (narrow, wide) = match (low & 3, low >> 2) {
            // c.jal or c.addiw, c.lui, c.j, c.beqz, c.bnez.
            (1, _) => (0b1110_1010, 0b1110_1000),
            // c.jr and c.jalr, which c.mv and c.add would be with a second register; Zcmp and Zcmt, or c.fsdsp.
            (2, 0) => (0b0011_0000, 0b0011_0000),
            (2, _) => (0b0010_0000, 0b0010_0000),
            // auipc, lui, branches, jalr, jal, system.
            (3, 0x05 | 0x0D | 0x18 | 0x19 | 0x1B | 0x1C) => (0xFF, 0xFF),
            _ => (0, 0),
        };
        tables[0][low] = narrow * 0x0101_0101;
        tables[1][low] = wide * 0x0101_0101;
        low += 1;
    }
    tables
};

/// Is the quickest look enough to see that the instruction is plain?
#[inline(always)]
pub const fn is_plain(set: Set, opcode: u32) -> bool {
    SPECIAL[set.wide as usize][(opcode & 0x7F) as usize] >> (opcode >> 13 & 31) & 1 == 0
}

/// A quick look at an opcode.
#[inline(always)]
pub const fn quick_look(set: Set, opcode: u32) -> QuickLook {
    if is_plain(set, opcode) { QuickLook::Plain } else { look_at_special(set, opcode) }
}

/// The same of an instruction that is not certainly [plain](is_plain).
#[inline(always)]
pub const fn look_at_special(set: Set, opcode: u32) -> QuickLook {
    if opcode & 0x7F == 0x63 || opcode & 0xC003 == 0xC001 { QuickLook::Branch } else { look(set, opcode) }
}

/// The same of an instruction that is neither certainly plain nor a branch.
#[inline(never)]
const fn look(set: Set, opcode: u32) -> QuickLook {
    let rd = bits(opcode, 11, 7);
    match (opcode & 3, bits(opcode, 6, 2), bits(opcode, 15, 13)) {
        (1, _, 1) => QuickLook::Jump { kind: JumpKind::Call, direct: true },
        (1, _, 5) => QuickLook::Jump { kind: JumpKind::Jump, direct: true },
        (2, 0, 4) if rd != 0 => QuickLook::Jump { kind: kind(bits(opcode, 12, 12), rd), direct: false },
        (2, _, 5) if !set.zcmp && !set.zcmt => QuickLook::Plain,
        (3, 0x19, _) if bits(opcode, 14, 12) == 0 => {
            let rs1 = bits(opcode, 19, 15);
            QuickLook::Jump { kind: kind(rd, rs1), direct: rs1 == 0 }
        }
        (3, 0x1B, _) => QuickLook::Jump { kind: kind(rd, 0), direct: true },
        _ => QuickLook::Other,
    }
}
