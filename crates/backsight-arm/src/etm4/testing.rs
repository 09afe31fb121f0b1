//! What the tests of this module share.

use std::collections::BTreeMap;
use std::vec::Vec;

use backsight_core::{Accounting, Address, Located, Security};
use proptest::prelude::*;

use super::{
    AddressForm, AddressPacket, Atoms, ConditionalResult, Config, Context, CycleCount, CycleCountFormat,
    Decoder, Encoder, Exception, InstructionSet, Is, Packet, PacketSink, Q, Tally, Timestamp, TraceInfo,
};

/// The bytes of an Async.
pub(super) const ASYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

/// The default of an ETMv4, with settings.
pub(super) fn configured(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::etm4_default();
    for (name, value) in settings {
        config.set(name, value).unwrap();
    }
    config
}

/// A configuration for each thing that changes how a stream is read.
pub(super) fn configurations() -> Vec<Config> {
    let bases: &[&[(&str, &str)]] = &[
        &[],
        &[("version", "ETM4.1"), ("vmid", "32")],
        &[("version", "ETM4.2"), ("vmid", "16"), ("commopt", "0")],
        &[("version", "ETM4.3"), ("profile", "M")],
        &[("version", "ETM4.6"), ("profile", "M"), ("architecture", "v7"), ("TRCIDR2", "0x4")],
        &[("version", "ETE1.0"), ("vmid", "32")],
        &[("version", "ETE1.1"), ("commopt", "0")],
        &[("version", "ETE1.3"), ("timestamp_marker", "1")],
    ];
    let features: &[&[(&str, &str)]] = &[
        &[],
        &[("timestamp_bits", "64"), ("TRCCONFIGR", "0x811"), ("commopt", "1")],
        &[("q_elements", "1"), ("max_spec", "6")],
        &[("conditional", "all"), ("max_spec", "255")],
        &[("data_trace", "1"), ("commopt", "0"), ("max_spec", "20")],
    ];
    let mut all = Vec::new();
    for base in bases {
        for feature in features {
            all.push(configured(&[*base, *feature].concat()));
        }
    }
    all
}

/// The packets of a stream that is fed in one piece.
pub(super) fn decode(config: &Config, bytes: &[u8]) -> Vec<Located<Packet>> {
    decode_pieces(config, &[bytes])
}

/// The packets of a stream that is fed in pieces. Checks that every byte is in one packet and in one count.
pub(super) fn decode_pieces(config: &Config, pieces: &[&[u8]]) -> Vec<Located<Packet>> {
    let mut decoder = Decoder::new(config);
    let mut found: Vec<Located<Packet>> = Vec::new();
    for piece in pieces {
        decoder.feed(piece, &mut |packet| found.push(packet));
    }
    decoder.finish(&mut |packet| found.push(packet));
    let mut counts = Accounting::default();
    for packet in &found {
        assert_eq!(packet.offset, counts.total(), "packets follow one another");
        match packet.value {
            Packet::Bad(_) => counts.bad += u64::from(packet.length),
            Packet::Unsynchronised => counts.unsynchronised += u64::from(packet.length),
            _ => counts.decoded += u64::from(packet.length),
        }
    }
    assert_eq!(decoder.accounting(), counts);
    for set in InstructionSet::ALL.into_iter().filter(|set| set.is_available()) {
        assert_eq!(decode_batches(config, pieces, set), (found.clone(), counts), "{}", set.name());
    }
    assert_eq!(decode_runs(config, pieces), found);
    assert_eq!(counts.total(), pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
    found
}

/// Takes runs of Atom packets at once.
struct Runs(Vec<Located<Packet>>);

impl PacketSink for Runs {
    const TAKES_RUNS: bool = true;

    fn take(&mut self, packet: Located<Packet>) {
        self.0.push(packet);
    }
}

/// The same for a sink that takes runs, of which each is taken apart again.
fn decode_runs(config: &Config, pieces: &[&[u8]]) -> Vec<Located<Packet>> {
    let (mut decoder, mut runs) = (Decoder::new(config), Runs(Vec::new()));
    for piece in pieces {
        decoder.feed_to(piece, &mut runs);
    }
    decoder.finish(&mut |packet| runs.0.push(packet));
    runs.0
}

/// The same in batches, with some vector instructions. Checks that the tally of each is that of its packets.
fn decode_batches(
    config: &Config,
    pieces: &[&[u8]],
    set: InstructionSet,
) -> (Vec<Located<Packet>>, Accounting) {
    let mut decoder = Decoder::new(config).with_instructions(set);
    let mut found: Vec<Located<Packet>> = Vec::new();
    let (mut tally, mut expected) = (Tally::new(), BTreeMap::new());
    for piece in pieces {
        decoder.feed_batches(piece, &mut |batch| {
            tally.add(batch);
            let before = found.len();
            batch.for_each(|packet| found.push(packet));
            assert_eq!(found.len() - before, batch.len());
        });
    }
    for packet in &found {
        let sum: &mut (u64, u64) = expected.entry(packet.value.name()).or_default();
        *sum = (sum.0 + 1, sum.1 + u64::from(packet.length));
    }
    let mut tallied = BTreeMap::new();
    tally.for_each(|name, packets, bytes| {
        let sum: &mut (u64, u64) = tallied.entry(name).or_default();
        *sum = (sum.0 + packets, sum.1 + bytes);
    });
    assert_eq!(tallied, expected);
    decoder.finish(&mut |packet| found.push(packet));
    (found, decoder.accounting())
}

/// Raw material for one packet.
pub(super) type Draw = (u8, u64, u64, u64);

/// Encodes what the configuration has of the packets that the draws give.
pub(super) fn encode(config: &Config, draws: &[Draw]) -> (Vec<Packet>, Vec<u8>) {
    let mut encoder = Encoder::new(config);
    let mut bytes = encoder.encode(&Packet::Async).unwrap().to_vec();
    let mut written = Vec::from([Packet::Async]);
    for &draw in draws {
        let packet = packet(&encoder, draw);
        if let Ok(encoded) = encoder.encode(&packet) {
            bytes.extend_from_slice(encoded);
            written.push(packet);
        }
    }
    (written, bytes)
}

/// Draws for fewer than so many packets.
pub(super) fn draws(count: usize) -> impl Strategy<Value = Vec<Draw>> {
    prop::collection::vec(any::<Draw>(), 1..count)
}

/// One of the configurations.
pub(super) fn configuration() -> impl Strategy<Value = Config> {
    prop::sample::select(configurations())
}

/// A packet that the encoder can write next if its configuration has it, made from random numbers.
pub(super) fn packet(encoder: &Encoder, (kind, a, b, c): Draw) -> Packet {
    let is = if a & 1 == 0 { Is::Is0 } else { Is::Is1 };
    let small = |value: u64, bound: u64| (value % bound) as u8;
    // Numbers of every length are equally likely.
    let number = |value: u64| (value >> 16 & u64::MAX >> (16 + value % 48)) as u32;
    let address = || address(encoder, is, b, c);
    let atoms = Atoms::longest_packet(b, small(c, 30).into());
    let result = |value: u64| ConditionalResult {
        key: number(value),
        result: small(value >> 8, 16),
        implied: value >> 12 & 1 == 1,
    };
    match kind % 41 {
        0 => Packet::Async,
        1 => Packet::Discard,
        2 => Packet::Overflow,
        3 => Packet::TraceInfo(trace_info(a, b, c)),
        4 => Packet::Timestamp(timestamp(encoder, a, b, None)),
        5 => Packet::Timestamp(timestamp(encoder, a, b, Some(c as u32 & 0xFFF))),
        6 => Packet::TimestampMarker,
        7 => Packet::TraceOn,
        8 => Packet::FunctionReturn,
        9 => Packet::Exception(Exception {
            number: a as u16 & 0x3FF & u16::MAX >> (b % 16),
            address: small(b, 4),
            fault_pending: c & 1 == 1,
        }),
        10 => Packet::PeReset,
        11 => Packet::TransactionFailure,
        12 => Packet::ExceptionReturn,
        13 => Packet::Instrumentation { level: small(a, 4), value: b },
        14 => Packet::TransactionStart,
        15 => Packet::TransactionCommit,
        16 => Packet::CycleCount(cycle_count(encoder, a, b, c)),
        17 => Packet::NumberedDataSync(small(a, 8)),
        18 => Packet::UnnumberedDataSync(small(a, 5)),
        19 => Packet::Commit { count: number(a) },
        20 => Packet::CancelF1 { count: number(a), mispredict: b & 1 == 1 },
        21 => Packet::Mispredict(Atoms::of_cancel(a as u8)),
        22 => Packet::CancelF2(Atoms::of_cancel(a as u8)),
        23 => Packet::CancelF3 { atom: a & 1 == 1, count: small(b, 4) + 2 },
        24 => Packet::ConditionalInstructionF1 { key: number(a) },
        25 => Packet::ConditionalInstructionF2(small(a, 3)),
        26 => Packet::ConditionalInstructionF3 { count: small(a, 64), repeat: b & 1 == 1 },
        27 => Packet::ConditionalFlush,
        28 => Packet::ConditionalResultF1 { first: result(a), second: (b & 1 == 1).then(|| result(c)) },
        29 => Packet::ConditionalResultF2 { skip: a & 1 == 1, token: small(b, 3) },
        30 => Packet::ConditionalResultF3(a as u16 & 0xFFF),
        31 => Packet::ConditionalResultF4(small(a, 3)),
        32 => Packet::Ignore,
        33 => Packet::Event(small(a, 15) + 1),
        34 => Packet::Context((a & 7 != 0).then(|| context(encoder.config(), b, c))),
        35 => Packet::Address(address()),
        36 => Packet::AddressContext(
            encoder.compress_long(address().address, is),
            context(encoder.config(), b >> 3, c >> 3),
        ),
        37 => {
            let address = encoder.compress(address().address, is);
            let fits = address.form != AddressForm::Long64 && a & 6 != 0;
            let counted = fits || a & 8 != 0;
            Packet::Q(Q { count: counted.then(|| number(c)), address: fits.then_some(address) })
        }
        38 => Packet::SourceAddress(address()),
        _ => Packet::Atoms(if atoms.count == 0 { Atoms::one(true) } else { atoms }),
    }
}

/// An address near the last ones, or anywhere, in its shortest form or a longer one.
fn address(encoder: &Encoder, is: Is, b: u64, c: u64) -> AddressPacket {
    let recent = encoder.history().entry((c >> 2) as u8 % 3).0;
    let address = match c % 4 {
        0 => recent,
        _ => Address(
            (encoder.history().newest().0 ^ b >> ((c >> 2) % 64)) & if is == Is::Is0 { !3 } else { !1 },
        ),
    };
    let shortest = encoder.compress(address, is);
    match (c >> 8) % 8 {
        0 => AddressPacket { form: AddressForm::Long64, address: Address(address.0 & !3), ..shortest },
        1 => encoder.compress_long(Address(address.0 & !3), is),
        _ => shortest,
    }
}

fn context(config: &Config, b: u64, c: u64) -> Context {
    let fitting = |value: u64, bytes: u8| (value & ((1 << (8 * bytes)) - 1)) as u32;
    Context {
        level: b as u8 & 3,
        security: [Security::Secure, Security::NonSecure, Security::Root, Security::Realm]
            [(b >> 2) as usize & 3],
        wide: b >> 4 & 1 == 1,
        vmid: (b >> 5 & 1 == 1).then(|| fitting(c, config.vmid_bytes())),
        context_id: (b >> 6 & 1 == 1).then(|| fitting(c >> 32, config.context_id_bytes())),
    }
}

fn trace_info(a: u64, b: u64, c: u64) -> TraceInfo {
    let section = |index: u32, value: u64| if a >> index & 1 == 1 { value as u32 } else { 0 };
    TraceInfo {
        sections: a as u8 & 0x1F,
        info: section(0, b & 0x7F),
        key: section(1, b >> 8),
        speculation: section(2, b >> 40),
        threshold: section(3, c & 0xFFF),
        window: section(4, c >> 12),
    }
}

fn timestamp(encoder: &Encoder, a: u64, b: u64, cycles: Option<u32>) -> Timestamp {
    let shortest = encoder.timestamp(encoder.last_timestamp() ^ b >> (a % 64), cycles);
    let longer = (a >> 8) as u8 % 3 / 2;
    Timestamp { bytes: (shortest.bytes + longer).min(9), ..shortest }
}

fn cycle_count(encoder: &Encoder, a: u64, b: u64, c: u64) -> CycleCount {
    let commit = match a % 4 {
        0 => a as u32 >> 8,
        1 => encoder.config().max_speculation().saturating_sub((a >> 8) as u32 % 15),
        _ => (a >> 8) as u32 % 20,
    };
    let cycles = (b & 7 != 0).then(|| encoder.threshold().wrapping_add((c as u32 & 0x1F_FFFF) >> (b % 22)));
    let shortest = encoder.cycle_count(commit, cycles);
    let format = match a >> 40 & 7 {
        0 => CycleCountFormat::F1,
        1 => CycleCountFormat::F2FromMaximum,
        2 => CycleCountFormat::F2,
        _ => shortest.map_or(CycleCountFormat::F1, |count| count.format),
    };
    CycleCount { format, commit: if encoder.config().commit_mode1() { 0 } else { commit }, cycles }
}
