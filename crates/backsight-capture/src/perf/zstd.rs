//! Records that perf compressed. It flushes the stream after each of them and never ends it.

use backsight_core::Budget;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::Read;
use std::ops::ControlFlow;

/// Bytes that are decompressed at a time.
const PIECE: usize = 1 << 20;
/// An empty block that is the last: the end that perf does not write.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// Decompresses what there is, piece by piece, until `take` has enough. What cannot be decompressed is said in words.
pub(super) fn decompress(
    bytes: &[u8],
    budget: &Budget,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), String> {
    let (mut piece, mut decoder) = (Vec::new(), FrameDecoder::new());
    let ended = [bytes, &LAST_BLOCK].concat();
    let mut rest = ended.as_slice();
    while rest.len() > LAST_BLOCK.len() {
        decoder.reset(&mut rest).map_err(|error| error.to_string())?;
        while !decoder.is_finished() {
            let decoded = decoder.decode_blocks(&mut rest, BlockDecodingStrategy::UptoBytes(PIECE));
            piece.clear();
            let _ = decoder.read_to_end(&mut piece);
            budget.take(piece.len() as u64).map_err(|why| format!("the rest is left out: {why}"))?;
            if take(&piece).is_break() {
                return Ok(());
            }
            decoded.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
