//! ETMv4 and ETE packets: any bytes in any configuration. The first bytes choose the configuration and the cuts,
//! the rest is the stream.
#![no_main]

use backsight_arm::etm4::{Config, Decoder, Encoder, InstructionSet, Packet, packets};
use backsight_core::Located;

fn config(bytes: [u8; 4]) -> Config {
    let mut config = if bytes[0] & 1 == 0 { Config::etm4_default() } else { Config::ete_default() };
    config.registers.idr0 ^=
        u32::from(bytes[1]) << 24 | u32::from(bytes[2]) << 9 | u32::from(bytes[0] & 0xF8);
    config.registers.configr ^= u32::from(bytes[2]) << 8 | u32::from(bytes[3]) << 10;
    config.registers.idr1 ^= u32::from(bytes[3] & 7) << 4;
    config.registers.idr2 ^= u32::from(bytes[3] >> 3) << 8;
    config.registers.idr8 = u32::from(bytes[1]);
    config
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&start, rest)) = data.split_first_chunk() else { return };
    let Some((&cut, bytes)) = rest.split_first() else { return };
    let config = config(start);
    // Random bytes hardly ever hold an Async: one comes first, unless the search for it is to be tried.
    let sync: &[u8] = if start[0] & 2 == 0 { &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80] } else { &[] };
    let bytes = &[sync, bytes].concat()[..];
    let whole: Vec<Located<Packet>> = packets(&config, bytes).collect();
    // Every set of vector instructions that the processor has must read the same.
    let set = InstructionSet::ALL[usize::from(start[0] >> 6)];
    let mut decoder = Decoder::new(&config).with_instructions(set);
    let mut at = 0;
    let mut sink = |packet| {
        assert_eq!(whole.get(at), Some(&packet), "packets depend on how the stream is cut");
        at += 1;
    };
    // Short pieces never reach the fast engine, long ones do, some with several of its regions.
    let piece = if cut & 1 == 0 { usize::from(cut) % 37 + 1 } else { usize::from(cut) * 17 };
    for (number, piece) in bytes.chunks(piece).enumerate() {
        if number % 2 == usize::from(cut >> 1 & 1) {
            decoder.feed(piece, &mut sink);
        } else {
            decoder.feed_batches(piece, &mut |batch| batch.for_each(&mut sink));
        }
    }
    decoder.finish(&mut sink);
    assert_eq!(decoder.accounting().total(), bytes.len() as u64, "a byte is not accounted for");

    let mut encoder = Encoder::new(&config);
    let mut again = Vec::new();
    let good: Vec<Packet> = whole
        .iter()
        .map(|packet| packet.value)
        .filter(|packet| !matches!(packet, Packet::Bad(_) | Packet::Unsynchronised))
        .collect();
    for packet in &good {
        again.extend_from_slice(encoder.encode(packet).expect("a packet that was read can be written"));
    }
    assert!(packets(&config, &again).map(|packet| packet.value).eq(good), "written packets read differently");
});
