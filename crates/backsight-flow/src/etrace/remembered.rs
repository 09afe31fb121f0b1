//! Paths of packets of formats 1 and 2 that were walked before.
//!
//! Where the trace has no implicit returns, no jump target cache and no branch prediction, the way that a packet leads
//! depends on nothing but where execution is, on the outcomes, and on the address. Many outcomes are looked up some at a time,
//! so that few paths stand for all of them; the rest together with the address.

use backsight_core::Located;
use backsight_image::Code;

use super::Follower;
use super::destination::{Destination, MOST_RECALLED, Position};
use super::fast::FastEnd;
use super::walk::Walk;
use crate::blocks::{FirstWalk, LONGEST_PATH, Path, PathEnd, PathKey, WalkedPath};
use crate::sink::Sink;
use crate::{Event, PathRanges};

/// Outcomes that are looked up at a time.
const SOME: u32 = 8;
/// More outcomes than this are not looked up together with an address.
const MOST: u32 = SOME + 4;

/// Kinds of keys: some outcomes of many, and walks to an end.
const SOME_OF_MANY: u32 = 0;
const TO_END: u32 = 1;
const HAS_ADDRESS: u32 = 2;
/// The walk begins at the last instruction of its block, else at the first.
const FROM_LAST: u32 = 4;

/// The path ends at the first instruction of its last block, or at the last.
const AT_START: u8 = 0;
const AT_LAST: u8 = 1;

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recalled {
    /// It was walked.
    Walked,
    /// It has to be walked block by block, as before.
    Unclear,
    /// Nothing.
    Unknown,
}

impl<C: Code> Follower<C> {
    /// Goes along paths that are remembered, as long as there are many outcomes.
    #[inline(always)]
    pub(super) fn recall_some(&mut self, sink: &mut impl Sink) {
        while self.outcomes.pending().is_more_than(MOST) && !sink.is_full() {
            let Some(position) = self.position else { return };
            let Some(block) = self.block_to_report(position) else { return };
            let outcomes = self.outcomes.pending().first(SOME);
            let key = PathKey { from: block.into(), kind: SOME_OF_MANY, outcomes, end: 0 };
            match self.go_along(key, sink) {
                Recalled::Walked => {}
                Recalled::Unclear => return,
                Recalled::Unknown if self.walk_some_first(key, position, sink) => {}
                Recalled::Unknown => return,
            }
        }
    }

    /// Goes along the path of a packet that leads to an address, or to the last branch that has an outcome.
    #[inline(always)]
    pub(super) fn recall(&mut self, key: Option<PathKey>, sink: &mut impl Sink) -> Recalled {
        match key {
            Some(key) if !sink.is_full() => self.go_along(key, sink),
            _ => Recalled::Unclear,
        }
    }

    /// What decides the path of a packet; `None` where it is not remembered. What else a packet says of its address (`notify`,
    /// `updiscon`) decides only whether a walk that comes by the address ends there, and such walks are not remembered.
    #[inline(always)]
    pub(super) fn path_key(&self, address: Option<u64>) -> Option<PathKey> {
        let (pending, position) = (self.outcomes.pending(), self.position?);
        let block = self.block_to_report(position)?;
        let code = self.blocks.get(block);
        let at_last = position.pc == code.last().0;
        if pending.is_more_than(MOST) || !at_last && position.pc != code.range.start.0 {
            return None;
        }
        let flags = [(true, TO_END), (address.is_some(), HAS_ADDRESS), (at_last, FROM_LAST)];
        let kind = flags.iter().map(|&(is_set, flag)| if is_set { flag } else { 0 }).sum();
        Some(PathKey { from: block.into(), kind, outcomes: pending.first(MOST), end: address.unwrap_or(0) })
    }

    /// The current block, if nothing of it was reported.
    #[inline(always)]
    fn block_to_report(&self, position: Position) -> Option<u32> {
        let start = self.blocks.get(position.block).range.start.0;
        (self.unreported == Some(start)).then_some(position.block)
    }

    #[inline(always)]
    fn go_along(&mut self, key: PathKey, sink: &mut impl Sink) -> Recalled {
        let Some(path) = self.blocks.paths.get(key) else { return Recalled::Unknown };
        if !path.is_plain {
            return Recalled::Unclear;
        }
        let (id, ranges) = (self.blocks.paths.id(path), self.blocks.paths.steps(path));
        if !ranges.is_empty() {
            sink.take_path(id, PathRanges::of_packet(ranges, self.at));
        }
        self.statistics.count_path(path);
        let &Path { block: number, note, outcomes, .. } = path;
        let block = self.blocks.get(number);
        let pc = if note == AT_LAST { block.last().0 } else { block.range.start.0 };
        self.unreported = Some(block.range.start.0);
        self.position = Some(Position { block: number, pc });
        self.lost_at = pc;
        self.outcomes.pass(outcomes);
        self.blocks.paths.count_use();
        Recalled::Walked
    }

    /// Walks the path of a packet for the first time, in the fast way, and remembers it if that leads to its end.
    #[cold]
    pub(super) fn walk_first(
        &mut self,
        key: PathKey,
        walk: &mut Walk,
        destination: &Destination,
        sink: &mut impl Sink,
    ) -> FastEnd {
        let (walked, end) = self.walk_noted(walk, destination, sink);
        self.note_path(key, walked, end == FastEnd::Arrived, walk.position);
        end
    }

    /// The same for some of many outcomes: to the branch that they do not decide any more. False if that is not where it leads.
    #[cold]
    fn walk_some_first(&mut self, key: PathKey, position: Position, sink: &mut impl Sink) -> bool {
        let rest = self.outcomes.split_off(SOME);
        let mut walk = Walk::new(position, MOST_RECALLED);
        let (walked, end) = self.walk_noted(&mut walk, &Destination::NOWHERE, sink);
        let is_clear = end == FastEnd::Undecided && self.outcomes.len() == 0 && {
            let block = self.blocks.get(walk.position.block);
            block.range.flags.conditional && walk.position.pc == block.range.start.0
        };
        self.outcomes.append_mapped(rest);
        self.position = Some(walk.position);
        self.lost_at = walk.position.pc;
        self.note_path(key, walked, is_clear, walk.position);
        is_clear
    }

    /// Walks in the fast way, and takes note of the ranges.
    fn walk_noted(
        &mut self,
        walk: &mut Walk,
        destination: &Destination,
        sink: &mut impl Sink,
    ) -> (WalkedPath, FastEnd) {
        let mut walked = self.blocks.paths.begin();
        let end = self.walk_fast(walk, destination, &mut walked);
        walked.steps().iter().for_each(|&range| sink.take(self.at.map(|()| Event::Range(range))));
        (walked, end)
    }

    fn note_path(&mut self, key: PathKey, walked: WalkedPath, is_clear: bool, end: Position) {
        let at_start = end.pc == self.blocks.get(end.block).range.start.0;
        let end = PathEnd::in_block(end.block, if at_start { AT_START } else { AT_LAST });
        let is_clear = is_clear && walked.len() <= LONGEST_PATH;
        let what = if is_clear { FirstWalk::Path(end) } else { FirstWalk::Unclear };
        self.blocks.paths.remember(key, walked, what);
    }
}

/// Takes the ranges of a path as long as they are few enough.
impl Sink for WalkedPath {
    #[inline]
    fn take(&mut self, event: Located<Event>) {
        if let Event::Range(range) = event.value {
            self.push(range, range.flags.conditional);
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.len() >= LONGEST_PATH
    }
}
