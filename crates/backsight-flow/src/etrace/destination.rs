//! Where packets lead to.

use backsight_image::Code;
use backsight_riscv::etrace::{BranchMap, CountEnd, Reported};

use super::remembered::Recalled;
use super::walk::{Then, Walked};
use super::{Fault, Follower};
use crate::blocks::{LONGEST_PATH, Origin, PathKey};
use crate::sink::Sink;

/// Where a packet leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Destination {
    pub address: u64,
    /// The block that begins there, if it is still known.
    pub block: u32,
    pub kind: DestinationKind,
    /// The instruction there is a branch.
    pub at_branch: bool,
    pub notify: bool,
    pub updiscon: bool,
    pub irreport: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DestinationKind {
    /// Formats 0, 1 and 2 with an address.
    Address,
    /// The target of an uninferable discontinuity, from the jump target cache.
    Cached,
    /// No address: to the last branch that has an outcome.
    LastBranch,
    /// Format 3.
    Sync {
        /// The packet's privilege.
        privilege: u8,
    },
}

/// The instruction that was reached last, inside its block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub block: u32,
    pub pc: u64,
}

impl Destination {
    /// A packet without an address.
    const LAST_BRANCH: Self = Self {
        address: u64::MAX,
        block: 0,
        kind: DestinationKind::LastBranch,
        at_branch: false,
        notify: false,
        updiscon: false,
        irreport: None,
    };

    /// As far as the outcomes lead.
    pub const NOWHERE: Self = Self { kind: DestinationKind::Cached, block: u32::MAX, ..Self::LAST_BRANCH };

    /// A packet that names a branch has its outcome too: the walk ends at the last branch.
    #[inline]
    pub fn ends_at_last_branch(&self) -> bool {
        match self.kind {
            DestinationKind::LastBranch => true,
            DestinationKind::Sync { .. } => false,
            DestinationKind::Address | DestinationKind::Cached => self.at_branch,
        }
    }

    /// The same, where it is not known any more which block begins there.
    pub fn without_block(self) -> Self {
        Self { block: u32::MAX, ..self }
    }

    /// May the walk end at the address without a discontinuity before it?
    #[inline]
    pub fn may_be_passed(&self) -> bool {
        match self.kind {
            DestinationKind::LastBranch | DestinationKind::Cached => false,
            DestinationKind::Sync { .. } => true,
            DestinationKind::Address => !self.at_branch,
        }
    }
}

/// Blocks that are recalled for one packet at most: its outcomes are looked up in four parts.
pub(super) const MOST_RECALLED: u64 = 4 * LONGEST_PATH as u64;

impl<C: Code> Follower<C> {
    /// Formats 1 and 2.
    #[inline(always)]
    pub(super) fn branches(
        &mut self,
        map: BranchMap,
        address: Option<Reported>,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        self.outcomes.append(map);
        if !self.remembers_paths() || !self.blocks.paths.are_used() {
            return self.walk_to_reported(address, sink);
        }
        let before = self.statistics.ranges;
        self.recall_some(sink);
        let recalled = self.statistics.ranges - before;
        let target = address.map(|reported| self.report_address(reported));
        let key = self.path_key(target);
        match self.recall(key, sink) {
            Recalled::Walked => Ok(Walked::Arrived),
            what => {
                let key = key.filter(|_| what == Recalled::Unknown);
                self.walk_unknown(address, key, recalled, sink)
            }
        }
    }

    /// Walks to an address that was taken note of, or to the last branch that has an outcome, after some blocks of the way
    /// were recalled; remembers the path if it has a key.
    #[inline(never)]
    fn walk_unknown(
        &mut self,
        reported: Option<Reported>,
        key: Option<PathKey>,
        recalled: u64,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        let destination = match reported {
            Some(reported) => match self.destination(self.address, DestinationKind::Address, reported) {
                Some(destination) => destination,
                None => return self.walk_to_nowhere(self.address, recalled, sink),
            },
            None => Destination::LAST_BRANCH,
        };
        self.forget_returns();
        self.follow_after(recalled, key, &destination, Then::Nothing, sink)
    }

    /// Does the way that a packet leads depend on nothing but where execution is and on the packet?
    #[inline(always)]
    const fn remembers_paths(&self) -> bool {
        self.is_plain && self.is_settled && self.settings.longest_path > MOST_RECALLED
    }

    /// Format 0 subformat 0.
    pub(super) fn branch_count(
        &mut self,
        count: u32,
        end: CountEnd,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        let counted = u64::from(count) + u64::from(BranchMap::FULL);
        if counted > self.settings.longest_path {
            return Err(Fault::CountTooLarge);
        }
        let (reported, failed) = match end {
            CountEnd::Mispredicted => (None, true),
            CountEnd::Address(reported) => (Some(reported), false),
            CountEnd::MispredictedAt(reported) => (Some(reported), true),
        };
        self.outcomes.count(counted + u64::from(failed), failed);
        self.walk_to_reported(reported, sink)
    }

    /// Format 0 subformat 1.
    pub(super) fn jump_target(
        &mut self,
        index: u32,
        map: BranchMap,
        irreport: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        if self.inferred.is_some()
            && let Some(position) = self.position
        {
            // That crossing is still to be walked, but the encoder has entered its target already.
            self.cache.insert(position.pc);
        }
        let target = self.cache.get(index).ok_or(Fault::CacheEntryInvalid)?;
        self.outcomes.append(map);
        self.address = target;
        self.walk_to(target, DestinationKind::Cached, Reported { irreport, ..Reported::default() }, sink)
    }

    /// To an address, or to the last branch that has an outcome.
    fn walk_to_reported(
        &mut self,
        reported: Option<Reported>,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        let Some(reported) = reported else {
            self.forget_returns();
            return self.follow(&Destination::LAST_BRANCH, Then::Nothing, sink);
        };
        let address = self.report_address(reported);
        self.walk_to(address, DestinationKind::Address, reported, sink)
    }

    /// Takes note of the address that a packet reports.
    #[inline(always)]
    fn report_address(&mut self, reported: Reported) -> u64 {
        let distance = self.absolute(reported.address);
        let base = if self.options().full_address { 0 } else { self.address };
        self.address = base.wrapping_add(distance) & self.reader.mask;
        self.address
    }

    fn walk_to(
        &mut self,
        address: u64,
        kind: DestinationKind,
        reported: Reported,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        let Some(destination) = self.destination(address, kind, reported) else {
            return self.walk_to_nowhere(address, 0, sink);
        };
        self.forget_returns();
        self.follow(&destination, Then::Nothing, sink)
    }

    /// There is no code at the address that a packet leads to. The outcomes before it are certain all the same.
    #[cold]
    fn walk_to_nowhere(
        &mut self,
        address: u64,
        recalled: u64,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        if self.outcomes.len() > 0 && self.inferred.is_none() {
            self.forget_returns();
            match self.follow_after(recalled, None, &Destination::LAST_BRANCH, Then::Lose(address), sink)? {
                Walked::Arrived => {}
                Walked::Paused => return Ok(Walked::Paused),
            }
        }
        self.lost_at = address;
        Err(Fault::NoCode)
    }

    /// `None`: there is no code.
    fn destination(
        &mut self,
        address: u64,
        kind: DestinationKind,
        reported: Reported,
    ) -> Option<Destination> {
        let block = self.block_at(Origin::UNKNOWN, address).ok()?;
        let at_branch = self.blocks.get(block).is_only_a_branch();
        let Reported { notify, updiscon, irreport, .. } = reported;
        Some(Destination { address, block, kind, at_branch, notify, updiscon, irreport })
    }

    /// Implicit returns are counted from the packet on, unless an earlier packet's path is still walked.
    #[inline]
    fn forget_returns(&mut self) {
        if self.inferred.is_none() {
            self.irets = 0;
        }
    }
}
