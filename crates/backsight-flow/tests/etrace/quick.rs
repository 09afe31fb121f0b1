//! The quick way through packets and code tells what the careful one tells.

use backsight_core::Located;
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Event, Statistics};
use backsight_riscv::etrace::Decoder;
use backsight_testing::Random;

use crate::damage::damage;
use crate::program::Program;
use crate::random::Code;
use crate::roundtrip::{case, following, payloads};

/// Everything that a follower tells.
struct Told {
    events: Vec<Located<Event>>,
    faults: [u64; Fault::ALL.len()],
    statistics: Statistics,
}

/// Takes payloads to a follower.
type Way = fn(&mut Follower<'_, Program>, &mut Decoder, Located<&[u8]>, &mut Vec<Located<Event>>);

fn by_packets(
    follower: &mut Follower<'_, Program>,
    decoder: &mut Decoder,
    payload: Located<&[u8]>,
    events: &mut Vec<Located<Event>>,
) {
    let mut sink = |event| events.push(event);
    match decoder.decode(payload.value) {
        Ok(packet) => follower.push(payload.map(|_| packet), &mut sink),
        Err(_) => follower.push_bad(payload.map(|_| ()), &mut sink),
    }
}

fn by_payloads(
    follower: &mut Follower<'_, Program>,
    decoder: &mut Decoder,
    payload: Located<&[u8]>,
    events: &mut Vec<Located<Event>>,
) {
    let fed = follower.feed(payload, &mut |event| events.push(event));
    assert_eq!(fed, decoder.decode(payload.value).map(drop));
}

fn told(settings: Settings, code: &Code, payloads: &[Vec<u8>], way: Way) -> Told {
    let mut decoder = Decoder::new(settings.params, settings.options);
    let mut follower = Follower::new(settings, &code.program);
    let mut events = Vec::new();
    for (offset, payload) in (0..).zip(payloads) {
        way(&mut follower, &mut decoder, Located { offset, length: 1, value: payload }, &mut events);
    }
    end(follower, events)
}

fn told_at_once(settings: Settings, code: &Code, payloads: &[Vec<u8>]) -> Told {
    let mut follower = Follower::new(settings, &code.program);
    let mut events = Vec::new();
    let located = (0..).zip(payloads).map(|(offset, value)| Located { offset, length: 1, value: &value[..] });
    let bad = follower.feed_all(located, &mut |event| events.push(event));
    assert_eq!(bad, follower.faults().of(Fault::BadPacket));
    end(follower, events)
}

fn end(mut follower: Follower<'_, Program>, mut events: Vec<Located<Event>>) -> Told {
    follower.finish(&mut |event| events.push(event));
    Told {
        events,
        faults: Fault::ALL.map(|fault| follower.faults().of(fault)),
        statistics: *follower.statistics(),
    }
}

fn same(told: &Told, expected: &Told, what: &str) {
    let pairs = told.events.iter().zip(&expected.events);
    if let Some((told, expected)) = pairs.clone().find(|(told, expected)| told != expected) {
        panic!("{what}: {told:x?} instead of {expected:x?}");
    }
    assert_eq!(told.events.len(), expected.events.len(), "{what}");
    assert_eq!((told.faults, told.statistics), (expected.faults, expected.statistics), "{what}");
}

#[test]
fn the_quick_way_tells_what_the_careful_one_tells() {
    let (mut ranges, mut faults) = (0, 0);
    for seed in 0..1500 {
        let mut random = Random(seed);
        let case = case(&mut random);
        let code = Code::new(&mut random, 60);
        let mut payloads = payloads(&case, &code, &mut random);
        if random.below(2) == 0 {
            damage(&mut payloads, &mut random);
        }
        let quick = Settings { longest_path: 1 << 8, ..following(&case, &code) };
        let careful = Settings { careful: true, ..quick.clone() };
        let expected = told(careful, &code, &payloads, by_packets);
        let packets = told(quick.clone(), &code, &payloads, by_packets);
        same(&packets, &expected, &format!("seed {seed}, packets"));
        let fed = told(quick.clone(), &code, &payloads, by_payloads);
        same(&fed, &expected, &format!("seed {seed}, payloads"));
        same(&told_at_once(quick, &code, &payloads), &expected, &format!("seed {seed}, at once"));
        ranges += expected.statistics.ranges;
        faults += expected.faults.iter().sum::<u64>();
    }
    assert!(ranges > 100_000 && faults > 500, "{ranges} ranges, {faults} faults");
}
