//! ITM and STM: random packets of every kind, with a synchronisation now and then that gives all state again.

use backsight_arm::stm::Content;
use backsight_arm::{itm, stm};
use backsight_core::{Address, Located};
use backsight_flow::{Event, SourceTime, itm as itm_flow, stm as stm_flow};
use backsight_testing::Random;

use crate::compare::{CodeAt, Listing, Mark, MarkKind, Subject, after_alignment};
use crate::harm::Harm;
use crate::support::{Flavour, Program};

/// Packets of a stream, and about how many are between two synchronisations.
const PACKETS: u64 = 600;
const BETWEEN: u64 = 25;

/// Messages name no addresses.
const NOWHERE: MarkKind = MarkKind::Synchronisation(Address(0));

struct Messages {
    name: &'static str,
    bytes: Vec<u8>,
    decode: fn(&[u8]) -> Listing,
    /// Nothing is executed.
    nothing: Program,
}

fn messages(name: &'static str, bytes: Vec<u8>, decode: fn(&[u8]) -> Listing) -> Option<Box<dyn Subject>> {
    let nothing =
        Program { flavour: Flavour::A64, segments: Vec::new(), functions: Vec::new(), handlers: Vec::new() };
    Some(Box::new(Messages { name, bytes, decode, nothing }))
}

impl Subject for Messages {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn decode(&self, bytes: &[u8]) -> Listing {
        (self.decode)(bytes)
    }

    fn code(&self) -> &dyn CodeAt {
        &self.nothing
    }

    fn synchronisation<'l>(&self, intact: &'l Listing, damaged: &Listing, harm: &Harm) -> Option<&'l Mark> {
        after_alignment(intact, damaged, harm)
    }
}

pub fn itm_subject(seed: u64) -> Option<Box<dyn Subject>> {
    let random = &mut Random(seed);
    let (mut encoder, mut bytes) = (itm::Encoder::new(), Vec::new());
    for number in 0..PACKETS {
        if number == 0 || random.below(BETWEEN) == 0 {
            for packet in itm_synchronisation(random) {
                assert!(encoder.put(&packet, &mut bytes), "{packet:x?}");
            }
        }
        let packet = itm_packet(random);
        assert!(encoder.put(&packet, &mut bytes), "{packet:x?}");
    }
    messages("ITM", bytes, decode_itm)
}

/// Synchronisation, the page of ports and all bits of the time.
fn itm_synchronisation(random: &mut Random) -> [itm::Packet; 4] {
    let low = random.below(1 << 26) as u32;
    [
        itm::Packet::Sync,
        itm::Packet::Extension { hardware: false, value: random.below(8) as u32, length: 0 },
        itm::Packet::GlobalTimestamp1 { low, length: 4, wrapped: true, clock_changed: false },
        itm::Packet::GlobalTimestamp2 { high: random.below(1 << 38), wide: true },
    ]
}

fn itm_packet(random: &mut Random) -> itm::Packet {
    let size = 1 << random.below(3);
    let value = (random.next() as u32) >> (32 - 8 * u32::from(size));
    let number = random.below(32) as u8;
    match random.below(12) {
        0 => itm::Packet::Overflow,
        1 => itm::Packet::LocalTimestamp { ticks: random.below(1 << 28) as u32, relation: number & 3 },
        2 => itm::Packet::LocalTimestamp { ticks: 1 + random.below(6) as u32, relation: 0 },
        3 => {
            let length = 1 + random.below(3) as u8;
            let low = random.below(1 << (7 * length)) as u32;
            itm::Packet::GlobalTimestamp1 { low, length, wrapped: false, clock_changed: false }
        }
        4 => itm::Packet::Extension { hardware: false, value: random.below(8) as u32, length: 0 },
        5..8 => itm::Packet::Hardware { id: number, value, size },
        _ => itm::Packet::Instrumentation { port: number, value, size },
    }
}

fn decode_itm(bytes: &[u8]) -> Listing {
    let config = itm::Config::default();
    let mut listing = Listing::default();
    let Listing { events, marks } = &mut listing;
    let (mut decoder, mut follower) = (itm::Decoder::new(&config), itm_flow::Follower::new(&config));
    // The sum of local ticks counts from the last loss, which damage may hide.
    let mut sink = |mut event: Located<Event>| {
        if let Event::SourceTime(SourceTime::Local { total, .. }) = &mut event.value {
            *total = 0;
        }
        events.push(event);
    };
    let mut synchronises = false;
    let mut each = |packet: Located<itm::Packet>| {
        let kind = match packet.value {
            itm::Packet::Sync => {
                synchronises = true;
                MarkKind::Alignment
            }
            itm::Packet::GlobalTimestamp2 { .. } if std::mem::take(&mut synchronises) => NOWHERE,
            _ => MarkKind::Packet,
        };
        marks.push(Mark { start: packet.offset as usize, end: packet.end() as usize, kind });
        follower.push(packet, &mut sink);
    };
    decoder.feed(bytes, &mut each);
    decoder.finish(&mut each);
    follower.finish(&mut sink);
    listing
}

pub fn stm_subject(seed: u64) -> Option<Box<dyn Subject>> {
    let random = &mut Random(seed);
    let (mut encoder, mut bytes) = (stm::Encoder::new(), Vec::new());
    let version = 2 + random.below(3) as u8;
    for number in 0..PACKETS {
        if number == 0 || random.below(BETWEEN) == 0 {
            for packet in stm_synchronisation(random, version) {
                assert!(encoder.put(&packet, &mut bytes), "{packet:x?}");
            }
        }
        let packet = stm_packet(random);
        assert!(encoder.put(&packet, &mut bytes), "{packet:x?}");
    }
    encoder.finish(&mut bytes);
    messages("STM", bytes, decode_stm)
}

/// Synchronisation, master, channel and all bits of the time.
fn stm_synchronisation(random: &mut Random, version: u8) -> [stm::Packet; 5] {
    [
        stm::Packet::new(Content::Async { found: false }),
        stm::Packet::new(Content::Version { value: version, more: None }),
        stm::Packet::new(Content::Master16(random.next() as u16)),
        stm::Packet::new(Content::Channel16(random.next() as u16)),
        stm::Packet::new(Content::Flag).at(16, random.next()),
    ]
}

fn stm_packet(random: &mut Random) -> stm::Packet {
    let byte = random.next() as u8;
    let content = match random.below(20) {
        0 => Content::Master8(byte),
        1 => Content::Master16(random.next() as u16),
        2 => Content::Channel8(byte),
        3 => Content::Channel16(random.next() as u16),
        4 => Content::MasterError(byte),
        5 => Content::GlobalError(byte),
        6 => Content::Trigger(byte),
        7 => Content::Frequency(random.next() as u32),
        8 => Content::CrossSync(byte),
        9 => Content::Null,
        10 => Content::Flag,
        _ => {
            let nibbles = 1 << random.below(5);
            let value = random.next() >> (64 - 4 * u32::from(nibbles));
            Content::Data { value, nibbles, marked: random.below(3) == 0 }
        }
    };
    let takes_time = matches!(
        content,
        Content::Data { .. }
            | Content::Flag
            | Content::Trigger(_)
            | Content::Frequency(_)
            | Content::CrossSync(_)
    );
    let packet = stm::Packet::new(content);
    match random.below(3) {
        0 if takes_time => {
            let nibbles = random.below(13) as u8;
            packet.at(nibbles, random.below(1 << (4 * nibbles)))
        }
        _ => packet,
    }
}

fn decode_stm(bytes: &[u8]) -> Listing {
    let mut listing = Listing::default();
    let Listing { events, marks } = &mut listing;
    let (mut decoder, mut follower) = (stm::Decoder::new(), stm_flow::Follower::new());
    let mut sink = |event: Located<Event>| events.push(event);
    let (mut synchronises, mut aligned) = (false, 0);
    let mut each = |packet: Located<stm::Packet>| {
        if !packet.value.begins_in_high_nibble {
            aligned = packet.offset as usize;
        }
        let (start, end) = (packet.offset as usize, packet.end() as usize);
        marks.push(match packet.value.content {
            Content::Async { .. } => {
                synchronises = true;
                Mark { start, end, kind: MarkKind::Alignment }
            }
            Content::Flag if packet.value.time.is_some() && std::mem::take(&mut synchronises) => {
                Mark { start, end: aligned, kind: NOWHERE }
            }
            // Bytes that two packets share cannot be cut there: a stream ends after the last byte that none share.
            _ => Mark { start, end: aligned, kind: MarkKind::Packet },
        });
        follower.push(packet, &mut sink);
    };
    decoder.feed(bytes, &mut each);
    decoder.finish(&mut each);
    follower.finish(&mut sink);
    listing
}
