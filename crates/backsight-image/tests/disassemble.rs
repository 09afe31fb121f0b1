//! Text of instructions.

use backsight_core::{Address, AddressSpace, Isa};
use backsight_image::{Code, Disassembler, Image, Mapping, disassemble, encoding};
use backsight_testing::Random;

const AT: Address = Address(0x1000);

#[test]
fn instructions_read_as_people_write_them() {
    for (isa, bytes, text) in [
        (Isa::A64, &[0xFF, 0x43, 0x00, 0xD1][..], "sub sp, sp, #0x10"),
        (Isa::A64, &[0x04, 0x00, 0x00, 0x14], "b 0x1010"),
        (Isa::A64, &[0xC0, 0x03, 0x5F, 0xD6], "ret"),
        (Isa::A64, &[0x00, 0x00, 0x00, 0xB0], "adrp x0, 0x2000"),
        (Isa::A64, &[0x53, 0xD0, 0x1B, 0xD5], "msr tpidr_el0, x19"),
        (Isa::A64, &[0x20, 0x58, 0x62, 0xF8], "ldr x0, [x1, w2, uxtw #0x3]"),
        (Isa::A64, &[0x00, 0x00, 0xA1, 0x04], "add z0.s, z0.s, z1.s"),
        (Isa::A64, &[0xE0, 0x00, 0x3B, 0xD5], "mrs x0, dczid_el0"),
        (Isa::A64, &[0x00, 0x05, 0x13, 0xD5], "msr dbgdtrtx_el0, x0"),
        (Isa::A64, &[0x0F, 0x3B, 0xA1, 0xA4], "ld1roh {z15.h}, p6/z, [x24, #0x20]"),
        (Isa::A64, &[0x81, 0x3C, 0xAA, 0xA5], "ld1rod {z1.d}, p7/z, [x4, #-0xc0]"),
        (Isa::A64, &[0x1F, 0xA3, 0x60, 0x04], "adr z31.d, [z24.d, z0.d, uxtw]"),
        (Isa::A64, &[0x30, 0x19, 0x74, 0x05], "ext z16.b, {z9.b, z10.b}, #0xa6"),
        (Isa::A64, &[0x6A, 0x54, 0x27, 0xE0], "st1b {za0h.b[w14, 10]}, p5, [x3, x7]"),
        (Isa::A64, &[0x88, 0x7A, 0xF7, 0xE1], "st1q {za8h.q[w15, 0]}, p6, [x20, x23, lsl #0x4]"),
        (Isa::A64, &[0x4A, 0xC1, 0x02, 0xC0], "mova z10.b, p0/m, za0v.b[w14, 10]"),
        (Isa::A64, &[0x41, 0x7B, 0x9D, 0x80], "fmopa za1.s, p6/m, p3/m, z26.s, z29.s"),
        (Isa::A64, &[0xC4, 0x7A, 0xD0, 0xC0], "addha za4.d, p6/m, p3/m, z22.d"),
        (Isa::A32, &[0xFE, 0xFF, 0xFF, 0xEB], "bl 0x1000"),
        (Isa::A32, &[0x1E, 0xFF, 0x2F, 0xE1], "bx lr"),
        (Isa::A32, &[0x00, 0x90, 0x8F, 0xE2], "add r9, pc, #0"),
        (Isa::A32, &[0x02, 0xA1, 0xF0, 0xEC], "ldcl p1, c10, [r0], #8"),
        (Isa::T32, &[0x70, 0x47], "bx lr"),
        (Isa::T32, &[0xFE, 0xE7], "b 0x1000"),
        (Isa::T32, &[0xFF, 0xF7, 0xFE, 0xFF], "bl 0x1000"),
        (Isa::T32, &[0x05, 0xA3], "adr r3, 0x1018"),
        (Isa::T32, &[0x1D, 0xEE, 0x70, 0x4F], "mrc p15, #0, r4, c13, c0, #3"),
        (Isa::T32, &[0xDD, 0xED, 0x0A, 0x7A], "vldr s15, [sp, #0x28]"),
        (Isa::T32, &[0x40, 0xF9, 0x8F, 0x0A], "vst1.32 {d16, d17}, [r0]"),
        (Isa::Rv64, &[0x82, 0x80], "ret"),
        (Isa::Rv64, &[0x67, 0x80, 0x00, 0x00], "ret"),
        (Isa::Rv64, &[0x63, 0x08, 0xB5, 0x00], "beq a0, a1, 0x1010"),
        (Isa::Rv64, &[0x06, 0xF5], "sd ra, 168(sp)"),
        (Isa::Rv64, &[0x04, 0x08], "addi s1, sp, 16"),
        (Isa::Rv64, &[0x0F, 0x00, 0x30, 0x03], "fence rw, rw"),
        (Isa::Rv64, &[0x2F, 0xB5, 0xC5, 0x06], "amoadd.d.aqrl a0, a2, (a1)"),
        (Isa::Rv64, &[0x53, 0x75, 0xB5, 0x02], "fadd.d fa0, fa0, fa1"),
        (Isa::Rv32, &[0x01, 0x20], "jal 0x1000"),
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
    for _ in 0..20_000 {
        let bytes = (random.next() as u32).to_le_bytes();
        for isa in [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64] {
            assert!(!disassemble(isa, &bytes, Address(random.next())).is_empty());
        }
    }
}

#[test]
fn an_it_block_gives_conditions() {
    let code = [0x06, 0xBF, 0x01, 0x20, 0x4F, 0xF0, 0x02, 0x01, 0x00, 0x22, 0x00, 0x23];
    let mut image = Image::new();
    image.add_bytes(code.to_vec(), AT, AddressSpace::ANY).unwrap();
    let mut disassembler = Disassembler::default();
    let mut at = AT;
    let mut all = Vec::new();
    while let Some(one) = disassembler.disassemble_at(Isa::T32, &image, &image, AddressSpace::ANY, at) {
        at = at.plus(u64::from(one.size));
        all.push(one.text);
    }
    assert_eq!(all, ["itte eq", "moveq r0, #1", "moveq.w r1, #2", "movne r2, #0", "movs r3, #0"]);
    // A branch leads to code that is in no block.
    let one = disassembler.disassemble(Isa::T32, &code[2..], AT.plus(2));
    assert_eq!(one.text, "movs r0, #1");
}

#[test]
fn an_exception_returns_into_the_middle_of_an_it_block() {
    let mut conditional = 0;
    for name in ["calls", "interwork", "pack", "vm"] {
        let file = backsight_testing::repository().join("testdata/programs/arm").join(name);
        let mut image = Image::new();
        image.add_elf(file, None, AddressSpace::ANY).unwrap();
        let is = |mapping, address| image.mapping(AddressSpace::ANY, address) == Some(mapping);
        for function in image.functions().filter(|function| is(Mapping::Code(Isa::T32), function.start)) {
            let (mut through, mut at) = (Disassembler::default(), function.start);
            while at.0 < function.start.0 + function.size && is(Mapping::Code(Isa::T32), at) {
                let one = through.disassemble_at(Isa::T32, &image, &image, AddressSpace::ANY, at).unwrap();
                let into = Disassembler::default()
                    .disassemble_at(Isa::T32, &image, &image, AddressSpace::ANY, at)
                    .unwrap();
                assert_eq!(one.text, into.text, "{name} {at}");
                let (bytes, length) = image.opcode_at(AddressSpace::ANY, at);
                conditional += usize::from(one.text != disassemble(Isa::T32, &bytes[..length], at));
                at = at.plus(u64::from(one.size));
            }
        }
    }
    assert!(conditional > 20, "{conditional}");
}

#[test]
fn addresses_are_formed_in_two_steps() {
    let name = |address: Address| (address.0 == 0x3010).then(|| "table".to_owned());
    type Case<'a> = (Isa, &'a [[u8; 4]], &'a [&'a str]);
    let cases: [Case<'_>; 4] = [
        (
            Isa::A64,
            // adrp x0, 0x3000; add x1, x0, #16; ldr x2, [x0, #16]; mov x0, x3; ldr x2, [x0, #16]
            &[
                [0x00, 0, 0, 0xD0],
                [0x01, 0x40, 0, 0x91],
                [0x02, 0x08, 0x40, 0xF9],
                [0xE0, 0x03, 0x03, 0xAA],
                [0x02, 0x08, 0x40, 0xF9],
            ],
            &[
                "adrp x0, 0x3000",
                "add x1, x0, #0x10 # 0x3010 <table>",
                "ldr x2, [x0, #0x10] # 0x3010 <table>",
                "mov x0, x3",
                "ldr x2, [x0, #0x10]",
            ],
        ),
        (
            Isa::Rv64,
            // auipc a0, 2; ld a1, 16(a0); addi a0, a0, 16; ld a1, 0(a0)
            &[[0x17, 0x25, 0, 0], [0x83, 0x35, 0x05, 0x01], [0x13, 0x05, 0x05, 0x01], [0x83, 0x35, 0x05, 0]],
            &[
                "auipc a0, 0x2 # 0x3000",
                "ld a1, 16(a0) # 0x3010 <table>",
                "addi a0, a0, 16 # 0x3010 <table>",
                "ld a1, 0(a0)",
            ],
        ),
        (Isa::A32, &[[0x10, 0x00, 0x9F, 0xE5]], &["ldr r0, [pc, #0x10] # 0x1018"]),
        (Isa::T32, &[[0xDF, 0xF8, 0x10, 0x00]], &["ldr.w r0, [pc, #0x10] # 0x1014"]),
    ];
    for (isa, code, expected) in cases {
        let mut disassembler = Disassembler::default();
        for (place, (bytes, expected)) in code.iter().zip(expected).enumerate() {
            let one = disassembler.disassemble(isa, bytes, AT.plus(4 * place as u64));
            assert_eq!(one.with_name(name), *expected, "{isa}");
        }
    }
    let branch = Disassembler::default().disassemble(Isa::A64, &[0x04, 0, 0, 0x14], Address(0x3000));
    assert_eq!(
        (branch.target, branch.with_name(name)),
        (Some(Address(0x3010)), "b 0x3010 <table>".to_owned())
    );
}

#[test]
fn encodings_are_written_as_manuals_write_them() {
    assert_eq!(encoding(Isa::T32, &[0xFF, 0xF7, 0xFE, 0xFF]), "f7ff fffe");
    assert_eq!(encoding(Isa::T32, &[0x70, 0x47]), "4770");
    assert_eq!(encoding(Isa::A64, &[0xC0, 0x03, 0x5F, 0xD6]), "d65f03c0");
    assert_eq!(encoding(Isa::Rv64, &[0x82, 0x80]), "8082");
}
