//! What the tests of both protocols need.

use std::vec::Vec;

/// An A-sync.
pub(crate) const A_SYNC: [u8; 6] = [0, 0, 0, 0, 0, 0x80];

/// Bytes in pieces of these lengths, and the rest.
pub(crate) fn cut<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for &length in lengths {
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

/// Gives words of bytes by chance, most of which go on with another byte of an address, to something that can make sense
/// of many of them: it says of which.
pub(crate) fn words(mut is_known: impl FnMut(&[u8; 8]) -> bool) {
    let (mut state, mut known) = (1_u64, 0);
    for round in 0..100_000 {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let mixed = (state ^ state >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        // Of two rounds, one has more bytes that others follow.
        let word = if round % 2 == 0 { mixed } else { mixed | (mixed << 13) & 0x8080_8080_8080_8080 };
        known += usize::from(is_known(&word.to_le_bytes()));
    }
    assert!((20_000..80_000).contains(&known), "{known}");
}
