use super::*;

const AT: Address = Address(0x8000_0000);

fn jump(opcode: u32) -> (JumpKind, bool) {
    match decode(Set::RV64, opcode, AT).operation {
        Operation::Jump { kind, source } => (kind, source == Source::Opcode),
        other => panic!("{opcode:08x} is {other:?}"),
    }
}

#[test]
fn jumps_are_named_by_their_registers() {
    use JumpKind::*;
    for (opcode, kind, inferable) in [
        (0x0000_00EFu32, Call, true),        // jal ra, .
        (0x0000_02EF, Call, true),           // jal t0, .
        (0x0000_006F, Jump, true),           // j .
        (0x0000_036F, OtherWithLink, true),  // jal x6, .
        (0x0000_8067, Return, false),        // ret
        (0x0002_8067, Return, false),        // jr t0
        (0x0002_8367, Return, false),        // jalr x6, t0
        (0x0003_0067, Jump, false),          // jr x6
        (0x0003_00E7, Call, false),          // jalr ra, x6
        (0x0000_80E7, Call, false),          // jalr ra, ra
        (0x0002_82E7, Call, false),          // jalr t0, t0
        (0x0002_80E7, CoroutineSwap, false), // jalr ra, t0
        (0x0000_82E7, CoroutineSwap, false), // jalr t0, ra
        (0x0003_83E7, OtherWithLink, false), // jalr x7, x7
        (0x1000_0067, Jump, true),           // jr 256(zero)
        (0x8082, Return, false),             // c.jr ra
        (0x8282, Return, false),             // c.jr t0
        (0x8302, Jump, false),               // c.jr x6
        (0x9302, Call, false),               // c.jalr x6
        (0x9082, Call, false),               // c.jalr ra
        (0x9282, CoroutineSwap, false),      // c.jalr t0
        (0xA001, Jump, true),                // c.j .
    ] {
        assert_eq!(jump(opcode), (kind, inferable), "{opcode:08x}");
    }
}

#[test]
fn direct_branches_go_where_the_opcode_says() {
    for (opcode, target) in [
        (0xFE00_0EE3u32, 0x7FFF_FFFCu64), // beqz zero, .-4
        (0x0000_0463, 0x8000_0008),       // beqz zero, .+8
        (0x7E00_0FE3, 0x8000_0FFE),       // beqz zero, .+4094
        (0xFFDF_F06F, 0x7FFF_FFFC),       // j .-4
        (0x0010_006F, 0x8000_0800),       // j .+2048
        (0x7FFF_F06F, 0x8000_0000 + 0xF_FFFE),
        (0xBFFD, 0x7FFF_FFFE), // c.j .-2
        (0xAFFD, 0x8000_07FE), // c.j .+2046
        (0xDFFD, 0x7FFF_FFFE), // c.beqz a5, .-2
        (0xEFFD, 0x8000_00FE), // c.bnez a5, .+254
        (0x1000_0067, 256),    // jr 256(zero)
    ] {
        let instruction = classify(Set::RV64, opcode, AT);
        assert_eq!(instruction.class, Class::DirectBranch, "{opcode:08x}");
        assert_eq!(instruction.target, Address(target), "{opcode:08x}");
    }
}

#[test]
fn c_jal_exists_in_rv32_only() {
    assert_eq!(decode(Set::RV64, 0x2001, AT).operation, Operation::Other);
    let decoded = decode(Set::RV32, 0x2001, AT);
    assert_eq!(decoded.operation, Operation::Jump { kind: JumpKind::Call, source: Source::Opcode });
    assert_eq!(decoded.instruction.target, AT);
}

#[test]
fn targets_wrap_at_the_width_of_the_registers() {
    assert_eq!(classify(Set::RV32, 0xFFDF_F06F, Address(0)).target, Address(0xFFFF_FFFC));
    assert_eq!(classify(Set::RV64, 0xFFDF_F06F, Address(0)).target, Address(u64::MAX - 3));
    assert_eq!(classify(Set::RV32, 0xFFC0_0067, Address(0)).target, Address(0xFFFF_FFFC));
}

#[test]
fn a_jump_behind_its_upper_immediate_has_a_known_target() {
    let jump = decode(Set::RV64, 0x0043_0067, Address(0)); // jr 4(x6)
    for (opcode, target) in [
        (0x0000_1317u32, Some(0x8000_1004u64)), // auipc x6, 1
        (0x0000_1337, Some(0x1004)),            // lui x6, 1
        (0x8000_0337, Some(0xFFFF_FFFF_8000_0004)),
        (0x6305, Some(0x1004)),                // c.lui x6, 1
        (0x737D, Some(0xFFFF_FFFF_FFFF_F004)), // c.lui x6, -1
        (0x0000_13B7, None),                   // lui x7, 1
        (0x0000_0013, None),                   // nop
    ] {
        let before = decode(Set::RV64, opcode, AT);
        assert_eq!(jump.sequential_target(Set::RV64, &before, AT), target.map(Address), "{opcode:08x}");
    }
    let before = decode(Set::RV32, 0x8000_0337, AT);
    assert_eq!(jump.sequential_target(Set::RV32, &before, AT), Some(Address(0x8000_0004)));
}

#[test]
fn stack_pointer_adjustment_is_no_upper_immediate() {
    assert_eq!(decode(Set::RV64, 0x6105, AT).operation, Operation::Other); // c.addi16sp
}

#[test]
fn traps_and_their_returns() {
    for opcode in [0x0020_0073, 0x1020_0073, 0x3020_0073, 0x7020_0073, 0x7B20_0073] {
        let decoded = decode(Set::RV64, opcode, AT);
        assert_eq!(decoded.operation, Operation::TrapReturn, "{opcode:08x}");
        assert!(decoded.instruction.flags.exception_return && decoded.is_uninferable());
    }
    assert_eq!(decode(Set::RV64, 0x0000_0073, AT).operation, Operation::EnvironmentCall);
    assert_eq!(decode(Set::RV64, 0x0010_0073, AT).operation, Operation::Breakpoint);
    assert_eq!(decode(Set::RV64, 0x9002, AT).operation, Operation::Breakpoint);
}

#[test]
fn stores_of_doubles_are_pops_and_table_jumps_where_zcmp_and_zcmt_are() {
    let tables = Set { zcmp: true, zcmt: true, ..Set::RV32 };
    let popret = decode(tables, 0xBE42, AT);
    assert_eq!(popret.operation, Operation::Jump { kind: JumpKind::Return, source: Source::Stack });
    assert!(popret.is_uninferable());
    let jt = decode(tables, 0xA07E, AT);
    assert_eq!(jt.operation, Operation::Jump { kind: JumpKind::Jump, source: Source::Table { index: 31 } });
    let jalt = decode(tables, 0xA082, AT);
    assert_eq!(jalt.operation, Operation::Jump { kind: JumpKind::Call, source: Source::Table { index: 32 } });
    for opcode in [0xBE42, 0xA07E, 0xA082] {
        let store = decode(Set::RV64, opcode, AT);
        assert_eq!(store.operation, Operation::Other);
        assert!(store.instruction.flags.store, "{opcode:04x}");
    }
}

#[test]
fn opcodes_of_all_zeros_and_all_ones_are_undefined() {
    assert!(classify(Set::RV64, 0, AT).flags.undefined);
    assert!(classify(Set::RV64, u32::MAX, AT).flags.undefined);
    assert!(classify(Set::RV64, 0xC000_1073, AT).flags.undefined);
    assert!(!classify(Set::RV64, 0x0000_0013, AT).flags.undefined);
}

#[test]
fn only_two_bytes_are_looked_at_in_a_two_byte_instruction() {
    assert_eq!(decode(Set::RV64, 0xFFFF_8082, AT), decode(Set::RV64, 0x8082, AT));
    assert_eq!(classify(Set::RV64, 0xFFFF_8082, AT).size, 2);
}

#[test]
fn a_glance_is_right_in_every_set() {
    let every = Set { zcmp: true, zcmt: true, ..Set::RV64 };
    let wide = (0..1 << 16).map(|n: u32| n.wrapping_mul(0x9E37_79B1) | 3);
    let mut plain = 0;
    for opcode in (0..1 << 16).filter(|opcode| opcode & 3 != 3).chain(wide) {
        for set in [Set::RV32, Set::RV64, every] {
            let operation = decode(set, opcode, AT).operation;
            let look = quick_look(set, opcode);
            let agrees = match (look, operation) {
                (QuickLook::Branch, Operation::Branch) | (QuickLook::Plain, Operation::Other) => true,
                (QuickLook::Jump { kind, direct }, Operation::Jump { kind: decoded, source }) => {
                    kind == decoded && direct == (source == Source::Opcode)
                }
                // Jumps of Zcmp and Zcmt are rare.
                (QuickLook::Other, Operation::Jump { source, .. }) => {
                    matches!(source, Source::Table { .. } | Source::Stack)
                }
                (QuickLook::Other, _) => operation != Operation::Branch,
                _ => false,
            };
            assert!(agrees, "{opcode:08x}: {look:?}, {operation:?}");
            plain += u32::from(look == QuickLook::Plain);
        }
    }
    assert!(plain > 3 * 60_000, "{plain}");
}
