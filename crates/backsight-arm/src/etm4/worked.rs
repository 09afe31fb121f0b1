//! Byte sequences and what they say, worked out by hand.

use std::vec::Vec;

use backsight_core::{Address, Located, Security};

use super::testing::{ASYNC, configurations, configured as etm4, decode};
use super::{
    AddressForm, AddressPacket, Atoms, Bad, Config, Context, CycleCount, CycleCountFormat, Decoder, Encoder,
    Exception, Is, Packet, Q, Timestamp, TraceInfo,
};

fn ete(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::ete_default();
    for (name, value) in settings {
        config.set(name, value).unwrap();
    }
    config
}

/// The packets after an Async. They must encode to the same bytes again.
fn read(config: &Config, bytes: &[u8]) -> Vec<Packet> {
    let bytes = [&ASYNC[..], bytes].concat();
    let packets: Vec<Packet> = decode(config, &bytes).iter().map(|packet| packet.value).collect();
    let mut encoder = Encoder::new(config);
    let again: Vec<u8> = packets.iter().flat_map(|packet| encoder.encode(packet).unwrap().to_vec()).collect();
    assert_eq!(again, bytes);
    packets[1..].to_vec()
}

fn address(address: u64, form: AddressForm) -> AddressPacket {
    AddressPacket { address: Address(address), is: Is::Is0, form }
}

fn context(level: u8, security: Security) -> Context {
    Context { level, security, wide: true, vmid: None, context_id: None }
}

fn cycles(format: CycleCountFormat, commit: u32, cycles: Option<u32>) -> Packet {
    Packet::CycleCount(CycleCount { format, commit, cycles })
}

/// Trace Info with a threshold of 0x16.
const THRESHOLD: [u8; 4] = [0x01, 0x09, 0x01, 0x16];

#[test]
fn a_trace_begins() {
    let bytes = [&THRESHOLD[..], &[0x04, 0x82, 0x6E, 0x08, 0x02, 0x00, 0x11]].concat();
    let expected = [
        Packet::TraceInfo(TraceInfo { sections: 9, info: 1, threshold: 0x16, ..TraceInfo::default() }),
        Packet::TraceOn,
        Packet::AddressContext(address(0x211B8, AddressForm::Long32), context(1, Security::Secure)),
    ];
    assert_eq!(read(&ete(&[]), &bytes), expected);
}

#[test]
fn contexts_carry_as_many_bytes_as_the_id_registers_say() {
    let expected = Context { context_id: Some(0), ..context(3, Security::Secure) };
    assert_eq!(read(&etm4(&[]), &[0x81, 0x93, 0, 0, 0, 0]), [Packet::Context(Some(expected))]);
    let bytes = [0x85, 0x20, 0x58, 0x22, 0x80, 0xFF, 0xFF, 0xFF, 0xFF, 0xF1, 0x01, 0xA0, 0x7A, 0x97, 0x80];
    let expected =
        Context { vmid: Some(1), context_id: Some(0x8097_7AA0), ..context(1, Security::NonSecure) };
    let target = address(0xFFFF_FFFF_8022_B080, AddressForm::Long64);
    assert_eq!(read(&etm4(&[]), &bytes), [Packet::AddressContext(target, expected)]);
    assert_eq!(read(&etm4(&[]), &[0x80]), [Packet::Context(None)]);
}

#[test]
fn addresses_keep_what_the_one_before_has() {
    let bytes = [
        &[0x81, 0x30][..],
        &[0x9D, 0x00, 0x40, 0x10, 0x80, 0xC0, 0xFF, 0xFF, 0xFF],
        &[0x95, 0xAA, 0x42],
        &[0x9A, 0x59, 0x15, 0x59, 0x00],
        &[0x90, 0x92],
    ];
    let packets = read(&etm4(&[]), &bytes.concat());
    let expected = [
        address(0xFFFF_FFC0_8010_8000, AddressForm::Long64),
        address(0xFFFF_FFC0_8010_84A8, AddressForm::Short2),
        address(0xFFFF_FFC0_0059_2B64, AddressForm::Long32),
        address(0xFFFF_FFC0_0059_2B64, AddressForm::Exact(0)),
        address(0xFFFF_FFC0_8010_84A8, AddressForm::Exact(2)),
    ];
    assert_eq!(packets[1..], expected.map(Packet::Address));
}

#[test]
fn a_32_bit_address_has_no_upper_half_in_aarch32() {
    let long64 = [0x9D, 0x01, 0x02, 0x03, 0x04, 0x01, 0x00, 0x00, 0x00];
    let long32 = [0x9A, 0x01, 0x02, 0x03, 0x04];
    let after = |info: u8| {
        let bytes = [&[0x81, info][..], &long64, &long32].concat();
        read(&etm4(&[]), &bytes)[2]
    };
    assert_eq!(after(0x30), Packet::Address(address(0x1_0403_0404, AddressForm::Long32)));
    assert_eq!(after(0x20), Packet::Address(address(0x0403_0404, AddressForm::Long32)));
}

#[test]
fn an_address_with_context_is_compressed_before_the_context_changes() {
    let bytes = [
        &[0x81, 0x30, 0x9D, 0x01, 0x02, 0x03, 0x04, 0x01, 0x00, 0x00, 0x00][..],
        &[0x82, 0x01, 0x02, 0x03, 0x04, 0x20],
        &[0x9A, 0x01, 0x02, 0x03, 0x04],
    ];
    let packets = read(&etm4(&[]), &bytes.concat());
    let narrow = Context { wide: false, ..context(0, Security::NonSecure) };
    assert_eq!(packets[2], Packet::AddressContext(address(0x1_0403_0404, AddressForm::Long32), narrow));
    assert_eq!(packets[3], Packet::Address(address(0x0403_0404, AddressForm::Long32)));
}

#[test]
fn every_trace_info_empties_the_address_history_and_the_timestamp() {
    let bytes = [0x9A, 1, 2, 3, 4, 0x02, 0xFF, 0x7F, 0x01, 0x00, 0x95, 0x05, 0x02, 0x01];
    let packets = read(&etm4(&[]), &bytes);
    assert_eq!(packets[3], Packet::Address(address(0x14, AddressForm::Short1)));
    assert_eq!(packets[4], Packet::Timestamp(Timestamp { value: 1, bytes: 1, cycles: None }));
}

#[test]
fn exceptions_say_what_the_address_after_them_means() {
    let exception = |number, address| Packet::Exception(Exception { number, address, fault_pending: false });
    let packets = read(&etm4(&[]), &[0x06, 0x1D, 0x95, 0x2C]);
    assert_eq!(packets, [exception(0x0E, 0b01), Packet::Address(address(0xB0, AddressForm::Short1))]);
    let packets = read(&etm4(&[]), &[0x06, 0x5C, 0x9A, 0x3A, 0x08, 0x59, 0x00]);
    assert_eq!(packets, [exception(0x0E, 0b10), Packet::Address(address(0x59_10E8, AddressForm::Long32))]);
    assert_eq!(read(&etm4(&[]), &[0x06, 0x05]), [exception(2, 0b01)]);
    let pending = Exception { number: 0x208, address: 0b01, fault_pending: true };
    assert_eq!(read(&etm4(&[("profile", "M")]), &[0x06, 0x91, 0x30]), [Packet::Exception(pending)]);
}

#[test]
fn transaction_failure_and_reset_are_three_bytes_and_push_address_0() {
    let bytes = [0x9A, 1, 2, 3, 4, 0x06, 0x31, 0x70, 0x95, 0x05, 0x06, 0x01, 0x70, 0x91];
    let packets = read(&ete(&[]), &bytes);
    assert_eq!(
        packets[1..4],
        [Packet::TransactionFailure, Packet::Address(address(0x14, AddressForm::Short1)), Packet::PeReset,]
    );
    assert_eq!(packets[4], Packet::Address(address(0x14, AddressForm::Exact(1))));
    // ETMv4 has neither: these are two-byte exceptions.
    assert_eq!(read(&etm4(&[]), &[0x06, 0x31]).len(), 1);
}

#[test]
fn cycle_counts_include_the_threshold() {
    use CycleCountFormat::{F1, F2, F2FromMaximum, F3};
    let mode1 = etm4(&[]);
    let mode0 = etm4(&[("commopt", "0")]);
    let after = |config: &Config, bytes: &[u8]| read(config, &[&THRESHOLD[..], bytes].concat())[1];
    assert_eq!(after(&mode1, &[0x0F]), cycles(F1, 0, None));
    assert_eq!(after(&mode0, &[0x0F, 0x01]), cycles(F1, 1, None));
    assert_eq!(after(&mode0, &[0x0E, 0x81, 0x01, 0x85, 0x01]), cycles(F1, 129, Some(0x16 + 133)));
    assert_eq!(after(&mode0, &[0x0C, 0x96]), cycles(F2, 10, Some(0x1C)));
    assert_eq!(after(&mode1, &[0x0D, 0xF5]), cycles(F2FromMaximum, 0, Some(0x1B)));
    assert_eq!(after(&mode1, &[0x11]), cycles(F3, 0, Some(0x17)));
    assert_eq!(after(&mode0, &[0x1B]), cycles(F3, 3, Some(0x19)));
    let deep = etm4(&[("commopt", "0"), ("max_spec", "100")]);
    assert_eq!(after(&deep, &[0x0D, 0xD0]), cycles(F2FromMaximum, 98, Some(0x16)));
}

#[test]
fn a_commit_counted_from_the_maximum_is_never_negative() {
    let config = etm4(&[("commopt", "0")]);
    let packets = decode(&config, &[&ASYNC[..], &[0x0D, 0x35]].concat());
    assert_eq!(packets[1].value, cycles(CycleCountFormat::F2FromMaximum, 0, Some(5)));
}

#[test]
fn timestamps_replace_low_bits() {
    let timestamp = |value, bytes, cycles| Packet::Timestamp(Timestamp { value, bytes, cycles });
    let bytes = [
        &[0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xAB][..],
        &[0x02, 0xD7, 0xDF, 0x01],
        &[0x03, 0x05, 0x85, 0x01],
    ];
    let expected = [
        timestamp(0xABFF_FFFF_FFFF_FFFF, 9, None),
        timestamp(0xABFF_FFFF_FFE0_6FD7, 3, None),
        timestamp(0xABFF_FFFF_FFE0_6F85, 1, Some(133)),
    ];
    assert_eq!(read(&etm4(&[]), &bytes.concat()), expected);
}

#[test]
fn q_packets_count_instructions() {
    let config = etm4(&[("q_elements", "1")]);
    let q = |count, address| Packet::Q(Q { count, address });
    let bytes =
        [0xAA, 0x34, 0x3F, 0x06, 0x00, 0x03, 0xA5, 0x86, 0x1C, 0x03, 0xA1, 0x81, 0x01, 0xAC, 0x07, 0xAF];
    let expected = [
        q(Some(3), Some(address(0x6_7ED0, AddressForm::Long32))),
        q(Some(3), Some(address(0x6_3818, AddressForm::Short2))),
        q(Some(129), Some(address(0x6_7ED0, AddressForm::Exact(1)))),
        q(Some(7), None),
        q(None, None),
    ];
    assert_eq!(read(&config, &bytes), expected);
}

#[test]
fn source_addresses_share_the_history() {
    let bytes = [0xB6, 0x31, 0x03, 0x06, 0x00, 0x9A, 0x3E, 0x58, 0x01, 0x00, 0xB4, 0x48, 0xB2];
    let packets = read(&ete(&[]), &bytes);
    assert_eq!(packets[0], Packet::SourceAddress(address(0x6_06C4, AddressForm::Long32)));
    assert_eq!(packets[2], Packet::SourceAddress(address(0x1_B120, AddressForm::Short1)));
    assert_eq!(packets[3], Packet::SourceAddress(address(0x6_06C4, AddressForm::Exact(2))));
}

#[test]
fn software_values_speculation_transactions_and_markers_are_read() {
    let ite = [0x09, 0x01, 0xFF, 0xFF, 0x0F, 0x00, 0x00, 0x00, 0x00, 0x00];
    let expected = [Packet::Instrumentation { level: 1, value: 0xF_FFFF }];
    assert_eq!(read(&ete(&[("version", "ETE1.3")]), &ite), expected);
    let one = |taken| Packet::Atoms(Atoms::one(taken));
    let expected = [one(false), one(true), Packet::CancelF2(Atoms::NONE), Packet::Commit { count: 1 }];
    assert_eq!(read(&etm4(&[("max_spec", "6")]), &[0xF6, 0xF7, 0x34, 0x2D, 0x01]), expected);
    let both = Packet::Atoms(Atoms { bits: 3, count: 2 });
    let expected = [both, Packet::TransactionStart, Packet::TransactionCommit, Packet::TimestampMarker];
    assert_eq!(read(&ete(&[]), &[0xDB, 0x0A, 0x0B, 0x88]), expected);
}

fn damaged(config: &Config, bytes: &[u8]) -> Vec<(u32, Packet)> {
    let bytes = [&ASYNC[..], bytes].concat();
    decode(config, &bytes)[1..].iter().map(|packet| (packet.length, packet.value)).collect()
}

#[test]
fn bad_packets_leave_the_stream_aligned() {
    let bad = |length, why| (length, Packet::Bad(why));
    let on = (1, Packet::TraceOn);
    let check = |bytes: &[u8], expected: (u32, Packet)| {
        assert_eq!(damaged(&etm4(&[]), &[bytes, &[0x04]].concat()), [expected, on], "{bytes:02x?}");
    };
    check(&[0x84], bad(1, Bad::Reserved));
    check(&[0x20], bad(1, Bad::ReservedByConfiguration));
    check(&[0x40], bad(1, Bad::ReservedByConfiguration));
    check(&[0xA0], bad(1, Bad::NotImplemented));
    check(&[0xB0], bad(1, Bad::NotImplemented));
    check(&[0x00, 0x04], bad(2, Bad::Extension));
    check(&[0x00, 0x00, 0x00, 0x00, 0x13], bad(5, Bad::AsyncLength));
    check(&[0; 12], bad(12, Bad::AsyncLength));
    check(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81], bad(12, Bad::AsyncLength));
    check(&[0x2D, 0x80, 0x80, 0x80, 0x80, 0x80], bad(6, Bad::FieldTooLong));
    check(&[0x0E, 0x80, 0x80, 0x80], bad(4, Bad::FieldTooLong));
    assert_eq!(damaged(&ete(&[]), &[0x07]), [bad(1, Bad::ReservedByConfiguration)]);
}

#[test]
fn each_kind_of_bad_packet_has_a_name() {
    let name = |config: &Config, bytes: &[u8]| damaged(config, bytes)[0].1.name();
    assert_eq!(name(&etm4(&[]), &[0x84]), "I_RESERVED");
    assert_eq!(name(&etm4(&[]), &[0xA0]), "I_RESERVED");
    assert_eq!(name(&etm4(&[]), &[0x20]), "I_RESERVED_CFG");
    assert_eq!(name(&ete(&[]), &[0x07]), "I_RESERVED_CFG");
    assert_eq!(name(&etm4(&[]), &[0, 0, 0, 0, 0x13]), "I_BAD_SEQUENCE");
    assert_eq!(name(&etm4(&[]), &[0, 0, 0]), "I_INCOMPLETE_EOT");
}

#[test]
fn discard_and_overflow_do_not_make_the_decoder_search_for_an_async() {
    let expected = [(2, Packet::Discard), (2, Packet::Overflow), (1, Packet::TraceOn)];
    assert_eq!(damaged(&etm4(&[]), &[0x00, 0x03, 0x00, 0x05, 0x04]), expected);
}

#[test]
fn a_gap_cuts_a_packet_off_and_forgets_the_state() {
    let mut found: Vec<Located<Packet>> = Vec::new();
    let mut decoder = Decoder::new(&etm4(&[]));
    let mut sink = |packet| found.push(packet);
    decoder.feed(&[&ASYNC[..], &THRESHOLD, &[0x9A, 1, 2, 3, 4, 0x9A, 1, 2]].concat(), &mut sink);
    decoder.reset(&mut sink);
    decoder.feed(&[&[0xF7, 0xF7][..], &ASYNC, &[0x95, 0x05, 0x11]].concat(), &mut sink);
    decoder.finish(&mut sink);
    let expected = [
        (21, 3, Packet::Bad(Bad::Incomplete)),
        (24, 2, Packet::Unsynchronised),
        (26, 12, Packet::Async),
        (38, 2, Packet::Address(address(0x14, AddressForm::Short1))),
        (40, 1, cycles(CycleCountFormat::F3, 0, Some(1))),
    ];
    let found: Vec<_> =
        found[3..].iter().map(|packet| (packet.offset, packet.length, packet.value)).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_longest_packet_fits_the_carry_buffer() {
    let mut bytes = std::vec![0x01, 0x9F, 0x80, 0x80, 0x80, 0x00];
    for _ in 0..5 {
        bytes.extend([0xFF, 0xFF, 0xFF, 0xFF, 0x7F]);
    }
    assert_eq!(bytes.len(), super::MAX_PACKET);
    for config in configurations() {
        let bytes = [&ASYNC[..], &bytes].concat();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let packets = super::testing::decode_pieces(&config, &single);
        assert!(matches!(packets[1].value, Packet::TraceInfo(TraceInfo { window: u32::MAX, .. })));
    }
}
