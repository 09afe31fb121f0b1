//! Which opcodes to ask about: the space is too large for all of them, so that half of the samples are taken from
//! the rows of our tables and from their neighbourhood, where mistakes would be.

use backsight_core::Isa;
use backsight_isa::table::Table;
use backsight_isa::{Instruction, a32, a64, rv, t32};
use backsight_testing::Random;

pub fn classify(isa: Isa, opcode: u32) -> Instruction {
    match isa {
        Isa::A64 => a64::classify(opcode, super::AT),
        Isa::A32 => a32::classify(opcode, super::AT),
        Isa::T32 => t32::classify(opcode, super::AT),
        Isa::ThumbEe => t32::classify_ee(opcode, super::AT),
        Isa::Jazelle => Instruction::plain(isa, 1),
        Isa::Rv32 => rv::classify(rv::Set::RV32, opcode, super::AT),
        Isa::Rv64 => rv::classify(rv::Set::RV64, opcode, super::AT),
    }
}

/// Opcodes of rows, opcodes one bit beside a row, and any opcodes.
pub fn near(table: &'static Table, count: usize) -> impl Iterator<Item = u32> {
    let mut random = Random(7);
    (0..count).map(move |round| {
        let opcode = random.next() as u32;
        let row = &table.rows()[random.below(table.rows().len() as u64) as usize];
        match round % 4 {
            0 | 1 => opcode & !row.mask | row.value,
            2 => (opcode & !row.mask | row.value) ^ 1 << random.below(32),
            _ => opcode,
        }
    })
}

/// Four-byte RISC-V opcodes: of the major opcodes that matter, and any.
pub fn riscv(count: usize) -> impl Iterator<Item = u32> {
    const MAJOR: [u32; 10] = [0x03, 0x07, 0x0F, 0x17, 0x23, 0x2F, 0x63, 0x67, 0x6F, 0x73];
    let mut random = Random(11);
    (0..count).map(move |round| {
        let opcode = random.next() as u32;
        match round % 8 {
            0 => opcode | 3,
            // jal and jalr by convention: few registers, all combinations.
            1 => opcode & !0x000F_F780 & !0x7F | 0x67 | (random.below(8) << 7 | random.below(8) << 15) as u32,
            2 => 0x73 | opcode & 0xFFF0_0000,
            _ => opcode & !0x7F | MAJOR[random.below(MAJOR.len() as u64) as usize],
        }
    })
}

/// The bytes of an opcode in memory.
pub fn bytes(isa: Isa, opcode: u32) -> Vec<u8> {
    match isa {
        Isa::T32 if t32::size((opcode >> 16) as u16) == 2 => ((opcode >> 16) as u16).to_le_bytes().to_vec(),
        Isa::T32 => opcode.rotate_left(16).to_le_bytes().to_vec(),
        Isa::Rv32 | Isa::Rv64 if opcode & 3 != 3 => (opcode as u16).to_le_bytes().to_vec(),
        _ => opcode.to_le_bytes().to_vec(),
    }
}
