//! Any bytes as a compressed trace.

#![no_main]

use backsight_squeeze::container::Reader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(mut reader) = Reader::new(data, None) else { return };
    let mut count = 0u64;
    // A few bytes can stand for many instructions: a few chunks are enough.
    for _ in 0..4 {
        if !matches!(reader.next_chunk(&mut |_| count += 1), Ok(true)) {
            break;
        }
    }
});
