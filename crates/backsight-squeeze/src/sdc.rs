//! SDC-LSP: a cache of stream descriptors, and a predictor of the next stream.
//!
//! A stream becomes the index of its entry in a set-associative cache. The predictor remembers, for each index, the
//! index that followed it the last time; if that comes again, the record is a single bit. Variants: **b** is this;
//! **e** keeps the upper bits of the last start address sent, and counts runs of correct predictions; **r** stores
//! smaller entries too.
//!
//! ```text
//! predicted                 1                 (e, r: 1 count)
//! in the cache              0 index
//! not in the cache          0 00…0 [start] length
//! ```

use crate::bits::{BitReader, BitWriter};
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::Code;
use crate::runs::{Count, RunCounter, Short};
use crate::stream::{Detector, Follower, Stream};
use crate::{Damage, descriptor};

/// How upper address bits are kept out of records and entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upper {
    /// They are not (b).
    Everywhere,
    /// A register holds them for the last start address that was sent (e).
    LastSent {
        /// Address bits below them.
        low: u32,
    },
    /// A register holds them for the last stream, and entries do not (r).
    LastStream {
        /// Address bits below them.
        low: u32,
    },
}

/// How the scheme is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdc {
    /// Sets of the cache, a power of two.
    pub sets: u32,
    /// Entries of a set.
    pub ways: u32,
    /// The lowest address bit of the set index.
    pub shift: u32,
    /// Where the upper address bits are.
    pub upper: Upper,
    /// Runs of correct predictions are counted.
    pub count_runs: bool,
    /// Address bits that are always 0, and are not sent by e and r.
    pub align: u32,
    /// Most instructions of a stream.
    pub longest: u8,
    /// Bits of an address.
    pub address_bits: u32,
}

impl Sdc {
    /// bSDC-LSP of this size.
    pub const fn basic(sets: u32, ways: u32) -> Self {
        Self {
            sets,
            ways,
            shift: 4,
            upper: Upper::Everywhere,
            count_runs: false,
            align: 1,
            longest: 255,
            address_bits: 64,
        }
    }

    /// eSDC-LSP of this size: the register has the upper 14 of 32 bits.
    pub const fn enhanced(sets: u32, ways: u32) -> Self {
        Self { upper: Upper::LastSent { low: 18 }, count_runs: true, ..Self::basic(sets, ways) }
    }

    /// rSDC-LSP of this size: the register has the upper 12 of 32 bits.
    pub const fn reduced(sets: u32, ways: u32) -> Self {
        Self { upper: Upper::LastStream { low: 20 }, count_runs: true, ..Self::basic(sets, ways) }
    }

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.sets.is_power_of_two() || self.sets > 1 << 16 || !(1..=64).contains(&self.ways) {
            return Err("the cache has a power of two of sets up to 65536, of 1 to 64 entries");
        }
        if self.sets * self.ways < 2 {
            return Err("the cache has at least two entries");
        }
        if let Upper::LastSent { low } | Upper::LastStream { low } = self.upper
            && (low <= self.align || low >= self.address_bits)
        {
            return Err("the register holds some of the address bits");
        }
        if let Upper::LastStream { low } = self.upper
            && self.shift + self.sets.trailing_zeros() > low
        {
            return Err("the index of a set must not need bits of the register");
        }
        if self.shift > 32 || self.align > 2 {
            return Err("the index begins at bit 32 at most, and at most 2 bits are always 0");
        }
        crate::check_streams(self.longest, self.address_bits)
    }

    fn index_bits(&self) -> u32 {
        crate::log2_up(self.sets * self.ways)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    start: u64,
    /// 0: nothing is here.
    length: u8,
    used: bool,
}

/// What both sides keep.
#[derive(Clone, Debug)]
struct Tables {
    build: Sdc,
    entries: Vec<Entry>,
    /// For each index, the one that followed it.
    followers: Vec<u32>,
    /// The index before; 0 after a miss.
    before: u32,
    upper: u64,
    runs: RunCounter,
}

impl Tables {
    fn new(build: Sdc) -> Self {
        let count = (build.sets * build.ways) as usize;
        Self {
            build,
            entries: vec![Entry::default(); count],
            followers: vec![0; count],
            before: 0,
            upper: 0,
            runs: RunCounter::new(Short::BelowHalf),
        }
    }

    /// The entries of the set that a stream belongs to. The first entry of the first set does not exist: its index says
    /// that there is none.
    #[inline]
    fn set(&self, start: u64, length: u8) -> std::ops::Range<usize> {
        let set = (start >> self.build.shift ^ u64::from(length)) as u32 & (self.build.sets - 1);
        let first = set * self.build.ways;
        first.max(1) as usize..(first + self.build.ways) as usize
    }

    /// The part of an address that an entry holds.
    fn stored(&self, start: u64) -> u64 {
        match self.build.upper {
            Upper::LastStream { low } => start & ((1 << low) - 1),
            _ => start,
        }
    }

    fn find(&self, start: u64, length: u8) -> Option<usize> {
        let stored = self.stored(start);
        self.set(start, length)
            .find(|&index| self.entries[index].start == stored && self.entries[index].length == length)
    }

    /// The index of a stream; 0 if it is not in the cache, or another upper part than the register's makes it so.
    #[inline]
    fn lookup(&self, start: u64, length: u8) -> u32 {
        match self.build.upper {
            Upper::LastStream { low } if start >> low != self.upper => 0,
            _ => self.find(start, length).unwrap_or(0) as u32,
        }
    }

    /// The stream at an index.
    fn stream(&self, index: u32) -> Result<(u64, u8), Damage> {
        let entry = self.entries.get(index as usize).filter(|entry| entry.length > 0);
        let entry = entry.ok_or(Damage::Record("an index of an empty entry"))?;
        Ok(match self.build.upper {
            Upper::LastStream { low } => (self.upper << low | entry.start, entry.length),
            _ => (entry.start, entry.length),
        })
    }

    /// Was this index to be expected? Notes it for the next time.
    #[inline]
    fn predict(&mut self, index: u32) -> bool {
        let slot = self.before as usize;
        let right = index != 0 && self.followers[slot] == index;
        self.followers[slot] = index;
        self.before = index;
        right
    }

    /// Notes the use of a stream with this index.
    #[inline]
    fn update(&mut self, start: u64, length: u8, index: u32) {
        let set = self.set(start, length);
        let index = match index {
            0 => self.allocate(start, length),
            index => Some(index as usize),
        };
        if let Upper::LastStream { low } = self.build.upper {
            self.upper = start >> low;
        }
        // A set may be of no entries: the first, if it has one way.
        let Some(index) = index else { return };
        self.entries[index].used = true;
        if self.entries[set.clone()].iter().all(|entry| entry.used) {
            self.entries[set].iter_mut().for_each(|entry| entry.used = false);
            self.entries[index].used = true;
        }
    }

    /// The entry for a new stream: one that has its short form, an empty one, or one not used lately.
    fn allocate(&mut self, start: u64, length: u8) -> Option<usize> {
        let stored = self.stored(start);
        let mut set = self.set(start, length);
        let index = self.find(start, length).or_else(|| {
            let empty = set.clone().find(|&index| self.entries[index].length == 0);
            empty.or_else(|| set.clone().find(|&index| !self.entries[index].used)).or(set.next())
        })?;
        self.entries[index] = Entry { start: stored, length, used: self.entries[index].used };
        Some(index)
    }
}

/// Compresses.
#[derive(Clone, Debug)]
pub struct SdcCompressor {
    detector: Detector,
    coder: Coder,
    instructions: u64,
}

#[derive(Clone, Debug)]
struct Coder {
    tables: Tables,
    out: BitWriter,
    predicted: Share,
    cached: Share,
    miss: Share,
}

impl SdcCompressor {
    /// With empty tables.
    pub fn new(build: Sdc) -> Self {
        let coder = Coder {
            tables: Tables::new(build),
            out: BitWriter::default(),
            predicted: Share::new("predicted"),
            cached: Share::new("in the cache"),
            miss: Share::new("miss"),
        };
        Self { detector: Detector::new(build.longest), coder, instructions: 0 }
    }
}

impl Coder {
    #[inline]
    fn put(&mut self, stream: &Stream) {
        let index = self.tables.lookup(stream.start, stream.length);
        if self.tables.predict(index) {
            self.predicted.events += 1;
            if !self.tables.build.count_runs {
                self.out.put(1, 1);
                self.predicted.bits += 1;
            } else if let Some(count) = self.tables.runs.hit() {
                self.put_count(count);
            }
        } else {
            self.end_run();
            let before = self.out.len();
            self.out.put(0, 1);
            self.out.put(u64::from(index), self.tables.build.index_bits());
            if index == 0 {
                self.put_descriptor(stream);
                self.miss.add(self.out.len() - before);
            } else {
                self.cached.add(self.out.len() - before);
            }
        }
        self.tables.update(stream.start, stream.length, index);
    }

    fn put_descriptor(&mut self, stream: &Stream) {
        let Tables { build, upper, .. } = &mut self.tables;
        let (align, address_bits) = (build.align, build.address_bits);
        descriptor::put(&mut self.out, stream, address_bits, |out, start| match build.upper {
            Upper::LastSent { low } | Upper::LastStream { low } => {
                let same = start >> low == *upper;
                out.put(u64::from(!same), 1);
                out.put(start >> align, if same { low } else { address_bits } - align);
                *upper = start >> low;
            }
            Upper::Everywhere => out.put(start, address_bits),
        });
    }

    fn end_run(&mut self) {
        if self.tables.build.count_runs
            && let Some(count) = self.tables.runs.end()
        {
            self.put_count(count);
        }
    }

    fn put_count(&mut self, count: Count) {
        self.out.put(1, 1);
        self.out.put(count.value, count.width);
        self.predicted.bits += 1 + u64::from(count.width);
    }
}

impl Compressor for SdcCompressor {
    fn push(&mut self, block: &Block, code: &mut Code) {
        self.instructions += u64::from(block.count);
        self.detector.push(block, code, &mut |stream, _| self.coder.put(&stream));
    }

    fn flush(&mut self, code: &mut Code) -> Records {
        self.detector.flush(code, &mut |stream, _| self.coder.put(&stream));
        self.coder.end_run();
        let (bytes, bits) = self.coder.out.take();
        Records { bytes, bits, instructions: std::mem::take(&mut self.instructions) }
    }

    fn waiting(&self) -> u64 {
        self.coder.out.len()
    }

    fn shares(&self) -> Vec<Share> {
        vec![self.coder.predicted, self.coder.cached, self.coder.miss]
    }
}

/// Decompresses.
#[derive(Clone, Debug)]
pub struct SdcDecompressor {
    tables: Tables,
    follower: Follower,
}

impl SdcDecompressor {
    /// With empty tables.
    pub fn new(build: Sdc) -> Self {
        Self { tables: Tables::new(build), follower: Follower::new(build.longest) }
    }

    /// A record that does not begin with 1.
    fn other(&mut self, bits: &mut BitReader<'_>) -> Result<(u64, u8, u32), Damage> {
        let index = bits.take(self.tables.build.index_bits())? as u32;
        let (start, length) = if index != 0 { self.tables.stream(index)? } else { self.descriptor(bits)? };
        self.tables.predict(index);
        Ok((start, length, index))
    }

    fn descriptor(&mut self, bits: &mut BitReader<'_>) -> Result<(u64, u8), Damage> {
        let Tables { build, upper, .. } = &mut self.tables;
        let (align, address_bits) = (build.align, build.address_bits);
        let inferred = self.follower.inferred();
        let stream = descriptor::take(bits, inferred, address_bits, |bits| match build.upper {
            Upper::LastSent { low } | Upper::LastStream { low } => {
                let start = if bits.take(1)? == 0 {
                    *upper << low | bits.take(low - align)? << align
                } else {
                    bits.take(address_bits - align)? << align
                };
                *upper = start >> low;
                Ok(start)
            }
            Upper::Everywhere => bits.take(address_bits),
        })?;
        Ok((stream.start, stream.length))
    }

    /// The predicted stream.
    fn predicted(&mut self) -> Result<(u64, u8, u32), Damage> {
        let index = self.tables.followers[self.tables.before as usize];
        let (start, length) = self.tables.stream(index)?;
        self.tables.before = index;
        Ok((start, length, index))
    }
}

impl Decompressor for SdcDecompressor {
    fn unpack(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
    ) -> Result<(), Damage> {
        let mut bits = BitReader::new(&records.bytes, records.bits);
        let mut left = records.instructions;
        let mut predicted = 0;
        while left > 0 {
            let (start, length, index) = if predicted > 0 {
                predicted -= 1;
                self.predicted()?
            } else if bits.take(1)? == 0 {
                self.other(&mut bits)?
            } else {
                if self.tables.build.count_runs {
                    predicted = bits.take(self.tables.runs.width())?;
                    self.tables.runs.adapt(predicted);
                }
                self.predicted()?
            };
            self.tables.update(start, length, index);
            left = crate::count_down(left, length)?;
            self.follower.follow((start, length), code, sink)?;
        }
        Ok(())
    }
}
