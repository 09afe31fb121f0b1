//! N-Trace messages and code to execution.
//!
//! I-CNT says how many half-words retired, the history which way the branches among them went; jumps with a
//! target in their opcode need no word, and a return that goes back to its call is left out too. So the follower
//! walks through the code from message to message, with a stack of return addresses. A full I-CNT may be told before the
//! history of the branches that it spans: it is kept and added to the next one. The walk goes from branch to branch;
//! only where I-CNT ends between two of them it looks at single instructions.

mod stretch;

use backsight_core::{Address, AddressSpace, Cause, Context, Located, Mode, Privilege};
use backsight_image::Code;
use backsight_isa::rv::{self, Decoded, JumpKind, Operation};
use backsight_riscv::ntrace::{
    BranchKind, History, Message, Packet, Process, ProcessContext, Resource, sync,
};

use self::stretch::Stretches;
use crate::{Event, NoSync, Range, Symptom, TraceOn};

/// Return addresses that are remembered; of more, the oldest are lost.
const STACK_DEPTH: usize = 64;
/// Repetitions in one message that are believed.
const MOST_REPEATS: u32 = 1 << 18;
/// Instructions without a branch that are believed.
const MOST_STRAIGHT: u32 = 1 << 20;
/// Half-words in one message that are believed: I-CNT has 22 bits.
const MOST_HALF_WORDS: u64 = 1 << 24;
/// Half-words that wait for their history. Where more go by without one, no branch among them was taken.
const MOST_CARRIED: u64 = 1 << 22;

/// Follows the execution of one hart.
pub struct Follower<'c, C> {
    stretches: Stretches<'c, C>,
    set: rv::Set,
    /// The next instruction; `None` until synchronisation.
    pc: Option<Address>,
    /// The address that was sent last, halved; `None` until synchronisation, and where messages are missing.
    sent: Option<u64>,
    /// Half-words since I-CNT was last reset.
    count: u64,
    stack: Vec<Address>,
    /// Instructions that were executed and not yet reported: the first, and how many.
    run: (Address, u32),
    /// The branch message that can be repeated.
    last_branch: Option<Message>,
    /// I-CNT of messages that said it was full.
    carried: u64,
    /// Every taken branch is a message: a full I-CNT waits for no history.
    told_one_by_one: bool,
    /// The time, once a message told it whole.
    time: Option<u64>,
    context: Context,
    offset: u64,
    length: u32,
}

/// What a walk has to go by.
struct Guide<'h> {
    /// I-CNT at its end; `None`: it ends with the last outcome.
    until: Option<u64>,
    /// Outcomes of branches. When they are used up, branches are not taken.
    outcomes: &'h mut dyn Iterator<Item = bool>,
    /// What the instruction at the end is.
    end: End,
}

/// The last instruction of a walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Any whose successor is known.
    Known,
    /// A branch that was taken, or a jump whose target the message gives.
    Jump,
    /// Any: nothing is known of what comes behind it.
    Last,
}

impl<'c, C: Code> Follower<'c, C> {
    /// A follower without a position.
    pub fn new(set: rv::Set, code: &'c C) -> Self {
        Self {
            stretches: Stretches::new(code, set),
            set,
            pc: None,
            sent: None,
            count: 0,
            stack: Vec::with_capacity(STACK_DEPTH),
            run: (Address(0), 0),
            last_branch: None,
            carried: 0,
            told_one_by_one: false,
            time: None,
            context: Context::riscv(0, set.wide),
            offset: 0,
            length: 0,
        }
    }

    /// Takes a message.
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl FnMut(Located<Event>)) {
        (self.offset, self.length) = (packet.offset, packet.length);
        let Packet { timestamp, message, .. } = packet.value;
        self.message(&message, sink);
        if let Some(field) = timestamp {
            // Differences mean nothing before the first whole time.
            self.time =
                if message.is_sync() { Some(field) } else { self.time.map(|time| time.wrapping_add(field)) };
            if let Some(value) = self.time {
                self.emit(Event::Timestamp { value, cycles: None }, sink);
            }
        }
    }

    /// Takes the end of the trace.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Event>)) {
        self.flush(None, false, sink);
        self.pc = None;
        self.emit(Event::EndOfTrace { after_overflow: false }, sink);
    }

    fn message(&mut self, message: &Message, sink: &mut impl FnMut(Located<Event>)) {
        match *message {
            Message::DirectBranch { count } => {
                self.last_branch = Some(*message);
                self.told_one_by_one = true;
                self.walk(count, &mut std::iter::empty(), End::Jump, sink);
                self.count = 0;
            }
            Message::IndirectBranch { kind, count, address } => {
                self.last_branch = Some(*message);
                self.indirect(kind, count, History::EMPTY, self.beyond(address), sink);
            }
            Message::IndirectBranchHistory { kind, count, address, history } => {
                self.last_branch = Some(*message);
                self.indirect(kind, count, history, self.beyond(address), sink);
            }
            Message::IndirectBranchSync { reason, kind, count, address } => {
                self.last_branch = None;
                self.indirect(kind, count, History::EMPTY, (Some(address), reason), sink);
            }
            Message::IndirectBranchHistorySync { reason, kind, count, address, history } => {
                self.last_branch = None;
                self.indirect(kind, count, history, (Some(address), reason), sink);
            }
            Message::ProgramTraceSync { reason, count, address } => {
                self.walk(count, &mut std::iter::empty(), End::Known, sink);
                self.synchronise(reason, address, sink);
            }
            Message::DirectBranchSync { reason, count, address } => {
                self.told_one_by_one = true;
                self.walk(count, &mut std::iter::empty(), End::Jump, sink);
                self.synchronise(reason, address, sink);
            }
            Message::ResourceFull(resource) => self.resource_full(resource, sink),
            Message::RepeatBranch { count } => self.repeat(count, sink),
            Message::ProgramTraceCorrelation { count, history, .. } => {
                self.walk(count, &mut history.unwrap_or(History::EMPTY).outcomes(), End::Last, sink);
                self.flush(None, false, sink);
                (self.pc, self.sent, self.count) = (None, None, 0);
            }
            Message::Ownership { process } => self.own(process, sink),
            Message::Error { .. } => self.lose(NoSync::Overflow, sink),
            Message::Bad(_) => self.lose(NoSync::BadPacket, sink),
            Message::Other(_) => {}
        }
    }

    /// Whose code follows.
    fn own(&mut self, process: u64, sink: &mut impl FnMut(Located<Event>)) {
        let Some(Process { privilege, context }) = Process::from_field(process) else { return };
        self.flush(None, false, sink);
        self.context.privilege = Privilege::Riscv(Mode(privilege));
        match context {
            ProcessContext::Same => {}
            ProcessContext::Supervisor(context) => self.context.context_id = Some(context),
            ProcessContext::Hypervisor(context) => self.context.vmid = u32::try_from(context).ok(),
        }
        self.emit(Event::Context(self.context, self.set.isa()), sink);
    }

    fn resource_full(&mut self, resource: Resource, sink: &mut impl FnMut(Located<Event>)) {
        match resource {
            Resource::Count(count) => {
                self.carried += u64::from(count);
                if self.told_one_by_one || self.carried > MOST_CARRIED {
                    self.walk(0, &mut std::iter::empty(), End::Known, sink);
                    self.count = 0;
                }
            }
            Resource::History(history) => self.walk_outcomes(history, sink),
            Resource::HistoryRepeat { times, .. } if times > MOST_REPEATS => {
                self.lose(NoSync::BadPacket, sink);
            }
            Resource::HistoryRepeat { history, times } => {
                for _ in 0..times {
                    if self.pc.is_none() {
                        break;
                    }
                    self.walk_outcomes(history, sink);
                }
            }
            Resource::Other(_) => {}
        }
    }

    fn repeat(&mut self, count: u32, sink: &mut impl FnMut(Located<Event>)) {
        let Some(mut message) = self.last_branch else { return };
        // The target is the same again: the address that was sent last.
        if let Message::IndirectBranch { address, .. } | Message::IndirectBranchHistory { address, .. } =
            &mut message
        {
            *address = 0;
        }
        if count > MOST_REPEATS {
            return self.lose(NoSync::BadPacket, sink);
        }
        for _ in 0..count {
            if self.pc.is_none() {
                break;
            }
            self.message(&message, sink);
        }
    }

    fn indirect(
        &mut self,
        kind: BranchKind,
        count: u32,
        history: History,
        (target, reason): (Option<u64>, u8),
        sink: &mut impl FnMut(Located<Event>),
    ) {
        let following = self.pc.is_some();
        let end = if kind == BranchKind::Indirect { End::Jump } else { End::Known };
        self.walk(count, &mut history.outcomes(), end, sink);
        if kind != BranchKind::Indirect && following {
            self.flush(None, false, sink);
            let exception = Event::Exception {
                cause: Cause::NotTraced { interrupt: kind == BranchKind::Interrupt },
                return_address: self.pc,
                is_branch_target: false,
                fault_pending: false,
                value: 0,
            };
            self.emit(exception, sink);
        }
        (self.sent, self.count) = (target, 0);
        match target {
            Some(address) if following => self.pc = Some(Address(address << 1)),
            // The code before was not known; where it led to is.
            Some(address) => self.synchronise(reason, address, sink),
            None => {}
        }
    }

    /// The address that differs so much from the one that was sent last, and why decoding may begin there: nothing but
    /// code was missing.
    fn beyond(&self, difference: u64) -> (Option<u64>, u8) {
        (self.sent.map(|sent| sent ^ difference), sync::TRACE_ENABLE)
    }

    /// Execution is at this address, whatever was known before.
    fn synchronise(&mut self, reason: u8, address: u64, sink: &mut impl FnMut(Located<Event>)) {
        let pc = Address(address << 1);
        (self.sent, self.count, self.last_branch) = (Some(address), 0, None);
        match self.pc {
            None => {
                self.stack.clear();
                let why = match reason {
                    sync::OVERRUN => TraceOn::Overflow,
                    sync::EXIT_FROM_DEBUG => TraceOn::DebugRestart,
                    _ => TraceOn::Begin,
                };
                self.emit(Event::TraceOn(why), sink);
            }
            Some(reached) if reached != pc => {
                self.flush(None, false, sink);
                self.emit(Event::Mismatch { symptom: Symptom::AddressDiffers, address: pc }, sink);
            }
            Some(_) => {}
        }
        self.pc = Some(pc);
    }

    /// Walks until I-CNT is `count`, and what was told of it before.
    fn walk(
        &mut self,
        count: u32,
        outcomes: &mut dyn Iterator<Item = bool>,
        end: End,
        sink: &mut impl FnMut(Located<Event>),
    ) {
        let until = u64::from(count) + std::mem::take(&mut self.carried);
        if let (Some(pc), true) = (self.pc, until > MOST_HALF_WORDS) {
            return self.mismatch(Symptom::EndlessRange, pc, sink);
        }
        self.advance(Guide { until: Some(until), outcomes, end }, sink);
    }

    /// Walks until all outcomes are used up.
    fn walk_outcomes(&mut self, history: History, sink: &mut impl FnMut(Located<Event>)) {
        for outcome in history.outcomes() {
            let outcomes = &mut std::iter::once(outcome);
            self.advance(Guide { until: None, outcomes, end: End::Known }, sink);
        }
    }

    fn advance(&mut self, mut guide: Guide<'_>, sink: &mut impl FnMut(Located<Event>)) {
        let mut straight = 0;
        while let Some(pc) = self.pc {
            if guide.until == Some(self.count) {
                return;
            }
            let Some(stretch) = self.stretches.at(pc) else {
                self.flush(None, false, sink);
                self.emit(Event::NoMemory { address: pc, space: AddressSpace::ANY }, sink);
                self.pc = None;
                return;
            };
            let mut end = self.count + u64::from(stretch.half_words);
            let (mut last, mut decoded) = (stretch.last, stretch.decoded);
            let mut instructions = u32::from(stretch.instructions);
            if guide.until.is_some_and(|until| end > until) {
                // I-CNT ends inside: one instruction.
                let Some(first) = self.stretches.fetch(pc) else { return };
                end = self.count + u64::from(first.instruction.size / 2);
                (last, decoded, instructions) = (pc, first, 1);
            }
            straight = if decoded.operation == Operation::Branch { 0 } else { straight + instructions };
            if guide.until.is_some_and(|until| end > until) || straight > MOST_STRAIGHT {
                return self.mismatch(Symptom::EndlessRange, pc, sink);
            }
            self.count = end;
            self.retire(pc, instructions);
            self.pc = Some(last);
            let at_end = guide.until == Some(end);
            if !self.step(last, &decoded, &mut guide, at_end, sink) {
                return;
            }
        }
    }

    /// Executes one instruction; `false` where the walk ends.
    fn step(
        &mut self,
        pc: Address,
        decoded: &Decoded,
        guide: &mut Guide<'_>,
        at_end: bool,
        sink: &mut impl FnMut(Located<Event>),
    ) -> bool {
        let instruction = &decoded.instruction;
        let behind = pc.plus(u64::from(instruction.size));
        match decoded.operation {
            Operation::Branch => {
                let taken = guide.outcomes.next().unwrap_or(guide.end == End::Jump && at_end);
                self.flush(Some(decoded), taken, sink);
                self.pc = Some(if taken { instruction.target } else { behind });
                guide.until.is_some()
            }
            Operation::Jump { kind, .. } => {
                self.flush(Some(decoded), true, sink);
                let target = if !decoded.is_uninferable() {
                    Some(instruction.target)
                } else if kind == JumpKind::Return {
                    self.stack.pop()
                } else {
                    None
                };
                if matches!(kind, JumpKind::Call | JumpKind::CoroutineSwap) {
                    self.call(behind);
                }
                if at_end && (guide.end == End::Jump || guide.end == End::Last && target.is_none()) {
                    return true;
                }
                if target.is_none() {
                    self.mismatch(Symptom::ReturnStackEmpty, pc, sink);
                    return false;
                }
                self.pc = target;
                true
            }
            Operation::TrapReturn => {
                self.flush(Some(decoded), true, sink);
                if at_end && guide.end != End::Known {
                    return true;
                }
                self.mismatch(Symptom::AddressDiffers, pc, sink);
                false
            }
            _ => {
                self.pc = Some(behind);
                true
            }
        }
    }

    fn call(&mut self, behind: Address) {
        if self.stack.len() == STACK_DEPTH {
            self.stack.remove(0);
        }
        self.stack.push(behind);
    }

    fn retire(&mut self, pc: Address, instructions: u32) {
        if self.run.1 == 0 {
            self.run.0 = pc;
        }
        self.run.1 += instructions;
    }

    /// Reports what was executed since the last report. `last` is the instruction at its end, if it is a jump.
    fn flush(&mut self, last: Option<&Decoded>, executed: bool, sink: &mut impl FnMut(Located<Event>)) {
        let (start, instructions) = self.run;
        let Some(pc) = self.pc else {
            self.run.1 = 0;
            return;
        };
        if instructions == 0 {
            return;
        }
        let size = last.map_or(0, |last| last.instruction.size);
        let range = Range {
            start,
            end: pc.plus(u64::from(size)),
            instructions,
            isa: self.set.isa(),
            class: last.map_or_else(Default::default, |last| last.instruction.class),
            flags: last.map_or_else(Default::default, |last| last.instruction.flags),
            last_size: size,
            executed: executed || last.is_none(),
        };
        self.run.1 = 0;
        self.emit(Event::Range(range), sink);
    }

    fn mismatch(&mut self, symptom: Symptom, address: Address, sink: &mut impl FnMut(Located<Event>)) {
        self.flush(None, false, sink);
        self.emit(Event::Mismatch { symptom, address }, sink);
        self.pc = None;
    }

    fn lose(&mut self, why: NoSync, sink: &mut impl FnMut(Located<Event>)) {
        self.flush(None, false, sink);
        (self.sent, self.carried, self.time) = (None, 0, None);
        if self.pc.take().is_some() {
            self.emit(Event::NoSync(why), sink);
        }
    }

    fn emit(&self, value: Event, sink: &mut impl FnMut(Located<Event>)) {
        sink(Located { offset: self.offset, length: self.length, value });
    }
}
