//! Ways to an indirect jump that were walked before.
//!
//! Where every branch has an outcome, half-words and outcomes alone decide how execution gets from a block to the jump that a
//! message reports. Only a return in between, which the trace may leave out, depends on the calls before it.

use backsight_image::Code;
use backsight_riscv::ntrace::Mode;

use super::Follower;
use super::walk::{Outcomes, Position, Undecided, Unreported, half_words};
use crate::PathRanges;
use crate::blocks::{Ending, FirstWalk, Origin, PathEnd, PathKey, WalkedPath, Way};
use crate::sink::Sink;

/// More half-words than this are walked block by block.
const MOST_HALF_WORDS: i64 = 1 << 12;

/// What is noted of a path: it has direct calls.
const HAS_CALLS: u8 = 1;

impl<C: Code> Follower<C> {
    /// Goes to the jump that a message reports, if that way is remembered. False: it has to be walked.
    #[inline(always)]
    pub(super) fn recall(&mut self, undecided: Undecided, sink: &mut impl Sink) -> bool {
        let Position::At(pc) = self.position else { return false };
        let is_simple = self.trace_mode == Some(Mode::History)
            && undecided == Undecided::NotTaken
            && self.unreported.is_empty()
            && (1..MOST_HALF_WORDS).contains(&self.to_go);
        if !is_simple || sink.is_full() || !self.blocks.paths.are_used() {
            return false;
        }
        let Some(outcomes) = self.outcomes.all() else { return false };
        let block = self.blocks.enter(self.origin, pc, self.code_mode, &self.reader, &self.code);
        let key = PathKey { from: block.into(), kind: self.to_go as u32, outcomes, end: 0 };
        let Some(path) = self.blocks.paths.get(key) else {
            self.remember(key);
            return false;
        };
        if !path.is_plain {
            return false;
        }
        let ranges = self.blocks.paths.steps(path);
        if path.note == HAS_CALLS {
            for call in ranges.iter().filter(|range| range.is_direct_call()) {
                self.stack.push(call.end, call.isa);
            }
        }
        let at = self.at;
        if !ranges.is_empty() {
            sink.take_path(self.blocks.paths.id(path), PathRanges::of_packet(ranges, at));
        }
        self.statistics.count_path(path);
        let (number, jump) = (path.block, *self.blocks.get(path.block));
        self.blocks.paths.count_use();
        self.origin = Origin::new(number, true);
        self.position = self.leave_by_jump(&jump);
        (self.to_go, self.outcomes) = (0, Outcomes::default());
        true
    }

    #[cold]
    fn remember(&mut self, key: PathKey) {
        let mut walked = self.blocks.paths.begin();
        let walk = self.walk_first(key, &mut walked);
        self.blocks.paths.remember(key, walked, walk);
    }

    fn walk_first(&self, key: PathKey, walked: &mut WalkedPath) -> FirstWalk {
        let (mut number, mut to_go, mut outcomes) = (key.block(), self.to_go, self.outcomes);
        let (mut unreported, mut note) = (Unreported::default(), 0);
        loop {
            let block = self.blocks.get(number);
            to_go -= half_words(block);
            let is_branch = block.range.flags.conditional;
            let is_jump = !is_branch && block.way(true) == Way::Indirect;
            let taken = match is_branch {
                true => match outcomes.take() {
                    Some(taken) => taken,
                    None => return FirstWalk::Unclear,
                },
                false if is_jump || block.way(true).is_known() => block.is_branch(),
                false => return FirstWalk::Unclear,
            };
            // A jump that writes a register which no call uses is no call, but its range looks like one.
            if block.ending == Ending::Jump && block.range.flags.link {
                return FirstWalk::Unclear;
            }
            let is_end = to_go == 0 && outcomes.is_empty();
            if is_jump != is_end || !is_end && to_go <= 0 && outcomes.is_empty() {
                return FirstWalk::Unclear;
            }
            unreported.add_block(block);
            if block.is_branch() && !walked.push(unreported.report(block, taken), is_branch) {
                return FirstWalk::Unclear;
            }
            if is_end {
                return FirstWalk::Path(PathEnd::in_block(number, note));
            }
            note |= u8::from(block.ending == Ending::Call) * HAS_CALLS;
            let Some(next) = block.next(taken) else { return FirstWalk::NotYet };
            number = next;
        }
    }
}
