//! A32, T32 and the M profile: small scenes.

use crate::scene::*;
use backsight_arm::etm4::{Config, Exception, Is, Packet, Profile};

const END: &str = "end of trace";

// T32.
const NOP16: u16 = 0xBF00;
const IT_EQ: u16 = 0xBF08;
const ITT_EQ: u16 = 0xBF04;
const BX_LR: u16 = 0x4770;
const B_SELF: u16 = 0xE7FE;
const ISB_1: u16 = 0xF3BF;
const ISB_2: u16 = 0x8F6F;

fn m_profile() -> Config {
    Config { profile: Profile::M, ..etm4(&[]) }
}

#[test]
fn a_branch_in_an_it_block_is_conditional() {
    let code = halfwords(&[IT_EQ, BX_LR, NOP16, B_SELF]);
    let lines = follow32(&etm4(&[]), &code, address_t32(0x1000), &[atoms("N"), atoms("E")]);
    assert_eq!(lines[0], "0x1000-0x1004 2 instructions T32 not taken");
    assert_eq!(lines[1], "0x1004-0x1008 2 instructions T32 branch");
    assert_eq!(lines[2], END);
}

#[test]
fn an_it_block_reaches_over_a_waypoint_inside_it() {
    // itt eq; isb; bx lr
    let code = halfwords(&[ITT_EQ, ISB_1, ISB_2, BX_LR, B_SELF]);
    let lines = follow32(&etm4(&[]), &code, address_t32(0x1000), &[atoms("NN"), atoms("E")]);
    assert_eq!(
        lines,
        [
            "0x1000-0x1006 2 instructions T32 not taken",
            "0x1006-0x1008 1 instructions T32 not taken",
            "0x1008-0x100a 1 instructions T32 branch",
            END
        ]
    );
}

#[test]
fn outside_of_it_blocks_an_indirect_branch_not_taken_is_a_mismatch() {
    let lines = follow32(&etm4(&[]), &halfwords(&[BX_LR, B_SELF]), address_t32(0x1000), &[atoms("NE")]);
    assert_eq!(lines[1], "image does not fit at 0x1000: an unconditional indirect branch was not taken");
    assert_eq!(lines[2], "0x1002-0x1004 1 instructions T32 branch");
}

#[test]
fn blx_changes_the_instruction_set_both_ways() {
    // A32 at 0x1000: blx 0x1008. T32 at 0x1008: blx 0x1000.
    let mut code = words(&[0xFA00_0000, 0xE320_F000]);
    code.bytes.extend([0xFF, 0xF7, 0xFA, 0xEF]);
    let lines = follow32(&etm4(&[]), &code, address(0x1000), &[atoms("EEE")]);
    assert_eq!(
        lines,
        [
            "0x1000-0x1004 1 instructions A32 call",
            "0x1008-0x100c 1 instructions T32 call",
            "0x1000-0x1004 1 instructions A32 call",
            END
        ]
    );
}

#[test]
fn a_return_restores_the_instruction_set_of_the_caller() {
    // A32 at 0x1000: blx 0x1008; b . ; T32 at 0x1008: bx lr
    let mut code = words(&[0xFA00_0000, 0xEAFF_FFFE]);
    code.bytes.extend(BX_LR.to_le_bytes());
    let lines = follow32(&with_return_stack(), &code, address(0x1000), &[atoms("EEE")]);
    assert_eq!(
        lines,
        [
            "0x1000-0x1004 1 instructions A32 call",
            "0x1008-0x100a 1 instructions T32 return",
            "0x1004-0x1008 1 instructions A32 branch",
            END
        ]
    );
}

#[test]
fn a_narrow_instruction_in_the_last_two_bytes_can_be_read() {
    let lines = follow32(&etm4(&[]), &halfwords(&[NOP16, BX_LR]), address_t32(0x1000), &[atoms("E")]);
    assert_eq!(lines[0], "0x1000-0x1004 2 instructions T32 return");
    let lines = follow32(&etm4(&[]), &halfwords(&[NOP16, 0xF000]), address_t32(0x1000), &[atoms("E")]);
    assert_eq!(lines[..2], ["0x1000-0x1002 1 instructions T32", "gap: no code at 0x1002 (EL1N)"]);
}

#[test]
fn an_exception_inside_a_wide_instruction_stops_the_walk_there() {
    // nop; ldm.w r0, {r1, r2}; b .
    let code = halfwords(&[NOP16, 0xE890, 0x0006, B_SELF]);
    let lines = follow32(&etm4(&[]), &code, address_t32(0x1000), &[exception(0xE), address_t32(0x1004)]);
    assert_eq!(lines, ["0x1000-0x1006 2 instructions T32", "interrupt 0xe (IRQ), returns to 0x1004", END]);
}

#[test]
fn t32_source_addresses_count_instructions_by_reading_them() {
    let code = halfwords(&[NOP16, 0xE890, 0x0006, BX_LR]);
    let source = Packet::SourceAddress(address_of(0x1006, Is::Is1));
    let lines = follow32(&ete(&[]), &code, address_t32(0x1000), &[source]);
    assert_eq!(lines[0], "0x1000-0x1008 3 instructions T32 return");
}

#[test]
fn the_flag_of_a_source_address_is_no_change_of_instruction_set() {
    let source = Packet::SourceAddress(address_of(0x1004, Is::Is1));
    let lines = follow32(&ete(&[]), &words(&[0xE320_F000, 0xEAFF_FFFE]), address(0x1000), &[source]);
    assert_eq!(lines[0], "0x1000-0x1008 2 instructions A32 branch");
}

#[test]
fn addresses_of_32_bit_code_are_32_bits_wide() {
    // b .+0x1000 at 0xfffff000 of a 4 GiB space, which wraps to 0.
    let code = Memory { base: 0xFFFF_F000, bytes: 0xEA00_03FE_u32.to_le_bytes().to_vec() };
    let lines = follow32(&etm4(&[]), &code, address(0xFFFF_FFFF_FFFF_F000), &[atoms("EE")]);
    assert_eq!(lines[..2], ["0xfffff000-0xfffff004 1 instructions A32 branch", "gap: no code at 0x0 (EL1N)"]);
}

#[test]
fn the_m_profile_has_t32_only() {
    // blx to A32 does not exist there: the opcode does nothing to the flow.
    let code = halfwords(&[0xF7FF, 0xEFFA, B_SELF]);
    let lines = follow32(&m_profile(), &code, address(0x1000), &[atoms("E")]);
    assert_eq!(lines[0], "0x1000-0x1006 2 instructions T32 branch");
}

#[test]
fn exception_returns_of_the_m_profile_are_counted_and_do_not_pop() {
    // bl 0x1006; b . ; bx lr
    let code = halfwords(&[0xF000, 0xF801, B_SELF, BX_LR]);
    let mut config = with_return_stack();
    config.profile = Profile::M;
    config.set_register("TRCIDR8", 4).expect("a register");
    let packets = [atoms("EE"), Packet::ExceptionReturn, atoms("E"), Packet::Commit { count: 4 }];
    let lines = follow32(&config, &code, address_t32(0x1000), &packets);
    assert_eq!(
        lines,
        [
            "0x1000-0x1004 1 instructions T32 call",
            "0x1006-0x1008 1 instructions T32 return",
            "exception return",
            END
        ]
    );
}

#[test]
fn a_tail_chained_exception_has_no_return_address() {
    let code = halfwords(&[NOP16]);
    let pending = Packet::Exception(Exception { number: 3, address: 0b01, fault_pending: true });
    let packets =
        [exception(0xF), address_t32(0xFFFF_FFFE), address_t32(0x1000), pending, address_t32(0x1002)];
    assert_eq!(
        follow32(&m_profile(), &code, address_t32(0x1000), &packets),
        [
            "interrupt 0xf (SysTick)",
            "0x1000-0x1002 1 instructions T32",
            "exception 0x3 (HardFault), returns to 0x1002, fault pending",
            END
        ]
    );
}

#[test]
fn ete_marks_no_exception_returns_of_32_bit_code() {
    // subs pc, lr, #4
    let lines = follow32(&ete(&[]), &words(&[0xE25E_F004]), address(0x1000), &[atoms("E")]);
    assert_eq!(lines, ["0x1000-0x1004 1 instructions A32 exception return", END]);
}

#[test]
fn a_source_address_behind_an_indirect_branch_is_in_the_instruction_set_of_the_branch() {
    // A32: blx 0x1008. T32 at 0x1008: bx r3; b .
    let code = halfwords(&[0x0000, 0xFA00, NOP16, NOP16, 0x4718, B_SELF]);
    let lines = follow32(&ete(&[]), &code, address(0x1000), &[atoms("EE"), source(0x100A)]);
    assert_eq!(lines[3], "0x100a-0x100c 1 instructions T32 branch");
}
