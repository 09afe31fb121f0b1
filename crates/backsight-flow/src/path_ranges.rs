//! The ranges of a path that was walked before, as they are given to a sink.
//!
//! They are of one type, whatever a follower remembers of its paths: so a sink can take them without being compiled together with
//! each follower.

use std::slice;

use backsight_arm::etm4::CountedRun;
use backsight_core::Located;

use crate::blocks::Block;
use crate::{Event, Range};

/// A step of a path: a block, whether its last instruction was taken, and which packet of the run says so.
///
/// ```text
///  31                     4 3      1    0
/// ┌────────────────────────┬────────┬───────┐
/// │ block                  │ packet │ taken │
/// └────────────────────────┴────────┴───────┘
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step(u32);

impl Step {
    pub(crate) fn new(block: u32, taken: bool, packet: u32) -> Self {
        Self(block << 4 | packet << 1 | u32::from(taken))
    }

    #[inline(always)]
    pub(crate) const fn block(self) -> u32 {
        self.0 >> 4
    }

    #[inline(always)]
    pub(crate) const fn packet(self) -> u32 {
        self.0 >> 1 & 7
    }

    #[inline(always)]
    pub(crate) const fn is_taken(self) -> bool {
        self.0 & 1 == 1
    }

    /// What is reported of its block.
    #[inline(always)]
    const fn range(self, block: &Block) -> Range {
        Range { executed: self.is_taken(), ..block.range }
    }
}

/// The steps of a path, and the blocks that they name.
#[derive(Clone, Debug)]
pub(crate) struct Steps<'p> {
    steps: slice::Iter<'p, Step>,
    blocks: &'p [Block],
}

impl<'p> Steps<'p> {
    #[inline(always)]
    pub(crate) fn new(steps: &'p [Step], blocks: &'p [Block]) -> Self {
        Self { steps: steps.iter(), blocks }
    }

    /// The next one, and its range.
    #[inline(always)]
    fn next(&mut self) -> Option<(Step, Range)> {
        let step = *self.steps.next()?;
        Some((step, step.range(self.blocks.get(step.block() as usize)?)))
    }

    #[inline(always)]
    fn fold<B>(self, begin: B, mut each: impl FnMut(B, Step, Range) -> B) -> B {
        let Self { steps, blocks } = self;
        // All blocks of a path are there; but a loop that could end at each of them would not be unrolled.
        let Some(last) = blocks.len().checked_sub(1) else { return begin };
        steps.fold(begin, |sum, &step| each(sum, step, step.range(&blocks[last.min(step.block() as usize)])))
    }
}

/// The ranges of a path, each with its place.
#[derive(Clone, Debug)]
pub struct PathRanges<'p>(Places<'p>);

#[derive(Clone, Debug)]
enum Places<'p> {
    /// All at one place.
    Same(slice::Iter<'p, Range>, Located<()>),
    /// Of packets of one byte, which begin at this offset.
    Consecutive(Steps<'p>, u64),
}

/// The place of one of consecutive packets.
#[inline(always)]
const fn consecutive(first: u64, packet: u32, range: Range) -> Located<Range> {
    Located { offset: first + packet as u64, length: 1, value: range }
}

impl<'p> PathRanges<'p> {
    /// Ranges that one packet reports.
    #[inline(always)]
    pub(crate) fn of_packet(ranges: &'p [Range], at: Located<()>) -> Self {
        Self(Places::Same(ranges.iter(), at))
    }

    /// Those of packets of one byte, which begin at this offset.
    #[inline(always)]
    pub(crate) const fn of_packets(steps: Steps<'p>, first: u64) -> Self {
        Self(Places::Consecutive(steps, first))
    }
}

impl Iterator for PathRanges<'_> {
    type Item = Located<Range>;

    #[inline]
    fn next(&mut self) -> Option<Located<Range>> {
        match &mut self.0 {
            Places::Same(ranges, at) => ranges.next().map(|&range| at.map(|()| range)),
            Places::Consecutive(steps, first) => {
                steps.next().map(|(step, range)| consecutive(*first, step.packet(), range))
            }
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Places::Same(ranges, _) => ranges.size_hint(),
            Places::Consecutive(steps, _) => steps.steps.size_hint(),
        }
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, begin: B, mut each: F) -> B {
        match self.0 {
            Places::Same(ranges, at) => ranges.fold(begin, |sum, &range| each(sum, at.map(|()| range))),
            Places::Consecutive(steps, first) => {
                steps.fold(begin, |sum, step, range| each(sum, consecutive(first, step.packet(), range)))
            }
        }
    }
}

/// The ranges of a path with cycle counts between them: each with the count right before it, if there is one.
#[derive(Clone, Debug)]
pub struct CountedRanges<'p> {
    steps: Steps<'p>,
    run: &'p CountedRun,
    /// The packet of the run that the first step may be of.
    first: u32,
    /// The packet of the last step, from that one on.
    packet: u32,
}

impl<'p> CountedRanges<'p> {
    #[inline(always)]
    pub(crate) const fn new(steps: Steps<'p>, run: &'p CountedRun, first: u32) -> Self {
        Self { steps, run, first, packet: 0 }
    }
}

impl Iterator for CountedRanges<'_> {
    type Item = (Option<Located<Event>>, Located<Range>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (step, range) = self.steps.next()?;
        let before = std::mem::replace(&mut self.packet, step.packet());
        let count = if before == self.packet { None } else { self.run.count_after(self.first + before) };
        let count = count.map(|count| count.map(|count| Event::CycleCount(count.cycles)));
        Some((count, self.run.at(self.first + self.packet).map(|()| range)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.steps.steps.size_hint()
    }
}
