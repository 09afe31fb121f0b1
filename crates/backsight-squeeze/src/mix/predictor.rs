//! How likely a bit is 1: what several contexts have seen, mixed.
//!
//! Each context leads to a state ([`super::states`]), a state to a probability that is learnt. Their logarithms of odds are
//! weighed and added. With one set of mixers, weights are chosen by the address; with three, also by the last outcomes and
//! by the length of the match, and what they give is mixed once more and refined by what it came to be at this branch before.
//!
//! Most bits need less: where the first few contexts, mixed by weights of their own, are nearly certain, or agree with a long
//! match, the bit is coded with how often that was right. Contexts that have a history learn only where the mix was wrong by
//! more than a threshold: the table is kept for branches that need it.

use super::Mix;
use super::coder::{Coder, P_BITS};
use super::estimate::{EXTRA, Estimate, toward};
use super::history::{Contexts, History};
use super::logistic::{LIMIT, Logistic, ONE};
use super::matches::Hint;
use super::states::{Machine, NOT_AGAINST};
use crate::Damage;

/// Kinds and lengths of matches: 0 to 31 for outcomes, from 32 on for targets.
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
/// Errors below this change no weight.
const NEGLIGIBLE: i32 = 8;
/// Where the mix was less wrong than this, in 1/65536, no context learns.
const CERTAIN: u32 = 32;
/// From this length on, a match is as good as a context that is sure.
const LONG: usize = 12;
/// From this length on, no context is asked.
const VERY_LONG: usize = 24;
/// How slow estimates of what is sure adapt.
const SURE_LIMIT: u16 = 1000;

/// What a state stands for.
#[derive(Clone, Copy, Debug)]
struct Meaning {
    /// Probability of 1, 22 bits.
    p: u32,
    /// The same in the stretched domain.
    stretched: i32,
}

impl Meaning {
    fn of(p: u32, logistic: Logistic) -> Self {
        Self { p, stretched: logistic.stretch(p >> EXTRA) }
    }
}

/// Where contexts led to.
struct Found<const L: usize> {
    place: [u32; L],
    tag: [u8; L],
    state: [u8; L],
}

/// Contexts that are asked first.
pub const FIRST: usize = 4;
/// Inputs of their mix.
const FIRST_INPUTS: usize = 8;
/// How certain it is: groups for which it is kept how often it was right.
pub const SURE_GROUPS: usize = 8;

/// The model of bits.
#[derive(Clone, Debug)]
pub struct Predictor<const L: usize, const W: usize> {
    logistic: Logistic,
    machine: &'static Machine,
    contexts: Contexts<L>,
    inputs: usize,
    /// From here on the first contexts are sure, in the stretched domain; 0: they are not asked alone.
    certain: i32,
    size: u32,
    tag_mask: u8,
    surprise: u32,
    rate: i32,
    /// Bytes of a place: its state; its tag, if there are any.
    bytes: usize,
    /// The places of one context after the other.
    places: Box<[u8]>,
    /// Of one context after the other.
    meanings: Box<[[Meaning; 128]; L]>,
    first: Box<[[i32; FIRST_INPUTS]]>,
    /// By address, by the last outcomes, by the match; the latter two may be empty.
    weights: [Box<[[i32; W]]>; 3],
    last: [[i32; 3]; LAST_SETS],
    refined: Box<[u32]>,
    matches: Box<[Estimate]>,
    /// How often what was sure was right: by how sure it was; by the length of the match.
    sure: [Estimate; SURE_GROUPS],
    sure_matches: Box<[Estimate]>,
    /// The same of matches that nothing else was asked beside.
    matches_alone: Box<[Estimate]>,
    random: u32,
}

impl<const L: usize, const W: usize> Predictor<L, W> {
    pub fn new(build: &Mix) -> Self {
        let logistic = Logistic::new();
        let machine = Machine::get(build.state);
        let contexts = build.contexts().count();
        let first = WEIGHT / 100 * if build.buffer_bits > 0 { 130 } else { 160 } / contexts.max(1) as i32;
        let sets = |count: usize| vec![[first; W]; count].into_boxed_slice();
        let more = |count: usize| sets(if build.layers { count } else { 0 });
        let step = |n: usize| logistic.squash((n as i32 * 2 * LIMIT) / (STEPS as i32 - 1) - LIMIT) << EXTRA;
        let levels =
            |of: Estimate| vec![of; if build.buffer_bits > 0 { LEVELS } else { 0 }].into_boxed_slice();
        Self {
            logistic,
            machine,
            contexts: Contexts::new(build.contexts()),
            inputs: build.inputs(),
            certain: (i32::from(build.certain) * ONE / 8).min(LIMIT),
            size: build.table,
            tag_mask: ((1u32 << build.tag_bits) - 1) as u8,
            surprise: u32::from(build.surprise),
            rate: i32::from(build.rate),
            bytes: if build.tag_bits > 0 { 2 } else { 1 },
            // Lanes that are not used read what is never written.
            places: vec![0; L * build.table as usize * 2].into(),
            meanings: Box::new(
                [std::array::from_fn(|n| Meaning::of(machine.first(n % machine.len()), logistic)); L],
            ),
            first: vec![
                [WEIGHT / 100 * 160 / FIRST.min(contexts) as i32; FIRST_INPUTS];
                build.sets.max(1).into()
            ]
            .into(),
            weights: [sets(build.sets.max(1).into()), more(OUTCOME_SETS), more(MATCH_SETS)],
            last: [[(1 << 16) / 3; 3]; LAST_SETS],
            refined: (0..STEPS * usize::from(build.refined)).map(|n| step(n % STEPS)).collect(),
            matches: levels(Estimate::EVEN),
            sure: [Estimate::SURE; SURE_GROUPS],
            sure_matches: levels(Estimate::SURE),
            matches_alone: levels(Estimate::SURE),
            random: 1,
        }
    }

    /// Finds the state of a context.
    #[inline(always)]
    fn find(&self, lane: usize, history: &History, key: u32, found: &mut Found<L>) {
        let number = self.contexts.number(lane, history, key);
        let hashed = u64::from(number ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = lane as u32 * self.size + (((hashed >> 32) * u64::from(self.size)) >> 32) as u32;
        let tag = (hashed >> 24) as u8 & self.tag_mask;
        let place = slot as usize * self.bytes;
        let mut state = self.places[place];
        if self.bytes > 1 && self.places[place + 1] != tag {
            state = 0;
        }
        found.place[lane] = place as u32;
        found.tag[lane] = tag;
        found.state[lane] = state;
    }

    /// Codes a bit at a place with a key.
    #[inline(never)]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        (key, history): (u32, &History),
        hint: Option<Hint>,
        bit: bool,
    ) -> Result<bool, Damage> {
        let mut known = None;
        if let Some(hint) = hint.filter(|hint| hint.level % 32 >= VERY_LONG) {
            // Nothing else needs to be asked.
            match sure(coder, &mut self.matches_alone[hint.level % LEVELS], hint.bit, bit)? {
                (taken, true) => return Ok(taken),
                (taken, false) => known = Some(taken),
            }
        }
        let mut found = Found { place: [0; L], tag: [0; L], state: [0; L] };
        for lane in 0..FIRST {
            self.find(lane, history, key, &mut found);
        }
        let set = ((u64::from(key) * self.weights[0].len() as u64) >> 32) as usize;
        let mut first = None;
        if self.certain > 0 {
            let mut inputs = [0; FIRST_INPUTS];
            let mut all = NOT_AGAINST;
            let lanes = found.state.iter().zip(self.meanings.iter()).take(FIRST);
            for (input, (&state, meanings)) in inputs.iter_mut().zip(lanes) {
                *input = meanings[usize::from(state & 127)].stretched;
                all &= self.machine.says(state);
            }
            inputs[FIRST] = BIAS;
            let said = dot(&self.first[set], &inputs);
            if known.is_none()
                && let Some((expected, estimate)) = self.sure(said, all, hint)
            {
                match sure(coder, estimate, expected, bit)? {
                    (taken, true) => return Ok(taken),
                    (taken, false) => known = Some(taken),
                }
            }
            first = Some((said, inputs));
        }
        let taken = self.mix(coder, (key, history, set), &mut found, (hint, bit, known))?;
        if let Some((said, inputs)) = first {
            learn(&mut self.first[set], &inputs, error(taken, self.logistic.squash(said), self.rate));
        }
        Ok(taken)
    }

    /// What is expected, and how often that was right, if the first contexts and the match are sure.
    #[inline(always)]
    fn sure(&mut self, said: i32, all: u8, hint: Option<Hint>) -> Option<(bool, &mut Estimate)> {
        if let Some(hint) = hint {
            // A long match is enough if no context is against it.
            if hint.level % 32 >= LONG && all >> u8::from(hint.bit) & 1 == 1 {
                return Some((hint.bit, &mut self.sure_matches[hint.level % LEVELS]));
            }
            if hint.bit != (said > 0) {
                return None;
            }
        }
        let over = said.abs() - self.certain;
        let group = over * SURE_GROUPS as i32 / (LIMIT + 1 - self.certain);
        (over >= 0).then(|| (said > 0, &mut self.sure[group as usize % SURE_GROUPS]))
    }

    /// Codes a bit by all contexts, or learns from one that is known.
    #[inline(always)]
    fn mix(
        &mut self,
        coder: &mut impl Coder,
        (key, history, set): (u32, &History, usize),
        found: &mut Found<L>,
        (hint, bit, known): (Option<Hint>, bool, Option<bool>),
    ) -> Result<bool, Damage> {
        for lane in FIRST..L {
            self.find(lane, history, key, found);
        }
        let mut inputs = [0i32; W];
        for (input, (&state, meanings)) in inputs.iter_mut().zip(found.state.iter().zip(self.meanings.iter()))
        {
            *input = meanings[usize::from(state & 127)].stretched;
        }
        let mut level = 0;
        if let Some(hint) = hint {
            let said = self.logistic.stretch(self.matches[hint.level % LEVELS].p() >> (P_BITS - 16));
            inputs[self.inputs - 2] = if hint.bit { said } else { -said };
            level = 1 + hint.level.min(MATCH_SETS - 2);
        }
        inputs[self.inputs - 1] = BIAS;
        let (p, taken) = if self.weights[1].is_empty() {
            let p = self.logistic.squash(dot(&self.weights[0][set], &inputs));
            let taken = match known {
                Some(taken) => taken,
                None => coder.code(bit, p << (P_BITS - 16))?,
            };
            learn(&mut self.weights[0][set], &inputs, error(taken, p, self.rate));
            (p, taken)
        } else {
            let sets = [set, history.last as usize % OUTCOME_SETS, level];
            self.mix_layers(coder, (key, sets), &inputs, (bit, known))?
        };
        if let Some(hint) = hint {
            self.matches[hint.level % LEVELS].update(hint.bit == taken, 400);
        }
        let wrong = if taken { 65536 - p } else { p };
        self.learn_states(found, taken, wrong);
        Ok(taken)
    }

    #[inline(always)]
    fn mix_layers(
        &mut self,
        coder: &mut impl Coder,
        (key, sets): (u32, [usize; 3]),
        inputs: &[i32; W],
        (bit, known): (bool, Option<bool>),
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
            let set = (u64::from(key.rotate_left(16)) * (self.refined.len() / STEPS) as u64) >> 32;
            let place = set as usize * STEPS + index as usize;
            let (low, high) = (i64::from(self.refined[place]), i64::from(self.refined[place + 1]));
            let value = low + (high - low) * i64::from(part) / i64::from(2 * LIMIT);
            coded = p.midpoint((value >> EXTRA) as u32).clamp(1, 65535);
            refined = Some(place + usize::from(part > LIMIT));
        }
        let taken = match known {
            Some(taken) => taken,
            None => coder.code(bit, coded << (P_BITS - 16))?,
        };
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
    fn learn_states(&mut self, found: &Found<L>, taken: bool, wrong: u32) {
        // Where the mix was nearly right, contexts with a history need not learn, and where it was certain, none.
        let lanes = if wrong >= self.surprise {
            self.contexts.len()
        } else {
            usize::from(wrong >= CERTAIN || found.state[0] == 0)
        };
        if lanes == 0 {
            return;
        }
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for lane in 0..lanes.min(L) {
            let state = found.state[lane];
            let place = found.place[lane] as usize;
            if self.bytes > 1 {
                self.places[place + 1] = found.tag[lane];
            }
            let random = self.random.rotate_left(lane as u32 * 7) >> 16;
            self.places[place] = self.machine.next(state, taken, random);
            if state > 0 {
                let meaning = &mut self.meanings[lane][usize::from(state & 127)];
                *meaning = Meaning::of(toward(meaning.p, taken, SLOW), self.logistic);
            }
        }
    }
}

/// Codes a bit that is nearly certain. Gives it, and whether it is as expected.
#[inline(always)]
fn sure(
    coder: &mut impl Coder,
    estimate: &mut Estimate,
    expected: bool,
    bit: bool,
) -> Result<(bool, bool), Damage> {
    let right = coder.code(bit == expected, estimate.p())?;
    estimate.update(right, SURE_LIMIT);
    Ok((right == expected, right))
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
    if error.abs() < NEGLIGIBLE {
        return;
    }
    for lane in 0..W {
        let change = i32::from(inputs[lane] as i16) * i32::from(error as i16);
        weights[lane] = weights[lane].saturating_add(change + HALF) & !(2 * HALF - 1);
    }
}
