//! STM bytes to packets, back to bytes, to events and to messages; in one piece and in two.
#![no_main]

use backsight::Event;
use backsight::messages::Messages;
use backsight_arm::stm::{Content, Decoder, Encoder, Packet};
use backsight_core::Located;
use backsight_flow::stm::Follower;

fn decode(pieces: [&[u8]; 2]) -> Vec<Located<Packet>> {
    let (mut decoder, mut packets) = (Decoder::new(), Vec::new());
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut |packet| packets.push(packet)));
    decoder.finish(&mut |packet| packets.push(packet));
    let bytes = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    assert_eq!(decoder.accounting().total(), bytes);
    packets
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    // Few inputs find synchronisation by themselves.
    let sync = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
    let trace = [if first & 1 == 0 { &sync[..] } else { &[] }, rest].concat();
    let packets = decode([&trace, &[]]);
    assert_eq!(decode(trace.split_at(usize::from(first) % (trace.len() + 1)).into()), packets);
    let (mut follower, mut messages, mut lengths) = (Follower::new(), Messages::new(), 0);
    let (mut encoder, mut bytes, mut sent) = (Encoder::new(), Vec::new(), Vec::new());
    for packet in &packets {
        follower.push(*packet, &mut |event: Located<Event>| {
            if let Event::Software(written) = event.value {
                messages.push(0, &written, None, event.offset, &mut |message| lengths += message.bytes.len());
            }
        });
        // After damage nothing is certain until the next ASYNC.
        let is_async = matches!(packet.value.content, Content::Async { .. });
        if (is_async || !sent.is_empty()) && encoder.put(&packet.value, &mut bytes) {
            sent.push(Packet { begins_in_high_nibble: false, ..packet.value });
        }
    }
    follower.finish(&mut |_| ());
    messages.finish(&mut |message| lengths += message.bytes.len());
    assert!(lengths <= 8 * packets.len());
    encoder.finish(&mut bytes);
    let again: Vec<Packet> = decode([&bytes, &[]])
        .iter()
        .map(|packet| Packet { begins_in_high_nibble: false, ..packet.value })
        .collect();
    let is_same = |(one, other): (&Packet, &Packet)| match (one.content, other.content) {
        (Content::Async { .. }, Content::Async { .. }) => true,
        _ => one == other,
    };
    // What fills up the last byte reads as a packet.
    assert!(again.len() - sent.len() <= 1 && again.iter().zip(&sent).all(is_same), "{again:?} {sent:?}");
});
