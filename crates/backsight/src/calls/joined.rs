//! Parts of a source, put onto the calls that were under way before them.

use backsight_core::{AddressSpace, Context};

use super::clock::{Clock, Cost};
use super::records::{Head, Kind, Recorder, Records};
use super::saved::NONE;
use super::shadow::{ShadowStack, Stay, Stays, Visited};
use super::stack::{Departure, Frame, NameId, Stack};

/// What decides what a part makes of what follows, but for the calls that are under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CallsBoundary {
    context: Option<Context>,
    space: AddressSpace,
    thread: Option<u64>,
    departure: Departure,
    is_lost: bool,
}

impl Default for CallsBoundary {
    fn default() -> Self {
        let (context, thread, departure) = Default::default();
        Self { context, space: AddressSpace::ANY, thread, departure, is_lost: true }
    }
}

/// What is known of the part that is joined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joining {
    /// What the clock said when it began.
    before: Clock,
    /// Names by their numbers in it.
    names: Vec<Option<NameId>>,
    /// Calls around that which the stretch began with.
    depth: usize,
}

/// Takes what comes of parts.
pub(crate) trait Joined<'i>: Stays<'i> {
    /// Lines that a part has written.
    fn lines(&mut self, lines: &[u8]);
    /// Where the event was reported that what follows is about.
    fn index(&mut self, index: u64);
}

impl<'i> ShadowStack<'i> {
    /// A part begins that others are [joined](Self::join) with: where another one has ended, or anywhere.
    pub(crate) fn begin_part(&mut self, boundary: &CallsBoundary) {
        let CallsBoundary { context, space, thread, departure, is_lost } = *boundary;
        (self.context, self.costs.space, self.thread) = (context, space, thread);
        self.stack = Stack::open();
        (self.stack.departure, self.stack.is_lost) = (departure, is_lost);
        (self.costs.clock, self.costs.began) = Default::default();
    }

    /// It ends here, and the next one begins.
    pub(crate) fn end_part(&mut self, recorder: &mut Recorder) -> CallsBoundary {
        self.end_stretch(recorder);
        let Stack { departure, is_lost, .. } = self.stack;
        recorder.state(Kind::PartEnd, departure == Departure::Return, &self.costs.clock);
        let boundary = CallsBoundary {
            context: self.context,
            space: self.costs.space,
            thread: self.thread,
            departure,
            is_lost,
        };
        self.begin_part(&boundary);
        boundary
    }

    /// A part begins: what is said in it counts from here.
    pub(crate) fn begin_joining(&mut self, joining: &mut Joining) {
        if self.costs.functions.has_many_names() {
            self.forget_names();
        }
        *joining = Joining { before: self.costs.clock, names: std::mem::take(&mut joining.names), depth: 0 };
        joining.names.clear();
    }

    /// Takes records of one hart, as far as there are any.
    pub(crate) fn join<S: Joined<'i>>(
        &mut self,
        joining: &mut Joining,
        records: &mut Records<'_>,
        sink: &mut S,
    ) {
        while let Some((kind, head)) = records.next_but(&[Kind::Hart, Kind::Done]) {
            match kind {
                Kind::Stay => self.join_stay(joining, head, records.word(), sink),
                Kind::TimedStay => self.join_timed_stay(joining, head, records, sink),
                _ => self.join_other(joining, (kind, head), records, sink),
            }
        }
    }

    #[inline(always)]
    fn join_stay<S: Stays<'i>>(&self, joining: &Joining, head: Head, costs: u64, sink: &mut S) {
        let Clock { cycles, time: begin, .. } = joining.before;
        let (cycles, time) = (cycles.map(|_| 0), begin.map(|_| 0));
        let cost = |instructions| Cost { instructions, cycles, time };
        let call = head.has_other().then(|| cost(costs >> 32));
        let own = cost(costs & 0xFFFF_FFFF);
        self.give_stay(joining, head, (begin, own, call), sink);
    }

    #[inline(never)]
    fn join_timed_stay<S: Stays<'i>>(
        &self,
        joining: &Joining,
        head: Head,
        records: &mut Records<'_>,
        sink: &mut S,
    ) {
        let began = records.clock().after(&joining.before);
        let now = records.clock().after(&joining.before);
        let (own, begin) = now.since(&began);
        let call = head.has_other().then(|| now.since(&records.clock().after(&joining.before)).0);
        self.give_stay(joining, head, (begin, own, call), sink);
    }

    #[inline(always)]
    fn give_stay<S: Stays<'i>>(
        &self,
        joining: &Joining,
        head: Head,
        (begin, own, call): (Option<u64>, Cost, Option<Cost>),
        sink: &mut S,
    ) {
        let Some(name) = joining.names.get(head.number()).copied().flatten() else { return };
        let depth = joining.depth + head.count();
        let stay = Stay { name, depth, is_entry: head.has_one(), begin, own, call, is_inside: false };
        sink.take(&self.costs.functions, &stay);
    }

    #[inline(never)]
    fn join_other<S: Joined<'i>>(
        &mut self,
        joining: &mut Joining,
        (kind, head): (Kind, Head),
        records: &mut Records<'_>,
        sink: &mut S,
    ) {
        match kind {
            Kind::Stay | Kind::TimedStay | Kind::Hart | Kind::Done => {}
            Kind::Text => sink.lines(records.lines()),
            Kind::Index => sink.index(records.word()),
            Kind::Name => {
                let (space, address, index) = (records.space(), records.address(), head.number());
                let name = self.costs.functions.name_at(space, address);
                if joining.names.len() <= index {
                    joining.names.resize(index + 1, None);
                }
                joining.names[index] = Some(name);
            }
            Kind::FirstStay => {
                self.set_clocks(joining, head.has_one(), records);
                self.interrupt(sink);
            }
            Kind::Replace => {
                let (space, address) = (records.space(), records.address());
                let function = self.costs.functions.at(space, address).function;
                let name = joining.names.get(head.number()).copied().flatten();
                if let (Some(top), Some(name)) = (self.stack.frames.last_mut(), name) {
                    top.function = function;
                    (top.kept.name, top.kept.was_visited) = (name, false);
                }
            }
            Kind::Begin => {
                let departure = head.departure(records.address());
                (self.stack.departure, self.stack.is_lost) = (departure, head.has_one());
                self.costs.space = records.space();
                let address = records.address();
                self.costs.clock = records.clock().after(&joining.before);
                let place = self.costs.functions.at(self.costs.space, address);
                let (stack, mut reporter) = self.split(sink);
                stack.arrive(&place, &mut reporter);
                joining.depth = (stack.forgotten + stack.frames.len()).saturating_sub(1);
            }
            Kind::End => self.join_calls(joining, head, records),
            Kind::Loss | Kind::Interrupt | Kind::Thread | Kind::PartEnd => {
                self.costs.clock = records.clock().after(&joining.before);
                self.stack.departure = if head.has_one() { Departure::Return } else { Departure::Sequence };
                match kind {
                    Kind::Loss => self.lose(sink),
                    Kind::Interrupt => self.interrupt(sink),
                    Kind::Thread => self.change_thread(Some(records.word()), sink),
                    _ => {}
                }
            }
        }
    }

    /// The clock, and when the stay began that goes on, if that was in the stretch.
    fn set_clocks(&mut self, joining: &Joining, knows_stay: bool, records: &mut Records<'_>) {
        let began = records.clock().after(&joining.before);
        if knows_stay {
            self.costs.began = began;
        }
        self.costs.clock = records.clock().after(&joining.before);
    }

    /// The calls that are under way at the end of a stretch go on.
    fn join_calls(&mut self, joining: &Joining, head: Head, records: &mut Records<'_>) {
        let calls = records.word();
        self.set_clocks(joining, head.has_one(), records);
        let below = self.stack.frames.len().saturating_sub(1);
        self.stack.forget_beyond(below + head.count());
        for _ in 1..calls {
            let Some((_, frame)) = records.next_but(&[]) else { return };
            let (space, met, address) = (records.space(), records.address(), records.address());
            let entered = records.clock().after(&joining.before);
            let Some(name) = joining.names.get(frame.number()).copied().flatten() else { continue };
            let kept = Visited {
                name,
                entered,
                is_beginning_known: frame.has_third(),
                was_visited: frame.has_fourth(),
                // Where calls are marked, a source is not taken in parts.
                is_inside: false,
                // Points of an index are found by a decode of the whole source, which joins nothing.
                elsewhere: 0,
                saved: NONE,
            };
            let function = self.costs.functions.at(space, met).function;
            let return_address = frame.has_other().then_some(address);
            self.stack.frames.push(Frame { function, is_handler: frame.has_one(), return_address, kept });
        }
    }
}
