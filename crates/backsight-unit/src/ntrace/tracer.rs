//! The N-Trace tracer: blocks in, messages out.
//!
//! I-CNT counts the half-words that retire. With history (HTM) the outcomes of branches collect in HIST until an
//! indirect branch, a trap or a full register sends them; without (BTM) every taken branch is a message. The target of
//! a jump is known when the next block begins, so a message about it waits for that block. A message that synchronises
//! is followed by an Ownership message, so that a decoder that begins there knows whose code it reads.

use backsight_riscv::ingress::{Block, Ctype, Itype};
use backsight_riscv::ntrace::{
    BranchKind, History, INSTRUCTION_COUNT_BITS, MOST_RETURNS, Message, Mode, Packet, Process,
    ProcessContext, Resource, lost, sync,
};

use super::outcomes::Outcomes;
use super::sender::Sender;
use super::settings::Settings;
use crate::riscv::{ResyncMode, block_tracer};

/// ETYPE of an error message: the queue was full.
const QUEUE_OVERRUN: u8 = 0;

block_tracer!(Tracer, Packet);

/// What waits for the address of the next instruction.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// An indirect branch or trap.
    Reported(BranchKind),
    /// A return, and where its call came from.
    Return(u64),
    /// A direct branch that was taken, when a synchronisation is due.
    Direct,
}

/// An N-Trace tracer for one hart.
#[derive(Clone, Debug)]
pub struct Tracer {
    settings: Settings,
    /// Between the first and the last message.
    running: bool,
    lost: bool,
    pending: Option<Pending>,
    /// I-CNT.
    count: u32,
    /// The address that was sent last, halved.
    sent: u64,
    outcomes: Outcomes,
    stack: Vec<u64>,
    /// Privilege and context that were reported.
    owner: Option<(u8, u64)>,
    /// Towards the next synchronisation, beyond messages.
    since_sync: u64,
    /// Messages sent when the last one synchronised.
    sent_at_sync: u64,
    sender: Sender,
}

impl Tracer {
    /// A tracer that has seen nothing yet. Settings beyond their limits are cut to them.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: Settings {
                history_bits: settings.history_bits.clamp(1, 62),
                count_limit: settings.count_limit.min((1 << INSTRUCTION_COUNT_BITS) - 1),
                return_stack: settings.return_stack.min(MOST_RETURNS),
                ..settings
            },
            running: false,
            lost: false,
            pending: None,
            count: 0,
            sent: 0,
            outcomes: Outcomes::new(settings.history_bits, settings.repeat_history),
            stack: Vec::new(),
            owner: None,
            since_sync: 0,
            sent_at_sync: 0,
            sender: Sender::new(&settings),
        }
    }

    /// Takes a block that is to be traced. Where nothing retired before a trap, its address must be the place where
    /// it happened, for interrupts too.
    pub fn push(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        if block.iretire == 0 && !block.itype.is_trap() {
            return;
        }
        if !self.running {
            self.sender.advance_to(block.time);
        }
        // What led here happened before the block retired.
        self.arrive(block.iaddr, sink);
        self.sender.advance_to(block.time);
        if self.settings.ownership {
            self.own(block, sink);
        }
        if block.iretire > 0 {
            self.retire(block, sink);
        }
        match block.itype {
            Itype::Exception => self.pending = Some(Pending::Reported(BranchKind::Exception)),
            Itype::Interrupt => self.pending = Some(Pending::Reported(BranchKind::Interrupt)),
            _ => {}
        }
        match self.settings.resync.mode {
            ResyncMode::Cycles => self.since_sync += u64::from(block.cycles),
            ResyncMode::HalfWords => self.since_sync += u64::from(block.iretire),
            ResyncMode::Off | ResyncMode::Packets => {}
        }
    }

    /// What comes next is not traced: a filter refused it, or it was not observed.
    pub fn unqualified(&mut self, sink: &mut impl FnMut(Packet)) {
        self.finish(sink);
    }

    /// Tracing ends. A trap whose handler was not entered is not reported. The tracer can be used again.
    pub fn finish(&mut self, sink: &mut impl FnMut(Packet)) {
        if !core::mem::take(&mut self.running) {
            return;
        }
        let history = self.rest(sink);
        let history = (self.settings.mode == Mode::History).then_some(history);
        let (reason, count) = (self.settings.end, self.count);
        self.send(Message::ProgramTraceCorrelation { reason, count, history }, sink);
        self.forget();
    }

    /// The transport could not take what was sent since the last synchronisation, or part of it. An error message and
    /// a synchronisation come with the next block.
    pub fn lose(&mut self) {
        self.lost |= core::mem::take(&mut self.running);
        self.forget();
        self.sender.forget();
    }

    /// Reports privilege and context where they changed, or were not reported yet.
    fn own(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        let context = match self.owner {
            Some((_, known)) if block.ctype == Ctype::Unreported => known,
            _ => block.context,
        };
        let before = self.owner.replace((block.privilege, context));
        if before == self.owner {
            return;
        }
        let same = before.is_some_and(|(_, known)| known == context);
        let sent = if same { ProcessContext::Same } else { ProcessContext::Supervisor(context) };
        let process = Process { privilege: block.privilege, context: sent };
        self.send_history(sink);
        self.send(Message::Ownership { process: process.field() }, sink);
    }

    fn forget(&mut self) {
        (self.pending, self.owner) = (None, None);
        self.count = 0;
        self.outcomes.clear();
        self.stack.clear();
    }

    /// Execution is at this address: what waited for it can be reported.
    fn arrive(&mut self, address: u64, sink: &mut impl FnMut(Packet)) {
        if !self.running {
            self.running = true;
            let mut reason = self.settings.start;
            if core::mem::take(&mut self.lost) {
                let code = lost::PROGRAM | if self.settings.ownership { lost::OWNERSHIP } else { 0 };
                self.send(Message::Error { kind: QUEUE_OVERRUN, code }, sink);
                reason = sync::OVERRUN;
            }
            return self.synchronise(reason, address, sink);
        }
        let due = self.is_due();
        match self.pending.take() {
            Some(Pending::Direct) => {
                let (count, full) = (core::mem::take(&mut self.count), address >> 1);
                self.sent = full;
                let reason = sync::PERIODIC;
                self.send(Message::DirectBranchSync { reason, count, address: full }, sink);
                self.synchronised();
            }
            Some(Pending::Reported(kind)) => self.indirect(kind, address, due, sink),
            Some(Pending::Return(predicted)) if predicted != address => {
                self.indirect(BranchKind::Indirect, address, due, sink);
            }
            Some(Pending::Return(_)) | None if due => self.synchronise(sync::PERIODIC, address, sink),
            Some(Pending::Return(_)) | None => {}
        }
    }

    fn is_due(&self) -> bool {
        let resync = &self.settings.resync;
        let passed = match resync.mode {
            ResyncMode::Off => return false,
            ResyncMode::Packets => self.sender.sent() - self.sent_at_sync,
            ResyncMode::Cycles | ResyncMode::HalfWords => self.since_sync,
        };
        passed >= resync.limit.max(1)
    }

    fn retire(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        if self.count > 0 && self.count.saturating_add(block.iretire) > self.settings.count_limit {
            // A decoder walks as far as I-CNT says: it must know the branches on the way.
            self.send_history(sink);
            self.send(Message::ResourceFull(Resource::Count(self.count)), sink);
            self.count = 0;
        }
        self.count = self.count.saturating_add(block.iretire);
        match block.itype {
            Itype::Taken => self.branch(true, sink),
            Itype::NotTaken => self.branch(false, sink),
            Itype::Return => {
                self.pending =
                    Some(self.stack.pop().map_or(Pending::Reported(BranchKind::Indirect), Pending::Return));
            }
            itype if itype.is_uninferable() => self.pending = Some(Pending::Reported(BranchKind::Indirect)),
            _ => {}
        }
        if block.itype.is_call() {
            self.call(block.end());
        } else if block.itype == Itype::CoroutineSwap {
            // Decoders differ in whether it pops, pushes or both: nothing below it is relied upon.
            self.stack.clear();
        }
    }

    fn call(&mut self, return_address: u64) {
        let depth = usize::from(self.settings.return_stack);
        if depth > 0 {
            if self.stack.len() == depth {
                self.stack.remove(0);
            }
            self.stack.push(return_address);
        }
    }

    fn branch(&mut self, taken: bool, sink: &mut impl FnMut(Packet)) {
        match self.settings.mode {
            Mode::Branch if taken && self.is_due() => self.pending = Some(Pending::Direct),
            Mode::Branch if taken => {
                self.send(Message::DirectBranch { count: self.count }, sink);
                self.count = 0;
            }
            Mode::Branch => {}
            Mode::History => {
                if let Some(full) = self.outcomes.push(taken) {
                    self.send(Message::ResourceFull(full), sink);
                }
            }
        }
    }

    /// The outcomes for the message that comes next; where there are too many for it, others are sent before.
    fn rest(&mut self, sink: &mut impl FnMut(Packet)) -> History {
        while let Some(full) = self.outcomes.before_rest() {
            self.send(Message::ResourceFull(full), sink);
        }
        self.outcomes.take_rest()
    }

    /// Sends the outcomes so far in messages of their own.
    fn send_history(&mut self, sink: &mut impl FnMut(Packet)) {
        let history = self.rest(sink);
        if !history.is_empty() {
            self.send(Message::ResourceFull(Resource::History(history)), sink);
        }
    }

    fn indirect(&mut self, kind: BranchKind, address: u64, due: bool, sink: &mut impl FnMut(Packet)) {
        let full = address >> 1;
        let (count, difference) = (core::mem::take(&mut self.count), full ^ self.sent);
        let history = self.rest(sink);
        let reason = sync::PERIODIC;
        let message = match (self.settings.mode, due) {
            (Mode::History, false) => {
                Message::IndirectBranchHistory { kind, count, address: difference, history }
            }
            (Mode::History, true) => {
                Message::IndirectBranchHistorySync { reason, kind, count, address: full, history }
            }
            (Mode::Branch, false) => Message::IndirectBranch { kind, count, address: difference },
            (Mode::Branch, true) => Message::IndirectBranchSync { reason, kind, count, address: full },
        };
        self.sent = full;
        self.send(message, sink);
        if due {
            self.synchronised();
        }
    }

    fn synchronise(&mut self, reason: u8, address: u64, sink: &mut impl FnMut(Packet)) {
        self.send_history(sink);
        let (count, address) = (core::mem::take(&mut self.count), address >> 1);
        self.sent = address;
        self.send(Message::ProgramTraceSync { reason, count, address }, sink);
        self.synchronised();
    }

    /// A decoder that begins here knows of no call.
    fn synchronised(&mut self) {
        self.stack.clear();
        self.owner = None;
        (self.since_sync, self.sent_at_sync) = (0, self.sender.sent());
    }

    fn send(&mut self, message: Message, sink: &mut impl FnMut(Packet)) {
        self.sender.send(message, sink);
    }
}
