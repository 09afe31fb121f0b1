//! Mixed contexts and a range coder: how far prediction goes when every bit costs what it is worth.
//!
//! Where TMBP sends a count at each misprediction, here every conditional branch is coded with its probability, mixed from
//! several contexts: recent events of all branches, what this branch did, the path, and how often the innermost loop was
//! repeated. An indirect target is a number in a dictionary, and its bits are coded as if they were branches. All is integer
//! arithmetic; three sizes: at most 1 KB, 8 KB and 1 MB of state.
//!
//! Records of a flush: the number of discontinuities, each as a count of instructions and an address; then the code.

pub mod coder;
mod estimate;
mod history;
pub mod logistic;
mod matches;
mod predictor;
mod states;
mod targets;

use crate::Damage;
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::{Code, Kind};
use crate::notes::{Cursor, put_number};
use coder::{Coder, Decoder, Encoder};
use estimate::Estimate;
use history::{Context, History, hash};
use matches::Matches;
use predictor::Predictor;
use states::Machine;
use targets::{Dictionary, Full, Returns};

/// How the scheme is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// States of each context.
    pub table: u32,
    /// Bits of a state: 3 to 7.
    pub state: u8,
    /// Bits of a tag that says which context a state belongs to; 0 for none.
    pub tag_bits: u8,
    /// Contexts of recent events of all branches: how many events each has. The first should be 0: the branch alone.
    pub events: [u16; 16],
    /// Contexts of the iterations of the innermost loop and of recent events: how many.
    pub iterations: [u16; 2],
    /// Contexts of recent outcomes of this branch.
    pub locals: [u16; 3],
    /// Contexts of the path: how many steps each has.
    pub paths: [u16; 4],
    /// A context of this branch's runs: whether the run at hand is as long as the last one.
    pub loops: bool,
    /// A context of how long this branch's last runs were.
    pub runs: bool,
    /// Branches whose own outcomes and runs are kept.
    pub branches: u16,
    /// How wrong, in 1/65536, the mix must be for contexts with a history to learn.
    pub threshold: u16,
    /// How fast weights adapt, in 1/4096.
    pub rate: u8,
    /// Sets of weights chosen by address.
    pub sets: u16,
    /// There are also sets of weights by the last outcomes and by the match, and what all give is mixed again.
    pub layers: bool,
    /// Branches for which the mix is refined.
    pub refined: u16,
    /// Return addresses.
    pub returns: u16,
    /// Targets in the dictionary.
    pub targets: u16,
    /// log2 of the events among which repeats are looked for; 0: none are.
    pub buffer_bits: u8,
    /// log2 of the places where a repeat may begin.
    pub start_bits: u8,
    /// Bits of an address.
    pub address_bits: u32,
}

/// How many of the lengths are used.
fn used(lengths: &[u16]) -> impl Iterator<Item = u16> + '_ {
    lengths.iter().copied().filter(|&length| length != Mix::UNUSED)
}

/// Most inputs of a mixer.
const MOST: usize = 32;

impl Mix {
    /// No context.
    pub const UNUSED: u16 = u16::MAX;

    /// At most 1 KB of state.
    pub const SMALL: Self = Self {
        table: 372,
        state: 3,
        tag_bits: 0,
        events: list([0, 4, 12]),
        iterations: list([0]),
        locals: list([]),
        paths: list([]),
        loops: false,
        runs: false,
        branches: 0,
        threshold: 7864,
        rate: 20,
        sets: 8,
        layers: false,
        refined: 0,
        returns: 8,
        targets: 64,
        buffer_bits: 0,
        start_bits: 0,
        address_bits: 64,
    };

    /// At most 8 KB of state.
    pub const MEDIUM: Self = Self {
        table: 1170,
        state: 4,
        events: list([0, 3, 6, 10, 16, 28, 48]),
        loops: true,
        runs: true,
        branches: 100,
        threshold: 1966,
        sets: 32,
        returns: 16,
        targets: 128,
        ..Self::SMALL
    };

    /// At most 1 MB of state.
    pub const LARGE: Self = Self {
        table: 30000,
        state: 7,
        tag_bits: 8,
        events: list([0, 2, 4, 8, 14, 22, 34, 60, 120, 300]),
        locals: list([10]),
        paths: list([8]),
        loops: true,
        runs: true,
        threshold: 1500,
        branches: 1024,
        sets: 512,
        layers: true,
        refined: 256,
        returns: 64,
        targets: 256,
        buffer_bits: 16,
        start_bits: 14,
        ..Self::SMALL
    };

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        if !(16..=1 << 16).contains(&self.table) || !Machine::has(self.state) || self.tag_bits > 8 {
            return Err("contexts have 16 to 65536 states of 3 to 7 bits, and tags of at most 8");
        }
        if self.contexts().count() == 0 || self.inputs() > MOST {
            return Err("there are 1 to 30 contexts");
        }
        let longest = used(&self.events).chain(used(&self.iterations)).chain(used(&self.paths)).max();
        if longest > Some(4096) || used(&self.locals).max() > Some(16) {
            return Err("at most 4096 events or steps and 16 outcomes of a branch are kept");
        }
        if self.targets > 4096 || self.returns > 4096 || self.sets > 4096 || self.refined > 4096 {
            return Err("there are at most 4096 targets, returns, sets of weights and refined branches");
        }
        let kept = self.buffer_bits == 0 || (6..=24).contains(&self.buffer_bits);
        if !kept || self.start_bits > 24 {
            return Err("repeats are looked for among 2^6 to 2^24 events, from at most 2^24 places");
        }
        crate::check_address_bits(self.address_bits)
    }

    /// What the contexts are made of, in their order.
    fn contexts(&self) -> impl Iterator<Item = Context> + '_ {
        used(&self.events)
            .map(Context::Events)
            .chain(used(&self.iterations).map(Context::Iterations))
            .chain(used(&self.locals).map(Context::Local))
            .chain(self.loops.then_some(Context::Loop))
            .chain(self.runs.then_some(Context::Runs))
            .chain(used(&self.paths).map(Context::Path))
    }

    /// Inputs of a mixer: contexts, what a match says, and one that is always there.
    fn inputs(&self) -> usize {
        self.contexts().count() + usize::from(self.buffer_bits > 0) + 1
    }

    /// Bits of state: everything that changes. Addresses count as 32 bits.
    pub fn state_bits(&self) -> u64 {
        let contexts = self.contexts().count() as u64;
        let states = Machine::get(self.state).len() as u64;
        let longest = |lengths: &[u16]| u64::from(used(lengths).max().unwrap_or(0));
        let inputs = self.inputs() as u64;
        let matched = self.buffer_bits > 0;
        let number = u64::from(crate::log2_up(u32::from(self.targets) + 4));

        let tables = contexts * u64::from(self.table) * u64::from(self.state + self.tag_bits);
        // That of nothing seen stays as it is.
        let meanings = contexts * (states - 1) * 22;
        let more_sets = if self.layers { predictor::OUTCOME_SETS + predictor::MATCH_SETS } else { 0 };
        let weights = (u64::from(self.sets.max(1)) + more_sets as u64) * inputs * predictor::WEIGHT_BITS
            + if self.layers { predictor::LAST_SETS as u64 * 3 * 19 } else { 0 };
        let refined = u64::from(self.refined) * predictor::STEPS as u64 * 22;
        // An event is an outcome or eight bits of a target; of each length there is a hash.
        let events = longest(&self.events).max(longest(&self.iterations)) * 9 + contexts * 16;
        let iterations =
            if used(&self.iterations).next().is_none() { 0 } else { 32 + history::ITERATION_BITS };
        let runs = if self.loops || self.runs { 3 * history::RUN_BITS } else { 0 };
        let local = u64::from(self.branches) * (longest(&self.locals) + u64::from(runs));
        let path = longest(&self.paths) * 16;
        let returns = u64::from(self.returns) * 32 + 12 + 2 * estimate::BITS;
        // Targets with their registers; the hand; whether a target is in; the last one in full.
        let regions = targets::REGIONS as u64 * u64::from(32 - targets::LOW);
        let targets = u64::from(self.targets) * targets::ENTRY_BITS + regions + 12 + 4 * estimate::BITS + 32;
        let matches = if matched {
            (number << self.buffer_bits)
                + ((u64::from(self.buffer_bits) + 4) << self.start_bits)
                + predictor::LEVELS as u64 * estimate::BITS
                + 2 * 32
                + 16
        } else {
            0
        };
        // Random numbers and the coder.
        let rest = 32 + 128;
        tables
            + meanings
            + weights
            + refined
            + events
            + u64::from(iterations)
            + local
            + path
            + returns
            + targets
            + matches
            + rest
    }
}

/// A list of fixed length from one that may be shorter.
const fn list<const N: usize, const M: usize>(lengths: [u16; N]) -> [u16; M] {
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
struct Model<const W: usize> {
    history: History<W>,
    predictor: Predictor<W>,
    returns: Returns,
    dictionary: Dictionary,
    full: Full,
    /// Whether a target is in the dictionary: by whether the last two were.
    known: [Estimate; 4],
    lately: usize,
    matches: Option<Matches>,
}

/// A number for a branch, or for a decision on the way to its target.
#[inline(always)]
fn key(address: u64) -> u32 {
    (hash(address, 0) >> 32) as u32
}

#[inline(always)]
fn decision(key: u32, node: u32) -> u32 {
    let x = (key ^ node.wrapping_mul(0xC2B2_AE35)).wrapping_mul(0x27D4_EB2F);
    x ^ x >> 15
}

impl<const W: usize> Model<W> {
    fn new(build: &Mix) -> Self {
        let mut contexts = build.contexts();
        let contexts = std::array::from_fn(|_| contexts.next());
        Self {
            history: History::new(contexts, build.branches.into()),
            predictor: Predictor::new(build),
            returns: Returns::new(build.returns.into()),
            dictionary: Dictionary::new(build.targets.into()),
            full: Full::new(build.address_bits),
            known: [Estimate::EVEN; 4],
            lately: 0,
            matches: (build.buffer_bits > 0).then(|| Matches::new(build.buffer_bits, build.start_bits)),
        }
    }

    /// Codes what a branch at `last` did: gives whether it was taken and its target. Of a branch whose target is in its
    /// opcode, that is given whether it is taken or not.
    #[inline(always)]
    fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        (kind, last, end): (Kind, u64, u64),
        (taken, target): (bool, u64),
    ) -> Result<(bool, u64), Damage> {
        match kind {
            Kind::Plain | Kind::Jump => Ok((true, target)),
            Kind::Call => {
                self.returns.push(end);
                self.history.step(key(last));
                Ok((true, target))
            }
            Kind::Conditional => Ok((self.outcome(coder, last, target < last, taken)?, target)),
            Kind::Return => match self.returns.code(coder, target)? {
                Some(target) => {
                    self.history.step(key(target));
                    Ok((true, target))
                }
                None => Ok((true, self.target(coder, last, target)?)),
            },
            Kind::Indirect | Kind::IndirectCall => {
                let target = self.target(coder, last, target)?;
                if kind == Kind::IndirectCall {
                    self.returns.push(end);
                }
                Ok((true, target))
            }
        }
    }

    #[inline(always)]
    fn outcome(
        &mut self,
        coder: &mut impl Coder,
        last: u64,
        backward: bool,
        taken: bool,
    ) -> Result<bool, Damage> {
        let key = key(last);
        let mut hint = None;
        if let Some(matches) = &mut self.matches {
            matches.begin(key);
            hint = matches.outcome();
        }
        let numbers = self.history.contexts(key);
        let taken = self.predictor.code(coder, (key, &numbers, self.history.last), hint, taken)?;
        self.history.local(key, taken);
        self.history.outcome(key, backward, taken);
        if let Some(matches) = &mut self.matches {
            matches.end_outcome(taken);
        }
        Ok(taken)
    }

    /// Codes a target.
    #[inline(always)]
    fn target<C: Coder>(&mut self, coder: &mut C, last: u64, target: u64) -> Result<u64, Damage> {
        let key = key(last);
        if let Some(matches) = &mut self.matches {
            matches.begin(key);
        }
        let number = if C::READS { None } else { self.dictionary.find(target) };
        let known = &mut self.known[self.lately & 3];
        let is_known = coder.code(number.is_some(), known.p())?;
        known.update(is_known, 250);
        self.lately = self.lately << 1 | usize::from(is_known);
        let (number, target) = if is_known {
            let number = self.number(coder, key, number.unwrap_or(0))?;
            let target = self.dictionary.get(number).ok_or(Damage::Record("a target that is not known"))?;
            self.dictionary.touch(number);
            (Some(number), target)
        } else {
            let target = self.full.code(coder, target)?;
            (self.dictionary.miss(target), target)
        };
        let hashed = self::key(target);
        self.history.target(hashed);
        if let Some(matches) = &mut self.matches {
            matches.end_target(number, (hashed >> 16) as u16 & 0xFF);
        }
        Ok(target)
    }

    /// Codes the number of a target, decision by decision.
    #[inline(always)]
    fn number(&mut self, coder: &mut impl Coder, key: u32, number: u32) -> Result<u32, Damage> {
        let bits = self.dictionary.bits();
        let mut node = 1;
        for left in (0..bits).rev() {
            let key = decision(key, node);
            let hint = self.matches.as_ref().and_then(|matches| matches.number(node, left, bits));
            let numbers = self.history.contexts(key);
            let place = (key, &numbers, self.history.last);
            let bit = self.predictor.code(coder, place, hint, number >> left & 1 == 1)?;
            self.history.local(key, bit);
            node = node << 1 | u32::from(bit);
        }
        Ok(node ^ 1 << bits)
    }
}

/// The model with as many lanes as it has inputs.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each stream, and it is never moved")]
enum AnyModel {
    Narrow(Model<8>),
    Medium(Model<16>),
    Wide(Model<MOST>),
}

/// The same for each width.
macro_rules! each_width {
    ($model:expr, $inner:ident => $do:expr) => {
        match $model {
            AnyModel::Narrow($inner) => $do,
            AnyModel::Medium($inner) => $do,
            AnyModel::Wide($inner) => $do,
        }
    };
}

impl AnyModel {
    fn new(build: &Mix) -> Self {
        match build.inputs() {
            0..=8 => Self::Narrow(Model::new(build)),
            9..=16 => Self::Medium(Model::new(build)),
            _ => Self::Wide(Model::new(build)),
        }
    }
}

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
    fn push(&mut self, block: &Block, code: &mut Code) {
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
            let target = if block.kind == Kind::Conditional { code.target(block.last) } else { block.next };
            // An encoder takes what it is given.
            let _ = each_width!(&mut self.model, model => model.code(&mut self.encoder, branch, (block.taken, target)));
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
