//! Cycles: a count is of the blocks since the last one.
//!
//! Trace units count cycles now and then, not after each instruction. A count is shared out over the blocks that were
//! executed since the one before, in proportion to their instructions.

use super::blocks::{BlockRecord, NONE};

/// Blocks between two counts. Where there are more, the oldest get nothing.
const MOST: usize = 1 << 16;

/// A stay in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub block: u32,
    /// The innermost call.
    pub node: u32,
    pub instructions: u32,
}

/// Cycles that one block or function spent for certain: nothing else was executed between two counts.
#[derive(Debug, Default)]
pub(crate) struct CertainCycles {
    pub by_block: Vec<u64>,
    pub by_function: Vec<u64>,
}

impl CertainCycles {
    /// So many cycles are of a window.
    #[inline]
    pub fn add(&mut self, window: &CycleWindow, blocks: &[BlockRecord], cycles: u64) {
        let function = |stay: &Stay| blocks.get(stay.block as usize).map(|block| block.function);
        let Some((first, others)) = window.stays.split_first() else { return };
        let Some(of_first) = function(first).filter(|&number| number != NONE) else { return };
        if !others.iter().all(|stay| function(stay) == Some(of_first)) {
            return;
        }
        add_at(&mut self.by_function, of_first, cycles);
        if others.iter().all(|stay| stay.block == first.block) {
            add_at(&mut self.by_block, first.block, cycles);
        }
    }
}

#[inline]
fn add_at(sums: &mut Vec<u64>, index: u32, amount: u64) {
    let index = index as usize;
    if sums.len() <= index {
        sums.resize(index + 1, 0);
    }
    sums[index] += amount;
}

/// The blocks since the last count of cycles.
#[derive(Debug, Default)]
pub(crate) struct CycleWindow {
    pub stays: Vec<Stay>,
    /// Some got nothing.
    pub was_shortened: bool,
}

impl CycleWindow {
    #[inline]
    pub fn push(&mut self, stay: Stay) {
        if self.stays.len() >= MOST {
            self.stays.drain(..MOST / 2);
            self.was_shortened = true;
        }
        self.stays.push(stay);
    }

    pub fn clear(&mut self) {
        self.stays.clear();
    }

    /// Shares cycles out. What remains after division goes to the last block. False if there is no block to give them to.
    #[inline]
    pub fn share_out(&mut self, cycles: u64, mut give: impl FnMut(&Stay, u64)) -> bool {
        // Most counts are of one block.
        if let [only] = self.stays[..] {
            self.stays.clear();
            give(&only, cycles);
            return true;
        }
        self.share_out_among(cycles, &mut give)
    }

    #[inline(never)]
    fn share_out_among(&mut self, cycles: u64, give: &mut dyn FnMut(&Stay, u64)) -> bool {
        let instructions: u64 = self.stays.iter().map(|stay| u64::from(stay.instructions)).sum();
        let mut left = cycles;
        let last = self.stays.len().wrapping_sub(1);
        for (number, stay) in self.stays.iter().enumerate() {
            let part = match cycles.checked_mul(stay.instructions.into()) {
                _ if number == last => left,
                Some(product) => product / instructions.max(1),
                None => {
                    let product = u128::from(cycles) * u128::from(stay.instructions);
                    (product / u128::from(instructions.max(1))) as u64
                }
            };
            left -= part;
            give(stay, part);
        }
        let any = !self.stays.is_empty();
        self.stays.clear();
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_shared_out_by_instructions_and_none_is_lost() {
        let mut window = CycleWindow::default();
        for (block, instructions) in [(1, 1), (2, 3), (3, 3)] {
            window.push(Stay { block, node: 0, instructions });
        }
        let mut shares = Vec::new();
        assert!(window.share_out(100, |stay, cycles| shares.push((stay.block, cycles))));
        assert_eq!(shares, [(1, 14), (2, 42), (3, 44)]);
        window.push(Stay { block: 4, node: 0, instructions: 0 });
        assert!(window.share_out(7, |stay, cycles| shares.push((stay.block, cycles))));
        // More than fits into 64 bits on the way.
        for block in [5, 6] {
            window.push(Stay { block, node: 0, instructions: u32::MAX });
        }
        assert!(window.share_out(1 << 62, |stay, cycles| shares.push((stay.block, cycles))));
        assert_eq!(shares[3..], [(4, 7), (5, 1 << 61), (6, 1 << 61)]);
        assert!(!window.share_out(5, |_, _| panic!("nothing was executed since")));
    }
}
