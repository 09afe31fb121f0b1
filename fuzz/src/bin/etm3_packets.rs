//! ETMv3 packets: any bytes in any configuration. The first bytes choose the configuration and the cuts, the rest is the
//! stream.
#![no_main]

use backsight_arm::etm3::{Config, Decoder, Encoder, Packet, packets};
use backsight_core::Located;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[flags, context, ccer, cut], bytes)) = data.split_first_chunk() else { return };
    let mut config = Config::default();
    config.registers.cr =
        u32::from(flags & 1) << 12 | u32::from(context & 3) << 14 | u32::from(context & 0x1C);
    config.registers.cr |= u32::from(context >> 7) << 20;
    config.registers.set_minor((flags >> 4 & 7).min(5));
    config.registers.ccer = u32::from(ccer) << 22;
    config.registers.idr ^= u32::from(ccer & 1) << 20;
    // Random bytes hardly ever hold an A-sync: one comes first, unless the search for it is to be tried.
    let sync: &[u8] = if flags & 0x80 == 0 { &[0, 0, 0, 0, 0, 0x80] } else { &[] };
    let bytes = &[sync, bytes].concat()[..];
    let mut all: Vec<Located<Packet>> = Vec::new();
    packets(&config, bytes, &mut |packet| all.push(packet));
    let mut decoder = Decoder::new(&config);
    let mut at = 0;
    let mut sink = |packet| {
        assert_eq!(all.get(at), Some(&packet), "packets depend on how the stream is cut");
        at += 1;
    };
    bytes.chunks(usize::from(cut) % 37 + 1).for_each(|piece| decoder.feed(piece, &mut sink));
    decoder.finish(&mut sink);
    assert_eq!(decoder.accounting().total(), bytes.len() as u64, "a byte is not accounted for");

    // Up to the first bytes that are no packet, after which addresses are unknown.
    let mut encoder = Encoder::new(&config);
    let mut again = Vec::new();
    let is_good =
        |packet: &&Located<Packet>| !matches!(packet.value, Packet::Bad(_) | Packet::Unsynchronised);
    let good: Vec<Packet> = all.iter().take_while(is_good).map(|packet| packet.value).collect();
    for packet in &good {
        again.extend_from_slice(encoder.encode(packet).expect("a packet that was read can be written"));
    }
    let mut reread = Vec::new();
    packets(&config, &again, &mut |packet| reread.push(packet.value));
    assert!(reread == good, "written packets read differently");
});
