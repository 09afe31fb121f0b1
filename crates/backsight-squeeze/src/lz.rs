//! LZ: descriptors cut into symbols of twelve bits, and a window of past symbols to copy from.
//!
//! A dictionary compressor such as one that was built in hardware for branch traces (HWLZ). That one is not described
//! closely enough to be built again bit for bit; this one has its symbols, its windows and pairs that are not coded
//! further, and its figures are its own.
//!
//! ```text
//! descriptor   symbol: [11] a start follows, [10:8] its symbols less one, [7:0] length
//!              symbols of the start, xor the start before, low bits first
//! literal      0 symbol
//! copy         1 distance less one, length less two (4 bits)
//! ```

use crate::Damage;
use crate::bits::{BitReader, BitWriter};
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::Code;
use crate::stream::{Detector, Follower, Stream};

/// How the scheme is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lz {
    /// Symbols in the window, a power of two.
    pub window: u32,
    /// Most instructions of a stream.
    pub longest: u8,
    /// Bits of an address.
    pub address_bits: u32,
}

impl Lz {
    /// A window of this many symbols.
    pub const fn new(window: u32) -> Self {
        Self { window, longest: 255, address_bits: 64 }
    }

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.window.is_power_of_two() || !(4..=1 << 16).contains(&self.window) {
            return Err("the window is a power of two of symbols, 4 to 65536");
        }
        crate::check_streams(self.longest, self.address_bits)
    }

    fn distance_bits(&self) -> u32 {
        self.window.trailing_zeros()
    }
}

const SYMBOL_BITS: u32 = 12;
const LENGTH_BITS: u32 = 4;
const SHORTEST: usize = 2;
const LONGEST: usize = SHORTEST + (1 << LENGTH_BITS) - 1;
const START: u16 = 0x800;

/// The last symbols.
#[derive(Clone, Debug)]
struct Window {
    symbols: Vec<u16>,
    at: usize,
    filled: usize,
}

impl Window {
    fn new(size: u32) -> Self {
        Self { symbols: vec![0; size as usize], at: 0, filled: 0 }
    }

    fn push(&mut self, symbol: u16) {
        self.symbols[self.at] = symbol;
        self.at = (self.at + 1) % self.symbols.len();
        self.filled = (self.filled + 1).min(self.symbols.len());
    }

    /// The symbol at a distance, 1 for the last one.
    fn back(&self, distance: usize) -> Option<u16> {
        let size = self.symbols.len();
        (1..=self.filled).contains(&distance).then(|| self.symbols[(self.at + size - distance) % size])
    }
}

/// Compresses.
#[derive(Clone, Debug)]
pub struct LzCompressor {
    detector: Detector,
    coder: Coder,
    instructions: u64,
}

#[derive(Clone, Debug)]
struct Coder {
    build: Lz,
    out: BitWriter,
    window: Window,
    /// Symbols that are not coded yet.
    ahead: Vec<u16>,
    before: u64,
    literal: Share,
    copy: Share,
}

impl LzCompressor {
    /// With an empty window.
    pub fn new(build: Lz) -> Self {
        let coder = Coder {
            build,
            out: BitWriter::default(),
            window: Window::new(build.window),
            ahead: Vec::new(),
            before: 0,
            literal: Share::new("literal"),
            copy: Share::new("copy"),
        };
        Self { detector: Detector::new(build.longest), coder, instructions: 0 }
    }
}

impl Coder {
    fn put(&mut self, stream: &Stream) {
        let length = u16::from(stream.length);
        if stream.inferred == Some(stream.start) {
            self.ahead.push(length);
        } else {
            let difference = stream.start ^ self.before;
            let count = (64 - difference.leading_zeros()).div_ceil(SYMBOL_BITS).max(1);
            self.ahead.push(START | (count as u16 - 1) << 8 | length);
            self.ahead.extend((0..count).map(|n| (difference >> (n * SYMBOL_BITS)) as u16 & 0xFFF));
        }
        self.before = stream.start;
        while self.ahead.len() >= LONGEST {
            self.code();
        }
    }

    /// Codes the longest copy, or a literal.
    fn code(&mut self) {
        let most = self.ahead.len().min(LONGEST);
        let (mut best, mut distance) = (0, 0);
        for from in 1..=self.window.filled {
            // A copy may run into what it makes itself.
            let same = |&n: &usize| {
                let symbol = if n < from { self.window.back(from - n) } else { Some(self.ahead[n - from]) };
                symbol == Some(self.ahead[n])
            };
            let length = (0..most).take_while(same).count();
            if length > best {
                (best, distance) = (length, from);
                if length == most {
                    break;
                }
            }
        }
        let count = if best >= SHORTEST {
            self.out.put(1, 1);
            self.out.put(distance as u64 - 1, self.build.distance_bits());
            self.out.put((best - SHORTEST) as u64, LENGTH_BITS);
            self.copy.add(u64::from(1 + self.build.distance_bits() + LENGTH_BITS));
            best
        } else {
            self.out.put(u64::from(self.ahead[0]), 1 + SYMBOL_BITS);
            self.literal.add(u64::from(1 + SYMBOL_BITS));
            1
        };
        self.ahead.drain(..count).for_each(|symbol| self.window.push(symbol));
    }
}

impl Compressor for LzCompressor {
    fn push(&mut self, block: &Block, code: &mut Code) {
        self.instructions += u64::from(block.count);
        self.detector.push(block, code, &mut |stream, _| self.coder.put(&stream));
    }

    fn flush(&mut self, code: &mut Code) -> Records {
        self.detector.flush(code, &mut |stream, _| self.coder.put(&stream));
        while !self.coder.ahead.is_empty() {
            self.coder.code();
        }
        let (bytes, bits) = self.coder.out.take();
        Records { bytes, bits, instructions: std::mem::take(&mut self.instructions) }
    }

    fn waiting(&self) -> u64 {
        self.coder.out.len()
    }

    fn shares(&self) -> Vec<Share> {
        vec![self.coder.literal, self.coder.copy]
    }
}

/// Decompresses.
#[derive(Clone, Debug)]
pub struct LzDecompressor {
    build: Lz,
    window: Window,
    /// Symbols of the copy in progress that are still to come, and its distance.
    copy: (usize, usize),
    follower: Follower,
    before: u64,
}

impl LzDecompressor {
    /// With an empty window.
    pub fn new(build: Lz) -> Self {
        Self {
            build,
            window: Window::new(build.window),
            copy: (0, 0),
            follower: Follower::new(build.longest),
            before: 0,
        }
    }

    fn symbol(&mut self, bits: &mut BitReader<'_>) -> Result<u16, Damage> {
        if self.copy.0 == 0 && bits.take(1)? == 1 {
            let distance = bits.take(self.build.distance_bits())? as usize + 1;
            self.copy = (bits.take(LENGTH_BITS)? as usize + SHORTEST, distance);
        }
        let symbol = if self.copy.0 > 0 {
            self.copy.0 -= 1;
            self.window.back(self.copy.1).ok_or(Damage::Record("a copy from before the window"))?
        } else {
            bits.take(SYMBOL_BITS)? as u16
        };
        self.window.push(symbol);
        Ok(symbol)
    }

    fn stream(&mut self, bits: &mut BitReader<'_>) -> Result<(u64, u8), Damage> {
        let first = self.symbol(bits)?;
        if first & START == 0 {
            let start = self.follower.inferred().ok_or(Damage::Record("a stream without a start"))?;
            return Ok((start, first as u8));
        }
        let mut difference = 0;
        for n in 0..=u32::from(first >> 8 & 7) {
            let bits = u64::from(self.symbol(bits)?);
            difference |= bits.checked_shl(n * SYMBOL_BITS).unwrap_or(0);
        }
        Ok((self.before ^ difference, first as u8))
    }
}

impl Decompressor for LzDecompressor {
    fn unpack(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
    ) -> Result<(), Damage> {
        let mut bits = BitReader::new(&records.bytes, records.bits);
        let mut left = records.instructions;
        while left > 0 {
            let stream = self.stream(&mut bits)?;
            self.before = stream.0;
            left = crate::count_down(left, stream.1)?;
            self.follower.follow(stream, code, sink)?;
        }
        Ok(())
    }
}
