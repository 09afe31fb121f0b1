//! From atoms to the instructions that were executed.

use backsight_arm::etm3::{CycleMarks, PHeader};
use backsight_core::Isa;
use backsight_image::Code;
use backsight_isa::Class;

use super::Follower;
use crate::blocks::{Block, Origin, Way};
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
            let Some(position) = self.tracker.position.filter(|position| position.isa != Isa::Jazelle) else {
                self.tracker.position = None;
                return self.lost_atoms(&atoms, at, sink);
            };
            let number = self.tracker.enter_block(position);
            let number = self.certain_atoms(number, &mut atoms, at, sink);
            let (executed, cycles) = atoms.take();
            self.newest_atom(number, executed, cycles, at, sink);
        }
    }

    /// Follows all but the last of these atoms from block to block, up to one that needs a look: no exception cancels
    /// an instruction of a P-header but the last. Gives the block of the next atom.
    #[inline]
    fn certain_atoms(&mut self, first: u32, atoms: &mut Atoms, at: At, sink: &mut impl Sink) -> u32 {
        let mut number = first;
        while atoms.left > 1 {
            let block = self.tracker.block(number);
            let executed = atoms.bits & 1 == 1;
            let next = block.next(executed).filter(|_| block.way(executed).is_known());
            let Some(next) = next.filter(|&next| !self.tracker.block(next).is_stale()) else { break };
            let range = Range { executed, ..block.range };
            let (_, cycles) = atoms.take();
            if cycles.is_some() {
                sink.take(at.map(|()| Event::CycleCount(cycles)));
            }
            self.tracker.statistics.count_range(&range);
            sink.take(at.map(|()| Event::Range(range)));
            if executed && self.traces_data {
                self.transfer_of(&range);
            }
            self.tracker.origin = Origin::new(number, executed);
            self.is_named = false;
            number = next;
        }
        number
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
        let block = *self.tracker.block(number);
        if block.way(executed) == Way::Odd && !self.accepts(&block, executed, at, sink) {
            return;
        }
        let range = Range { executed, ..block.range };
        self.held.hold(at, cycles, range);
        self.tracker.origin = Origin::new(number, executed);
        self.is_named = false;
        if executed && self.traces_data {
            self.transfer_of(&range);
        }
        self.tracker.position = match range.class {
            Class::DirectBranch if executed => Some(Position::new(block.target, block.target_isa)),
            Class::IndirectBranch if executed => None,
            _ => Some(Position { address: range.end, isa: range.isa, it: block.it }),
        };
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
    fn accepts(&mut self, block: &Block, executed: bool, at: At, sink: &mut impl Sink) -> bool {
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
