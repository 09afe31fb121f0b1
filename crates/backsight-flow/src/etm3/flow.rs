//! From atoms to the instructions that were executed.

use backsight_arm::etm3::{CycleMarks, PHeader};
use backsight_core::{Isa, Located};
use backsight_image::Code;
use backsight_isa::Class;

use super::Follower;
use crate::blocks::{Origin, Way};
use crate::etm::{At, Position};
use crate::sink::Sink;
use crate::walk::Stop;
use crate::{Event, Range};

/// The atoms of a P-header that are left, and the cycles before them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atoms {
    /// The oldest in bit 0; 1 is executed. The highest 1 is after the newest.
    bits: u32,
    has_cycles: bool,
    /// Before the next atom, or with no atom at all.
    cycles: u8,
    /// Before each of the others.
    cycles_between: u8,
}

impl Atoms {
    /// Neither atoms nor cycles.
    pub const NONE: Self = Self { bits: 1, has_cycles: false, cycles: 0, cycles_between: 0 };

    pub fn new(header: &PHeader) -> Self {
        let (has_cycles, cycles, cycles_between) = match header.cycles {
            CycleMarks::NotTraced => (false, 0, 0),
            CycleMarks::Before(cycles) => (true, cycles, 0),
            CycleMarks::BeforeEach => (true, header.count.min(1), 1),
        };
        let end = 1 << header.count.min(16);
        Self { bits: u32::from(header.atoms) & (end - 1) | end, has_cycles, cycles, cycles_between }
    }

    /// How many are left.
    #[inline]
    pub const fn left(&self) -> u8 {
        self.bits.ilog2() as u8
    }

    /// Are there none left?
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bits <= 1
    }

    /// The cycles before the next atom, where cycles are traced.
    #[inline]
    fn cycles(&self) -> Option<u32> {
        self.has_cycles.then_some(self.cycles.into())
    }

    /// Was the instruction of the oldest executed?
    #[inline]
    const fn executed(&self) -> bool {
        self.bits & 1 == 1
    }

    /// Goes on after the oldest.
    #[inline]
    const fn advance(&mut self) {
        self.bits >>= 1;
        self.cycles = self.cycles_between;
    }

    /// The cycles before all that are left.
    fn all_cycles(&self) -> Option<u32> {
        let between = u32::from(self.cycles_between) * u32::from(self.left().saturating_sub(1));
        self.cycles().map(|cycles| cycles + between)
    }
}

/// Up to where atoms are followed: as their bits are then, at most.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// None is left.
    End = 1,
    /// One is left: an exception may cancel the newest instruction of a P-header, but no other.
    Newest = 3,
}

/// How atoms are followed by links.
#[derive(Clone, Copy, Debug)]
struct Rules {
    until: Until,
    has_cycles: bool,
    /// What may transfer data is left to the code that finds out.
    traces_data: bool,
}

/// What was followed by links, and where that led.
#[derive(Clone, Copy, Debug, Default)]
struct Linked {
    /// The way to the block of the next atom, where an atom was followed.
    origin: Origin,
    /// Instructions: a block that has links is one.
    instructions: u64,
    branches: u64,
    taken: u64,
}

impl<C: Code> Follower<C> {
    /// Atoms, one instruction each, and the cycles before them. `here` is the block of the first, if it was looked up.
    pub(super) fn p_header(&mut self, mut atoms: Atoms, mut here: Option<u32>, at: At, sink: &mut impl Sink) {
        if atoms.is_empty() {
            if let Some(cycles @ 1..) = atoms.cycles() {
                self.put(at, Event::CycleCount(Some(cycles)), sink);
            }
            return;
        }
        self.known.atoms_together = atoms.left();
        while !atoms.is_empty() {
            self.release(sink);
            let Some(number_here) = here.take().or_else(|| self.block_here()) else {
                return self.lost_atoms(&atoms, at, sink);
            };
            let mut linked = Linked::default();
            let rules = Rules {
                until: Until::Newest,
                has_cycles: atoms.has_cycles,
                traces_data: self.rules.traces_data,
            };
            let number;
            (number, atoms) = self.linked_atoms(number_here, atoms, rules, &mut linked, at, sink);
            self.settle(linked);
            self.newest_atom(number, &mut atoms, at, sink);
        }
    }

    /// P-headers after which atoms come: nothing cancels their instructions, so that none is held back. Gives the block of
    /// the next atom, if it is known; else execution is where the tracker says.
    pub(super) fn certain_p_headers(
        &mut self,
        offset: u64,
        headers: &[u8],
        sink: &mut impl Sink,
    ) -> Option<u32> {
        self.release(sink);
        match self.rules.has_cycles {
            true => self.certain_run::<true>(offset, headers, sink),
            false => self.certain_run::<false>(offset, headers, sink),
        }
    }

    /// The same, where all P-headers have cycles, or none has.
    #[inline(always)]
    fn certain_run<const HAS_CYCLES: bool>(
        &mut self,
        offset: u64,
        headers: &[u8],
        sink: &mut impl Sink,
    ) -> Option<u32> {
        let (mut here, mut linked) = (self.block_here(), Linked::default());
        for (offset, &header) in (offset..).zip(headers) {
            let mut atoms = self.rules.p_headers[usize::from(header)];
            let at = Located { offset, length: 1, value: () };
            if atoms.is_empty() {
                if HAS_CYCLES && atoms.cycles > 0 {
                    sink.take(at.map(|()| Event::CycleCount(Some(atoms.cycles.into()))));
                }
                continue;
            }
            if let Some(number) = here {
                let rules = Rules { until: Until::End, has_cycles: HAS_CYCLES, traces_data: false };
                let next;
                (next, atoms) = self.linked_atoms(number, atoms, rules, &mut linked, at, sink);
                here = Some(next);
            }
            if !atoms.is_empty() {
                self.settle(std::mem::take(&mut linked));
                here = self.certain_atoms(here, atoms, at, sink);
            }
        }
        self.settle(linked);
        here
    }

    /// The atoms of a P-header from one on that no link leads on from.
    #[inline(never)]
    fn certain_atoms(
        &mut self,
        mut here: Option<u32>,
        mut atoms: Atoms,
        at: At,
        sink: &mut impl Sink,
    ) -> Option<u32> {
        while !atoms.is_empty() {
            let Some(number) = here.or_else(|| self.block_here()) else {
                self.lost_atoms(&atoms, at, sink);
                return None;
            };
            self.newest_atom(number, &mut atoms, at, sink);
            self.release(sink);
            here = None;
        }
        self.block_here()
    }

    /// Follows atoms by the links from block to block, up to a block that has none. Gives the block of the next atom, which
    /// may have to be read again.
    #[inline(always)]
    fn linked_atoms(
        &self,
        first: u32,
        mut atoms: Atoms,
        rules: Rules,
        linked: &mut Linked,
        at: At,
        sink: &mut impl Sink,
    ) -> (u32, Atoms) {
        let mut number = first;
        while atoms.bits > rules.until as u32 {
            let block = self.tracker.block(number);
            let executed = atoms.executed();
            let Some(link) = block.link(executed) else { break };
            if rules.traces_data && executed && self.may_transfer(&block.range) {
                break;
            }
            if rules.has_cycles {
                sink.take(at.map(|()| Event::CycleCount(Some(atoms.cycles.into()))));
            }
            sink.take(at.map(|()| Event::Range(Range { executed, ..block.range })));
            linked.origin = Origin::new(number, executed);
            linked.instructions += 1;
            linked.branches += u64::from(link.is_branch());
            linked.taken += u64::from(link.is_branch() & executed);
            atoms.advance();
            number = link.block();
        }
        (number, atoms)
    }

    /// Counts what was followed by links. Nothing but atoms came in between.
    #[inline]
    fn settle(&mut self, linked: Linked) {
        if linked.instructions == 0 {
            return;
        }
        self.tracker.origin = linked.origin;
        self.known.is_named = false;
        let statistics = &mut self.tracker.statistics;
        statistics.instructions += linked.instructions;
        statistics.ranges += linked.instructions;
        statistics.branches += linked.branches;
        statistics.taken += linked.taken;
    }

    /// The block that execution is at, if that is known.
    #[inline]
    fn block_here(&mut self) -> Option<u32> {
        match self.tracker.position {
            Some(position) if position.isa != Isa::Jazelle => Some(self.tracker.enter_block(position)),
            _ => {
                self.tracker.position = None;
                None
            }
        }
    }

    /// Atoms at an address that is not known: their cycles count all the same.
    fn lost_atoms(&mut self, atoms: &Atoms, at: At, sink: &mut impl Sink) {
        self.tracker.statistics.skipped += u64::from(atoms.left());
        let cycles = atoms.all_cycles();
        if cycles.is_some() {
            self.tracker.emit(at, Event::CycleCount(cycles), sink);
        }
        if !std::mem::replace(&mut self.known.is_lost, true) {
            self.tracker.emit(at, Event::AddressUnknown, sink);
        }
    }

    /// The instruction of the oldest atom, which is that of a block, is the newest: an exception may still cancel it.
    pub(super) fn newest_atom(&mut self, number: u32, atoms: &mut Atoms, at: At, sink: &mut impl Sink) {
        let (executed, cycles) = (atoms.executed(), atoms.cycles());
        atoms.advance();
        let mut number = number;
        if self.tracker.block(number).is_stale() {
            number = self.tracker.enter_block(self.tracker.position_of(number));
        }
        if self.tracker.block(number).way(executed) == Way::Odd && !self.accepts(number, executed, at, sink) {
            return;
        }
        let block = self.tracker.block(number);
        let range = Range { executed, ..block.range };
        let next = match range.class {
            Class::DirectBranch if executed => Some(Position::new(block.target, block.target_isa)),
            Class::IndirectBranch if executed => None,
            _ => Some(Position { address: range.end, isa: range.isa, it: block.it }),
        };
        self.known.held.hold(at, cycles, range);
        self.tracker.position = next;
        self.tracker.origin = Origin::new(number, executed);
        self.known.is_named = false;
        if executed && self.rules.traces_data {
            self.transfer_of(number);
        }
    }

    /// May an instruction transfer data?
    #[inline]
    fn may_transfer(&self, Range { flags, .. }: &Range) -> bool {
        flags.load || flags.store || self.rules.coprocessors
    }

    /// The instruction of a block was executed.
    #[inline(never)]
    fn transfer_of(&mut self, number: u32) {
        let range = self.tracker.block(number).range;
        if self.may_transfer(&range) {
            self.own_data(range.start, range.isa, range.last_size);
        }
    }

    /// Something is wrong with an instruction. False if it is not reported.
    #[cold]
    fn accepts(&mut self, number: u32, executed: bool, at: At, sink: &mut impl Sink) -> bool {
        let block = *self.tracker.block(number);
        if block.stop == Stop::NoMemory {
            self.known.is_lost = false;
            self.tracker.unreadable(block.range.end, at, sink);
            return false;
        }
        let Some((symptom, address)) = block.symptom(executed) else { return true };
        self.tracker.mismatch(symptom, address, at, sink);
        if self.tracker.strict && symptom.is_strong() {
            self.known.is_lost = true;
            self.tracker.give_up(at, sink);
            return false;
        }
        true
    }
}
