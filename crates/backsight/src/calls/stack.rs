//! The rules of calls: what execution that comes from one place to another does to the calls under way.
//!
//! There is one stack for everybody who wants to know of calls. What is kept with each call, and what becomes of stays and
//! of calls that end, says a [`Ledger`].

use backsight_core::Address;

/// Calls that are kept. A program that goes deeper has its oldest forgotten; their depth is not.
pub const MOST_FRAMES: usize = 1 << 16;

/// Where execution came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the function.
    pub function: u32,
    /// The number of the name that it has there, if anybody has asked for it: see [`Functions`](super::Functions).
    pub name: Option<NameId>,
    /// Execution came into the function, and not to its beginning.
    pub is_inside: bool,
    /// The address.
    pub address: Address,
}

const _: () = assert!(size_of::<Place>() <= 24);

/// The number of a name.
pub type NameId = std::num::NonZeroU32;

/// A call that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<K> {
    /// The number of the function.
    pub function: u32,
    /// Entered by an exception, an interrupt or a signal, and not called.
    pub is_handler: bool,
    /// Where it will return to, if its call was seen.
    pub return_address: Option<Address>,
    /// What is kept with it.
    pub kept: K,
}

impl<K> Frame<K> {
    /// Does execution go on in its caller, if it comes to that address?
    #[inline]
    fn returns_to(&self, address: Address) -> bool {
        match self.return_address {
            Some(expected) if self.is_handler => is_resumed(expected, address),
            expected => expected == Some(address),
        }
    }
}

/// How execution left the last range: what is to be expected of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Departure {
    /// It did not: execution goes on, or begins.
    #[default]
    Sequence,
    /// By a branch that does not call.
    Jump {
        /// Its target is not in the code.
        is_indirect: bool,
    },
    /// By a call.
    Call {
        /// The address after it.
        return_address: Address,
    },
    /// By a return.
    Return,
    /// By a return from an exception.
    ExceptionReturn,
    /// An exception was taken.
    Exception {
        /// Where execution will go on after it.
        return_address: Address,
    },
    /// An exception, and it is not known where from.
    ExceptionSomewhere,
}

const _: () = assert!(size_of::<Departure>() == 16);

impl Departure {
    /// By an exception after which execution goes on at this address.
    pub fn exception(return_address: Option<Address>) -> Self {
        return_address.map_or(Self::ExceptionSomewhere, |return_address| Self::Exception { return_address })
    }
}

/// How execution came to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// How it left the place before.
    pub departure: Departure,
    /// Something is missing between the two.
    pub is_lost: bool,
    /// Where it came to.
    pub place: Place,
}

impl Arrival {
    /// Is the call of the function that execution came to? What it comes to by a return or from an exception may go on in a
    /// call of another function.
    pub fn is_of_function(&self) -> bool {
        let Self { departure, is_lost, .. } = self;
        !is_lost && matches!(departure, Departure::Sequence | Departure::Jump { .. } | Departure::Call { .. })
    }
}

/// The function of a call that only somebody knows who knows the calls under way below it.
pub const UNKNOWN_FUNCTION: u32 = u32::MAX;

/// Takes note of calls, and says what is kept with each.
pub trait Ledger<K> {
    /// So many instructions were executed in the innermost call.
    fn run(&mut self, instructions: u64);

    /// The stay in the innermost call ends, and with it the call if `RETURNS`. So many frames below all are forgotten.
    fn end_stay<const RETURNS: bool>(&mut self, calls: &mut [Frame<K>], forgotten: usize);

    /// A call begins. `callers` are under way around it; `is_known`: this is its beginning.
    fn begin(&mut self, callers: &[Frame<K>], place: &Place, is_known: bool) -> K;

    /// Another function comes in place of the innermost one.
    fn replace(&mut self, calls: &mut [Frame<K>], place: &Place);

    /// The calls from this one on have ended.
    #[inline(always)]
    fn end(&mut self, _calls: &[Frame<K>], _first: usize) {}

    /// The stack is [open](Stack::open): is there room to begin another stretch?
    fn has_room(&mut self) -> bool {
        false
    }

    /// A stretch begins with a call that may have begun before it.
    fn begin_stretch(&mut self, arrival: &Arrival) -> K;

    /// Is that call taken to be of the function that execution came to? Else its function is unknown.
    fn takes_function(&self, _arrival: &Arrival) -> bool {
        true
    }

    /// It ends, and with it the stay that goes on, with these calls under way. The first of them is the one that it began with,
    /// unless that has returned.
    fn end_stretch(&mut self, _calls: Vec<Frame<K>>, _left: Departure) {}
}

/// The calls under way, of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack<K> {
    /// The outermost first.
    pub frames: Vec<Frame<K>>,
    /// Frames below, which are forgotten.
    pub forgotten: usize,
    /// How execution left the last range.
    pub departure: Departure,
    /// Something is missing between the last range and what comes next.
    pub is_lost: bool,
    /// Calls may be under way below the first frame that are not known here. What depends on them ends one stretch of the
    /// execution and begins the next: a joiner that knows them puts the stretches together.
    is_open: bool,
}

impl<K> Default for Stack<K> {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            forgotten: 0,
            departure: Departure::Sequence,
            is_lost: true,
            is_open: false,
        }
    }
}

/// Does execution go on after an exception? A system call of RISC-V is reported with the address of its instruction, and
/// goes on after it.
fn is_resumed(return_address: Address, address: Address) -> bool {
    address.0.wrapping_sub(return_address.0) <= 4
}

impl<K: Copy> Stack<K> {
    /// No call is known, and some may be under way that others know.
    pub fn open() -> Self {
        Self { is_open: true, ..Self::default() }
    }

    /// Execution is at a place: whose call is that? One test after the other, the commonest first, is predicted better than
    /// a jump.
    #[inline(always)]
    pub fn arrive(&mut self, place: &Place, ledger: &mut impl Ledger<K>) {
        if self.goes_on_in(place) {
            return;
        }
        let Some(top) = self.frames.last() else {
            return self.begin(place, ledger);
        };
        let departure = self.departure;
        if let Departure::Call { return_address } = departure
            && !self.is_lost
        {
            return self.enter(place, Some(return_address), false, ledger);
        }
        let above = self.frames.len() - 1;
        if departure == Departure::Return && above > 0 && top.returns_to(place.address) {
            return self.leave(above, ledger);
        }
        self.arrive_elsewhere(place, ledger);
    }

    /// Does execution that comes to a place go on in the innermost call?
    #[inline(always)]
    pub(super) fn goes_on_in(&self, place: &Place) -> bool {
        matches!(self.departure, Departure::Sequence | Departure::Jump { .. })
            && self.frames.last().is_some_and(|top| top.function == place.function)
    }

    /// Instructions were executed where execution had arrived, and how it went on from there.
    #[inline(always)]
    pub fn run(&mut self, instructions: u64, departure: Departure, ledger: &mut impl Ledger<K>) {
        ledger.run(instructions);
        self.is_lost = false;
        self.departure = departure;
    }

    /// Has execution left the last range for a place that is not known yet? If an exception is taken there, before the first
    /// instruction of a function that was called, it is in it anyway: it has [arrived](Self::arrive).
    pub fn is_between(&self) -> bool {
        !self.is_lost && self.departure != Departure::Sequence
    }

    /// Something is missing. What is known to have returned before that has.
    pub fn lose(&mut self, ledger: &mut impl Ledger<K>) {
        if self.departure == Departure::Return {
            if !self.frames.is_empty() {
                self.leave(self.frames.len() - 1, ledger);
            }
            self.departure = Departure::Sequence;
        }
        self.is_lost = true;
        if self.is_open && ledger.has_room() {
            self.end_stretch(self.departure, ledger);
        }
    }

    /// Another thread has its turn, or the trace ends.
    pub fn pause(&mut self, ledger: &mut impl Ledger<K>) {
        if self.departure != Departure::Return {
            self.departure = Departure::Sequence;
        }
        self.lose(ledger);
        self.interrupt(ledger);
    }

    /// The stay in a function ends, and the call goes on.
    #[inline(never)]
    pub fn interrupt(&mut self, ledger: &mut impl Ledger<K>) {
        ledger.end_stay::<false>(&mut self.frames, self.forgotten);
    }

    /// All calls end.
    pub fn clear(&mut self, ledger: &mut impl Ledger<K>) {
        match self.is_open {
            true => self.end_stretch(Departure::Sequence, ledger),
            false => self.leave(0, ledger),
        }
        self.forgotten = 0;
    }

    /// Execution comes to a place, and not in the course of one call.
    #[inline(never)]
    fn arrive_elsewhere(&mut self, place: &Place, ledger: &mut impl Ledger<K>) {
        let Some(top) = self.frames.last() else { return };
        if top.function == UNKNOWN_FUNCTION && self.depends_on_callers(place, ledger) {
            return;
        }
        let Some(top) = self.frames.last() else { return };
        let (is_same, from_handler) = (top.function == place.function, top.is_handler);
        let address = place.address;
        match self.departure {
            Departure::Call { return_address } => {
                // What was called is not in the trace, or not all of it.
                if !is_same && address != return_address && !self.unwind_to_function(place, ledger) {
                    self.enter(place, Some(return_address), false, ledger);
                }
            }
            Departure::Return => self.return_to(place, from_handler, ledger),
            Departure::Exception { return_address } => {
                let goes_on = is_same && is_resumed(return_address, address) || return_address == address;
                if !goes_on && !self.unwind_to_caller(place, true, ledger) {
                    self.enter(place, Some(return_address), true, ledger);
                }
            }
            Departure::ExceptionSomewhere => {
                if !is_same && !self.unwind_to_caller(place, true, ledger) {
                    self.enter(place, None, true, ledger);
                }
            }
            Departure::ExceptionReturn => {
                if !self.unwind_to_caller(place, true, ledger) {
                    if let Some(handler) = self.frames.iter().rposition(|frame| frame.is_handler) {
                        self.leave(handler, ledger);
                    }
                    self.continue_in(place, ledger);
                }
            }
            Departure::Sequence if self.is_lost => self.continue_in(place, ledger),
            // Out of several calls at once, by longjmp: into a function, not to its beginning.
            Departure::Jump { is_indirect } if is_indirect && place.is_inside || self.is_lost => {
                let is_known = self.frames.iter().any(|frame| frame.function == place.function);
                if is_known || !self.depends_on_callers(place, ledger) {
                    self.continue_in(place, ledger);
                }
            }
            Departure::Sequence | Departure::Jump { .. } => self.replace(place, ledger),
        }
    }

    /// A return. It goes to where it was called from, unless somebody changed that: longjmp goes back to a function that
    /// called setjmp, a signal handler to code that ends it.
    fn return_to(&mut self, place: &Place, from_handler: bool, ledger: &mut impl Ledger<K>) {
        if self.unwind_to_caller(place, false, ledger) {
            return;
        }
        if from_handler || !self.unwind_to_function(place, ledger) {
            self.replace(place, ledger);
        }
    }

    /// Nobody knows how execution came here: to a function that is under way, or to another in place of the last.
    fn continue_in(&mut self, place: &Place, ledger: &mut impl Ledger<K>) {
        if self.frames.is_empty() {
            self.enter(place, None, false, ledger);
        } else if !self.unwind_to_function(place, ledger) {
            self.replace(place, ledger);
        }
    }

    /// Leaves the call that returns to where execution came to, and whatever it called. False if that is not done: no such
    /// call is under way.
    fn unwind_to_caller(&mut self, place: &Place, of_handler: bool, ledger: &mut impl Ledger<K>) -> bool {
        let returns = |frame: &Frame<K>| frame.returns_to(place.address) && (frame.is_handler || !of_handler);
        let Some(index) = self.frames.iter().rposition(returns) else {
            return self.depends_on_callers(place, ledger);
        };
        self.leave(index, ledger);
        if self.frames.is_empty() {
            self.enter(place, None, false, ledger);
        }
        true
    }

    /// Leaves what a function has called that is under way.
    fn unwind_to_function(&mut self, place: &Place, ledger: &mut impl Ledger<K>) -> bool {
        let found = self.frames.iter().rposition(|frame| frame.function == place.function);
        if let Some(index) = found
            && index + 1 < self.frames.len()
        {
            self.leave(index + 1, ledger);
        }
        found.is_some()
    }

    #[inline(never)]
    fn enter(
        &mut self,
        place: &Place,
        return_address: Option<Address>,
        is_handler: bool,
        ledger: &mut impl Ledger<K>,
    ) {
        // Those around a stretch may be as many.
        let is_full = self.is_open && self.frames.len() >= MOST_FRAMES / 2;
        if is_full && self.depends_on_callers(place, ledger) {
            return;
        }
        ledger.end_stay::<false>(&mut self.frames, self.forgotten);
        self.forget_beyond(self.frames.len());
        let kept = ledger.begin(&self.frames, place, return_address.is_some() && !self.is_lost);
        self.frames.push(Frame { function: place.function, is_handler, return_address, kept });
    }

    /// Forgets the oldest calls, if there were so many before another one began.
    pub fn forget_beyond(&mut self, calls: usize) {
        if calls >= MOST_FRAMES {
            let oldest = self.frames.len().min(MOST_FRAMES / 2);
            self.frames.drain(..oldest);
            self.forgotten += oldest;
        }
    }

    /// A tail call: another function in place of the last, which returns to the same address.
    fn replace(&mut self, place: &Place, ledger: &mut impl Ledger<K>) {
        self.interrupt(ledger);
        ledger.replace(&mut self.frames, place);
        self.frames.iter_mut().rev().take(1).for_each(|top| top.function = place.function);
    }

    /// Calls from this one on have ended.
    #[inline(never)]
    fn leave(&mut self, first: usize, ledger: &mut impl Ledger<K>) {
        ledger.end_stay::<true>(&mut self.frames, self.forgotten);
        ledger.end(&self.frames, first);
        self.frames.truncate(first);
    }

    /// Execution comes to a place, and no call is known to be under way.
    #[inline(never)]
    fn begin(&mut self, place: &Place, ledger: &mut impl Ledger<K>) {
        match self.is_open {
            true => self.begin_stretch(self.is_lost, place, ledger),
            false => self.enter(place, None, false, ledger),
        }
    }

    fn begin_stretch(&mut self, is_lost: bool, place: &Place, ledger: &mut impl Ledger<K>) {
        let arrival = Arrival { departure: self.departure, is_lost, place: *place };
        let function = if ledger.takes_function(&arrival) { place.function } else { UNKNOWN_FUNCTION };
        let kept = ledger.begin_stretch(&arrival);
        self.frames.push(Frame { function, is_handler: false, return_address: None, kept });
    }

    /// What happens depends on calls that are not known here, if the stack is open: then the next stretch begins.
    #[inline(never)]
    fn depends_on_callers(&mut self, place: &Place, ledger: &mut impl Ledger<K>) -> bool {
        let begins = self.is_open && ledger.has_room();
        if begins {
            self.end_stretch(Departure::Sequence, ledger);
            self.begin_stretch(false, place, ledger);
        }
        begins
    }

    /// The stretch that goes on has ended.
    pub(super) fn end_stretch(&mut self, left: Departure, ledger: &mut impl Ledger<K>) {
        ledger.end_stretch(std::mem::take(&mut self.frames), left);
    }
}
