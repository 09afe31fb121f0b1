//! What a context has seen, in three to seven bits: how often each outcome came, roughly.
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
    /// It goes on if 16 random bits are below this.
    odds: u32,
}

/// A machine of states.
#[derive(Clone, Debug)]
pub struct Machine {
    counts: Vec<(u32, u32)>,
    steps: Box<[[Step; 2]; 128]>,
    /// What each state says.
    says: Box<[u8; 128]>,
}

/// Nothing is said against an outcome of 0 (the first bit) and of 1.
pub const NOT_AGAINST: u8 = 3;

/// The smaller counts that there are, and for each the larger ones.
type Levels = &'static [(u32, &'static [u32])];

/// By bits.
const LEVELS: [(u8, Levels); 5] = [
    (3, &[(0, &[0, 1, 3, 12])]),
    (4, &[(0, &[0, 1, 2, 4, 8, 24]), (1, &[1, 4])]),
    (5, &[(0, &[0, 1, 2, 3, 4, 6, 12, 24, 64]), (1, &[1, 2, 4, 8]), (2, &[2, 4])]),
    (
        6,
        &[
            (0, &[0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128]),
            (1, &[1, 2, 3, 4, 6, 8, 16, 32]),
            (2, &[2, 3, 4, 8]),
        ],
    ),
    (
        7,
        &[
            (0, &[0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 128, 255, 512]),
            (1, &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128]),
            (2, &[2, 3, 4, 6, 8, 16, 32]),
            (3, &[3, 4, 6, 8, 16]),
        ],
    ),
];

/// More than any count.
const END: u32 = 2000;

/// The state of these counts, or of the next smaller ones.
fn nearest(levels: Levels, (zeros, ones): (u32, u32)) -> (u32, u32) {
    let (small, large) = (zeros.min(ones), zeros.max(ones));
    let row = levels.iter().rev().find(|(row, _)| *row <= small).unwrap_or(&levels[0]);
    // A smaller count that has to be cut takes its part of the larger one along.
    let large = match row.0 {
        0 if small > 0 => large - small,
        cut if cut < small => large * cut / small,
        _ => large,
    };
    let large = row.1.iter().rev().find(|&&level| level <= large.max(row.0)).copied().unwrap_or(row.1[0]);
    if zeros <= ones { (row.0, large) } else { (large, row.0) }
}

impl Machine {
    /// Are there states of so many bits?
    pub fn has(bits: u8) -> bool {
        LEVELS.iter().any(|(known, _)| *known == bits)
    }

    /// The machine of so many bits.
    pub fn get(bits: u8) -> &'static Self {
        static MACHINES: [OnceLock<Machine>; LEVELS.len()] = [const { OnceLock::new() }; LEVELS.len()];
        let number = LEVELS.iter().position(|(known, _)| *known == bits).unwrap_or(0);
        MACHINES[number].get_or_init(|| Self::new(LEVELS[number].1))
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
        let coarse = levels.len() == 1;
        let number = |pair| counts.iter().position(|&known| known == pair).unwrap_or(0) as u8;
        let step = |&(zeros, ones): &(u32, u32), taken: bool| {
            let (same, before) = if taken { (ones, zeros) } else { (zeros, ones) };
            let other = match before {
                0..=1 if coarse => 0,
                0..=3 if !coarse => before,
                _ if coarse => before / 3,
                _ => 3 + (before - 3) / 3,
            };
            let pair = |same, other| if taken { (other, same) } else { (same, other) };
            let after = |same| nearest(levels, pair(same, other));
            let first = if coarse && before > 1 { 0 } else { same + 1 };
            let next = after(first);
            let odds = |times: u32| (1 << 16) / times;
            if next != (zeros, ones) || first == 0 {
                return Step { stay: number(next), on: number(next), odds: odds(1) };
            }
            match (first..END).find(|&count| after(count) != next) {
                Some(count) => {
                    Step { stay: number(next), on: number(after(count)), odds: odds(count - same) }
                }
                // What never came again for long is forgotten.
                None if other > 0 && !coarse => {
                    let on = nearest(levels, pair(same, other - 1));
                    Step { stay: number(next), on: number(on), odds: odds((same / 2).max(2)) }
                }
                None => Step { stay: number(next), on: number(next), odds: 0 },
            }
        };
        let mut steps = Box::new([[Step { stay: 0, on: 0, odds: 0 }; 2]; 128]);
        for (steps, pair) in steps.iter_mut().zip(&counts) {
            *steps = [step(pair, false), step(pair, true)];
        }
        let mut says = Box::new([0; 128]);
        for (says, &(zeros, ones)) in says.iter_mut().zip(&counts) {
            *says = u8::from(ones == 0) | u8::from(zeros == 0) << 1;
        }
        Self { counts, steps, says }
    }

    /// What a state says: see [`NOT_AGAINST`].
    #[inline(always)]
    pub fn says(&self, state: u8) -> u8 {
        self.says[usize::from(state & 127)]
    }

    /// Number of states; 0 is that of nothing seen.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// The state after an outcome, with 16 random bits.
    #[inline(always)]
    pub fn next(&self, state: u8, taken: bool, random: u32) -> u8 {
        let step = self.steps[usize::from(state & 127)][usize::from(taken)];
        if random < step.odds { step.on } else { step.stay }
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
        for (bits, _) in LEVELS {
            let machine = Machine::get(bits);
            assert!(machine.len() <= 1 << bits, "{} states of {bits} bits", machine.len());
            assert_eq!(machine.counts[0], (0, 0));
            assert_eq!(machine.first(0), (1 << 21) - 1);
        }
    }

    #[test]
    fn outcomes_that_repeat_make_surer_and_one_other_makes_less_sure() {
        for (bits, _) in LEVELS {
            let machine = Machine::get(bits);
            let mut state = 0;
            let mut before = machine.first(0);
            for _ in 0..64 {
                state = machine.next(state, true, 0);
                assert!(machine.first(state.into()) >= before);
                before = machine.first(state.into());
            }
            let (zeros, ones) = machine.counts[usize::from(state)];
            assert!(zeros == 0 && ones >= 12);
            let (once, left) = machine.counts[usize::from(machine.next(state, false, 0))];
            assert!(once <= 1 && 2 * left < ones, "{once} and {left} of {ones}");
        }
    }

    #[test]
    fn large_counts_grow_as_often_as_they_should() {
        let machine = Machine::get(7);
        let mut random = 1u32;
        let mut total = 0;
        for _ in 0..500 {
            let mut state = 0;
            for _ in 0..40 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state = machine.next(state, true, random >> 16);
            }
            total += machine.counts[usize::from(state)].1;
        }
        assert!((34..46).contains(&(total / 500)), "{} for 40", total / 500);
    }
}
