//! One door to all instruction sets.

use backsight_core::{Address, Isa, Retired};

use crate::{Instruction, a32, a64, rv, t32};

/// What the instruction at the start of `bytes` does; `None` if there are too few bytes to tell. Code is
/// little-endian in every instruction set, whatever the data is.
#[inline]
pub fn classify(isa: Isa, bytes: &[u8], address: Address) -> Option<Instruction> {
    Some(match isa {
        Isa::A64 => a64::classify(word(bytes)?, address),
        Isa::A32 => a32::classify(word(bytes)?, address),
        Isa::T32 => t32::classify(thumb_opcode(bytes)?, address),
        Isa::ThumbEe => t32::classify_ee(thumb_opcode(bytes)?, address),
        // What bytecodes do is not known here.
        Isa::Jazelle => return None,
        Isa::Rv32 => rv::classify(rv::Set::RV32, rv_opcode(bytes)?, address),
        Isa::Rv64 => rv::classify(rv::Set::RV64, rv_opcode(bytes)?, address),
    })
}

/// What an executed instruction does by its opcode.
pub fn classify_retired(retired: &Retired) -> Instruction {
    let Retired { opcode, address, .. } = *retired;
    match retired.isa {
        Isa::A64 => a64::classify(opcode, address),
        Isa::A32 => a32::classify(opcode, address),
        Isa::T32 => t32::classify(upper(retired), address),
        Isa::ThumbEe => t32::classify_ee(upper(retired), address),
        Isa::Jazelle => Instruction::plain(Isa::Jazelle, retired.size),
        Isa::Rv32 => rv::classify(rv::Set::RV32, opcode, address),
        Isa::Rv64 => rv::classify(rv::Set::RV64, opcode, address),
    }
}

/// A Thumb opcode as its tables have it: one of two bytes is in the upper half.
fn upper(retired: &Retired) -> u32 {
    if retired.size == 2 { retired.opcode << 16 } else { retired.opcode }
}

/// The Thumb opcode at the start of `bytes`; `None` if there are too few bytes.
fn thumb_opcode(bytes: &[u8]) -> Option<u32> {
    let first = halfword(bytes)?;
    let second = if t32::size(first) == 4 { halfword(bytes.get(2..)?)? } else { 0 };
    Some(u32::from(first) << 16 | u32::from(second))
}

/// The opcode of the RISC-V instruction at the start of `bytes`, two-byte ones in the low half; `None` if there are
/// too few bytes.
pub(crate) fn rv_opcode(bytes: &[u8]) -> Option<u32> {
    let first = halfword(bytes)?;
    if rv::size(first) == 2 { Some(u32::from(first)) } else { word(bytes) }
}

fn halfword(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Address = Address(0x1000);

    #[test]
    fn two_bytes_are_enough_for_a_narrow_instruction_only() {
        assert_eq!(classify(Isa::T32, &[0x70, 0x47], AT).map(|i| i.size), Some(2));
        assert_eq!(classify(Isa::T32, &[0x00, 0xF0], AT), None);
        assert_eq!(classify(Isa::T32, &[0x00, 0xF0, 0x00, 0xF8], AT), Some(t32::classify(0xF000_F800, AT)));
        assert_eq!(classify(Isa::T32, &[0x70], AT), None);
        assert_eq!(classify(Isa::A64, &[0, 0, 0], AT), None);
        assert_eq!(classify(Isa::Rv64, &[0x82, 0x80], AT).map(|i| i.size), Some(2));
        assert_eq!(classify(Isa::Rv64, &[0x6F, 0x00], AT), None);
        assert_eq!(classify(Isa::Rv32, &[0x01, 0x20], AT).map(|i| i.flags.link), Some(true));
        assert_eq!(classify(Isa::A32, &[0x1E, 0xFF, 0x2F, 0xE1], AT), Some(a32::classify(0xE12F_FF1E, AT)));
    }
}
