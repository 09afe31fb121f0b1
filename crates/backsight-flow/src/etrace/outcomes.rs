//! Outcomes of branches that packets told and the walk has not used yet.

use backsight_riscv::etrace::tables::Predictor;
use backsight_riscv::etrace::{BranchMap, Options, Params};

/// Outcomes that are left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    /// Told one by one, oldest in bit 0; 1 = not taken.
    map: u64,
    mapped: u32,
    /// The last of the counted ones was mispredicted.
    inverted: bool,
    /// As predicted, after those of the map.
    counted: u64,
}

/// Equal if the same are left: which one was mispredicted means nothing where none is counted.
impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        let what = |pending: &Self| {
            let &Self { map, mapped, inverted, counted } = pending;
            (map, mapped, inverted && counted > 0, counted)
        };
        what(self) == what(other)
    }
}

impl Pending {
    /// How many there are.
    #[inline]
    pub const fn len(&self) -> u64 {
        self.mapped as u64 + self.counted
    }

    /// Are more than so many told one by one?
    #[inline]
    pub const fn is_more_than(&self, count: u32) -> bool {
        self.mapped > count
    }

    /// Those of the next `count` that were told one by one, with a one above them.
    #[inline]
    pub fn first(&self, count: u32) -> u64 {
        let count = self.mapped.min(count);
        self.map & ((1 << count) - 1) | 1 << count
    }

    #[inline]
    fn take_mapped(&mut self) -> bool {
        let taken = self.map & 1 == 0;
        self.map >>= 1;
        self.mapped -= 1;
        taken
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcomes {
    pending: Pending,
    predictor: Option<Predictor>,
}

impl Outcomes {
    pub fn new(params: &Params, options: &Options) -> Self {
        let predictor = options.branch_prediction.then(|| Predictor::new(params));
        Self { pending: Pending::default(), predictor }
    }

    /// Forgets outcomes, not what was learnt.
    pub fn clear(&mut self) {
        self.pending = Pending::default();
    }

    pub fn reset_predictor(&mut self) {
        if let Some(predictor) = &mut self.predictor {
            predictor.reset();
        }
    }

    /// How many are left.
    #[inline]
    pub const fn len(&self) -> u64 {
        self.pending.len()
    }

    /// Those that are left, for [`Self::take_from`] many times in a row.
    #[inline]
    pub const fn pending(&self) -> Pending {
        self.pending
    }

    /// The end of many times.
    #[inline]
    pub const fn put_back(&mut self, pending: Pending) {
        self.pending = pending;
    }

    /// So many of those that were told one by one are past.
    #[inline]
    pub const fn pass(&mut self, count: u8) {
        self.pending.map >>= count;
        self.pending.mapped -= count as u32;
    }

    /// Takes all but the next `count` of those that were told one by one, of which there are more. They come back with
    /// [`Self::append_mapped`].
    pub const fn split_off(&mut self, count: u32) -> Pending {
        let rest =
            Pending { map: self.pending.map >> count, mapped: self.pending.mapped - count, ..self.pending };
        self.pending = Pending {
            map: self.pending.map & ((1 << count) - 1),
            mapped: count,
            inverted: false,
            counted: 0,
        };
        rest
    }

    /// Puts outcomes after those that are left of them.
    pub const fn append_mapped(&mut self, rest: Pending) {
        let Pending { map, mapped, .. } = self.pending;
        self.pending = Pending { map: rest.map << mapped | map, mapped: rest.mapped + mapped, ..rest };
    }

    pub fn push(&mut self, taken: bool) {
        self.append(BranchMap::new(1, u32::from(!taken)));
    }

    /// More than 32 cannot be left in a trace that makes sense: the rest is dropped, and the walk will notice.
    #[inline]
    pub fn append(&mut self, map: BranchMap) {
        let pending = &mut self.pending;
        if pending.mapped <= 32 {
            pending.map |= u64::from(map.bits) << pending.mapped;
            pending.mapped += u32::from(map.count);
        }
    }

    pub fn count(&mut self, count: u64, inverted: bool) {
        self.pending.counted += count;
        self.pending.inverted = inverted;
    }

    /// The outcome of the branch at `address`, which is now past.
    #[inline]
    pub fn take(&mut self, address: u64) -> Option<bool> {
        let mut pending = self.pending;
        let taken = self.take_from(&mut pending, address);
        self.pending = pending;
        taken
    }

    /// The same, out of what [`Self::pending`] gave.
    #[inline]
    pub fn take_from(&mut self, pending: &mut Pending, address: u64) -> Option<bool> {
        if pending.mapped == 0 || self.predictor.is_some() {
            return self.take_predicted(pending, address);
        }
        Some(pending.take_mapped())
    }

    fn take_predicted(&mut self, pending: &mut Pending, address: u64) -> Option<bool> {
        let mapped = (pending.mapped > 0).then(|| pending.take_mapped());
        let predictor = self.predictor.as_mut()?;
        if let Some(taken) = mapped {
            predictor.update(address, taken);
            return mapped;
        }
        pending.counted = pending.counted.checked_sub(1)?;
        let taken = predictor.predict(address) != (pending.counted == 0 && pending.inverted);
        predictor.update(address, taken);
        Some(taken)
    }

    /// The next outcome, which stays.
    pub fn peek(&self) -> Option<bool> {
        (self.pending.mapped > 0).then_some(self.pending.map & 1 == 0)
    }

    /// The walk stops on the branch at `address`: what the count says about it becomes a bit of the map, because
    /// the next packet may bring a map.
    #[inline]
    pub fn settle(&mut self, address: u64) {
        let pending = &mut self.pending;
        if pending.mapped == 0
            && pending.counted == 1
            && let Some(predictor) = &mut self.predictor
        {
            let taken = predictor.predict(address) != pending.inverted;
            (pending.counted, pending.inverted) = (0, false);
            self.push(taken);
        }
    }
}
