//! The quick way through packets and code tells what the careful one tells.

use backsight_core::Located;
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Event, Statistics};
use backsight_riscv::etrace::PayloadDecoder;
use backsight_testing::Random;

use crate::damage::damage;
use crate::random::Code;
use crate::roundtrip::{case, following, payloads};

/// Everything that a follower tells.
struct Told {
    events: Vec<Located<Event>>,
    faults: [u64; Fault::ALL.len()],
    statistics: Statistics,
}

fn told(settings: Settings, code: &Code, payloads: &[Vec<u8>]) -> Told {
    let mut decoder = PayloadDecoder::new(settings.params, settings.options);
    let mut follower = Follower::new(settings, &code.program);
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    for (offset, payload) in (0..).zip(payloads) {
        follower.push(Located { offset, length: 1, value: decoder.decode(payload) }, &mut sink);
    }
    follower.finish(&mut sink);
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
        let expected = told(careful, &code, &payloads);
        same(&told(quick, &code, &payloads), &expected, &format!("seed {seed}"));
        ranges += expected.statistics.ranges;
        faults += expected.faults.iter().sum::<u64>();
    }
    assert!(ranges > 100_000 && faults > 500, "{ranges} ranges, {faults} faults");
}
