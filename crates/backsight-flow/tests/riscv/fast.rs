//! The fast way through packets and code reports what the clear one reports.

use backsight_core::Located;
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Buffer, Event, Statistics};
use backsight_riscv::etrace::{BadPacket, BranchMap, Packet, PayloadDecoder};
use backsight_testing::Random;

use crate::damage::damage;
use crate::random::Code;
use crate::roundtrip::{case, following, payloads};

/// Everything that a follower reports.
struct Followed {
    events: Vec<Located<Event>>,
    faults: [u64; Fault::ALL.len()],
    statistics: Statistics,
}

fn followed(settings: Settings, code: &Code, payloads: &[Vec<u8>]) -> Followed {
    let packets = decoded(&settings, payloads);
    followed_packets(settings, code, &packets)
}

fn decoded(settings: &Settings, payloads: &[Vec<u8>]) -> Vec<Result<Packet, BadPacket>> {
    let mut decoder = PayloadDecoder::new(settings.params, settings.options);
    payloads.iter().map(|payload| decoder.decode(payload)).collect()
}

fn followed_packets(settings: Settings, code: &Code, packets: &[Result<Packet, BadPacket>]) -> Followed {
    let mut follower = Follower::new(settings, &code.program);
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    for (offset, &value) in (0..).zip(packets) {
        follower.push(Located { offset, length: 1, value }, &mut sink);
    }
    follower.finish(&mut sink);
    Followed {
        events,
        faults: Fault::ALL.map(|fault| follower.faults().of(fault)),
        statistics: *follower.statistics(),
    }
}

fn same(followed: &Followed, expected: &Followed, what: &str) {
    let pairs = followed.events.iter().zip(&expected.events);
    if let Some((followed, expected)) = pairs.clone().find(|(followed, expected)| followed != expected) {
        panic!("{what}: {followed:x?} instead of {expected:x?}");
    }
    assert_eq!(followed.events.len(), expected.events.len(), "{what}");
    assert_eq!((followed.faults, followed.statistics), (expected.faults, expected.statistics), "{what}");
}

#[test]
fn the_fast_way_reports_what_the_clear_one_reports() {
    let (mut ranges, mut faults) = (0, 0);
    for seed in 0..1500 {
        let mut random = Random(seed);
        let case = case(&mut random);
        let code = Code::new(&mut random, 60);
        let mut payloads = payloads(&case, &code, &mut random);
        if random.below(2) == 0 {
            damage(&mut payloads, &mut random);
        }
        let fast = Settings { longest_path: 300, ..following(&case, &code) };
        let clear = Settings { fast_walk: false, ..fast.clone() };
        let expected = followed(clear, &code, &payloads);
        same(&followed(fast, &code, &payloads), &expected, &format!("seed {seed}"));
        ranges += expected.statistics.ranges;
        faults += expected.faults.iter().sum::<u64>();
    }
    assert!(ranges > 100_000 && faults > 500, "{ranges} ranges, {faults} faults");
}

/// Paths come again and again, from one place and with the same outcomes and addresses; what else a packet says is changed
/// now and then, and so is how far into a block the packets before have come.
#[test]
fn what_a_packet_says_beside_its_address_decides_its_path() {
    let (mut ranges, mut faults) = (0, 0);
    for seed in 0..600 {
        let mut random = Random(seed);
        let case = case(&mut random);
        let instructions = 6 + random.below(20) as usize;
        let code = Code::new(&mut random, instructions);
        let fast = Settings { longest_path: 300, ..following(&case, &code) };
        let some = decoded(&fast, &payloads(&case, &code, &mut random));
        let mut packets = Vec::new();
        for _ in 0..5 {
            for &packet in &some {
                packets.push(changed(packet, &mut random));
            }
        }
        let clear = Settings { fast_walk: false, ..fast.clone() };
        let expected = followed_packets(clear, &code, &packets);
        same(&followed_packets(fast, &code, &packets), &expected, &format!("seed {seed}"));
        ranges += expected.statistics.ranges;
        faults += expected.faults.iter().sum::<u64>();
    }
    assert!(ranges > 100_000 && faults > 500, "{ranges} ranges, {faults} faults");
}

fn changed(mut packet: Result<Packet, BadPacket>, random: &mut Random) -> Result<Packet, BadPacket> {
    match (&mut packet, random.below(16)) {
        (Ok(Packet::Branches { address: Some(reported), .. }), 0) => reported.notify = !reported.notify,
        (Ok(Packet::Branches { address: Some(reported), .. }), 1) => reported.updiscon = !reported.updiscon,
        (Ok(Packet::Branches { map, address: Some(_) }), 2) => *map = BranchMap::default(),
        (Ok(Packet::Trap(trap)), 0..8) => trap.address = None,
        _ => {}
    }
    packet
}

/// The same through a sink that has enough with `limit` events.
fn followed_in_pieces(settings: Settings, code: &Code, payloads: &[Vec<u8>], limit: usize) -> Followed {
    let mut decoder = PayloadDecoder::new(settings.params, settings.options);
    let mut follower = Follower::new(settings, &code.program);
    let (mut events, mut buffer) = (Vec::new(), Buffer::new(limit));
    for (offset, payload) in (0..).zip(payloads) {
        follower.push(Located { offset, length: 1, value: decoder.decode(payload) }, &mut buffer);
        while follower.is_paused() {
            // A walk gives the rest of the path that filled the buffer and what it must beside it, no more.
            assert!(buffer.events().len() < limit + 64 + 8, "{} events", buffer.events().len());
            events.extend(buffer.drain());
            follower.resume(&mut buffer);
        }
        events.extend(buffer.drain());
    }
    follower.finish(&mut buffer);
    events.extend(buffer.drain());
    Followed {
        events,
        faults: Fault::ALL.map(|fault| follower.faults().of(fault)),
        statistics: *follower.statistics(),
    }
}

#[test]
fn a_sink_that_has_enough_gets_the_same_events_in_pieces() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let case = case(&mut random);
        let code = Code::new(&mut random, 60);
        let mut payloads = payloads(&case, &code, &mut random);
        if random.below(2) == 0 {
            damage(&mut payloads, &mut random);
        }
        let fast = Settings { longest_path: 300, ..following(&case, &code) };
        let expected = followed(fast.clone(), &code, &payloads);
        let clear = Settings { fast_walk: false, ..fast.clone() };
        for (settings, limit) in [(fast.clone(), 1), (fast, 3), (clear, 2)] {
            let pieces = followed_in_pieces(settings, &code, &payloads, limit);
            same(&pieces, &expected, &format!("seed {seed}, {limit} at a time"));
        }
    }
}
