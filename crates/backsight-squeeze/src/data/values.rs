//! Load values: sent only where the debugger has not seen the bytes before.
//!
//! With flags in the first-level cache (*first access*), a load is left out if its bytes were accessed since their line
//! was filled. With a cache of its own (*dedicated*), the trace module compares: a load is left out if the bytes there
//! are the loaded ones. Either way the debugger keeps the same cache with the same values. Stores send nothing.
//!
//! ```text
//! known          1
//! not known      0 value
//! ```
//! An access across the end of a line is two.

use crate::Damage;
use crate::bits::{BitReader, BitWriter};

/// How the cache is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueCache {
    /// Bytes; sets are a power of two.
    pub size: u32,
    /// Lines of a set.
    pub ways: u32,
    /// A cache of the trace module's own, that compares values; else flags in the first-level cache.
    pub dedicated: bool,
}

/// Bytes of a line.
const LINE: usize = 64;

impl ValueCache {
    /// First-access flags in a first-level cache of this size, 4-way.
    pub const fn first_access(size: u32) -> Self {
        Self { size, ways: 4, dedicated: false }
    }

    /// A dedicated cache of this size, 4-way.
    pub const fn dedicated(size: u32) -> Self {
        Self { size, ways: 4, dedicated: true }
    }

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        let sets = self.size / LINE as u32 / self.ways.max(1);
        if !sets.is_power_of_two() || !(1..=16).contains(&self.ways) || self.size > 1 << 26 {
            return Err("a cache has a power of two of sets of 1 to 16 lines, and 64 MB at most");
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Line {
    /// Its address, in lines; `u64::MAX` if it is empty.
    number: u64,
    bytes: [u8; LINE],
    /// Which bytes were accessed since the line was filled.
    flags: u64,
    /// When it was used last.
    used: u64,
}

/// A piece of an access within a line.
#[derive(Clone, Copy, Debug)]
struct Piece {
    number: u64,
    at: usize,
    size: usize,
    /// Bits of the value below it.
    shift: u32,
}

fn pieces(address: u64, size: u8) -> impl Iterator<Item = Piece> {
    let first = (LINE - address as usize % LINE).min(usize::from(size));
    let parts = [
        (address, first, 0),
        (address.wrapping_add(first as u64), usize::from(size) - first, 8 * first as u32),
    ];
    parts.into_iter().filter(|&(_, size, _)| size > 0).map(|(address, size, shift)| Piece {
        number: address / LINE as u64,
        at: address as usize % LINE,
        size,
        shift,
    })
}

/// The cache, the same on both sides.
#[derive(Clone, Debug)]
struct Lines {
    build: ValueCache,
    lines: Vec<Line>,
    time: u64,
}

impl Lines {
    fn new(build: ValueCache) -> Self {
        let empty = Line { number: u64::MAX, bytes: [0; LINE], flags: 0, used: 0 };
        Self { build, lines: vec![empty; build.size as usize / LINE], time: 0 }
    }

    /// The line of a piece, filled if it was not there: an empty one or the one used longest ago gives way.
    fn line(&mut self, piece: &Piece) -> &mut Line {
        let ways = self.build.ways as usize;
        let sets = self.lines.len() / ways;
        let set = (piece.number as usize & (sets - 1)) * ways;
        self.time += 1;
        let time = self.time;
        let set = &mut self.lines[set..set + ways];
        let way = set.iter().position(|line| line.number == piece.number).unwrap_or_else(|| {
            let victim = (0..ways).min_by_key(|&way| set[way].used).unwrap_or(0);
            set[victim] = Line { number: piece.number, bytes: [0; LINE], flags: 0, used: 0 };
            victim
        });
        set[way].used = time;
        &mut set[way]
    }

    /// What the debugger takes the piece to be, if it is known.
    fn known(&mut self, piece: &Piece) -> Option<u64> {
        let dedicated = self.build.dedicated;
        let line = self.line(piece);
        let mask = (u64::MAX >> (64 - piece.size)) << piece.at;
        if !dedicated && line.flags & mask != mask {
            return None;
        }
        let mut value = [0; 8];
        value[..piece.size].copy_from_slice(&line.bytes[piece.at..piece.at + piece.size]);
        Some(u64::from_le_bytes(value))
    }

    fn set(&mut self, piece: &Piece, value: u64) {
        let line = self.line(piece);
        line.flags |= (u64::MAX >> (64 - piece.size)) << piece.at;
        line.bytes[piece.at..piece.at + piece.size].copy_from_slice(&value.to_le_bytes()[..piece.size]);
    }

    fn store(&mut self, address: u64, size: u8, value: u64) {
        for piece in pieces(address, size) {
            self.set(&piece, value >> piece.shift);
        }
    }
}

fn low(value: u64, bytes: usize) -> u64 {
    value & (u64::MAX >> (64 - 8 * bytes))
}

/// Compresses.
#[derive(Clone, Debug)]
pub struct ValueCompressor {
    lines: Lines,
    out: BitWriter,
    /// Loads.
    pub loads: u64,
    /// Loads that were left out.
    pub known: u64,
    /// Bits of all values.
    pub raw_bits: u64,
}

impl ValueCompressor {
    /// Nothing known; the build must pass its check.
    pub fn new(build: ValueCache) -> Self {
        Self { lines: Lines::new(build), out: BitWriter::default(), loads: 0, known: 0, raw_bits: 0 }
    }

    /// A load brought a value. Memory that was changed from outside counts as not known.
    pub fn load(&mut self, address: u64, size: u8, value: u64) {
        self.loads += 1;
        self.raw_bits += u64::from(size) * 8;
        let mut all = true;
        for piece in pieces(address, size) {
            let part = low(value >> piece.shift, piece.size);
            if self.lines.known(&piece) == Some(part) {
                self.out.put(1, 1);
            } else {
                all = false;
                self.out.put(0, 1);
                self.out.put(part, 8 * piece.size as u32);
            }
            self.lines.set(&piece, part);
        }
        self.known += u64::from(all);
    }

    /// A store.
    pub fn store(&mut self, address: u64, size: u8, value: u64) {
        self.lines.store(address, size, value);
    }

    /// A store whose value is wanted: nothing but a bit if the other side takes it for the right one.
    pub(super) fn store_sent(&mut self, address: u64, size: u8, value: u64, known: Option<u64>) {
        let right = known.map(|known| low(known, usize::from(size)) == value);
        if let Some(right) = right {
            self.out.put(u64::from(right), 1);
        }
        if right != Some(true) {
            self.out.put(value, 8 * u32::from(size));
        }
        self.store(address, size, value);
    }

    /// Bits that wait.
    pub fn bits(&self) -> u64 {
        self.out.len()
    }

    /// What was written since the last time, and its number of bits. What is known stays known.
    pub fn take(&mut self) -> (Vec<u8>, u64) {
        self.out.take()
    }
}

/// Decompresses, given the addresses and what is stored.
#[derive(Clone, Debug)]
pub struct ValueDecompressor<'a> {
    lines: Lines,
    bits: BitReader<'a>,
}

impl<'a> ValueDecompressor<'a> {
    /// What a [`ValueCompressor`] of the same build wrote.
    pub fn new(build: ValueCache, bytes: &'a [u8], bits: u64) -> Self {
        Self { lines: Lines::new(build), bits: BitReader::new(bytes, bits) }
    }

    /// Goes on with what a [`ValueCompressor`] of the same build gave next.
    pub fn next_part<'b>(self, bytes: &'b [u8], bits: u64) -> ValueDecompressor<'b> {
        ValueDecompressor { lines: self.lines, bits: BitReader::new(bytes, bits) }
    }

    /// Everything was read.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// What a store stores, where that was sent; `known` is what it seems to be.
    pub(super) fn store_sent(&mut self, address: u64, size: u8, known: Option<u64>) -> Result<u64, Damage> {
        let value = match known {
            Some(known) if self.bits.take(1)? == 1 => low(known, usize::from(size)),
            _ => self.bits.take(8 * u32::from(size))?,
        };
        self.store(address, size, value);
        Ok(value)
    }

    /// What a load brings.
    pub fn load(&mut self, address: u64, size: u8) -> Result<u64, Damage> {
        let mut value = 0;
        for piece in pieces(address, size) {
            let part = if self.bits.take(1)? == 1 {
                self.lines.known(&piece).ok_or(Damage::Record("a value that was not seen before"))?
            } else {
                self.bits.take(8 * piece.size as u32)?
            };
            self.lines.set(&piece, part);
            value |= part << piece.shift;
        }
        Ok(value)
    }

    /// A store.
    pub fn store(&mut self, address: u64, size: u8, value: u64) {
        self.lines.store(address, size, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_whatever_outsiders_write() {
        for build in [
            ValueCache::first_access(1024),
            ValueCache::dedicated(512),
            ValueCache { ways: 1, ..ValueCache::dedicated(64) },
        ] {
            assert_eq!(build.check(), Ok(()));
            let mut state = 7u64;
            let mut next = |limit: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % limit
            };
            let mut memory = vec![0u8; 4096];
            let mut events = Vec::new();
            let mut compressor = ValueCompressor::new(build);
            for _ in 0..20_000 {
                let size = [1, 2, 4, 8][next(4) as usize];
                let spread = if next(8) == 0 { 4000 } else { 200 };
                let at = next(spread) as usize;
                let bytes = &mut memory[at..at + usize::from(size)];
                if next(3) == 0 {
                    let value = next(u64::MAX);
                    bytes.copy_from_slice(&value.to_le_bytes()[..usize::from(size)]);
                    if next(5) > 0 {
                        compressor.store(at as u64, size, value);
                        events.push((true, at as u64, size, value));
                    }
                } else {
                    let mut value = [0; 8];
                    value[..usize::from(size)].copy_from_slice(bytes);
                    compressor.load(at as u64, size, u64::from_le_bytes(value));
                    events.push((false, at as u64, size, u64::from_le_bytes(value)));
                }
            }
            assert!(compressor.known > compressor.loads / 20, "{build:?}");
            let (bytes, bits) = compressor.take();
            let mut decompressor = ValueDecompressor::new(build, &bytes, bits);
            for (store, address, size, value) in events {
                match store {
                    true => decompressor.store(address, size, value),
                    false => assert_eq!(decompressor.load(address, size), Ok(value), "{build:?}"),
                }
            }
        }
    }
}
