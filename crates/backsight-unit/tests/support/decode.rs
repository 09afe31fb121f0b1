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
        follower.push(packet, &mut |event: Located<Event>| events.push(event.value));
    }
    follower.finish(&mut |event: Located<Event>| events.push(event.value));
    (packets.into_iter().map(|packet| packet.value).collect(), events)
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
