//! Relocations of Arm, A32 and T32 (ELF for the Arm Architecture, "Relocation"). Addends mostly stand in the instructions.

use super::{Applied, Machine, Place, fits};

pub(super) const MACHINE: Machine = Machine { branch, code, data };

const PC24: u32 = 1;
const ABS32: u32 = 2;
const REL32: u32 = 3;
const THM_CALL: u32 = 10;
const PLT32: u32 = 27;
const CALL: u32 = 28;
const JUMP24: u32 = 29;
const THM_JUMP24: u32 = 30;
const THM_JUMP19: u32 = 51;
const THM_JUMP11: u32 = 102;
const THM_JUMP8: u32 = 103;

fn branch(kind: u32) -> Option<u64> {
    match kind {
        PC24 | PLT32 | CALL | JUMP24 | THM_CALL | THM_JUMP24 | THM_JUMP19 => Some(4),
        THM_JUMP11 | THM_JUMP8 => Some(2),
        _ => None,
    }
}

fn code(kind: u32, place: &mut Place<'_>) -> Applied {
    match kind {
        PC24 | PLT32 | CALL | JUMP24 => a32(kind, place),
        THM_CALL | THM_JUMP24 | THM_JUMP19 => t32(kind, place),
        THM_JUMP11 => half(place, 11),
        THM_JUMP8 => half(place, 8),
        _ => Applied::Nothing,
    }
}

fn extended(value: u32, bits: u32) -> i64 {
    i64::from((value << (32 - bits)) as i32 >> (32 - bits))
}

fn a32(kind: u32, place: &mut Place<'_>) -> Applied {
    let (Some(word), Some(target)) = (place.get(0).map(u32::from_le_bytes), place.target) else {
        return Applied::Unreachable;
    };
    let is_blx = word >> 28 == 0xF;
    let addend =
        place.addend.unwrap_or_else(|| extended(word, 24) * 4 + i64::from(is_blx && word >> 24 & 1 == 1) * 2);
    let is_t32 = place.is_function && target & 1 == 1;
    let distance = ((target & !1) as i64).wrapping_add(addend).wrapping_sub(place.address as i64);
    // A jump cannot change the instruction set: linkers put a veneer between.
    if !fits(distance, 26) || is_t32 && kind != CALL && !is_blx {
        return Applied::Unreachable;
    }
    let head = match (is_t32, is_blx) {
        (true, _) => 0xFA00_0000 | (distance as u32 >> 1 & 1) << 24,
        (false, true) => 0xEB00_0000,
        (false, false) => word & 0xFF00_0000,
    };
    place.put(0, &(head | (distance >> 2) as u32 & 0x00FF_FFFF).to_le_bytes())
}

fn t32(kind: u32, place: &mut Place<'_>) -> Applied {
    let halves = place.get(0).map(u16::from_le_bytes).zip(place.get(2).map(u16::from_le_bytes));
    let (Some((high, low)), Some(target)) = (halves, place.target) else { return Applied::Unreachable };
    let (high, low) = (u32::from(high), u32::from(low));
    let (sign, j1, j2) = (high >> 10 & 1, low >> 13 & 1, low >> 11 & 1);
    let (bits, written) = match kind {
        THM_JUMP19 => (21, sign << 20 | j2 << 19 | j1 << 18 | (high & 0x3F) << 12 | (low & 0x7FF) << 1),
        _ => {
            let (i1, i2) = (1 ^ j1 ^ sign, 1 ^ j2 ^ sign);
            (25, sign << 24 | i1 << 23 | i2 << 22 | (high & 0x3FF) << 12 | (low & 0x7FF) << 1)
        }
    };
    let addend = place.addend.unwrap_or_else(|| extended(written, bits));
    let is_a32 = place.is_function && target & 1 == 0;
    if is_a32 && kind != THM_CALL {
        return Applied::Unreachable;
    }
    let here = if is_a32 { place.address & !3 } else { place.address };
    let distance = ((target & !1) as i64).wrapping_add(addend).wrapping_sub(here as i64);
    if !fits(distance, bits) {
        return Applied::Unreachable;
    }
    let value = distance as u32;
    let bit = |place: u32| value >> place & 1;
    let (high, low) = match kind {
        THM_JUMP19 => {
            let low = low & !0x2FFF | bit(18) << 13 | bit(19) << 11 | value >> 1 & 0x7FF;
            (high & !0x43F | bit(20) << 10 | value >> 12 & 0x3F, low)
        }
        _ => {
            let sign = bit(24);
            // Bit 12 of the second half tells BL from BLX; of a jump it is set.
            let call = if kind == THM_CALL { u32::from(!is_a32) << 12 } else { low & 0x1000 };
            let low = low & !0x3FFF | (1 ^ bit(23) ^ sign) << 13 | call | (1 ^ bit(22) ^ sign) << 11;
            (high & !0x7FF | sign << 10 | value >> 12 & 0x3FF, low | value >> 1 & 0x7FF)
        }
    };
    place.put(0, &[(high as u16).to_le_bytes(), (low as u16).to_le_bytes()].concat())
}

/// A jump of one half-word, with a distance of so many half-words.
fn half(place: &mut Place<'_>, bits: u32) -> Applied {
    let (Some(half), Some(target)) = (place.get(0).map(u16::from_le_bytes), place.target) else {
        return Applied::Unreachable;
    };
    let mask = (1_u16 << bits) - 1;
    let addend = place.addend.unwrap_or_else(|| extended(u32::from(half & mask), bits) * 2);
    let distance = ((target & !1) as i64).wrapping_add(addend).wrapping_sub(place.address as i64);
    match fits(distance, bits + 1) {
        true => place.put(0, &(half & !mask | (distance >> 1) as u16 & mask).to_le_bytes()),
        false => Applied::Unreachable,
    }
}

fn data(kind: u32, place: &mut Place<'_>) -> Applied {
    let addend = place.addend.unwrap_or(i64::from(place.number(4) as i32));
    let Some(value) = place.target.map(|target| target.wrapping_add_signed(addend)) else {
        return Applied::Nothing;
    };
    match kind {
        ABS32 => place.set_number(4, value),
        REL32 => place.set_number(4, value.wrapping_sub(place.address)),
        _ => Applied::Nothing,
    }
}
