//! A32: AArch32, four bytes an instruction.
//!
//! Bits 31:28 are a condition that makes nearly every instruction conditional; 0xF instead opens a space of
//! unconditional instructions. Any instruction that writes R15 is a branch. Offsets count from the address of the
//! branch plus 8.

use backsight_core::{Address, Isa};

use crate::Instruction;
use crate::table::*;

/// What the instruction `opcode` at `address` does.
#[inline]
pub fn classify(opcode: u32, address: Address) -> Instruction {
    let mut instruction = TABLE.classify(opcode, address, Isa::A32, 4);
    instruction.flags.conditional = bits(opcode, 31, 28) < 0xE;
    instruction
}

fn wrap(address: Address) -> Address {
    Address(address.0 & 0xFFFF_FFFF)
}

fn imm24(opcode: u32, address: Address) -> Address {
    wrap(address.plus(8).offset(sign_extend(bits(opcode, 23, 0), 24) * 4))
}

/// BLX: bit 24 is the lowest bit of the offset that T32 needs.
fn imm24_halfword(opcode: u32, address: Address) -> Address {
    wrap(imm24(opcode, address).plus(2 * u64::from(bits(opcode, 24, 24))))
}

/// The table of A32.
pub static TABLE: Table = Table::new(ROWS);

const EXCEPTION_RETURN: Effect = INDIRECT.exception_return();

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Unconditional instructions.
    row(0xFE50_0000, 0xF810_0000, "RFE", EXCEPTION_RETURN.load()),
    row(0xFE50_0000, 0xF840_0000, "SRS", STORE),
    row(0xFE00_0000, 0xFA00_0000, "BLX (immediate)", direct(imm24_halfword).link().to(Isa::T32)),
    row(0xFFF0_00F0, 0xF570_0040, "DSB", DATA_BARRIER),
    row(0xFFF0_00F0, 0xF570_0050, "DMB", DATA_BARRIER),
    row(0xFFF0_00F0, 0xF570_0060, "ISB", ISB),
    row(0xFF30_0000, 0xF400_0000, "VST1 to VST4", STORE),
    row(0xFF30_0000, 0xF420_0000, "VLD1 to VLD4", LOAD),
    row(0xFFE0_0000, 0xFC40_0000, "MCRR2, MRRC2", OTHER),
    // Coprocessors 8 and up have SIMD instructions here.
    row(0xFE10_0800, 0xFC00_0000, "STC2", STORE),
    row(0xFE10_0800, 0xFC10_0000, "LDC2", LOAD),
    row(0xF000_0000, 0xF000_0000, "unconditional", OTHER),

    // Miscellaneous.
    row(0x0FF0_00FF, 0x0120_001E, "BX LR", INDIRECT.returns()),
    row(0x0FF0_00F0, 0x0120_0010, "BX", INDIRECT),
    row(0x0FF0_00F0, 0x0120_0020, "BXJ", INDIRECT),
    row(0x0FF0_00F0, 0x0120_0030, "BLX (register)", INDIRECT.link()),
    row(0x0FFF_FFFF, 0x0160_006E, "ERET", EXCEPTION_RETURN),
    row(0x0F90_0080, 0x0100_0000, "MRS, MSR (register), CLZ, CRC32, QADD, BKPT, HVC, SMC", OTHER),
    row(0x0F90_0090, 0x0100_0080, "halfword multiply", OTHER),
    row(0x0FFF_FFFE, 0x0320_F002, "WFE, WFI", WAIT),
    row(0x0FB0_F000, 0x0320_F000, "MSR (immediate), hints", OTHER),

    // Multiplies, swaps, exclusives, halfwords and doublewords.
    row(0x0F00_00F0, 0x0000_0090, "multiply", OTHER),
    row(0x0FB0_00F0, 0x0100_0090, "SWP, SWPB", UPDATE),
    row(0x0F90_00F0, 0x0180_0090, "STREX, STL, STLEX", STORE),
    row(0x0F90_00F0, 0x0190_0090, "LDREX, LDA, LDAEX", LOAD),
    row(0x0E10_00F0, 0x0000_00D0, "LDRD", LOAD),
    row(0x0E10_0090, 0x0000_0090, "STRH, STRD", STORE),
    row(0x0E10_0090, 0x0010_0090, "LDRH, LDRSB, LDRSH", LOAD),

    // Data processing with R15 as destination; with S it also restores the state from before an exception.
    row(0x0F90_F000, 0x0310_F000, "TST, TEQ, CMP, CMN (immediate)", OTHER),
    row(0x0F90_F000, 0x0110_F000, "TST, TEQ, CMP, CMN (register)", OTHER),
    row(0x0E10_F000, 0x0210_F000, "data processing (immediate), S, to PC", EXCEPTION_RETURN),
    row(0x0E00_F000, 0x0200_F000, "data processing (immediate) to PC", INDIRECT),
    row(0x0E10_F000, 0x0010_F000, "data processing (register), S, to PC", EXCEPTION_RETURN),
    row(0x0FF0_FFFF, 0x01A0_F00E, "MOV PC, LR", INDIRECT.returns()),
    row(0x0E00_F000, 0x0000_F000, "data processing (register) to PC", INDIRECT),

    // Loads and stores of a word or byte; media instructions share their space.
    row(0x0FF0_00F0, 0x07F0_00F0, "UDF", UNDEFINED),
    row(0x0E00_0010, 0x0600_0010, "media", OTHER),
    row(0x0FFF_F000, 0x049D_F000, "LDR PC, [SP], #n", INDIRECT.returns().load()),
    row(0x0E50_F000, 0x0410_F000, "LDR PC (immediate, literal)", INDIRECT.load()),
    row(0x0E50_F010, 0x0610_F000, "LDR PC (register)", INDIRECT.load()),
    row(0x0C10_0000, 0x0400_0000, "STR, STRB, STRT", STORE),
    row(0x0C10_0000, 0x0410_0000, "LDR, LDRB, LDRT", LOAD),

    // Loads and stores of several registers; with bit 22 and R15 they return from an exception.
    row(0x0E50_8000, 0x0850_8000, "LDM …{PC}^", EXCEPTION_RETURN.load()),
    row(0x0FFF_A000, 0x08BD_8000, "POP …{PC}", INDIRECT.returns().load()),
    row(0x0E10_8000, 0x0810_8000, "LDM …{PC}", INDIRECT.load()),
    row(0x0E10_0000, 0x0800_0000, "STM, PUSH", STORE),
    row(0x0E10_0000, 0x0810_0000, "LDM, POP", LOAD),

    row(0x0F00_0000, 0x0A00_0000, "B", direct(imm24)),
    row(0x0F00_0000, 0x0B00_0000, "BL", direct(imm24).link()),

    // Coprocessors.
    row(0x0FE0_0000, 0x0C40_0000, "MCRR, MRRC, VMOV (two registers)", OTHER),
    row(0x0E10_0000, 0x0C00_0000, "STC, VSTM, VSTR", STORE),
    row(0x0E10_0000, 0x0C10_0000, "LDC, VLDM, VLDR", LOAD),
    row(0x0FFF_0FFF, 0x0E07_0F95, "CP15 ISB", ISB),
    row(0x0FFF_0FFF, 0x0E07_0F9A, "CP15 DSB", DATA_BARRIER),
    row(0x0FFF_0FFF, 0x0E07_0FBA, "CP15 DMB", DATA_BARRIER),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    const AT: Address = Address(0x8000);

    #[test]
    fn index_agrees_with_the_rows() {
        crate::table::tests::index_agrees_with_the_rows(&TABLE);
    }

    #[test]
    fn direct_branches_go_where_the_opcode_says() {
        for (opcode, target, isa, link) in [
            (0xEAFF_FFFEu32, 0x8000u64, Isa::A32, false), // b .
            (0xEB00_0000, 0x8008, Isa::A32, true),        // bl .+8
            (0x0A7F_FFFF, 0x8008 + 0x1FF_FFFC, Isa::A32, false),
            (0xFA00_0000, 0x8008, Isa::T32, true),      // blx .+8
            (0xFB00_0000, 0x800A, Isa::T32, true),      // blx .+10
            (0xFAFF_BFFE, 0xFFFF_8000, Isa::T32, true), // below address 0
        ] {
            let address = if opcode == 0xFAFF_BFFE { Address(0x0000_8000) } else { AT };
            let instruction = classify(opcode, address);
            assert_eq!(instruction.class, Class::DirectBranch, "{opcode:08x}");
            assert_eq!(instruction.target, Address(target), "{opcode:08x}");
            assert_eq!((instruction.target_isa, instruction.flags.link), (isa, link), "{opcode:08x}");
        }
    }

    #[test]
    fn every_write_to_r15_is_an_indirect_branch() {
        for opcode in [
            0xE12F_FF11u32, // bx r1
            0xE12F_FF21,    // bxj r1
            0xE12F_FF31,    // blx r1
            0xE1A0_F001,    // mov pc, r1
            0xE08F_F101,    // add pc, pc, r1, lsl #2
            0xE28F_F004,    // add pc, pc, #4
            0xE59F_F018,    // ldr pc, [pc, #24]
            0xE79F_F101,    // ldr pc, [pc, r1, lsl #2]
            0xE891_8003,    // ldmia r1, {r0, r1, pc}
            0xE8FD_8001,    // ldmia sp!, {r0, pc}^
            0xE25E_F004,    // subs pc, lr, #4
            0xF8BD_0A00,    // rfeia sp!
            0xE160_006E,    // eret
        ] {
            assert_eq!(classify(opcode, AT).class, Class::IndirectBranch, "{opcode:08x}");
        }
    }

    #[test]
    fn instructions_with_ones_where_the_destination_would_be_are_no_branches() {
        for opcode in [
            0xE350_F000u32, // cmp r0, #0 with an old destination field
            0xE150_F001,    // cmp r0, r1 likewise
            0xE128_F000,    // msr apsr, r0
            0xE328_F000,    // msr apsr, #0
            0xE320_F000,    // nop
            0xE5D0_F000,    // ldrb to r15: no branch
            0xE100_F081,    // smlabb with r15
            0xF5D0_F000,    // pld [r0]
            0xEE07_0F90,    // mcr p15
        ] {
            assert!(!classify(opcode, AT).is_branch(), "{opcode:08x}");
        }
    }

    #[test]
    fn returns_and_exception_returns_are_told_apart() {
        for (opcode, returns, exception_return) in [
            (0xE12F_FF1Eu32, true, false), // bx lr
            (0xE1A0_F00E, true, false),    // mov pc, lr
            (0xE1B0_F00E, false, true),    // movs pc, lr
            (0xE8BD_8010, true, false),    // pop {r4, pc}
            (0xE8FD_8010, false, true),    // ldm sp!, {r4, pc}^
            (0xE49D_F004, true, false),    // ldr pc, [sp], #4
            (0xE25E_F004, false, true),    // subs pc, lr, #4
            (0xE591_F000, false, false),   // ldr pc, [r1]
        ] {
            let flags = classify(opcode, AT).flags;
            assert_eq!((flags.returns, flags.exception_return), (returns, exception_return), "{opcode:08x}");
        }
    }

    #[test]
    fn the_condition_field_makes_any_instruction_conditional() {
        assert!(classify(0x0A00_0000, AT).flags.conditional);
        assert!(classify(0xD1A0_0000, AT).flags.conditional);
        assert!(!classify(0xEA00_0000, AT).flags.conditional);
        assert!(!classify(0xFA00_0000, AT).flags.conditional);
    }

    #[test]
    fn barriers_and_waits_have_their_classes() {
        for (opcode, class) in [
            (0xF57F_F06Fu32, Class::Isb),
            (0xEE07_0F95, Class::Isb),
            (0xF57F_F04F, Class::DataBarrier),
            (0xEE07_3FBA, Class::DataBarrier),
            (0xF57F_F070, Class::Other), // sb
            (0xE320_F002, Class::Wait),
            (0x1320_F003, Class::Wait),
        ] {
            assert_eq!(classify(opcode, AT).class, class, "{opcode:08x}");
        }
    }
}
