//! A64: AArch64, four bytes an instruction.
//!
//! Bits 28:25 of an opcode choose its group; branches, barriers and waits are in group 101x, loads and stores in
//! x1x0, those of SVE in 0010 and of SME in 0000. Offsets count from the address of the branch itself.

use backsight_core::{Address, Isa};

use crate::Instruction;
use crate::table::*;

/// What the instruction `opcode` at `address` does.
#[inline]
pub fn classify(opcode: u32, address: Address) -> Instruction {
    TABLE.classify(opcode, address, Isa::A64, 4)
}

fn relative(address: Address, immediate: u32, width: u32) -> Address {
    address.offset(sign_extend(immediate, width) * 4)
}

fn imm26(opcode: u32, address: Address) -> Address {
    relative(address, bits(opcode, 25, 0), 26)
}

fn imm19(opcode: u32, address: Address) -> Address {
    relative(address, bits(opcode, 23, 5), 19)
}

fn imm14(opcode: u32, address: Address) -> Address {
    relative(address, bits(opcode, 18, 5), 14)
}

fn imm9(opcode: u32, address: Address) -> Address {
    relative(address, bits(opcode, 13, 5), 9)
}

/// The table of A64.
pub static TABLE: Table = Table::new(ROWS);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(0xFFFF_0000, 0x0000_0000, "UDF", UNDEFINED),

    // Branches, exception generating and system instructions.
    row(0xFC00_0000, 0x1400_0000, "B", direct(imm26)),
    row(0xFC00_0000, 0x9400_0000, "BL", direct(imm26).link()),
    row(0xFF00_0000, 0x5400_0000, "B.cond, BC.cond", direct(imm19).conditional()),
    row(0x7E00_0000, 0x3400_0000, "CBZ, CBNZ", direct(imm19).conditional()),
    row(0x7E00_0000, 0x3600_0000, "TBZ, TBNZ", direct(imm14).conditional()),
    row(0xFF00_C000, 0x7400_0000, "CB<cc> (register, 32-bit)", direct(imm9).compares()),
    row(0xFF00_C000, 0xF400_0000, "CB<cc> (register, 64-bit)", direct(imm9).compares()),
    row(0xFF00_C000, 0x7400_8000, "CBB<cc>", direct(imm9).compares()),
    row(0xFF00_C000, 0x7400_C000, "CBH<cc>", direct(imm9).compares()),
    row(0x7F00_4000, 0x7500_0000, "CB<cc> (immediate)", direct(imm9).compares()),
    row(0xFFFF_FC1F, 0xD61F_0000, "BR", INDIRECT),
    row(0xFFFF_FC1F, 0xD63F_0000, "BLR", INDIRECT.link()),
    row(0xFFFF_FC1F, 0xD65F_0000, "RET", INDIRECT.returns()),
    row(0xFFFF_F800, 0xD71F_0800, "BRAA, BRAB", INDIRECT),
    row(0xFFFF_F800, 0xD73F_0800, "BLRAA, BLRAB", INDIRECT.link()),
    row(0xFFFF_F81F, 0xD61F_081F, "BRAAZ, BRABZ", INDIRECT),
    row(0xFFFF_F81F, 0xD63F_081F, "BLRAAZ, BLRABZ", INDIRECT.link()),
    row(0xFFFF_FBFF, 0xD65F_0BFF, "RETAA, RETAB", INDIRECT.returns()),
    row(0xFFC0_001F, 0x5500_001F, "RETAASPPC, RETABSPPC", INDIRECT.returns()),
    row(0xFFFF_FBE0, 0xD65F_0BE0, "RETAASPPCR, RETABSPPCR", INDIRECT.returns()),
    row(0xFFFF_FFFF, 0xD69F_03E0, "ERET", INDIRECT.exception_return()),
    row(0xFFFF_FBFF, 0xD69F_0BFF, "ERETAA, ERETAB", INDIRECT.exception_return()),
    row(0xFFFF_FFC0, 0xD503_1000, "WFET, WFIT", WAIT),
    row(0xFFFF_FFDF, 0xD503_205F, "WFE, WFI", WAIT),
    row(0xFFFF_F0FF, 0xD503_309F, "DSB", DATA_BARRIER),
    row(0xFFFF_F3FF, 0xD503_323F, "DSB nXS", DATA_BARRIER),
    row(0xFFFF_F0FF, 0xD503_30BF, "DMB", DATA_BARRIER),
    row(0xFFFF_F0FF, 0xD503_30DF, "ISB", ISB),
    row(0xFFFF_FFE0, 0xD523_3060, "TSTART", TRANSACTION_START),

    // Advanced SIMD structures.
    row(0xBE40_0000, 0x0C00_0000, "ST1 to ST4, STL1", STORE),
    row(0xBE40_0000, 0x0C40_0000, "LD1 to LD4, LD1R to LD4R, LDAP1", LOAD),

    // Exclusive and ordered.
    row(0xBFA0_0000, 0x0820_0000, "CASP", UPDATE),
    row(0x3FA0_0000, 0x08A0_0000, "CAS", UPDATE),
    row(0x3F40_0000, 0x0800_0000, "STXR, STXP, STLR", STORE),
    row(0x3F40_0000, 0x0840_0000, "LDXR, LDXP, LDAR", LOAD),
    row(0x3F80_0000, 0x0980_0000, "CAST, CASPT", UPDATE),
    row(0x3F40_0000, 0x0900_0000, "STTXR", STORE),
    row(0x3F40_0000, 0x0940_0000, "LDTXR", LOAD),

    // Memory tags.
    row(0xFFE0_0C00, 0xD960_0000, "LDG", LOAD),
    row(0xFFE0_0C00, 0xD9E0_0000, "LDGM", LOAD),
    row(0xFF20_0000, 0xD920_0000, "STG, STZG, ST2G, STZ2G, STGM, STZGM", STORE),
    row(0xFFFF_8C00, 0xD91F_0C00, "GCSSTR, GCSSTTR", STORE),

    // Memory copy and set.
    row(0xFBE0_0C00, 0x19C0_0400, "SET*, SETG*", STORE),
    row(0xFB20_0C00, 0x1900_0400, "CPY*, CPYF*", UPDATE),

    // 128-bit, unprivileged and read-check-write atomics.
    row(0xBF20_0000, 0x1920_0000, "LDCLRP, LDSETP, SWPP, LDTADD, RCW*", UPDATE),

    // Acquire and release with an offset.
    row(0x3FE0_0C00, 0x1900_0000, "STLUR", STORE),
    row(0x3F20_0C00, 0x1900_0000, "LDAPUR, LDAPURS", LOAD),
    row(0x3F60_0C00, 0x1900_0800, "STILP, STLR (pre-index)", STORE),
    row(0x3F60_0C00, 0x1940_0800, "LDIAPP, LDAPR (post-index)", LOAD),
    row(0x3F60_0C00, 0x1D00_0800, "STLUR (SIMD&FP)", STORE),
    row(0x3F60_0C00, 0x1D40_0800, "LDAPUR (SIMD&FP)", LOAD),

    // Literals and pairs.
    row(0xFF00_0000, 0xD800_0000, "PRFM (literal)", OTHER),
    row(0x3B00_0000, 0x1800_0000, "LDR (literal)", LOAD),
    row(0x3A40_0000, 0x2800_0000, "STP, STNP, STGP", STORE),
    row(0x3A40_0000, 0x2840_0000, "LDP, LDNP, LDPSW", LOAD),

    // One register: unscaled, indexed, unprivileged, register offset, unsigned offset; atomics.
    row(0xFFC0_0000, 0xF980_0000, "PRFM (immediate)", OTHER),
    row(0xFFE0_0C00, 0xF880_0000, "PRFUM", OTHER),
    row(0xFFE0_0C00, 0xF8A0_0800, "PRFM (register), RPRFM", OTHER),
    row(0x3FFF_FC00, 0x38BF_C000, "LDAPR", LOAD),
    row(0xFFFF_FC00, 0xF83F_D000, "LD64B", LOAD),
    row(0xFFFF_FC00, 0xF83F_9000, "ST64B", STORE),
    row(0xFFE0_EC00, 0xF820_A000, "ST64BV, ST64BV0", STORE),
    row(0x3B20_0C00, 0x3820_0000, "LDADD, LDCLR, LDEOR, LDSET, LDSMAX, SWP, RCW*", UPDATE),
    row(0xFF20_0400, 0xF820_0400, "LDRAA, LDRAB", LOAD),
    row(0x3EC0_0000, 0x3800_0000, "STR, STUR, STTR", STORE),
    row(0x3E40_0000, 0x3C00_0000, "STR, STUR (SIMD&FP)", STORE),
    row(0x3A00_0000, 0x3800_0000, "LDR, LDUR, LDTR, LDRS", LOAD),

    // SVE.
    row(0xFFC0_8010, 0x85C0_0000, "PRF (scalar plus immediate)", OTHER),
    row(0xFE60_E010, 0x8400_C000, "PRF (scalar plus scalar)", OTHER),
    row(0xBE60_E010, 0x8400_E000, "PRF (vector plus immediate)", OTHER),
    row(0xBFA0_8010, 0x8420_0000, "PRF (scalar plus 32-bit offsets)", OTHER),
    row(0xFFE0_8010, 0xC460_8000, "PRF (scalar plus 64-bit offsets)", OTHER),
    row(0xFE00_0000, 0x8400_0000, "LD1 (gather), LD1R, LDR", LOAD),
    row(0xFE00_0000, 0xA400_0000, "LD1 to LD4, LDFF1, LDNF1, LDNT1", LOAD),
    row(0xFE00_0000, 0xC400_0000, "LD1 (64-bit gather)", LOAD),
    row(0xFE00_0000, 0xE400_0000, "ST1 to ST4, STNT1, STR", STORE),

    // SME.
    row(0xFEA0_0000, 0xA000_0000, "LD1, LDNT1 (multiple vectors)", LOAD),
    row(0xFEA0_0000, 0xA020_0000, "ST1, STNT1 (multiple vectors)", STORE),
    row(0xFE20_0000, 0xE000_0000, "LD1 (tile slice), LDR (ZA, ZT0)", LOAD),
    row(0xFE20_0000, 0xE020_0000, "ST1 (tile slice), STR (ZA, ZT0)", STORE),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    const AT: Address = Address(0x1_0000);

    #[test]
    fn index_agrees_with_the_rows() {
        crate::table::tests::index_agrees_with_the_rows(&TABLE);
    }

    #[test]
    fn direct_branches_go_where_the_opcode_says() {
        for (opcode, target) in [
            (0x1400_0001, 0x1_0004),             // b .+4
            (0x17FF_FFFF, 0xFFFC),               // b .-4
            (0x1600_0000, 0x1_0000 - (1 << 27)), // b .-128M
            (0x9400_0000, 0x1_0000),             // bl .
            (0x5400_0021, 0x1_0004),             // b.ne .+4
            (0x5480_0010, 0x1_0000 - (1 << 20)), // bc.eq .-1M
            (0xB4FF_FFE0, 0xFFFC),               // cbz x0, .-4
            (0x3604_0000, 0x1_0000 - (1 << 15)), // tbz w0, #0, .-32K
            (0x7400_2000, 0x1_0000 - 1024),      // cbgt w0, w0, .-1024
            (0xF5C0_1FE0, 0x1_0000 + 1020),      // cbeq x0, #0, .+1020
            (0x7420_C020, 0x1_0004),             // cbhge w0, w0, .+4
        ] {
            let instruction = classify(opcode, AT);
            assert_eq!(instruction.class, Class::DirectBranch, "{opcode:08x}");
            assert_eq!(instruction.target, Address(target as u64), "{opcode:08x}");
            assert_eq!(instruction.target_isa, Isa::A64);
        }
    }

    #[test]
    fn branches_at_the_ends_of_memory_wrap() {
        assert_eq!(classify(0x17FF_FFFF, Address(0)).target, Address(u64::MAX - 3));
        assert_eq!(classify(0x1400_0001, Address(u64::MAX - 3)).target, Address(0));
    }

    #[test]
    fn links_and_returns_are_told_apart() {
        for (opcode, link, returns, exception_return) in [
            (0xD61F_0000u32, false, false, false), // br x0
            (0xD63F_03C0, true, false, false),     // blr x30
            (0xD65F_03C0, false, true, false),     // ret
            (0xD65F_0BFF, false, true, false),     // retaa
            (0xD65F_0FE3, false, true, false),     // retabsppcr x3
            (0x5520_003F, false, true, false),     // retabsppc
            (0xD71F_0C01, false, false, false),    // brab
            (0xD73F_0801, true, false, false),     // blraa
            (0xD63F_0C1F, true, false, false),     // blrabz
            (0xD69F_03E0, false, false, true),     // eret
            (0xD69F_0FFF, false, false, true),     // eretab
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
    fn barriers_waits_and_transactions_have_their_classes() {
        for (opcode, class) in [
            (0xD503_3FDFu32, Class::Isb),
            (0xD503_3F9F, Class::DataBarrier),
            (0xD503_3E3F, Class::DataBarrier), // dsb synxs
            (0xD503_3BBF, Class::DataBarrier), // dmb ish
            (0xD503_30FF, Class::Other),       // sb
            (0xD503_307F, Class::Other),       // tcommit
            (0xD503_205F, Class::Wait),        // wfe
            (0xD503_207F, Class::Wait),        // wfi
            (0xD503_1003, Class::Wait),        // wfet x3
            (0xD503_1023, Class::Wait),        // wfit x3
            (0xD523_3061, Class::TransactionStart),
            (0xD400_0001, Class::Other), // svc
        ] {
            assert_eq!(classify(opcode, AT).class, class, "{opcode:08x}");
        }
    }

    #[test]
    fn undefined_opcodes_are_marked() {
        assert!(classify(0x0000_1234, AT).flags.undefined);
        assert!(!classify(0xD503_201F, AT).flags.undefined);
    }
}
