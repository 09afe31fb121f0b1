//! The table against itself, against the decoder, and against the manual.

use std::format;
use std::string::String;
use std::vec::Vec;

use backsight_testing::Random;

use super::kind::NAMES;
use super::{KINDS, Kind, MAX_PACKET, NUMBER_BYTES, Part, ROWS, Row, SECTIONS, lookup};
use crate::etm4::testing::{ASYNC, configurations, configured};
use crate::etm4::{Bad, Config, Decoder, Packet};

#[test]
fn each_header_byte_matches_exactly_one_row() {
    for header in 0..=255u8 {
        let rows = ROWS.iter().filter(|row| (row.first..=row.last).contains(&header)).count();
        assert_eq!(rows, 1, "{header:#04x}");
    }
    assert!(ROWS.windows(2).all(|pair| pair[0].last + 1 == pair[1].first), "rows are in order");
}

#[test]
fn every_header_is_found_again_from_its_kind_and_its_field() {
    let mut kinds = [false; KINDS];
    for header in 0..=255u8 {
        let kind = lookup(header).kind;
        assert_eq!(kind.with(kind.field(header)), Some(header));
        kinds[kind as usize] = true;
    }
    assert!(kinds.iter().all(|&is_there| is_there), "every kind has a header");
    assert!(NAMES.iter().all(|name| name.starts_with("I_")));
}

/// The first packet after an Async.
fn first(config: &Config, bytes: &[u8]) -> Option<(Packet, usize)> {
    let mut decoder = Decoder::new(config);
    let mut found = Vec::new();
    decoder.feed(&[&ASYNC[..], bytes].concat(), &mut |packet| found.push(packet));
    found.get(1).map(|packet| (packet.value, packet.length as usize))
}

/// Where a continued field of at most so many bytes ends that begins at `at`; `None` if it goes on for longer.
fn continued(bytes: &[u8], at: usize, limit: u8) -> Option<usize> {
    let length = bytes[at..].iter().position(|byte| byte & 0x80 == 0)? + 1;
    (length <= usize::from(limit)).then_some(at + length)
}

/// Where a part ends that begins at `at`; `None` if it is too long or no Async.
fn end(part: Part, config: &Config, bytes: &[u8], at: usize) -> Option<usize> {
    let byte = bytes[at];
    match part {
        Part::Bytes(count) => Some(at + usize::from(count)),
        Part::Continued(limit) => continued(bytes, at, limit),
        Part::Commit if part.is_absent(config) => Some(at),
        Part::Commit => continued(bytes, at, NUMBER_BYTES),
        Part::Timestamp => Some(continued(bytes, at, 8).unwrap_or(at + 9)),
        Part::ShortAddress => Some(at + 1 + usize::from(byte >> 7)),
        Part::Context => {
            let identifiers = [(byte & 0x40, config.vmid_bytes()), (byte & 0x80, config.context_id_bytes())];
            let bytes =
                identifiers.iter().map(|&(flag, bytes)| if flag == 0 { 0 } else { usize::from(bytes) });
            Some(at + 1 + bytes.sum::<usize>())
        }
        Part::TraceInfo => {
            let mut at = continued(bytes, at, NUMBER_BYTES)?;
            for _ in (0..SECTIONS).filter(|section| byte >> section & 1 == 1) {
                at = continued(bytes, at, NUMBER_BYTES)?;
            }
            Some(at)
        }
        Part::Exception => {
            let has_no_address = config.is_ete() && matches!(byte >> 1 & 0x1F, 0 | 0x18);
            Some(at + if byte & 0x80 != 0 || has_no_address { 2 } else { 1 })
        }
        Part::Result if byte & 0x80 != 0 => continued(bytes, at + 1, NUMBER_BYTES),
        Part::Result => Some(at + 1),
        Part::Extension if matches!(byte, 0x03 | 0x05) => Some(at + 1),
        Part::Extension => bytes.starts_with(&ASYNC).then_some(ASYNC.len()),
    }
}

/// The length of the packet at the start of `bytes` by its row; `None` if it is bad.
fn length(row: &Row, config: &Config, bytes: &[u8]) -> Option<usize> {
    row.payload.iter().try_fold(1, |at, &part| {
        let end = end(part, config, bytes, at)?;
        assert!(end - at <= part.longest(), "{part:?}");
        Some(end)
    })
}

/// In every configuration each header is valid or bad, as its row says; and packets are as long as its payload.
#[test]
fn the_decoder_agrees_with_the_table_on_every_header_in_every_configuration() {
    let mut random = Random(5);
    for config in configurations() {
        for header in 0..=255u8 {
            let row = lookup(header);
            for round in 0..8 {
                let mut bytes = [0; MAX_PACKET + 1];
                bytes[0] = header;
                // Few bits, many bits, and every continuation bit by chance.
                let mask = [0, 0x7F, 0xFF, 0xFF][round % 4];
                bytes[1..].iter_mut().for_each(|byte| *byte = random.next() as u8 & mask);
                let (packet, read) = first(&config, &bytes).expect("longer than any packet");
                match (row.when.check(&config), length(row, &config, &bytes)) {
                    (Err(why), _) => assert_eq!((packet, read), (Packet::Bad(why), 1), "{header:#04x}"),
                    (Ok(()), Some(expected)) => {
                        assert_eq!(read, expected, "{bytes:02x?} {}", row.title);
                        assert!(!matches!(packet, Packet::Bad(_)), "{bytes:02x?}");
                        assert_eq!(packet.kind(), row.kind);
                    }
                    (Ok(()), None) => {
                        let is_bad = matches!(
                            packet,
                            Packet::Bad(Bad::FieldTooLong | Bad::Extension | Bad::AsyncLength)
                        );
                        assert!(is_bad, "{bytes:02x?}");
                    }
                }
            }
        }
    }
}

#[test]
fn names_in_listings_come_from_the_header_that_was_read() {
    for config in configurations() {
        for header in 0x01..=255u8 {
            let row = lookup(header);
            if row.when.check(&config).is_ok() && row.kind != Kind::Exception {
                let (packet, _) = first(&config, &[&[header][..], &[0; 24]].concat()).unwrap();
                assert_eq!(packet.name(), row.name, "{header:#04x}");
            }
        }
    }
}

/// The headers of a configuration that are valid, as ranges.
fn valid_headers(config: &Config) -> String {
    let is_valid = |header: u8| lookup(header).when.check(config).is_ok();
    let mut ranges = String::new();
    let mut start = None;
    for header in 0..=256u16 {
        match (start, header < 256 && is_valid(header as u8)) {
            (None, true) => start = Some(header),
            (Some(first), false) => {
                ranges += &match header - 1 {
                    last if last == first => format!(" {first:02x}"),
                    last => format!(" {first:02x}-{last:02x}"),
                };
                start = None;
            }
            _ => {}
        }
    }
    ranges
}

/// The status column of the manual's header map.
#[test]
fn each_configuration_has_the_headers_of_the_manual() {
    let check = |settings: &[(&str, &str)], expected: &str| {
        assert_eq!(valid_headers(&configured(settings)).trim(), expected, "{settings:?}");
    };
    check(&[], "00-04 06-07 0c-1f 2d-3f 71-83 85-86 90-92 95-96 9a-9b 9d-9e c0-ff");
    let version_3_m = [("version", "ETM4.3"), ("profile", "M")];
    check(&version_3_m, "00-07 0c-1f 2d-3f 70-83 85-86 90-92 95-96 9a-9b 9d-9e c0-ff");
    let version_6 = [("version", "ETM4.6")];
    check(&version_6, "00-04 06-07 0c-1f 2d-3f 70-83 85-86 88 90-92 95-96 9a-9b 9d-9e c0-ff");
    let ete = "00-04 06 0a-1f 2d-3f 70-83 85-86 88 90-92 95-96 9a-9b 9d-9e b0-b2 b4-b9 c0-ff";
    check(&[("version", "ETE1.0")], ete);
    check(&[("version", "ETE1.3")], &ete.replace(" 0a-1f", " 09-1f"));
    let conditional =
        "00-04 06-07 0c-1f 2d-46 48-4a 4c-4e 50-5f 68-6f 71-83 85-86 90-92 95-96 9a-9b 9d-9e c0-ff";
    check(&[("conditional", "all")], conditional);
    check(&[("data_trace", "1")], "00-04 06-07 0c-3f 71-83 85-86 90-92 95-96 9a-9b 9d-9e c0-ff");
    let q = "00-04 06-07 0c-1f 2d-3f 71-83 85-86 90-92 95-96 9a-9b 9d-9e a0-a2 a5-a6 aa-ac af c0-ff";
    check(&[("q_elements", "1")], q);
}
