//! Every numeric option of every unit, over its range: what is decoded is what was executed.
//!
//! The quick tests take the ends of each range and some values between them; `tests/options/run` takes every value and
//! longer programs.

mod cva6;
mod etm;
mod etm4;
mod etrace;
mod ntrace;
mod riscv;
#[path = "../support/mod.rs"]
mod support;

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// The ends of ranges, powers of two and their neighbours.
    Quick,
    /// Every value, or in very long ranges every value up to 300 and then powers of two and their neighbours.
    Thorough,
}

impl Effort {
    /// Values between `low` and `high`, both included.
    pub fn values(self, low: u64, high: u64) -> Vec<u64> {
        let all = match self {
            Self::Quick => 4,
            Self::Thorough => 300,
        };
        let mut values: Vec<u64> = (low..=high.min(low.saturating_add(all))).collect();
        for power in (0..64).map(|bit| 1u64 << bit) {
            values.extend([power - 1, power, power + 1].map(|value| value.clamp(low, high)));
        }
        values.extend([low, high.saturating_sub(1).max(low), high]);
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Instructions of a program.
    pub const fn instructions(self) -> u64 {
        match self {
            Self::Quick => 4_000,
            Self::Thorough => 120_000,
        }
    }
}

#[test]
fn quick_values_have_the_ends_of_their_range() {
    assert_eq!(Effort::Quick.values(1, 62).first(), Some(&1));
    assert_eq!(Effort::Quick.values(1, 62).last(), Some(&62));
    assert_eq!(Effort::Thorough.values(1, 62), (1..=62).collect::<Vec<_>>());
    assert!(Effort::Quick.values(0, u64::MAX).contains(&u64::MAX));
}
