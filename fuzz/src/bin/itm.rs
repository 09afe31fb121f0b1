//! ITM bytes to packets, back to bytes, and to events; in one piece and in two.
#![no_main]

use backsight_arm::itm::{Config, Decoder, Encoder, Packet};
use backsight_core::Located;
use backsight_flow::itm::Follower;

fn decode(config: &Config, pieces: [&[u8]; 2]) -> Vec<Located<Packet>> {
    let (mut decoder, mut packets) = (Decoder::new(config), Vec::new());
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut |packet| packets.push(packet)));
    decoder.finish(&mut |packet| packets.push(packet));
    let bytes = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    assert_eq!(decoder.accounting().total(), bytes);
    packets
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, trace)) = data.split_first() else { return };
    let config = Config { synchronises: first & 1 == 0, ..Config::default() };
    let packets = decode(&config, [trace, &[]]);
    let split = usize::from(first) % (trace.len() + 1);
    assert_eq!(decode(&config, trace.split_at(split).into()), packets);
    let (mut follower, mut events) = (Follower::new(&config), 0u64);
    for packet in &packets {
        follower.push(*packet, &mut |_| events += 1);
        let mut bytes = Vec::new();
        if Encoder::new().put(&packet.value, &mut bytes) {
            let plain = Config { synchronises: false, ..config };
            let again: Vec<Packet> =
                decode(&plain, [&bytes, &[]]).iter().map(|packet| packet.value).collect();
            assert_eq!(again, [packet.value]);
        }
    }
    follower.finish(&mut |_| events += 1);
    assert!(events >= 2);
});
