//! DMTF: two tables in series that move what was used to the front.
//!
//! The first table holds stream descriptors; its output, an index, goes through a second table. A loop of streams makes
//! the same index again and again, so that the second table answers 0 and the record is a single bit. Variants: **b**
//! is this; **h** keeps the upper address bits in one register instead of in every entry; **e** counts runs of zeros
//! too.
//!
//! ```text
//! both hit, second at 0      0
//! both hit                   1 i2
//! first hits                 1 11…1 i1
//! first misses               1 11…1 11…1 [start] length
//! e: a run of zeros          0 count
//! ```

use crate::bits::{BitReader, BitWriter};
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::Code;
use crate::mtf::MoveToFront;
use crate::runs::{Count, RunCounter, Short};
use crate::stream::{Detector, Follower, Stream};
use crate::{Damage, descriptor};

/// How the scheme is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dmtf {
    /// Size of the first table; one entry fewer can be used.
    pub first: u32,
    /// Size of the second table; one entry fewer can be used.
    pub second: u32,
    /// Address bits that entries hold; the bits above are in a register (h, e). `None`: all are in the entries (b).
    pub entry_bits: Option<u32>,
    /// Runs of zeros are counted (e).
    pub count_runs: bool,
    /// Most instructions of a stream.
    pub longest: u8,
    /// Bits of an address.
    pub address_bits: u32,
}

impl Dmtf {
    /// bDMTF of these sizes.
    pub const fn basic(first: u32, second: u32) -> Self {
        Self { first, second, entry_bits: None, count_runs: false, longest: 255, address_bits: 64 }
    }

    /// hDMTF of these sizes.
    pub const fn with_register(first: u32, second: u32) -> Self {
        Self { entry_bits: Some(20), ..Self::basic(first, second) }
    }

    /// eDMTF of these sizes.
    pub const fn enhanced(first: u32, second: u32) -> Self {
        Self { count_runs: true, ..Self::with_register(first, second) }
    }

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        if !(2..=1 << 16).contains(&self.first) || !(2..=1 << 16).contains(&self.second) {
            return Err("tables have 2 to 65536 entries");
        }
        if self.entry_bits.is_some_and(|bits| bits == 0 || bits >= self.address_bits) {
            return Err("entries hold at least one address bit, and not all of them");
        }
        crate::check_streams(self.longest, self.address_bits)
    }

    fn first_bits(&self) -> u32 {
        crate::log2_up(self.first)
    }

    fn second_bits(&self) -> u32 {
        crate::log2_up(self.second)
    }
}

/// What both sides keep.
#[derive(Clone, Debug)]
struct Tables {
    build: Dmtf,
    first: MoveToFront<(u64, u8)>,
    second: MoveToFront<u32>,
    /// The address bits above those of the entries, of the stream before.
    upper: u64,
    runs: RunCounter,
}

impl Tables {
    fn new(build: Dmtf) -> Self {
        Self {
            build,
            first: MoveToFront::new(build.first as usize - 1),
            second: MoveToFront::new(build.second as usize - 1),
            upper: 0,
            runs: RunCounter::new(Short::NotFull),
        }
    }

    /// The part of an address in a register, and the part in an entry.
    fn split(&self, address: u64) -> (u64, u64) {
        match self.build.entry_bits {
            Some(bits) => (address >> bits, address & ((1 << bits) - 1)),
            None => (0, address),
        }
    }

    fn join(&self, entry: u64) -> u64 {
        self.build.entry_bits.map_or(entry, |bits| self.upper << bits | entry)
    }

    /// Notes a stream whose record is a miss.
    fn missed(&mut self, start: u64, length: u8) {
        let (upper, entry) = self.split(start);
        self.upper = upper;
        self.first.search((entry, length));
    }
}

/// Compresses.
#[derive(Clone, Debug)]
pub struct DmtfCompressor {
    detector: Detector,
    coder: Coder,
    instructions: u64,
}

#[derive(Clone, Debug)]
struct Coder {
    tables: Tables,
    out: BitWriter,
    zero: Share,
    second: Share,
    first: Share,
    miss: Share,
}

impl DmtfCompressor {
    /// With empty tables.
    pub fn new(build: Dmtf) -> Self {
        let coder = Coder {
            tables: Tables::new(build),
            out: BitWriter::default(),
            zero: Share::new("second table at 0"),
            second: Share::new("second table"),
            first: Share::new("first table"),
            miss: Share::new("miss"),
        };
        Self { detector: Detector::new(build.longest), coder, instructions: 0 }
    }
}

impl Coder {
    fn put(&mut self, stream: &Stream) {
        let (upper, entry) = self.tables.split(stream.start);
        let found = if upper == self.tables.upper {
            self.tables.first.position((entry, stream.length))
        } else {
            None
        };
        let Some(i1) = found else {
            self.end_run();
            self.put_miss(stream);
            return;
        };
        self.tables.first.touch(i1);
        match self.tables.second.search(i1 as u32) {
            Some(0) => self.put_zero(),
            Some(i2) => {
                self.end_run();
                let before = self.out.len();
                self.out.put(1, 1);
                self.out.put(i2 as u64, self.tables.build.second_bits());
                self.second.add(self.out.len() - before);
            }
            None => {
                self.end_run();
                let before = self.out.len();
                self.out.put(1, 1);
                self.out.put(u64::MAX, self.tables.build.second_bits());
                self.out.put(i1 as u64, self.tables.build.first_bits());
                self.first.add(self.out.len() - before);
            }
        }
    }

    fn put_zero(&mut self) {
        self.zero.events += 1;
        if !self.tables.build.count_runs {
            self.out.put(0, 1);
            self.zero.bits += 1;
        } else if let Some(count) = self.tables.runs.hit() {
            self.put_count(count);
        }
    }

    fn end_run(&mut self) {
        if self.tables.build.count_runs
            && let Some(count) = self.tables.runs.end()
        {
            self.put_count(count);
        }
    }

    fn put_count(&mut self, count: Count) {
        self.out.put(0, 1);
        self.out.put(count.value, count.width);
        self.zero.bits += 1 + u64::from(count.width);
    }

    fn put_miss(&mut self, stream: &Stream) {
        let before = self.out.len();
        let build = self.tables.build;
        self.out.put(1, 1);
        self.out.put(u64::MAX, build.second_bits());
        self.out.put(u64::MAX, build.first_bits());
        let (upper, entry) = self.tables.split(stream.start);
        let same = upper == self.tables.upper;
        descriptor::put(&mut self.out, stream, build.address_bits, |out, start| match build.entry_bits {
            Some(bits) if same => {
                out.put(0, 1);
                out.put(entry, bits);
            }
            Some(_) => {
                out.put(1, 1);
                out.put(start, build.address_bits);
            }
            None => out.put(start, build.address_bits),
        });
        self.tables.missed(stream.start, stream.length);
        self.miss.add(self.out.len() - before);
    }
}

impl Compressor for DmtfCompressor {
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
        vec![self.coder.zero, self.coder.second, self.coder.first, self.coder.miss]
    }
}

/// Decompresses.
#[derive(Clone, Debug)]
pub struct DmtfDecompressor {
    tables: Tables,
    follower: Follower,
}

impl DmtfDecompressor {
    /// With empty tables.
    pub fn new(build: Dmtf) -> Self {
        Self { tables: Tables::new(build), follower: Follower::new(build.longest) }
    }

    /// The stream at an index of the second table.
    fn second(&mut self, index: usize) -> Result<(u64, u8), Damage> {
        let i1 = self.tables.second.touch(index).ok_or(Damage::Record("an index of an empty entry"))?;
        self.first(i1 as usize)
    }

    fn first(&mut self, index: usize) -> Result<(u64, u8), Damage> {
        let (entry, length) =
            self.tables.first.touch(index).ok_or(Damage::Record("an index of an empty entry"))?;
        Ok((self.tables.join(entry), length))
    }

    /// A record that does not begin with 0.
    fn other(&mut self, bits: &mut BitReader<'_>) -> Result<(u64, u8), Damage> {
        let build = self.tables.build;
        let i2 = bits.take(build.second_bits())?;
        if i2 != (1 << build.second_bits()) - 1 {
            return self.second(i2 as usize);
        }
        let i1 = bits.take(build.first_bits())?;
        if i1 != (1 << build.first_bits()) - 1 {
            let stream = self.first(i1 as usize)?;
            self.tables.second.insert(i1 as u32);
            return Ok(stream);
        }
        let tables = &self.tables;
        let inferred = self.follower.inferred();
        let stream = descriptor::take(bits, inferred, build.address_bits, |bits| match build.entry_bits {
            Some(low) if bits.take(1)? == 0 => Ok(tables.join(bits.take(low)?)),
            _ => bits.take(build.address_bits),
        })?;
        self.tables.missed(stream.start, stream.length);
        Ok((stream.start, stream.length))
    }
}

impl Decompressor for DmtfDecompressor {
    fn unpack(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
    ) -> Result<(), Damage> {
        let mut bits = BitReader::new(&records.bytes, records.bits);
        let mut left = records.instructions;
        while left > 0 {
            let (stream, times) = if bits.take(1)? == 1 {
                (self.other(&mut bits)?, 1)
            } else if self.tables.build.count_runs {
                let count = bits.take(self.tables.runs.width())?;
                self.tables.runs.adapt(count);
                (self.second(0)?, count + 1)
            } else {
                (self.second(0)?, 1)
            };
            let mut stream = stream;
            for time in 0..times {
                if time > 0 {
                    stream = self.second(0)?;
                }
                left = crate::count_down(left, stream.1)?;
                self.follower.follow(stream, code, sink)?;
            }
        }
        Ok(())
    }
}
