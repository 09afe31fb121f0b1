//! Following the path that a packet describes, block by block.
//!
//! This is the clear way: it looks at every block. The fast way goes along while nothing needs a look.

use backsight_image::Code;
use backsight_riscv::etrace::{ImplicitReturn, Start, Support};

use super::destination::{Destination, DestinationKind, Position};
use super::fast::FastEnd;
use super::{Fault, Follower};
use crate::blocks::{Block, Ending, Origin, PathKey};
use crate::sink::Sink;
use crate::{Event, Symptom};

/// Exits of blocks in a row that need no outcome, before the path is not believed.
pub(super) const MOST_JUMPS: u32 = 1 << 16;

/// A walk under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Walk {
    pub position: Position,
    /// Blocks that it may still enter.
    pub left: u64,
    /// Exits in a row that it may still take without an outcome.
    pub jumps: u32,
    /// The instruction where it began.
    start: u64,
    /// It entered a block and did not look at it yet: the block that it left.
    pub undecided_after: Option<u32>,
}

impl Walk {
    /// A walk that begins and may enter so many blocks.
    pub fn new(position: Position, left: u64) -> Self {
        Self { position, left, jumps: MOST_JUMPS, start: position.pc, undecided_after: None }
    }
}

/// A walk that its sink had enough of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paused {
    walk: Walk,
    destination: Destination,
    then: Then,
    /// The time of the message.
    pub time: Option<u64>,
}

impl Paused {
    /// The same, where blocks have no numbers.
    pub fn without_blocks(self) -> Self {
        let position = Position { block: u32::MAX, ..self.walk.position };
        let walk = Walk { position, undecided_after: None, ..self.walk };
        Self { walk, destination: self.destination.without_block(), ..self }
    }

    /// The block that the walk is in has another number.
    pub fn stand_at(&mut self, position: Position) {
        self.walk.position = position;
    }
}

/// What follows a walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Then {
    Nothing,
    Synchronise(Start),
    Support(Support),
    /// The code at this address, where it goes on, is not there.
    Lose(u64),
}

/// How far a packet was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    Arrived,
    Paused,
}

/// How the last instruction of a block was left.
struct Exit {
    next: u64,
    taken: bool,
    /// Only the destination says where it went.
    crossed: bool,
}

impl Exit {
    const fn new(next: u64, taken: bool) -> Self {
        Self { next, taken, crossed: false }
    }
}

impl<C: Code> Follower<C> {
    /// Walks to the destination.
    pub(super) fn follow(
        &mut self,
        destination: &Destination,
        then: Then,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        self.follow_after(0, None, destination, then, sink)
    }

    /// The same, after so many blocks of the way. Remembers the path if it has a key.
    pub(super) fn follow_after(
        &mut self,
        blocks: u64,
        key: Option<PathKey>,
        destination: &Destination,
        then: Then,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        let Some(position) = self.position else { return Err(Fault::Unsynchronised) };
        let mut walk = Walk::new(position, self.settings.longest_path.saturating_sub(blocks));
        let mut end = FastEnd::Undecided;
        if self.may_walk_fast() {
            end = key.map_or(FastEnd::Paused, |key| self.walk_first(key, &mut walk, destination, sink));
            // A path that gets too long to be remembered is walked on.
            if end == FastEnd::Paused {
                end = self.walk_fast(&mut walk, destination, sink);
            }
        }
        self.go_on(end, walk, destination, then, sink)
    }

    /// Goes on with a walk that its sink had enough of.
    pub(super) fn follow_on(&mut self, paused: &Paused, sink: &mut impl Sink) -> Result<Walked, Fault> {
        let Paused { mut walk, ref destination, then, .. } = *paused;
        let mut end = FastEnd::Undecided;
        if self.may_walk_fast() && walk.undecided_after.is_none() {
            end = self.walk_fast(&mut walk, destination, sink);
        }
        match (self.go_on(end, walk, destination, then, sink), then) {
            (Ok(Walked::Arrived), then) => self.arrive(&then, sink).map(|()| Walked::Arrived),
            (Err(fault), Then::Synchronise(start)) => self.synchronise_after(fault, &start, sink),
            (walked, _) => walked,
        }
    }

    /// What follows a walk that was interrupted.
    fn arrive(&mut self, then: &Then, sink: &mut impl Sink) -> Result<(), Fault> {
        match then {
            Then::Nothing => Ok(()),
            Then::Synchronise(start) => {
                self.synchronised(start, false, sink);
                Ok(())
            }
            Then::Support(support) => self.announced(support, sink),
            Then::Lose(address) => {
                self.lost_at = *address;
                Err(Fault::NoCode)
            }
        }
    }

    #[inline(always)]
    fn go_on(
        &mut self,
        end: FastEnd,
        mut walk: Walk,
        destination: &Destination,
        then: Then,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        let result = match end {
            FastEnd::Arrived => Ok(Walked::Arrived),
            FastEnd::Paused => Ok(Walked::Paused),
            FastEnd::Undecided => self.walk_clearly(&mut walk, destination, sink),
        };
        self.lost_at = walk.position.pc;
        if result == Err(Fault::NoCode) {
            self.position = None;
            return Err(Fault::NoCode);
        }
        self.position = Some(walk.position);
        match result {
            Ok(Walked::Arrived) => self.outcomes.settle(walk.position.pc),
            Ok(Walked::Paused) => {
                self.paused = Some(Paused { walk, destination: *destination, then, time: None });
            }
            Err(_) => {}
        }
        result
    }

    /// Is it a walk like any other?
    #[inline]
    const fn may_walk_fast(&self) -> bool {
        self.inferred.is_none() && self.settings.fast_walk
    }

    /// Goes on block by block and looks at each.
    fn walk_clearly(
        &mut self,
        walk: &mut Walk,
        destination: &Destination,
        sink: &mut impl Sink,
    ) -> Result<Walked, Fault> {
        loop {
            let earlier = self.inferred.is_some();
            self.refresh(walk)?;
            if let Some(left) = walk.undecided_after.take() {
                let Position { pc, block } = walk.position;
                if let Some(done) = self.stops_at(pc, block, false, destination) {
                    let left = *self.blocks.get(left);
                    self.report_endless_loop(&left, block, done, sink);
                    return done;
                }
            }
            let number = walk.position.block;
            let block = *self.blocks.get(number);
            let last = block.last().0;
            if walk.position.pc != last {
                if !earlier
                    && let Some((stop, inferred)) = self.stops_inside(number, walk.position.pc, destination)
                {
                    walk.position.pc = stop;
                    self.inferred = inferred.then_some(*destination);
                    return Ok(Walked::Arrived);
                }
                walk.position.pc = last;
            }
            let outcomes_before = self.outcomes.len();
            if block.ending == Ending::Undefined {
                self.meet_undefined(&block, sink)?;
            }
            // While the path of an earlier packet is walked on, that packet's fields count.
            let exit = match self.inferred {
                Some(earlier) => self.leave(&block, &Destination { address: walk.start, ..earlier }, true)?,
                None => self.leave(&block, destination, false)?,
            };
            self.report_block(number, exit.taken, sink);
            walk.position.pc = exit.next;
            let entered = self.block_at(Origin::new(number, exit.taken), exit.next)?;
            walk.position.block = entered;
            self.unreported = Some(exit.next);
            if earlier {
                if exit.crossed {
                    self.inferred = None;
                    self.irets = 0;
                }
            } else if let Some(done) = self.stops_at(exit.next, entered, exit.crossed, destination) {
                self.report_endless_loop(&block, entered, done, sink);
                return done;
            }
            walk.jumps = if self.outcomes.len() < outcomes_before { MOST_JUMPS } else { walk.jumps - 1 };
            walk.left = walk.left.saturating_sub(1);
            if walk.left == 0 || walk.jumps == 0 || block.ending == Ending::Jump && exit.next == last {
                return Err(Fault::PathTooLong);
            }
            if sink.is_full() {
                return Ok(Walked::Paused);
            }
            if self.may_walk_fast() {
                match self.walk_fast(walk, destination, sink) {
                    FastEnd::Arrived => return Ok(Walked::Arrived),
                    FastEnd::Paused => return Ok(Walked::Paused),
                    FastEnd::Undecided => {}
                }
            }
        }
    }

    /// A walk that came out of `left` ended: how many turns a loop without branches made, no packet says. Where the jump
    /// goes into the middle of an instruction, what it enters ends elsewhere, and is no loop.
    fn report_endless_loop(
        &mut self,
        left: &Block,
        entered: u32,
        end: Result<Walked, Fault>,
        sink: &mut impl Sink,
    ) {
        let is_loop = left.is_endless_loop() && self.blocks.get(entered).range.end == left.range.end;
        if end.is_ok() && is_loop {
            self.emit(Event::UncountedLoop { address: left.target }, sink);
        }
    }

    /// An instruction was executed that no program means to execute.
    #[cold]
    fn meet_undefined(&mut self, block: &Block, sink: &mut impl Sink) -> Result<(), Fault> {
        let (symptom, address) = (Symptom::UndefinedInstruction, block.range.start);
        self.emit(Event::Mismatch { symptom, address }, sink);
        if self.settings.strict_image {
            self.unreported = None;
            return Err(Fault::WrongImage);
        }
        Ok(())
    }

    /// The block where the walk is may have no code, or code that changed.
    fn refresh(&mut self, walk: &mut Walk) -> Result<(), Fault> {
        match self.blocks.get(walk.position.block).ending {
            Ending::NoCode => Err(Fault::NoCode),
            Ending::Stale => {
                walk.position.block = self.block_at(Origin::UNKNOWN, walk.position.pc)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Does the walk end inside a block, after `pc`? Where, and is that a guess?
    #[inline]
    fn stops_inside(&self, number: u32, pc: u64, destination: &Destination) -> Option<(u64, bool)> {
        let left = self.outcomes.len();
        if left > 1 {
            return None;
        }
        let block = self.blocks.get(number);
        let (start, last) = (block.range.start.0, block.last().0);
        let ends_in_branch = block.ending == Ending::Branch;
        if left == 1 && ends_in_branch && destination.ends_at_last_branch() {
            return Some((last, false));
        }
        let distance = destination.address.wrapping_sub(start);
        if distance <= pc.wrapping_sub(start) || distance > last.wrapping_sub(start) {
            return None;
        }
        let at_branch = ends_in_branch && destination.address == last;
        if (left == 1) != at_branch || !self.blocks.has(number, destination.address) {
            return None;
        }
        self.arrives(destination).map(|inferred| (destination.address, inferred))
    }

    /// Does the walk end at `pc`, where a block was just entered?
    #[inline]
    fn stops_at(
        &mut self,
        pc: u64,
        block: u32,
        crossed: bool,
        destination: &Destination,
    ) -> Option<Result<Walked, Fault>> {
        let left = self.outcomes.len();
        if left > 1 && !crossed {
            return None;
        }
        let at_branch = self.blocks.get(block).is_only_a_branch();
        if left == 1 && at_branch && destination.ends_at_last_branch() {
            return Some(Ok(Walked::Arrived));
        }
        let used_up = left == u64::from(at_branch);
        if crossed {
            return Some(if used_up { Ok(Walked::Arrived) } else { Err(Fault::OutcomesLeftOver) });
        }
        if pc != destination.address || !used_up {
            return None;
        }
        self.arrives(destination).map(|inferred| {
            self.inferred = inferred.then_some(*destination);
            Ok(Walked::Arrived)
        })
    }

    /// The walk stands on the destination's address with all outcomes used. Does it end, and is that a guess: the packet
    /// may mean the target of an uninferable jump that leads back here.
    fn arrives(&self, destination: &Destination) -> Option<bool> {
        match destination.kind {
            DestinationKind::Sync { privilege } => (privilege == self.context.level()).then_some(false),
            DestinationKind::Address if !destination.at_branch => {
                let returned = match (self.params().implicit_return, destination.irreport) {
                    (_, None) => true,
                    (ImplicitReturn::Returns, Some(irets)) => irets <= self.irets,
                    (ImplicitReturn::Depth, Some(depth)) => {
                        destination.notify || depth as usize == self.stack.depth()
                    }
                };
                match (returned, destination.notify, destination.updiscon) {
                    (false, ..) => None,
                    (true, true, _) => Some(false),
                    (true, false, false) => Some(true),
                    (true, false, true) => None,
                }
            }
            _ => None,
        }
    }

    /// Executes the last instruction of a block. `used_up` says that all outcomes before it were used.
    #[inline]
    fn leave(&mut self, block: &Block, destination: &Destination, used_up: bool) -> Result<Exit, Fault> {
        let (target, end) = (block.target.0, block.range.end.0);
        match block.ending {
            Ending::Branch => {
                let taken = self.outcomes.take(block.last().0).ok_or(Fault::OutcomeMissing)?;
                self.irets = 0;
                Ok(Exit::new(if taken { target } else { end }, taken))
            }
            Ending::Jump => Ok(Exit::new(target, true)),
            Ending::Call => {
                self.call(block);
                Ok(Exit::new(target, true))
            }
            Ending::Plain | Ending::Undefined | Ending::Environment => Ok(Exit::new(end, false)),
            _ => self.leave_uninferable(block, destination, used_up),
        }
    }

    fn leave_uninferable(
        &mut self,
        block: &Block,
        destination: &Destination,
        used_up: bool,
    ) -> Result<Exit, Fault> {
        if block.is_sequential && self.options().sijump {
            self.call(block);
            return Ok(Exit::new(block.target.0, true));
        }
        let mut predicted = None;
        if block.ending == Ending::Return && self.options().implicit_return {
            predicted = self.stack.peek();
            let is_last = used_up || self.outcomes.len() == u64::from(destination.at_branch);
            let counted = match self.params().implicit_return {
                ImplicitReturn::Returns => self.irets,
                ImplicitReturn::Depth => self.stack.depth() as u32,
            };
            let reported = destination.irreport == Some(counted) && is_last;
            // Under the ratified scheme a return that fails leaves its entry.
            if !reported || self.params().implicit_return == ImplicitReturn::Returns {
                self.stack.pop();
            }
            if let (Some(target), false) = (predicted, reported) {
                self.irets += 1;
                return Ok(Exit::new(target.0, true));
            }
        }
        if destination.kind == DestinationKind::LastBranch {
            return Err(Fault::UnexpectedDiscontinuity);
        }
        if self.options().jump_target_cache && predicted.is_none_or(|target| target.0 != destination.address)
        {
            self.cache.insert(destination.address);
        }
        self.call(block);
        Ok(Exit { next: destination.address, taken: true, crossed: true })
    }

    /// The last instruction of a block was executed: if it is a call, it will be returned from.
    #[inline]
    pub(super) fn call(&mut self, block: &Block) {
        if matches!(block.ending, Ending::Call | Ending::IndirectCall) && self.options().implicit_return {
            self.stack.push(block.range.end, block.range.isa);
        }
    }

    /// Where execution goes from `position`, as far as the program and pending outcomes say.
    pub(super) fn next_address(&mut self, position: Position) -> Option<u64> {
        let block = *self.blocks.get(position.block);
        let (target, end) = (block.target.0, block.range.end.0);
        if position.pc != block.last().0 {
            return Some(self.blocks.after(position.block, position.pc));
        }
        match block.ending {
            Ending::Plain | Ending::Undefined => Some(end),
            Ending::Environment => Some(block.last().0),
            Ending::Jump | Ending::Call => Some(target),
            Ending::Branch => self.outcomes.peek().map(|taken| if taken { target } else { end }),
            Ending::Return | Ending::IndirectJump | Ending::IndirectCall | Ending::Swap
                if block.is_sequential && self.options().sijump =>
            {
                Some(target)
            }
            Ending::Return if self.options().implicit_return => self.stack.peek().map(|target| target.0),
            _ => None,
        }
    }
}
