//! Branch predictor.

use alloc::vec;
use alloc::vec::Vec;

use super::super::Params;

/// Initial entry: predicts not taken, last outcome taken.
const INITIAL: u32 = 0b01;

/// A table of two bits (predict, last) for each of 2^n groups of addresses; 1 = taken.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// `epoch << 2 | predict << 1 | last`; an entry of another epoch is in its initial state.
    entries: Vec<u32>,
    epoch: u32,
    lsb: u8,
}

impl Predictor {
    /// A predictor of 2^bpred_size entries.
    pub fn new(params: &Params) -> Self {
        let entries = vec![INITIAL; 1 << params.bpred_size.min(16)];
        Self { entries, epoch: 0, lsb: params.iaddress_lsb }
    }

    /// Back to the initial state.
    #[inline]
    pub fn reset(&mut self) {
        self.epoch += 1;
        if self.epoch == 1 << 30 {
            self.epoch = 0;
            self.entries.fill(INITIAL);
        }
    }

    #[inline]
    fn entry(&mut self, address: u64) -> &mut u32 {
        let index = (address >> self.lsb) as usize & (self.entries.len() - 1);
        let entry = &mut self.entries[index];
        if *entry >> 2 != self.epoch {
            *entry = self.epoch << 2 | INITIAL;
        }
        entry
    }

    /// Will the branch at `address` be taken?
    #[inline]
    pub fn predict(&mut self, address: u64) -> bool {
        *self.entry(address) & 2 != 0
    }

    /// Learns what the branch did. The prediction turns only if the outcome before differed from it.
    #[inline]
    pub fn update(&mut self, address: u64, taken: bool) {
        let entry = self.entry(address);
        let (predict, last) = (*entry >> 1 & 1, *entry & 1);
        let predict = if predict != last { u32::from(taken) } else { predict };
        *entry = (*entry & !3) | predict << 1 | u32::from(taken);
    }
}

/// Equal if they predict the same of all branches, and go on to.
impl PartialEq for Predictor {
    fn eq(&self, other: &Self) -> bool {
        let state = |predictor: &Self, entry: u32| match entry >> 2 == predictor.epoch {
            true => entry & 3,
            false => INITIAL,
        };
        let same = |(&one, &another): (&u32, &u32)| state(self, one) == state(other, another);
        (self.entries.len(), self.lsb) == (other.entries.len(), other.lsb)
            && self.entries.iter().zip(&other.entries).all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State by state: 00 -fail-> 01; 01 -ok-> 00, -fail-> 11; 11 -fail-> 10; 10 -ok-> 11, -fail-> 00.
    #[test]
    fn transitions_are_those_of_the_specification() {
        let mut predictor = Predictor::new(&Params { bpred_size: 2, ..Params::default() });
        let steps = [
            (true, false, 0b11),
            (true, true, 0b11),
            (false, true, 0b10),
            (true, true, 0b11),
            (false, true, 0b10),
            (false, true, 0b00),
            (false, false, 0b00),
            (true, false, 0b01),
            (false, false, 0b00),
        ];
        for (taken, predicted, state) in steps {
            assert_eq!(predictor.predict(8), predicted);
            predictor.update(8, taken);
            assert_eq!(predictor.entries[0] & 3, state);
        }
        predictor.reset();
        assert!(!predictor.predict(8));
    }

    #[test]
    fn addresses_beyond_the_table_share_entries() {
        let mut predictor = Predictor::new(&Params { bpred_size: 2, ..Params::default() });
        predictor.update(2, true);
        assert!(predictor.predict(2) && predictor.predict(10) && !predictor.predict(4));
    }
}
