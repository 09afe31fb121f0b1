//! Paths of runs of atoms that were walked before.
//!
//! Where the trace says nothing but atoms, the way that they lead depends on the block where execution is, and on the
//! headers of the Atom packets. A path ends with them, or with the first indirect branch among them: where that leads is not in
//! the code.

use backsight_arm::etm4::{AtomRun, Atoms};
use backsight_core::{Address, Located};
use backsight_image::Code;

use super::flow::{At, Flow};
use crate::Range;
use crate::blocks::{CodeMode, FirstWalk, LONGEST_PATH, Origin, Path, PathEnd, PathKey, WalkedPath, Way};
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

/// Atom packets that follow one another: where the first is, and their headers. Small enough to stay in registers.
#[derive(Clone, Copy)]
struct Run {
    offset: u64,
    packets: AtomRun,
}

impl Run {
    /// Where a packet of it is.
    #[inline(always)]
    const fn at(self, packet: u32) -> At {
        Located { offset: self.offset + packet as u64, length: 1, value: () }
    }

    /// The packets after the first `count`.
    #[inline(always)]
    fn after(self, count: u32) -> Self {
        Self { offset: self.offset + u64::from(count), packets: self.packets.after(count) }
    }
}

impl<C: Code> Flow<C> {
    /// Follows a run of atoms, until the sink has enough; gives how many packets are left then.
    #[inline(always)]
    pub(super) fn atom_run(&mut self, run: Located<AtomRun>, sink: &mut impl Sink) -> u32 {
        let run = Run { offset: run.offset, packets: run.value };
        if self.blocks.paths.are_used() {
            self.run_of_paths(run, sink).packets.len()
        } else {
            self.walk_packets(run, AtomRun::MOST, sink).packets.len()
        }
    }

    /// Follows a run by paths that were walked before, where there are any; gives what is left of it.
    #[inline]
    fn run_of_paths(&mut self, mut run: Run, sink: &mut impl Sink) -> Run {
        while !run.packets.is_empty() && !sink.is_full() {
            if !self.settle(run.at(0), sink) {
                self.statistics.skipped += u64::from(run.packets.atoms());
                return run.after(AtomRun::MOST);
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
    fn walk_packets(&mut self, mut run: Run, most: u32, sink: &mut impl Sink) -> Run {
        for _ in 0..most.min(run.packets.len()) {
            if sink.is_full() {
                break;
            }
            self.atoms(run.packets.first_atoms(), run.at(0), sink);
            run = run.after(1);
        }
        run
    }

    /// Goes along a path; gives the packets after it.
    #[inline(always)]
    fn go_along(&mut self, path: &Path, run: Run, sink: &mut impl Sink) -> Run {
        self.statistics.count_path(path);
        let steps = self.blocks.paths.steps(path);
        // All blocks of a path are there; but a loop that could end at each of them would not be unrolled.
        let blocks = self.blocks.all();
        if let Some(last) = blocks.len().checked_sub(1) {
            let ranges = steps.iter().map(|&step| {
                let block = &blocks[last.min(step.block() as usize)];
                run.at(step.packet()).map(|()| Range { executed: step.is_taken(), ..block.range })
            });
            sink.take_path(self.blocks.paths.id(path), ranges);
        }
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
        let rest = run.after(path.outcomes.into());
        match path.note >> USED_ATOMS {
            0 => rest,
            used => {
                let Atoms { bits, count } = rest.packets.first_atoms();
                let left = Atoms { bits: bits >> used, count: count - used };
                self.atoms(left, rest.at(0), sink);
                rest.after(1)
            }
        }
    }

    /// Follows a run for the first time, and remembers its path.
    #[cold]
    #[inline(never)]
    fn remember(&mut self, key: PathKey, run: Run, sink: &mut impl Sink) -> Run {
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
