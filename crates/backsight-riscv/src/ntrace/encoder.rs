//! The N-Trace encoder: blocks in, messages out.
//!
//! I-CNT counts the half-words that retire. With history (HTM) the outcomes of branches collect in HIST until an
//! indirect branch, a trap or a full register sends them; without (BTM) every taken branch is a message. The target of
//! a jump is known when the next block begins, so a message about it waits for that block.

use alloc::vec::Vec;

use super::message::{BranchKind, History, Message, Packet, Resource};
use super::outcomes::Outcomes;
use crate::etrace::{Resync, ResyncMode};
use crate::ingress::{Block, Ctype, Itype};

/// Why a message synchronises (SYNC).
pub mod sync {
    /// The hart left reset.
    pub const EXIT_FROM_RESET: u8 = 1;
    /// It was time.
    pub const PERIODIC: u8 = 2;
    /// The hart left debug mode.
    pub const EXIT_FROM_DEBUG: u8 = 3;
    /// Tracing was switched on.
    pub const TRACE_ENABLE: u8 = 5;
    /// Messages were lost before.
    pub const OVERRUN: u8 = 7;
}

/// Why tracing ends (EVCODE).
pub mod event {
    /// The hart entered debug mode.
    pub const DEBUG_ENTRY: u8 = 0;
    /// Tracing was switched off.
    pub const TRACE_DISABLE: u8 = 4;
}

/// How branches are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Outcomes collect in a history (HTM).
    #[default]
    History,
    /// Every taken branch is a message (BTM).
    Branch,
}

/// How an encoder is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How branches are told.
    pub mode: Mode,
    /// Outcomes that HIST holds, 1 to 62.
    pub history_bits: u8,
    /// The same full history several times in a row is sent once, with HREPEAT.
    pub repeat_history: bool,
    /// I-CNT holds no more than this.
    pub count_limit: u32,
    /// Returns to where one of the last so many calls came from are not told; 0: all are. No more than
    /// [`MOST_RETURNS`].
    pub return_stack: u8,
    /// Periodic synchronisation.
    pub resync: Resync,
    /// SRC of the messages.
    pub source: u16,
    /// SYNC of the first message: [`sync`].
    pub start: u8,
    /// EVCODE of the last message: [`event`].
    pub end: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::History,
            history_bits: 31,
            repeat_history: true,
            count_limit: (1 << 22) - 1,
            return_stack: 16,
            resync: Resync::default(),
            source: 0,
            start: sync::TRACE_ENABLE,
            end: event::TRACE_DISABLE,
        }
    }
}

/// Most calls that a decoder remembers.
pub const MOST_RETURNS: u8 = 64;
/// ETYPE of an error message: the queue was full.
const QUEUE_OVERRUN: u8 = 0;

/// What waits for the address of the next instruction.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// An indirect branch or trap.
    Told(BranchKind),
    /// A return, and where its call came from.
    Return(u64),
}

/// An N-Trace encoder for one hart.
#[derive(Clone, Debug)]
pub struct Encoder {
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
    context: Option<u64>,
    /// Towards the next synchronisation.
    since_sync: u64,
}

impl Encoder {
    /// An encoder that has seen nothing yet. Settings beyond their limits are cut to them.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: Settings {
                history_bits: settings.history_bits.clamp(1, 62),
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
            context: None,
            since_sync: 0,
        }
    }

    /// Takes a block that is to be traced. Where nothing retired before a trap, its address must be the place where
    /// it happened, for interrupts too.
    pub fn push(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        if block.iretire == 0 && !block.itype.is_trap() {
            return;
        }
        self.arrive(block.iaddr, sink);
        if block.ctype != Ctype::Unreported && self.context.replace(block.context) != Some(block.context) {
            self.send_history(sink);
            self.send(Message::Ownership { process: block.context }, sink);
        }
        if block.iretire > 0 {
            self.retire(block, sink);
        }
        match block.itype {
            Itype::Exception => self.pending = Some(Pending::Told(BranchKind::Exception)),
            Itype::Interrupt => self.pending = Some(Pending::Told(BranchKind::Interrupt)),
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

    /// Tracing ends. A trap whose handler was not entered is not told. The encoder can be used again.
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
    }

    fn forget(&mut self) {
        (self.pending, self.context) = (None, None);
        self.count = 0;
        self.outcomes.clear();
        self.stack.clear();
    }

    /// Execution is at this address: what waited for it can be told.
    fn arrive(&mut self, address: u64, sink: &mut impl FnMut(Packet)) {
        if !self.running {
            self.running = true;
            let mut reason = self.settings.start;
            if core::mem::take(&mut self.lost) {
                self.send(Message::Error { kind: QUEUE_OVERRUN, code: 0 }, sink);
                reason = sync::OVERRUN;
            }
            return self.synchronise(reason, address, sink);
        }
        let resync = &self.settings.resync;
        let due = resync.mode != ResyncMode::Off && self.since_sync >= resync.limit.max(1);
        match self.pending.take() {
            Some(Pending::Told(kind)) => self.indirect(kind, address, due, sink),
            Some(Pending::Return(predicted)) if predicted != address => {
                self.indirect(BranchKind::Indirect, address, due, sink);
            }
            Some(Pending::Return(_)) | None if due => self.synchronise(sync::PERIODIC, address, sink),
            Some(Pending::Return(_)) | None => {}
        }
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
                    Some(self.stack.pop().map_or(Pending::Told(BranchKind::Indirect), Pending::Return));
            }
            itype if itype.is_uninferable() => self.pending = Some(Pending::Told(BranchKind::Indirect)),
            _ => {}
        }
        if block.itype.is_call() {
            self.call(block.end());
        } else if block.itype == Itype::CoroutineSwap {
            // Decoders differ in whether it pops, pushes or both: nothing below it is relied upon.
            self.stack.clear();
        }
    }

    fn call(&mut self, behind: u64) {
        let depth = usize::from(self.settings.return_stack);
        if depth > 0 {
            if self.stack.len() == depth {
                self.stack.remove(0);
            }
            self.stack.push(behind);
        }
    }

    fn branch(&mut self, taken: bool, sink: &mut impl FnMut(Packet)) {
        match self.settings.mode {
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
        self.since_sync = 0;
    }

    fn send(&mut self, message: Message, sink: &mut impl FnMut(Packet)) {
        if self.settings.resync.mode == ResyncMode::Packets {
            self.since_sync += 1;
        }
        sink(Packet { source: self.settings.source, timestamp: None, message });
    }
}
