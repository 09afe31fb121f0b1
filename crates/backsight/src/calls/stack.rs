//! The stack of calls, kept beside the execution.

use std::fmt;
use std::path::Path;

use backsight_core::{Address, AddressSpace, Context, Isa};
use backsight_flow::{Event, PathId, Range};
use backsight_image::{Code as _, Naming, Symbol};
use backsight_isa::Class;

use super::clock::{Clock, Cost};
use super::walked::{Segment, WalkedPaths};
use crate::SourceCode;
use crate::recent::Recent;

/// Calls that are kept. A program that goes deeper has its oldest forgotten; their depth is not.
const MOST_FRAMES: usize = 1 << 16;

/// A function, as far as the image knows it.
#[derive(Clone, Copy, Debug)]
pub struct FunctionName<'i> {
    /// The first address of it that was executed.
    pub address: Address,
    /// Its name, and how far into it that address is; `None` where the image has none.
    pub symbol: Option<Symbol<'i>>,
    /// The file that it is in, and how far into that the address is.
    pub module: Option<(&'i Path, u64)>,
}

/// Its name; where the image has none, the file and the distance into it, or the address.
impl fmt::Display for FunctionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.symbol, self.module) {
            (Some(symbol), _) => f.write_str(symbol.name),
            (None, Some((file, distance))) => {
                let name = file.file_name().unwrap_or(file.as_os_str());
                write!(f, "{}+{distance:#x}", name.display())
            }
            (None, None) => write!(f, "{}", self.address),
        }
    }
}

impl FunctionName<'_> {
    /// Is it written in the same words?
    pub(crate) fn is_named_as(&self, other: &Self) -> bool {
        let is_same_text = match (self.symbol, other.symbol) {
            (Some(symbol), Some(other)) => std::ptr::eq(symbol.name, other.name),
            (None, None) => self.module == other.module,
            _ => false,
        };
        is_same_text && self.address == other.address
    }

    /// Two addresses without a name may be of one function: nobody knows better.
    fn is(&self, other: &Self) -> bool {
        self.symbol.map(|symbol| symbol.start) == other.symbol.map(|symbol| symbol.start)
    }
}

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

/// A call that is under way.
#[derive(Clone, Copy, Debug)]
struct Frame<'i> {
    function: FunctionName<'i>,
    /// Where it will return to, if its call was seen.
    return_address: Option<Address>,
    /// Entered by an exception, an interrupt or a signal, and not called.
    is_handler: bool,
    entered: Clock,
    is_beginning_known: bool,
    was_visited: bool,
}

/// How far a path was walked by what is remembered of it.
enum Walk {
    Whole,
    /// Execution has arrived at the range after so many, which is in another call than it was before.
    Before(usize),
}

/// How the last range ended: what is to be expected of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
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
        return_address: Option<Address>,
    },
}

/// The calls of one hart or core: takes what was executed, and gives the stays in functions.
#[derive(Clone, Debug)]
pub struct ShadowStack<'i> {
    code: SourceCode<'i>,
    naming: Naming,
    known: Recent<(AddressSpace, FunctionName<'i>)>,
    context: Option<Context>,
    space: AddressSpace,
    frames: Vec<Frame<'i>>,
    /// Frames below, which are forgotten.
    forgotten: usize,
    departure: Departure,
    /// Something is missing between the last range and what comes next.
    is_lost: bool,
    clock: Clock,
    /// When the stay began that goes on.
    began: Clock,
    /// Paths that came before, where any did.
    walked: Option<Box<WalkedPaths<'i>>>,
}

/// Does execution go on after an exception? A system call of RISC-V is reported with the address of its instruction, and
/// goes on after it.
fn is_resumed(return_address: Address, address: Address) -> bool {
    address.0.wrapping_sub(return_address.0) <= 4
}

type Visits<'a, 'i> = &'a mut dyn FnMut(Visit<'i>);

impl<'i> ShadowStack<'i> {
    /// No call is known. Functions are those of the code that a source ran.
    pub fn new(code: SourceCode<'i>) -> Self {
        Self {
            code,
            naming: Naming::default(),
            known: Recent::default(),
            context: None,
            space: AddressSpace::ANY,
            frames: Vec::new(),
            forgotten: 0,
            departure: Departure::Sequence,
            is_lost: true,
            clock: Clock::default(),
            began: Clock::default(),
            walked: None,
        }
    }

    /// How functions are named.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, known: Recent::default(), walked: None, ..self }
    }

    /// Takes what happened next. Stays that ended are given to `sink`.
    pub fn push(&mut self, event: &Event, sink: Visits<'_, 'i>) {
        match *event {
            Event::Range(ref range) => self.range(range, sink),
            Event::Exception { return_address, .. } => self.exception(return_address, sink),
            Event::ExceptionReturn => self.departure = Departure::ExceptionReturn,
            Event::Context(context, _) => {
                (self.context, self.space) = (Some(context), self.code.space_of(&context));
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

    /// Gives the stay that goes on, as far as it has come.
    pub fn flush(&mut self, sink: Visits<'_, 'i>) {
        self.end_visit(None, sink);
    }

    /// The trace ends.
    pub fn finish(&mut self, sink: Visits<'_, 'i>) {
        self.lose(sink);
        self.flush(sink);
        self.frames.clear();
        self.forgotten = 0;
    }

    fn range(&mut self, range: &Range, sink: Visits<'_, 'i>) {
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

    /// Takes the ranges of a path that was walked before: `path` always stands for the same ones. It comes to what
    /// [`ShadowStack::push`] comes to range by range, and is faster.
    pub(crate) fn walk(
        &mut self,
        path: PathId,
        mut ranges: impl Iterator<Item = Range>,
        sink: Visits<'_, 'i>,
    ) {
        let mut walked = self.walked.take().unwrap_or_default();
        match walked.get(path, self.space).map(|segments| self.walk_again(&walked, segments, sink)) {
            Some(Walk::Whole) => {}
            Some(Walk::Before(count)) => {
                let mut rest = ranges.skip(count);
                if let Some(range) = rest.next() {
                    self.run(range.instructions.into(), self.departure_of(&range));
                }
                rest.for_each(|range| self.range(&range, sink));
            }
            None if walked.has_room(path) => self.learn(&mut walked, path, &mut ranges, sink),
            None => ranges.for_each(|range| self.range(&range, sink)),
        }
        self.walked = Some(walked);
    }

    #[inline]
    fn walk_again(&mut self, walked: &WalkedPaths<'i>, segments: &[Segment], sink: Visits<'_, 'i>) -> Walk {
        let mut ranges = 0;
        for segment in segments {
            let Some(function) = walked.functions.get(segment.function as usize) else { break };
            self.arrive_in(function, sink);
            if !self.frames.last().is_some_and(|top| top.function.is(function)) {
                return Walk::Before(ranges);
            }
            self.run(segment.instructions, segment.departure);
            ranges += segment.ranges as usize;
        }
        Walk::Whole
    }

    /// Takes a path range by range, and remembers what it does.
    #[cold]
    #[inline(never)]
    fn learn(
        &mut self,
        walked: &mut WalkedPaths<'i>,
        path: PathId,
        ranges: &mut dyn Iterator<Item = Range>,
        sink: Visits<'_, 'i>,
    ) {
        let first = walked.segments.len();
        let mut last: Option<FunctionName<'i>> = None;
        for range in ranges {
            let function = self.function_at(range.start);
            let goes_on = last.is_some_and(|last| last.is(&function))
                && matches!(self.departure, Departure::Sequence | Departure::Jump { .. });
            self.range(&range, sink);
            let (instructions, departure) = (u64::from(range.instructions), self.departure);
            match walked.segments.last_mut() {
                Some(segment) if goes_on => {
                    segment.ranges += 1;
                    segment.instructions += instructions;
                    segment.departure = departure;
                }
                _ => {
                    let function = walked.number(self.space, &function);
                    walked.segments.push(Segment { function, ranges: 1, instructions, departure });
                }
            }
            last = Some(function);
        }
        walked.insert(path, self.space, first);
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
    fn exception(&mut self, return_address: Option<Address>, sink: Visits<'_, 'i>) {
        if let Some(address) = return_address
            && !self.is_lost
            && self.departure != Departure::Sequence
        {
            self.arrive(address, sink);
        }
        self.departure = Departure::Exception { return_address };
    }

    /// Something is missing. What is known to have returned before that has.
    fn lose(&mut self, sink: Visits<'_, 'i>) {
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
        self.known = Recent::default();
        self.walked = None;
    }

    fn function_at(&mut self, address: Address) -> FunctionName<'i> {
        let (code, naming, space) = (self.code, self.naming, self.space);
        let is_it = |(of, known): &(AddressSpace, FunctionName<'i>)| *of == space && known.address == address;
        let (_, function) = self.known.get(address, is_it, || {
            let image = code.names_at(space, address);
            let symbol = image.symbolise(space, address).map(|symbol| match naming {
                Naming::Demangled => symbol,
                Naming::Mangled => Symbol { name: symbol.mangled, ..symbol },
            });
            let module = image.module_at(space, address).filter(|_| symbol.is_none());
            let module = module.map(|(module, distance)| (module.name(), distance));
            (space, FunctionName { address, symbol, module })
        });
        *function
    }

    /// Execution is at an address: whose call is that?
    fn arrive(&mut self, address: Address, sink: Visits<'_, 'i>) {
        let function = self.function_at(address);
        self.arrive_in(&function, sink);
    }

    #[inline]
    fn arrive_in(&mut self, function: &FunctionName<'i>, sink: Visits<'_, 'i>) {
        let Some(top) = self.frames.last() else {
            return self.enter(*function, None, false, sink);
        };
        match self.departure {
            Departure::Sequence | Departure::Jump { .. } if top.function.is(function) => {}
            _ => self.arrive_elsewhere(*function, sink),
        }
    }

    /// Execution comes to an address, and not in the course of one call.
    fn arrive_elsewhere(&mut self, function: FunctionName<'i>, sink: Visits<'_, 'i>) {
        let Some(top) = self.frames.last() else { return };
        let (is_same, from_handler) = (top.function.is(&function), top.is_handler);
        let address = function.address;
        match self.departure {
            Departure::Call { return_address } if !self.is_lost => {
                self.enter(function, Some(return_address), false, sink);
            }
            Departure::Call { return_address } => {
                // What was called is not in the trace, or not all of it.
                if !is_same && address != return_address && !self.unwind_to_function(&function, sink) {
                    self.enter(function, Some(return_address), false, sink);
                }
            }
            Departure::Return => self.return_to(address, function, from_handler, sink),
            Departure::Exception { return_address } => {
                let goes_on = is_same && return_address.is_none_or(|expected| is_resumed(expected, address))
                    || return_address == Some(address);
                if !goes_on && !self.unwind_to_address(address, true, sink) {
                    self.enter(function, return_address, true, sink);
                }
            }
            Departure::ExceptionReturn => {
                if !self.unwind_to_address(address, true, sink) {
                    if let Some(handler) = self.frames.iter().rposition(|frame| frame.is_handler) {
                        self.leave(handler, sink);
                    }
                    self.continue_in(function, sink);
                }
            }
            Departure::Sequence if self.is_lost => self.continue_in(function, sink),
            // Out of several calls at once, by longjmp: into a function, not to its beginning.
            Departure::Jump { is_indirect }
                if is_indirect && function.symbol.is_some_and(|symbol| symbol.offset > 0) || self.is_lost =>
            {
                self.continue_in(function, sink);
            }
            Departure::Sequence | Departure::Jump { .. } => self.replace(function, sink),
        }
    }

    /// A return. It goes to where it was called from, unless somebody changed that: longjmp goes back to a function that
    /// called setjmp, a signal handler to code that ends it.
    fn return_to(
        &mut self,
        address: Address,
        function: FunctionName<'i>,
        from_handler: bool,
        sink: Visits<'_, 'i>,
    ) {
        if self.unwind_to_address(address, false, sink) {
            return;
        }
        if from_handler || !self.unwind_to_function(&function, sink) {
            self.replace(function, sink);
        }
    }

    /// Nobody knows how execution came here: to a function that is under way, or to another in place of the last.
    fn continue_in(&mut self, function: FunctionName<'i>, sink: Visits<'_, 'i>) {
        if self.frames.is_empty() {
            self.enter(function, None, false, sink);
        } else if !self.unwind_to_function(&function, sink) {
            self.replace(function, sink);
        }
    }

    /// Leaves the call that returns to this address, and whatever it called.
    fn unwind_to_address(&mut self, address: Address, of_handler: bool, sink: Visits<'_, 'i>) -> bool {
        let returns = |frame: &Frame<'i>| match frame.return_address {
            Some(expected) if frame.is_handler => is_resumed(expected, address),
            expected => expected == Some(address) && !of_handler,
        };
        let found = self.frames.iter().rposition(returns);
        if let Some(index) = found {
            self.leave(index, sink);
            if self.frames.is_empty() {
                let function = self.function_at(address);
                self.enter(function, None, false, sink);
            }
        }
        found.is_some()
    }

    /// Leaves what a function has called that is under way.
    fn unwind_to_function(&mut self, function: &FunctionName<'i>, sink: Visits<'_, 'i>) -> bool {
        let found = self.frames.iter().rposition(|frame| frame.function.is(function));
        if let Some(index) = found
            && index + 1 < self.frames.len()
        {
            self.leave(index + 1, sink);
        }
        found.is_some()
    }

    fn enter(
        &mut self,
        function: FunctionName<'i>,
        return_address: Option<Address>,
        is_handler: bool,
        sink: Visits<'_, 'i>,
    ) {
        self.end_visit(None, sink);
        if self.frames.len() == MOST_FRAMES {
            self.frames.drain(..MOST_FRAMES / 2);
            self.forgotten += MOST_FRAMES / 2;
        }
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
    fn replace(&mut self, function: FunctionName<'i>, sink: Visits<'_, 'i>) {
        self.end_visit(None, sink);
        if let Some(top) = self.frames.last_mut() {
            top.function = function;
            top.was_visited = false;
        }
    }

    /// Calls from this one on have ended.
    fn leave(&mut self, index: usize, sink: Visits<'_, 'i>) {
        let top = self.frames.last().filter(|top| top.is_beginning_known);
        let cost = top.map(|top| self.clock.since(&top.entered));
        self.end_visit(cost, sink);
        self.frames.truncate(index);
    }

    fn end_visit(&mut self, call: Option<Cost>, sink: Visits<'_, 'i>) {
        let own = self.clock.since(&self.began);
        let depth = (self.forgotten + self.frames.len()).saturating_sub(1);
        if let Some(top) = self.frames.last_mut()
            && (own.instructions > 0 || call.is_some())
        {
            let is_entry = !std::mem::replace(&mut top.was_visited, true);
            sink(Visit { function: top.function, depth, is_entry, begin: self.began.time, own, call });
        }
        self.began = self.clock;
    }
}
