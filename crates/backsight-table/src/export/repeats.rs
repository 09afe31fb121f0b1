//! Rows that come again.
//!
//! Programs run in loops: most rows of a page repeat rows a little before them, in every column that depends on nothing but the
//! block of a row. So repetitions are searched for once, among the numbers of blocks, and not in the bytes of each column. A
//! column is then compressed by writing the values of the few rows that are new, and where the others are copied from.

/// New rows, and rows after them that repeat those so many rows before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    /// Rows that are new.
    pub new: u32,
    /// Rows that are not.
    pub length: u32,
    /// How far back they are repeated from. It may be less than the length: then rows that were just repeated are repeated again.
    pub distance: u32,
}

/// Rows that are looked up together; fewer are not worth a copy.
const LEAST: usize = 4;

/// Bits of the number of a slot. The table of slots stays in the nearest cache.
const SLOT_BITS: u32 = 12;

/// After so many rows without a repetition, rows are skipped: the more, the longer there was none.
const PATIENCE: usize = 32;

#[inline]
fn slot(rows: &[u32; LEAST]) -> usize {
    let &[a, b, c, d] = rows;
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let low = two(a, b).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let high = two(c, d).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    ((low ^ high.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOT_BITS)) as usize
}

/// How many numbers two lists begin with that are the same.
#[inline]
fn common(one: &[u32], other: &[u32]) -> usize {
    const LANES: usize = 8;
    let lanes = one.as_chunks::<LANES>().0.iter().zip(other.as_chunks::<LANES>().0);
    let same = lanes.take_while(|(one, other)| one == other).count() * LANES;
    let rest = one.iter().zip(other).skip(same);
    same + rest.take_while(|(one, other)| one == other).count()
}

/// How many numbers two lists end with that are the same.
#[inline]
fn common_end(one: &[u32], other: &[u32]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

/// Finds what rows with these blocks repeat of those at most so many rows before.
pub(super) fn find(blocks: &[u32], most_distance: usize) -> Vec<Repeat> {
    let mut last_seen = vec![0_u32; 1 << SLOT_BITS];
    let mut repeats = Vec::new();
    let (mut at, mut done, mut misses) = (0, 0, 0);
    while let Some((rows, after)) = blocks.get(at..).and_then(<[u32]>::split_first_chunk::<LEAST>) {
        let before = std::mem::replace(&mut last_seen[slot(rows)], at as u32) as usize;
        let distance = at - before;
        if distance == 0 || distance > most_distance || blocks[before..].first_chunk() != Some(rows) {
            misses += 1;
            at += 1 + misses / PATIENCE;
            continue;
        }
        let earlier = common_end(&blocks[done..at], &blocks[..before]);
        let later = LEAST + common(after, &blocks[before + LEAST..]);
        repeats.push(Repeat {
            new: (at - earlier - done) as u32,
            length: (earlier + later) as u32,
            distance: distance as u32,
        });
        at += later;
        (done, misses) = (at, 0);
    }
    if done < blocks.len() {
        repeats.push(Repeat { new: (blocks.len() - done) as u32, length: 0, distance: 0 });
    }
    repeats
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expand(blocks: &[u32], repeats: &[Repeat], most_distance: usize) -> Vec<u32> {
        let mut rows = Vec::new();
        for &Repeat { new, length, distance } in repeats {
            rows.extend_from_slice(&blocks[rows.len()..rows.len() + new as usize]);
            assert!(distance as usize <= most_distance);
            (0..length).for_each(|_| rows.push(rows[rows.len() - distance as usize]));
        }
        rows
    }

    proptest! {
        /// Of few blocks, so that much is repeated, in loops of loops.
        #[test]
        fn what_is_repeated_is_what_was_there(
            loops in prop::collection::vec((prop::collection::vec(0..9_u32, 0..20), 0..30_usize), 0..40),
            most_distance in 1..200_usize,
        ) {
            let blocks: Vec<u32> = loops.iter().flat_map(|(body, times)| body.repeat(*times)).collect();
            let repeats = find(&blocks, most_distance);
            prop_assert_eq!(expand(&blocks, &repeats, most_distance), blocks);
        }
    }

    #[test]
    fn a_loop_is_new_once() {
        let body: Vec<u32> = (0..100).collect();
        assert_eq!(find(&body.repeat(50), 1000), [Repeat { new: 100, length: 4900, distance: 100 }]);
        assert_eq!(find(&[7; 1000], 1000), [Repeat { new: 1, length: 999, distance: 1 }]);
        assert_eq!(find(&[], 1000), []);
        assert_eq!(find(&body, 1000), [Repeat { new: 100, length: 0, distance: 0 }]);
        // Too far away.
        assert_eq!(find(&body.repeat(2), 99), [Repeat { new: 200, length: 0, distance: 0 }]);
    }
}
