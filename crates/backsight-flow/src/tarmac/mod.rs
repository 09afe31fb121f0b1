//! Lines of a Tarmac log to execution.
//!
//! A log names every instruction with its opcode, so no code is needed. What it leaves open is what became of an instruction:
//! whether a branch was taken, and whether an instruction that faulted was executed. That shows in the lines after it, so an
//! instruction is held until the next one of its core. Lines that are not in order (a jump after an instruction that cannot
//! branch, without an exception) are reported, and no branch is invented.

mod outcome;
mod retired;

use std::ops;

use backsight_core::{Address, AddressSpace, Context, Isa, Located, Privilege, Security};
use backsight_isa::{Class, Flags};
use backsight_tarmac::{
    Bad, Exception, ExceptionKind, Instruction, Line, Memory, Mode, ModeKind, Packet, State,
};

use self::outcome::{Last, Taken};
pub use self::retired::Retirement;
use crate::blocks::Blocks;
use crate::sink::Sink;
use crate::{
    AccessKind, CodeCache, Event, Follow, FollowHart, NoSync, Range, Statistics, Symptom, TraceOn,
    TracedAccess,
};

/// Instructions of the longest range.
const LONGEST_RANGE: u32 = 1 << 16;

/// The word of lines by which a log that was made of trace says that something is missing.
const GAP: &str = "GAP";

/// Accesses that wait for their instruction: more than any instruction does.
const MOST_ACCESSES: usize = 64;

/// Follows the execution of one core.
#[derive(Clone, Debug)]
pub struct Follower<C> {
    code: C,
    known: FollowerState,
    statistics: Statistics,
}

/// All that decides what a follower says of the lines that follow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FollowerState {
    is_begun: bool,
    /// Where the last line was.
    at: Option<Located<()>>,
    /// The instructions before the last one, since the last branch.
    range: Option<Gathered>,
    /// The last instruction: what became of it is not known yet.
    last: Option<Last>,
    /// Its accesses.
    accesses: Vec<Located<TracedAccess>>,
    /// The first exception after it.
    exception: Option<Located<Exception>>,
    /// Where the log says that it branched to.
    branch: Option<u64>,
    /// The context that was reported.
    context: Option<(Context, Isa)>,
    /// The instructions before are followed by the next one.
    goes_on: bool,
    /// The latest time, and the one that was reported.
    time: u64,
    reported: Option<u64>,
    /// Instructions of an IT block that are still to come.
    conditional: u8,
}

/// Instructions one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gathered {
    at: Located<()>,
    start: u64,
    end: u64,
    instructions: u32,
    isa: Isa,
    size: u8,
    executed: bool,
    time: u64,
}

impl<C> Follower<C> {
    /// A follower of one core. The log brings its code along: `code` is for those who look instructions up.
    pub fn new(code: C) -> Self {
        Self { code, known: FollowerState::default(), statistics: Statistics::default() }
    }

    /// Takes the next line of the core.
    #[inline]
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        let at = packet.map(|_| ());
        self.known.at = Some(at);
        if !self.known.is_begun {
            self.known.is_begun = true;
            self.emit(at, Event::StartOfTrace, sink);
        }
        self.known.time = self.known.time.max(packet.value.time);
        match packet.value.line {
            Line::Instruction(instruction) => self.instruction(&instruction, at, sink),
            Line::Memory(memory) => self.memory(&memory, at, sink),
            Line::Exception(exception) => self.exception(exception, at, sink),
            Line::Branch(address) => self.known.branch = Some(address),
            Line::Bad(Bad::Value | Bad::Register | Bad::Size | Bad::Picture) => {
                self.statistics.skipped += 1;
            }
            Line::Bad(_) => self.damage(at, sink),
            Line::Text(word) if word.as_str() == GAP => self.damage(at, sink),
            Line::Register(_) | Line::Text(_) => {}
        }
    }

    /// The log ends.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let Some(at) = self.known.at else { return };
        self.settle(None, sink);
        self.flush(sink);
        self.report_time(self.known.time, at, sink);
        self.emit(at, Event::EndOfTrace { after_overflow: false }, sink);
        self.reset();
    }

    /// Begins again, as after a gap in the log. Counts go on.
    pub fn reset(&mut self) {
        self.known = FollowerState::default();
    }

    /// What was counted.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn emit(&mut self, at: Located<()>, event: Event, sink: &mut impl Sink) {
        self.statistics.count(&event);
        sink.take(at.map(|()| event));
    }

    fn report_time(&mut self, time: u64, at: Located<()>, sink: &mut impl Sink) {
        if self.known.reported != Some(time) {
            self.known.reported = Some(time);
            self.emit(at, Event::Timestamp { value: time, cycles: None }, sink);
        }
    }

    #[inline]
    fn instruction(&mut self, it: &Instruction, at: Located<()>, sink: &mut impl Sink) {
        self.settle(Some(it.address), sink);
        let isa = isa_of(it.state);
        let context = context_of(it.mode, isa);
        if self.known.context != Some((context, isa)) {
            self.flush(sink);
            self.known.context = Some((context, isa));
            if !std::mem::replace(&mut self.known.goes_on, true) {
                self.emit(at, Event::TraceOn(TraceOn::Begin), sink);
            }
            self.emit(at, Event::Context(context, isa), sink);
        } else if !std::mem::replace(&mut self.known.goes_on, true) {
            self.flush(sink);
            self.emit(at, Event::TraceOn(TraceOn::Begin), sink);
        }
        let last = Last::new(it, isa, at, self.known.time, &mut self.known.conditional);
        self.known.last = Some(last);
    }

    /// The last instruction is done; the next one is there, if that is known.
    #[inline]
    fn settle(&mut self, next: Option<u64>, sink: &mut impl Sink) {
        let Some(last) = self.known.last.take() else {
            // Before the first instruction: a reset, most often.
            return self.give_exception(None, sink);
        };
        let branch = self.known.branch.take();
        let first = self.known.exception.map(|exception| exception.value);
        let outcome = last.outcome(first.as_ref(), branch, next);
        if outcome.is_executed {
            self.gather(&last);
        }
        if outcome.is_executed && (last.ends_range() || outcome.taken != Taken::No) {
            self.flush_with(Some((&last, outcome.taken)), sink);
        } else if !self.known.accesses.is_empty() || first.is_some() || outcome.leaves {
            self.flush(sink);
        }
        self.give_accesses(sink);
        if outcome.leaves {
            self.known.goes_on = false;
            let (symptom, address) = (Symptom::AddressDiffers, Address(last.address));
            self.emit(last.at, Event::Mismatch { symptom, address }, sink);
        }
        self.give_exception(Some((&last, outcome.returns_to)), sink);
    }

    /// Adds an instruction to those before it.
    #[inline]
    fn gather(&mut self, last: &Last) {
        let end = last.end();
        match &mut self.known.range {
            Some(range) if range.end == last.address && range.instructions < LONGEST_RANGE => {
                range.end = end;
                range.instructions += 1;
                range.size = last.size;
                range.executed = last.executed;
                range.at.length = u32::try_from(last.at.end() - range.at.offset).unwrap_or(u32::MAX);
            }
            range => {
                *range = Some(Gathered {
                    at: last.at,
                    start: last.address,
                    end,
                    instructions: 1,
                    isa: last.isa,
                    size: last.size,
                    executed: last.executed,
                    time: last.time,
                });
            }
        }
    }

    /// Gives the instructions that were gathered.
    fn flush(&mut self, sink: &mut impl Sink) {
        self.flush_with(None, sink);
    }

    #[inline]
    fn flush_with(&mut self, last: Option<(&Last, Taken)>, sink: &mut impl Sink) {
        let Some(range) = self.known.range.take() else { return };
        let (class, flags, executed) = match last {
            Some((last, taken)) => (last.class, last.flags, taken == Taken::Yes || !last.is_branch()),
            None => (Class::Other, Flags::NONE, range.executed),
        };
        self.report_time(range.time, range.at, sink);
        let event = Event::Range(Range {
            start: Address(range.start),
            end: Address(range.end),
            instructions: range.instructions,
            isa: range.isa,
            class,
            flags,
            last_size: range.size,
            executed,
        });
        self.emit(range.at, event, sink);
        if executed && flags.exception_return {
            self.emit(range.at, Event::ExceptionReturn, sink);
        }
    }

    fn give_accesses(&mut self, sink: &mut impl Sink) {
        if self.known.accesses.is_empty() {
            return;
        }
        let mut accesses = std::mem::take(&mut self.known.accesses);
        for access in accesses.drain(..) {
            self.emit(access.map(|_| ()), Event::Access(access.value), sink);
        }
        self.known.accesses = accesses;
    }

    /// Gives the exception after the last instruction.
    fn give_exception(&mut self, after: Option<(&Last, u64)>, sink: &mut impl Sink) {
        let Some(Located { offset, length, value }) = self.known.exception.take() else { return };
        let cause = outcome::cause(&value, after.map(|(last, _)| last));
        let return_address = after.map(|(_, address)| Address(address));
        let event = Event::Exception {
            cause,
            return_address,
            is_branch_target: false,
            fault_pending: false,
            value: 0,
        };
        self.emit(Located { offset, length, value: () }, event, sink);
    }

    fn exception(&mut self, exception: Exception, at: Located<()>, sink: &mut impl Sink) {
        if exception.kind == ExceptionKind::ModeChange {
            return;
        }
        // They nest: where one comes after another, the first is done.
        match self.known.exception {
            None => self.known.exception = Some(at.map(|()| exception)),
            Some(_) => {
                self.settle(exception.address, sink);
                self.known.exception = Some(at.map(|()| exception));
            }
        }
    }

    fn memory(&mut self, memory: &Memory, at: Located<()>, sink: &mut impl Sink) {
        if self.known.accesses.len() >= MOST_ACCESSES {
            self.give_accesses(sink);
        }
        let by = self.known.last.map(|last| Address(last.address));
        let kind = if memory.write { AccessKind::Store } else { AccessKind::Load };
        let mut give = |access: TracedAccess| {
            let access = if memory.aborted { access.failed() } else { access };
            self.known.accesses.push(at.map(|()| access.by(by)));
        };
        for (first, size) in pieces(memory.data.touched) {
            let (value, is_known) = memory.part(first, size);
            let address = memory.address.wrapping_add(first as u64);
            let access = TracedAccess::new(kind, size as u8);
            give(access.at(Some(address)).with_value(is_known.then_some(value)));
        }
    }

    /// A line that may have been an instruction is lost.
    #[cold]
    fn damage(&mut self, at: Located<()>, sink: &mut impl Sink) {
        self.settle(None, sink);
        self.flush(sink);
        if std::mem::replace(&mut self.known.goes_on, false) || self.known.context.is_none() {
            self.emit(at, Event::NoSync(NoSync::BadPacket), sink);
        } else {
            self.statistics.skipped += 1;
        }
        self.known.conditional = 0;
    }
}

/// The runs of bytes that are touched, in pieces of at most 8: the first byte and how many.
fn pieces(touched: u16) -> impl Iterator<Item = (usize, usize)> {
    let mut left = touched;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let first = left.trailing_zeros() as usize;
            let size = ((left >> first).trailing_ones() as usize).min(8 - first % 8);
            left &= !((u16::MAX >> (16 - size)) << first);
            (first, size)
        })
    })
}

/// The instruction set that a log names.
pub const fn isa_of(state: State) -> Isa {
    match state {
        State::A32 => Isa::A32,
        State::T32 => Isa::T32,
        State::A64 => Isa::A64,
    }
}

/// The context of a mode.
fn context_of(mode: Mode, isa: Isa) -> Context {
    let level = match mode.kind {
        ModeKind::Level(level, _) => level,
        ModeKind::Usr => 0,
        ModeKind::Hyp => 2,
        ModeKind::Mon => 3,
        ModeKind::Fiq | ModeKind::Irq | ModeKind::Svc | ModeKind::Abt | ModeKind::Und | ModeKind::Sys => 1,
        ModeKind::Unknown | ModeKind::Thread | ModeKind::Handler => {
            let privilege = match mode.security {
                Some(security) => Privilege::Armv7 { security, hyp: false },
                None => Privilege::Unknown,
            };
            return Context { privilege, wide: isa == Isa::A64, ..Context::default() };
        }
    };
    let usual = if level == 3 { Security::Secure } else { Security::NonSecure };
    Context::arm(level, mode.security.unwrap_or(usual), isa == Isa::A64)
}

impl<C> Follow for Follower<C> {
    type Code = C;
    type State = FollowerState;

    fn state(&self) -> FollowerState {
        self.known.clone()
    }

    fn restore(&mut self, known: &FollowerState) {
        self.known = known.clone();
    }

    fn finish(&mut self, sink: &mut impl Sink) {
        self.finish(sink);
    }

    fn reset(&mut self) {
        self.reset();
    }

    fn statistics(&self) -> &Statistics {
        self.statistics()
    }

    fn change_code(&mut self, _space: AddressSpace, _addresses: ops::Range<u64>) -> &mut C {
        &mut self.code
    }

    fn renew_space(&mut self) {}

    fn take_cache(&mut self) -> CodeCache {
        CodeCache::new((), Blocks::<()>::new(0))
    }

    // It has none, and takes those back that it gave: they would pile up.
    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        cache.open::<(), ()>(&()).map(drop)
    }
}

impl<C> FollowHart for Follower<C> {
    fn exchange_caches(&mut self, _other: &mut Self) {}

    fn set_position(&mut self, at: Located<()>) {
        self.known.at = self.known.at.map(|_| at);
    }

    fn known_at(known: FollowerState, at: Located<()>) -> FollowerState {
        FollowerState { at: known.at.map(|_| at), ..known }
    }

    fn known_from(known: FollowerState, offset: u64) -> FollowerState {
        FollowerState { at: known.at.map(|_| Located { offset, length: 0, value: () }), ..known }
    }
}
