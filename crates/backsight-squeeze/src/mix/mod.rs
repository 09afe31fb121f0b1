//! Mixed contexts and a range coder: how far prediction goes when every bit costs what it is worth.
//!
//! Where TMBP sends a count at each misprediction, here every conditional branch is coded with its probability, mixed from
//! several contexts: recent events of all branches, what this branch did, the path, and how often the innermost loop was
//! repeated. An indirect target is a number in a dictionary, and its bits are coded as if they were branches. All is integer
//! arithmetic; three sizes: at most 1 KB, 8 KB and 1 MB of state.
//!
//! Records of a flush: the number of discontinuities, each as a count of instructions and an address; then the code.

mod build;
pub mod coder;
mod estimate;
mod history;
pub mod logistic;
mod matches;
mod model;
mod predictor;
mod states;
mod targets;

pub use build::Mix;

use crate::Damage;
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::{Code, Kind};
use crate::notes::{Cursor, put_number};
use coder::{Decoder, Encoder};
use model::{AnyModel, each_width};

/// Compresses.
#[derive(Clone, Debug)]
pub struct MixCompressor {
    model: AnyModel,
    encoder: Encoder,
    breaks: Vec<u8>,
    break_count: u64,
    /// Instructions since the last discontinuity, and since the last flush.
    since: u64,
    total: u64,
    code: Share,
    discontinuity: Share,
}

impl MixCompressor {
    /// With nothing learnt.
    pub fn new(build: Mix) -> Self {
        Self {
            model: AnyModel::new(&build),
            encoder: Encoder::default(),
            breaks: Vec::new(),
            break_count: 0,
            since: 0,
            total: 0,
            code: Share::new("branches"),
            discontinuity: Share::new("discontinuities"),
        }
    }
}

impl Compressor for MixCompressor {
    fn push(&mut self, block: &Block, _code: &mut Code) {
        if block.fresh {
            put_number(&mut self.breaks, self.since);
            put_number(&mut self.breaks, block.start);
            self.break_count += 1;
            self.since = 0;
        }
        self.since += u64::from(block.count);
        self.total += u64::from(block.count);
        if block.kind != Kind::Plain {
            self.code.events += 1;
            let branch = (block.kind, block.last, block.end);
            // An encoder takes what it is given.
            let _ = each_width!(&mut self.model, model => model.code(&mut self.encoder, branch, (block.taken, block.next)));
        }
    }

    fn flush(&mut self, _code: &mut Code) -> Records {
        let mut bytes = Vec::new();
        put_number(&mut bytes, self.break_count);
        bytes.append(&mut self.breaks);
        self.discontinuity.events += self.break_count;
        self.discontinuity.bits += bytes.len() as u64 * 8;
        let code = self.encoder.finish();
        self.code.bits += code.len() as u64 * 8;
        bytes.extend(code);
        self.break_count = 0;
        self.since = 0;
        let bits = bytes.len() as u64 * 8;
        Records { bytes, bits, instructions: std::mem::take(&mut self.total) }
    }

    fn waiting(&self) -> u64 {
        (self.encoder.len() + self.breaks.len()) as u64 * 8
    }

    fn shares(&self) -> Vec<Share> {
        vec![self.code, self.discontinuity]
    }
}

/// Decompresses.
#[derive(Clone, Debug)]
pub struct MixDecompressor {
    model: AnyModel,
    at: u64,
}

impl MixDecompressor {
    /// With nothing learnt.
    pub fn new(build: Mix) -> Self {
        Self { model: AnyModel::new(&build), at: 0 }
    }
}

impl MixDecompressor {
    /// Compiled once: it is long, and a call for each path costs little beside what is computed for it.
    fn unpack_paths(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut dyn FnMut(Path, &mut Code),
    ) -> Result<(), Damage> {
        let mut bytes = Cursor::new(&records.bytes);
        let count = bytes.number()?;
        let mut breaks = bytes;
        for _ in 0..count {
            bytes.number()?;
            bytes.number()?;
        }
        let mut decoder = Decoder::new(bytes.rest());
        let mut breaks_left = count;
        let mut next_break = |left: &mut u64| -> Result<(u64, u64), Damage> {
            if *left == 0 {
                return Ok((u64::MAX, 0));
            }
            *left -= 1;
            Ok((breaks.number()?, breaks.number()?))
        };
        let mut until = next_break(&mut breaks_left)?;
        let mut left = records.instructions;
        while left > 0 {
            if until.0 == 0 {
                self.at = until.1;
                until = next_break(&mut breaks_left)?;
                continue;
            }
            let most = left.min(until.0);
            let straight = code.straight(self.at).ok_or(Damage::NoCode(self.at))?;
            let whole = u64::from(straight.count) <= most;
            let count = if whole { straight.count } else { most as u32 };
            let path = Path { start: self.at, count };
            sink(path, code);
            left -= u64::from(count);
            if until.0 != u64::MAX {
                until.0 -= u64::from(count);
            }
            if !whole {
                self.at = code.after(self.at, count).ok_or(Damage::NoCode(self.at))?;
                continue;
            }
            let branch = (straight.kind, straight.last, straight.end);
            let (taken, target) = each_width!(&mut self.model, model => model.code(&mut decoder, branch, (false, straight.target)))?;
            self.at = if taken { target } else { straight.end };
        }
        Ok(())
    }
}

impl Decompressor for MixDecompressor {
    fn unpack(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
    ) -> Result<(), Damage> {
        self.unpack_paths(records, code, sink)
    }
}
