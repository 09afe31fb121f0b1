//! Small scenes of PTM trace: a little code, a few packets, and what was executed as text.

use backsight_arm::ptm::{
    Atoms, Bad, Branch, Config, ISync, Information, Packet, Reason, State, WaypointUpdate,
};
use backsight_core::{Address, AddressSpace, Isa, Located};
use backsight_flow::Event;
use backsight_flow::ptm::{Follower, Options};
use backsight_image::Code;

/// Code at 0x1000.
struct Memory(Vec<u8>);

impl Code for Memory {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let offset = usize::try_from(address.0.checked_sub(0x1000)?).ok()?;
        self.0.get(offset..).filter(|rest| !rest.is_empty())
    }
}

fn a32(words: &[u32]) -> Memory {
    Memory(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

fn thumb(halfwords: &[u16]) -> Memory {
    Memory(halfwords.iter().flat_map(|half| half.to_le_bytes()).collect())
}

const NOP: u32 = 0xE320_F000;
const BL_8: u32 = 0xEB00_0000;
const BX_LR: u32 = 0xE12F_FF1E;
const SVC: u32 = 0xEF00_0000;
const DMB: u32 = 0xF57F_F05F;

fn i_sync(address: u64, isa: Isa, reason: Reason) -> Packet {
    let state = State { alt_isa: isa == Isa::ThumbEe, ..State::default() };
    Packet::ISync(ISync { address: Address(address), isa, reason, state, context_id: None, cycles: None })
}

fn atoms(letters: &str) -> Packet {
    let bits = letters.bytes().rev().fold(0, |bits, letter| bits << 1 | u8::from(letter == b'E'));
    Packet::Atoms(Atoms { bits, count: letters.len() as u8, cycles: None })
}

fn branch(address: u64, exception: u16) -> Packet {
    let information = Information { state: State::default(), exception, is_long: false };
    Packet::Branch(Branch {
        address: Address(address),
        is_complete: true,
        isa: Isa::A32,
        bytes: 5,
        information: (exception > 0).then_some(information),
        cycles: None,
    })
}

fn update(address: u64) -> Packet {
    let (isa, bytes, alt_isa) = (Isa::A32, 5, None);
    Packet::WaypointUpdate(WaypointUpdate {
        address: Address(address),
        is_complete: true,
        isa,
        bytes,
        alt_isa,
    })
}

fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
    config
}

/// Follows packets after an I-sync at 0x1000; without the three lines that it gives, and the last one.
fn follow(config: &Config, code: &Memory, isa: Isa, packets: &[Packet], strict_image: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let options = Options { strict_image, ..Options::default() };
    let mut follower = Follower::with_options(config, code, options);
    let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
    let first = [i_sync(0x1000, isa, Reason::TraceEnabled)];
    for (offset, &value) in first.iter().chain(packets).enumerate() {
        follower.push(Located { offset: offset as u64, length: 1, value }, &mut sink);
    }
    follower.finish(&mut sink);
    assert_eq!(lines.remove(0), "start of trace");
    assert_eq!(lines.remove(0), "trace on: begin or filter");
    assert!(lines.remove(0).starts_with("context: "));
    assert_eq!(lines.pop().as_deref(), Some("end of trace"));
    lines
}

#[test]
fn an_exception_after_a_waypoint_update_returns_after_it() {
    let code = a32(&[NOP, SVC, NOP]);
    assert_eq!(
        follow(&config(&[]), &code, Isa::A32, &[update(0x1004), branch(0x1000, 10)], false),
        ["0x1000-0x1008 2 instructions A32", "exception 0xa (SVC), returns to 0x1008",]
    );
}

#[test]
fn a_return_by_atom_goes_where_the_newest_call_came_from() {
    let code = a32(&[BL_8, NOP, BX_LR]);
    let with_stack = config(&[("return_stack", "1")]);
    assert_eq!(
        follow(&with_stack, &code, Isa::A32, &[atoms("EE"), atoms("E")], false),
        [
            "0x1000-0x1004 1 instructions A32 call",
            "0x1008-0x100c 1 instructions A32 return",
            // From the call on to the next return, which has nowhere to go.
            "0x1004-0x100c 2 instructions A32 return",
            "image does not fit at 0x1008: a return found the return stack empty",
        ]
    );
}

#[test]
fn a_periodic_i_sync_forgets_calls_and_changes_nothing_else() {
    let code = a32(&[BL_8, NOP, BX_LR]);
    let packets = [atoms("E"), i_sync(0x1008, Isa::A32, Reason::Periodic), atoms("E")];
    assert_eq!(
        follow(&config(&[("return_stack", "1")]), &code, Isa::A32, &packets, false),
        [
            "0x1000-0x1004 1 instructions A32 call",
            "0x1008-0x100c 1 instructions A32 return",
            "image does not fit at 0x1008: a return found the return stack empty",
        ]
    );
}

#[test]
fn a_periodic_i_sync_elsewhere_is_a_sign_of_a_wrong_image() {
    let code = a32(&[BL_8, NOP, BX_LR]);
    let packets = [atoms("E"), i_sync(0x1004, Isa::A32, Reason::Periodic)];
    assert_eq!(
        follow(&config(&[]), &code, Isa::A32, &packets, false)[1],
        "image does not fit at 0x1008: the trace names another address than the code leads to"
    );
}

#[test]
fn a_branch_packet_stands_for_the_next_waypoint_and_its_target() {
    let code = a32(&[NOP, BX_LR, NOP, BL_8]);
    assert_eq!(
        follow(&config(&[]), &code, Isa::A32, &[branch(0x1008, 0), branch(0x1004, 0)], false),
        [
            "0x1000-0x1008 2 instructions A32 return",
            "0x1008-0x1010 2 instructions A32 call",
            "image does not fit at 0x1014: the trace names another address than the code leads to",
        ]
    );
}

#[test]
fn barriers_are_waypoints_where_the_unit_says_so() {
    let code = a32(&[DMB, NOP, BX_LR]);
    let follow = |config| follow(&config, &code, Isa::A32, &[atoms("E"), branch(0x1000, 0)], false);
    assert_eq!(
        follow(config(&[("barriers", "1")])),
        ["0x1000-0x1004 1 instructions A32 barrier", "0x1004-0x100c 2 instructions A32 return"]
    );
    assert_eq!(follow(config(&[])).len(), 2, "a range, and a target that is missing");
}

#[test]
fn thumbee_is_walked_with_its_own_branches_and_named() {
    // NOP, HB #1: in Thumb this would be STM.
    let code = thumb(&[0xBF00, 0xC201]);
    assert_eq!(
        follow(&config(&[]), &code, Isa::ThumbEe, &[branch(0x1000, 0)], false),
        ["0x1000-0x1004 2 instructions ThumbEE indirect branch"]
    );
}

#[test]
fn bytecodes_are_not_followed_until_the_next_address() {
    let code = a32(&[NOP, BX_LR]);
    let packets = [atoms("EE"), branch(0x1000, 0), branch(0x1004, 0)];
    assert_eq!(
        follow(&config(&[]), &code, Isa::Jazelle, &packets, false),
        ["0x1000-0x1008 2 instructions A32 return"]
    );
}

#[test]
fn nothing_is_known_after_a_bad_packet_until_an_i_sync() {
    let code = a32(&[NOP, BX_LR]);
    let packets = [
        Packet::Bad(Bad::Reserved),
        atoms("E"),
        Packet::Async,
        branch(0x1000, 0),
        i_sync(0x1004, Isa::A32, Reason::Periodic),
        branch(0x1000, 0),
    ];
    assert_eq!(
        follow(&config(&[]), &code, Isa::A32, &packets, false),
        [
            "gap: bad packet",
            "trace on: begin or filter",
            "context: A32 Secure",
            "0x1004-0x1008 1 instructions A32 return",
        ]
    );
}

#[test]
fn code_that_is_missing_is_a_gap_until_the_next_address() {
    let code = a32(&[NOP, BX_LR]);
    let packets = [branch(0x8000, 0), atoms("EE"), branch(0x1000, 0), branch(0x1000, 0)];
    assert_eq!(
        follow(&config(&[]), &code, Isa::A32, &packets, false),
        [
            "0x1000-0x1008 2 instructions A32 return",
            "gap: no code at 0x8000 (Any S)",
            "0x1000-0x1008 2 instructions A32 return",
        ]
    );
}

#[test]
fn strict_following_stops_at_an_unconditional_branch_that_was_not_taken() {
    let code = a32(&[BL_8, NOP, BX_LR]);
    assert_eq!(
        follow(&config(&[]), &code, Isa::A32, &[atoms("NE"), branch(0x1008, 0)], true),
        ["image does not fit at 0x1000: an unconditional branch was not taken", "gap: wrong image",]
    );
}
