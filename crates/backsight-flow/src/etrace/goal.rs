//! Where packets lead to.

use backsight_image::Code;
use backsight_riscv::etrace::{BranchMap, CountEnd, Reported};

use super::{Fault, Follower, Sink};

/// Where a packet leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub address: u64,
    /// The block that begins there, if it is still known.
    pub block: u32,
    pub kind: GoalKind,
    /// The instruction there is a branch.
    pub at_branch: bool,
    pub notify: bool,
    pub updiscon: bool,
    pub irreport: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoalKind {
    /// Formats 0, 1 and 2 with an address.
    Address,
    /// The target of an uninferable discontinuity, from the jump target cache.
    Cached,
    /// No address: to the last branch told.
    LastBranch,
    /// Format 3.
    Sync {
        /// The packet's privilege.
        privilege: u8,
    },
}

/// The instruction that was reached last, inside its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub block: u32,
    pub pc: u64,
}

impl Goal {
    /// A packet without an address.
    const LAST_BRANCH: Self = Self {
        address: u64::MAX,
        block: 0,
        kind: GoalKind::LastBranch,
        at_branch: false,
        notify: false,
        updiscon: false,
        irreport: None,
    };

    /// A packet that names a branch tells its outcome too: the walk ends at the last branch.
    #[inline]
    pub fn ends_at_last_branch(&self) -> bool {
        match self.kind {
            GoalKind::LastBranch => true,
            GoalKind::Sync { .. } => false,
            GoalKind::Address | GoalKind::Cached => self.at_branch,
        }
    }

    /// May the walk end at the address without a discontinuity before it?
    #[inline]
    pub fn may_be_passed(&self) -> bool {
        match self.kind {
            GoalKind::LastBranch | GoalKind::Cached => false,
            GoalKind::Sync { .. } => true,
            GoalKind::Address => !self.at_branch,
        }
    }
}

impl<C: Code> Follower<'_, C> {
    /// Formats 1 and 2.
    #[inline(always)]
    pub(super) fn branches(
        &mut self,
        map: BranchMap,
        address: Option<Reported>,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        self.outcomes.append(map);
        self.walk(address, sink)
    }

    /// Format 0 subformat 0.
    pub(super) fn branch_count(
        &mut self,
        count: u32,
        end: CountEnd,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let counted = u64::from(count) + u64::from(BranchMap::FULL);
        let (reported, failed) = match end {
            CountEnd::Mispredicted => (None, true),
            CountEnd::Address(reported) => (Some(reported), false),
            CountEnd::MispredictedAt(reported) => (Some(reported), true),
        };
        self.outcomes.count(counted + u64::from(failed), failed);
        self.walk(reported, sink)
    }

    /// Format 0 subformat 1.
    pub(super) fn jump_target(
        &mut self,
        index: u32,
        map: BranchMap,
        irreport: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        if self.inferred.is_some()
            && let Some(position) = self.position
        {
            // That crossing is still to be walked, but the encoder has entered its target already.
            self.cache.insert(position.pc);
        }
        let target = self.cache.get(index).ok_or(Fault::CacheEntryInvalid)?;
        self.outcomes.append(map);
        self.address = target;
        self.walk_to(target, GoalKind::Cached, Reported { irreport, ..Reported::default() }, sink)
    }

    /// To an address, or to the last branch told.
    #[inline(always)]
    fn walk(&mut self, reported: Option<Reported>, sink: &mut impl Sink) -> Result<(), Fault> {
        let Some(reported) = reported else {
            self.forget_returns();
            return self.follow(&Goal::LAST_BRANCH, sink);
        };
        let distance = self.absolute(reported.address);
        let base = if self.options().full_address { 0 } else { self.address };
        self.address = base.wrapping_add(distance) & self.mask;
        self.walk_to(self.address, GoalKind::Address, reported, sink)
    }

    #[inline(always)]
    fn walk_to(
        &mut self,
        address: u64,
        kind: GoalKind,
        reported: Reported,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        self.lost_at = address;
        let block = self.blocks.at(address)?;
        let at_branch = self.blocks.get(block).is_branch();
        self.forget_returns();
        let Reported { notify, updiscon, irreport, .. } = reported;
        self.follow(&Goal { address, block, kind, at_branch, notify, updiscon, irreport }, sink)
    }

    /// Implicit returns are counted from the packet on, unless an earlier packet's path is still walked.
    #[inline]
    fn forget_returns(&mut self) {
        if self.inferred.is_none() {
            self.irets = 0;
        }
    }
}
