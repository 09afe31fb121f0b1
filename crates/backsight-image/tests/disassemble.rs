//! Text of instructions.

use backsight_core::{Address, Isa};
use backsight_image::disassemble;
use backsight_testing::Random;
use capstone::Capstone;
use capstone::arch::{BuildsCapstone, BuildsCapstoneExtraMode, riscv};

const AT: Address = Address(0x1000);

#[test]
fn instructions_read_as_people_write_them() {
    for (isa, bytes, text) in [
        (Isa::A64, &[0xFF, 0x43, 0x00, 0xD1][..], "sub sp, sp, #0x10"),
        (Isa::A64, &[0x04, 0x00, 0x00, 0x14], "b 0x1010"),
        (Isa::A64, &[0xC0, 0x03, 0x5F, 0xD6], "ret"),
        (Isa::A32, &[0xFE, 0xFF, 0xFF, 0xEB], "bl 0x1000"),
        (Isa::A32, &[0x1E, 0xFF, 0x2F, 0xE1], "bx lr"),
        (Isa::T32, &[0x70, 0x47], "bx lr"),
        (Isa::T32, &[0xFE, 0xE7], "b 0x1000"),
        (Isa::T32, &[0xFF, 0xF7, 0xFE, 0xFF], "bl.w 0x1000"),
        (Isa::Rv64, &[0x82, 0x80], "c.jr ra"),
        (Isa::Rv64, &[0x67, 0x80, 0x00, 0x00], "ret"),
        (Isa::Rv64, &[0x63, 0x08, 0xB5, 0x00], "beq a0, a1, 0x1010"),
        (Isa::Rv64, &[0x23, 0x34, 0x11, 0xFE], "sd ra, -24(sp)"),
        (Isa::Rv64, &[0x2F, 0xB5, 0xC5, 0x06], "amoadd.d.aqrl a0, a2, (a1)"),
        (Isa::Rv64, &[0x53, 0x75, 0xB5, 0x02], "fadd.d fa0, fa0, fa1"),
        (Isa::Rv32, &[0x01, 0x20], "c.jal 0x1000"),
        (Isa::Rv64, &[0xFF, 0xFF, 0xFF, 0xFF], ".word 0xffffffff"),
        (Isa::A64, &[0x01, 0x02], ".half 0x0201"),
        (Isa::A64, &[], ".byte []"),
    ] {
        assert_eq!(disassemble(isa, bytes, AT), text, "{isa} {bytes:02x?}");
    }
}

#[test]
fn any_bytes_have_a_text() {
    let mut random = Random(3);
    for _ in 0..100_000 {
        let bytes = (random.next() as u32).to_le_bytes();
        for isa in [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64] {
            assert!(!disassemble(isa, &bytes, Address(random.next())).is_empty());
        }
    }
}

/// Capstone's names for RISC-V, on all two-byte opcodes and many others.
#[test]
fn capstone_names_riscv_instructions_the_same() {
    for (isa, mode) in [(Isa::Rv32, riscv::ArchMode::RiscV32), (Isa::Rv64, riscv::ArchMode::RiscV64)] {
        let extra = [riscv::ArchExtraMode::RiscVC].into_iter();
        let engine = Capstone::new().riscv().mode(mode).extra_mode(extra).build().unwrap();
        let mut random = Random(5);
        let mut differences = std::collections::BTreeMap::new();
        let wide = (0..200_000).map(|_| random.next() as u32 | 3);
        for opcode in (0..0x1_0000u32).filter(|opcode| opcode & 3 != 3).chain(wide) {
            let size = if opcode & 3 == 3 { 4 } else { 2 };
            let bytes = &opcode.to_le_bytes()[..size];
            let found = engine.disasm_count(bytes, AT.0, 1).unwrap();
            let Some(theirs) = found.iter().next().filter(|found| found.bytes().len() == size) else {
                continue;
            };
            let ours = disassemble(isa, bytes, AT);
            let name = ours.split(' ').next().unwrap();
            // Capstone takes shifts by 32 and more for RV32, and has no short name for loading a constant.
            let excused = [(".word", "slli"), (".word", "srli"), (".word", "srai"), ("li", "addi")];
            let names = (name, theirs.mnemonic().unwrap());
            if names.0 != names.1 && !excused.contains(&names) {
                let text =
                    format!("{opcode:08x} {} {}", theirs.mnemonic().unwrap(), theirs.op_str().unwrap());
                differences.entry((name.to_owned(), theirs.mnemonic().unwrap().to_owned())).or_insert(text);
            }
        }
        for (names, first) in &differences {
            println!("{isa} {names:?} {first}");
        }
        assert!(differences.is_empty(), "{} names differ", differences.len());
    }
}
