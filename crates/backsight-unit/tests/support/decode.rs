//! Trace back to execution, and the comparison with the truth.

use super::{Flavour, Program};
use backsight_arm::etm4::{Bad, Config, Decoder, Packet};
use backsight_core::{Address, AddressSpace, Execution, Located};
use backsight_flow::etm4::Follower;
use backsight_flow::{Event, NoSync, Symptom};
use backsight_image::Code;
use backsight_isa::classify;
use backsight_unit::etm4::{Statistics, Unit, UnitConfig};

/// A trace, decoded.
pub struct Decoded {
    pub bytes: Vec<u8>,
    pub packets: Vec<Packet>,
    pub events: Vec<Event>,
    pub statistics: Statistics,
}

/// Encodes and decodes.
pub fn trace(options: &UnitConfig, program: &Program, items: &[Execution]) -> Decoded {
    let mut unit = Unit::new(options.clone()).expect("a unit that can be");
    let mut bytes = Vec::new();
    unit.push_all(items, &mut bytes);
    unit.finish(&mut bytes);
    let (packets, events) = decode(&options.config, program, &bytes);
    Decoded { bytes, packets, events, statistics: unit.statistics() }
}

/// Decodes bytes.
pub fn decode(config: &Config, program: &Program, bytes: &[u8]) -> (Vec<Packet>, Vec<Event>) {
    let mut packets: Vec<Located<Packet>> = Vec::new();
    let mut decoder = Decoder::new(config);
    decoder.feed(bytes, &mut |packet| packets.push(packet));
    decoder.finish(&mut |packet| packets.push(packet));
    let mut events = Vec::new();
    let mut follower = Follower::new(config, program);
    for &packet in &packets {
        let good = !matches!(packet.value, Packet::Bad(Bad::Reserved | Bad::ReservedByConfiguration));
        assert!(good && !matches!(packet.value, Packet::Bad(_) | Packet::Unsynchronised), "{packet:x?}");
        follower.push(packet, &mut |event: Located<Event>| events.push(event));
    }
    follower.finish(&mut |event: Located<Event>| events.push(event));
    assert!(events == by_runs(config, program, bytes), "runs of atoms are followed as packet by packet");
    let events = events.into_iter().map(|event| event.value).collect();
    (packets.into_iter().map(|packet| packet.value).collect(), events)
}

/// Follows runs of Atom packets at once, as far as there are any.
fn by_runs(config: &Config, program: &Program, bytes: &[u8]) -> Vec<Located<Event>> {
    let mut events = Vec::new();
    let (mut decoder, mut follower) = (Decoder::new(config), Follower::new(config, program));
    let mut sink = |event: Located<Event>| events.push(event);
    decoder.feed_to(bytes, &mut follower.input(&mut sink));
    decoder.finish(&mut |packet| follower.push(packet, &mut sink));
    follower.finish(&mut sink);
    events
}

/// The addresses that were executed.
pub fn truth(items: &[Execution]) -> Vec<Address> {
    items
        .iter()
        .filter_map(|item| match item {
            Execution::Instruction(retired) => Some(retired.address),
            _ => None,
        })
        .collect()
}

/// A stretch of instructions without a break, as decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    pub addresses: Vec<Address>,
}

/// The addresses that the trace tells, a stretch from each break to the next. Nothing in it may look wrong.
pub fn stretches(program: &Program, events: &[Event]) -> Vec<Stretch> {
    let mut stretches = vec![Stretch::default()];
    for event in events {
        match event {
            Event::Range(range) => {
                let addresses = &mut stretches.last_mut().expect("one at least").addresses;
                let before = addresses.len();
                let mut at = range.start;
                while at != range.end {
                    addresses.push(at);
                    let bytes = program.bytes_at(AddressSpace::ANY, at).expect("code");
                    at = at.plus(classify(range.isa, bytes, at).expect("whole").size.into());
                }
                assert_eq!(addresses.len() - before, range.instructions as usize, "{range:x?}");
            }
            Event::TraceOn(_) | Event::NoSync(NoSync::Overflow) => stretches.push(Stretch::default()),
            Event::StartOfTrace => {}
            // An IT block that an exception interrupted is not seen as one when execution comes back.
            Event::Mismatch {
                symptom: Symptom::UnconditionalNotTaken | Symptom::IndirectNotTaken, ..
            } if program.flavour == Flavour::AArch32 => {}
            Event::NoSync(_)
            | Event::NoMemory { .. }
            | Event::Mismatch { .. }
            | Event::PathUnknown { .. } => {
                panic!("{event:x?}")
            }
            _ => {}
        }
    }
    stretches.retain(|stretch| !stretch.addresses.is_empty());
    stretches
}

/// All addresses that the trace tells.
pub fn addresses(program: &Program, events: &[Event]) -> Vec<Address> {
    stretches(program, events).into_iter().flat_map(|stretch| stretch.addresses).collect()
}

/// Both are the same, or this says where they part.
pub fn assert_same(actual: &[Address], expected: &[Address], what: impl Fn() -> String) {
    if actual == expected {
        return;
    }
    let same = actual.iter().zip(expected).take_while(|(a, e)| a == e).count();
    let show = |list: &[Address]| {
        list[same.saturating_sub(3).min(list.len())..].iter().take(8).copied().collect::<Vec<_>>()
    };
    panic!(
        "{}: {} of {} instructions, different from {same} on\n  decoded:  {:x?}\n  executed: {:x?}",
        what(),
        actual.len(),
        expected.len(),
        show(actual),
        show(expected)
    );
}

/// Every stretch is a piece of the truth, in order; gives the number of instructions in all.
pub fn in_order(stretches: &[Stretch], truth: &[Address]) -> usize {
    let mut from = 0;
    for stretch in stretches {
        let length = stretch.addresses.len();
        let found = (from..=truth.len() - length).find(|&at| truth[at..at + length] == stretch.addresses);
        from =
            found.unwrap_or_else(|| panic!("{:x?}… is nowhere after {from}", stretch.addresses[0])) + length;
    }
    stretches.iter().map(|stretch| stretch.addresses.len()).sum()
}

/// The truth, where Q elements report how many instructions were executed and where they end, but not which; gives the
/// number of such paths.
pub fn follow_unknown_paths(
    program: &Program,
    events: &[Event],
    truth: &[Address],
    what: impl Fn() -> String,
) -> usize {
    let (mut at, mut unknown) = (0, 0);
    for (number, event) in events.iter().enumerate() {
        match event {
            Event::Range(_) => {
                let reported = addresses(program, &[*event]);
                let end = truth.len().min(at + reported.len());
                assert_same(&reported, &truth[at..end], || format!("{} at {at}", what()));
                at += reported.len();
            }
            Event::PathUnknown { start, next, instructions } => {
                assert_eq!(start.as_ref(), truth.get(at), "{} at {at}", what());
                at += *instructions as usize;
                let follows = events[number + 1..].iter().find(|event| {
                    matches!(event, Event::Range(_) | Event::PathUnknown { .. } | Event::Exception { .. })
                });
                let excepted = matches!(follows, Some(Event::Exception { return_address, .. }) if *return_address == Some(*next));
                let goes_on = truth.get(at).is_none_or(|address| address == next);
                assert!(excepted || goes_on, "{} at {at}", what());
                unknown += 1;
            }
            Event::StartOfTrace => {}
            Event::NoSync(_) | Event::NoMemory { .. } => panic!("{event:x?}"),
            _ => {}
        }
    }
    assert_eq!(at, truth.len(), "{}", what());
    unknown
}
