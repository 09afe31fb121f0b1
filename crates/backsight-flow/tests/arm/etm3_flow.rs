//! Small scenes of ETMv3 trace: a little code, a few packets, and what was executed and accessed as text.

use backsight_arm::etm3::{
    Branch, Config, CycleMarks, DataAddress, DataValue, ISync, Information, NextInstruction, PHeader, Packet,
    Reason, State,
};
use backsight_core::{Address, AddressSpace, Isa, Located};
use backsight_flow::Event;
use backsight_flow::etm3::{Follower, Options};
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

const NOP: u32 = 0xE320_F000;
const BX_LR: u32 = 0xE12F_FF1E;
const LDR: u32 = 0xE591_0004;
const STRB: u32 = 0xE5C1_0004;
const LDRD: u32 = 0xE1C1_00D8;
const STREX: u32 = 0xE181_2F90;
const PUSH: u32 = 0xE92D_4070;
const SWP: u32 = 0xE102_0091;

fn i_sync(address: u64, reason: Reason) -> Packet {
    Packet::ISync(ISync {
        address: Some(Address(address)),
        isa: Isa::A32,
        reason,
        state: State::default(),
        context_id: None,
        cycles: None,
        next: None,
    })
}

fn atoms(letters: &str) -> Packet {
    let atoms = letters.bytes().rev().fold(0, |bits, letter| bits << 1 | u16::from(letter == b'E'));
    Packet::PHeader(PHeader { atoms, count: letters.len() as u8, cycles: CycleMarks::NotTraced })
}

fn branch(address: u64, exception: u16, cancels: bool) -> Packet {
    let information =
        Information { state: State::default(), exception, cancels, is_long: false, resume: None };
    Packet::Branch(Branch {
        address: Address(address),
        is_complete: true,
        isa: Isa::A32,
        bytes: 5,
        information: (exception > 0).then_some(information),
        early: None,
    })
}

fn at(address: u32) -> Option<DataAddress> {
    Some(DataAddress { address, is_complete: true, bytes: 5, is_big_endian: false })
}

fn data(address: Option<DataAddress>, value: u32) -> Packet {
    Packet::NormalData { begins: address.is_some(), address, value: Some(DataValue::new(value)) }
}

fn placeholder(tag: u8, address: Option<DataAddress>) -> Packet {
    Packet::OutOfOrderPlaceholder { tag, begins: address.is_some(), address }
}

fn value(tag: u8, value: u32) -> Packet {
    Packet::OutOfOrderData { tag, value: DataValue::new(value) }
}

/// Follows packets after an I-sync at 0x1000; without the three lines that it gives, and the last one.
fn follow_as(settings: &[(&str, &str)], code: &[u32], packets: &[Packet]) -> Vec<String> {
    follow_with(Options::default(), settings, code, packets)
}

fn follow_with(options: Options, settings: &[(&str, &str)], code: &[u32], packets: &[Packet]) -> Vec<String> {
    let mut config = Config::default();
    config.set("data", "both").unwrap();
    settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
    let code = a32(code);
    let mut lines = Vec::new();
    let mut follower = Follower::with_options(&config, &code, options);
    let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
    let first = [i_sync(0x1000, Reason::TraceEnabled)];
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

fn follow(code: &[u32], packets: &[Packet]) -> Vec<String> {
    follow_as(&[], code, packets)
}

#[test]
fn every_atom_is_one_instruction() {
    assert_eq!(
        follow(&[NOP, NOP, BX_LR], &[atoms("EEE"), branch(0x1004, 0, false), atoms("E")]),
        [
            "0x1000-0x1004 1 instructions A32",
            "0x1004-0x1008 1 instructions A32",
            "0x1008-0x100c 1 instructions A32 return",
            "0x1004-0x1008 1 instructions A32",
        ]
    );
}

#[test]
fn an_exception_can_cancel_the_newest_instruction_and_its_transfers() {
    let packets = [atoms("EE"), data(at(0x2000), 7), branch(0x1000, 12, true), atoms("E")];
    assert_eq!(
        follow(&[NOP, LDR], &packets),
        [
            "0x1000-0x1004 1 instructions A32",
            "exception 0xc (Synchronous data abort), returns to 0x1004",
            "0x1000-0x1004 1 instructions A32",
        ]
    );
}

#[test]
fn a_cancelled_instruction_stays_for_the_listing_of_opencsd_if_its_packet_had_others() {
    let options = Options { keeps_cancelled: true, ..Options::default() };
    let halted = |atoms_of: &[&str]| {
        let mut packets: Vec<Packet> = atoms_of.iter().map(|letters| atoms(letters)).collect();
        packets.push(branch(0x1004, 1, true));
        follow_with(options, &[], &[NOP, NOP], &packets).len()
    };
    assert_eq!((halted(&["EE"]), halted(&["E", "E"])), (3, 2));
}

#[test]
fn after_a_debug_halt_nothing_is_followed_until_an_i_sync() {
    let packets = [
        atoms("EE"),
        branch(0x1004, 1, true),
        atoms("E"),
        i_sync(0x1004, Reason::LeftDebugState),
        atoms("E"),
    ];
    assert_eq!(
        follow(&[NOP, NOP, NOP], &packets),
        [
            "0x1000-0x1004 1 instructions A32",
            "exception 0x1 (Debug halt), returns to 0x1004",
            "trace on: after debug state",
            "context: A32 Secure",
            "0x1004-0x1008 1 instructions A32",
        ]
    );
}

#[test]
fn transfers_of_several_words_follow_one_another() {
    let packets = [
        atoms("E"),
        data(at(0x2000), 1),
        data(None, 2),
        Packet::ValueNotTraced { begins: false, address: None },
        data(None, 0x1234_5678),
        atoms("E"),
    ];
    assert_eq!(
        follow(&[PUSH, NOP], &packets),
        [
            "0x1000-0x1004 1 instructions A32",
            "store of 4 bytes at 0x2000, value 0x1, by 0x1000",
            "store of 4 bytes at 0x2004, value 0x2, by 0x1000",
            "store of 4 bytes at 0x2008, by 0x1000",
            "store of 4 bytes at 0x200c, value 0x12345678, by 0x1000",
            "0x1004-0x1008 1 instructions A32",
        ]
    );
}

#[test]
fn both_transfers_of_a_swap_are_at_one_address() {
    assert_eq!(
        follow(&[SWP], &[atoms("E"), data(at(0x2000), 1), data(None, 2)])[1..],
        [
            "load of 4 bytes at 0x2000, value 0x1, by 0x1000",
            "store of 4 bytes at 0x2000, value 0x2, by 0x1000",
        ]
    );
}

#[test]
fn a_transfer_belongs_to_the_newest_load_or_store_whatever_came_since() {
    let packets = [atoms("EEE"), data(at(0x2000), 0xFF), atoms("E")];
    assert_eq!(
        follow(&[STRB, NOP, NOP, NOP], &packets)[3..],
        ["store of 1 bytes at 0x2000, value 0xff, by 0x1000", "0x100c-0x1010 1 instructions A32"]
    );
}

#[test]
fn values_that_come_late_find_their_transfers() {
    let packets = [
        atoms("E"),
        placeholder(2, at(0x2000)),
        placeholder(2, None),
        atoms("E"),
        data(at(0x3000), 5),
        // Low word first; then a value whose placeholder came before tracing began.
        value(2, 0x11),
        value(2, 0x22),
        value(1, 0x33),
    ];
    assert_eq!(
        follow(&[LDRD, LDR], &packets)[2..],
        [
            "load of 4 bytes at 0x3000, value 0x5, by 0x1004",
            "load of 4 bytes at 0x2000, value 0x11, by 0x1000",
            "load of 4 bytes at 0x2004, value 0x22, by 0x1000",
        ]
    );
}

#[test]
fn a_value_that_never_comes_leaves_its_transfer_without_one() {
    let packets =
        [atoms("E"), placeholder(1, at(0x2000)), i_sync(0x1000, Reason::AfterOverflow), value(1, 5)];
    assert_eq!(
        follow(&[LDR], &packets),
        [
            "0x1000-0x1004 1 instructions A32",
            "load of 4 bytes at 0x2000, by 0x1000",
            "trace on: after an overflow",
            "context: A32 Secure",
        ]
    );
}

#[test]
fn a_placeholder_of_another_instruction_shows_that_a_value_will_not_come() {
    let packets =
        [atoms("E"), placeholder(1, at(0x2000)), atoms("E"), placeholder(1, at(0x3000)), value(1, 5)];
    assert_eq!(
        follow(&[LDR, LDR], &packets)[2..],
        ["load of 4 bytes at 0x2000, by 0x1000", "load of 4 bytes at 0x3000, value 0x5, by 0x1004"]
    );
}

#[test]
fn a_value_that_has_not_come_at_the_second_i_sync_will_not_come() {
    let periodic = i_sync(0x1004, Reason::Periodic);
    let late = [atoms("E"), placeholder(1, at(0x2000)), periodic, value(1, 5)];
    assert_eq!(
        follow(&[LDR, NOP], &late)[1..],
        ["context: A32 Secure", "load of 4 bytes at 0x2000, value 0x5, by 0x1000"]
    );
    let too_late = [atoms("E"), placeholder(1, at(0x2000)), periodic, periodic, value(1, 5)];
    assert_eq!(
        follow(&[LDR, NOP], &too_late)[1..],
        ["context: A32 Secure", "load of 4 bytes at 0x2000, by 0x1000", "context: A32 Secure"]
    );
}

#[test]
fn the_value_of_an_older_transfer_stays_when_an_instruction_is_cancelled() {
    let packets = [atoms("E"), placeholder(1, at(0x2000)), atoms("E"), value(1, 5), branch(0x1000, 5, true)];
    let lines = follow(&[LDR, NOP], &packets);
    assert_eq!(lines[1], "load of 4 bytes at 0x2000, value 0x5, by 0x1000");
    assert!(lines[2].contains("0x1004"), "{lines:?}");
}

#[test]
fn a_load_does_not_fail_to_store() {
    let packets = [atoms("E"), data(at(0x2000), 0), Packet::StoreFailed];
    assert_eq!(follow(&[LDR], &packets)[1], "load of 4 bytes at 0x2000, value 0x0, by 0x1000");
}

#[test]
fn an_exclusive_store_can_fail() {
    let packets = [atoms("E"), data(at(0x2000), 0), Packet::StoreFailed];
    assert_eq!(
        follow(&[STREX], &packets)[1],
        "failed conditional store of 4 bytes at 0x2000, value 0x0, by 0x1000"
    );
}

#[test]
fn an_address_that_is_not_complete_is_not_reported_and_lost_data_is() {
    let address = DataAddress { address: 4, is_complete: false, bytes: 1, is_big_endian: false };
    let packets = [atoms("E"), data(Some(address), 9), Packet::DataSuppressed];
    assert_eq!(
        follow(&[LDR], &packets)[1..],
        ["load of 4 bytes, value 0x9, by 0x1000", "gap: accesses are missing to the next one"]
    );
}

#[test]
fn a_load_in_progress_at_the_start_was_executed() {
    let mut sync = i_sync(0x1000, Reason::AfterOverflow);
    if let Packet::ISync(sync) = &mut sync {
        sync.next = Some(NextInstruction { address: Address(0x1008), isa: Isa::A32, bytes: 1 });
    }
    assert_eq!(
        follow(&[LDR, NOP, NOP], &[sync, data(at(0x2000), 3), atoms("E")])[2..],
        [
            "0x1000-0x1004 1 instructions A32",
            "load of 4 bytes at 0x2000, value 0x3, by 0x1000",
            "0x1008-0x100c 1 instructions A32",
        ]
    );
}

#[test]
fn atoms_at_an_unknown_address_are_reported_once() {
    let packets = [atoms("EE"), atoms("EEE"), branch(0x1000, 0, false), atoms("E")];
    assert_eq!(
        follow(&[BX_LR], &packets),
        [
            "0x1000-0x1004 1 instructions A32 return",
            "gap: instructions at an address that is not known",
            "0x1000-0x1004 1 instructions A32 return",
        ]
    );
}

#[test]
fn microcontrollers_stack_registers_and_number_interrupts_in_their_own_way() {
    let packets =
        [atoms("E"), Packet::ExceptionEntry, data(at(0x2000), 1), data(None, 2), branch(0x1000, 1, false)];
    assert_eq!(
        follow_as(&[("profile", "M"), ("version", "3.4")], &[LDR], &packets)[1..],
        [
            "store of 4 bytes at 0x2000, value 0x1",
            "store of 4 bytes at 0x2004, value 0x2",
            "interrupt 0x11 (external interrupt), returns to 0x1004",
        ]
    );
}

#[test]
fn cycles_stand_before_the_instruction_that_they_led_to() {
    let before =
        |cycles, atoms, count| Packet::PHeader(PHeader { atoms, count, cycles: CycleMarks::Before(cycles) });
    assert_eq!(
        follow_as(&[("cyclecount", "1")], &[NOP, NOP], &[before(8, 0, 0), before(1, 3, 2)]),
        [
            "cycles +8",
            "cycles +1",
            "0x1000-0x1004 1 instructions A32",
            "cycles +0",
            "0x1004-0x1008 1 instructions A32",
        ]
    );
}
