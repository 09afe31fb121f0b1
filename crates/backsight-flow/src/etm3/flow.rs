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
        let mut atoms = header.atoms;
        for index in 0..header.count {
            let executed = atoms & 1 == 1;
            atoms >>= 1;
            let cycles = match header.cycles {
                CycleMarks::NotTraced => None,
                CycleMarks::Before(cycles) if index == 0 => Some(cycles),
                CycleMarks::Before(_) => Some(0),
                CycleMarks::BeforeEach => Some(1),
            };
            self.release(sink);
            let Some(position) = self.tracker.position.filter(|position| position.isa != Isa::Jazelle) else {
                self.tracker.position = None;
                let left = header.count - index;
                let cycles = match header.cycles {
                    CycleMarks::BeforeEach => Some(left),
                    _ => cycles,
                };
                return self.lost_atoms(left, cycles.map(u32::from), at, sink);
            };
            self.atom(position, executed, cycles.map(u32::from), at, sink);
        }
    }

    /// Atoms at an address that is not known: their cycles count all the same.
    fn lost_atoms(&mut self, count: u8, cycles: Option<u32>, at: At, sink: &mut impl Sink) {
        self.tracker.statistics.skipped += u64::from(count);
        if cycles.is_some() {
            self.tracker.emit(at, Event::CycleCount(cycles), sink);
        }
        if !std::mem::replace(&mut self.is_lost, true) {
            self.tracker.emit(at, Event::AddressUnknown, sink);
        }
    }

    /// One instruction.
    #[inline]
    pub(super) fn atom(
        &mut self,
        position: Position,
        executed: bool,
        cycles: Option<u32>,
        at: At,
        sink: &mut impl Sink,
    ) {
        let number = self.tracker.enter_block(position);
        let block = *self.tracker.block(number);
        if block.way(executed) == Way::Odd && !self.accepts(&block, executed, at, sink) {
            return;
        }
        if cycles.is_some() {
            self.held.push(at, Event::CycleCount(cycles));
        }
        self.held.push(at, Event::Range(Range { executed, ..block.range }));
        self.tracker.origin = Origin::new(number, executed);
        self.is_named = false;
        let Range { start, end, isa, class, flags, last_size, .. } = block.range;
        if executed && self.traces_data && (flags.load || flags.store || self.coprocessors) {
            self.own_data(start, isa, last_size);
        }
        self.tracker.position = match class {
            Class::DirectBranch if executed => Some(Position::new(block.target, block.target_isa)),
            Class::IndirectBranch if executed => None,
            _ => Some(Position { address: end, isa, it: block.it }),
        };
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
