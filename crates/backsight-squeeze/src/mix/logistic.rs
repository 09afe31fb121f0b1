//! Probabilities in the domain where evidence adds up, in integers.
//!
//! stretch(p) = ln(p / (1 - p)), squash is its inverse. Both are tables worked out in integer arithmetic, so that every
//! machine has the same. They are read-only memory, not state.

use std::sync::OnceLock;

/// One in the stretched domain.
pub const ONE: i32 = 256;
/// The largest stretched value: 11 = ln(2¹⁶) or so.
pub const LIMIT: i32 = 11 * ONE;

struct Tables {
    squash: Vec<u16>,
    stretch: Vec<i16>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        // exp(1/256), 60 fractional bits: the sum of 1 / (256ⁿ n!).
        let mut term = 1u128 << 60;
        let mut step = term;
        for n in 1..8 {
            term /= 256 * n;
            step += term;
        }
        let mut half = Vec::with_capacity(LIMIT as usize + 1);
        // From 0 up: e grows, with 40 fractional bits to leave room.
        let mut e = 1u128 << 60;
        for _ in 0..=LIMIT {
            let p = (e << 17) / ((1u128 << 60) + e);
            half.push((p.div_ceil(2) as u32).clamp(1, 65535) as u16);
            e = (e * (step >> 20)) >> 40;
        }
        let negative = half[1..].iter().rev().map(|&p| (65536 - u32::from(p)).max(1) as u16);
        let squash: Vec<u16> = negative.chain(half.iter().copied()).collect();
        let mut stretch = vec![0i16; 65536];
        let mut at = 0;
        for (p, value) in stretch.iter_mut().enumerate() {
            while at + 1 < squash.len() && usize::from(squash[at]) < p {
                at += 1;
            }
            *value = (at as i32 - LIMIT) as i16;
        }
        Tables { squash, stretch }
    })
}

/// Both tables, looked up once.
#[derive(Clone, Copy)]
pub struct Logistic(&'static Tables);

impl std::fmt::Debug for Logistic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Logistic")
    }
}

impl Logistic {
    /// The tables.
    pub fn new() -> Self {
        Self(tables())
    }

    /// From the stretched domain to a probability of 16 bits, 1 to 65535.
    #[inline]
    pub fn squash(self, value: i32) -> u32 {
        u32::from(self.0.squash[(value.clamp(-LIMIT, LIMIT) + LIMIT) as usize])
    }

    /// From a probability of 16 bits to the stretched domain.
    #[inline]
    pub fn stretch(self, p: u32) -> i32 {
        i32::from(self.0.stretch[p as usize & 0xFFFF])
    }
}

impl Default for Logistic {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_those_of_the_logistic_function() {
        let logistic = Logistic::new();
        for value in -LIMIT..=LIMIT {
            let exact = 65536.0 / (1.0 + (-f64::from(value) / f64::from(ONE)).exp());
            assert!((f64::from(logistic.squash(value)) - exact).abs() <= 1.5, "squash({value})");
        }
        assert_eq!(logistic.squash(0), 32768);
        for value in [-2000, -300, 0, 77, 1999] {
            assert!((logistic.stretch(logistic.squash(value)) - value).abs() <= 8, "stretch at {value}");
        }
    }
}
