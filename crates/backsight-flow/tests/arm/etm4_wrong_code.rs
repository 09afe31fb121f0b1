//! Code that is not what ran: every sign is reported where it shows; a strict follower stops there.

use std::ops::Range;

use crate::scene::*;
use backsight_arm::etm4::Packet;
use backsight_core::{AddressSpace, Located};
use backsight_flow::Event;
use backsight_flow::etm4::{Follower, Options};

const END: &str = "end of trace";

fn strictly(code: &Memory, packets: &[Packet]) -> Vec<String> {
    let begin = [Packet::Async, trace_info(), context(), address(0x1000)];
    let options = Options { strict_image: true, ..Options::default() };
    let mut lines = raw(&etm4(&[]), code, options, &[&begin, packets].concat());
    lines.drain(..2);
    lines
}

#[test]
fn an_unconditional_branch_that_was_not_taken_is_reported_and_passed() {
    let code = words(&[b(2), NOP, b(0)]);
    assert_eq!(
        follow(&etm4(&[]), &code, &[atoms("NE")]),
        [
            "0x1000-0x1004 1 instructions A64 not taken",
            "image does not fit at 0x1000: an unconditional branch was not taken",
            "0x1004-0x100c 2 instructions A64 branch",
            END
        ]
    );
}

#[test]
fn a_branch_to_the_next_instruction_may_be_reported_as_not_taken() {
    let lines = follow(&etm4(&[]), &words(&[b(1), b(0)]), &[atoms("NE")]);
    assert_eq!(lines[1], "0x1004-0x1008 1 instructions A64 branch");
}

#[test]
fn a_strict_follower_lists_nothing_after_evidence_until_an_address() {
    let code = words(&[b(2), NOP, b(0)]);
    assert_eq!(
        strictly(&code, &[atoms("NEE"), atoms("E"), address(0x1008), atoms("E")]),
        [
            "image does not fit at 0x1000: an unconditional branch was not taken",
            "gap: wrong image",
            "0x1008-0x100c 1 instructions A64 branch",
            END
        ]
    );
}

#[test]
fn an_address_that_differs_wins_and_is_reported() {
    let code = words(&[b(1), b(0), b(0)]);
    let packets = [atoms("E"), address(0x1008), atoms("E"), address(0x1008), atoms("E")];
    let usual = follow(&etm4(&[]), &code, &packets);
    assert_eq!(
        usual,
        [
            "0x1000-0x1004 1 instructions A64 branch",
            "image does not fit at 0x1004: the trace names another address than the code leads to",
            "0x1008-0x100c 1 instructions A64 branch",
            "0x1008-0x100c 1 instructions A64 branch",
            END
        ]
    );
    let strict = strictly(&code, &packets);
    assert_eq!(strict[2], "gap: wrong image");
    assert_eq!(strict[3..], usual[2..]);
}

#[test]
fn an_undefined_instruction_is_walked_over_and_reported() {
    let code = words(&[NOP, UDF, b(0)]);
    let lines = follow(&etm4(&[]), &code, &[atoms("E")]);
    assert_eq!(
        lines,
        [
            "0x1000-0x100c 3 instructions A64 branch",
            "image does not fit at 0x1004: an undefined instruction was executed",
            END
        ]
    );
    assert_eq!(
        strictly(&code, &[atoms("E")]),
        ["image does not fit at 0x1004: an undefined instruction was executed", "gap: wrong image", END]
    );
}

#[test]
fn a_branch_on_the_way_to_an_exception_is_reported() {
    let code = words(&[NOP, b(0), NOP]);
    let lines = follow(&etm4(&[]), &code, &[exception(0xE), address(0x100c)]);
    assert_eq!(
        lines,
        [
            "0x1000-0x100c 3 instructions A64",
            "image does not fit at 0x1004: a branch lies before the instruction where the exception was taken",
            "interrupt 0xe (IRQ), returns to 0x100c",
            END
        ]
    );
    assert_eq!(
        strictly(&code, &[exception(0xE), address(0x100c)]),
        [
            "image does not fit at 0x1004: a branch lies before the instruction where the exception was taken",
            "gap: wrong image",
            "interrupt 0xe (IRQ), returns to 0x100c",
            END
        ]
    );
}

#[test]
fn code_without_an_end_is_given_up() {
    let code = words(&[NOP; 64]);
    let options = Options { walk_limit: 16, ..Options::default() };
    let begin = [Packet::Async, trace_info(), context(), address(0x1000)];
    let packets = [&begin[..], &[atoms("EE"), exception(0xE), address(0x10f0)]].concat();
    let lines = raw(&etm4(&[]), &code, options, &packets);
    assert_eq!(
        lines[2..],
        [
            "0x1000-0x1040 16 instructions A64",
            "image does not fit at 0x1000: no branch in thousands of instructions",
            "interrupt 0xe (IRQ), returns to 0x10f0",
            END
        ]
    );
}

#[test]
fn an_address_of_t32_in_64_bit_state_is_reported() {
    let lines = follow(&etm4(&[]), &words(&[BR, b(0)]), &[atoms("E"), address_t32(0x1004), atoms("E")]);
    assert_eq!(lines[1], "image does not fit at 0x1004: an address does not fit its instruction set");
    assert_eq!(lines[2], "0x1004-0x1008 1 instructions A64 branch");
}

#[test]
fn without_any_code_every_address_is_told() {
    let packets = [atoms("E"), address(0x2000), atoms("EE"), exception(2), address(0x2000)];
    let lines = follow(&etm4(&[]), &words(&[]), &packets);
    assert_eq!(
        lines,
        [
            "gap: no code at 0x1000 (EL1N)",
            "gap: no code at 0x2000 (EL1N)",
            "exception 0x2 (Call: SVC, HVC or SMC), returns to 0x2000",
            END
        ]
    );
}

#[test]
fn code_that_changes_is_read_again() {
    let begin = [Packet::Async, trace_info(), context(), address(0x1000), atoms("EE")];
    let at = |value| Located { offset: 0, length: 1, value };
    let followed = |change: &dyn Fn(&mut Follower<Memory>)| {
        let mut lines = Vec::new();
        let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
        let mut follower = Follower::new(&etm4(&[]), words(&[b(0)]));
        begin.iter().for_each(|&packet| follower.push(at(packet), &mut sink));
        change(&mut follower);
        follower.push(at(atoms("E")), &mut sink);
        lines.split_off(2)
    };
    let before = "0x1000-0x1004 1 instructions A64 branch";
    let after = "0x1000-0x1008 2 instructions A64 branch";
    let new = || words(&[NOP, b(-1)]).bytes;
    assert_eq!(followed(&|follower| follower.code_mut().bytes = new()), [before, before, after]);
    let change = |addresses: Range<u64>| {
        move |follower: &mut Follower<Memory>| {
            follower.change_code(AddressSpace::ANY, addresses.clone()).bytes = new();
        }
    };
    assert_eq!(followed(&change(0x1000..0x1008)), [before, before, after]);
    assert_eq!(followed(&change(0x2000..0x3000)), [before, before, before], "remembered");
}

#[test]
fn nothing_is_made_up_between_code_that_was_not_there_and_an_exception() {
    let at = |value| Located { offset: 0, length: 1, value };
    let followed = |code: &[u32]| {
        let mut lines = Vec::new();
        let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
        let mut follower = Follower::new(&etm4(&[]), words(&[]));
        for packet in [Packet::Async, trace_info(), context(), address(0x1000), atoms("E")] {
            follower.push(at(packet), &mut sink);
        }
        follower.code_mut().bytes = words(code).bytes;
        [exception(2), address(0x100C)].into_iter().for_each(|packet| follower.push(at(packet), &mut sink));
        follower.finish(&mut sink);
        lines.split_off(2)
    };
    let (gap, exception) =
        ("gap: no code at 0x1000 (EL1N)", "exception 0x2 (Call: SVC, HVC or SMC), returns to 0x100c");
    assert_eq!(followed(&[]), [gap, gap, exception, END], "still not there");
    assert_eq!(followed(&[NOP; 8]), [gap, exception, END], "where execution went nobody saw");
}
