//! Streams of the QEMU plugin: whatever is in them, in whatever pieces, the reader says the same and nothing breaks.
#![no_main]

use backsight_run::Observation;
use backsight_run::qemu::{StreamReader, Summary};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut stream = b"BSQEMU\x00\x01".to_vec();
    stream.extend([choice % 3 + 1, 0, 0, 0, 1, 0, 0, 0]);
    stream.extend_from_slice(rest);
    let whole = read(&stream, stream.len(), rest);
    let pieces = read(&stream, usize::from(choice) + 1, rest);
    assert_eq!(whole, pieces);
});

fn read(stream: &[u8], piece: usize, tail: &[u8]) -> (u64, u64, Summary) {
    let mut reader = StreamReader::new();
    let (mut items, mut sum) = (0, 0u64);
    let mut sink = |item: Observation<'_>| {
        items += 1;
        if let Observation::Code { address, bytes } = item {
            sum = sum.wrapping_add(address.0).wrapping_add(bytes.len() as u64);
        }
    };
    let whole = stream.chunks(piece).try_for_each(|piece| reader.feed(piece, &mut sink));
    if whole.is_ok() {
        let _ = reader.tail(tail, &mut sink);
    }
    let summary = reader.finish(&mut sink);
    (items, sum, summary)
}
