//! What the follower says, and what it says when it loses its place.

use backsight_core::{Address, AddressSpace, Located, Mode, Privilege};
use backsight_image::Code;
use backsight_isa::{Class, Flags};
use backsight_riscv::etrace::ContextPacket;

use super::blocks::End;
use super::goal::Position;
use super::{Fault, Follower, Sink};
use crate::{Event, NoSync, Range, Symptom, TraceOn};

impl<C: Code> Follower<'_, C> {
    #[inline]
    pub(super) fn emit(&mut self, value: Event, sink: &mut impl Sink) {
        self.statistics.count(&value);
        let (offset, length) = self.place;
        sink(Located { offset, length, value });
    }

    pub(super) fn begin(&mut self, sink: &mut impl Sink) {
        if !self.started {
            self.started = true;
            self.emit(Event::NoSync(NoSync::Initial), sink);
        }
    }

    pub(super) fn trace_on(&mut self, sink: &mut impl Sink) {
        if self.position.is_none() && self.unentered.is_none() {
            let why = if self.lost_trace { TraceOn::Overflow } else { TraceOn::Begin };
            self.emit(Event::TraceOn(why), sink);
        }
    }

    /// Tells everything up to where the walk stands.
    pub(super) fn flush(&mut self, sink: &mut impl Sink) {
        if let Some(position) = self.position {
            self.emit_part(position, position.pc, sink);
        }
    }

    pub(super) fn forget(&mut self) {
        self.position = None;
        self.run = None;
        self.inferred = None;
        self.unentered = None;
        self.outcomes.clear();
    }

    /// A fault outside of any packet.
    pub(super) fn lose_place(&mut self, fault: Fault, sink: &mut impl Sink) {
        self.begin(sink);
        self.lose(fault, sink);
        self.calm = false;
    }

    pub(super) fn lose(&mut self, fault: Fault, sink: &mut impl Sink) {
        self.faults.count(fault);
        if fault == Fault::Unsynchronised {
            self.statistics.skipped += 1;
            return;
        }
        let address = Address(self.lost_at);
        self.flush(sink);
        let symptom = match fault {
            Fault::NoCode => {
                self.emit(Event::NoMemory { address, space: AddressSpace::ANY }, sink);
                None
            }
            Fault::UnexpectedDiscontinuity | Fault::CacheEntryInvalid | Fault::HandlerUnknown => {
                Some(Symptom::TargetMissing)
            }
            Fault::OutcomeMissing | Fault::OutcomesLeftOver => Some(Symptom::AddressDiffers),
            Fault::PathTooLong => Some(Symptom::EndlessRange),
            Fault::BadPacket | Fault::TraceLost | Fault::Unsynchronised | Fault::BadData => None,
        };
        let reason = match (fault, symptom) {
            (Fault::TraceLost, _) => NoSync::Overflow,
            (Fault::NoCode, _) | (_, Some(_)) => NoSync::WrongImage,
            _ => NoSync::BadPacket,
        };
        if let Some(symptom) = symptom {
            self.emit(Event::Mismatch { symptom, address }, sink);
        }
        self.emit(Event::NoSync(reason), sink);
        self.forget();
    }

    pub(super) fn take_context(&mut self, packet: &ContextPacket, sink: &mut impl Sink) {
        let mut context = self.context;
        context.privilege = Privilege::Riscv(Mode(packet.privilege));
        if self.params().context_bits() > 0 {
            context.context_id = Some(packet.context);
        }
        if context != self.context || !self.context_known {
            self.context = context;
            self.context_known = true;
            self.emit(Event::Context(context, self.isa), sink);
        }
        if self.params().time_bits() > 0 {
            self.emit(Event::Timestamp { value: packet.time, cycles: None }, sink);
        }
    }

    /// The named instruction is the first one in a context, which may be new.
    pub(super) fn enter_context(&mut self, context: &ContextPacket, sink: &mut impl Sink) {
        let differs = context.privilege != self.context.level()
            || self.params().context_bits() > 0 && self.context.context_id != Some(context.context)
            || self.params().time_bits() > 0
            || !self.context_known;
        if !differs {
            return;
        }
        if let Some(position) = self.position
            && self.run != Some(position.pc)
        {
            if let Some(before) = self.blocks.get(position.block).before(position.pc) {
                self.emit_part(position, before, sink);
            }
            self.run = Some(position.pc);
        }
        self.take_context(context, sink);
    }

    /// Tells the instructions of a block that was walked to its end.
    #[inline]
    pub(super) fn emit_block(&mut self, block: u32, taken: bool, sink: &mut impl Sink) {
        let Some(start) = self.run else { return };
        let block = self.blocks.get(block);
        let Event::Range(mut range) = block.told[usize::from(taken)] else { return };
        let trap_return = block.kind == End::TrapReturn;
        if start != block.start {
            range.start = Address(start);
            range.instructions = block.between(start, block.last);
        }
        self.emit(Event::Range(range), sink);
        if trap_return {
            self.emit(Event::ExceptionReturn, sink);
        }
    }

    /// Tells the instructions up to `to` that were walked but not told.
    pub(super) fn emit_part(&mut self, position: Position, to: u64, sink: &mut impl Sink) {
        let Some(start) = self.run else { return };
        let block = self.blocks.get(position.block);
        let Event::Range(whole) = block.told[1] else { return };
        let at_end = to == block.last;
        let end = block.behind(to);
        let taken = at_end && block.kind == End::Branch && self.outcomes.peek() == Some(true);
        let range = Range {
            start: Address(start),
            end: Address(end),
            instructions: block.between(start, to),
            isa: self.isa,
            class: if at_end { whole.class } else { Class::Other },
            flags: if at_end { whole.flags } else { Flags::default() },
            last_size: end.wrapping_sub(to) as u8,
            executed: taken || !at_end || block.kind != End::Branch,
        };
        self.run = (!at_end).then_some(end);
        self.emit(Event::Range(range), sink);
    }
}
