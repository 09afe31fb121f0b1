//! The ratified implicit return mode: what a depth of the return stack tells, and what it does not.

use backsight_core::Located;
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_riscv::etrace::{BranchMap, Options, Packet, Params, Reported, Start};

use crate::program::Program;
use crate::reference::addresses;

const BASE: u64 = 0x1000;
const NOP: [u8; 2] = [0x01, 0x00];
const RETURN: [u8; 2] = [0x82, 0x80];

/// A function that calls itself on a branch, and what calls it.
fn recursive() -> Program {
    let bytes = [
        &0x00A0_00EFu32.to_le_bytes()[..], // 1000  jal x1, 100a
        &[NOP, NOP, NOP].concat(),         // 1004
        &0x0002_8463u32.to_le_bytes(),     // 100a  beq 1012: the function; deeper?
        &[NOP, RETURN].concat(),           // 100e
        &0xFF9F_F0EFu32.to_le_bytes(),     // 1012  jal x1, 100a
        &[NOP, RETURN, NOP].concat(),      // 1016
    ];
    Program(vec![(BASE, bytes.concat())])
}

/// Two calls of a function that only returns.
fn two_calls() -> Program {
    let bytes = [
        &0x00C0_00EFu32.to_le_bytes()[..], // 1000  jal x1, 100c
        &0x0080_00EFu32.to_le_bytes(),     // 1004  jal x1, 100c
        &[NOP, NOP, RETURN].concat(),      // 1008
    ];
    Program(vec![(BASE, bytes.concat())])
}

/// From the start: branches, oldest first, and then an instruction that is reported with a depth of the stack.
fn followed(program: &Program, taken: &[bool], address: u64, depth: Option<u32>) -> Vec<u64> {
    let start = Packet::Start(Start { branch: true, address: BASE >> 1, ..Start::default() });
    let reported = Reported { address: (address - BASE) >> 1, irreport: depth, ..Reported::default() };
    let mut map = BranchMap::EMPTY;
    taken.iter().for_each(|&taken| map.push(taken));
    let packet = match taken {
        [] => Packet::address(reported),
        _ => Packet::Branches { map, address: Some(reported) },
    };
    let params = Params { return_stack_size: 2, ..Params::default() };
    let fast = Settings::new(params, Options { implicit_return: true, ..Options::default() });
    let clear = Settings { fast_walk: false, ..fast.clone() };
    let [fast, clear] = [fast, clear].map(|settings| {
        let (mut follower, mut events) = (Follower::new(settings, program), Vec::new());
        assert!(follower.is_unreliable());
        let mut sink = |event: Located<Event>| events.push(event.value);
        for value in [start, packet] {
            follower.push(Located { offset: 0, length: 1, value }, &mut sink);
        }
        follower.finish(&mut sink);
        assert_eq!(follower.faults().total(), 0);
        events
    });
    assert_eq!(fast, clear);
    addresses(program, &fast)
}

#[test]
fn a_return_to_its_call_needs_no_packet() {
    // One level deeper, and back through both.
    let path = [0x1000, 0x100A, 0x1012, 0x100A, 0x100E, 0x1010, 0x1016, 0x1018, 0x1004, 0x1006];
    assert_eq!(followed(&recursive(), &[true, false], 0x1006, None), path);
}

#[test]
fn a_return_that_goes_elsewhere_is_reported_with_the_depth_before_it() {
    // The stack holds two calls; the inner return goes to 1008 instead of 1016.
    let path = [0x1000, 0x100A, 0x1012, 0x100A, 0x100E, 0x1010, 0x1008];
    assert_eq!(followed(&recursive(), &[true, false], 0x1008, Some(2)), path);
}

#[test]
fn the_depth_tells_which_visit_of_an_instruction_is_meant() {
    // Three levels deep, 1016 is passed twice on the way back: with two calls on the stack, and with one.
    let visits = |depth| {
        let path = followed(&recursive(), &[true, true, false], 0x1016, Some(depth));
        path.iter().filter(|&&address| address == 0x1016).count()
    };
    assert_eq!((visits(2), visits(1)), (1, 2));
}

/// The first return goes where it should, the second does not. Both happen with one call on the stack and no branch
/// between them: the packet for the second is taken for the first, and nothing shows that two instructions are missing.
#[test]
fn returns_at_the_same_depth_without_a_branch_between_them_cannot_be_told_apart() {
    let executed = [0x1000, 0x100C, 0x1004, 0x100C, 0x100A];
    let path = followed(&two_calls(), &[], 0x100A, Some(1));
    assert_eq!(path, [executed[0], executed[1], executed[4]]);
}
