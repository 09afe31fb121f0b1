//! Keys of rows, as pages hold them.

use super::bits::{put_packed_by, put_run, put_varint};
use super::dictionary::NONE;
use super::flags::Ranks;
use super::repeats::Repeat;
use super::snappy::Block;

/// Which rows of a page have a value.
#[derive(Clone, Copy)]
pub(super) enum Present<'p> {
    All,
    None,
    /// Those of runs whose values are there.
    Runs,
    /// Those whose bits are set.
    Bits(&'p [u8]),
}

/// Bytes that keys of so many bits take.
pub(super) const fn bytes_of(width: u32) -> usize {
    width.div_ceil(8) as usize
}

/// Keys by number of the block, and how many bits they have.
pub(super) type KeysOfBlocks<'k> = (&'k [u32], u32);

/// Writes the keys of rows with these blocks in as few bits as they need.
pub(super) fn put_packed(
    (keys, width): KeysOfBlocks<'_>,
    blocks: &[u32],
    present: Present<'_>,
    out: &mut Vec<u8>,
) {
    match present {
        Present::All => put_packed_by(blocks, width, |block| keys[block as usize].into(), out),
        _ => {
            let known = blocks.iter().map(|&block| keys[block as usize]).filter(|key| *key != NONE);
            put_packed_by(&known.collect::<Vec<_>>(), width, u64::from, out);
        }
    }
}

/// Writes the keys of rows with these blocks in whole bytes, of which those of rows that repeat others are copied. Some of the
/// rows, or all, have a key: so many.
pub(super) fn put_repeated(
    (keys, width): KeysOfBlocks<'_>,
    blocks: &[u32],
    repeats: &[Repeat],
    present: (Present<'_>, usize),
    block: &mut Block,
) {
    match bytes_of(width) {
        0 | 1 => put_repeated_bytes::<1>(keys, blocks, repeats, present, block),
        2 => put_repeated_bytes::<2>(keys, blocks, repeats, present, block),
        3 => put_repeated_bytes::<3>(keys, blocks, repeats, present, block),
        _ => put_repeated_bytes::<4>(keys, blocks, repeats, present, block),
    }
}

/// The same with keys of so many bytes.
fn put_repeated_bytes<const BYTES: usize>(
    keys: &[u32],
    blocks: &[u32],
    repeats: &[Repeat],
    (present, known): (Present<'_>, usize),
    block: &mut Block,
) {
    let mut header = vec![8 * BYTES as u8];
    put_varint((known.div_ceil(8) as u64) << 1 | 1, &mut header);
    block.bytes(&header);
    let ranks = match present {
        Present::Bits(bits) => Some(Ranks::new(bits)),
        _ => None,
    };
    // Rows that have no value have no key. Rows that repeat others have values where those have them.
    let keys_before = |row: usize| ranks.as_ref().map_or(row, |ranks| ranks.of(row));
    let (mut row, mut written) = (0, 0);
    for repeat in repeats {
        let new = &blocks[row..row + repeat.new as usize];
        row += new.len();
        let end = keys_before(row);
        let out = block.literal((end - written) * BYTES);
        put_whole::<BYTES>(new, keys, ranks.is_some(), out);
        let offset = end - keys_before(row - repeat.distance as usize);
        row += repeat.length as usize;
        written = keys_before(row);
        block.copy(offset * BYTES, (written - end) * BYTES);
    }
    block.bytes(&vec![0; (known.next_multiple_of(8) - known) * BYTES]);
}

/// Writes the keys of rows with these blocks in whole bytes. Some may have none.
fn put_whole<const BYTES: usize>(blocks: &[u32], keys: &[u32], has_gaps: bool, out: &mut Vec<u8>) {
    let bytes = |key: u32| {
        let mut bytes = [0; BYTES];
        bytes.iter_mut().zip(key.to_le_bytes()).for_each(|(byte, of_key)| *byte = of_key);
        bytes
    };
    if has_gaps {
        for key in blocks.iter().map(|&block| keys[block as usize]).filter(|key| *key != NONE) {
            out.extend_from_slice(&bytes(key));
        }
    } else {
        let start = out.len();
        out.resize(start + blocks.len() * BYTES, 0);
        let places = out[start..].as_chunks_mut::<BYTES>().0;
        places.iter_mut().zip(blocks).for_each(|(place, &block)| *place = bytes(keys[block as usize]));
    }
}

/// Writes keys that come many times in a row.
pub(super) fn put_runs(runs: impl Iterator<Item = (u32, usize)>, width: u32, out: &mut Vec<u8>) {
    let mut last = (NONE, 0);
    for (key, length) in runs.filter(|(_, length)| *length > 0) {
        if key != last.0 {
            put_known_run(last, width, out);
            last = (key, 0);
        }
        last.1 += length;
    }
    put_known_run(last, width, out);
}

fn put_known_run((key, length): (u32, usize), width: u32, out: &mut Vec<u8>) {
    if length > 0 {
        put_run(key.into(), length, width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{flags, repeats};
    use super::*;

    /// The keys of rows, of any width and with any of them missing, are those that come out again.
    #[test]
    fn repeated_keys_are_those_of_the_rows() {
        let mut random = backsight_testing::Random(5);
        for width in 1..=32 {
            for missing in [0, 1, 4] {
                let body: Vec<u32> = (0..50).map(|_| random.below(30) as u32).collect();
                let blocks = [body.repeat(7), vec![3; 100], body].concat();
                let keys: Vec<u32> = (0..30)
                    .map(|_| {
                        if random.below(5) < missing {
                            NONE
                        } else {
                            random.below(1 << width) as u32 & !(1 << 31)
                        }
                    })
                    .collect();
                let known: Vec<u32> =
                    blocks.iter().map(|&block| keys[block as usize]).filter(|key| *key != NONE).collect();
                let has_key: Vec<bool> = keys.iter().map(|key| *key != NONE).collect();
                let bits = flags::spread(&blocks, &flags::table(&[&has_key]), 1);
                let present = if missing > 0 { Present::Bits(&bits[0]) } else { Present::All };
                let repeats = repeats::find(&blocks, 1000);
                let mut block = Block::default();
                put_repeated((&keys, width), &blocks, &repeats, (present, known.len()), &mut block);
                let (compressed, length) = block.finish();
                let page = snap::raw::Decoder::new().decompress_vec(&compressed).unwrap();
                let bytes = bytes_of(width);
                assert_eq!((page.len(), page[0] as usize), (length, 8 * bytes));
                let mut header = Vec::new();
                put_varint((known.len().div_ceil(8) as u64) << 1 | 1, &mut header);
                let (found, written) = page[1..].split_at(header.len());
                assert_eq!(
                    (found, written.len()),
                    (header.as_slice(), known.len().next_multiple_of(8) * bytes)
                );
                let number =
                    |key: &[u8]| key.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
                let found: Vec<u32> = written.chunks(bytes).take(known.len()).map(number).collect();
                assert_eq!(found, known, "{width} {missing}");
            }
        }
    }
}
