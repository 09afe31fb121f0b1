//! The stack of calls, kept beside the execution.

use std::collections::HashMap;

use backsight_core::{Address, AddressSpace, Context, Isa};
use backsight_flow::{Event, Range};
use backsight_image::{Code as _, Naming, Symbol};
use backsight_isa::Class;

use super::clock::{Clock, Cost};
use super::functions::{Function, FunctionName, Functions};
use crate::SourceCode;
use walked::WalkedPaths;

mod walked;

/// Calls that are kept. A program that goes deeper has its oldest forgotten; their depth is not.
const MOST_FRAMES: usize = 1 << 16;

/// Threads whose calls are kept. Where there are more, those that do not run are forgotten.
const MOST_THREADS: usize = 1 << 12;

/// A stay in a function, from the time that execution comes to it until it goes elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'i> {
    /// The function.
    pub function: FunctionName<'i>,
    /// Calls under way around it, as far as they are known; 0 for the outermost.
    pub depth: usize,
    /// Execution was not in this call before: it begins here.
    pub is_entry: bool,
    /// The latest timestamp before it.
    pub begin: Option<u64>,
    /// What it cost, without what it called.
    pub own: Cost,
    /// The call ended with it: what that cost from beginning to end, with all that it called. `None` if it goes on, or
    /// its beginning is not in the trace.
    pub call: Option<Cost>,
}

/// The same with the number of the function, which is shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub function: u32,
    pub depth: usize,
    pub is_entry: bool,
    pub begin: Option<u64>,
    pub own: Cost,
    pub call: Option<Cost>,
}

impl Stay {
    /// With the name of the function.
    pub fn named<'i>(&self, functions: &Functions<'i>) -> Option<Visit<'i>> {
        let &Self { function, depth, is_entry, begin, own, call } = self;
        Some(Visit { function: *functions.name(function)?, depth, is_entry, begin, own, call })
    }
}

/// A call that is under way.
#[derive(Clone, Copy, Debug)]
struct Frame {
    function: Function,
    /// Where it will return to, if its call was seen.
    return_address: Option<Address>,
    /// Entered by an exception, an interrupt or a signal, and not called.
    is_handler: bool,
    entered: Clock,
    is_beginning_known: bool,
    was_visited: bool,
}

impl Frame {
    /// Does execution go on in its caller, if it comes to that address?
    #[inline]
    fn returns_to(&self, address: Address) -> bool {
        match self.return_address {
            Some(expected) if self.is_handler => is_resumed(expected, address),
            expected => expected == Some(address),
        }
    }
}

/// How the last range ended: what is to be expected of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Departure {
    /// It did not: execution goes on, or begins.
    Sequence,
    Jump {
        is_indirect: bool,
    },
    Call {
        return_address: Address,
    },
    Return,
    ExceptionReturn,
    Exception {
        return_address: Address,
    },
    /// An exception, and it is not known where from.
    ExceptionSomewhere,
}

const _: () = assert!(size_of::<Departure>() == 16);

/// The calls of one hart or core: takes what was executed, and gives the stays in functions.
#[derive(Clone, Debug)]
pub struct ShadowStack<'i> {
    code: SourceCode<'i>,
    naming: Naming,
    functions: Functions<'i>,
    context: Option<Context>,
    space: AddressSpace,
    frames: Vec<Frame>,
    /// Frames below, which are forgotten.
    forgotten: usize,
    /// The thread whose calls these are, where the trace names it.
    thread: Option<u64>,
    /// The calls of others, with how many are forgotten.
    paused: HashMap<u64, (Vec<Frame>, usize)>,
    departure: Departure,
    /// Something is missing between the last range and what comes next.
    is_lost: bool,
    clock: Clock,
    /// When the stay began that goes on.
    began: Clock,
    /// Paths that came before.
    walked: WalkedPaths,
}

/// Does execution go on after an exception? A system call of RISC-V is reported with the address of its instruction, and
/// goes on after it.
fn is_resumed(return_address: Address, address: Address) -> bool {
    address.0.wrapping_sub(return_address.0) <= 4
}

/// Takes stays, with the functions that their numbers are of.
pub(crate) trait Stays<'i> {
    fn take(&mut self, functions: &Functions<'i>, stay: &Stay);
}

impl<'i, F: FnMut(&Functions<'i>, &Stay)> Stays<'i> for F {
    fn take(&mut self, functions: &Functions<'i>, stay: &Stay) {
        self(functions, stay);
    }
}

/// Takes stays with the names of functions.
fn with_names<'i>(sink: &mut dyn FnMut(Visit<'i>)) -> impl FnMut(&Functions<'i>, &Stay) {
    |functions, stay| stay.named(functions).into_iter().for_each(&mut *sink)
}

impl<'i> ShadowStack<'i> {
    /// No call is known. Functions are those of the code that a source ran.
    pub fn new(code: SourceCode<'i>) -> Self {
        Self {
            code,
            naming: Naming::default(),
            functions: Functions::default(),
            context: None,
            space: AddressSpace::ANY,
            frames: Vec::new(),
            forgotten: 0,
            thread: None,
            paused: HashMap::new(),
            departure: Departure::Sequence,
            is_lost: true,
            clock: Clock::default(),
            began: Clock::default(),
            walked: WalkedPaths::default(),
        }
    }

    /// How functions are named.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, functions: Functions::default(), walked: WalkedPaths::default(), ..self }
    }

    /// Takes what happened next. Stays that ended are given to `sink`.
    pub fn push(&mut self, event: &Event, sink: &mut dyn FnMut(Visit<'i>)) {
        self.take(event, &mut with_names(sink));
    }

    /// Gives the stay that goes on, as far as it has come.
    pub fn flush(&mut self, sink: &mut dyn FnMut(Visit<'i>)) {
        self.interrupt(&mut with_names(sink));
    }

    /// The trace ends.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Visit<'i>)) {
        self.end(&mut with_names(sink));
    }

    /// As [`ShadowStack::push`], with the numbers of functions. A stay that goes on is given as far as it has come, if
    /// `is_interrupted`.
    pub(crate) fn take_numbered(&mut self, event: &Event, is_interrupted: bool, sink: &mut impl Stays<'i>) {
        self.take(event, sink);
        if is_interrupted {
            self.interrupt(sink);
        }
    }

    /// As [`ShadowStack::finish`], with the numbers of functions.
    pub(crate) fn end(&mut self, sink: &mut impl Stays<'i>) {
        self.lose(sink);
        self.interrupt(sink);
        self.frames.clear();
        self.paused.clear();
        self.forgotten = 0;
    }

    /// Numbers that nobody needs any more are given anew.
    #[cold]
    pub(super) fn renumber(&mut self) {
        self.walked = WalkedPaths::default();
        let paused = self.paused.values_mut().flat_map(|(frames, _)| frames);
        self.functions.renumber(self.frames.iter_mut().chain(paused).map(|frame| &mut frame.function));
    }

    fn take(&mut self, event: &Event, sink: &mut impl Stays<'i>) {
        if self.functions.is_full() {
            self.renumber();
        }
        match *event {
            Event::Range(ref range) => self.range(range, sink),
            Event::Exception { return_address, .. } => self.exception(return_address, sink),
            Event::ExceptionReturn => self.departure = Departure::ExceptionReturn,
            Event::Context(context, _) => {
                (self.context, self.space) = (Some(context), self.code.space_of(&context));
                let thread = self.code.context_id(&context);
                if thread.is_some() && thread != self.thread {
                    self.change_thread(thread, sink);
                }
            }
            Event::Timestamp { value, .. } => self.clock.time = Some(value),
            Event::CycleCount(Some(cycles)) => {
                let before = self.clock.cycles.unwrap_or(0);
                self.clock.cycles = Some(before + u64::from(cycles));
            }
            Event::StartOfTrace
            | Event::NoSync(_)
            | Event::TraceOn(_)
            | Event::AddressUnknown
            | Event::PathUnknown { .. }
            | Event::NoMemory { .. }
            | Event::EndOfTrace { .. } => self.lose(sink),
            Event::UncountedLoop { .. }
            | Event::CycleCount(None)
            | Event::Trigger
            | Event::UnitEvents(_)
            | Event::TimestampMarker
            | Event::Transaction(_)
            | Event::Software(_)
            | Event::Hardware(_)
            | Event::SourceTime(_)
            | Event::Condition { .. }
            | Event::Access(_)
            | Event::AccessesLost
            | Event::Mismatch { .. } => {}
        }
    }

    fn range(&mut self, range: &Range, sink: &mut impl Stays<'i>) {
        self.arrive(range.start, sink);
        self.run(range.instructions.into(), self.departure_of(range));
    }

    /// Instructions were executed where execution had arrived.
    #[inline]
    fn run(&mut self, instructions: u64, departure: Departure) {
        self.clock.instructions += instructions;
        self.is_lost = false;
        self.departure = departure;
    }

    fn departure_of(&self, range: &Range) -> Departure {
        let (flags, is_indirect) = (range.flags, range.class == Class::IndirectBranch);
        if !range.executed || !range.ends_in_branch() {
            Departure::Sequence
        } else if flags.exception_return {
            Departure::ExceptionReturn
        } else if flags.returns {
            Departure::Return
        } else if flags.link && !self.is_stub(range) {
            Departure::Call { return_address: range.end }
        } else {
            Departure::Jump { is_indirect }
        }
    }

    /// Stubs of the procedure linkage table of RISC-V go to their function by `jalr t1`: that leaves an address in a
    /// register that nobody returns by.
    fn is_stub(&self, range: &Range) -> bool {
        if !matches!(range.isa, Isa::Rv32 | Isa::Rv64) || range.last_size != 4 {
            return false;
        }
        let last = Address(range.end.0.wrapping_sub(4));
        let (bytes, length) = self.code.opcode_at(self.space, last);
        let destination = u32::from_le_bytes(bytes) >> 7 & 31;
        length == 4 && !matches!(destination, 1 | 5)
    }

    /// An exception is taken: if that is before the first instruction of a function that was called, it is in it anyway.
    fn exception(&mut self, return_address: Option<Address>, sink: &mut impl Stays<'i>) {
        if let Some(address) = return_address
            && !self.is_lost
            && self.departure != Departure::Sequence
        {
            self.arrive(address, sink);
        }
        self.departure = match return_address {
            Some(return_address) => Departure::Exception { return_address },
            None => Departure::ExceptionSomewhere,
        };
    }

    /// Another thread has its turn, with calls of its own.
    fn change_thread(&mut self, thread: Option<u64>, sink: &mut impl Stays<'i>) {
        let Some(before) = std::mem::replace(&mut self.thread, thread) else { return };
        self.lose(sink);
        self.interrupt(sink);
        if self.paused.len() >= MOST_THREADS {
            self.paused.clear();
        }
        let next = thread.and_then(|thread| self.paused.remove(&thread)).unwrap_or_default();
        let (frames, forgotten) = (std::mem::replace(&mut self.frames, next.0), self.forgotten);
        self.paused.insert(before, (frames, forgotten));
        self.forgotten = next.1;
        self.departure = Departure::Sequence;
        self.began = self.clock;
    }

    /// Something is missing. What is known to have returned before that has.
    fn lose(&mut self, sink: &mut impl Stays<'i>) {
        if self.departure == Departure::Return && !self.frames.is_empty() {
            self.leave(self.frames.len() - 1, sink);
            self.departure = Departure::Sequence;
        }
        self.is_lost = true;
    }

    /// The code is not what it was: from now on names are those of this one.
    pub fn set_code(&mut self, code: SourceCode<'i>) {
        self.code = code;
        self.space = self.context.map_or(self.space, |context| code.space_of(&context));
        self.functions.name_anew();
        self.walked = WalkedPaths::default();
    }

    fn function_at(&mut self, address: Address) -> Function {
        let (code, space) = (self.code, self.space);
        self.functions.at(space, address, || code.names_at(space, address).symbolise(space, address))
    }

    /// The same function with a number: it is called, or comes in place of another.
    #[inline(always)]
    fn numbered(&mut self, function: Function) -> Function {
        if function.has_number() { function } else { self.number(function) }
    }

    #[inline(never)]
    fn number(&mut self, function: Function) -> Function {
        let (code, naming, space, address) = (self.code, self.naming, self.space, function.address);
        self.functions.numbered(space, function, || {
            let image = code.names_at(space, address);
            let symbol = image.symbolise(space, address).map(|symbol| match naming {
                Naming::Demangled => symbol,
                Naming::Mangled => Symbol { name: symbol.mangled, ..symbol },
            });
            let module = image.module_at(space, address).filter(|_| symbol.is_none());
            let module = module.map(|(module, distance)| (module.name(), distance));
            FunctionName { address, symbol, module }
        })
    }

    /// Execution is at an address: whose call is that?
    fn arrive(&mut self, address: Address, sink: &mut impl Stays<'i>) {
        let function = self.function_at(address);
        self.arrive_in(function, sink);
    }

    /// Execution comes to a function. One test after the other, the commonest first, is predicted better than a jump.
    #[inline(always)]
    fn arrive_in(&mut self, function: Function, sink: &mut impl Stays<'i>) {
        let Some(top) = self.frames.last() else {
            return self.enter(function, None, false, sink);
        };
        let departure = self.departure;
        if let Departure::Sequence | Departure::Jump { .. } = departure
            && top.function.is(function)
        {
            return;
        }
        if let Departure::Call { return_address } = departure
            && !self.is_lost
        {
            return self.enter(function, Some(return_address), false, sink);
        }
        let (above, address) = (self.frames.len() - 1, function.address);
        if departure == Departure::Return && above > 0 && top.returns_to(address) {
            return self.leave(above, sink);
        }
        self.arrive_elsewhere(function, sink);
    }

    /// Execution comes to an address, and not in the course of one call.
    #[inline(never)]
    fn arrive_elsewhere(&mut self, function: Function, sink: &mut impl Stays<'i>) {
        let Some(top) = self.frames.last() else { return };
        let (is_same, from_handler) = (top.function.is(function), top.is_handler);
        let address = function.address;
        match self.departure {
            Departure::Call { return_address } => {
                // What was called is not in the trace, or not all of it.
                if !is_same && address != return_address && !self.unwind_to_function(function, sink) {
                    self.enter(function, Some(return_address), false, sink);
                }
            }
            Departure::Return => self.return_to(function, from_handler, sink),
            Departure::Exception { return_address } => {
                let goes_on = is_same && is_resumed(return_address, address) || return_address == address;
                if !goes_on && !self.unwind_to_caller(function, true, sink) {
                    self.enter(function, Some(return_address), true, sink);
                }
            }
            Departure::ExceptionSomewhere => {
                if !is_same && !self.unwind_to_caller(function, true, sink) {
                    self.enter(function, None, true, sink);
                }
            }
            Departure::ExceptionReturn => {
                if !self.unwind_to_caller(function, true, sink) {
                    if let Some(handler) = self.frames.iter().rposition(|frame| frame.is_handler) {
                        self.leave(handler, sink);
                    }
                    self.continue_in(function, sink);
                }
            }
            Departure::Sequence if self.is_lost => self.continue_in(function, sink),
            // Out of several calls at once, by longjmp: into a function, not to its beginning.
            Departure::Jump { is_indirect } if is_indirect && function.is_inside || self.is_lost => {
                self.continue_in(function, sink);
            }
            Departure::Sequence | Departure::Jump { .. } => self.replace(function, sink),
        }
    }

    /// A return. It goes to where it was called from, unless somebody changed that: longjmp goes back to a function that
    /// called setjmp, a signal handler to code that ends it.
    fn return_to(&mut self, function: Function, from_handler: bool, sink: &mut impl Stays<'i>) {
        if self.unwind_to_caller(function, false, sink) {
            return;
        }
        if from_handler || !self.unwind_to_function(function, sink) {
            self.replace(function, sink);
        }
    }

    /// Nobody knows how execution came here: to a function that is under way, or to another in place of the last.
    fn continue_in(&mut self, function: Function, sink: &mut impl Stays<'i>) {
        if self.frames.is_empty() {
            self.enter(function, None, false, sink);
        } else if !self.unwind_to_function(function, sink) {
            self.replace(function, sink);
        }
    }

    /// Leaves the call that returns to where execution came to, and whatever it called.
    fn unwind_to_caller(&mut self, function: Function, of_handler: bool, sink: &mut impl Stays<'i>) -> bool {
        let address = function.address;
        let returns = |frame: &Frame| frame.returns_to(address) && (frame.is_handler || !of_handler);
        let found = self.frames.iter().rposition(returns);
        if let Some(index) = found {
            self.leave(index, sink);
            if self.frames.is_empty() {
                self.enter(function, None, false, sink);
            }
        }
        found.is_some()
    }

    /// Leaves what a function has called that is under way.
    fn unwind_to_function(&mut self, function: Function, sink: &mut impl Stays<'i>) -> bool {
        let found = self.frames.iter().rposition(|frame| frame.function.is(function));
        if let Some(index) = found
            && index + 1 < self.frames.len()
        {
            self.leave(index + 1, sink);
        }
        found.is_some()
    }

    #[inline(never)]
    fn enter(
        &mut self,
        function: Function,
        return_address: Option<Address>,
        is_handler: bool,
        sink: &mut impl Stays<'i>,
    ) {
        self.end_visit::<false>(sink);
        if self.frames.len() == MOST_FRAMES {
            self.frames.drain(..MOST_FRAMES / 2);
            self.forgotten += MOST_FRAMES / 2;
        }
        let function = self.numbered(function);
        self.frames.push(Frame {
            function,
            return_address,
            is_handler,
            entered: self.clock,
            is_beginning_known: return_address.is_some() && !self.is_lost,
            was_visited: false,
        });
    }

    /// A tail call: another function in place of the last, which returns to the same address.
    fn replace(&mut self, function: Function, sink: &mut impl Stays<'i>) {
        self.interrupt(sink);
        let function = self.numbered(function);
        if let Some(top) = self.frames.last_mut() {
            top.function = function;
            top.was_visited = false;
        }
    }

    /// Calls from this one on have ended.
    #[inline(never)]
    fn leave(&mut self, index: usize, sink: &mut impl Stays<'i>) {
        self.end_visit::<true>(sink);
        self.frames.truncate(index);
    }

    /// The stay in a function ends, and the call goes on.
    #[inline(never)]
    fn interrupt(&mut self, sink: &mut impl Stays<'i>) {
        self.end_visit::<false>(sink);
    }

    /// The stay in a function ends, and with it the call if `RETURNS`.
    #[inline(always)]
    fn end_visit<const RETURNS: bool>(&mut self, sink: &mut impl Stays<'i>) {
        if self.clock.counts_instructions_only() {
            self.end_stay::<RETURNS>(Clock::instructions_since, sink);
            // The rest of it is the same.
            self.began.instructions = self.clock.instructions;
        } else {
            self.end_timed_stay::<RETURNS>(sink);
        }
    }

    /// The same where cycles or time are known.
    #[inline(never)]
    fn end_timed_stay<const RETURNS: bool>(&mut self, sink: &mut impl Stays<'i>) {
        self.end_stay::<RETURNS>(Clock::since, sink);
        self.began = self.clock;
    }

    #[inline(always)]
    fn end_stay<const RETURNS: bool>(
        &mut self,
        since: impl Fn(&Clock, &Clock) -> (Cost, Option<u64>),
        sink: &mut impl Stays<'i>,
    ) {
        let (own, begin) = since(&self.clock, &self.began);
        let depth = self.forgotten + self.frames.len();
        let Some(top) = self.frames.last_mut() else { return };
        let call = (RETURNS && top.is_beginning_known).then(|| since(&self.clock, &top.entered).0);
        if own.instructions > 0 || call.is_some() {
            let is_entry = !std::mem::replace(&mut top.was_visited, true);
            let function = top.function.number;
            sink.take(&self.functions, &Stay { function, depth: depth - 1, is_entry, begin, own, call });
        }
    }
}
