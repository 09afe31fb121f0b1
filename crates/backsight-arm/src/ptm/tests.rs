//! What is encoded is decoded again, however it is cut, and no byte is lost; real bytes read as the manual says.

use std::vec::Vec;

use backsight_core::{Address, Isa};

use super::*;
use crate::etm::testing::{laws, texts};

laws!(256);

#[test]
fn real_cycle_accurate_packets_read_as_the_manual_says() {
    let mut config = Config::default();
    config.registers.cr = 0x1000_1000;
    let bytes = [
        &[0x08, 0x83, 0x8D, 0x01, 0xC0, 0x01][..],
        &[0x42, 0xCC, 0x97, 0xC6, 0xCE, 0xAF, 0x90, 0x80, 0x80, 0x00, 0x00],
        &[0xE8, 0x20, 0xDE, 0x01, 0xBC],
        &[0x08, 0xDF, 0x8D, 0x01, 0xC0, 0x21, 0xCC, 0x03],
        &[0xA3, 0x0B, 0x68, 0x17],
        &[0x8F, 0xEA, 0xDE, 0xDB, 0x0D, 0x74, 0x18],
    ]
    .concat();
    assert_eq!(
        texts(&config, &bytes),
        [
            "ISYNC periodic Addr=0x00000000c0018d82 T32 S",
            "TIMESTAMP TS=0x82f9d18bcc, CC=0",
            "ATOM E, CC=522",
            "ATOM N, CC=23",
            "ATOM E, CC=15",
            "ISYNC trace enabled Addr=0x00000000c0018dde T32 S, CC=51",
            "BRANCH_ADDRESS Addr=0x00000000c00185a2 T32, CC=378",
            "BRANCH_ADDRESS Addr=0x00000000b6ef6a1c A32, CC=397",
        ]
    );
}

#[test]
fn real_packets_without_cycle_counts_read_as_the_manual_says() {
    let bytes = [
        &[0x84, 0x86, 0x88, 0xC8, 0x08, 0x54, 0x05, 0x00, 0x80, 0x61, 0x2F][..],
        &[0xFD, 0x9E, 0x80, 0x80, 0x18, 0x81, 0x80, 0x80, 0x80, 0x48, 0x02, 0x76, 0x0C, 0x66],
    ]
    .concat();
    assert_eq!(
        texts(&Config::default(), &bytes),
        [
            "ATOM E",
            "ATOM N",
            "ATOM EE",
            "ATOM EENEE",
            "ISYNC left debug state Addr=0x0000000080000554 A32 S",
            "BRANCH_ADDRESS Addr=0x000000008000055c A32",
            "BRANCH_ADDRESS Addr=0x0000000080000f7c T32",
            "BRANCH_ADDRESS Addr=0x0000000000000000 A32 S exception=1",
            "ERET",
            "TRIGGER",
            "IGNORE",
        ]
    );
}

#[test]
fn a_branch_before_any_complete_address_says_so() {
    assert_eq!(texts(&Config::default(), &[0x2F]), ["BRANCH_ADDRESS address incomplete A32"]);
}

#[test]
fn bytes_that_are_no_packet_are_reported_and_the_next_a_sync_is_found() {
    let sync = [0, 0, 0, 0, 0, 0x80];
    for (bad, why) in [
        (&[0x02][..], Bad::Reserved),
        (&[0x3E], Bad::Reserved),
        // No context IDs are traced.
        (&[0x6E], Bad::Reserved),
        // A fifth address byte of no instruction set.
        (&[0x81, 0x80, 0x80, 0x80, 0x00], Bad::Malformed),
        // An I-sync whose information has bit 0 clear.
        (&[0x08, 0, 0, 0, 0, 0x20], Bad::Malformed),
        // Three zeros are no A-sync.
        (&[0, 0, 0], Bad::Malformed),
    ] {
        let bytes = [&sync[..], bad, &[0x84, 0x84], &sync, &[0x86]].concat();
        let read = decode_pieces(&Config::default(), &[&bytes]);
        let values: Vec<Packet> = read.iter().map(|packet| packet.value).collect();
        let atom = Packet::Atoms(Atoms { bits: 0, count: 1, cycles: None });
        assert_eq!(
            values,
            [Packet::Async, Packet::Bad(why), Packet::Unsynchronised, Packet::Async, atom],
            "{bad:x?}"
        );
        assert_eq!(read[1].length as usize, bad.len());
    }
}

#[test]
fn a_cycle_count_of_more_than_32_bits_is_too_long() {
    let mut config = Config::default();
    config.registers.cr = 1 << 12;
    let bytes = [0, 0, 0, 0, 0, 0x80, 0xC0, 0xFF, 0xFF, 0xFF, 0xFF];
    assert_eq!(decode(&config, &bytes)[1], Packet::Bad(Bad::FieldTooLong));
    let bytes = [0, 0, 0, 0, 0, 0x80, 0xFC, 0xFF, 0xFF, 0xFF, 0x7F];
    assert_eq!(
        decode(&config, &bytes)[1],
        Packet::Atoms(Atoms { bits: 1, count: 1, cycles: Some(u32::MAX) })
    );
}

#[test]
fn a_packet_that_the_stream_cuts_off_is_incomplete() {
    let bytes = [0, 0, 0, 0, 0, 0x80, 0x08, 0x54];
    assert_eq!(decode(&Config::default(), &bytes)[1], Packet::Bad(Bad::Incomplete));
    let zeros = [0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0];
    assert_eq!(decode(&Config::default(), &zeros)[1], Packet::Bad(Bad::Incomplete));
    assert_eq!(decode(&Config::default(), &zeros[..3]), [Packet::Unsynchronised]);
}

#[test]
fn an_encoder_refuses_what_the_configuration_does_not_have() {
    let mut encoder = Encoder::new(&Config::default());
    let cycles = Some(3);
    for (packet, why) in [
        (Packet::Atoms(Atoms { bits: 1, count: 1, cycles }), EncodeError::Configuration),
        (Packet::Atoms(Atoms { bits: 1, count: 6, cycles: None }), EncodeError::OutOfRange),
        (Packet::ContextId(3), EncodeError::Configuration),
        (Packet::Bad(Bad::Reserved), EncodeError::NotAPacket),
        // One byte does not reach there from an address that nobody knows.
        (
            Packet::Branch(Branch {
                address: Address(0x8000),
                is_complete: true,
                isa: Isa::A32,
                bytes: 1,
                information: None,
                cycles: None,
            }),
            EncodeError::OutOfRange,
        ),
    ] {
        assert_eq!(encoder.encode(&packet), Err(why), "{packet:?}");
    }
}
