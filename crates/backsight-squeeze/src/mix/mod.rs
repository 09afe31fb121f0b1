//! Mixed contexts and a range coder: how far prediction goes when every bit costs what it is worth.
//!
//! Where TMBP sends a count at each misprediction, here every conditional branch is coded with its probability, mixed from
//! several contexts: recent outcomes of all branches, of this branch, the path, and how long this branch's loops last.
//! Indirect targets come from a return stack and tables by path. All is integer arithmetic; three sizes: at most 1 KB,
//! 8 KB and 1 MB of state.
//!
//! Records of a flush: the number of discontinuities, each as a count of instructions and an address; then the code.

pub mod coder;
pub mod history;
pub mod logistic;
mod outcome;
mod targets;

use crate::Damage;
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::{Code, Kind};
use crate::notes::{Cursor, put_number};
use coder::{Coder, Decoder, Encoder};
use history::{History, hash};
use outcome::Outcomes;
use targets::Targets;

/// How the scheme is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// log2 of the estimates of each context.
    pub table_bits: u8,
    /// Bits of a tag that says which context an estimate belongs to; 0 for none.
    pub tag_bits: u8,
    /// Bits of a probability.
    pub probability_bits: u8,
    /// Contexts of recent outcomes of all branches: how many outcomes each has.
    pub outcomes: [u8; 10],
    /// Contexts of recent outcomes of this branch.
    pub locals: [u8; 3],
    /// Contexts of the path: how many steps each has.
    pub paths: [u8; 5],
    /// A context of this branch's runs.
    pub loops: bool,
    /// log2 of the branches whose outcomes are kept.
    pub local_bits: u8,
    /// How slow estimates adapt: to the last so many times.
    pub limit: u8,
    /// How fast weights adapt.
    pub rate: u8,
    /// How wrong, in 1/256, the mix must be for a tagged estimate to give way to another context.
    pub surprise: u8,
    /// log2 of the sets of weights chosen by address; 0: there are none.
    pub weight_bits: u8,
    /// Weights are also chosen by how much is known.
    pub weights_by_knowledge: bool,
    /// log2 of the branches for which the mix is refined; 0: it is not.
    pub refine_bits: u8,
    /// Return addresses.
    pub returns: u8,
    /// Tables of targets: steps of the path that each takes.
    pub target_paths: [u8; 4],
    /// log2 of the entries of each.
    pub target_bits: u8,
    /// Bits of an address.
    pub address_bits: u32,
}

impl Mix {
    /// No context.
    pub const UNUSED: u8 = 255;

    /// At most 1 KB of state.
    pub const SMALL: Self = Self {
        table_bits: 6,
        tag_bits: 0,
        probability_bits: 12,
        outcomes: list([0, 4, 8, 13]),
        locals: list([6]),
        paths: list([]),
        loops: true,
        local_bits: 5,
        limit: 15,
        rate: 12,
        surprise: 20,
        weight_bits: 0,
        weights_by_knowledge: false,
        refine_bits: 0,
        returns: 8,
        target_paths: list([1]),
        target_bits: 3,
        address_bits: 64,
    };

    /// At most 8 KB of state.
    pub const MEDIUM: Self = Self {
        table_bits: 9,
        tag_bits: 0,
        probability_bits: 12,
        outcomes: list([0, 4, 8, 14, 22]),
        locals: list([8]),
        paths: list([]),
        loops: true,
        local_bits: 6,
        limit: 15,
        rate: 8,
        surprise: 0,
        weight_bits: 2,
        weights_by_knowledge: false,
        refine_bits: 0,
        returns: 16,
        target_paths: list([0, 3]),
        target_bits: 5,
        address_bits: 64,
    };

    /// At most 1 MB of state.
    pub const LARGE: Self = Self {
        table_bits: 13,
        tag_bits: 10,
        probability_bits: 22,
        outcomes: list([0, 2, 4, 7, 11, 16, 22, 30, 42, 60]),
        locals: list([5, 10, 16]),
        paths: list([2, 5, 9, 16, 28]),
        loops: true,
        local_bits: 10,
        limit: 127,
        rate: 4,
        surprise: 0,
        weight_bits: 8,
        weights_by_knowledge: true,
        refine_bits: 10,
        returns: 64,
        target_paths: list([0, 2, 6, 14]),
        target_bits: 9,
        address_bits: 64,
    };

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        if !(2..=20).contains(&self.table_bits) || self.tag_bits > 16 {
            return Err("tables have 2 to 20 index bits, and tags at most 16");
        }
        if !(8..=22).contains(&self.probability_bits) || self.limit == 0 {
            return Err("probabilities have 8 to 22 bits, and adapt");
        }
        if [self.local_bits, self.weight_bits, self.refine_bits, self.target_bits]
            .iter()
            .any(|&bits| bits > 16)
        {
            return Err("tables have at most 16 index bits");
        }
        if self.outcomes.iter().any(|&length| length > 64 && length != Self::UNUSED) {
            return Err("at most 64 outcomes are kept");
        }
        if self.locals.iter().any(|&length| length > 16 && length != Self::UNUSED) {
            return Err("at most 16 outcomes of a branch are kept");
        }
        let paths = self.paths.iter().chain(&self.target_paths);
        if paths.into_iter().any(|&length| length as usize > history::PATH && length != Self::UNUSED) {
            return Err("at most 32 steps of the path are kept");
        }
        crate::check_address_bits(self.address_bits)
    }

    fn contexts(&self) -> usize {
        let used = |lengths: &[u8]| lengths.iter().filter(|&&length| length != Self::UNUSED).count();
        used(&self.outcomes) + used(&self.locals) + used(&self.paths) + usize::from(self.loops)
    }

    fn weight_sets(&self) -> usize {
        if self.weights_by_knowledge { 3 * (self.contexts() + 1) } else { 1 }
    }

    /// Bits of state: everything that changes. Addresses count as 32 bits, weights as 24.
    pub fn state_bits(&self) -> u64 {
        let contexts = self.contexts() as u64;
        let count_bits = u64::from(8 - self.limit.leading_zeros());
        let estimate = u64::from(self.probability_bits) + count_bits + u64::from(self.tag_bits);
        let local = u64::from(
            self.locals.iter().filter(|&&length| length != Self::UNUSED).max().copied().unwrap_or(0),
        );
        let sets = self.weight_sets() as u64 + if self.weight_bits > 0 { 1 << self.weight_bits } else { 0 };
        let longest =
            |lengths: &[u8]| lengths.iter().filter(|&&length| length != Self::UNUSED).max().copied();
        let path = longest(&self.paths).max(longest(&self.target_paths)).unwrap_or(0);
        let tables = self.target_paths.iter().filter(|&&length| length != Self::UNUSED).count() as u64;
        let refined = if self.refine_bits > 0 { (24 * 16) << self.refine_bits } else { 0 };
        (contexts << self.table_bits) * estimate
            + ((local + if self.loops { 16 } else { 0 }) << self.local_bits)
            + sets * (contexts + 1) * 24
            + refined
            + u64::from(self.returns) * 32
            + (tables << self.target_bits) * (32 + 8 + 3)
            + u64::from(longest(&self.outcomes).unwrap_or(0))
            + u64::from(path) * 16
            // Whether candidates are right, the last target, the coder.
            + (tables * 4 + 1) * 28
            + 32
            + 128
    }

    /// Gives every context of a branch.
    #[inline]
    fn each_context(&self, history: &History, address: u64, mut each: impl FnMut(u64)) {
        let local = history.local(address);
        let low = |bits: u64, count: u8| if count >= 64 { bits } else { bits & ((1 << count) - 1) };
        for &length in self.outcomes.iter().filter(|&&length| length != Self::UNUSED) {
            each(hash(address, low(history.outcomes, length)));
        }
        for &length in self.locals.iter().filter(|&&length| length != Self::UNUSED) {
            each(hash(address, low(u64::from(local.outcomes), length)));
        }
        for &length in self.paths.iter().filter(|&&length| length != Self::UNUSED) {
            each(hash(address, history.path(length)));
        }
        if self.loops {
            let last = u64::from(local.outcomes & 1);
            each(hash(address, u64::from(local.run) << 9 | u64::from(local.before) << 1 | last));
        }
    }
}

/// A list of fixed length from one that may be shorter.
const fn list<const N: usize, const M: usize>(lengths: [u8; N]) -> [u8; M] {
    let mut all = [Mix::UNUSED; M];
    let mut at = 0;
    while at < N {
        all[at] = lengths[at];
        at += 1;
    }
    all
}

/// What both sides keep.
#[derive(Clone, Debug)]
struct Model {
    history: History,
    outcomes: Outcomes,
    targets: Targets,
}

impl Model {
    fn new(build: Mix) -> Self {
        Self {
            history: History::new(u32::from(build.local_bits)),
            outcomes: Outcomes::new(build),
            targets: Targets::new(build),
        }
    }

    /// Codes what a branch at `last` did: gives whether it was taken and its target.
    #[inline]
    fn code(
        &mut self,
        coder: &mut impl Coder,
        (kind, last, end): (Kind, u64, u64),
        (taken, target): (bool, u64),
    ) -> Result<(bool, u64), Damage> {
        match kind {
            Kind::Plain | Kind::Jump => Ok((true, target)),
            Kind::Call => {
                self.targets.call(end);
                self.history.step(last);
                Ok((true, target))
            }
            Kind::Conditional => {
                let taken = self.outcomes.code(coder, &self.history, last, taken)?;
                self.history.outcome(last, taken);
                Ok((taken, target))
            }
            Kind::Return => {
                let target = self.targets.code_return(coder, &self.history, last, target)?;
                self.history.step(target);
                Ok((true, target))
            }
            Kind::Indirect | Kind::IndirectCall => {
                let target = self.targets.code(coder, &self.history, last, target)?;
                if kind == Kind::IndirectCall {
                    self.targets.call(end);
                }
                self.history.step(target);
                Ok((true, target))
            }
        }
    }
}

/// Compresses.
#[derive(Clone, Debug)]
pub struct MixCompressor {
    model: Model,
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
            model: Model::new(build),
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
    #[inline]
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
            let _ = self.model.code(&mut self.encoder, branch, (block.taken, block.next));
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
    model: Model,
    at: u64,
}

impl MixDecompressor {
    /// With nothing learnt.
    pub fn new(build: Mix) -> Self {
        Self { model: Model::new(build), at: 0 }
    }
}

impl Decompressor for MixDecompressor {
    fn unpack(
        &mut self,
        records: &Records,
        code: &mut Code,
        sink: &mut impl FnMut(Path, &mut Code),
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
            sink(Path { start: self.at, count }, code);
            left -= u64::from(count);
            if until.0 != u64::MAX {
                until.0 -= u64::from(count);
            }
            if !whole {
                self.at = code.after(self.at, count).ok_or(Damage::NoCode(self.at))?;
                continue;
            }
            let branch = (straight.kind, straight.last, straight.end);
            let (taken, target) = self.model.code(&mut decoder, branch, (false, straight.target))?;
            self.at = if taken { target } else { straight.end };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_keeps_within_its_state() {
        for (build, bytes) in [(Mix::SMALL, 1 << 10), (Mix::MEDIUM, 8 << 10), (Mix::LARGE, 1 << 20)] {
            assert_eq!(build.check(), Ok(()));
            assert!(build.state_bits() <= bytes * 8, "{} of {bytes} bytes", build.state_bits().div_ceil(8));
        }
    }
}
