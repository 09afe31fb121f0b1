//! What compressor and decompressor keep, and how it codes what a branch did.

use super::build::{MOST, Mix, used};
use super::coder::Coder;
use super::estimate::Estimate;
use super::history::{History, hash};
use super::matches::{self, Matches};
use super::predictor::{LEVELS, Predictor};
use super::targets::{Dictionary, Full, Returns};
use crate::Damage;
use crate::code::Kind;

/// What both sides keep.
#[derive(Clone, Debug)]
pub struct Model<const L: usize, const W: usize> {
    history: History,
    predictor: Predictor<L, W>,
    returns: Returns,
    dictionary: Dictionary,
    full: Full,
    /// Whether a target is in the dictionary: by whether the last two were.
    known: [Estimate; 4],
    lately: usize,
    matches: Option<Matches>,
    /// Whether a target is what a long match expects, by its length.
    expected: [Estimate; LEVELS],
}

/// From this length on, a match's target is asked for first.
const LONG_TARGET: usize = 8;

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

impl<const L: usize, const W: usize> Model<L, W> {
    pub fn new(build: &Mix) -> Self {
        let events = used(&build.events).chain(used(&build.iterations)).max().unwrap_or(0);
        let events = if build.buffer_bits > 0 { events.max(matches::SHORTEST) } else { events };
        let path = used(&build.paths).max().unwrap_or(0);
        Self {
            history: History::new((events, path), build.branches.into()),
            predictor: Predictor::new(build),
            returns: Returns::new(build.returns.into()),
            dictionary: Dictionary::new(build.targets.into()),
            full: Full::new(build.address_bits),
            known: [Estimate::EVEN; 4],
            lately: 0,
            expected: [Estimate::EVEN; LEVELS],
            matches: (build.buffer_bits > 0).then(|| Matches::new(build.buffer_bits, build.start_bits)),
        }
    }

    /// Codes what a branch at `last` did: gives whether it was taken and its target. Of a branch whose target is in its
    /// opcode, that is given whether it is taken or not.
    #[inline(always)]
    pub fn code<C: Coder>(
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
            matches.begin(&self.history, key);
            hint = matches.outcome();
        }
        let taken = self.predictor.code(coder, (key, &self.history), hint, taken)?;
        self.history.local(key, taken);
        self.history.outcome(key, backward, taken);
        if let Some(matches) = &mut self.matches {
            matches.end_outcome(taken);
        }
        Ok(taken)
    }

    /// Codes a target.
    fn target<C: Coder>(&mut self, coder: &mut C, last: u64, target: u64) -> Result<u64, Damage> {
        let key = key(last);
        let number = if C::READS { None } else { self.dictionary.find(target) };
        let mut expected = None;
        if let Some(matches) = &mut self.matches {
            matches.begin(&self.history, key);
            expected = matches.target().filter(|&(_, level)| level >= LONG_TARGET);
        }
        if let Some((expected, level)) = expected
            && let Some(there) = self.dictionary.get(expected)
        {
            let right = &mut self.expected[level % LEVELS];
            let is = coder.code(number == Some(expected), right.p())?;
            right.update(is, 400);
            if is {
                self.dictionary.touch(expected);
                self.went(there, Some(expected));
                return Ok(there);
            }
        }
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
        self.went(target, number);
        Ok(target)
    }

    #[inline(always)]
    fn went(&mut self, target: u64, number: Option<u32>) {
        self.history.target(key(target));
        if let Some(matches) = &mut self.matches {
            matches.end_target(number);
        }
    }

    /// Codes the number of a target, decision by decision.
    #[inline(always)]
    fn number(&mut self, coder: &mut impl Coder, key: u32, number: u32) -> Result<u32, Damage> {
        let bits = self.dictionary.bits();
        let mut node = 1;
        for left in (0..bits).rev() {
            let key = decision(key, node);
            let hint = self.matches.as_ref().and_then(|matches| matches.number(node, left, bits));
            let bit = self.predictor.code(coder, (key, &self.history), hint, number >> left & 1 == 1)?;
            self.history.local(key, bit);
            node = node << 1 | u32::from(bit);
        }
        Ok(node ^ 1 << bits)
    }
}

/// The model with as many lanes as it has inputs.
#[derive(Clone, Debug)]
pub enum AnyModel {
    Small(Model<4, 8>),
    Medium(Model<8, 16>),
    Large(Model<16, 16>),
    Wide(Model<30, MOST>),
}

/// The same for each width.
macro_rules! each_width {
    ($model:expr, $inner:ident => $do:expr) => {
        match $model {
            AnyModel::Small($inner) => $do,
            AnyModel::Medium($inner) => $do,
            AnyModel::Large($inner) => $do,
            AnyModel::Wide($inner) => $do,
        }
    };
}

impl AnyModel {
    pub fn new(build: &Mix) -> Self {
        match (build.contexts().count(), build.inputs()) {
            (0..=4, 0..=8) => Self::Small(Model::new(build)),
            (5..=8, 0..=16) => Self::Medium(Model::new(build)),
            (0..=16, 0..=16) => Self::Large(Model::new(build)),
            _ => Self::Wide(Model::new(build)),
        }
    }
}

pub(super) use each_width;
