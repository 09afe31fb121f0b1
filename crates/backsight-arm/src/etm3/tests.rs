//! What is encoded is decoded again, however it is cut, and no byte is lost; real bytes read as the manual says.

use std::vec::Vec;

use backsight_core::{Address, Isa};

use super::*;
use crate::etm::testing::{A_SYNC, laws, texts};

laws!(512);

fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    settings.iter().for_each(|(name, value)| config.set(name, value).unwrap());
    config
}

#[test]
fn real_cycle_accurate_packets_read_as_the_manual_says() {
    let config = config(&[("ETMCR", "0x10001860")]);
    let bytes = [
        &[0x08, 0x01, 0x5D, 0x11, 0x02, 0xC0][..],
        &[0x70, 0xC3, 0x02, 0x21, 0x8D, 0x10, 0x02, 0xC0],
        &[0x42, 0xBD, 0x9A, 0xC3, 0xCE, 0xAF, 0x90, 0x80, 0x80, 0x00],
        &[0xBC, 0xC4, 0xB7, 0xFD, 0xD6, 0x01],
        &[0xD7, 0xBA, 0x86, 0xDB, 0x0D, 0x76],
    ]
    .concat();
    assert_eq!(
        texts(&config, &bytes),
        [
            "I_SYNC periodic Addr=0x00000000c002115c T32 S",
            "I_SYNC_CYCLE trace enabled Addr=0x00000000c002108c T32 S, CC=323",
            "TIMESTAMP TS=0x82f9d0cd3d",
            "P_HDR  CC=8",
            "P_HDR EN CC=2",
            "BRANCH_ADDRESS Addr=0x00000000c035beb6 T32",
            "BRANCH_ADDRESS Addr=0x00000000b6c33aac A32",
            "EXCEPTION_EXIT",
        ]
    );
}

#[test]
fn exceptions_are_read_in_every_form() {
    let v33 = config(&[("version", "3.3")]);
    let bytes = [
        &[0x85, 0x80, 0x80, 0x80, 0x48, 0x14][..],
        &[0x8D, 0x80, 0x80, 0x80, 0x48, 0x1C],
        &[0xB5, 0x80, 0x84, 0x80, 0x50, 0x22],
        // The form of the first ETMv3: FIQ, cancels.
        &[0x8F, 0x80, 0x80, 0x80, 0xE8],
    ]
    .concat();
    assert_eq!(
        texts(&v33, &bytes),
        [
            "BRANCH_ADDRESS Addr=0x0000000000000008 A32 S exception=10",
            "BRANCH_ADDRESS Addr=0x0000000000000018 A32 S exception=14",
            "BRANCH_ADDRESS Addr=0x0000000000010034 T32 S exception=1 cancels",
            "BRANCH_ADDRESS Addr=0x000000000000001c A32 exception=15 cancels",
        ]
    );
    let alternative = config(&[("version", "3.4"), ("alternative_branches", "1"), ("profile", "M")]);
    // I-sync at 0x2000 in Thumb, then two address bytes with three information bytes.
    let bytes = [0x08, 0x01, 0x01, 0x20, 0x00, 0x00, 0x91, 0x41, 0x9A, 0x81, 0x45];
    assert_eq!(
        texts(&alternative, &bytes)[1],
        "BRANCH_ADDRESS Addr=0x0000000000002090 T32 S exception=29 resume=5"
    );
}

#[test]
fn every_data_packet_is_read() {
    let config = config(&[("data", "both")]);
    let bytes = [
        // Normal data with a full address, big-endian, and a value of four bytes.
        &[0x2E, 0x84, 0x80, 0x80, 0x80, 0x12, 0x78, 0x56, 0x34, 0x12][..],
        // Normal data of one byte at the next address, and 0.
        &[0x06, 0xFF, 0x02],
        // A placeholder with tag 2 at a short address, its value, a failed store.
        &[0x78, 0x08, 0x48, 0x34, 0x12, 0x50],
        &[0x6A, 0x7A, 0x0C, 0x62],
    ]
    .concat();
    assert_eq!(
        texts(&config, &bytes),
        [
            "NORM_DATA data address=0x20000004 big-endian value=0x12345678",
            "NORM_DATA value=0xff",
            "NORM_DATA value=0x0",
            "OOO_ADDR_PLC tag=2 data address=0x20000008 big-endian",
            "OOO_DATA tag=2 value=0x1234",
            "STORE_FAIL",
            "VAL_NOT_TRACED",
            "VAL_NOT_TRACED data address=0x2000000c big-endian",
            "DATA_SUPPRESSED",
        ]
    );
}

#[test]
fn a_load_in_progress_has_the_next_instruction_too() {
    let bytes = [0x08, 0xA1, 0x01, 0x20, 0x00, 0x00, 0x05, 0x2B];
    assert_eq!(
        texts(&Config::default(), &bytes),
        [
            "I_SYNC trace enabled Addr=0x0000000000002000 T32 S, in progress, next 0x2004",
            // Compressed against the next instruction.
            "BRANCH_ADDRESS Addr=0x000000000000202a T32",
        ]
    );
}

#[test]
fn an_i_sync_of_data_only_mode_has_no_address() {
    let config = config(&[("data_only", "1"), ("data", "address"), ("context_id", "1")]);
    assert_eq!(texts(&config, &[0x08, 0x2A, 0x29]), ["I_SYNC trace enabled NS CID=0x2a"]);
}

#[test]
fn bytes_that_are_no_packet_are_reported_and_the_next_a_sync_is_found() {
    let plain = Config::default();
    let old = config(&[("version", "3.2"), ("cyclecount", "1")]);
    for (config, bad, why) in [
        (&plain, &[0x10][..], Bad::Reserved),
        (&plain, &[0x92], Bad::Reserved),
        (&plain, &[0x6E], Bad::Reserved),
        // P-headers of format 4 and timestamps came later.
        (&old, &[0x92], Bad::Reserved),
        (&old, &[0x42], Bad::Reserved),
        // No data is traced.
        (&plain, &[0x02], Bad::WrongMode),
        (&plain, &[0x50], Bad::WrongMode),
        (&plain, &[0x81, 0x80, 0x80, 0x80, 0x47], Bad::Malformed),
        (&plain, &[0x08, 0x20], Bad::Malformed),
        (&plain, &[0x04, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], Bad::FieldTooLong),
    ] {
        let bytes = [&A_SYNC[..], bad, &[0x84, 0x84], &A_SYNC, &[0x84]].concat();
        let read = decode_pieces(config, &[&bytes]);
        assert_eq!(read[1].value, Packet::Bad(why), "{bad:x?}");
        assert_eq!(read[1].length as usize, bad.len());
        assert_eq!(read[2].value, Packet::Unsynchronised);
        assert_eq!(read[3].value, Packet::Async);
        assert_eq!(read.len(), 5);
    }
}

#[test]
fn an_encoder_refuses_what_the_configuration_does_not_have() {
    let mut encoder = Encoder::new(&Config::default());
    let value = Some(DataValue::new(3));
    let cycles = CycleMarks::BeforeEach;
    let branch = Branch {
        address: Address(0x8000),
        is_complete: true,
        isa: Isa::A32,
        bytes: 1,
        information: None,
        early: None,
    };
    for (packet, why) in [
        (Packet::NormalData { begins: false, address: None, value }, EncodeError::Configuration),
        (Packet::PHeader(PHeader { atoms: 1, count: 1, cycles }), EncodeError::Configuration),
        (
            Packet::PHeader(PHeader { atoms: 2, count: 3, cycles: CycleMarks::NotTraced }),
            EncodeError::OutOfRange,
        ),
        (Packet::ContextId(3), EncodeError::Configuration),
        (Packet::Unsynchronised, EncodeError::NotAPacket),
        (Packet::Branch(branch), EncodeError::OutOfRange),
    ] {
        assert_eq!(encoder.encode(&packet), Err(why), "{packet:?}");
    }
}
