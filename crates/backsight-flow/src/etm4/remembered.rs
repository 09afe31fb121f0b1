//! Paths of runs of atoms that were walked before.
//!
//! Where the trace says nothing but atoms, the way that they lead depends on the block where execution is, and on the
//! headers of the Atom packets. A path ends with them, or with the first indirect branch among them: where that leads is not in
//! the code.

use backsight_arm::etm4::{AtomRun, Atoms};
use backsight_core::Located;
use backsight_image::Code;

use super::flow::{At, Flow};
use crate::Range;
use crate::blocks::{FirstWalk, LONGEST_PATH, Origin, Path, PathEnd, PathKey, WalkedPath, Way};
use crate::sink::Sink;

/// The last range of the path ends in an indirect branch that was taken. Else the path ends at the start of its last block.
const LEAVES: u8 = 1;
/// Some of its ranges end in calls.
const CALLS: u8 = 2;
/// From this bit on: how many atoms it uses of the packet after those that it uses all of.
const USED_ATOMS: u32 = 3;

/// A step of a path: a block, whether its last instruction was taken, and which packet of the run says so.
///
/// ```text
///  31                     4 3      1    0
/// ┌────────────────────────┬────────┬───────┐
/// │ block                  │ packet │ taken │
/// └────────────────────────┴────────┴───────┘
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Step(u32);

impl Step {
    fn new(block: u32, taken: bool, packet: u32) -> Self {
        Self(block << 4 | packet << 1 | u32::from(taken))
    }

    #[inline(always)]
    const fn block(self) -> u32 {
        self.0 >> 4
    }

    #[inline(always)]
    const fn packet(self) -> u32 {
        self.0 >> 1 & 7
    }

    #[inline(always)]
    const fn is_taken(self) -> bool {
        self.0 & 1 == 1
    }
}

impl<C: Code> Flow<C> {
    /// Follows a run of atoms, until the sink has enough; gives the packets that are left then.
    #[inline]
    pub(super) fn atom_run(&mut self, mut run: Located<AtomRun>, sink: &mut impl Sink) -> Located<AtomRun> {
        if !self.blocks.paths.are_used() {
            return self.walk_packets(run, AtomRun::MOST, sink);
        }
        while !run.value.is_empty() && !sink.is_full() {
            let Some(here) = self.block_here(position_of(run, 0), sink) else {
                self.statistics.skipped += u64::from(run.value.atoms());
                return after(run, AtomRun::MOST);
            };
            let key = PathKey { block: here, kind: 0, outcomes: run.value.headers(), end: 0 };
            run = match self.blocks.paths.get(key) {
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
    fn walk_packets(
        &mut self,
        mut run: Located<AtomRun>,
        most: u32,
        sink: &mut impl Sink,
    ) -> Located<AtomRun> {
        for _ in 0..most.min(run.value.len()) {
            if sink.is_full() {
                break;
            }
            self.atoms(run.value.first_atoms(), position_of(run, 0), sink);
            run = after(run, 1);
        }
        run
    }

    /// Goes along a path; gives the packets after it.
    #[inline(always)]
    fn go_along(&mut self, path: &Path, run: Located<AtomRun>, sink: &mut impl Sink) -> Located<AtomRun> {
        self.statistics.count_path(path);
        let steps = self.blocks.paths.steps(path);
        let ranges = steps.iter().map(|&step| {
            let range = Range { executed: step.is_taken(), ..self.blocks.get(step.block()).range };
            position_of(run, step.packet()).map(|()| range)
        });
        sink.take_path(self.blocks.paths.id(path), ranges);
        if path.note & CALLS != 0 && self.remembers_calls() {
            for &step in steps {
                let block = self.blocks.get(step.block());
                if block.way(step.is_taken()) == Way::Call {
                    self.stack.push(block.range.end, block.range.isa);
                }
            }
        }
        self.origin = path.origin;
        if path.note & LEAVES != 0 {
            let last = steps.last().map_or(0, |step| step.packet());
            let block = *self.blocks.get(path.block);
            self.here = None;
            self.leave(&block, true, position_of(run, last), sink);
        } else {
            self.stand_at(path.block);
        }
        let rest = after(run, path.outcomes.into());
        match path.note >> USED_ATOMS {
            0 => rest,
            used => {
                let Atoms { bits, count } = rest.value.first_atoms();
                let left = Atoms { bits: bits >> used, count: count - used };
                self.atoms(left, position_of(rest, 0), sink);
                after(rest, 1)
            }
        }
    }

    /// Follows a run for the first time, and remembers its path.
    #[cold]
    #[inline(never)]
    fn remember(&mut self, key: PathKey, run: Located<AtomRun>, sink: &mut impl Sink) -> Located<AtomRun> {
        let mut walked = self.blocks.paths.begin();
        let walk = self.first_walk(key.block, run.value, &mut walked);
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

/// Where a packet of a run is.
#[inline(always)]
fn position_of(run: Located<AtomRun>, packet: u32) -> At {
    Located { offset: run.offset + u64::from(packet), length: 1, value: () }
}

/// The packets after the first `count`.
#[inline(always)]
fn after(run: Located<AtomRun>, count: u32) -> Located<AtomRun> {
    let count = count.min(run.length);
    let (offset, length) = (run.offset + u64::from(count), run.length - count);
    Located { offset, length, value: run.value.after(count) }
}
