//! How likely a conditional branch is taken: estimates from several contexts, mixed.

use super::Mix;
use super::coder::Coder;
use super::history::{History, hash};
use super::logistic::{LIMIT, Logistic, ONE};
use crate::Damage;

/// A probability that adapts: quickly at first, then more slowly.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Probability of 1, 16 bits and 6 more for small steps.
    p: u32,
    count: u8,
    tag: u16,
}

/// Extra bits of an estimate.
const EXTRA: u32 = 6;

impl Estimate {
    pub const EVEN: Self = Self { p: 1 << (15 + EXTRA), count: 0, tag: 0 };

    /// The probability of 1, 16 bits.
    #[inline]
    pub fn p(self) -> u32 {
        (self.p >> EXTRA).clamp(1, 65535)
    }

    /// Notes a bit. `limit` bounds how slow it adapts; `mask` says which bits of the probability are kept.
    #[inline]
    pub fn update(&mut self, bit: bool, limit: u8, mask: u32) {
        let target = if bit { (1 << (16 + EXTRA)) - 1 } else { 0 };
        let divisor = 2 * i64::from(self.count) + 3;
        let step = (i64::from(target) - i64::from(self.p)) * 2 / divisor;
        self.p = (i64::from(self.p) + step) as u32 & mask;
        self.count += u8::from(self.count < limit);
    }
}

/// The unit of the rate at which weights adapt.
const RATE_SHIFT: u32 = 18;
/// Most contexts.
const MOST: usize = 24;

/// The model of outcomes.
#[derive(Clone, Debug)]
pub struct Outcomes {
    build: Mix,
    logistic: Logistic,
    estimates: Vec<Estimate>,
    /// Weights of all contexts, for each of two selections.
    weights: [Vec<i32>; 2],
    /// What the mix came to be, by branch.
    refined: Vec<u16>,
    mask: u32,
    contexts: usize,
}

/// Steps of the stretched domain in which the mix is refined.
const STEPS: usize = 24;

impl Outcomes {
    pub fn new(build: Mix) -> Self {
        let logistic = Logistic::new();
        let contexts = build.contexts();
        // At first all contexts count the same, and together for a little more than one.
        let all = if build.weight_bits > 0 { 2 * contexts } else { contexts };
        let first = (3 << 15) / all.max(1) as i32;
        let weight = |at: usize| if at % (contexts + 1) == contexts { 0 } else { first };
        let weights = |sets: usize| (0..sets * (contexts + 1)).map(weight).collect::<Vec<_>>();
        let second = weights(if build.weight_bits > 0 { 1 << build.weight_bits } else { 0 });
        let step = |n: usize| logistic.squash((n as i32 * 2 * LIMIT) / (STEPS as i32 - 1) - LIMIT) as u16;
        let refined = (0..(STEPS << build.refine_bits)).map(|n| step(n % STEPS)).collect();
        let unused = 16 + EXTRA - u32::from(build.probability_bits);
        Self {
            build,
            logistic,
            estimates: vec![Estimate::EVEN; contexts << build.table_bits],
            weights: [weights(build.weight_sets()), second],
            refined,
            mask: u32::MAX << unused,
            contexts,
        }
    }

    /// Codes an outcome.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        history: &History,
        address: u64,
        taken: bool,
    ) -> Result<bool, Damage> {
        let build = self.build;
        let mut slots = [0u32; MOST];
        let mut tags = [0u16; MOST];
        let mut inputs = [0i32; MOST + 1];
        let mut known = 0;
        let mut number = 0;
        build.each_context(history, address, |context| {
            let hashed = hash(context, number as u64 + 1);
            let slot = (number << build.table_bits) + (hashed >> 40) as usize % (1 << build.table_bits);
            slots[number] = slot as u32;
            tags[number] = (hashed >> 20) as u16 & ((1u32 << build.tag_bits) - 1) as u16;
            let estimate = self.estimates[slot];
            if estimate.count > 0 && estimate.tag == tags[number] {
                known += 1;
                inputs[number] = self.logistic.stretch(estimate.p());
            }
            number += 1;
        });
        inputs[number] = ONE;
        let inputs = &inputs[..number + 1];
        let width = self.contexts + 1;
        let local = history.local(address);
        let first = match build.weight_sets() {
            1 => 0,
            _ => known * 3 + usize::from(local.run >= local.before) + usize::from(local.run == local.before),
        };
        let second = (hash(address, 7) >> 40) as usize & ((1 << build.weight_bits) - 1);
        let second = if build.weight_bits > 0 { second * width..(second + 1) * width } else { 0..0 };
        let sets = [first * width..(first + 1) * width, second];
        let sum: i64 =
            self.weights.iter().zip(&sets).map(|(weights, set)| dot(&weights[set.clone()], inputs)).sum();
        let mixed = ((sum >> 16) as i32).clamp(-LIMIT, LIMIT);
        let p = self.logistic.squash(mixed);
        let (refined, at, part) = self.refine(address, mixed);
        let last = if build.refine_bits > 0 { (p + refined) / 2 } else { p }.clamp(1, 65535);
        let taken = coder.code(taken, last)?;

        let error = (i64::from(taken) << 16) - i64::from(p);
        let rate = i64::from(build.rate);
        for (weights, set) in self.weights.iter_mut().zip(sets) {
            for (weight, &input) in weights[set].iter_mut().zip(inputs) {
                let change = (error * i64::from(input) * rate + (1 << (RATE_SHIFT - 1))) >> RATE_SHIFT;
                *weight = (i64::from(*weight) + change).clamp(-(1 << 22), 1 << 22) as i32;
            }
        }
        // An estimate of another context gives way only where what is known did not suffice.
        let surprised = error.unsigned_abs() >= u64::from(build.surprise) << 8;
        for (&slot, &tag) in slots[..number].iter().zip(&tags) {
            let estimate = &mut self.estimates[slot as usize];
            if estimate.tag != tag {
                if !surprised && estimate.count > 0 {
                    continue;
                }
                *estimate = Estimate { tag, ..Estimate::EVEN };
            }
            estimate.update(taken, build.limit, self.mask);
        }
        if build.refine_bits > 0 {
            let near = at + usize::from(part >= STEP / 2);
            let entry = &mut self.refined[near];
            let target = if taken { 65535 } else { 0 };
            *entry = (i32::from(*entry) + (target - i32::from(*entry)) / 64) as u16;
        }
        Ok(taken)
    }

    /// What the mixed probability came to be at this branch: the value, where it is, and the part of a step beyond.
    fn refine(&self, address: u64, mixed: i32) -> (u32, usize, i32) {
        let position = (mixed + LIMIT) * (STEPS as i32 - 1);
        let index = ((position / (2 * LIMIT)) as usize).min(STEPS - 2);
        let part = ((position - index as i32 * 2 * LIMIT) * STEP / (2 * LIMIT)).min(STEP);
        let set = (hash(address, 3) >> 40) as usize & ((1 << self.build.refine_bits) - 1);
        let at = set * STEPS + index;
        let (low, high) = (i32::from(self.refined[at]), i32::from(self.refined[at + 1]));
        ((low + (high - low) * part / STEP) as u32, at, part)
    }
}

/// Parts of a step.
const STEP: i32 = 128;

#[inline]
fn dot(weights: &[i32], inputs: &[i32]) -> i64 {
    weights.iter().zip(inputs).map(|(&weight, &input)| i64::from(weight) * i64::from(input)).sum()
}
