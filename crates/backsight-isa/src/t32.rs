//! T32 (Thumb): AArch32 and M profile, two or four bytes an instruction.
//!
//! An opcode is given as `first halfword << 16 | second halfword`; a two-byte one is in the upper half with zeros
//! below. The first halfword says the size. An IT instruction makes up to four instructions after it conditional:
//! the walker tracks that, with [`Instruction::it_count`]. Offsets count from the address of the branch plus 4.

use backsight_core::{Address, Isa};

use crate::table::*;
use crate::{Class, Instruction};

/// The size in bytes of the instruction that begins with this halfword.
#[inline]
pub const fn size(first: u16) -> u8 {
    if first >= 0xE800 { 4 } else { 2 }
}

/// What the instruction `opcode` at `address` does; a two-byte opcode is in the upper half.
#[inline]
pub fn classify(opcode: u32, address: Address) -> Instruction {
    let first = (opcode >> 16) as u16;
    let size = size(first);
    let opcode = if size == 2 { opcode & 0xFFFF_0000 } else { opcode };
    let mut instruction = TABLE.classify(opcode, address, Isa::T32, size);
    if instruction.class == Class::Other {
        instruction.it_count = it_count(first);
    }
    instruction
}

/// The same in ThumbEE state: handler branches and checks take the place of LDM and STM, and only LEAVEX leaves it.
pub fn classify_ee(opcode: u32, address: Address) -> Instruction {
    let instruction = match opcode >> 24 {
        0xC0..=0xCF => EE_TABLE.classify(opcode & 0xFFFF_0000, address, Isa::ThumbEe, 2),
        _ => classify(opcode, address),
    };
    let stays = instruction.target_isa == Isa::T32 && opcode != LEAVEX;
    Instruction { target_isa: if stays { Isa::ThumbEe } else { instruction.target_isa }, ..instruction }
}

const LEAVEX: u32 = 0xF3BF_8F0F;

/// The lowest set bit of the mask of an IT instruction ends its block.
const fn it_count(first: u16) -> u8 {
    if first & 0xFF00 == 0xBF00 && first & 0xF != 0 { 4 - (first & 0xF).trailing_zeros() as u8 } else { 0 }
}

fn relative(address: Address, offset: i64) -> Address {
    Address(address.plus(4).offset(offset).0 & 0xFFFF_FFFF)
}

fn imm8(opcode: u32, address: Address) -> Address {
    relative(address, sign_extend(bits(opcode, 23, 16), 8) * 2)
}

fn imm11(opcode: u32, address: Address) -> Address {
    relative(address, sign_extend(bits(opcode, 26, 16), 11) * 2)
}

/// CBZ, CBNZ: forward only, i:imm5:0.
fn i_imm5(opcode: u32, address: Address) -> Address {
    relative(address, i64::from(bits(opcode, 25, 25) << 6 | bits(opcode, 23, 19) << 1))
}

/// S:J2:J1:imm6:imm11:0.
fn imm17(opcode: u32, address: Address) -> Address {
    let (s, j1, j2) = (bits(opcode, 26, 26), bits(opcode, 13, 13), bits(opcode, 11, 11));
    let value = s << 19 | j2 << 18 | j1 << 17 | bits(opcode, 21, 16) << 11 | bits(opcode, 10, 0);
    relative(address, sign_extend(value, 20) * 2)
}

/// S:I1:I2:imm10:imm11, in halfwords; J1 and J2 are I1 and I2 exclusive-or not S.
fn s_i1_i2(opcode: u32) -> i64 {
    let s = bits(opcode, 26, 26);
    let i1 = 1 ^ bits(opcode, 13, 13) ^ s;
    let i2 = 1 ^ bits(opcode, 11, 11) ^ s;
    let value = s << 23 | i1 << 22 | i2 << 21 | bits(opcode, 25, 16) << 11 | bits(opcode, 10, 0);
    sign_extend(value, 24)
}

fn imm24(opcode: u32, address: Address) -> Address {
    relative(address, s_i1_i2(opcode) * 2)
}

/// BLX: to A32, from the word-aligned PC.
fn imm24_word(opcode: u32, address: Address) -> Address {
    let target = relative(address, 0).0 & !3;
    Address(target.wrapping_add_signed((s_i1_i2(opcode) & !1) * 2) & 0xFFFF_FFFF)
}

/// The offset of low-overhead loops: imm10:imm1:0.
fn loop_offset(opcode: u32) -> i64 {
    i64::from(bits(opcode, 10, 1) << 2 | bits(opcode, 11, 11) << 1)
}

fn loop_forward(opcode: u32, address: Address) -> Address {
    relative(address, loop_offset(opcode))
}

fn loop_back(opcode: u32, address: Address) -> Address {
    relative(address, -loop_offset(opcode))
}

/// ENTERX, LEAVEX: go on after it, in the other Thumb state.
fn after(_: u32, address: Address) -> Address {
    relative(address, 0)
}

/// The table of what ThumbEE has in the place of LDM and STM.
pub static EE_TABLE: Table = Table::new(EE_ROWS);

#[rustfmt::skip]
const EE_ROWS: &[Row] = &[
    row(0xFE00_0000, 0xC000_0000, "HBP", INDIRECT),
    row(0xFF00_0000, 0xC200_0000, "HB", INDIRECT),
    row(0xFF00_0000, 0xC300_0000, "HBL", INDIRECT.link()),
    row(0xFC00_0000, 0xC400_0000, "HBLP", INDIRECT.link()),
    row(0xFF00_0000, 0xCA00_0000, "CHKA", OTHER),
    row(0xFE00_0000, 0xCE00_0000, "STR (R9)", STORE),
    row(0xF800_0000, 0xC800_0000, "LDR (array, frame, R9)", LOAD),
];

/// The table of T32.
pub static TABLE: Table = Table::new(ROWS);

const EXCEPTION_RETURN: Effect = INDIRECT.exception_return();

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Two bytes.
    row(0xFFFF_0000, 0x46F7_0000, "MOV PC, LR", INDIRECT.returns()),
    row(0xFD87_0000, 0x4487_0000, "ADD PC, MOV PC", INDIRECT),
    row(0xFFF8_0000, 0x4770_0000, "BX LR, BXNS LR", INDIRECT.returns()),
    row(0xFF80_0000, 0x4700_0000, "BX, BXNS", INDIRECT),
    row(0xFF80_0000, 0x4780_0000, "BLX, BLXNS", INDIRECT.link()),
    row(0xF800_0000, 0x4800_0000, "LDR (literal)", LOAD),
    row(0xFE00_0000, 0x5600_0000, "LDRSB (register)", LOAD),
    row(0xF800_0000, 0x5000_0000, "STR, STRH, STRB (register)", STORE),
    row(0xF800_0000, 0x5800_0000, "LDR, LDRH, LDRB, LDRSH (register)", LOAD),
    row(0xE800_0000, 0x6000_0000, "STR, STRB (immediate)", STORE),
    row(0xE800_0000, 0x6800_0000, "LDR, LDRB (immediate)", LOAD),
    row(0xE800_0000, 0x8000_0000, "STRH (immediate), STR (SP)", STORE),
    row(0xE800_0000, 0x8800_0000, "LDRH (immediate), LDR (SP)", LOAD),
    row(0xF500_0000, 0xB100_0000, "CBZ, CBNZ", direct(i_imm5).conditional()),
    row(0xFE00_0000, 0xB400_0000, "PUSH", STORE),
    row(0xFF00_0000, 0xBD00_0000, "POP {…, PC}", INDIRECT.returns().load()),
    row(0xFF00_0000, 0xBC00_0000, "POP", LOAD),
    row(0xFFEF_0000, 0xBF20_0000, "WFE, WFI", WAIT),
    row(0xF800_0000, 0xC000_0000, "STM", STORE),
    row(0xF800_0000, 0xC800_0000, "LDM", LOAD),
    row(0xFF00_0000, 0xDE00_0000, "UDF", UNDEFINED),
    row(0xFF00_0000, 0xDF00_0000, "SVC", OTHER),
    row(0xF000_0000, 0xD000_0000, "B<c> T1", direct(imm8).conditional()),
    row(0xF800_0000, 0xE000_0000, "B T2", direct(imm11)),

    // Load and store multiple; CLRM takes the place of an LDM relative to PC.
    row(0xFFD0_0000, 0xE810_0000, "RFEDB", EXCEPTION_RETURN.load()),
    row(0xFFD0_0000, 0xE990_0000, "RFEIA", EXCEPTION_RETURN.load()),
    row(0xFFFF_2000, 0xE89F_0000, "CLRM", OTHER),
    row(0xFFFF_8000, 0xE8BD_8000, "POP.W {…, PC}", INDIRECT.returns().load()),
    row(0xFE50_8000, 0xE810_8000, "LDM, LDMDB …{PC}", INDIRECT.load()),
    row(0xFE50_0000, 0xE800_0000, "STM, STMDB, SRS, PUSH.W", STORE),
    row(0xFE50_0000, 0xE810_0000, "LDM, LDMDB, POP.W", LOAD),

    // Load and store dual and exclusive, table branch.
    row(0xFFF0_F000, 0xE840_F000, "TT, TTT, TTA, TTAT", OTHER),
    row(0xFFFF_FFFF, 0xE97F_E97F, "SG", OTHER),
    row(0xFFF0_FFE0, 0xE8D0_F000, "TBB, TBH", INDIRECT.load()),
    row(0xFE50_0000, 0xE840_0000, "STREX, STRD, STL, STLEX", STORE),
    row(0xFE50_0000, 0xE850_0000, "LDREX, LDRD, LDA, LDAEX", LOAD),

    // Coprocessors, floating point and vectors.
    row(0xEFE0_0000, 0xEC40_0000, "MCRR, MRRC, VMOV (two registers)", OTHER),
    row(0xFFBF_0E00, 0xEC9F_0A00, "VSCCLRM", OTHER),
    row(0xFE10_0000, 0xEC00_0000, "STC, VSTM, VSTR", STORE),
    row(0xFE10_0000, 0xEC10_0000, "LDC, VLDM, VLDR", LOAD),
    row(0xFE10_0800, 0xFC00_0000, "STC2", STORE),
    row(0xFE10_0800, 0xFC10_0000, "LDC2", LOAD),
    row(0xFE10_0E00, 0xFC00_0E00, "VST2, VST4, VSTR (MVE)", STORE),
    row(0xFE10_0E00, 0xFC10_0E00, "VLD2, VLD4, VLDR (MVE)", LOAD),
    row(0xFFFF_0FFF, 0xEE07_0F95, "CP15 ISB", ISB),
    row(0xFFFF_0FFF, 0xEE07_0F9A, "CP15 DSB", DATA_BARRIER),
    row(0xFFFF_0FFF, 0xEE07_0FBA, "CP15 DMB", DATA_BARRIER),

    // Branches and miscellaneous control. Condition 111x of B<c> T3 holds everything else.
    row(0xFFFF_FFFE, 0xF3AF_8002, "WFE.W, WFI.W", WAIT),
    row(0xFFFF_FFFF, 0xF3BF_8F1F, "ENTERX", direct(after).to(Isa::ThumbEe)),
    row(0xFFFF_FFFF, LEAVEX, "LEAVEX", direct(after)),
    row(0xFFFF_FFF0, 0xF3BF_8F40, "DSB", DATA_BARRIER),
    row(0xFFFF_FFF0, 0xF3BF_8F50, "DMB", DATA_BARRIER),
    row(0xFFFF_FFF0, 0xF3BF_8F60, "ISB", ISB),
    row(0xFFF0_D000, 0xF3C0_8000, "BXJ", INDIRECT),
    row(0xFFF0_D000, 0xF3D0_8000, "SUBS PC, LR, #n; ERET", EXCEPTION_RETURN),
    row(0xFFF0_F000, 0xF7F0_A000, "UDF.W", UNDEFINED),
    row(0xFB80_D000, 0xF380_8000, "MSR, MRS, hints, HVC, SMC", OTHER),
    row(0xF800_D000, 0xF000_8000, "B<c> T3", direct(imm17).conditional()),
    row(0xF800_D000, 0xF000_9000, "B T4", direct(imm24)),
    row(0xF800_D000, 0xF000_D000, "BL", direct(imm24).link()),
    row(0xF800_D001, 0xF000_C000, "BLX (immediate)", direct(imm24_word).link().to(Isa::A32)),

    // Low-overhead loops of M profile; DLS, LCTP and BF are no branches.
    row(0xFFEF_F001, 0xF00F_C001, "LE LR, LETP", direct(loop_back).conditional()),
    row(0xFFEF_F001, 0xF02F_C001, "LE", direct(loop_back)),
    row(0xFFC0_F001, 0xF000_C001, "WLSTP", direct(loop_forward).conditional()),
    row(0xFFF0_F001, 0xF040_C001, "WLS", direct(loop_forward).conditional()),

    // Load and store of one register.
    row(0xFFFF_FF00, 0xF85D_FB00, "LDR PC, [SP], #n", INDIRECT.returns().load()),
    row(0xFFF0_F000, 0xF8D0_F000, "LDR PC (immediate)", INDIRECT.load()),
    row(0xFF7F_F000, 0xF85F_F000, "LDR PC (literal)", INDIRECT.load()),
    row(0xFFF0_F800, 0xF850_F800, "LDR PC (indexed)", INDIRECT.load()),
    row(0xFFF0_FFC0, 0xF850_F000, "LDR PC (register)", INDIRECT.load()),
    row(0xFE50_F000, 0xF810_F000, "PLD, PLDW, PLI", OTHER),
    row(0xFF30_0000, 0xF900_0000, "VST1 to VST4", STORE),
    row(0xFF30_0000, 0xF920_0000, "VLD1 to VLD4", LOAD),
    row(0xFF10_0000, 0xF800_0000, "STR, STRB, STRH, STRT", STORE),
    row(0xFE10_0000, 0xF810_0000, "LDR, LDRB, LDRH, LDRS, LDRT", LOAD),
    row(0xFFFF_0FF0, 0xFB5E_0F10, "BXAUT LR", INDIRECT.returns()),
    row(0xFFF0_0FF0, 0xFB50_0F10, "BXAUT", INDIRECT),
];

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Address = Address(0x8002);

    /// The opcode of two bytes.
    const fn narrow(first: u16) -> u32 {
        (first as u32) << 16
    }

    #[test]
    fn index_agrees_with_the_rows() {
        crate::table::tests::index_agrees_with_the_rows(&TABLE);
    }

    #[test]
    fn thumbee_has_handler_branches_and_is_left_by_leavex_only() {
        for (first, class, link) in [
            (0xC000u16, Class::IndirectBranch, false), // hbp
            (0xC205, Class::IndirectBranch, false),    // hb
            (0xC305, Class::IndirectBranch, true),     // hbl
            (0xC400, Class::IndirectBranch, true),     // hblp
            (0xCA12, Class::Other, false),             // chka
            (0xCC12, Class::Other, false),             // ldr
        ] {
            let instruction = classify_ee(narrow(first), AT);
            assert_eq!((instruction.class, instruction.flags.link), (class, link), "{first:04x}");
            assert_eq!(instruction.size, 2);
        }
        assert_eq!(classify(0xF3BF_8F1F, AT).target_isa, Isa::ThumbEe);
        assert_eq!(classify_ee(LEAVEX, AT).target_isa, Isa::T32);
        assert_eq!(classify_ee(LEAVEX, AT).target, AT.plus(4));
        assert_eq!(classify_ee(narrow(0xE7FE), AT).target_isa, Isa::ThumbEe);
        assert_eq!(classify_ee(0xF000_E800, AT).target_isa, Isa::A32);
        crate::table::tests::index_agrees_with_the_rows(&EE_TABLE);
    }

    #[test]
    fn the_first_halfword_tells_the_size() {
        for first in 0..=u16::MAX {
            let wide = matches!(first >> 11, 0b11101..=0b11111);
            assert_eq!(size(first), if wide { 4 } else { 2 });
        }
    }

    #[test]
    fn direct_branches_go_where_the_opcode_says() {
        for (opcode, target) in [
            (narrow(0xD0FE), 0x8002u64), // beq .
            (narrow(0xDD7F), 0x8104),    // ble .+258
            (narrow(0xE400), 0x7806),    // b .-2044
            (narrow(0xB3F8), 0x8084),    // cbz r0, .+130
            (narrow(0xBB00), 0x8046),    // cbnz r0, .+68
            (0xF43F_AFFE, 0x8002),       // beq.w .
            (0xF7FF_BFFE, 0x8002),       // b.w .
            (0xF000_F800, 0x8006),       // bl .+4
            (0xF000_E800, 0x8004),       // blx .+2, word-aligned
            (0xF042_C001, 0x8006),       // wls lr, r2, .+4
            (0xF042_C803, 0x800C),       // wls lr, r2, .+10
            (0xF002_C003, 0x800A),       // wlstp.8 lr, r2
            (0xF00F_C801, 0x8004),       // le lr, .+2
            (0xF02F_C003, 0x8002),       // le .
        ] {
            let instruction = classify(opcode, AT);
            assert_eq!(instruction.class, Class::DirectBranch, "{opcode:08x}");
            assert_eq!(instruction.target, Address(target), "{opcode:08x}");
        }
        assert_eq!(classify(0xF000_E800, AT).target_isa, Isa::A32);
        assert_eq!(classify(narrow(0xE7FE), Address(0)).target, Address(0));
        assert_eq!(classify(narrow(0xE400), Address(0)).target, Address(0xFFFF_F804));
    }

    #[test]
    fn conditional_by_opcode_is_not_conditional_by_it() {
        for (opcode, conditional) in [
            (narrow(0xD000), true),
            (narrow(0xE000), false),
            (narrow(0xB100), true),
            (0xF000_8000, true),
            (0xF000_9000, false),
            (0xF042_C001, true),
            (0xF00F_C001, true),
            (0xF01F_C001, true),
            (0xF02F_C001, false),
        ] {
            assert_eq!(classify(opcode, AT).flags.conditional, conditional, "{opcode:08x}");
        }
    }

    #[test]
    fn it_counts_the_instructions_it_makes_conditional() {
        for (first, count) in [(0xBF08, 1), (0xBF04, 2), (0xBF0A, 3), (0xBF01, 4), (0xBF00, 0), (0xBF20, 0)] {
            assert_eq!(classify(narrow(first), AT).it_count, count, "{first:04x}");
        }
        assert_eq!(classify(0xF3AF_8001, AT).it_count, 0);
    }

    #[test]
    fn indirect_branches_and_what_they_return_from() {
        for (opcode, link, returns, exception_return) in [
            (narrow(0x4708), false, false, false), // bx r1
            (narrow(0x4770), false, true, false),  // bx lr
            (narrow(0x4774), false, true, false),  // bxns lr
            (narrow(0x4788), true, false, false),  // blx r1
            (narrow(0x478C), true, false, false),  // blxns r1
            (narrow(0x448F), false, false, false), // add pc, r1
            (narrow(0x46F7), false, true, false),  // mov pc, lr
            (narrow(0xBD10), false, true, false),  // pop {r4, pc}
            (0xE8BD_8010, false, true, false),     // pop.w {r4, pc}
            (0xE891_8010, false, false, false),    // ldm r1, {r4, pc}
            (0xE8D0_F001, false, false, false),    // tbb
            (0xE8D0_F011, false, false, false),    // tbh
            (0xE990_C000, false, false, true),     // rfeia r0
            (0xF3DE_8F00, false, false, true),     // eret
            (0xF3DE_8F04, false, false, true),     // subs pc, lr, #4
            (0xF3C1_8F00, false, false, false),    // bxj r1
            (0xF85D_FB04, false, true, false),     // ldr pc, [sp], #4
            (0xF8DF_F004, false, false, false),    // ldr pc, [pc, #4]
            (0xF851_F022, false, false, false),    // ldr pc, [r1, r2, lsl #2]
            (0xFB5E_CF1D, false, true, false),     // bxaut r12, lr, sp
        ] {
            let Instruction { class, flags, .. } = classify(opcode, AT);
            assert_eq!(class, Class::IndirectBranch, "{opcode:08x}");
            assert_eq!(
                (flags.link, flags.returns, flags.exception_return),
                (link, returns, exception_return),
                "{opcode:08x}"
            );
        }
    }

    #[test]
    fn neighbours_of_branches_are_none() {
        for opcode in [
            narrow(0xDE00), // udf
            narrow(0xDF00), // svc
            narrow(0x4508), // cmp
            narrow(0xBC10), // pop {r4}
            0xE97F_E97F,    // sg
            0xF042_E001,    // dls lr, r2
            0xF00F_E001,    // lctp
            0xF0C0_E001,    // bf
            0xF3EF_8000,    // mrs
            0xF7E0_8000,    // hvc
            0xF810_F000,    // pld
            0xE89F_8001,    // clrm {r0, apsr}
        ] {
            assert!(!classify(opcode, AT).is_branch(), "{opcode:08x}");
        }
    }

    #[test]
    fn barriers_and_waits_have_their_classes() {
        for (opcode, class) in [
            (0xF3BF_8F6F, Class::Isb),
            (0xF3BF_8F4F, Class::DataBarrier),
            (0xF3BF_8F5F, Class::DataBarrier),
            (0xEE07_0F95, Class::Isb),
            (narrow(0xBF20), Class::Wait),
            (narrow(0xBF30), Class::Wait),
            (0xF3AF_8003, Class::Wait),
            (narrow(0xBF40), Class::Other), // sev
        ] {
            assert_eq!(classify(opcode, AT).class, class, "{opcode:08x}");
        }
    }
}
