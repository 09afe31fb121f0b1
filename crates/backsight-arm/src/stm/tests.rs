use super::*;
use backsight_core::{Accounting, Located};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const ASYNC: Content = Content::Async { found: false };

fn decode(pieces: &[&[u8]]) -> (Vec<Located<Packet>>, Accounting) {
    let (mut decoder, mut packets) = (Decoder::new(), Vec::new());
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut |packet: Located<Packet>| packets.push(packet)));
    decoder.finish(&mut |packet: Located<Packet>| packets.push(packet));
    (packets, decoder.accounting())
}

fn bytes_of(nibbles: &[u8]) -> Vec<u8> {
    nibbles.chunks(2).map(|pair| pair[0] | pair.get(1).copied().unwrap_or(0) << 4).collect()
}

fn contents(nibbles: &[u8]) -> Vec<Content> {
    let bytes = bytes_of(nibbles);
    decode(&[&bytes]).0.iter().map(|packet| packet.value.content).collect()
}

fn sync() -> Vec<u8> {
    [vec![0xF; 21], vec![0]].concat()
}

fn any_time() -> impl Strategy<Value = Option<SentTime>> {
    let nibbles = prop_oneof![0..=12u8, Just(14), Just(16)];
    proptest::option::of((nibbles, any::<u64>()).prop_map(|(nibbles, value)| {
        let value = if nibbles == 0 { 0 } else { value >> (64 - 4 * u32::from(nibbles)) };
        SentTime { nibbles, value }
    }))
}

fn any_content() -> impl Strategy<Value = (Content, bool)> {
    let data = (0..5u32, any::<u64>(), any::<bool>()).prop_map(|(size, value, marked)| {
        let nibbles = 1u8 << size;
        Content::Data { value: value >> (64 - 4 * u32::from(nibbles)), nibbles, marked }
    });
    prop_oneof![
        data.prop_map(|content| (content, true)),
        Just((Content::Null, true)),
        Just((Content::Flag, true)),
        any::<u8>().prop_map(|value| (Content::Trigger(value), true)),
        any::<u32>().prop_map(|value| (Content::Frequency(value), true)),
        any::<u64>().prop_map(|value| (Content::Frequency40(value >> 24), true)),
        any::<u8>().prop_map(|value| (Content::CrossSync(value), true)),
        any::<u8>().prop_map(|value| (Content::Master8(value), false)),
        any::<u16>().prop_map(|value| (Content::Master16(value), false)),
        any::<u8>().prop_map(|value| (Content::Channel8(value), false)),
        any::<u16>().prop_map(|value| (Content::Channel16(value), false)),
        any::<u8>().prop_map(|value| (Content::MasterError(value), false)),
        any::<u8>().prop_map(|value| (Content::GlobalError(value), false)),
        (2..=4u8).prop_map(|value| (Content::Version { value, more: None }, false)),
        (2..=4u8, any::<u8>())
            .prop_map(|(value, more)| (Content::Version { value: value | 8, more: Some(more) }, false)),
        Just((ASYNC, false)),
    ]
}

fn any_packet() -> impl Strategy<Value = Packet> {
    (any_content(), any_time()).prop_map(|((content, may_be_timed), time)| Packet {
        content,
        time: time.filter(|_| may_be_timed),
        begins_in_high_nibble: false,
    })
}

fn encoded(packets: &[Packet]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
    for packet in packets {
        assert!(encoder.put(packet, &mut bytes), "{packet:?}");
    }
    encoder.finish(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(more in proptest::collection::vec(any_packet(), 0..30)) {
        let mut all = vec![Packet::new(Content::Async { found: true })];
        all.extend(more);
        let bytes = encoded(&all);
        let (decoded, accounting) = decode(&[&bytes]);
        let sent = |packet: &Located<Packet>| Packet { begins_in_high_nibble: false, ..packet.value };
        let mut decoded: Vec<Packet> = decoded.iter().map(sent).collect();
        // What fills up the last byte reads as a packet.
        if decoded.len() > all.len() {
            prop_assert_eq!(decoded.pop(), Some(Packet::new(Content::Null)));
        }
        prop_assert_eq!(decoded, all);
        prop_assert_eq!(accounting.decoded, bytes.len() as u64);
    }

    #[test]
    fn any_split_gives_the_same_and_every_byte_is_accounted_for(
        good in proptest::collection::vec(any_packet(), 0..8),
        noise in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xFFu8)], 0..60),
        splits in proptest::collection::vec(any::<u8>(), 0..6),
    ) {
        let good = [vec![Packet::new(ASYNC)], good].concat();
        let bytes = [encoded(&good), noise, encoded(&good)].concat();
        let mut cuts: Vec<usize> = splits.iter().map(|&at| usize::from(at) % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let expected = decode(&[&bytes]);
        prop_assert_eq!(&decode(&pieces), &expected);
        let one: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&decode(&one), &expected);
        prop_assert_eq!(expected.1.total(), bytes.len() as u64);
        let mut end = 0;
        for packet in &expected.0 {
            let shares = u64::from(packet.value.begins_in_high_nibble);
            prop_assert_eq!(packet.offset + shares, end);
            end = packet.end();
        }
        prop_assert_eq!(end, bytes.len() as u64);
    }
}

proptest! {
    #[test]
    fn packets_that_are_read_at_once_are_what_their_nibbles_give(
        packets in proptest::collection::vec(any_packet(), 20..60),
        first in 0..2usize,
        damaged in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        cut in any::<usize>(),
    ) {
        // Half of the streams are one nibble later, so that every packet is met in both halves of a byte.
        let late = vec![Packet::new(Content::Null); first];
        let mut bytes = encoded(&[vec![Packet::new(ASYNC)], late, packets].concat());
        let size = bytes.len();
        damaged.iter().for_each(|(at, byte)| bytes[at % size] = *byte);
        let one_by_one: Vec<&[u8]> = bytes.chunks(1).collect();
        let expected = decode(&one_by_one);
        prop_assert_eq!(&decode(&[&bytes]), &expected);
        let (before, after) = bytes.split_at(cut % size);
        prop_assert_eq!(&decode(&[before, after]), &expected);
    }

    #[test]
    fn damage_changes_nothing_before_it_and_nothing_from_the_next_synchronisation_on(
        before in proptest::collection::vec(any_packet(), 1..20),
        after in proptest::collection::vec(any_packet(), 1..20),
        at in any::<usize>(),
        replacement in proptest::collection::vec(any::<u8>(), 0..6),
    ) {
        let begin = vec![Packet::new(ASYNC)];
        let sound = encoded(&[begin.clone(), before].concat());
        let tail = encoded(&[begin, after].concat());
        let at = 11 + at % (sound.len() - 10);
        let damaged = [&sound[..at], &replacement, &tail].concat();
        let (expected, _) = decode(&[&sound]);
        let (found, accounting) = decode(&[&damaged]);
        let whole = expected.iter().filter(|packet| packet.end() <= at as u64).count();
        // The last of them may share its last byte with what is damaged.
        let whole = whole.saturating_sub(1);
        prop_assert_eq!(&found[..whole], &expected[..whole]);
        let from = (damaged.len() - tail.len()) as u64;
        let content = |packet: &Located<Packet>| match packet.value.content {
            Content::Async { .. } => (packet.length, ASYNC, None),
            content => (packet.length, content, packet.value.time),
        };
        let is_after = |packet: &&Located<Packet>| packet.offset >= from && !packet.value.begins_in_high_nibble;
        let first = found.iter().position(|packet| is_after(&packet)).unwrap_or(0);
        let again: Vec<_> = found[first..].iter().map(content).collect();
        prop_assert_eq!(again, decode(&[&tail]).0.iter().map(content).collect::<Vec<_>>());
        prop_assert_eq!(accounting.total(), damaged.len() as u64);
    }
}

#[test]
fn the_nibbles_of_the_reference_are_read_as_it_says() {
    let data = |value, nibbles, marked| Content::Data { value, nibbles, marked };
    let nibbles = [
        sync(),
        vec![0xF, 0, 0, 3],
        vec![0xF, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0],
        vec![1, 4, 1, 3, 0, 5],
        vec![0xF, 0xA, 1, 0, 0, 0, 0, 0, 0, 5],
        vec![6, 0xF, 0xF, 0xF, 0xF, 0xF, 0xF, 0xC, 0, 0xF, 0xE],
        vec![0xF, 6, 0, 0, 3, 0xD, 7, 0xA, 7, 4, 0xE],
        vec![0; 16],
        vec![0xF, 6, 0xF, 0xF, 0xF, 0xF, 0xF, 0xF, 0xC, 0, 1, 0],
    ]
    .concat();
    let expected = [
        Content::Async { found: true },
        Content::Version { value: 3, more: None },
        Content::Frequency(0),
        Content::Master8(0x41),
        Content::Channel8(5),
        data(0x1000_0005, 8, true),
        data(0xFFFF_FFC0, 8, false),
        Content::Flag,
        data(0x003D_7A74, 8, false),
        data(0xFFFF_FFC0, 8, false),
    ];
    assert_eq!(contents(&nibbles)[..expected.len()], expected);
}

#[test]
fn bytes_of_packets_that_share_one_are_located_in_both() {
    let bytes = bytes_of(&[sync(), vec![4, 1, 2, 4, 3, 4]].concat());
    let (packets, _) = decode(&[&bytes]);
    let places: Vec<_> =
        packets.iter().map(|p| (p.offset, p.length, p.value.begins_in_high_nibble)).collect();
    assert_eq!(places, [(0, 11, false), (11, 2, false), (12, 2, true)]);
}

#[test]
fn synchronisation_is_found_at_any_nibble_and_ends_whatever_was_under_way() {
    let found = contents(&[vec![1, 2, 3], sync(), vec![0xC, 7]].concat());
    let nibble = Content::Data { value: 7, nibbles: 1, marked: false };
    assert_eq!(found, [Content::Unsynchronised, Content::Async { found: true }, nibble, Content::Null]);
    // In the middle of a D64, whose nibbles are ones too.
    let cut = contents(&[sync(), vec![7, 1, 0xF, 0xF], sync()].concat());
    assert_eq!(cut, [Content::Async { found: true }, Content::Bad(Bad::Interrupted), ASYNC]);
    // After data of ones.
    let after = contents(&[sync(), vec![4, 0xF, 0xF], sync(), vec![0xC, 7, 0]].concat());
    let ones = Content::Data { value: 0xFF, nibbles: 2, marked: false };
    assert_eq!(after[..4], [Content::Async { found: true }, ones, ASYNC, nibble]);
}

#[test]
fn nibbles_that_mean_nothing_are_reported() {
    for (nibbles, why) in [
        (vec![0xF, 0, 2], Bad::Reserved),
        (vec![0xF, 0, 0xC], Bad::Reserved),
        (vec![0xF, 0, 0xF, 9], Bad::Reserved),
        (vec![0xE, 0xF], Bad::TimeLength),
        (vec![0xF, 0, 0, 5], Bad::Version),
        (vec![0xF, 0xF, 0xF, 1], Bad::Sync),
        (vec![0xF, 0xF, 0xF, 0], Bad::Sync),
        (vec![6, 1, 2, 3], Bad::Incomplete),
    ] {
        assert_eq!(
            contents(&[sync(), nibbles.clone()].concat()).get(1),
            Some(&Content::Bad(why)),
            "{nibbles:x?}"
        );
    }
}

#[test]
fn versions_change_how_timestamps_and_fields_are_sent() {
    let legacy = [sync(), vec![0xF, 0, 0, 1, 0xE, 1, 2, 0]].concat();
    let (packets, _) = decode(&[&bytes_of(&legacy)]);
    assert_eq!(packets[2].value.time, Some(SentTime { nibbles: 2, value: 0x12 }));
    let lowest_first = [sync(), vec![0xF, 0, 0, 0xB, 8, 1, 5, 1, 2, 3, 4]].concat();
    assert_eq!(
        contents(&lowest_first).get(2),
        Some(&Content::Data { value: 0x4321, nibbles: 4, marked: false })
    );
}
