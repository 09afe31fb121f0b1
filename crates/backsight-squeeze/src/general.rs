//! General compressors over the bytes of partial descriptors: gzip, and (feature `general`) zstd and xz.
//!
//! Not for a trace module: they keep whole dictionaries in memory. They say how much there is to be had.

use crate::Damage;
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::Code;
use crate::stream::{Detector, Follower, Stream};
use std::io::{self, Read, Write};

/// Which compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// DEFLATE as gzip writes it.
    Gzip,
    /// Zstandard.
    #[cfg(feature = "general")]
    Zstd,
    /// LZMA2 as xz writes it.
    #[cfg(feature = "general")]
    Xz,
}

/// How descriptors are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct General {
    /// The compressor.
    pub program: Program,
    /// Its level.
    pub level: u32,
    /// Most instructions of a stream.
    pub longest: u8,
    /// Bits of an address: whole bytes.
    pub address_bits: u32,
}

impl General {
    /// This compressor at this level.
    pub const fn new(program: Program, level: u32) -> Self {
        Self { program, level, longest: 255, address_bits: 64 }
    }

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        let most = match self.program {
            #[cfg(feature = "general")]
            Program::Zstd => 22,
            _ => 9,
        };
        if self.level > most {
            return Err("there is no such level of that compressor");
        }
        if !self.address_bits.is_multiple_of(8) {
            return Err("addresses are whole bytes");
        }
        crate::check_streams(self.longest, self.address_bits)
    }

    /// Bits of the window that is looked back into, as the formats and the levels have it.
    pub const fn window_bits(&self) -> u64 {
        let bytes: u64 = match self.program {
            Program::Gzip => 32 << 10,
            #[cfg(feature = "general")]
            Program::Zstd => 8 << 20,
            #[cfg(feature = "general")]
            Program::Xz => 64 << 20,
        };
        bytes * 8
    }

    fn pack(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self.program {
            Program::Gzip => {
                let level = flate2::Compression::new(self.level);
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            #[cfg(feature = "general")]
            Program::Zstd => zstd::bulk::compress(bytes, self.level as i32),
            #[cfg(feature = "general")]
            Program::Xz => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), self.level);
                encoder.write_all(bytes)?;
                encoder.finish()
            }
        }
    }

    fn unpacked<'a>(&self, bytes: &'a [u8]) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self.program {
            Program::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
            #[cfg(feature = "general")]
            Program::Zstd => Box::new(zstd::Decoder::new(bytes)?),
            #[cfg(feature = "general")]
            Program::Xz => Box::new(liblzma::read::XzDecoder::new(bytes)),
        })
    }
}

/// Compresses what was pushed at each flush, on its own.
#[derive(Clone, Debug)]
pub struct GeneralCompressor {
    build: General,
    detector: Detector,
    bytes: Vec<u8>,
    instructions: u64,
    all: Share,
}

impl GeneralCompressor {
    /// Nothing compressed.
    pub fn new(build: General) -> Self {
        Self {
            build,
            detector: Detector::new(build.longest),
            bytes: Vec::new(),
            instructions: 0,
            all: Share::new("descriptors"),
        }
    }
}

fn put(bytes: &mut Vec<u8>, stream: &Stream, address_bytes: usize) {
    let start = &stream.start.to_le_bytes()[..address_bytes];
    match stream.inferred {
        None => bytes.extend(start),
        Some(inferred) if inferred == stream.start => {}
        Some(_) => {
            bytes.push(0);
            bytes.extend(start);
        }
    }
    bytes.push(stream.length);
}

impl Compressor for GeneralCompressor {
    fn push(&mut self, block: &Block, code: &mut Code) {
        self.instructions += u64::from(block.count);
        let address_bytes = self.build.address_bits as usize / 8;
        self.detector.push(block, code, &mut |stream, _| put(&mut self.bytes, &stream, address_bytes));
    }

    fn flush(&mut self, code: &mut Code) -> Records {
        let address_bytes = self.build.address_bits as usize / 8;
        self.detector.flush(code, &mut |stream, _| put(&mut self.bytes, &stream, address_bytes));
        let bytes = self.build.pack(&self.bytes).expect("memory can be written to");
        self.bytes.clear();
        let bits = bytes.len() as u64 * 8;
        self.all.add(bits);
        Records { bytes, bits, instructions: std::mem::take(&mut self.instructions) }
    }

    fn waiting(&self) -> u64 {
        self.bytes.len() as u64 * 8
    }

    fn shares(&self) -> Vec<Share> {
        vec![self.all]
    }
}

/// Decompresses.
#[derive(Clone, Debug)]
pub struct GeneralDecompressor {
    build: General,
    follower: Follower,
}

const BROKEN: Damage = Damage::Record("the general compressor does not know its own data again");

impl GeneralDecompressor {
    /// Nothing decompressed.
    pub fn new(build: General) -> Self {
        Self { build, follower: Follower::new(build.longest) }
    }

    fn stream(&self, input: &mut impl Read) -> Result<(u64, u8), Damage> {
        let mut take = |count: usize| {
            let mut bytes = [0; 8];
            input.read_exact(&mut bytes[..count]).map_err(|_| BROKEN)?;
            Ok(u64::from_le_bytes(bytes))
        };
        let address_bytes = self.build.address_bits as usize / 8;
        let mut start = self.follower.inferred().map_or_else(|| take(address_bytes), Ok)?;
        let mut length = take(1)?;
        if length == 0 {
            start = take(address_bytes)?;
            length = take(1)?;
        }
        Ok((start, length as u8))
    }
}

impl Decompressor for GeneralDecompressor {
    fn unpack(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
    ) -> Result<(), Damage> {
        let input = self.build.unpacked(&records.bytes).map_err(|_| BROKEN)?;
        let mut input = io::BufReader::new(input);
        let mut left = records.instructions;
        while left > 0 {
            let stream = self.stream(&mut input)?;
            left = crate::count_down(left, stream.1)?;
            self.follower.follow(stream, code, sink)?;
        }
        Ok(())
    }
}
