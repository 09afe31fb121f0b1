//! What each message adds to what is to be walked, and what it says about where that ends.

use backsight_core::{Address, Cause, Mode as PrivilegeMode, Privilege};
use backsight_image::Code;
use backsight_riscv::ntrace::{
    BranchKind, Dialect, History, Message, Mode, Packet, Process, ProcessContext, Resource, in_circuit, sync,
};

use super::Follower;
use super::walk::{Outcomes, Position, Undecided};
use crate::blocks::Ending;
use crate::sink::Sink;
use crate::{Channel, Event, HardwareEvent, InCircuitEvent, NoSync, SoftwareMessage, Symptom, TraceOn};

/// Repetitions in one message that are believed: B-CNT and HREPEAT have 18 bits.
const MOST_REPEATS: u32 = 1 << 18;
/// Half-words in one message that are believed: I-CNT has 22 bits.
const MOST_HALF_WORDS: u32 = 1 << 24;
/// Messages after which it is known whose they are.
const MOST_NOT_TELLING: u32 = 1 << 10;
/// Half-words that wait for their outcomes.
const MOST_WAITING: i64 = 1 << 22;

/// A message under way: a walk, and what happens at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    /// I-CNT and outcomes, for each repetition again.
    step: (u32, History),
    /// So many times more.
    repeats: u32,
    undecided: Undecided,
    then: Then,
    timestamp: Option<Time>,
}

/// What follows a walk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// More of the same may follow.
    Nothing,
    /// A direct branch was taken.
    DirectBranch,
    /// The same, and execution is at an address, halved.
    DirectBranchSync { reason: u8, address: u64 },
    /// An indirect branch or a trap went to an address, halved, where that is known.
    Indirect { kind: BranchKind, address: Option<u64> },
    /// Execution is at an address, halved, whatever was known before.
    Synchronise { reason: u8, address: u64 },
    /// The same after an indirect branch or a trap.
    IndirectSync { kind: BranchKind, reason: u8, address: u64 },
    /// Tracing ends.
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Time {
    /// The time.
    Whole(u64),
    /// What passed since the last one.
    Passed(u64),
}

impl<C: Code> Follower<C> {
    /// Takes a message; what there is to walk for it.
    #[inline(always)]
    pub(super) fn message(&mut self, packet: &Packet, sink: &mut impl Sink) -> Option<Task> {
        let message = &packet.message;
        let mut task = self.task(message, sink);
        self.learn_dialect(message);
        let time = if message.is_sync() { Time::Whole } else { Time::Passed };
        match (&mut task, packet.timestamp.map(time)) {
            (Some(task), time) => task.timestamp = time,
            (None, Some(time)) => self.time(time, sink),
            (None, None) => {}
        }
        task
    }

    #[inline]
    fn task(&mut self, message: &Message, sink: &mut impl Sink) -> Option<Task> {
        use Message as M;
        self.learn_mode(message);
        let config = self.options.config;
        let named = |address: u64| Undecided::Named(Address(config.extend(address) << 1));
        let (step, undecided, then) = match *message {
            M::Ownership { process } => return self.own(process, sink),
            M::Error { .. } => return self.lose(NoSync::Overflow, sink),
            M::Bad(_) => {
                self.beginning.skip(self.at);
                return self.lose(NoSync::BadPacket, sink);
            }
            M::DataAcquisition { tag, data, .. } => return self.acquire(tag, data, sink),
            M::InCircuitTrace { .. } => return self.in_circuit(message, sink),
            M::ProgramTraceSync { reason: sync::PC_SAMPLE, address, .. }
                if self.dialect != Ok(Dialect::Ratified) =>
            {
                let address = self.options.config.extend(address);
                self.sent = Some(address);
                return self.sample(in_circuit::PC_SAMPLE, Some(Address(address << 1)), 0, None, sink);
            }
            M::Other(_) => return None,
            M::ResourceFull(resource) => return self.resource_full(resource, sink),
            M::RepeatBranch { count } => return self.repeat(count, sink),
            M::DirectBranch { count } => ((count, History::EMPTY), Undecided::TakenAtEnd, Then::DirectBranch),
            M::DirectBranchSync { reason, count, address } => {
                let then = Then::DirectBranchSync { reason, address };
                ((count, History::EMPTY), Undecided::TakenAtEnd, then)
            }
            M::IndirectBranch { kind, count, address } => {
                let then = Then::Indirect { kind, address: self.changed_by(address) };
                ((count, History::EMPTY), Undecided::NotTaken, then)
            }
            M::IndirectBranchHistory { kind, count, address, history } => {
                let then = Then::Indirect { kind, address: self.changed_by(address) };
                ((count, history), Undecided::NotTaken, then)
            }
            M::IndirectBranchSync { reason, kind, count, address } => {
                let then = Then::IndirectSync { kind, reason, address };
                ((count, History::EMPTY), named(address), then)
            }
            M::IndirectBranchHistorySync { reason, kind, count, address, history } => {
                let then = Then::IndirectSync { kind, reason, address };
                ((count, history), named(address), then)
            }
            M::ProgramTraceSync { reason, count, address } => {
                let then = Then::Synchronise { reason, address };
                ((count, History::EMPTY), named(address), then)
            }
            M::ProgramTraceCorrelation { count, history, .. } => {
                ((count, history.unwrap_or(History::EMPTY)), Undecided::NotTaken, Then::Stop)
            }
        };
        self.last_branch = match message {
            M::DirectBranch { .. } | M::IndirectBranch { .. } | M::IndirectBranchHistory { .. } => {
                Some(*message)
            }
            _ => None,
        };
        self.expect(Task { step, repeats: 0, undecided, then, timestamp: None }, sink)
    }

    #[inline]
    fn learn_mode(&mut self, message: &Message) {
        use Message as M;
        use Resource as R;
        match message {
            M::DirectBranch { .. } | M::DirectBranchSync { .. } => self.trace_mode = Some(Mode::Branch),
            M::IndirectBranchHistory { .. }
            | M::IndirectBranchHistorySync { .. }
            | M::ProgramTraceCorrelation { history: Some(_), .. }
            | M::ResourceFull(R::History(_) | R::HistoryRepeat { .. } | R::Run { .. }) => {
                self.trace_mode = Some(Mode::History)
            }
            _ => {}
        }
    }

    /// Adds what a task stands for to what is to be walked.
    #[inline(always)]
    fn expect(&mut self, task: Task, sink: &mut impl Sink) -> Option<Task> {
        let (count, history) = task.step;
        if count > MOST_HALF_WORDS {
            return self.lose(NoSync::BadPacket, sink);
        }
        self.to_go += i64::from(count);
        self.outcomes = Outcomes::new(history, 1);
        Some(task)
    }

    fn resource_full(&mut self, resource: Resource, sink: &mut impl Sink) -> Option<Task> {
        let task =
            |step, undecided| Task { step, repeats: 0, undecided, then: Then::Nothing, timestamp: None };
        match resource {
            Resource::Count(count) => {
                if self.to_go > MOST_WAITING && self.trace_mode.is_none() {
                    // So much without a history: every taken branch is a message.
                    self.trace_mode = Some(Mode::Branch);
                }
                if self.to_go > MOST_WAITING && self.trace_mode == Some(Mode::History) {
                    return self.lose(NoSync::BadPacket, sink);
                }
                self.expect(task((count, History::EMPTY), Undecided::Waits), sink)
            }
            Resource::History(history) => self.expect(task((0, history), Undecided::Waits), sink),
            Resource::HistoryRepeat { history, times } if times <= MOST_REPEATS => {
                self.outcomes = Outcomes::new(history, times);
                Some(task((0, History::EMPTY), Undecided::Waits))
            }
            Resource::HistoryRepeat { .. } => self.lose(NoSync::BadPacket, sink),
            Resource::Run { taken, branches } => {
                self.outcomes = Outcomes::new(History::EMPTY.with(taken), branches);
                Some(task((0, History::EMPTY), Undecided::Waits))
            }
            Resource::Other(_) => None,
        }
    }

    /// The last branch message again, so many times.
    fn repeat(&mut self, count: u32, sink: &mut impl Sink) -> Option<Task> {
        let mut message = self.last_branch.filter(|_| count > 0)?;
        // The target is the same again: the address that was sent last.
        if let Message::IndirectBranch { address, .. } | Message::IndirectBranchHistory { address, .. } =
            &mut message
        {
            *address = 0;
        }
        if count > MOST_REPEATS {
            return self.lose(NoSync::BadPacket, sink);
        }
        let mut task = self.task(&message, sink)?;
        task.repeats = count - 1;
        Some(task)
    }

    /// Works on a task to its end, or until the sink has enough.
    #[inline(always)]
    pub(super) fn work(&mut self, mut task: Task, sink: &mut impl Sink) {
        loop {
            if !self.walk(task.undecided, sink) {
                self.paused = Some(task);
                return;
            }
            self.straight = 0;
            let fits = self.arrive(&task.then, sink);
            if task.repeats == 0 || !fits || self.position == Position::Unknown {
                break;
            }
            task.repeats -= 1;
            self.to_go += i64::from(task.step.0);
            self.outcomes = Outcomes::new(task.step.1, 1);
            if sink.is_full() {
                self.paused = Some(task);
                return;
            }
        }
        if let Some(time) = task.timestamp {
            self.time(time, sink);
        }
    }

    /// The walk is at its end. False: code and trace do not fit.
    #[inline(always)]
    fn arrive(&mut self, then: &Then, sink: &mut impl Sink) -> bool {
        let mut fits = true;
        if self.to_go < 0 && !matches!(then, Then::Nothing) {
            self.mismatch(Symptom::CountDiffers, sink);
            fits = false;
        }
        let following = self.position != Position::Unknown;
        match *then {
            Then::Nothing => {}
            Then::DirectBranch => fits &= self.expect_taken(sink),
            Then::DirectBranchSync { reason, address } => {
                fits &= self.expect_taken(sink);
                self.synchronise(reason, address, sink);
            }
            Then::Indirect { kind, address } => {
                fits &= self.expect_jump(kind, sink);
                self.trap(kind, sink);
                (self.sent, self.to_go) = (address, 0);
                match address {
                    Some(address) if following => self.position = Position::At(Address(address << 1)),
                    // SiFive's encoders leave out returns however deep they are: calls that were not seen would be missing.
                    Some(_) if self.dialect == Ok(Dialect::Sifive) => {}
                    // The code before was not known; where it led to is.
                    Some(address) => self.synchronise(sync::TRACE_ENABLE, address, sink),
                    None => {}
                }
            }
            Then::IndirectSync { kind, reason, address } => {
                fits &= self.expect_jump(kind, sink);
                self.trap(kind, sink);
                if following {
                    self.position = Position::At(Address(self.options.config.extend(address) << 1));
                }
                self.synchronise(reason, address, sink);
            }
            Then::Synchronise { reason, address } => self.synchronise(reason, address, sink),
            Then::Stop => {
                self.report(sink);
                self.forget();
            }
        }
        fits
    }

    /// The last instruction must be a branch that was taken, or a jump to a target in its opcode.
    fn expect_taken(&mut self, sink: &mut impl Sink) -> bool {
        let fits = match self.position {
            Position::Unknown => return true,
            Position::At(_) => self.blocks.came_by(self.origin).is_some_and(|(block, taken)| {
                taken && matches!(block.ending, Ending::Branch | Ending::Jump | Ending::Call)
            }),
            Position::AfterJump { .. } => false,
        };
        if !fits {
            self.mismatch(Symptom::CountDiffers, sink);
        }
        fits
    }

    /// Where no trap was taken, the last instruction must be a jump whose target is not in its opcode.
    fn expect_jump(&mut self, kind: BranchKind, sink: &mut impl Sink) -> bool {
        let (BranchKind::Indirect, Position::At(pc)) = (kind, self.position) else { return true };
        self.differ(pc, sink);
        false
    }

    /// The trace leads elsewhere than the code, and says where.
    fn differ(&mut self, address: Address, sink: &mut impl Sink) {
        self.report(sink);
        self.emit(Event::Mismatch { symptom: Symptom::AddressDiffers, address }, sink);
        if self.options.strict_image {
            self.emit(Event::NoSync(NoSync::WrongImage), sink);
        }
    }

    /// An exception or interrupt was taken where the walk ended.
    fn trap(&mut self, kind: BranchKind, sink: &mut impl Sink) {
        if kind == BranchKind::Indirect || self.position == Position::Unknown {
            return;
        }
        self.report(sink);
        let exception = Event::Exception {
            cause: Cause::NotTraced { interrupt: kind == BranchKind::Interrupt },
            return_address: self.position.address(),
            is_branch_target: false,
            fault_pending: false,
            value: 0,
        };
        self.emit(exception, sink);
    }

    /// The address that differs so much from the one that was sent last.
    fn changed_by(&self, difference: u64) -> Option<u64> {
        self.sent.map(|sent| sent ^ self.options.config.extend(difference))
    }

    /// Execution is at this address, whatever was known before.
    fn synchronise(&mut self, reason: u8, address: u64, sink: &mut impl Sink) {
        let address = self.options.config.extend(address);
        let pc = Address(address << 1);
        match self.position {
            Position::Unknown => {
                self.end_of_beginning(sink);
                let why = match reason {
                    sync::OVERRUN => TraceOn::Overflow,
                    sync::EXIT_FROM_DEBUG => TraceOn::DebugRestart,
                    _ => TraceOn::Begin,
                };
                self.emit(Event::TraceOn(why), sink);
            }
            Position::At(reached) if reached != pc => {
                self.differ(pc, sink);
            }
            Position::At(_) | Position::AfterJump { .. } => {}
        }
        self.position = Position::At(pc);
        self.sent = Some(address);
        self.to_go = 0;
        self.outcomes = Outcomes::default();
        self.stack.clear();
        self.last_branch = None;
        self.overflow = false;
    }

    /// Software wrote to a stimulus register: a word, or the part of it that the tag says.
    fn acquire(&mut self, tag: u32, data: u64, sink: &mut impl Sink) -> Option<Task> {
        let size = match tag & 3 {
            0 if data >> 32 == 0 => 4,
            0 => 8,
            2 => 2,
            _ => 1,
        };
        self.report(sink);
        let channel = Channel::Port((tag >> 2) as u16);
        self.emit(Event::Software(SoftwareMessage::new(channel, data, size)), sink);
        None
    }

    /// Something happened that is no flow: only the address that others differ from is touched.
    fn in_circuit(&mut self, message: &Message, sink: &mut impl Sink) -> Option<Task> {
        let Message::InCircuitTrace { event, is_sync, first, second } = *message else { return None };
        if !in_circuit::has_address(event, second.is_some()) {
            return self.sample(event, None, first, second, sink);
        }
        let config = self.options.config;
        let address = if is_sync { Some(config.extend(first)) } else { self.changed_by(first) };
        self.sent = match (event, second) {
            (in_circuit::CALL, Some(second)) => address.map(|address| address ^ config.extend(second)),
            _ => address,
        };
        self.sample(event, address.map(|address| Address(address << 1)), first, second, sink)
    }

    fn sample(
        &mut self,
        event: u8,
        address: Option<Address>,
        first: u64,
        second: Option<u64>,
        sink: &mut impl Sink,
    ) -> Option<Task> {
        self.report(sink);
        let event = InCircuitEvent::new(event, address, first, second);
        self.emit(Event::Hardware(HardwareEvent::InCircuit(event)), sink);
        None
    }

    /// Some messages are sent by SiFive's encoders only, some by those of the ratified specification. Where many messages are
    /// neither, a later one is more likely damaged than telling.
    fn learn_dialect(&mut self, message: &Message) {
        use Message as M;
        if self.dialect.is_ok() {
            return;
        }
        self.not_telling += 1;
        if self.not_telling > MOST_NOT_TELLING {
            return self.choose(Dialect::Ratified);
        }
        let dialect = match message {
            M::DataAcquisition { .. }
            | M::InCircuitTrace { .. }
            | M::ResourceFull(Resource::Run { .. })
            | M::ProgramTraceSync { reason: sync::PC_SAMPLE, .. } => Dialect::Sifive,
            M::ResourceFull(Resource::HistoryRepeat { .. }) | M::RepeatBranch { .. } => Dialect::Ratified,
            M::ProgramTraceCorrelation { history: None, .. } if self.trace_mode == Some(Mode::History) => {
                Dialect::Sifive
            }
            _ => return,
        };
        self.choose(dialect);
    }

    /// Whose messages these are is known now.
    fn choose(&mut self, dialect: Dialect) {
        if let (Dialect::Sifive, Err(Some(time))) = (dialect, self.dialect) {
            self.time = Some(time);
        }
        self.dialect = Ok(dialect);
    }

    /// Whose code follows.
    fn own(&mut self, process: u64, sink: &mut impl Sink) -> Option<Task> {
        let Process { privilege, context } = Process::from_field(process)?;
        self.report(sink);
        let mut next = self.context;
        next.privilege = Privilege::Riscv(PrivilegeMode(privilege));
        match context {
            ProcessContext::Same => {}
            ProcessContext::Supervisor(context) => next.context_id = Some(context),
            ProcessContext::Hypervisor(context) => next.vmid = u32::try_from(context).ok(),
        }
        self.set_context(next);
        self.emit(Event::Context(self.context, self.reader.set.isa()), sink);
        None
    }

    fn time(&mut self, time: Time, sink: &mut impl Sink) {
        // A sum that passes the next whole time was none.
        if let (Time::Whole(whole), Some(sum), Err(Some(other))) = (time, self.time, self.dialect)
            && sum > whole
            && other <= whole
        {
            self.choose(Dialect::Sifive);
        }
        // Differences mean nothing before the first whole time.
        self.time = match (time, self.dialect) {
            (Time::Whole(time), _) => Some(time),
            (Time::Passed(changed), Ok(Dialect::Sifive)) => self.time.map(|time| time ^ changed),
            (Time::Passed(passed), _) => self.time.map(|time| time.wrapping_add(passed)),
        };
        if let Err(other) = &mut self.dialect {
            *other = match time {
                Time::Whole(time) => Some(time),
                Time::Passed(changed) => other.map(|time| time ^ changed),
            };
        }
        if let Some(value) = self.time {
            self.emit(Event::Timestamp { value, cycles: None }, sink);
        }
    }

    fn lose(&mut self, why: NoSync, sink: &mut impl Sink) -> Option<Task> {
        self.report(sink);
        let following = self.position != Position::Unknown;
        self.forget();
        self.time = None;
        self.overflow = why == NoSync::Overflow;
        if following {
            self.emit(Event::NoSync(why), sink);
        }
        None
    }
}
