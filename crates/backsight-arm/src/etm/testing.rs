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
