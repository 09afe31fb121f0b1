//! Relocations of RISC-V (RISC-V ELF psABI, "Relocations"). What linkers may relax is left as it is, as Linux leaves it.

use super::{Applied, Machine, Place};

pub(super) const MACHINE: Machine = Machine { branch, code, data };

const WORD32: u32 = 1;
const WORD64: u32 = 2;
const BRANCH: u32 = 16;
const JAL: u32 = 17;
const CALL: u32 = 18;
const CALL_PLT: u32 = 19;
const PCREL_HI20: u32 = 23;
const ADD8: u32 = 33;
const ADD64: u32 = 36;
const SUB8: u32 = 37;
const SUB64: u32 = 40;
const RVC_BRANCH: u32 = 44;
const RVC_JUMP: u32 = 45;
const SUB6: u32 = 52;
const SET6: u32 = 53;
const SET8: u32 = 54;
const SET32: u32 = 56;

fn branch(kind: u32) -> Option<u64> {
    match kind {
        CALL | CALL_PLT => Some(8),
        BRANCH | JAL => Some(4),
        RVC_BRANCH | RVC_JUMP => Some(2),
        _ => None,
    }
}

fn code(kind: u32, place: &mut Place<'_>) -> Applied {
    let bits = match kind {
        CALL | CALL_PLT | PCREL_HI20 => 32,
        BRANCH => 13,
        JAL => 21,
        RVC_BRANCH => 9,
        RVC_JUMP => 12,
        _ => return Applied::Nothing,
    };
    let Some(distance) = place.distance(bits) else { return Applied::Unreachable };
    let value = distance as u32;
    let bit = |from: u32, to: u32| (value >> from & 1) << to;
    let bits = |from: u32, count: u32, to: u32| (value >> from & ((1 << count) - 1)) << to;
    match kind {
        CALL | CALL_PLT | PCREL_HI20 => {
            let high = place.set_word(0, 0xFFFF_F000, value.wrapping_add(0x800) & 0xFFFF_F000);
            if kind != PCREL_HI20 { place.set_word(4, 0xFFF0_0000, value << 20) } else { high }
        }
        BRANCH => {
            let field = bit(12, 31) | bits(5, 6, 25) | bits(1, 4, 8) | bit(11, 7);
            place.set_word(0, 0xFE00_0F80, field)
        }
        JAL => {
            let field = bit(20, 31) | bits(1, 10, 21) | bit(11, 20) | bits(12, 8, 12);
            place.set_word(0, 0xFFFF_F000, field)
        }
        RVC_BRANCH => {
            let field = bit(8, 12) | bits(3, 2, 10) | bits(6, 2, 5) | bits(1, 2, 3) | bit(5, 2);
            set_half(place, 0x1C7C, field)
        }
        _ => {
            let field = bit(11, 12) | bit(4, 11) | bits(8, 2, 9) | bit(10, 8) | bit(6, 7) | bit(7, 6);
            set_half(place, 0x1FFC, field | bits(1, 3, 3) | bit(5, 2))
        }
    }
}

fn set_half(place: &mut Place<'_>, mask: u32, bits: u32) -> Applied {
    let Some(half) = place.get(0).map(u16::from_le_bytes) else { return Applied::Nothing };
    place.put(0, &(half & !(mask as u16) | (bits & mask) as u16).to_le_bytes())
}

fn data(kind: u32, place: &mut Place<'_>) -> Applied {
    let Some(value) = place.value() else { return Applied::Nothing };
    match kind {
        WORD32 => place.set_number(4, value),
        WORD64 => place.set_number(8, value),
        ADD8..=ADD64 => {
            let size = 1 << (kind - ADD8);
            place.set_number(size, place.number(size).wrapping_add(value))
        }
        SUB8..=SUB64 => {
            let size = 1 << (kind - SUB8);
            place.set_number(size, place.number(size).wrapping_sub(value))
        }
        SET6 | SUB6 => {
            let old = place.number(1);
            let six = if kind == SET6 { value } else { old.wrapping_sub(value) };
            place.set_number(1, old & 0xC0 | six & 0x3F)
        }
        SET8..=SET32 => place.set_number(1 << (kind - SET8), value),
        _ => Applied::Nothing,
    }
}
