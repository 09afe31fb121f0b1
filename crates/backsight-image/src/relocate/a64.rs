//! Relocations of AArch64 (ELF for the Arm 64-bit Architecture, "Relocation").

use super::{Applied, Machine, Place};

pub(super) const MACHINE: Machine = Machine { branch, code, data };

const ABS64: u32 = 257;
const ABS32: u32 = 258;
const PREL64: u32 = 260;
const PREL32: u32 = 261;
const LD_PREL_LO19: u32 = 273;
const ADR_PREL_LO21: u32 = 274;
const ADR_PREL_PG_HI21: u32 = 275;
const ADR_PREL_PG_HI21_NC: u32 = 276;
const ADD_ABS_LO12_NC: u32 = 277;
const LDST8_ABS_LO12_NC: u32 = 278;
const TSTBR14: u32 = 279;
const CONDBR19: u32 = 280;
const JUMP26: u32 = 282;
const CALL26: u32 = 283;
const LDST16_ABS_LO12_NC: u32 = 284;
const LDST32_ABS_LO12_NC: u32 = 285;
const LDST64_ABS_LO12_NC: u32 = 286;
const LDST128_ABS_LO12_NC: u32 = 299;

fn branch(kind: u32) -> Option<u64> {
    matches!(kind, TSTBR14 | CONDBR19 | JUMP26 | CALL26).then_some(4)
}

fn code(kind: u32, place: &mut Place<'_>) -> Applied {
    let Some(value) = place.value() else { return Applied::Unreachable };
    // Offsets in pages depend on where the file lies.
    let (here, there) = (place.address.wrapping_add(place.bias), value.wrapping_add(place.bias));
    let low = |shift: u32| ((there & 0xFFF) >> shift) << 10;
    match kind {
        JUMP26 | CALL26 => words(place, 28, 0x03FF_FFFF, 0),
        CONDBR19 | LD_PREL_LO19 => words(place, 21, 0x00FF_FFE0, 5),
        TSTBR14 => words(place, 16, 0x0007_FFE0, 5),
        ADR_PREL_LO21 => adr(place, value.wrapping_sub(place.address)),
        ADR_PREL_PG_HI21 | ADR_PREL_PG_HI21_NC => {
            adr(place, ((there >> 12).wrapping_sub(here >> 12) as i64) as u64)
        }
        ADD_ABS_LO12_NC | LDST8_ABS_LO12_NC => place.set_word(0, 0x003F_FC00, low(0) as u32),
        LDST16_ABS_LO12_NC => place.set_word(0, 0x003F_FC00, low(1) as u32),
        LDST32_ABS_LO12_NC => place.set_word(0, 0x003F_FC00, low(2) as u32),
        LDST64_ABS_LO12_NC => place.set_word(0, 0x003F_FC00, low(3) as u32),
        LDST128_ABS_LO12_NC => place.set_word(0, 0x003F_FC00, low(4) as u32),
        _ => Applied::Nothing,
    }
}

/// A distance in words, at a bit of the instruction.
fn words(place: &mut Place<'_>, bits: u32, mask: u32, shift: u32) -> Applied {
    match place.distance(bits) {
        Some(distance) => place.set_word(0, mask, ((distance >> 2) as u32) << shift),
        None => Applied::Unreachable,
    }
}

fn adr(place: &mut Place<'_>, value: u64) -> Applied {
    let value = value as u32;
    place.set_word(0, 0x60FF_FFE0, (value & 3) << 29 | (value >> 2 & 0x7_FFFF) << 5)
}

fn data(kind: u32, place: &mut Place<'_>) -> Applied {
    let Some(value) = place.value() else { return Applied::Nothing };
    match kind {
        ABS64 => place.set_number(8, value),
        ABS32 => place.set_number(4, value),
        PREL64 => place.set_number(8, value.wrapping_sub(place.address)),
        PREL32 => place.set_number(4, value.wrapping_sub(place.address)),
        _ => Applied::Nothing,
    }
}
