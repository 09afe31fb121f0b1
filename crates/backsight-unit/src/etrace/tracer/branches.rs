//! Branches not reported yet: a map, or once 31 were predicted correctly a count.

use backsight_riscv::etrace::tables::Predictor;
use backsight_riscv::etrace::{BranchMap, CountEnd, MOST_COUNTED, Options, Packet, Params, Reported};

#[derive(Clone, Debug)]
pub(super) struct Branches {
    map: BranchMap,
    /// All branches of the map were predicted correctly.
    predicted: bool,
    /// Correctly predicted branches, 31 or more; 0 while the map is in use.
    count: u64,
    /// The latest branch was mispredicted, while counting.
    failed: bool,
    predictor: Option<Predictor>,
}

/// The greatest count that a decoder believes, with the 31 that a packet leaves out.
const MOST: u64 = MOST_COUNTED as u64 + BranchMap::FULL as u64;

impl Branches {
    pub fn new(params: &Params, options: &Options) -> Self {
        let predictor = options.branch_prediction.then(|| Predictor::new(params));
        Self { map: BranchMap::EMPTY, predicted: true, count: 0, failed: false, predictor }
    }

    /// Forgets outcomes, not what was learnt.
    #[inline]
    pub fn clear(&mut self) {
        self.map = BranchMap::EMPTY;
        self.predicted = true;
        self.count = 0;
        self.failed = false;
    }

    /// A sync packet was sent; if it names a branch, its outcome is in the packet. `afresh`: what was learnt is
    /// forgotten too.
    pub fn synchronise(&mut self, branch: Option<(u64, bool)>, afresh: bool) {
        self.clear();
        if let Some(predictor) = &mut self.predictor {
            if afresh {
                predictor.reset();
            }
            if let Some((address, taken)) = branch {
                predictor.update(address, taken);
            }
        }
    }

    /// Adds `branch` (0 or 1) outcomes, without a predictor; then says whether the map is full. Without a branch
    /// `not_taken` is 0.
    #[inline]
    pub fn push_some(&mut self, branch: u8, not_taken: u8) -> bool {
        self.map.bits |= u32::from(not_taken) << (self.map.count & BranchMap::FULL);
        self.map.count += branch;
        self.map.count == BranchMap::FULL
    }

    #[inline]
    pub fn push(&mut self, address: u64, taken: bool) {
        let Some(predictor) = &mut self.predictor else {
            self.map.push(taken);
            return;
        };
        let correct = predictor.predict(address) == taken;
        predictor.update(address, taken);
        if self.count > 0 {
            self.failed = !correct;
            self.count += u64::from(correct);
            return;
        }
        self.map.push(taken);
        self.predicted &= correct;
        if self.map.count == BranchMap::FULL && self.predicted {
            self.map = BranchMap::EMPTY;
            self.count = u64::from(BranchMap::FULL);
        }
    }

    /// Is anything unreported?
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.map.count > 0 || self.count > 0
    }

    #[inline]
    pub fn map(&self) -> BranchMap {
        self.map
    }

    /// Are branches being counted, so that only format 0 can report them?
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.count > 0
    }

    /// The count can go no further: the latest branch must be named.
    #[inline]
    pub fn is_count_full(&self) -> bool {
        self.count == MOST
    }

    fn count_field(&self) -> u32 {
        (self.count - u64::from(BranchMap::FULL)) as u32
    }

    /// Do the branches themselves need a packet?
    #[inline]
    pub fn is_full(&self) -> bool {
        self.failed || self.map.count == BranchMap::FULL
    }

    /// That packet, without an address.
    pub fn full(&self) -> Packet {
        if self.failed {
            return Packet::BranchCount { count: self.count_field(), end: CountEnd::Mispredicted };
        }
        Packet::Branches { map: self.map, address: None }
    }

    /// The count with an address.
    pub fn counted(&self, reported: Reported) -> Packet {
        let end = match self.failed {
            true => CountEnd::MispredictedAt(reported),
            false => CountEnd::Address(reported),
        };
        Packet::BranchCount { count: self.count_field(), end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_stops_where_no_decoder_would_believe_more() {
        let params = Params { bpred_size: 1, ..Params::default() };
        let options = Options { branch_prediction: true, ..Options::default() };
        let mut branches = Branches::new(&params, &options);
        (0..31).for_each(|_| branches.push(0, false));
        assert!(branches.is_counting() && !branches.is_full());
        branches.count = MOST - 1;
        assert!(!branches.is_count_full());
        branches.push(0, false);
        assert!(branches.is_count_full());
        let packet = branches.counted(Reported::default());
        assert!(matches!(packet, Packet::BranchCount { count: MOST_COUNTED, end: CountEnd::Address(_) }));
    }

    #[test]
    fn a_mispredicted_branch_ends_the_count_and_is_not_in_it() {
        let params = Params { bpred_size: 1, ..Params::default() };
        let options = Options { branch_prediction: true, ..Options::default() };
        let mut branches = Branches::new(&params, &options);
        (0..33).for_each(|_| branches.push(0, false));
        branches.push(0, true);
        assert!(branches.is_full());
        assert_eq!(branches.full(), Packet::BranchCount { count: 2, end: CountEnd::Mispredicted });
    }
}
