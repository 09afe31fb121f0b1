//! What a context has seen, in six or seven bits: how often each outcome came, roughly.
//!
//! A state stands for two counts. The counts that there are get sparser as they grow; a step between two of them is taken
//! with the right probability, from numbers that look random and are the same on both sides. An outcome that had not come
//! for long takes away a part of what the other one has: what happened lately counts more. The machine is a table worked
//! out once: read-only memory, not state.

use std::sync::OnceLock;

/// Where a state goes at one outcome.
#[derive(Clone, Copy, Debug)]
struct Step {
    stay: u8,
    on: u8,
    /// It goes on once in so many times.
    odds: u32,
}

/// A machine of states.
#[derive(Clone, Debug)]
pub struct Machine {
    counts: Vec<(u32, u32)>,
    steps: Vec<[Step; 2]>,
}

/// The smaller counts that there are, and for each the larger ones.
type Levels = &'static [(u32, &'static [u32])];

const SMALL: Levels =
    &[(0, &[0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64]), (1, &[1, 2, 3, 4, 6, 8, 16, 32]), (2, &[2, 3, 4, 8])];
const LARGE: Levels = &[
    (0, &[0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 128, 255]),
    (1, &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64]),
    (2, &[2, 3, 4, 6, 8, 16]),
    (3, &[3, 4, 6, 8]),
];

/// More than any count.
const END: u32 = 1000;

/// The state of these counts, or of the next smaller ones.
fn nearest(levels: Levels, (zeros, ones): (u32, u32)) -> (u32, u32) {
    let (small, large) = (zeros.min(ones), zeros.max(ones));
    let row = levels.iter().rev().find(|(row, _)| *row <= small).unwrap_or(&levels[0]);
    // A smaller count that has to be cut takes its part of the larger one along.
    let large = if row.0 > 0 && row.0 < small { large * row.0 / small } else { large }.max(row.0);
    let large = row.1.iter().rev().find(|&&level| level <= large).copied().unwrap_or(row.1[0]);
    if zeros <= ones { (row.0, large) } else { (large, row.0) }
}

impl Machine {
    /// The small machine (six bits) or the large one (seven).
    pub fn get(large: bool) -> &'static Self {
        static MACHINES: [OnceLock<Machine>; 2] = [OnceLock::new(), OnceLock::new()];
        MACHINES[usize::from(large)].get_or_init(|| Self::new(if large { LARGE } else { SMALL }))
    }

    fn new(levels: Levels) -> Self {
        let mut counts: Vec<(u32, u32)> = Vec::new();
        for &(row, larger) in levels {
            for &level in larger {
                for pair in [(row, level), (level, row)] {
                    if !counts.contains(&pair) {
                        counts.push(pair);
                    }
                }
            }
        }
        let number = |pair| counts.iter().position(|&known| known == pair).unwrap_or(0) as u8;
        let step = |&(zeros, ones): &(u32, u32), taken: bool| {
            let (same, other) = if taken { (ones, zeros) } else { (zeros, ones) };
            let other = if other <= 3 { other } else { 3 + (other - 3) / 2 };
            let after = |same| nearest(levels, if taken { (other, same) } else { (same, other) });
            let next = after(same + 1);
            if next != (zeros, ones) {
                return Step { stay: number(next), on: number(next), odds: 1 };
            }
            let further = (same + 2..END).find(|&count| after(count) != next);
            let on = further.map_or(next, after);
            Step { stay: number(next), on: number(on), odds: further.map_or(1, |count| count - same) }
        };
        let steps = counts.iter().map(|pair| [step(pair, false), step(pair, true)]).collect();
        Self { counts, steps }
    }

    /// Number of states; 0 is that of nothing seen.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// The state after an outcome.
    #[inline]
    pub fn next(&self, state: u8, taken: bool, random: u32) -> u8 {
        let step = self.steps[usize::from(state)][usize::from(taken)];
        if random.is_multiple_of(step.odds) { step.on } else { step.stay }
    }

    /// The probability of an outcome of 1 that a state stands for at first, 22 bits.
    pub fn first(&self, state: usize) -> u32 {
        let (zeros, ones) = self.counts[state];
        // What came several times and never otherwise is surer than its count says.
        let weigh = |count: u32, other: u32| if other == 0 && count > 1 { 16 * count } else { 10 * count };
        let (zeros, ones) = (u64::from(weigh(zeros, ones)), u64::from(weigh(ones, zeros)));
        ((ones + 4) * ((1 << 22) - 1) / (zeros + ones + 8)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_few_bits_and_begin_with_nothing_seen() {
        let (small, large) = (Machine::get(false), Machine::get(true));
        assert!(small.len() <= 64 && large.len() <= 128);
        assert_eq!((small.counts[0], large.counts[0]), ((0, 0), (0, 0)));
        assert_eq!(small.first(0), (1 << 21) - 1);
    }

    #[test]
    fn outcomes_that_repeat_make_surer_and_one_other_makes_less_sure() {
        for machine in [Machine::get(false), Machine::get(true)] {
            let mut state = 0;
            let mut before = machine.first(0);
            for _ in 0..64 {
                state = machine.next(state, true, 0);
                assert!(machine.first(state.into()) >= before);
                before = machine.first(state.into());
            }
            let (zeros, ones) = machine.counts[usize::from(state)];
            assert!(zeros == 0 && ones >= 64);
            let (zeros, ones) = machine.counts[usize::from(machine.next(state, false, 0))];
            assert!(zeros == 1 && ones >= 16, "{zeros} and {ones}");
        }
    }

    #[test]
    fn large_counts_grow_as_often_as_they_should() {
        let machine = Machine::get(true);
        let mut random = 1u32;
        let mut total = 0;
        for _ in 0..500 {
            let mut state = 0;
            for _ in 0..40 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state = machine.next(state, true, random >> 8);
            }
            total += machine.counts[usize::from(state)].1;
        }
        assert!((34..46).contains(&(total / 500)), "{} for 40", total / 500);
    }
}
