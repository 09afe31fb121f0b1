//! A probability that adapts.

use super::coder::P_BITS;

/// A probability of 1: quick at first, then slower.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    p: u32,
    count: u16,
}

/// Bits of an estimate's probability.
const BITS_OF_P: u32 = 28;
/// One, in an estimate.
const ALL: i64 = (1 << BITS_OF_P) - 1;
/// How many bits an estimate counts at most.
const MOST: u16 = 1023;
/// Bits of an estimate.
pub const BITS: u64 = BITS_OF_P as u64 + 10;

/// `2¹⁶ / (count + 1.6)`: how far an estimate goes towards a bit.
static STEPS: [u16; MOST as usize + 1] = {
    let mut steps = [0; MOST as usize + 1];
    let mut count = 0;
    while count <= MOST as usize {
        steps[count] = (655_360 / (10 * count + 16)) as u16;
        count += 1;
    }
    steps
};

impl Estimate {
    /// As likely as not.
    pub const EVEN: Self = Self { p: 1 << (BITS_OF_P - 1), count: 0 };

    /// Nearly always 1.
    pub const SURE: Self = Self { p: ALL as u32 - (1 << (BITS_OF_P - 8)), count: 250 };

    /// The probability of 1, of [`P_BITS`] bits.
    #[inline(always)]
    pub fn p(self) -> u32 {
        (self.p >> (BITS_OF_P - P_BITS)).clamp(1, (1 << P_BITS) - 1)
    }

    /// Notes a bit; `limit` bounds how slow it adapts.
    #[inline(always)]
    pub fn update(&mut self, bit: bool, limit: u16) {
        let target = if bit { ALL } else { 0 };
        let step = ((target - i64::from(self.p)) * i64::from(STEPS[usize::from(self.count & MOST)])) >> 16;
        self.p = (i64::from(self.p) + step) as u32;
        self.count += u16::from(self.count < limit.min(MOST));
    }
}

/// Extra bits of a probability that is kept for a state or for refinement.
pub const EXTRA: u32 = 6;
/// The largest such probability.
const CERTAIN: i32 = (1 << (16 + EXTRA)) - 1;

/// A step of `1 / 1 << slow` of the way to an outcome.
#[inline(always)]
pub fn toward(p: u32, bit: bool, slow: u32) -> u32 {
    let target = if bit { CERTAIN } else { 0 };
    (p as i32 + ((target - p as i32) >> slow)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_come_near_what_is_true_and_stay_within_bounds() {
        for (often, of) in [(1, 2), (1, 1000), (999, 1000)] {
            let mut estimate = Estimate::EVEN;
            (0..20_000).for_each(|n| estimate.update(n % of < often, 500));
            let (found, is) = (f64::from(estimate.p()) / f64::from(1 << P_BITS), often as f64 / of as f64);
            assert!((found - is).abs() < 0.002, "{found} for {is}");
        }
        for bit in [false, true] {
            let mut estimate = Estimate::EVEN;
            (0..100_000).for_each(|_| estimate.update(bit, u16::MAX));
            assert!((1..1 << P_BITS).contains(&estimate.p()));
        }
    }
}
