//! Paths of runs of atoms that were walked before.
//!
//! Where the trace says nothing but atoms, the way that they lead depends on the block where execution is, and on the
//! headers of the Atom packets. A path ends with them, or with the first indirect branch among them: where that leads is not in
//! the code.

use backsight_arm::etm4::{AtomRun, Atoms, CountedRun, CycleCount};
use backsight_core::{Address, Located};
use backsight_image::Code;

use super::flow::{At, Flow};
use crate::blocks::{CodeMode, FirstWalk, LONGEST_PATH, Origin, Path, PathEnd, PathKey, WalkedPath, Way};
use crate::path_ranges::{CountedRanges, PathRanges, Step, Steps};
use crate::sink::Sink;
use crate::{Event, PathId, Range};

/// The last range of the path ends in an indirect branch that was taken. Else the path ends at the start of its last block.
const LEAVES: u8 = 1;
/// Some of its ranges end in calls.
const CALLS: u8 = 2;
/// From this bit on: how many atoms it uses of the packet after those that it uses all of.
const USED_ATOMS: u32 = 3;

/// Where the Atom packets of a run are, and what is between them.
trait Places: Copy {
    /// Gives a path whose first step is of the first packet.
    fn give(self, path: PathId, steps: Steps<'_>, sink: &mut impl Sink);

    /// Where a packet of it is.
    fn at(self, packet: u32) -> At;

    /// The cycle count right after a packet of it.
    fn count_after(self, packet: u32) -> Option<Located<CycleCount>>;

    /// Without the first `count` packets.
    fn after(self, count: u32) -> Self;
}

/// Each right after the one before: where the first is.
#[derive(Clone, Copy)]
struct Consecutive(u64);

impl Places for Consecutive {
    #[inline(always)]
    fn give(self, path: PathId, steps: Steps<'_>, sink: &mut impl Sink) {
        sink.take_path(path, PathRanges::of_packets(steps, self.0));
    }

    #[inline(always)]
    fn at(self, packet: u32) -> At {
        Located { offset: self.0 + u64::from(packet), length: 1, value: () }
    }

    #[inline(always)]
    fn count_after(self, _packet: u32) -> Option<Located<CycleCount>> {
        None
    }

    #[inline(always)]
    fn after(self, count: u32) -> Self {
        Self(self.0 + u64::from(count))
    }
}

/// With cycle counts between them: the packets from this one on.
#[derive(Clone, Copy)]
struct Counted<'r>(&'r CountedRun, u32);

impl Places for Counted<'_> {
    #[inline(always)]
    fn give(self, path: PathId, steps: Steps<'_>, sink: &mut impl Sink) {
        sink.take_counted_path(path, CountedRanges::new(steps, self.0, self.1));
    }

    #[inline(always)]
    fn at(self, packet: u32) -> At {
        self.0.at(self.1 + packet)
    }

    #[inline(always)]
    fn count_after(self, packet: u32) -> Option<Located<CycleCount>> {
        self.0.count_after(self.1 + packet)
    }

    #[inline(always)]
    fn after(self, count: u32) -> Self {
        Self(self.0, self.1 + count)
    }
}

/// Atom packets that follow one another: where they are, and their headers. Small enough to stay in registers.
#[derive(Clone, Copy)]
struct Run<P> {
    places: P,
    packets: AtomRun,
}

impl<P: Places> Run<P> {
    /// Where a packet of it is.
    #[inline(always)]
    fn at(self, packet: u32) -> At {
        self.places.at(packet)
    }

    /// The packets after the first `count`.
    #[inline(always)]
    fn after(self, count: u32) -> Self {
        Self { places: self.places.after(count), packets: self.packets.after(count) }
    }
}

impl<C: Code> Flow<C> {
    /// Follows a run of atoms, until the sink has enough; gives how many packets are left then.
    #[inline(always)]
    pub(super) fn atom_run(&mut self, run: Located<AtomRun>, sink: &mut impl Sink) -> u32 {
        self.run_from(Run { places: Consecutive(run.offset), packets: run.value }, sink)
    }

    /// The same with the cycle counts between them. The one after the last packet that was followed is left to the caller.
    #[inline(always)]
    pub(super) fn counted_run(&mut self, run: &CountedRun, sink: &mut impl Sink) -> u32 {
        self.run_from(Run { places: Counted(run, 0), packets: run.atoms() }, sink)
    }

    #[inline(always)]
    fn run_from(&mut self, run: Run<impl Places>, sink: &mut impl Sink) -> u32 {
        if self.blocks.paths.are_used() {
            self.run_of_paths(run, sink).packets.len()
        } else {
            self.walk_packets(run, AtomRun::MOST, sink).packets.len()
        }
    }

    /// Gives a cycle count.
    #[inline(always)]
    pub(super) fn count(&mut self, count: Located<CycleCount>, sink: &mut impl Sink) {
        sink.take(count.map(|count| Event::CycleCount(count.cycles)));
    }

    /// Goes on after the first `count` packets of a run: gives the cycle count that comes then, if packets are left.
    #[inline(always)]
    fn go_on<P: Places>(&mut self, run: Run<P>, count: u32, sink: &mut impl Sink) -> Run<P> {
        let rest = run.after(count);
        if !rest.packets.is_empty()
            && let Some(count) = count.checked_sub(1).and_then(|last| run.places.count_after(last))
        {
            self.count(count, sink);
        }
        rest
    }

    /// Follows a run by paths that were walked before, where there are any; gives the rest of it.
    #[inline]
    fn run_of_paths<P: Places>(&mut self, mut run: Run<P>, sink: &mut impl Sink) -> Run<P> {
        while !run.packets.is_empty() && !sink.is_full() {
            if !self.settle(run.at(0), sink) {
                return self.walk_packets(run, AtomRun::MOST, sink);
            }
            let key = key(self.position.address, self.mode_here(), run.packets);
            run = match self.blocks.paths.follow(key) {
                Some(&path) if path.is_plain => {
                    self.blocks.paths.count_use();
                    self.go_along(&path, run, sink)
                }
                Some(_) => self.walk_packets(run, 1, sink),
                None => self.remember(key, run, sink),
            };
        }
        run
    }

    /// Follows some packets without looking anything up, until the sink has enough; gives the packets after them.
    #[inline(never)]
    fn walk_packets<P: Places>(&mut self, mut run: Run<P>, most: u32, sink: &mut impl Sink) -> Run<P> {
        for _ in 0..most.min(run.packets.len()) {
            if sink.is_full() {
                break;
            }
            self.atoms(run.packets.first_atoms(), run.at(0), sink);
            run = self.go_on(run, 1, sink);
        }
        run
    }

    /// Goes along a path; gives the packets after it.
    #[inline(always)]
    fn go_along<P: Places>(&mut self, path: &Path, run: Run<P>, sink: &mut impl Sink) -> Run<P> {
        self.statistics.count_path(path);
        let steps = self.blocks.paths.steps(path);
        run.places.give(self.blocks.paths.id(path), Steps::new(steps, self.blocks.all()), sink);
        // In this order: a processor foresees the first, which hardly ever changes.
        if self.remembers_calls() && path.note & CALLS != 0 {
            for &step in steps {
                let block = self.blocks.get(step.block());
                if block.way(step.is_taken()) == Way::Call {
                    self.stack.push(block.range.end, block.range.isa);
                }
            }
        }
        self.origin = path.origin;
        if path.note & LEAVES != 0 {
            let block = *self.blocks.get(path.block);
            self.here = None;
            self.leave(&block, true, run.at(last_packet(path)), sink);
        } else {
            self.stand_at(path.block);
        }
        match path.note >> USED_ATOMS {
            0 => self.go_on(run, path.outcomes.into(), sink),
            used => {
                let rest = run.after(path.outcomes.into());
                let Atoms { bits, count } = rest.packets.first_atoms();
                let left = Atoms { bits: bits >> used, count: count - used };
                self.atoms(left, rest.at(0), sink);
                self.go_on(rest, 1, sink)
            }
        }
    }

    /// Follows a run whose path is not known; remembers it if it came before.
    #[cold]
    #[inline(never)]
    fn remember<P: Places>(&mut self, key: PathKey, run: Run<P>, sink: &mut impl Sink) -> Run<P> {
        if !self.blocks.paths.was_met(key) {
            return self.walk_packets(run, AtomRun::MOST, sink);
        }
        let Some(here) = self.block_here(run.at(0), sink) else {
            return self.walk_packets(run, AtomRun::MOST, sink);
        };
        let mut walked = self.blocks.paths.begin();
        let walk = self.first_walk(here, run.packets, &mut walked);
        self.blocks.paths.remember(key, walked, walk);
        match self.blocks.paths.get(key) {
            Some(&path) if path.is_plain => self.go_along(&path, run, sink),
            _ => self.walk_packets(run, AtomRun::MOST, sink),
        }
    }

    fn first_walk(&self, mut number: u32, run: AtomRun, walked: &mut WalkedPath<Step>) -> FirstWalk {
        let (mut origin, mut note) = (Origin::UNKNOWN, 0);
        let (mut packet, mut used) = (0, 0);
        while packet < run.len() && walked.len() < LONGEST_PATH {
            let atoms = run.after(packet).first_atoms();
            let taken = atoms.bits >> used & 1 == 1;
            let block = self.blocks.get(number);
            let way = block.way(taken);
            if block.is_stale() {
                return FirstWalk::NotYet;
            }
            if way == Way::Odd {
                break;
            }
            walked.push_step(Step::new(number, taken, packet), &Range { executed: taken, ..block.range });
            origin = Origin::new(number, taken);
            used += 1;
            if used == atoms.count {
                (packet, used) = (packet + 1, 0);
            }
            if way == Way::Indirect {
                note |= LEAVES;
                break;
            }
            note |= if way == Way::Call { CALLS } else { 0 };
            let Some(next) = block.next(taken) else { return FirstWalk::NotYet };
            number = next;
        }
        if walked.len() == 0 {
            return FirstWalk::Unclear;
        }
        walked.outcomes = packet as u8;
        FirstWalk::Path(PathEnd { block: number, origin, note: note | used << USED_ATOMS })
    }
}

/// What decides the path of a run from an address on. Not the block there: to find that one, the processor would have to
/// wait for the end of the path before.
#[inline(always)]
const fn key(from: Address, mode: CodeMode, run: AtomRun) -> PathKey {
    PathKey { from: from.0, kind: mode.bits(), outcomes: run.headers(), end: 0 }
}

/// The packet with the last atom of a path. It could be read from the last step, but that is far away.
#[inline(always)]
const fn last_packet(path: &Path) -> u32 {
    let is_part_of_next = path.note >> USED_ATOMS != 0;
    (path.outcomes as u32 + is_part_of_next as u32).saturating_sub(1)
}
