//! Streams of the QEMU plugin: whatever is in them, in whatever pieces, the reader says the same and nothing breaks.
#![no_main]

use backsight_core::{Execution, Retired};
use backsight_run::Observation;
use backsight_run::qemu::{StreamReader, Summary};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut stream = b"BSQEMU\x00\x01".to_vec();
    stream.extend([choice % 3 + 1, 0, 0, 0, 1, 0, 0, 0]);
    stream.extend_from_slice(rest);
    let all_at_once = read(StreamReader::new(), &stream, stream.len(), rest);
    let pieces = read(StreamReader::new(), &stream, usize::from(choice) + 1, rest);
    assert_eq!(all_at_once, pieces);
    let blocks = read(StreamReader::with_blocks(), &stream, stream.len(), rest);
    assert_eq!(all_at_once, blocks);
});

/// How many items there are, a sum over code and instructions, and what the reader says of it all.
fn read(mut reader: StreamReader, stream: &[u8], piece: usize, tail: &[u8]) -> (u64, u64, Summary) {
    let (mut items, mut sum, mut code) = (0, 0u64, 0u64);
    let mut instruction = |retired: Retired| {
        let taken = u64::from(retired.taken);
        sum = sum.rotate_left(1) ^ retired.address.0 ^ retired.next.0.rotate_left(20) ^ taken;
    };
    let mut sink = |item: Observation<'_>| {
        items += 1;
        match item {
            Observation::Execution(Execution::Instruction(retired)) => instruction(retired),
            Observation::Blocks(blocks) => {
                items += blocks.count() - 1;
                blocks.iter().flat_map(|block| block.instructions()).for_each(&mut instruction);
            }
            Observation::Code { address, bytes } => {
                code = code.wrapping_add(address.0).wrapping_add(bytes.len() as u64)
            }
            _ => {}
        }
    };
    let fed = stream.chunks(piece).try_for_each(|piece| reader.feed(piece, &mut sink));
    if fed.is_ok() {
        let _ = reader.tail(tail, &mut sink);
    }
    let summary = reader.finish(&mut sink);
    (items, sum.wrapping_add(code), summary)
}
