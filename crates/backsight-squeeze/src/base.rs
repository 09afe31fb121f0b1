//! Descriptors as they are (BASE), and with addresses as Nexus packs them (NEXS): what every scheme is measured against.
//!
//! ```text
//! BASE    [start] length
//! NEXS    length, then for a start that cannot be inferred: groups of six bits of its difference from the start before,
//!         low ones first, leading zero groups left out, each with a header of two bits
//! ```
//! A length of 0 announces a start that was inferred wrongly, after an exception.

use crate::Damage;
use crate::bits::{BitReader, BitWriter};
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::Code;
use crate::descriptor;
use crate::stream::{Detector, Follower, Stream};

/// How descriptors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Start addresses are packed in groups (NEXS).
    pub grouped: bool,
    /// Most instructions of a stream.
    pub longest: u8,
    /// Bits of an address.
    pub address_bits: u32,
}

impl Base {
    /// BASE.
    pub const PLAIN: Self = Self { grouped: false, longest: 255, address_bits: 64 };
    /// NEXS.
    pub const NEXUS: Self = Self { grouped: true, ..Self::PLAIN };

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        crate::check_streams(self.longest, self.address_bits)
    }
}

/// Header of a group: more follow, or it is the last.
const MORE: u64 = 0;
const LAST: u64 = 1;

/// Writes a difference in groups of six bits.
pub(crate) fn put_groups(out: &mut BitWriter, mut difference: u64) {
    while difference >= 1 << 6 {
        out.put(MORE << 6 | difference & 63, 8);
        difference >>= 6;
    }
    out.put(LAST << 6 | difference, 8);
}

/// Reads what [`put_groups`] wrote.
pub(crate) fn take_groups(bits: &mut BitReader<'_>) -> Result<u64, Damage> {
    let mut difference = 0;
    for shift in (0..66).step_by(6) {
        let group = bits.take(8)?;
        difference |= (group & 63) << shift;
        match group >> 6 {
            MORE => {}
            LAST => return Ok(difference),
            _ => return Err(Damage::Record("a group with an unknown header")),
        }
    }
    Err(Damage::Record("an address of too many groups"))
}

/// Writes descriptors.
#[derive(Clone, Debug)]
pub struct BaseCompressor {
    detector: Detector,
    coder: Coder,
    instructions: u64,
}

#[derive(Clone, Debug)]
struct Coder {
    build: Base,
    out: BitWriter,
    /// Start of the stream before.
    before: u64,
    short: Share,
    full: Share,
}

impl BaseCompressor {
    /// Nothing written.
    pub fn new(build: Base) -> Self {
        let coder = Coder {
            build,
            out: BitWriter::default(),
            before: 0,
            short: Share::new("length only"),
            full: Share::new("start and length"),
        };
        Self { detector: Detector::new(build.longest), coder, instructions: 0 }
    }
}

impl Coder {
    fn put(&mut self, stream: &Stream) {
        let at = self.out.len();
        let (build, before) = (self.build, self.before);
        if build.grouped {
            let inferred = stream.inferred == Some(stream.start);
            if stream.inferred.is_some() && !inferred {
                self.out.put(0, descriptor::LENGTH_BITS);
            }
            self.out.put(u64::from(stream.length), descriptor::LENGTH_BITS);
            if !inferred {
                put_groups(&mut self.out, stream.start ^ before);
            }
        } else {
            descriptor::put(&mut self.out, stream, build.address_bits, |out, start| {
                out.put(start, build.address_bits);
            });
        }
        self.before = stream.start;
        let share = if stream.inferred == Some(stream.start) { &mut self.short } else { &mut self.full };
        share.add(self.out.len() - at);
    }
}

impl Compressor for BaseCompressor {
    fn push(&mut self, block: &Block, code: &mut Code) {
        self.instructions += u64::from(block.count);
        self.detector.push(block, code, &mut |stream, _| self.coder.put(&stream));
    }

    fn flush(&mut self, code: &mut Code) -> Records {
        self.detector.flush(code, &mut |stream, _| self.coder.put(&stream));
        let (bytes, bits) = self.coder.out.take();
        Records { bytes, bits, instructions: std::mem::take(&mut self.instructions) }
    }

    fn waiting(&self) -> u64 {
        self.coder.out.len()
    }

    fn shares(&self) -> Vec<Share> {
        vec![self.coder.short, self.coder.full]
    }
}

/// Reads descriptors.
#[derive(Clone, Debug)]
pub struct BaseDecompressor {
    build: Base,
    follower: Follower,
    before: u64,
}

impl BaseDecompressor {
    /// Nothing read.
    pub fn new(build: Base) -> Self {
        Self { build, follower: Follower::new(build.longest), before: 0 }
    }

    fn stream(&self, bits: &mut BitReader<'_>) -> Result<(u64, u8), Damage> {
        let inferred = self.follower.inferred();
        if !self.build.grouped {
            let address_bits = self.build.address_bits;
            let stream = descriptor::take(bits, inferred, address_bits, |bits| bits.take(address_bits))?;
            return Ok((stream.start, stream.length));
        }
        let length = bits.take(descriptor::LENGTH_BITS)? as u8;
        match inferred {
            Some(start) if length != 0 => Ok((start, length)),
            Some(_) => {
                let length = bits.take(descriptor::LENGTH_BITS)? as u8;
                Ok((take_groups(bits)? ^ self.before, length))
            }
            None => Ok((take_groups(bits)? ^ self.before, length)),
        }
    }
}

impl Decompressor for BaseDecompressor {
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
