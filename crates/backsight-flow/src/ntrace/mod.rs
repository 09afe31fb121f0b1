//! N-Trace messages and code to execution.
//!
//! I-CNT says how many half-words retired, the history which way the branches among them went; jumps with a target in
//! their opcode are not in the trace, and a return that goes back to its call may be left out too. So the follower walks
//! through the code from message to message, with a stack of return addresses. A message adds to what is still to be
//! walked: half-words, outcomes or both. When all of that is used up, the address of the message says where execution is.
//!
//! There are two ways to report branches. With histories (HTM) every branch has an outcome, which may come in a later
//! message than the half-words around it: the walk then waits at the branch. Without (BTM) every taken branch is a
//! message, and all branches before it were not taken. Which of them a stream uses shows in its messages.

mod messages;
mod remembered;
mod saved;
mod shared;
mod walk;

use std::ops;

use backsight_core::{AddressSpace, Context, Located};
use backsight_image::Code;
use backsight_isa::rv;
use backsight_riscv::ntrace::{Config, Dialect, Message, Mode, Packet};

use self::messages::Task;
pub use self::saved::FollowerState;
use self::shared::Away;
use self::walk::{Outcomes, Position, Unreported};
use crate::beginning::Beginning;
use crate::blocks::{Blocks, CodeMode, Origin, RiscvReader};
use crate::return_stack::ReturnStack;
use crate::sink::Sink;
use crate::{Event, NoSync, Statistics};

/// Return addresses that are remembered: no encoder goes deeper.
const STACK_DEPTH: usize = 1 << 10;

/// How to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Stop at strong evidence that the code is not what was executed; go on at the next synchronisation.
    pub strict_image: bool,
    /// How many blocks of code to remember.
    pub cached_blocks: usize,
    /// How addresses and times are sent.
    pub config: Config,
}

impl Default for Options {
    fn default() -> Self {
        Self { strict_image: false, cached_blocks: 1 << 20, config: Config::default() }
    }
}

/// Follows the execution of one source: of one hart, whose messages all have the same SRC.
#[derive(Clone, Debug)]
pub struct Follower<C> {
    code: C,
    options: Options,
    reader: RiscvReader,
    blocks: Blocks,
    /// How code is read in the current context.
    code_mode: CodeMode,
    /// How execution came to the position.
    origin: Origin,
    /// That is still to be found in the cache.
    away: Option<Away>,
    position: Position,
    /// The address that was sent last, halved; `None` until synchronisation, and where messages are missing.
    sent: Option<u64>,
    /// Half-words that are still to be walked. It is negative where outcomes led further than I-CNT yet says.
    to_go: i64,
    /// Outcomes that are still to be used.
    outcomes: Outcomes,
    stack: ReturnStack,
    unreported: Unreported,
    /// How the stream reports branches, once that shows.
    trace_mode: Option<Mode>,
    /// The branch message that can be repeated.
    last_branch: Option<Message>,
    /// A message that the sink did not want all of.
    paused: Option<Task>,
    /// Instructions since the last branch, in a walk that the sink did not want all of.
    straight: u32,
    /// The time, once a message gave all of it.
    time: Option<u64>,
    /// Whose messages they are, once that shows; else what the time is if they are SiFive's.
    dialect: Result<Dialect, Option<u64>>,
    /// Messages that did not say whose they are.
    not_telling: u32,
    context: Context,
    overflow: bool,
    beginning: Beginning,
    pub(crate) at: Located<()>,
    statistics: Statistics,
}

impl<C: Code> Follower<C> {
    /// A follower for the messages of one source, through `code`.
    pub fn new(set: rv::Set, code: C) -> Self {
        Self::with_options(set, code, Options::default())
    }

    /// The same, with options.
    pub fn with_options(set: rv::Set, code: C, options: Options) -> Self {
        let mask = if set.wide { u64::MAX } else { u32::MAX.into() };
        let (mut blocks, context) = (Blocks::new(options.cached_blocks), Context::riscv(0, set.wide));
        Self {
            code_mode: blocks.mode(code.space_of(&context), set.isa()),
            code,
            options,
            reader: RiscvReader { set, mask, returns_are_jumps: false },
            blocks,
            origin: Origin::UNKNOWN,
            away: None,
            position: Position::Unknown,
            sent: None,
            to_go: 0,
            outcomes: Outcomes::default(),
            stack: ReturnStack::new(STACK_DEPTH),
            unreported: Unreported::default(),
            trace_mode: None,
            last_branch: None,
            paused: None,
            straight: 0,
            time: None,
            dialect: options.config.known_dialect().ok_or(None),
            not_telling: 0,
            context,
            overflow: false,
            beginning: Beginning::default(),
            at: Located { offset: 0, length: 0, value: () },
            statistics: Statistics::default(),
        }
    }

    /// Takes the next message; gives what is certain by now, or as much of it as the sink wants. What the message before
    /// still stands for is given first, even if the sink has enough.
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        if self.is_paused() || self.away.is_some() {
            self.drain(sink);
        }
        self.at = packet.map(|_| ());
        self.begin(sink);
        if let Some(task) = self.message(&packet.value, sink) {
            self.work(task, sink);
        }
    }

    /// Had the sink enough, so that part of the last message is still to come?
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Goes on where the sink had enough.
    pub fn resume(&mut self, sink: &mut impl Sink) {
        self.come_back();
        if let Some(task) = self.paused.take() {
            self.work(task, sink);
        }
    }

    /// Goes on to where the next message begins.
    fn drain(&mut self, sink: &mut impl Sink) {
        self.come_back();
        while self.is_paused() {
            self.resume(sink);
        }
    }

    /// The trace ends: gives all that is certain. The follower is as new afterwards, but for what it counted and what it
    /// knows of the code.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.drain(sink);
        self.begin(sink);
        self.report(sink);
        self.end_of_beginning(sink);
        let after_overflow = self.overflow;
        self.emit(Event::EndOfTrace { after_overflow }, sink);
        self.reset();
    }

    /// Begins again, as after a gap in the data. Counts go on.
    pub fn reset(&mut self) {
        self.forget();
        self.trace_mode = None;
        self.paused = None;
        self.straight = 0;
        self.time = None;
        self.dialect = self.options.config.known_dialect().ok_or(None);
        self.not_telling = 0;
        self.set_context(Context::riscv(0, self.reader.set.wide));
        self.overflow = false;
        self.beginning = Beginning::default();
    }

    fn set_context(&mut self, context: Context) {
        self.context = context;
        self.code_mode = self.blocks.mode(self.code.space_of(&context), self.reader.set.isa());
    }

    #[inline]
    fn begin(&mut self, sink: &mut impl Sink) {
        if self.beginning.begin() {
            self.emit(Event::StartOfTrace, sink);
        }
    }

    /// Decoding can begin here, or the trace ends.
    fn end_of_beginning(&mut self, sink: &mut impl Sink) {
        if let Some(skipped) = self.beginning.synchronise() {
            self.statistics.count(&Event::NoSync(NoSync::Initial));
            sink.take(skipped.map(|()| Event::NoSync(NoSync::Initial)));
        }
    }

    /// Forgets where execution is.
    fn forget(&mut self) {
        self.position = Position::Unknown;
        self.origin = Origin::UNKNOWN;
        self.away = self.away.map(|_| Away::default());
        self.sent = None;
        self.to_go = 0;
        self.outcomes = Outcomes::default();
        self.unreported = Unreported::default();
        self.last_branch = None;
    }

    /// What was counted.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The code it walks through.
    pub const fn code(&self) -> &C {
        &self.code
    }

    /// The code, to change it: all that was remembered of it is forgotten.
    pub fn code_mut(&mut self) -> &mut C {
        self.origin = self.blocks.keep_origin_as_it_is(self.origin);
        self.blocks.all_code_changed();
        &mut self.code
    }

    /// The code, to change it in a range of addresses, as seen from an address space: only what lies there is read again.
    pub fn change_code(&mut self, space: AddressSpace, addresses: ops::Range<u64>) -> &mut C {
        self.origin = self.blocks.keep_origin_as_it_is(self.origin);
        self.blocks.code_changed(space, addresses);
        &mut self.code
    }

    /// The code has gone to another time: the context that execution is in may belong to another process now.
    pub fn renew_space(&mut self) {
        self.code_mode = self.blocks.mode(self.code.space_of(&self.context), self.reader.set.isa());
    }

    fn emit(&mut self, value: Event, sink: &mut impl Sink) {
        self.statistics.count(&value);
        sink.take(self.at.map(|()| value));
    }
}
