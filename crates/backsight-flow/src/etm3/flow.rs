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

/// The atoms of a P-header that are left.
struct Atoms {
    /// The oldest in bit 0; 1 is executed.
    bits: u16,
    left: u8,
    /// Cycles before the next one.
    cycles: Option<u32>,
    /// Cycles before each of the others.
    cycles_between: Option<u32>,
}

impl Atoms {
    #[inline]
    fn new(header: &PHeader) -> Self {
        let (cycles, cycles_between) = match header.cycles {
            CycleMarks::NotTraced => (None, None),
            CycleMarks::Before(cycles) => (Some(cycles.into()), Some(0)),
            CycleMarks::BeforeEach => (Some(1), Some(1)),
        };
        Self { bits: header.atoms, left: header.count, cycles, cycles_between }
    }

    /// Takes the oldest: whether its instruction was executed, and the cycles before it.
    #[inline]
    fn take(&mut self) -> (bool, Option<u32>) {
        let executed = self.bits & 1 == 1;
        self.bits >>= 1;
        self.left -= 1;
        (executed, std::mem::replace(&mut self.cycles, self.cycles_between))
    }

    /// The cycles before all that are left.
    fn all_cycles(&self) -> Option<u32> {
        let between = self.cycles_between? * u32::from(self.left.saturating_sub(1));
        self.cycles.map(|cycles| cycles + between)
    }
}

impl<C: Code> Follower<C> {
    /// Atoms, one instruction each, and the cycles before them.
    #[inline]
    pub(super) fn p_header(&mut self, header: &PHeader, at: At, sink: &mut impl Sink) {
        if header.count == 0 {
            if let Some(cycles @ 1..) = header.total_cycles() {
                self.put(at, Event::CycleCount(Some(cycles.into())), sink);
            }
            return;
        }
        self.atoms_together = header.count;
        let mut atoms = Atoms::new(header);
        while atoms.left > 0 {
            self.release(sink);
            let Some(number) = self.block_here() else {
                return self.lost_atoms(&atoms, at, sink);
            };
            // No exception cancels an instruction of a P-header but the last.
            let number = self.certain_atoms(number, (&mut atoms, 1), at, sink);
            let (executed, cycles) = atoms.take();
            self.newest_atom(number, executed, cycles, at, sink);
        }
    }

    /// Follows atoms from block to block, all but so many, up to one that needs a look at its block. Gives the block of
    /// the next atom.
    #[inline]
    fn certain_atoms(
        &mut self,
        first: u32,
        (atoms, but): (&mut Atoms, u8),
        at: At,
        sink: &mut impl Sink,
    ) -> u32 {
        let (mut number, mut origin) = (first, None);
        let (mut instructions, mut ranges, mut branches, mut taken) = (0, 0, 0, 0);
        while atoms.left > but {
            let block = self.tracker.block(number);
            let executed = atoms.bits & 1 == 1;
            let next = block.next(executed).filter(|_| block.way(executed).is_known());
            let Some(next) = next.filter(|&next| !self.tracker.block(next).is_stale()) else { break };
            let mut range = block.range;
            range.executed = executed;
            let is_branch = block.is_branch();
            instructions += u64::from(range.instructions);
            ranges += 1;
            branches += u64::from(is_branch);
            taken += u64::from(is_branch && executed);
            let (_, cycles) = atoms.take();
            if cycles.is_some() {
                sink.take(at.map(|()| Event::CycleCount(cycles)));
            }
            sink.take(at.map(|()| Event::Range(range)));
            if executed && self.traces_data {
                self.transfer_of(&range);
            }
            origin = Some(Origin::new(number, executed));
            number = next;
        }
        if let Some(origin) = origin {
            self.tracker.origin = origin;
            self.is_named = false;
            let statistics = &mut self.tracker.statistics;
            statistics.instructions += instructions;
            statistics.ranges += ranges;
            statistics.branches += branches;
            statistics.taken += taken;
        }
        number
    }

    /// P-headers after which atoms come: nothing cancels their instructions, so that none is held back.
    #[inline]
    pub(super) fn certain_p_headers(&mut self, offset: u64, headers: &[u8], sink: &mut impl Sink) {
        self.release(sink);
        let mut number = None;
        for (offset, &header) in (offset..).zip(headers) {
            let Some(header) = self.p_headers.get(header) else { continue };
            let at = Located { offset, length: 1, value: () };
            if header.count == 0 {
                if let Some(cycles @ 1..) = header.total_cycles() {
                    sink.take(at.map(|()| Event::CycleCount(Some(cycles.into()))));
                }
                continue;
            }
            let mut atoms = Atoms::new(&header);
            while atoms.left > 0 {
                let Some(block) = number.or_else(|| self.block_here()) else {
                    self.lost_atoms(&atoms, at, sink);
                    break;
                };
                let block = self.certain_atoms(block, (&mut atoms, 0), at, sink);
                number = Some(block);
                if atoms.left > 0 {
                    let (executed, cycles) = atoms.take();
                    self.newest_atom(block, executed, cycles, at, sink);
                    self.release(sink);
                    number = None;
                }
            }
        }
        if let Some(number) = number {
            self.tracker.position = Some(self.tracker.position_of(number));
        }
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

    /// The instruction of a block is the newest: an exception may still cancel it.
    #[inline]
    pub(super) fn newest_atom(
        &mut self,
        number: u32,
        executed: bool,
        cycles: Option<u32>,
        at: At,
        sink: &mut impl Sink,
    ) {
        if self.tracker.block(number).way(executed) == Way::Odd && !self.accepts(number, executed, at, sink) {
            return;
        }
        let block = self.tracker.block(number);
        let mut range = block.range;
        range.executed = executed;
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
            self.transfer_of(&range);
        }
    }

    /// An instruction was executed that may transfer data.
    fn transfer_of(&mut self, range: &Range) {
        let Range { start, isa, flags, last_size, .. } = *range;
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
