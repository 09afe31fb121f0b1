//! A probability that adapts.

/// A probability of 1: quick at first, then slower.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// 16 bits, and 6 more for small steps.
    p: u32,
    count: u8,
}

/// Extra bits of an estimate.
pub const EXTRA: u32 = 6;
/// The largest estimate.
const SURE: i32 = (1 << (16 + EXTRA)) - 1;
/// Bits of an estimate that counts up to 255.
pub const BITS: u64 = 16 + EXTRA as u64 + 8;

impl Estimate {
    pub const EVEN: Self = Self { p: 1 << (15 + EXTRA), count: 0 };

    /// The probability of 1, 16 bits.
    #[inline(always)]
    pub fn p(self) -> u32 {
        (self.p >> EXTRA).clamp(1, 65535)
    }

    /// Notes a bit; `limit` bounds how slow it adapts.
    #[inline(always)]
    pub fn update(&mut self, bit: bool, limit: u8) {
        let target = if bit { SURE } else { 0 };
        let step = (target - self.p as i32) / (i32::from(self.count) + 2);
        self.p = (self.p as i32 + step) as u32;
        self.count += u8::from(self.count < limit);
    }
}

/// A step of `1 / 1 << slow` of the way to an outcome.
#[inline(always)]
pub fn toward(p: u32, bit: bool, slow: u32) -> u32 {
    let target = if bit { SURE } else { 0 };
    (p as i32 + ((target - p as i32) >> slow)) as u32
}
