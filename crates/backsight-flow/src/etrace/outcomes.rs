//! Outcomes of branches that packets told and the walk has not used yet.

use backsight_riscv::etrace::tables::Predictor;
use backsight_riscv::etrace::{BranchMap, Options, Params};

#[derive(Clone, Debug)]
pub(super) struct Outcomes {
    /// Told one by one, oldest in bit 0; 1 = not taken.
    map: u64,
    mapped: u32,
    /// As predicted, behind those of the map.
    counted: u64,
    /// The last of the counted ones was mispredicted.
    inverted: bool,
    predictor: Option<Predictor>,
}

impl Outcomes {
    pub fn new(params: &Params, options: &Options) -> Self {
        let predictor = options.branch_prediction.then(|| Predictor::new(params));
        Self { map: 0, mapped: 0, counted: 0, inverted: false, predictor }
    }

    /// Forgets outcomes, not what was learnt.
    pub fn clear(&mut self) {
        (self.map, self.mapped, self.counted, self.inverted) = (0, 0, 0, false);
    }

    pub fn reset_predictor(&mut self) {
        if let Some(predictor) = &mut self.predictor {
            predictor.reset();
        }
    }

    /// How many are left.
    #[inline]
    pub fn len(&self) -> u64 {
        u64::from(self.mapped) + self.counted
    }

    pub fn push(&mut self, taken: bool) {
        self.append(BranchMap::new(1, u32::from(!taken)));
    }

    /// More than 32 cannot be left in a trace that makes sense: the rest is dropped, and the walk will notice.
    pub fn append(&mut self, map: BranchMap) {
        if self.mapped <= 32 {
            self.map |= u64::from(map.bits) << self.mapped;
            self.mapped += u32::from(map.count);
        }
    }

    pub fn count(&mut self, count: u64, inverted: bool) {
        self.counted += count;
        self.inverted = inverted;
    }

    /// The outcome of the branch at `address`, which is now past.
    #[inline]
    pub fn take(&mut self, address: u64) -> Option<bool> {
        if self.mapped == 0 || self.predictor.is_some() {
            return self.take_predicted(address);
        }
        Some(self.take_mapped())
    }

    #[inline]
    fn take_mapped(&mut self) -> bool {
        let taken = self.map & 1 == 0;
        self.map >>= 1;
        self.mapped -= 1;
        taken
    }

    fn take_predicted(&mut self, address: u64) -> Option<bool> {
        let mapped = (self.mapped > 0).then(|| self.take_mapped());
        let predictor = self.predictor.as_mut()?;
        if let Some(taken) = mapped {
            predictor.update(address, taken);
            return mapped;
        }
        self.counted = self.counted.checked_sub(1)?;
        let taken = predictor.predict(address) != (self.counted == 0 && self.inverted);
        predictor.update(address, taken);
        Some(taken)
    }

    /// The outcome of the branch at `address`, which stays.
    pub fn peek(&self) -> Option<bool> {
        (self.mapped > 0).then_some(self.map & 1 == 0)
    }

    /// The walk stops on the branch at `address`: what the count says about it becomes a bit of the map, because
    /// the next packet may bring a map.
    pub fn settle(&mut self, address: u64) {
        if self.mapped == 0
            && self.counted == 1
            && let Some(predictor) = &mut self.predictor
        {
            let taken = predictor.predict(address) != self.inverted;
            self.counted = 0;
            self.inverted = false;
            self.push(taken);
        }
    }
}
