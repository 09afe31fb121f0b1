//! How likely a conditional branch is taken: what several contexts have seen, mixed.
//!
//! Each context leads to a state ([`super::states`]), a state to a probability that is learnt. Their logarithms of odds are
//! weighed and added by one to three mixers; which of its sets of weights a mixer takes depends on the loop, the address or
//! the last outcomes. What the mixers say is mixed once more or added up; in the end the probability is refined by what it
//! came to be at this branch before.

use super::Mix;
use super::coder::Coder;
use super::history::{History, hash};
use super::logistic::{LIMIT, Logistic, ONE};
use super::states::Machine;
use crate::Damage;

/// A probability that adapts: quickly at first, then more slowly.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Probability of 1, 16 bits and 6 more for small steps.
    p: u32,
    count: u8,
}

/// Extra bits of an estimate.
const EXTRA: u32 = 6;
/// The largest estimate.
const SURE: u32 = (1 << (16 + EXTRA)) - 1;

impl Estimate {
    pub const EVEN: Self = Self { p: 1 << (15 + EXTRA), count: 0 };

    /// The probability of 1, 16 bits.
    #[inline]
    pub fn p(self) -> u32 {
        (self.p >> EXTRA).clamp(1, 65535)
    }

    /// Notes a bit; `limit` bounds how slow it adapts.
    #[inline]
    pub fn update(&mut self, bit: bool, limit: u8) {
        self.p = toward(self.p, bit, 2 * i64::from(self.count) + 3);
        self.count += u8::from(self.count < limit);
    }
}

/// Two parts in `divisor` of the way to an outcome.
#[inline]
fn toward(p: u32, bit: bool, divisor: i64) -> u32 {
    let target = if bit { i64::from(SURE) } else { 0 };
    (i64::from(p) + (target - i64::from(p)) * 2 / divisor) as u32
}

/// The unit of the rate at which weights adapt.
const RATE_SHIFT: u32 = 18;
/// A weight of one.
const WEIGHT: i32 = 1 << 16;
/// Weights stay below: with their sign they have 20 bits.
const MOST_WEIGHT: i64 = (1 << 19) - 1;
/// Most contexts.
pub const MOST: usize = 30;
/// Most mixers.
const MIXERS: usize = 3;

/// A state, and which context it is of.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    state: u8,
    tag: u16,
}

/// Which of its sets of weights a mixer takes.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Phase,
    Address,
    Outcomes,
}

#[derive(Clone, Debug)]
struct Mixer {
    choice: Choice,
    weights: Vec<i32>,
}

/// The model of outcomes.
#[derive(Clone, Debug)]
pub struct Outcomes {
    build: Mix,
    logistic: Logistic,
    machine: &'static Machine,
    slots: Vec<Slot>,
    /// What a state stands for, by context or for all.
    maps: Vec<u32>,
    mixers: Vec<Mixer>,
    /// Weights of the mixers.
    last: [i32; MIXERS],
    /// What the mix came to be: by branch, then by branch and outcomes.
    refined: [Vec<u32>; 2],
    random: u32,
    contexts: usize,
}

/// Steps between which the mix is refined.
pub const STEPS: usize = 33;
/// Sets of weights chosen by phase, and the bits of outcomes that choose others.
pub const PHASES: usize = 6;
pub const CHOICE_OUTCOMES: u32 = 4;

/// What is looked up for one branch.
struct Inputs {
    slots: [(u32, u16); MOST],
    values: [i32; MOST + 1],
}

impl Outcomes {
    pub fn new(build: Mix) -> Self {
        let logistic = Logistic::new();
        let machine = Machine::get(build.large_states);
        let contexts = build.contexts();
        let mut choices = vec![(Choice::Phase, PHASES)];
        if build.weight_bits > 0 {
            choices.push((Choice::Address, 1 << build.weight_bits));
        }
        if build.weights_by_outcomes {
            choices.push((Choice::Outcomes, 1 << CHOICE_OUTCOMES));
        }
        // At first all contexts count the same.
        let parts = if build.two_layers { 1 } else { 2 * choices.len() };
        let first = WEIGHT * 8 / 5 / (contexts.max(1) * parts) as i32;
        let last = WEIGHT / choices.len() as i32;
        let mixer = |(choice, sets)| Mixer { choice, weights: vec![first; sets * (contexts + 1)] };
        let step = |n: usize| logistic.squash((n as i32 * 2 * LIMIT) / (STEPS as i32 - 1) - LIMIT) << EXTRA;
        let refined = |used: bool| {
            let sets = if used && build.refine_bits > 0 { 1 << build.refine_bits } else { 0 };
            (0..STEPS * sets).map(|n| step(n % STEPS)).collect()
        };
        let maps = if build.one_map { 1 } else { contexts };
        Self {
            build,
            logistic,
            machine,
            slots: vec![Slot::default(); contexts << build.table_bits],
            maps: (0..maps * machine.len()).map(|n| machine.first(n % machine.len())).collect(),
            mixers: choices.into_iter().map(mixer).collect(),
            last: [last; MIXERS],
            refined: [refined(true), refined(build.refine_by_outcomes)],
            random: 1,
            contexts,
        }
    }

    fn map(&self, context: usize, state: u8) -> usize {
        usize::from(state) + if self.build.one_map { 0 } else { context * self.machine.len() }
    }

    #[inline]
    fn inputs(&self, history: &History, address: u64) -> Inputs {
        let build = &self.build;
        let mut inputs = Inputs { slots: [(0, 0); MOST], values: [0; MOST + 1] };
        let mut number = 0;
        build.each_context(history, address, |context| {
            let hashed = hash(context, number as u64 + 1);
            let slot =
                (number << build.table_bits) + ((hashed >> 40) as usize & ((1 << build.table_bits) - 1));
            let tag = (hashed >> 20) as u16 & ((1u32 << build.tag_bits) - 1) as u16;
            inputs.slots[number] = (slot as u32, tag);
            let found = self.slots[slot];
            if found.state != 0 && found.tag == tag {
                inputs.values[number] =
                    self.logistic.stretch(self.maps[self.map(number, found.state)] >> EXTRA);
            }
            number += 1;
        });
        inputs.values[number] = ONE;
        inputs
    }

    /// Codes an outcome.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        history: &History,
        address: u64,
        taken: bool,
    ) -> Result<bool, Damage> {
        let inputs = self.inputs(history, address);
        let width = self.contexts + 1;
        let values = &inputs.values[..width];
        let mut sets = [0; MIXERS];
        let mut sums = [0i64; MIXERS];
        for ((set, sum), mixer) in sets.iter_mut().zip(&mut sums).zip(&self.mixers) {
            let chosen = match mixer.choice {
                Choice::Phase => history.local(address).phase() as usize,
                Choice::Address => (hash(address, 7) >> 40) as usize & ((1 << self.build.weight_bits) - 1),
                Choice::Outcomes => history.outcomes as usize & ((1 << CHOICE_OUTCOMES) - 1),
            };
            *set = chosen * width;
            *sum = dot(&mixer.weights[*set..*set + width], values);
        }
        let said = sums.map(bounded);
        let mixed =
            if self.build.two_layers { bounded(dot(&self.last, &said)) } else { bounded(sums.iter().sum()) };
        let p = self.logistic.squash(mixed);
        let refined = self.refine(history, address, mixed);
        let coded = match refined {
            [Some((a, _)), Some((b, _))] => (2 * p + a + b) / 4,
            [Some((a, _)), None] => p.midpoint(a),
            _ => p,
        };
        let taken = coder.code(taken, coded.clamp(2, 65534))?;

        self.learn_weights(values, &sets, (p, &said), taken);
        for (refined, at) in self.refined.iter_mut().zip(refined) {
            if let Some((_, at)) = at {
                refined[at] = toward(refined[at], taken, 128);
            }
        }
        let error = (i64::from(taken) << 16).abs_diff(i64::from(p));
        self.learn_states(&inputs, taken, error >= u64::from(self.build.surprise) << 8);
        Ok(taken)
    }

    fn learn_weights(
        &mut self,
        values: &[i32],
        sets: &[usize],
        (p, said): (u32, &[i32; MIXERS]),
        taken: bool,
    ) {
        let outcome = i64::from(taken) << 16;
        let error = outcome - i64::from(p);
        let learn = |weight: &mut i32, error: i64, input: i32, rate: u8| {
            let change = (error * i64::from(input) * i64::from(rate) + (1 << (RATE_SHIFT - 1))) >> RATE_SHIFT;
            *weight = (i64::from(*weight) + change).clamp(-MOST_WEIGHT, MOST_WEIGHT) as i32;
        };
        for ((mixer, &set), &said) in self.mixers.iter_mut().zip(sets).zip(said) {
            // Alone, each mixer learns from its own error; added up, from that of all.
            let own =
                if self.build.two_layers { outcome - i64::from(self.logistic.squash(said)) } else { error };
            for (weight, &input) in mixer.weights[set..].iter_mut().zip(values) {
                learn(weight, own, input, self.build.rate);
            }
        }
        if self.build.two_layers {
            for (weight, &input) in self.last.iter_mut().zip(said) {
                learn(weight, error, input, LAST_RATE);
            }
        }
    }

    /// A state of another context gives way where what is known did not suffice.
    fn learn_states(&mut self, inputs: &Inputs, taken: bool, surprised: bool) {
        for (context, &(slot, tag)) in inputs.slots[..self.contexts].iter().enumerate() {
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = &mut self.slots[slot as usize];
            if slot.tag != tag {
                if !surprised && slot.state != 0 {
                    continue;
                }
                *slot = Slot { state: 0, tag };
            }
            let state = slot.state;
            slot.state = self.machine.next(state, taken, self.random >> 8);
            if state != 0 {
                let at = self.map(context, state);
                self.maps[at] = toward(self.maps[at], taken, MAP_DIVISOR);
            }
        }
    }

    /// What the mixed probability came to be at this branch, and with these outcomes: the value, and what is to learn.
    fn refine(&self, history: &History, address: u64, mixed: i32) -> [Option<(u32, usize)>; 2] {
        let range = 2 * LIMIT;
        let position = (mixed + LIMIT) * (STEPS as i32 - 1);
        let index = (position / range).min(STEPS as i32 - 2);
        let part = i64::from(position - index * range);
        let mask = (1usize << self.build.refine_bits) - 1;
        let chosen = [hash(address, 3), hash(address, (history.outcomes & 0xFF) + 9)];
        [0, 1].map(|which| {
            let refined = &self.refined[which];
            if refined.is_empty() {
                return None;
            }
            let at = ((chosen[which] >> 40) as usize & mask) * STEPS + index as usize;
            let (low, high) = (i64::from(refined[at]), i64::from(refined[at + 1]));
            let value = low + (high - low) * part / i64::from(range);
            Some(((value >> EXTRA) as u32, at + usize::from(part > i64::from(LIMIT))))
        })
    }
}

/// How slow what a state stands for adapts, and how fast the weights of mixers.
const MAP_DIVISOR: i64 = 256;
const LAST_RATE: u8 = 2;

/// From a sum with weights to the stretched domain.
#[inline]
fn bounded(sum: i64) -> i32 {
    (sum >> 16).clamp(i64::from(-LIMIT), i64::from(LIMIT)) as i32
}

#[inline]
fn dot(weights: &[i32], inputs: &[i32]) -> i64 {
    weights.iter().zip(inputs).map(|(&weight, &input)| i64::from(weight) * i64::from(input)).sum()
}
