//! Any bytes in any framing and chunking: every byte is accounted for, and the chunking does not matter.
#![no_main]

use backsight_core::Located;
use backsight_riscv::encap::{Deframer, Encapsulation, Frame, Framing};

fn run(deframer: &mut Deframer, bytes: &[u8], chunk: usize) -> Vec<(u64, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut sink = |frame: Located<Frame<'_>>| {
        let payload = match frame.value {
            Frame::Packet(message) => message.payload.to_vec(),
            _ => Vec::new(),
        };
        frames.push((frame.offset, frame.length, payload));
    };
    for piece in bytes.chunks(chunk) {
        deframer.feed(piece, &mut sink);
    }
    deframer.finish(&mut sink);
    assert_eq!(deframer.accounting().total(), bytes.len() as u64);
    frames
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [a, b, chunk, bytes @ ..] = data else { return };
    let framing = match a % 5 {
        0 => Framing::Reference { hart_bits: b % 17 },
        1 => Framing::Esp32,
        2 => Framing::Pulp,
        _ => Framing::Standard(Encapsulation {
            source_bits: b % 17,
            time_bytes: a >> 4 & 7,
            type_bits: b >> 5,
        }),
    };
    let deframer = if a & 0x80 != 0 { Deframer::unsynchronised(framing) } else { Deframer::new(framing) };
    let whole = run(&mut deframer.clone(), bytes, bytes.len().max(1));
    let pieces = run(&mut deframer.clone(), bytes, usize::from(*chunk).max(1));
    assert_eq!(whole, pieces);
});
