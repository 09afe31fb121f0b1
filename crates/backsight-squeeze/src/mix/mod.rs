//! Mixed contexts and a range coder: how far prediction goes when every bit costs what it is worth.
//!
//! Where TMBP sends a count at each misprediction, here every conditional branch is coded with its probability, mixed from
//! several contexts: recent outcomes of all branches, of this branch, the path, how long this branch's loops last, and how
//! often the innermost loop was repeated.
//! Indirect targets come from a return stack and tables by path. All is integer arithmetic; three sizes: at most 1 KB,
//! 8 KB and 1 MB of state.
//!
//! Records of a flush: the number of discontinuities, each as a count of instructions and an address; then the code.

pub mod coder;
pub mod history;
mod known;
pub mod logistic;
mod outcome;
mod states;
mod targets;

use crate::Damage;
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::{Code, Kind};
use crate::notes::{Cursor, put_number};
use coder::{Coder, Decoder, Encoder};
use history::{History, hash};
use known::Known;
use outcome::{CHOICE_OUTCOMES, Outcomes, PHASES, STEPS};
use states::Machine;
use targets::Targets;

/// How the scheme is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// log2 of the states of each context.
    pub table_bits: u8,
    /// Bits of a tag that says which context a state belongs to; 0 for none.
    pub tag_bits: u8,
    /// States of seven bits, not six.
    pub large_states: bool,
    /// What states stand for is learnt for all contexts together.
    pub one_map: bool,
    /// Contexts of recent outcomes of all branches: how many outcomes each has.
    pub outcomes: [u8; 10],
    /// Contexts of recent outcomes of this branch.
    pub locals: [u8; 3],
    /// Contexts of the path: how many steps each has.
    pub paths: [u8; 5],
    /// A context of this branch's runs: whether the run at hand is as long as the last one.
    pub loops: bool,
    /// Contexts of the same and of recent outcomes: how many.
    pub loop_outcomes: [u8; 2],
    /// Contexts of the iterations of the innermost loop and of recent outcomes: how many.
    pub iterations: [u8; 2],
    /// A context of how long this branch's last runs were.
    pub runs: bool,
    /// log2 of the branches whose outcomes and runs are kept.
    pub local_bits: u8,
    /// Bits of the length of a run.
    pub run_bits: u8,
    /// How fast weights adapt.
    pub rate: u8,
    /// How wrong, in 1/256, the mix must be for a state to be given to another context.
    pub surprise: u8,
    /// log2 of the sets of weights chosen by address; 0: there are none.
    pub weight_bits: u8,
    /// There are also sets of weights chosen by the last outcomes.
    pub weights_by_outcomes: bool,
    /// What the sets of weights give is mixed again, not added up.
    pub two_layers: bool,
    /// log2 of the branches for which the mix is refined; 0: it is not.
    pub refine_bits: u8,
    /// It is also refined by branch and outcomes.
    pub refine_by_outcomes: bool,
    /// Values in registers are worked out, and decide branches (RV64).
    pub registers: bool,
    /// Return addresses.
    pub returns: u8,
    /// Tables of targets: steps of the path that each takes.
    pub target_paths: [u8; 4],
    /// log2 of the entries of each.
    pub target_bits: u8,
    /// Bits of an address.
    pub address_bits: u32,
}

/// How many of the lengths are used.
fn used(lengths: &[u8]) -> impl Iterator<Item = u8> + '_ {
    lengths.iter().copied().filter(|&length| length != Mix::UNUSED)
}

impl Mix {
    /// No context.
    pub const UNUSED: u8 = 255;

    /// At most 1 KB of state.
    pub const SMALL: Self = Self {
        table_bits: 6,
        tag_bits: 3,
        large_states: false,
        one_map: true,
        outcomes: list([0, 4, 8, 13]),
        locals: list([6]),
        paths: list([]),
        loops: true,
        loop_outcomes: list([]),
        iterations: list([]),
        runs: false,
        local_bits: 5,
        run_bits: 6,
        rate: 6,
        surprise: 16,
        weight_bits: 2,
        weights_by_outcomes: false,
        two_layers: false,
        refine_bits: 0,
        refine_by_outcomes: false,
        registers: false,
        returns: 8,
        target_paths: list([1]),
        target_bits: 3,
        address_bits: 64,
    };

    /// At most 8 KB of state.
    pub const MEDIUM: Self = Self {
        table_bits: 8,
        tag_bits: 5,
        large_states: false,
        one_map: false,
        outcomes: list([0, 2, 4, 7, 11, 16, 24]),
        locals: list([8]),
        paths: list([6]),
        loops: true,
        loop_outcomes: list([4]),
        iterations: list([0]),
        runs: false,
        local_bits: 7,
        run_bits: 8,
        rate: 6,
        surprise: 16,
        weight_bits: 4,
        weights_by_outcomes: false,
        two_layers: true,
        refine_bits: 2,
        refine_by_outcomes: false,
        registers: true,
        returns: 16,
        target_paths: list([0, 3]),
        target_bits: 5,
        address_bits: 64,
    };

    /// At most 1 MB of state.
    pub const LARGE: Self = Self {
        table_bits: 14,
        tag_bits: 8,
        large_states: true,
        one_map: false,
        outcomes: list([0, 2, 4, 7, 11, 16, 22, 30, 42, 60]),
        locals: list([5, 10, 16]),
        paths: list([3, 6, 12, 24]),
        loops: true,
        loop_outcomes: list([4, 10]),
        iterations: list([0, 8]),
        runs: true,
        local_bits: 10,
        run_bits: 10,
        rate: 6,
        surprise: 16,
        weight_bits: 8,
        weights_by_outcomes: true,
        two_layers: true,
        refine_bits: 10,
        refine_by_outcomes: true,
        registers: true,
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
        let bits = [self.local_bits, self.weight_bits, self.refine_bits, self.target_bits];
        if bits.iter().any(|&bits| bits > 16) {
            return Err("tables have at most 16 index bits");
        }
        if !(1..=15).contains(&self.run_bits) {
            return Err("lengths of runs have 1 to 15 bits");
        }
        let outcomes = used(&self.outcomes).chain(used(&self.loop_outcomes)).chain(used(&self.iterations));
        if outcomes.max() > Some(64) {
            return Err("at most 64 outcomes are kept");
        }
        if used(&self.locals).max() > Some(16) {
            return Err("at most 16 outcomes of a branch are kept");
        }
        if used(&self.paths).chain(used(&self.target_paths)).max() > Some(history::PATH as u8) {
            return Err("at most 32 steps of the path are kept");
        }
        crate::check_address_bits(self.address_bits)
    }

    fn contexts(&self) -> usize {
        let lists = [&self.outcomes[..], &self.locals, &self.paths, &self.loop_outcomes, &self.iterations];
        lists.iter().map(|lengths| used(lengths).count()).sum::<usize>()
            + usize::from(self.loops)
            + usize::from(self.runs)
    }

    /// Bits of state: everything that changes. Addresses count as 32 bits.
    pub fn state_bits(&self) -> u64 {
        let contexts = self.contexts() as u64;
        let states = Machine::get(self.large_states).len() as u64;
        let state = if self.large_states { 7 } else { 6 };
        let longest = |lengths: &[u8]| u64::from(used(lengths).max().unwrap_or(0));
        let outcomes =
            longest(&self.outcomes).max(longest(&self.loop_outcomes)).max(longest(&self.iterations));
        let path = longest(&self.paths).max(longest(&self.target_paths));
        let tables = used(&self.target_paths).count() as u64;
        let by_address = if self.weight_bits > 0 { 1 << self.weight_bits } else { 0 };
        let by_outcomes = if self.weights_by_outcomes { 1 << CHOICE_OUTCOMES } else { 0 };
        let sets = PHASES as u64 + by_address + by_outcomes;
        let refined = if self.refine_bits > 0 { 22 * STEPS as u64 } else { 0 };
        (contexts << self.table_bits) * (state + u64::from(self.tag_bits))
            + if self.one_map { 1 } else { contexts } * states * 22
            // Outcomes, three runs and how many were the same.
            + ((longest(&self.locals) + 3 * u64::from(self.run_bits) + 2) << self.local_bits)
            + (sets * (contexts + 1) + 3) * 20
            + (refined << self.refine_bits) * if self.refine_by_outcomes { 2 } else { 1 }
            + u64::from(self.returns) * 32
            + (tables << self.target_bits) * (32 + 8 + 3)
            + outcomes
            + path * 16
            + if self.registers { known::STATE_BITS } else { 0 }
            // Whether candidates are right, the last target, the loop and its iterations, random numbers, the coder.
            + (tables * 4 + 1) * 28
            + 32
            + 42
            + 32
            + 128
    }

    /// Gives every context of a branch.
    #[inline]
    fn each_context(&self, history: &History, address: u64, mut each: impl FnMut(u64)) {
        let local = history.local(address);
        let low = |bits: u64, count: u8| if count >= 64 { bits } else { bits & ((1 << count) - 1) };
        for length in used(&self.outcomes) {
            each(hash(address, low(history.outcomes, length)));
        }
        for length in used(&self.locals) {
            each(hash(address, low(u64::from(local.outcomes), length)));
        }
        for length in used(&self.paths) {
            each(hash(address, history.path(length)));
        }
        let phase = local.phase() | u64::from(local.same) << 3;
        if self.loops {
            // The first rounds of a loop are told apart.
            let round = if local.run < 4 { u64::from(local.run) } else { 0 };
            each(hash(address, phase | round << 8));
        }
        for length in used(&self.loop_outcomes) {
            each(hash(hash(address, phase), low(history.outcomes, length)));
        }
        for length in used(&self.iterations) {
            each(hash(hash(address, u64::from(history.iterations)), low(history.outcomes, length)));
        }
        if self.runs {
            let last = u64::from(local.outcomes & 1);
            each(hash(address, u64::from(local.run) << 17 | u64::from(local.other) << 1 | last));
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
    known: Option<Known>,
}

impl Model {
    fn new(build: Mix) -> Self {
        Self {
            history: History::new(build.local_bits.into(), (1 << build.run_bits) - 1),
            outcomes: Outcomes::new(build),
            targets: Targets::new(build),
            known: build.registers.then(Known::new),
        }
    }

    /// Instructions at consecutive addresses were executed; the last one may be a branch.
    #[inline]
    fn execute(&mut self, path: Path, code: &mut Code) {
        if let Some(known) = &mut self.known {
            known.execute(path, code);
        }
    }

    /// There was a discontinuity.
    fn break_off(&mut self) {
        if let Some(known) = &mut self.known {
            known.forget();
        }
    }

    /// Codes whether a conditional branch was taken.
    #[inline]
    fn outcome(
        &mut self,
        coder: &mut impl Coder,
        last: u64,
        taken: bool,
        code: &mut Code,
    ) -> Result<bool, Damage> {
        let Some(known) = &mut self.known else {
            return self.outcomes.code(coder, &self.history, last, taken);
        };
        let taken = match known.code(coder, last, taken, code)? {
            Some(taken) => taken,
            None => self.outcomes.code(coder, &self.history, last, taken)?,
        };
        known.learn(last, taken, code);
        Ok(taken)
    }

    /// Codes what a branch at `last` did: gives whether it was taken and its target. Of a branch whose target is in its
    /// opcode, that is given whether it is taken or not.
    #[inline]
    fn code(
        &mut self,
        coder: &mut impl Coder,
        (kind, last, end): (Kind, u64, u64),
        (taken, target): (bool, u64),
        code: &mut Code,
    ) -> Result<(bool, u64), Damage> {
        match kind {
            Kind::Plain | Kind::Jump => Ok((true, target)),
            Kind::Call => {
                self.targets.call(end);
                self.history.step(last);
                Ok((true, target))
            }
            Kind::Conditional => {
                let taken = self.outcome(coder, last, taken, code)?;
                self.history.outcome(last, target < last, taken);
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
    fn push(&mut self, block: &Block, code: &mut Code) {
        if block.fresh {
            put_number(&mut self.breaks, self.since);
            put_number(&mut self.breaks, block.start);
            self.break_count += 1;
            self.since = 0;
            self.model.break_off();
        }
        self.model.execute(Path { start: block.start, count: block.count }, code);
        self.since += u64::from(block.count);
        self.total += u64::from(block.count);
        if block.kind != Kind::Plain {
            self.code.events += 1;
            let branch = (block.kind, block.last, block.end);
            let target = if block.kind == Kind::Conditional { code.target(block.last) } else { block.next };
            // An encoder takes what it is given.
            let _ = self.model.code(&mut self.encoder, branch, (block.taken, target), code);
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
                self.model.break_off();
                until = next_break(&mut breaks_left)?;
                continue;
            }
            let most = left.min(until.0);
            let straight = code.straight(self.at).ok_or(Damage::NoCode(self.at))?;
            let whole = u64::from(straight.count) <= most;
            let count = if whole { straight.count } else { most as u32 };
            let path = Path { start: self.at, count };
            sink(path, code);
            self.model.execute(path, code);
            left -= u64::from(count);
            if until.0 != u64::MAX {
                until.0 -= u64::from(count);
            }
            if !whole {
                self.at = code.after(self.at, count).ok_or(Damage::NoCode(self.at))?;
                continue;
            }
            let branch = (straight.kind, straight.last, straight.end);
            let (taken, target) = self.model.code(&mut decoder, branch, (false, straight.target), code)?;
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
