//! Records that perf compressed. It flushes the stream after each of them and never ends it.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::Read;

/// Bytes that compressed records expand to at most.
const MOST: usize = 1 << 30;
/// Bytes that are decompressed at a time.
const PIECE: usize = 1 << 20;
/// An empty block that is the last: the end that perf does not write.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// Decompresses what there is. What cannot be decompressed is said in words.
pub(super) fn decompress(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
    let (mut records, mut decoder) = (Vec::new(), FrameDecoder::new());
    let ended = [bytes, &LAST_BLOCK].concat();
    let mut rest = ended.as_slice();
    while rest.len() > LAST_BLOCK.len() {
        if let Err(error) = decoder.reset(&mut rest) {
            return (records, Some(error.to_string()));
        }
        while !decoder.is_finished() {
            let decoded = decoder.decode_blocks(&mut rest, BlockDecodingStrategy::UptoBytes(PIECE));
            let room = (MOST - records.len()) as u64;
            let _ = Read::take(&mut decoder, room).read_to_end(&mut records);
            if records.len() >= MOST {
                return (records, Some(format!("expand to more than {MOST} bytes: the rest is left out")));
            }
            if let Err(error) = decoded {
                return (records, Some(error.to_string()));
            }
        }
    }
    (records, None)
}
