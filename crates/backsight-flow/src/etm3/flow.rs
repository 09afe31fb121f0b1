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
    /// The oldest in bit 0; 1 is executed.
    bits: u16,
    pub left: u8,
    has_cycles: bool,
    /// Before the next atom, or with no atom at all.
    cycles: u8,
    /// Before each of the others.
    cycles_between: u8,
}

impl Atoms {
    pub fn new(header: &PHeader) -> Self {
        let (has_cycles, cycles, cycles_between) = match header.cycles {
            CycleMarks::NotTraced => (false, 0, 0),
            CycleMarks::Before(cycles) => (true, cycles, 0),
            CycleMarks::BeforeEach => (true, header.count.min(1), 1),
        };
        Self { bits: header.atoms, left: header.count, has_cycles, cycles, cycles_between }
    }

    /// The cycles before the next atom, where cycles are traced.
    #[inline]
    fn cycles(&self) -> Option<u32> {
        self.has_cycles.then_some(self.cycles.into())
    }

    /// Was the instruction of the oldest executed?
    #[inline]
    fn executed(&self) -> bool {
        self.bits & 1 == 1
    }

    /// Goes on after the oldest.
    #[inline]
    fn advance(&mut self) {
        self.bits >>= 1;
        self.left -= 1;
        self.cycles = self.cycles_between;
    }

    /// The cycles before all that are left.
    fn all_cycles(&self) -> Option<u32> {
        let between = u32::from(self.cycles_between) * u32::from(self.left.saturating_sub(1));
        self.cycles().map(|cycles| cycles + between)
    }
}

/// The branches of a P-header are counted in one number, and those that were taken from this bit on.
const TAKEN: u32 = 32;

impl<C: Code> Follower<C> {
    /// Atoms, one instruction each, and the cycles before them.
    pub(super) fn p_header(&mut self, mut atoms: Atoms, at: At, sink: &mut impl Sink) {
        if atoms.left == 0 {
            if let Some(cycles @ 1..) = atoms.cycles() {
                self.put(at, Event::CycleCount(Some(cycles)), sink);
            }
            return;
        }
        self.atoms_together = atoms.left;
        while atoms.left > 0 {
            self.release(sink);
            let Some(number) = self.block_here() else {
                return self.lost_atoms(&atoms, at, sink);
            };
            // No exception cancels an instruction of a P-header but the last.
            let number = self.linked_atoms(number, (&mut atoms, 1), at, sink);
            self.newest_atom(number, &mut atoms, at, sink);
        }
    }

    /// P-headers after which atoms come: nothing cancels their instructions, so that none is held back.
    #[inline]
    pub(super) fn certain_p_headers(&mut self, offset: u64, headers: &[u8], sink: &mut impl Sink) {
        self.release(sink);
        let mut number = None;
        for (offset, &header) in (offset..).zip(headers) {
            let Some(mut atoms) = self.p_headers[usize::from(header)] else { continue };
            let at = Located { offset, length: 1, value: () };
            if atoms.left == 0 {
                if let Some(cycles @ 1..) = atoms.cycles() {
                    sink.take(at.map(|()| Event::CycleCount(Some(cycles))));
                }
                continue;
            }
            while atoms.left > 0 {
                let Some(block) = number.or_else(|| self.block_here()) else {
                    self.lost_atoms(&atoms, at, sink);
                    break;
                };
                let block = self.linked_atoms(block, (&mut atoms, 0), at, sink);
                number = Some(block);
                if atoms.left > 0 {
                    self.newest_atom(block, &mut atoms, at, sink);
                    self.release(sink);
                    number = None;
                }
            }
        }
        if let Some(number) = number {
            self.tracker.position = Some(self.tracker.position_of(number));
        }
    }

    /// Follows atoms by the links from block to block, all but so many, up to a block that has none. Gives the block of
    /// the next atom, which may have to be read again.
    #[inline(always)]
    fn linked_atoms(
        &mut self,
        first: u32,
        (atoms, but): (&mut Atoms, u8),
        at: At,
        sink: &mut impl Sink,
    ) -> u32 {
        let (mut number, mut origin) = (first, None);
        let (mut instructions, mut branches) = (0, 0);
        let begin = atoms.left;
        while atoms.left > but {
            let block = self.tracker.block(number);
            let executed = atoms.executed();
            let Some(next) = block.next(executed) else { break };
            if !block.way(executed).is_known() {
                break;
            }
            let range = Range { executed, ..block.range };
            instructions += u64::from(range.instructions);
            let branch = u64::from(block.is_branch());
            branches += branch | (branch & u64::from(executed)) << TAKEN;
            let cycles = atoms.cycles();
            if cycles.is_some() {
                sink.take(at.map(|()| Event::CycleCount(cycles)));
            }
            sink.take(at.map(|()| Event::Range(range)));
            if executed && self.traces_data {
                self.transfer_of(number);
            }
            atoms.advance();
            origin = Some(Origin::new(number, executed));
            number = next;
        }
        if let Some(origin) = origin {
            self.tracker.origin = origin;
            self.is_named = false;
            let statistics = &mut self.tracker.statistics;
            statistics.instructions += instructions;
            statistics.ranges += u64::from(begin - atoms.left);
            statistics.branches += branches & ((1 << TAKEN) - 1);
            statistics.taken += branches >> TAKEN;
        }
        number
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
        self.tracker.statistics.skipped += u64::from(atoms.left);
        let cycles = atoms.all_cycles();
        if cycles.is_some() {
            self.tracker.emit(at, Event::CycleCount(cycles), sink);
        }
        if !std::mem::replace(&mut self.is_lost, true) {
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
        self.held.hold(at, cycles, range);
        self.tracker.position = next;
        self.tracker.origin = Origin::new(number, executed);
        self.is_named = false;
        if executed && self.traces_data {
            self.transfer_of(number);
        }
    }

    /// The instruction of a block, which may transfer data, was executed.
    #[inline(never)]
    fn transfer_of(&mut self, number: u32) {
        let Range { start, isa, flags, last_size, .. } = self.tracker.block(number).range;
        if flags.load || flags.store || self.coprocessors {
            self.own_data(start, isa, last_size);
        }
    }

    /// Something is wrong with an instruction. False if it is not reported.
    #[cold]
    fn accepts(&mut self, number: u32, executed: bool, at: At, sink: &mut impl Sink) -> bool {
        let block = *self.tracker.block(number);
        if block.stop == Stop::NoMemory {
            self.is_lost = false;
            self.tracker.unreadable(block.range.end, at, sink);
            return false;
        }
        let Some((symptom, address)) = block.symptom(executed) else { return true };
        self.tracker.mismatch(symptom, address, at, sink);
        if self.tracker.strict && symptom.is_strong() {
            self.is_lost = true;
            self.tracker.give_up(at, sink);
            return false;
        }
        true
    }
}
