//! What A32 and T32 loads and stores transfer: the data packets that an ETMv3 has for them.
//!
//! A trace unit splits accesses into transfers of at most a word. How wide a transfer is, and whether it reads or writes,
//! is not in the packets: the opcode says it.

use backsight_core::Isa;

/// What a transfer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// The first reads memory, the second writes it.
    Swap,
    /// Reads a coprocessor register.
    CoprocessorRead,
    /// Writes a coprocessor register.
    CoprocessorWrite,
}

/// The transfers of an instruction, in order; addresses ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfers {
    /// What they do.
    pub kind: TransferKind,
    /// How many; 0 if the implementation decides.
    pub count: u8,
    /// Bytes of each: 1, 2 or 4.
    pub size: u8,
}

const fn load_or_store(is_load: bool, count: u8, size: u8) -> Option<Transfers> {
    let kind = if is_load { TransferKind::Load } else { TransferKind::Store };
    Some(Transfers { kind, count, size })
}

/// The transfers of the instruction with this opcode, given as [`Retired`](backsight_core::Retired) has it; `None` if it
/// transfers nothing. Other instruction sets than A32 and Thumb have none here.
pub const fn transfers(isa: Isa, opcode: u32, size: u8) -> Option<Transfers> {
    match (isa, size) {
        (Isa::A32, _) => a32(opcode),
        (Isa::T32 | Isa::ThumbEe, 2) => narrow(opcode as u16),
        (Isa::T32 | Isa::ThumbEe, _) => wide(opcode),
        _ => None,
    }
}

const fn bit(opcode: u32, number: u32) -> bool {
    opcode >> number & 1 == 1
}

const fn a32(opcode: u32) -> Option<Transfers> {
    let is_load = bit(opcode, 20);
    if opcode >> 28 == 0xF {
        return match opcode {
            _ if opcode & 0xFE50_0000 == 0xF810_0000 => load_or_store(true, 2, 4),
            _ if opcode & 0xFE50_0000 == 0xF840_0000 => load_or_store(false, 2, 4),
            _ if opcode & 0xFF10_0000 == 0xF400_0000 => vectors(opcode),
            _ if opcode & 0xFE00_0000 == 0xFC00_0000 => coprocessor(opcode),
            _ => None,
        };
    }
    match opcode >> 25 & 7 {
        0 if opcode & 0x90 == 0x90 => extra(opcode),
        2 => load_or_store(is_load, 1, if bit(opcode, 22) { 1 } else { 4 }),
        3 if !bit(opcode, 4) => load_or_store(is_load, 1, if bit(opcode, 22) { 1 } else { 4 }),
        4 => load_or_store(is_load, (opcode & 0xFFFF).count_ones() as u8, 4),
        6 => coprocessor(opcode),
        7 if opcode & 0x0100_0010 == 0x10 => register_transfer(opcode, 1),
        _ => None,
    }
}

/// Halfwords, signed bytes, doublewords, swaps and exclusives.
const fn extra(opcode: u32) -> Option<Transfers> {
    let is_load = bit(opcode, 20);
    match opcode >> 5 & 3 {
        0 if !bit(opcode, 24) => None,
        0 if bit(opcode, 23) => match opcode >> 21 & 3 {
            0 => load_or_store(is_load, 1, 4),
            1 => load_or_store(is_load, 2, 4),
            2 => load_or_store(is_load, 1, 1),
            _ => load_or_store(is_load, 1, 2),
        },
        0 if opcode & 0x0030_0000 == 0 => {
            Some(Transfers { kind: TransferKind::Swap, count: 2, size: if bit(opcode, 22) { 1 } else { 4 } })
        }
        0 => None,
        1 => load_or_store(is_load, 1, 2),
        2 if is_load => load_or_store(true, 1, 1),
        2 => load_or_store(true, 2, 4),
        _ if is_load => load_or_store(true, 1, 2),
        _ => load_or_store(false, 2, 4),
    }
}

/// Loads and stores of coprocessors, and of the registers of floating point.
const fn coprocessor(opcode: u32) -> Option<Transfers> {
    let is_load = bit(opcode, 20);
    if opcode & 0x0FE0_0000 == 0x0C40_0000 {
        return register_transfer(opcode, 2);
    }
    let is_double = match opcode >> 8 & 0xF {
        10 => false,
        11 => true,
        _ => return load_or_store(is_load, 0, 4),
    };
    let is_one = bit(opcode, 24) && !bit(opcode, 21);
    let count = match (is_one, is_double) {
        (true, false) => 1,
        (true, true) => 2,
        (false, false) => opcode as u8,
        (false, true) => opcode as u8 & !1,
    };
    load_or_store(is_load, count, 4)
}

const fn register_transfer(opcode: u32, count: u8) -> Option<Transfers> {
    let is_read = bit(opcode, 20);
    let kind = if is_read { TransferKind::CoprocessorRead } else { TransferKind::CoprocessorWrite };
    Some(Transfers { kind, count, size: 4 })
}

/// Loads and stores of elements and structures: whole registers have two words each, lanes are up to the implementation.
const fn vectors(opcode: u32) -> Option<Transfers> {
    let is_load = bit(opcode, 21);
    if bit(opcode, 23) {
        return load_or_store(is_load, 0, 4);
    }
    let registers = match opcode >> 8 & 0xF {
        0b0000..=0b0011 => 4,
        0b0100..=0b0110 => 3,
        0b1000..=0b1010 => 2,
        0b0111 => 1,
        _ => 0,
    };
    load_or_store(is_load, 2 * registers, 4)
}

const fn narrow(opcode: u16) -> Option<Transfers> {
    let is_load = opcode >> 11 & 1 == 1;
    match opcode >> 12 {
        4 if opcode >> 11 == 0b01001 => load_or_store(true, 1, 4),
        5 => {
            let (is_load, size) = match opcode >> 9 & 7 {
                0 => (false, 4),
                1 => (false, 2),
                2 => (false, 1),
                3 | 6 => (true, 1),
                4 => (true, 4),
                _ => (true, 2),
            };
            load_or_store(is_load, 1, size)
        }
        6 | 9 => load_or_store(is_load, 1, 4),
        7 => load_or_store(is_load, 1, 1),
        8 => load_or_store(is_load, 1, 2),
        11 if opcode & 0xF600 == 0xB400 => load_or_store(is_load, (opcode & 0x1FF).count_ones() as u8, 4),
        12 => load_or_store(is_load, (opcode & 0xFF).count_ones() as u8, 4),
        _ => None,
    }
}

const fn wide(opcode: u32) -> Option<Transfers> {
    let is_load = bit(opcode, 20);
    match opcode >> 25 {
        0b111_0100 if !bit(opcode, 22) => match opcode >> 23 & 3 {
            // SRS and RFE.
            0 | 3 => load_or_store(is_load, 2, 4),
            _ => load_or_store(is_load, (opcode & 0xFFFF).count_ones() as u8, 4),
        },
        0b111_0100 => dual_or_exclusive(opcode),
        0b111_1100 if opcode >> 24 == 0xF9 && !is_load => vectors(opcode),
        0b111_1100 => {
            let size = match opcode >> 21 & 3 {
                0 => 1,
                1 => 2,
                _ => 4,
            };
            // Preloads are loads of bytes and halfwords to the PC.
            let is_preload = is_load && size < 4 && opcode >> 12 & 0xF == 0xF;
            if is_preload { None } else { load_or_store(is_load, 1, size) }
        }
        0b111_0110 | 0b111_1110 => coprocessor(opcode),
        0b111_0111 | 0b111_1111 if opcode & 0x0100_0010 == 0x10 => register_transfer(opcode, 1),
        _ => None,
    }
}

const fn dual_or_exclusive(opcode: u32) -> Option<Transfers> {
    let is_load = bit(opcode, 20);
    match opcode >> 20 & 0xFFE {
        0xE84 => load_or_store(is_load, 1, 4),
        0xE8C => match opcode >> 4 & 0xF {
            0 | 4 | 8 | 12 => load_or_store(is_load, 1, 1),
            1 | 5 | 9 | 13 => load_or_store(is_load, 1, 2),
            10 | 14 => load_or_store(is_load, 1, 4),
            _ => load_or_store(is_load, 2, 4),
        },
        _ => load_or_store(is_load, 2, 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TransferKind::{CoprocessorRead, CoprocessorWrite, Load, Store, Swap};

    /// Kind, count and size.
    type Expected = Option<(TransferKind, u8, u8)>;

    fn check(isa: Isa, size: u8, cases: &[(u32, Expected)]) {
        for &(opcode, expected) in cases {
            let found = transfers(isa, opcode, size).map(|found| (found.kind, found.count, found.size));
            assert_eq!(found, expected, "{opcode:08x}");
        }
    }

    #[test]
    fn a32_loads_and_stores_have_their_transfers() {
        check(
            Isa::A32,
            4,
            &[
                (0xE591_0004, Some((Load, 1, 4))),             // ldr r0, [r1, #4]
                (0xE5C1_0004, Some((Store, 1, 1))),            // strb r0, [r1, #4]
                (0xE791_0002, Some((Load, 1, 4))),             // ldr r0, [r1, r2]
                (0xE6BF_0071, None),                           // sxth r0, r1
                (0xE92D_4070, Some((Store, 4, 4))),            // push {r4, r5, r6, lr}
                (0xE8BD_8070, Some((Load, 4, 4))),             // pop {r4, r5, r6, pc}
                (0xE1D1_00B2, Some((Load, 1, 2))),             // ldrh r0, [r1, #2]
                (0xE1C1_00D8, Some((Load, 2, 4))),             // ldrd r0, [r1, #8]
                (0xE1C1_00F8, Some((Store, 2, 4))),            // strd r0, [r1, #8]
                (0xE1D1_00D1, Some((Load, 1, 1))),             // ldrsb r0, [r1, #1]
                (0xE102_0091, Some((Swap, 2, 4))),             // swp r0, r1, [r2]
                (0xE142_0091, Some((Swap, 2, 1))),             // swpb r0, r1, [r2]
                (0xE191_0F9F, Some((Load, 1, 4))),             // ldrex r0, [r1]
                (0xE1A1_2F90, Some((Store, 2, 4))),            // strexd r2, r0, r1, [r1]
                (0xE000_0291, None),                           // mul r0, r1, r2
                (0xED91_0A01, Some((Load, 1, 4))),             // vldr s0, [r1, #4]
                (0xED81_0B02, Some((Store, 2, 4))),            // vstr d0, [r1, #8]
                (0xECB1_0B08, Some((Load, 8, 4))),             // vldmia r1!, {d0-d3}
                (0xEE07_0F95, Some((CoprocessorWrite, 1, 4))), // mcr p15, 0, r0, c7, c5, 4
                (0xEE1D_0F70, Some((CoprocessorRead, 1, 4))),  // mrc p15, 0, r0, c13, c0, 3
                (0xEC51_0F0E, Some((CoprocessorRead, 2, 4))),  // mrrc
                (0xF421_0A8F, Some((Load, 4, 4))),             // vld1.32 {d0, d1}, [r1]
                (0xF8BD_0A00, Some((Load, 2, 4))),             // rfeia sp!
                (0xF5D1_F000, None),                           // pld [r1]
                (0xE081_0002, None),                           // add
                (0xEA00_0000, None),                           // b
            ],
        );
    }

    #[test]
    fn t32_loads_and_stores_have_their_transfers() {
        check(
            Isa::T32,
            2,
            &[
                (0x4801, Some((Load, 1, 4))),  // ldr r0, [pc, #4]
                (0x5211, Some((Store, 1, 2))), // strh r1, [r2, r0]
                (0x5711, Some((Load, 1, 1))),  // ldrsb r1, [r2, r4]
                (0x7008, Some((Store, 1, 1))), // strb r0, [r1]
                (0x8808, Some((Load, 1, 2))),  // ldrh r0, [r1]
                (0x9001, Some((Store, 1, 4))), // str r0, [sp, #4]
                (0xB510, Some((Store, 2, 4))), // push {r4, lr}
                (0xBD10, Some((Load, 2, 4))),  // pop {r4, pc}
                (0xC806, Some((Load, 2, 4))),  // ldm r0, {r1, r2}
                (0xB100, None),                // cbz
                (0x4408, None),                // add
                (0xBF00, None),                // nop
            ],
        );
        check(
            Isa::T32,
            4,
            &[
                (0xE92D_41F0, Some((Store, 6, 4))),           // push.w {r4-r8, lr}
                (0xE8BD_81F0, Some((Load, 6, 4))),            // pop.w {r4-r8, pc}
                (0xE990_C000, Some((Load, 2, 4))),            // rfeia r0
                (0xE851_0F01, Some((Load, 1, 4))),            // ldrex r0, [r1, #4]
                (0xE841_2001, Some((Store, 1, 4))),           // strex r0, r2, [r1, #4]
                (0xE8D0_F001, Some((Load, 1, 1))),            // tbb [r0, r1]
                (0xE8D0_F011, Some((Load, 1, 2))),            // tbh [r0, r1]
                (0xE8D1_0F5F, Some((Load, 1, 2))),            // ldrexh r0, [r1]
                (0xE9D1_0202, Some((Load, 2, 4))),            // ldrd r0, r2, [r1, #8]
                (0xF8D1_0004, Some((Load, 1, 4))),            // ldr.w r0, [r1, #4]
                (0xF881_0004, Some((Store, 1, 1))),           // strb.w r0, [r1, #4]
                (0xF891_F004, None),                          // pld [r1, #4]
                (0xED91_0B02, Some((Load, 2, 4))),            // vldr d0, [r1, #8]
                (0xEE1D_0F70, Some((CoprocessorRead, 1, 4))), // mrc
                (0xF921_0A8F, Some((Load, 4, 4))),            // vld1.32 {d0, d1}, [r1]
                (0xF000_F800, None),                          // bl
            ],
        );
        assert_eq!(transfers(Isa::A64, 0xF940_0000, 4), None);
    }
}
