//! Synchronisation and speculation: small scenes.

use crate::scene::*;
use backsight_arm::etm4::{Atoms, Bad, CycleCount, CycleCountFormat, Packet, Timestamp};
use backsight_core::Located;
use backsight_flow::Buffer;
use backsight_flow::etm4::{Follower, Options};

const END: &str = "end of trace";
const TAKEN: &str = "0x1000-0x1004 1 instructions A64 branch";
const NOT_TAKEN: &str = "0x1000-0x1004 1 instructions A64 not taken";
const NEXT: &str = "0x1004-0x1008 1 instructions A64 branch";

/// 0x1000 cbz 0x1000; 0x1004 b 0x1000
fn code() -> Memory {
    words(&[cbz(0), b(-1)])
}

fn time(value: u64) -> Packet {
    Packet::Timestamp(Timestamp { value, bytes: 1, cycles: None })
}

fn cycles(commit: u32, cycles: u32) -> Packet {
    Packet::CycleCount(CycleCount { format: CycleCountFormat::F1, commit, cycles: Some(cycles) })
}

fn lone(letter: &str) -> Atoms {
    match atoms(letter) {
        Packet::Atoms(atoms) => atoms,
        _ => Atoms::NONE,
    }
}

#[test]
fn atoms_wait_until_they_are_committed() {
    let config = with_speculation(4);
    assert_eq!(follow(&config, &code(), &[atoms("EE")]), [END]);
    let lines = follow(&config, &code(), &[atoms("EE"), Packet::Commit { count: 1 }]);
    assert_eq!(lines, [TAKEN, END]);
}

#[test]
fn more_than_the_greatest_depth_is_committed_without_a_packet() {
    assert_eq!(follow(&with_speculation(2), &code(), &[atoms("EEE")]), [TAKEN, END]);
}

#[test]
fn cancelled_atoms_never_happened() {
    let packets =
        [atoms("EN"), Packet::CancelF1 { count: 1, mispredict: false }, Packet::Commit { count: 1 }];
    assert_eq!(follow(&with_speculation(4), &code(), &packets), [TAKEN, END]);
}

#[test]
fn a_mispredicted_branch_went_the_other_way() {
    let packets = [atoms("E"), Packet::Mispredict(Atoms::NONE), atoms("E"), Packet::Commit { count: 2 }];
    assert_eq!(follow(&with_speculation(4), &code(), &packets), [NOT_TAKEN, NEXT, END]);
}

#[test]
fn the_atoms_of_a_resolving_packet_come_before_its_effect() {
    // N, then E is added and cancelled, and N turns into E.
    let packets = [atoms("N"), Packet::CancelF2(lone("E")), Packet::Commit { count: 1 }];
    assert_eq!(follow(&with_speculation(4), &code(), &packets), [TAKEN, END]);
    let packets = [atoms("NEE"), Packet::CancelF3 { atom: true, count: 3 }, Packet::Commit { count: 1 }];
    assert_eq!(follow(&with_speculation(6), &code(), &packets), [TAKEN, END]);
    let packets = [atoms("E"), Packet::Mispredict(lone("N")), Packet::Commit { count: 2 }];
    assert_eq!(follow(&with_speculation(4), &code(), &packets), [TAKEN, TAKEN, END]);
}

#[test]
fn an_address_of_the_wrong_path_goes_with_the_mispredicted_branch() {
    let code = words(&[cbz(0), BR, b(0)]);
    let packets = [
        atoms("NE"),
        address(0x2000),
        Packet::CancelF1 { count: 1, mispredict: true },
        atoms("E"),
        Packet::Commit { count: 2 },
    ];
    assert_eq!(follow(&with_speculation(4), &code, &packets), [TAKEN, TAKEN, END]);
}

#[test]
fn an_exception_can_be_cancelled() {
    let packets = [
        atoms("E"),
        exception(2),
        address(0x1000),
        Packet::CancelF1 { count: 1, mispredict: false },
        Packet::Commit { count: 1 },
    ];
    assert_eq!(follow(&with_speculation(4), &code(), &packets), [TAKEN, END]);
}

#[test]
fn times_and_events_keep_their_place_and_survive_a_cancel() {
    let packets = [
        atoms("E"),
        time(1),
        atoms("E"),
        Packet::Event(2),
        Packet::CancelF1 { count: 1, mispredict: false },
        atoms("E"),
        Packet::Commit { count: 2 },
    ];
    assert_eq!(
        follow(&with_speculation(4), &code(), &packets),
        [TAKEN, "timestamp 0x1", "events 0b0010", TAKEN, END]
    );
}

#[test]
fn a_cycle_count_commits_before_it_counts() {
    let config = with_speculation(4);
    let packets = [atoms("EE"), cycles(1, 7), Packet::Commit { count: 1 }];
    assert_eq!(follow(&config, &code(), &packets), [TAKEN, TAKEN, "cycles +7", END]);
}

#[test]
fn with_no_depth_the_excess_of_a_commit_is_ignored() {
    let lines = follow(&etm4(&[]), &code(), &[atoms("E"), cycles(3, 7), atoms("E")]);
    assert_eq!(lines, [TAKEN, "cycles +7", TAKEN, END]);
}

#[test]
fn commit_of_more_than_the_depth_is_reported() {
    let packets = [atoms("E"), Packet::Commit { count: 2 }, atoms("E")];
    let lines = follow(&with_speculation(4), &code(), &packets);
    assert!(lines[0].ends_with("more elements are resolved than there are"), "{}", lines[0]);
    assert_eq!(lines[1..], ["gap: bad packet", END]);
}

#[test]
fn elements_from_before_the_beginning_absorb_what_resolves_them() {
    let begin = [Packet::Async, speculating(2), context(), address(0x1000)];
    let packets = [atoms("E"), Packet::Commit { count: 2 }, Packet::Commit { count: 1 }];
    let lines = raw(&with_speculation(4), &code(), Options::default(), &[&begin[..], &packets].concat());
    assert_eq!(lines[1..], ["context: A64 EL1 Non-secure", TAKEN, END]);
}

#[test]
fn decoding_begins_at_async_and_trace_info() {
    let packets = [
        atoms("E"),
        trace_info(),
        context(),
        address(0x1000),
        atoms("E"),
        Packet::Async,
        atoms("E"),
        Packet::Overflow,
        Packet::Bad(Bad::Reserved),
        trace_info(),
        atoms("E"),
        context(),
        address(0x1000),
        atoms("E"),
    ];
    let lines = raw(&etm4(&[]), &code(), Options::default(), &packets);
    assert_eq!(
        lines,
        ["start of trace", "gap: not synchronised yet", "context: A64 EL1 Non-secure", TAKEN, END]
    );
}

#[test]
fn only_ete_has_events_before_the_first_trace_info() {
    let packets = [Packet::Async, Packet::Event(1), trace_info(), context(), address(0x1000), atoms("E")];
    let lines = raw(&ete(&[]), &code(), Options::default(), &packets);
    assert_eq!(lines[1], "events 0b0001");
    let lines = raw(&etm4(&[]), &code(), Options::default(), &packets);
    assert_eq!(lines[1..3], ["gap: not synchronised yet", "context: A64 EL1 Non-secure"]);
}

#[test]
fn what_is_certain_when_a_bad_packet_comes_is_given() {
    let lines = follow(&etm4(&[]), &code(), &[atoms("E"), time(1), context(), Packet::Bad(Bad::Reserved)]);
    let certain = [TAKEN, "timestamp 0x1", "context: A64 EL1 Non-secure", "gap: bad packet", END];
    assert_eq!(lines, certain);
    // With speculation that is what comes before the first element that waits for a commit, and what happened whatever
    // the path was.
    let packets = [
        atoms("E"),
        Packet::Commit { count: 1 },
        context(),
        atoms("E"),
        time(1),
        context(),
        Packet::Bad(Bad::Reserved),
        atoms("E"),
    ];
    let lines = follow(&with_speculation(4), &code(), &packets);
    assert_eq!(lines, [TAKEN, "context: A64 EL1 Non-secure", "timestamp 0x1", "gap: bad packet", END]);
}

#[test]
fn packets_before_the_first_synchronisation_are_a_gap_and_nothing_else_is() {
    let begin = [Packet::Async, trace_info(), context(), address(0x1000), atoms("E")];
    let lines = raw(&etm4(&[]), &code(), Options::default(), &begin);
    assert_eq!(lines[..2], ["start of trace", "context: A64 EL1 Non-secure"]);
    let lines = raw(&etm4(&[]), &code(), Options::default(), &[&[atoms("E")][..], &begin].concat());
    assert_eq!(lines[..2], ["start of trace", "gap: not synchronised yet"]);
    let lines = raw(&etm4(&[]), &code(), Options::default(), &[atoms("E")]);
    assert_eq!(lines, ["start of trace", "gap: not synchronised yet", END]);
}

#[test]
fn a_packet_that_the_end_cut_off_drops_nothing() {
    let lines = follow(&etm4(&[]), &code(), &[atoms("E"), time(1), Packet::Bad(Bad::Incomplete)]);
    assert_eq!(lines, [TAKEN, "timestamp 0x1", END]);
}

#[test]
fn a_discard_gives_the_records_and_drops_the_rest() {
    let instrumentation = Packet::Instrumentation { level: 1, value: 5 };
    let packets = [atoms("E"), time(1), instrumentation, address(0x1004), Packet::Discard, atoms("E")];
    let lines = follow(&with_speculation(4), &code(), &packets);
    assert_eq!(
        lines,
        ["timestamp 0x1", "instrumentation EL1 0x0000000000000005", "gap: speculation discarded", END]
    );
}

#[test]
fn trace_on_says_that_it_follows_an_overflow() {
    let packets = [atoms("E"), Packet::Overflow];
    let again = [Packet::Async, trace_info(), Packet::TraceOn, context(), address(0x1000), atoms("E")];
    let lines = follow(&etm4(&[]), &code(), &[&packets[..], &again].concat());
    assert_eq!(
        lines,
        [TAKEN, "gap: overflow", "trace on: after an overflow", "context: A64 EL1 Non-secure", TAKEN, END]
    );
    let lines = follow(&etm4(&[]), &code(), &packets);
    assert_eq!(lines, [TAKEN, "gap: overflow", "end of trace, after an overflow"]);
}

#[test]
fn the_end_gives_what_is_certain_and_stops_at_trace_on() {
    let lines = follow(&etm4(&[]), &code(), &[atoms("E"), time(1), context(), Packet::Event(1)]);
    assert_eq!(lines, [TAKEN, "timestamp 0x1", "events 0b0001", END]);
    let lines = follow(&etm4(&[]), &code(), &[atoms("E"), Packet::TraceOn, time(1)]);
    assert_eq!(lines, [TAKEN, END]);
}

#[test]
fn an_exception_without_its_address_is_a_bad_packet() {
    let lines = follow(&etm4(&[]), &code(), &[atoms("E"), exception(2), atoms("E")]);
    assert_eq!(lines[2..], ["gap: bad packet", END]);
}

#[test]
fn times_before_the_first_marker_are_not_usable_where_there_are_markers() {
    let config = ete(&[("TRCDEVARCH", 0x4773_5A13), ("TRCIDR0", 0x28C1_CEA1)]);
    let packets = [time(1), Packet::TimestampMarker, time(2), atoms("E")];
    assert_eq!(follow(&config, &code(), &packets), ["timestamp marker", "timestamp 0x2", TAKEN, END]);
}

#[test]
fn a_long_time_without_branches_does_not_fill_memory() {
    let mut packets = vec![atoms("E")];
    packets.extend((0..200_000).map(time));
    packets.push(atoms("E"));
    let lines = follow(&etm4(&[]), &code(), &packets);
    assert_eq!(lines.len(), 200_003);
}

#[test]
fn a_commit_of_too_much_is_believed_up_to_the_last_context_and_times_before_the_next_branch_stay() {
    let packets = [atoms("E"), time(1), context(), time(2), atoms("E"), Packet::Commit { count: 9 }];
    let lines = follow(&with_speculation(10), &code(), &packets);
    assert_eq!((lines[0].as_str(), lines[2].as_str()), (TAKEN, "context: A64 EL1 Non-secure"));
    assert_eq!(lines[3], "timestamp 0x2");
    assert!(lines[4].ends_with("more elements are resolved than there are"), "{lines:?}");
    assert_eq!(lines[5..], ["gap: bad packet", END]);
}

#[test]
fn a_bad_packet_behind_an_overflow_ends_its_mark() {
    let resync = [Packet::Async, trace_info()];
    let packets =
        [&[Packet::Overflow][..], &resync, &[Packet::Bad(Bad::Reserved)], &resync, &[Packet::TraceOn]];
    let lines = follow(
        &etm4(&[]),
        &code(),
        &[packets.concat(), vec![context(), address(0x1000), atoms("E")]].concat(),
    );
    assert!(lines.contains(&"trace on: begin or filter".to_string()), "{lines:?}");
}

#[test]
fn a_sink_that_has_enough_gets_the_same_events_in_pieces() {
    let begin = [Packet::Async, trace_info(), context(), address(0x1000)];
    let elements = [atoms("EENE"), time(1), atoms("E"), Packet::Event(1), Packet::Commit { count: 3 }];
    let end = [atoms("EEEE"), Packet::Overflow, Packet::Async, trace_info(), context(), address(0x1000)];
    let packets = [&begin[..], &elements, &elements, &end, &elements].concat();
    for config in [with_speculation(60), etm4(&[])] {
        let expected = raw(&config, &code(), Options::default(), &packets);
        let memory = code();
        let (mut follower, mut buffer) = (Follower::new(&config, &memory), Buffer::new(1));
        let (mut lines, mut pauses) = (Vec::new(), 0);
        for (offset, &value) in (0..).zip(&packets) {
            follower.push(Located { offset, length: 1, value }, &mut buffer);
            while follower.is_paused() {
                assert!(buffer.events().len() < 8);
                lines.extend(buffer.drain().map(|event| event.value.to_string()));
                follower.resume(&mut buffer);
                pauses += 1;
            }
        }
        follower.finish(&mut buffer);
        lines.extend(buffer.drain().map(|event| event.value.to_string()));
        assert_eq!(lines, expected);
        assert!(pauses > 5, "{pauses} pauses");
    }
}
