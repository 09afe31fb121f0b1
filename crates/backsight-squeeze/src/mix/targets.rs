//! Where indirect branches go: a return stack, and a dictionary of targets.
//!
//! A target is a number in the dictionary. The number is coded bit by bit, the highest first, each as if it were a
//! conditional branch, by the predictor of outcomes: so targets need no tables of their own, and have all its contexts.
//!
//! A target that is not in the dictionary takes the place that the hand points to, if what is there was not used since the
//! hand came by last; else only the hand goes on. So where there are more targets than room, most of those that are in
//! stay in, and only the others are sent in full.

use super::coder::{Coder, P_BITS};
use super::estimate::Estimate;
use crate::Damage;

/// The dictionary. Its entries keep the lower bits of a target; the upper ones are in a few registers.
#[derive(Clone, Debug)]
pub struct Dictionary {
    targets: Box<[u64]>,
    /// Whether each was used lately.
    used: Box<[bool]>,
    hand: usize,
    regions: [u64; REGIONS],
    /// Where targets were found lately: saves looking through all.
    lately: Box<[u16; LATELY]>,
}

/// Registers for the upper bits, the lower bits that entries keep, and the bits of an entry: the lowest is always 0.
pub const REGIONS: usize = 8;
pub const LOW: u32 = 20;
pub const ENTRY_BITS: u64 = LOW as u64 - 1 + REGIONS.ilog2() as u64 + 1;
/// No target: targets in the dictionary are even.
const NONE: u64 = u64::MAX;
const LATELY: usize = 256;

impl Dictionary {
    pub fn new(room: usize) -> Self {
        Self {
            targets: vec![NONE; room].into(),
            used: vec![false; room].into(),
            hand: 0,
            regions: [NONE; REGIONS],
            lately: Box::new([0; LATELY]),
        }
    }

    /// Bits of a number.
    #[inline(always)]
    pub fn bits(&self) -> u32 {
        crate::log2_up(self.targets.len() as u32)
    }

    /// The number of a target.
    #[inline(always)]
    pub fn find(&mut self, target: u64) -> Option<u32> {
        let lately = &mut self.lately[(target >> 1 ^ target >> 9) as usize % LATELY];
        if self.targets.get(usize::from(*lately)) == Some(&target) && target & 1 == 0 {
            return Some(u32::from(*lately));
        }
        let found = self.targets.iter().position(|&known| known == target && target & 1 == 0)?;
        *lately = found as u16;
        Some(found as u32)
    }

    /// The target of a number.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<u64> {
        self.targets.get(number as usize).copied().filter(|&target| target != NONE)
    }

    /// A target was used.
    #[inline(always)]
    pub fn touch(&mut self, number: u32) {
        self.used[number as usize] = true;
    }

    /// A target came that is not in: gives its number if it came in.
    pub fn miss(&mut self, target: u64) -> Option<u32> {
        if self.targets.is_empty() || target & 1 == 1 {
            return None;
        }
        let number = self.hand;
        self.hand = (self.hand + 1) % self.targets.len();
        if std::mem::take(&mut self.used[number]) {
            return None;
        }
        self.targets[number] = NONE;
        let region = target >> LOW;
        if !self.regions.contains(&region) {
            let free =
                |&region: &u64| !self.targets.iter().any(|&target| target != NONE && target >> LOW == region);
            *self.regions.iter().position(free).and_then(|free| self.regions.get_mut(free))? = region;
        }
        self.targets[number] = target;
        Some(number as u32)
    }
}

/// Return addresses. What is below the oldest is what was there before: recursion returns to the same places.
#[derive(Clone, Debug)]
pub struct Returns {
    addresses: Box<[u64]>,
    top: usize,
    depth: usize,
    /// Whether the address is right: one that was pushed, one that is left of before.
    right: [Estimate; 2],
}

impl Returns {
    pub fn new(room: usize) -> Self {
        Self { addresses: vec![0; room.max(1)].into(), top: 0, depth: 0, right: [Estimate::EVEN; 2] }
    }

    /// A call was made.
    #[inline(always)]
    pub fn push(&mut self, address: u64) {
        self.top = if self.top + 1 == self.addresses.len() { 0 } else { self.top + 1 };
        self.addresses[self.top] = address;
        self.depth = (self.depth + 1).min(self.addresses.len());
    }

    /// Codes whether a return goes where it was called from: then where.
    #[inline(always)]
    pub fn code(&mut self, coder: &mut impl Coder, target: u64) -> Result<Option<u64>, Damage> {
        let expected = self.addresses[self.top];
        self.top = self.top.checked_sub(1).unwrap_or(self.addresses.len() - 1);
        let right = &mut self.right[usize::from(self.depth == 0)];
        self.depth = self.depth.saturating_sub(1);
        let same = coder.code(expected == target, right.p())?;
        right.update(same, 250);
        Ok(same.then_some(expected))
    }
}

/// Targets in full: the distance from the last one of these.
#[derive(Clone, Debug)]
pub struct Full {
    unused: u32,
    last: u64,
}

/// Bits of the size of a distance.
const SIZE_BITS: u32 = 7;
/// As likely as not.
const HALF: u32 = 1 << (P_BITS - 1);

impl Full {
    pub fn new(address_bits: u32) -> Self {
        Self { unused: 64 - address_bits, last: 0 }
    }

    pub fn code(&mut self, coder: &mut impl Coder, target: u64) -> Result<u64, Damage> {
        let difference = (target.wrapping_sub(self.last) << self.unused) as i64 >> self.unused;
        // The sign goes into the lowest bit.
        let folded = (difference << 1 ^ difference >> 63) as u64;
        let size = 64 - folded.leading_zeros();
        let mut coded = 0;
        for bit in (0..SIZE_BITS).rev() {
            coded = coded << 1 | u32::from(coder.code(size >> bit & 1 == 1, HALF)?);
        }
        if coded > 64 {
            return Err(Damage::Record("a distance of more than 64 bits"));
        }
        let mut value = u64::from(coded > 0);
        for bit in (0..coded.saturating_sub(1)).rev() {
            value = value << 1 | u64::from(coder.code(folded >> bit & 1 == 1, HALF)?);
        }
        let difference = (value >> 1) ^ (value & 1).wrapping_neg();
        self.last = self.last.wrapping_add(difference) & (u64::MAX >> self.unused);
        Ok(self.last)
    }
}
