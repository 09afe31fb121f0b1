//! Framing there and back, in any chunking, and through damage.

use super::*;
use alloc::vec::Vec;
use backsight_testing::Random;

type Owned = (u16, Kind, Option<u64>, Vec<u8>);

fn take_apart(deframer: &mut Deframer, bytes: &[u8], chunk: usize) -> (Vec<Owned>, Vec<FramingFault>) {
    let (mut messages, mut faults, mut end) = (Vec::new(), Vec::new(), 0);
    let mut sink = |frame: backsight_core::Located<Frame<'_>>| {
        assert_eq!(frame.offset, end, "no byte is skipped or reported twice");
        end = frame.end();
        match frame.value {
            Frame::Packet(m) => messages.push((m.source, m.kind, m.time, m.payload.to_vec())),
            Frame::Null => {}
            Frame::Fault(fault) => faults.push(fault),
        }
    };
    for piece in bytes.chunks(chunk) {
        deframer.feed(piece, &mut sink);
    }
    deframer.finish(&mut sink);
    assert_eq!(end, bytes.len() as u64);
    assert_eq!(deframer.accounting().total(), bytes.len() as u64);
    (messages, faults)
}

fn framings() -> Vec<Framing> {
    let mut all = std::vec![
        Framing::REFERENCE,
        Framing::Reference { hart_bits: 3 },
        Framing::Reference { hart_bits: 12 },
        Framing::Esp32,
        Framing::Pulp,
    ];
    for source_bits in [0, 3, 6, 8, 10, 16] {
        for type_bits in [0, 1, 2, 4] {
            for time_bytes in [0, 2, 8] {
                all.push(Framing::Standard(Encapsulation { source_bits, time_bytes, type_bits }));
            }
        }
    }
    all
}

fn source_bits(framing: Framing) -> u8 {
    match framing {
        Framing::Reference { hart_bits } => hart_bits,
        Framing::Standard(e) => e.source_bits,
        _ => 0,
    }
}

/// A random message that the framing can carry whole.
fn message(framing: Framing, random: &mut Random) -> Owned {
    let source = (random.next() as u16) & ((1u32 << source_bits(framing)) - 1) as u16;
    let payload: Vec<u8> = (0..=random.below(25)).map(|_| random.next() as u8).collect();
    let time = match framing {
        Framing::Reference { .. } if random.below(2) == 0 => Some(random.below(1 << 16)),
        Framing::Standard(e) if e.time_bytes > 0 && random.below(2) == 0 => {
            Some(random.next() >> (64 - 8 * u32::from(e.time_bytes)))
        }
        Framing::Pulp => Some(random.next()),
        _ => None,
    };
    let data = match framing {
        Framing::Reference { .. } => true,
        Framing::Standard(e) => matches!(e.type_bits, 1 | 2),
        _ => false,
    };
    let mut kind = if data && random.below(2) == 0 { Kind::Data } else { Kind::Instruction };
    if matches!(framing, Framing::Standard(Encapsulation { type_bits: 4, .. })) {
        kind = Kind::Vendor(random.below(16) as u8);
    }
    (source, kind, time, payload)
}

/// What a receiver sees: where packets begin inside bytes, up to one byte of sign comes after the payload.
fn assert_same(framing: Framing, sent: &[Owned], got: &[Owned]) {
    assert_eq!(sent.len(), got.len(), "{framing:?}");
    for (s, g) in sent.iter().zip(got) {
        assert_eq!((s.0, s.1, s.2), (g.0, g.1, g.2), "{framing:?}");
        let fill = if s.3.last().is_some_and(|byte| byte & 0x80 != 0) { 0xFF } else { 0 };
        let mut padded = s.3.clone();
        padded.resize(g.3.len(), fill);
        assert_eq!(padded, g.3, "{framing:?}");
        assert!(g.3.len() <= s.3.len() + 1);
    }
}

#[test]
fn every_framing_gives_back_what_was_framed_in_any_chunking() {
    let mut random = Random(1);
    for framing in framings() {
        let sent: Vec<Owned> = (0..40).map(|_| message(framing, &mut random)).collect();
        let (mut framer, mut bytes) = (Framer::new(framing), Vec::new());
        for (source, kind, time, payload) in &sent {
            let message = Encapsulated { source: *source, kind: *kind, flow: 0, time: *time, payload };
            framer.frame(&message, &mut bytes).unwrap();
        }
        for chunk in [1, 2, 7, bytes.len()] {
            let (got, faults) = take_apart(&mut Deframer::new(framing), &bytes, chunk);
            assert_eq!(faults, []);
            assert_same(framing, &sent, &got);
        }
    }
}

#[test]
fn published_examples_come_out_as_printed() {
    let frame = |framing, source, payload: &[u8]| {
        let mut bytes = Vec::new();
        let message = Encapsulated { source, kind: Kind::Instruction, flow: 0, time: None, payload };
        Framer::new(framing).frame(&message, &mut bytes).unwrap();
        bytes
    };
    let siemens = Framing::SIEMENS;
    assert_eq!(frame(siemens, 1, &[0x32, 4, 0, 0, 2]), [6, 0x81, 0x32, 4, 0, 0, 2]);
    let map = [0xBD, 0xAA, 0xAA, 0x68, 0, 0, 0x20];
    assert_eq!(frame(siemens, 0xA, &map), [8, 0x8A, 0xBD, 0xAA, 0xAA, 0x68, 0, 0, 0x20]);
    assert_eq!(frame(siemens, 5, &[0x73, 0, 0, 0, 0, 0x91, 0x82, 0, 0x10])[..3], [0x0A, 0x85, 0x73]);
    assert_eq!(frame(Framing::REFERENCE, 0, &[0x1F]), [0x41, 0x1F]);
}

#[test]
fn short_payloads_are_framed_as_long_ones_are() {
    let mut random = Random(7);
    for _ in 0..2000 {
        let mut draw = |most: u64| random.next() % most;
        let (source_bits, type_bits) = (draw(8) as u8, 2 + draw(7) as u8);
        let framing = Framing::Standard(Encapsulation { source_bits, time_bytes: 0, type_bits });
        let source = (draw(256) & ((1 << source_bits) - 1)) as u16;
        let payload: Vec<u8> = (0..1 + draw(8)).map(|_| draw(256) as u8).collect();
        let frame = |time| {
            let mut bytes = Vec::from([0x55]);
            let message = Encapsulated { source, kind: Kind::Instruction, flow: 2, time, payload: &payload };
            Framer::new(framing).frame(&message, &mut bytes).map(|()| bytes)
        };
        // A time that the framing has no room for is left out, and only keeps the payload from the short way.
        assert_eq!(frame(None), frame(Some(1)), "{framing:?} {payload:x?}");
    }
}

#[test]
fn a_receiver_that_comes_late_starts_at_the_synchronisation_sequence() {
    for framing in [Framing::ATB, Framing::SIEMENS, Framing::PULP_ENCAP] {
        let (mut framer, mut bytes) = (Framer::new(framing), Vec::new());
        let message =
            |payload| Encapsulated { source: 0, kind: Kind::Instruction, flow: 0, time: None, payload };
        framer.frame(&message(&[0; 31 - 1]), &mut bytes).unwrap();
        framer.synchronise(&mut bytes);
        framer.frame(&message(&[1, 2, 3]), &mut bytes).unwrap();
        for start in 1..10 {
            let mut deframer = Deframer::unsynchronised(framing);
            let (messages, faults) = take_apart(&mut deframer, &bytes[start..], 5);
            assert_eq!(faults, [FramingFault::Unsynchronised]);
            assert_eq!(messages.len(), 1);
            assert_eq!(messages[0].3, [1, 2, 3]);
        }
    }
}

#[test]
fn damage_is_reported_and_every_byte_is_accounted_for() {
    let mut random = Random(3);
    for framing in framings() {
        for _ in 0..20 {
            let bytes: Vec<u8> = (0..random.below(400)).map(|_| random.next() as u8).collect();
            let whole = take_apart(&mut Deframer::new(framing), &bytes, bytes.len().max(1));
            let pieces = take_apart(&mut Deframer::new(framing), &bytes, 1 + random.below(9) as usize);
            assert_eq!(whole, pieces);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut out = Vec::new();
    let message = |source, kind, payload| Encapsulated { source, kind, flow: 0, time: None, payload };
    let mut siemens = Framer::new(Framing::SIEMENS);
    let long = [0; 40];
    assert!(matches!(siemens.frame(&message(0, Kind::Data, &long), &mut out), Err(FrameError::Length(41))));
    assert!(matches!(siemens.frame(&message(0, Kind::Data, &[]), &mut out), Err(FrameError::Length(0))));
    assert!(matches!(siemens.frame(&message(64, Kind::Data, &[1]), &mut out), Err(FrameError::Source(64))));
    let mut atb = Framer::new(Framing::ATB);
    assert!(matches!(atb.frame(&message(0, Kind::Data, &[1]), &mut out), Err(FrameError::Kind(Kind::Data))));
    assert!(out.is_empty());
}
