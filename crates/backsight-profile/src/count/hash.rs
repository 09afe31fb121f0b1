//! A hash for small keys made of numbers: one multiplication for each. Keys come from code that was executed, and every
//! table of them is bounded, so that chosen collisions cost time in proportion to that bound only.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with small keys.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Multiplies and rotates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

/// The golden ratio in 64 bits, odd: its multiples spread well.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// One hash of two numbers.
#[inline]
pub(crate) fn mixed(one: u64, other: u64) -> u64 {
    (one.wrapping_mul(SPREAD) ^ other).wrapping_mul(SPREAD).rotate_left(29)
}

impl Hasher for NumberHasher {
    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = mixed(self.0, value);
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
