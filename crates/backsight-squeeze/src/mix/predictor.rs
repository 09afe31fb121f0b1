//! How likely a bit is 1: what several contexts have seen, mixed.
//!
//! Each context leads to a state ([`super::states`]), a state to a probability that is learnt. Their logarithms of odds are
//! weighed and added. With one set of mixers, weights are chosen by the address; with three, also by the last outcomes and
//! by the length of the match, and what they give is mixed once more and refined by what it came to be at this branch before.
//!
//! Contexts that have a history learn only where the mix was wrong by more than a threshold: the table is kept for branches
//! that need it.

use super::Mix;
use super::coder::Coder;
use super::estimate::{EXTRA, Estimate, toward};
use super::logistic::{LIMIT, Logistic, ONE};
use super::states::Machine;
use crate::Damage;

/// What a match says of the next bit, and how long the match is: 0 to 31 for outcomes, from 32 on for targets.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    pub bit: bool,
    pub level: usize,
}

/// Kinds and lengths of matches.
pub const LEVELS: usize = 64;
/// Sets of weights by the length of the match.
pub const MATCH_SETS: usize = 24;
/// Sets of weights by the last outcomes.
pub const OUTCOME_SETS: usize = 64;
/// Sets of weights of the second layer, by the length of the match.
pub const LAST_SETS: usize = 16;
/// Steps between which the mix is refined.
pub const STEPS: usize = 33;
/// Bits of a weight that are kept.
pub const WEIGHT_BITS: u64 = 18;

/// Half of the smallest step of a weight.
const HALF: i32 = 1 << (31 - WEIGHT_BITS);
/// A weight of one: 13 bits of its upper half.
const WEIGHT: i32 = 1 << 29;
/// How slow what a state stands for adapts.
const SLOW: u32 = 8;
/// How slow the mix is refined.
const REFINE_SLOW: u32 = 6;
/// The input that is always there.
const BIAS: i32 = ONE * 2 / 5;

/// What a state stands for.
#[derive(Clone, Copy, Debug)]
struct Meaning {
    /// Probability of 1, 22 bits.
    p: u32,
    /// The same in the stretched domain.
    stretched: i32,
}

/// The model of bits.
#[derive(Clone, Debug)]
pub struct Predictor<const W: usize> {
    logistic: Logistic,
    machine: &'static Machine,
    contexts: usize,
    inputs: usize,
    size: u32,
    tag_mask: u16,
    threshold: u32,
    rate: i32,
    /// State in the lower byte, tag in the upper one; of one context after the other.
    slots: Box<[u16]>,
    /// Of one context after the other.
    meanings: Box<[Meaning]>,
    /// By address, by the last outcomes, by the match; the latter two may be empty.
    weights: [Box<[[i32; W]]>; 3],
    last: [[i32; 3]; LAST_SETS],
    refined: Box<[u32]>,
    matches: Box<[Estimate]>,
    random: u32,
}

/// Multiplies that spread a number's bits.
const SPREAD: u32 = 0x9E37_79B1;
const FINISH: u32 = 0x85EB_CA6B;

impl<const W: usize> Predictor<W> {
    pub fn new(build: &Mix) -> Self {
        let logistic = Logistic::new();
        let machine = Machine::get(build.state);
        let contexts = build.contexts().count();
        let first = WEIGHT / 100 * if build.buffer_bits > 0 { 130 } else { 160 } / contexts.max(1) as i32;
        let sets = |count: usize| vec![[first; W]; count].into_boxed_slice();
        let more = |count: usize| sets(if build.layers { count } else { 0 });
        let step = |n: usize| logistic.squash((n as i32 * 2 * LIMIT) / (STEPS as i32 - 1) - LIMIT) << EXTRA;
        let meaning = |n: usize| {
            let p = machine.first(n % machine.len());
            Meaning { p, stretched: logistic.stretch(p >> EXTRA) }
        };
        Self {
            logistic,
            machine,
            contexts,
            inputs: build.inputs(),
            size: build.table,
            tag_mask: ((1u32 << build.tag_bits) - 1) as u16,
            threshold: u32::from(build.threshold),
            rate: i32::from(build.rate),
            slots: vec![0; contexts * build.table as usize].into(),
            meanings: (0..contexts * machine.len()).map(meaning).collect(),
            weights: [sets(build.sets.max(1).into()), more(OUTCOME_SETS), more(MATCH_SETS)],
            last: [[(1 << 16) / 3; 3]; LAST_SETS],
            refined: (0..STEPS * usize::from(build.refined)).map(|n| step(n % STEPS)).collect(),
            matches: vec![Estimate::EVEN; if build.buffer_bits > 0 { LEVELS } else { 0 }].into(),
            random: 1,
        }
    }

    /// Codes a bit at a place with a key, where contexts have these numbers.
    #[inline(never)]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        (key, numbers, outcomes): (u32, &[u16; W], u32),
        hint: Option<Hint>,
        bit: bool,
    ) -> Result<bool, Damage> {
        let states = self.machine.len();
        let hashed: [u32; W] = std::array::from_fn(|lane| {
            let x = key ^ u32::from(numbers[lane]).wrapping_mul(SPREAD) ^ (lane as u32) << 27;
            (x ^ x >> 15).wrapping_mul(FINISH)
        });
        let mut at = [0usize; W];
        let mut known = [0u8; W];
        let mut inputs = [0i32; W];
        for lane in 0..self.contexts.min(W) {
            let slot = lane * self.size as usize + (((hashed[lane] >> 16) * self.size) >> 16) as usize;
            let found = self.slots[slot];
            let tag = hashed[lane] as u16 & self.tag_mask;
            let state = if found >> 8 == tag { found as u8 } else { 0 };
            at[lane] = slot;
            known[lane] = state;
            let meaning = self.meanings[lane * states + usize::from(state)];
            inputs[lane] = meaning.stretched;
        }
        let mut level = 0;
        if let Some(hint) = hint.filter(|_| !self.matches.is_empty()) {
            let said = self.logistic.stretch(self.matches[hint.level & (LEVELS - 1)].p());
            inputs[self.contexts] = if hint.bit { said } else { -said };
            level = 1 + hint.level.min(MATCH_SETS - 2);
        }
        inputs[self.inputs - 1] = BIAS;

        let set = ((key & 0xFFFF) as usize * self.weights[0].len()) >> 16;
        let (p, taken) = if self.weights[1].is_empty() {
            let p = self.logistic.squash(dot(&self.weights[0][set], &inputs));
            let taken = coder.code(bit, p)?;
            let error = error(taken, p, self.rate);
            learn(&mut self.weights[0][set], &inputs, error);
            (p, taken)
        } else {
            self.code_by_layers(coder, (key, [set, outcomes as usize % OUTCOME_SETS, level]), &inputs, bit)?
        };
        if let Some(hint) = hint
            && !self.matches.is_empty()
        {
            self.matches[hint.level & (LEVELS - 1)].update(hint.bit == taken, 250);
        }
        let wrong = if taken { 65536 - p } else { p };
        self.learn_states((&hashed, &at, &known), taken, wrong >= self.threshold);
        Ok(taken)
    }

    #[inline(always)]
    fn code_by_layers(
        &mut self,
        coder: &mut impl Coder,
        (key, sets): (u32, [usize; 3]),
        inputs: &[i32; W],
        bit: bool,
    ) -> Result<(u32, bool), Damage> {
        let said: [i32; 3] = std::array::from_fn(|mixer| dot(&self.weights[mixer][sets[mixer]], inputs));
        let last = &mut self.last[sets[2].min(LAST_SETS - 1)];
        let sum = (0..3).map(|mixer| i64::from(last[mixer]) * i64::from(said[mixer])).sum::<i64>() >> 16;
        let mixed = sum.clamp(i64::from(-LIMIT), i64::from(LIMIT)) as i32;
        let p = self.logistic.squash(mixed);
        let mut coded = p;
        let mut refined = None;
        if !self.refined.is_empty() {
            let position = (mixed + LIMIT) * (STEPS as i32 - 1);
            let index = (position / (2 * LIMIT)).min(STEPS as i32 - 2);
            let part = position - index * 2 * LIMIT;
            let set = ((key >> 16) as usize * (self.refined.len() / STEPS)) >> 16;
            let place = set * STEPS + index as usize;
            let (low, high) = (i64::from(self.refined[place]), i64::from(self.refined[place + 1]));
            let value = low + (high - low) * i64::from(part) / i64::from(2 * LIMIT);
            coded = p.midpoint((value >> EXTRA) as u32).clamp(1, 65535);
            refined = Some(place + usize::from(part > LIMIT));
        }
        let taken = coder.code(bit, coded)?;
        if let Some(place) = refined {
            self.refined[place] = toward(self.refined[place], taken, REFINE_SLOW);
        }
        let off = (i32::from(taken) << 16) - p as i32;
        for mixer in 0..3 {
            let own = error(taken, self.logistic.squash(said[mixer]), self.rate);
            learn(&mut self.weights[mixer][sets[mixer]], inputs, own);
            last[mixer] = (last[mixer] + ((i64::from(off) * i64::from(said[mixer])) >> 17) as i32)
                .clamp(-(1 << 18), 1 << 18);
        }
        Ok((p, taken))
    }

    #[inline(always)]
    fn learn_states(
        &mut self,
        (hashed, at, known): (&[u32; W], &[usize; W], &[u8; W]),
        taken: bool,
        surprised: bool,
    ) {
        let states = self.machine.len();
        for lane in 0..self.contexts.min(W) {
            let state = known[lane];
            if state == 0 {
                let slot = &mut self.slots[at[lane]];
                let tag = hashed[lane] as u16 & self.tag_mask;
                if *slot as u8 == 0 || surprised {
                    *slot = u16::from(self.machine.next(0, taken, 0)) | tag << 8;
                }
                continue;
            }
            // Where the mix was nearly certain, contexts with a history need not learn.
            if !surprised && lane > 0 {
                continue;
            }
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let meaning = &mut self.meanings[lane * states + usize::from(state)];
            meaning.p = toward(meaning.p, taken, SLOW);
            meaning.stretched = self.logistic.stretch(meaning.p >> EXTRA);
            let next = self.machine.next(state, taken, self.random >> 16);
            let slot = &mut self.slots[at[lane]];
            *slot = *slot & 0xFF00 | u16::from(next);
        }
    }
}

/// The sum of inputs with weights, in the stretched domain.
#[inline(always)]
fn dot<const W: usize>(weights: &[i32; W], inputs: &[i32; W]) -> i32 {
    let mut sum = 0i32;
    for lane in 0..W {
        sum += i32::from((weights[lane] >> 16) as i16) * i32::from(inputs[lane] as i16);
    }
    (sum >> 13).clamp(-LIMIT, LIMIT)
}

/// How wrong a probability was, times the rate: 16 bits.
#[inline(always)]
fn error(taken: bool, p: u32, rate: i32) -> i32 {
    (((i32::from(taken) << 16) - p as i32) * rate) >> 7
}

#[inline(always)]
fn learn<const W: usize>(weights: &mut [i32; W], inputs: &[i32; W], error: i32) {
    for lane in 0..W {
        let change = i32::from(inputs[lane] as i16) * i32::from(error as i16);
        weights[lane] = weights[lane].saturating_add(change + HALF) & !(2 * HALF - 1);
    }
}
