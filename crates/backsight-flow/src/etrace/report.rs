//! What the follower reports, and what it reports when it loses its position.

use backsight_core::{Address, Mode, Privilege};
use backsight_image::Code;
use backsight_isa::{Class, Flags};
use backsight_riscv::etrace::ContextPacket;

use super::destination::Position;
use super::{Fault, Follower};
use crate::blocks::Ending;
use crate::sink::Sink;
use crate::{Event, NoSync, Range, Symptom, TraceOn};

impl<C: Code> Follower<C> {
    #[inline]
    pub(super) fn emit(&mut self, value: Event, sink: &mut impl Sink) {
        self.statistics.count(&value);
        sink.take(self.at.map(|()| value));
    }

    pub(super) fn begin(&mut self, sink: &mut impl Sink) {
        if self.beginning.begin() {
            self.emit(Event::StartOfTrace, sink);
        }
    }

    /// Decoding can begin here, or the trace ends.
    pub(super) fn end_of_beginning(&mut self, sink: &mut impl Sink) {
        if let Some(skipped) = self.beginning.synchronise() {
            let event = Event::NoSync(NoSync::Initial);
            self.statistics.count(&event);
            sink.take(skipped.map(|()| event));
        }
    }

    pub(super) fn trace_on(&mut self, sink: &mut impl Sink) {
        if self.position.is_none() && self.unentered.is_none() {
            self.end_of_beginning(sink);
            let why = if self.lost_trace { TraceOn::Overflow } else { TraceOn::Begin };
            self.emit(Event::TraceOn(why), sink);
        }
    }

    /// Reports everything up to where the walk stands.
    pub(super) fn flush(&mut self, sink: &mut impl Sink) {
        if let Some(position) = self.position {
            self.report_part(position, position.pc, sink);
        }
    }

    pub(super) fn forget(&mut self) {
        self.position = None;
        self.unreported = None;
        self.inferred = None;
        self.unentered = None;
        self.paused = None;
        self.outcomes.clear();
    }

    /// A fault outside of any packet.
    pub(super) fn lose_position(&mut self, fault: Fault, sink: &mut impl Sink) {
        self.begin(sink);
        self.beginning.skip(self.at);
        self.lose(fault, sink);
        self.is_settled = false;
    }

    pub(super) fn lose(&mut self, fault: Fault, sink: &mut impl Sink) {
        self.faults.count(fault);
        if fault == Fault::Unsynchronised {
            self.statistics.skipped += 1;
            self.beginning.skip(self.at);
            return;
        }
        let address = Address(self.lost_at);
        self.flush(sink);
        let symptom = match fault {
            Fault::NoCode => {
                self.emit(Event::NoMemory { address, space: self.code.space_of(&self.context) }, sink);
                None
            }
            Fault::UnexpectedDiscontinuity | Fault::CacheEntryInvalid | Fault::HandlerUnknown => {
                Some(Symptom::TargetMissing)
            }
            Fault::OutcomeMissing | Fault::OutcomesLeftOver => Some(Symptom::AddressDiffers),
            Fault::PathTooLong => Some(Symptom::EndlessRange),
            // The symptom was reported with the instruction.
            Fault::WrongImage => None,
            Fault::BadPacket
            | Fault::BadData
            | Fault::TraceLost
            | Fault::Unsynchronised
            | Fault::CountTooLarge => None,
        };
        let reason = match (fault, symptom) {
            (Fault::TraceLost, _) => NoSync::Overflow,
            (Fault::NoCode | Fault::WrongImage, _) | (_, Some(_)) => NoSync::WrongImage,
            _ => NoSync::BadPacket,
        };
        if let Some(symptom) = symptom {
            self.emit(Event::Mismatch { symptom, address }, sink);
        }
        self.emit(Event::NoSync(reason), sink);
        self.forget();
        // That packets were lost is no fault of what was announced.
        if fault != Fault::TraceLost && self.announced.fault() {
            self.adopt();
        }
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
            self.code_mode = self.blocks.mode(self.code.space_of(&context), self.reader.set.isa());
            self.emit(Event::Context(context, self.reader.set.isa()), sink);
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
            && self.unreported != Some(position.pc)
        {
            if let Some(before) = self.blocks.before(position.block, position.pc) {
                self.report_part(position, before, sink);
            }
            self.unreported = Some(position.pc);
        }
        self.take_context(context, sink);
    }

    /// Reports the instructions of a block that was walked to its end.
    #[inline]
    pub(super) fn report_block(&mut self, number: u32, taken: bool, sink: &mut impl Sink) {
        let Some(start) = self.unreported else { return };
        let block = self.blocks.get(number);
        let ending = block.ending;
        let mut range = Range { executed: taken || ending != Ending::Branch, ..block.range };
        if start != range.start.0 {
            range.instructions = self.blocks.between(number, start, block.last().0);
            range.start = Address(start);
        }
        self.emit(Event::Range(range), sink);
        if ending == Ending::ExceptionReturn {
            self.emit(Event::ExceptionReturn, sink);
        }
    }

    /// Reports the instructions up to `to` that were walked but not reported.
    pub(super) fn report_part(&mut self, position: Position, to: u64, sink: &mut impl Sink) {
        let Some(start) = self.unreported else { return };
        let block = *self.blocks.get(position.block);
        let at_end = to == block.last().0;
        let end = self.blocks.after(position.block, to);
        let taken = at_end && block.ending == Ending::Branch && self.outcomes.peek() == Some(true);
        let range = Range {
            start: Address(start),
            end: Address(end),
            instructions: self.blocks.between(position.block, start, to),
            isa: block.range.isa,
            class: if at_end { block.range.class } else { Class::Other },
            flags: if at_end { block.range.flags } else { Flags::default() },
            last_size: end.wrapping_sub(to) as u8,
            executed: taken || !at_end || block.ending != Ending::Branch,
        };
        self.unreported = (!at_end).then_some(end);
        self.emit(Event::Range(range), sink);
        if block.is_endless_loop() {
            self.emit(Event::UncountedLoop { address: block.target }, sink);
        }
    }
}
