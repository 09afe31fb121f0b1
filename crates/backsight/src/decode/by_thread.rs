//! What threads did, each in the order in which it did it, wherever it ran.
//!
//! A thread goes from hart to hart, and each hart reports by itself what it executed. What a hart executes of a thread until another
//! thread has its turn, or something is missing, is a turn. The turns of a thread cannot overlap: where two have a timestamp in
//! them, these say which was first. A turn without one was between the timestamps before and after it. Where that leaves
//! several, the one comes next that begins where the thread was interrupted; of several such, the one after which the most turns follow each
//! other in that way, and then the one that is earliest by its estimate.
//!
//! A turn is held back until no other one can come before it: until every hart has come to the first timestamp after its beginning. From
//! then on its items are given as they come. How much is held back is bounded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use backsight_core::{Address, Context, Isa};
use backsight_flow::Event;

use super::Decode;
use super::item::{Item, Origin};
use super::kind::Execution;
use super::summary::Summary;
use super::timeline::TimeBounds;
use crate::{Code, Result, Source, SourceCode};

/// Items that may be held back.
const MOST_WAITING: usize = 1 << 18;

/// Turns that are looked at ahead, to find out which of several comes next, and steps that this may take.
const MOST_AHEAD: usize = 32;
const MOST_STEPS: usize = 1 << 12;

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadId {
    /// Its number in the trace.
    Numbered(u64),
    /// What ran on a hart while the trace named no thread, or number 0: that of every CPU's idle thread, and of threads that an operating
    /// system does not number. Harts are numbered as they are met.
    OfHart(usize),
}

/// A thread goes on.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Which.
    pub thread: ThreadId,
    /// Where: the source.
    pub source: &'a Source,
    /// The number of the hart.
    pub hart: u16,
    /// What is known of the context there.
    pub context: Option<(Context, Isa)>,
    /// The last timestamp there.
    pub time: Option<u64>,
}

/// An item of a thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadItem<'a> {
    /// Which thread.
    pub thread: ThreadId,
    /// Instructions of its source that come before it.
    pub number: u64,
    /// When it happened.
    pub time: TimeBounds,
    /// The item.
    pub item: Item<'a, Event>,
}

/// Takes turns of threads. Those of different threads may be under way at once.
pub trait Turns {
    /// A thread goes on.
    fn begin(&mut self, turn: &Turn<'_>);

    /// Takes an item of the turn of its thread.
    fn item(&mut self, item: &ThreadItem<'_>) -> ControlFlow<()>;

    /// The turn of a thread ends: what comes next of it may be elsewhere.
    fn end(&mut self, thread: ThreadId);
}

impl<'c> Decode<'c, Execution> {
    /// Decodes all sources side by side, and gives what each thread did in the order in which it did it, as far as timestamps and
    /// addresses say. Memory is bounded, whatever the sources send.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn run_by_thread(self, code: &'c Code, turns: &mut dyn Turns) -> Result<Summary> {
        let mut order = ThreadOrder::new(code, turns);
        let summary = self.run_merged(&mut |item, time, is_last| {
            let outcome = order.take(&item, time);
            if is_last { order.end_hart(&item) } else { outcome }
        })?;
        if order.outcome.is_continue() {
            order.finish();
        }
        Ok(summary)
    }

    /// May threads go from one hart to another, in what is decoded? Frames may have to be read to find out how many sources have
    /// data.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn threads_may_move(&self, code: &Code) -> Result<bool> {
        let shares = |source: &Source| source.is_decoded() && source.numbers_harts();
        Ok(code.names_threads() && (self.sources()?.iter().any(shares) || self.sources_with_data()? > 1))
    }
}

/// A hart, and what is known of it.
struct Hart<'c> {
    source: Source,
    number: u16,
    /// The number of its source.
    of: usize,
    code: SourceCode<'c>,
    context: Option<(Context, Isa)>,
    time: Option<u64>,
    /// Nothing that is yet to come of it was before this.
    earliest: u64,
    thread: ThreadId,
    /// The number of the turn that goes on.
    turn: Option<u64>,
}

#[derive(Default)]
struct Thread {
    /// The turn that is given as it comes.
    running: Option<OpenTurn>,
    /// Where it was interrupted last.
    goes_on_at: Option<Address>,
    waiting: VecDeque<OpenTurn>,
}

/// A turn that is held back, or that goes on.
struct OpenTurn {
    number: u64,
    hart: usize,
    context: Option<(Context, Isa)>,
    time: Option<u64>,
    /// Its beginning was not before this, and not after that.
    bounds: (u64, u64),
    /// It began about then.
    estimate: u64,
    /// The last thing that is known of it was about then.
    last: u64,
    begins_at: Option<Address>,
    /// Where it goes on, if an exception was the last thing in it.
    interrupted_at: Option<Address>,
    /// A timestamp in it says when it was.
    is_timed: bool,
    is_over: bool,
    items: Vec<Stored>,
}

struct Stored {
    offset: u64,
    length: u32,
    position: Option<u64>,
    number: u64,
    time: TimeBounds,
    window: Option<backsight_image::Window>,
    value: Event,
}

impl OpenTurn {
    fn new(number: u64, hart: &Hart<'_>, index: usize, time: TimeBounds) -> Self {
        let mut turn = Self {
            number,
            hart: index,
            context: hart.context,
            time: hart.time,
            bounds: (0, u64::MAX),
            estimate: 0,
            last: 0,
            begins_at: None,
            interrupted_at: None,
            is_timed: false,
            is_over: false,
            items: Vec::new(),
        };
        turn.begin_at(time);
        turn
    }

    fn begin_at(&mut self, time: TimeBounds) {
        self.bounds = (time.earliest.unwrap_or(0), time.latest.unwrap_or(u64::MAX));
        self.estimate = time.estimate.unwrap_or(self.bounds.0);
    }

    /// Takes note of what an event says of when and where it was.
    fn note(&mut self, event: &Event, time: TimeBounds) {
        match *event {
            Event::Range(range) => {
                if self.begins_at.is_none() {
                    self.begins_at = Some(range.start);
                    if !self.is_timed {
                        self.begin_at(time);
                    }
                }
                (self.interrupted_at, self.last) = (None, time.estimate.unwrap_or(self.last));
            }
            Event::Exception { return_address, .. } => self.interrupted_at = return_address,
            // A timestamp after an exception is that of its handler.
            Event::Timestamp { value, .. }
                if value != 0
                    && !self.is_timed
                    && self.begins_at.is_some()
                    && self.interrupted_at.is_none() =>
            {
                (self.bounds, self.estimate, self.is_timed) = ((value, value), value, true);
            }
            _ => {}
        }
    }
}

/// The next turns of a thread, in the order of each hart.
struct Ahead<'t> {
    harts: Vec<Vec<&'t OpenTurn>>,
    /// Nothing comes after them.
    are_all: bool,
    steps: usize,
}

impl<'t> Ahead<'t> {
    fn new(waiting: &'t VecDeque<OpenTurn>, are_all: bool) -> Self {
        let mut harts: Vec<Vec<&OpenTurn>> = Vec::new();
        for turn in waiting.iter().take(4 * MOST_AHEAD) {
            match harts.iter_mut().find(|turns| turns.iter().any(|known| known.hart == turn.hart)) {
                Some(turns) => turns.push(turn),
                None => harts.push(vec![turn]),
            }
        }
        Self { harts, are_all: are_all && waiting.len() <= 4 * MOST_AHEAD, steps: 0 }
    }

    /// How many turns can follow the first one of a hart, each of which begins where the one before was interrupted.
    fn after(&mut self, first: &OpenTurn) -> usize {
        self.steps = MOST_STEPS;
        let mut next: Vec<usize> = self
            .harts
            .iter()
            .map(|turns| usize::from(turns.first().is_some_and(|one| one.number == first.number)))
            .collect();
        self.follow(&mut next, first, MOST_AHEAD)
    }

    /// `next`: the number of the next turn of each hart.
    fn follow(&mut self, next: &mut [usize], last: &OpenTurn, most: usize) -> usize {
        let heads: Vec<Option<&OpenTurn>> =
            self.harts.iter().zip(&*next).map(|(turns, number)| turns.get(*number).copied()).collect();
        let is_known = self.are_all || heads.iter().all(Option::is_some);
        // What is not known may follow.
        let Some(goes_on_at) = last.interrupted_at.filter(|_| is_known && last.is_over) else { return most };
        let Some(end) = heads.iter().flatten().map(|turn| turn.bounds.1).min() else { return most };
        let mut best = 0;
        for (hart, head) in heads.iter().enumerate() {
            let fits = |turn: &&&OpenTurn| turn.bounds.0 <= end && turn.begins_at == Some(goes_on_at);
            let Some(head) = head.as_ref().filter(fits) else { continue };
            if most == 0 || self.steps == 0 {
                return best;
            }
            self.steps -= 1;
            next[hart] += 1;
            best = best.max(1 + self.follow(next, head, most - 1));
            next[hart] -= 1;
            if best == most {
                break;
            }
        }
        best
    }
}

/// Puts turns in order.
struct ThreadOrder<'c, 's> {
    code: &'c Code,
    turns: &'s mut dyn Turns,
    harts: Vec<Hart<'c>>,
    /// Instructions of each source so far.
    instructions: Vec<u64>,
    threads: BTreeMap<ThreadId, Thread>,
    /// The time that all harts have come to.
    reached: u64,
    waiting: usize,
    next_turn: u64,
    outcome: ControlFlow<()>,
}

impl<'c, 's> ThreadOrder<'c, 's> {
    fn new(code: &'c Code, turns: &'s mut dyn Turns) -> Self {
        let (harts, instructions, threads) = Default::default();
        Self {
            code,
            turns,
            harts,
            instructions,
            threads,
            reached: 0,
            waiting: 0,
            next_turn: 0,
            outcome: ControlFlow::Continue(()),
        }
    }

    fn hart(&mut self, source: &Source, number: u16) -> usize {
        let is_source = |hart: &Hart<'_>| hart.source.is(source);
        let known = self.harts.iter().position(|hart| hart.number == number && is_source(hart));
        known.unwrap_or_else(|| {
            let of = self.harts.iter().find(|hart| is_source(hart)).map(|hart| hart.of);
            let of = of.unwrap_or_else(|| {
                self.instructions.push(0);
                self.instructions.len() - 1
            });
            let index = self.harts.len();
            let (context, time, turn) = Default::default();
            let (code, thread) = (self.code.seen_by(source), ThreadId::OfHart(index));
            let source = source.clone();
            self.harts.push(Hart { source, number, of, code, context, time, earliest: 0, thread, turn });
            index
        })
    }

    fn take(&mut self, item: &Item<'_, Event>, time: TimeBounds) -> ControlFlow<()> {
        let index = self.hart(item.source, item.sub_source);
        if let Event::Context(context, isa) = item.value {
            self.change_context(index, context, isa);
        }
        let Some(hart) = self.harts.get_mut(index) else { return self.outcome };
        hart.earliest = hart.earliest.max(time.earliest.unwrap_or(0));
        let number = self.instructions.get(hart.of).copied().unwrap_or(0);
        match item.value {
            Event::Range(range) => self.instructions[hart.of] += u64::from(range.instructions),
            Event::Timestamp { value, .. } if value != 0 => hart.time = Some(value),
            _ => {}
        }
        let thread = hart.thread;
        let known = self.threads.entry(thread).or_default();
        let open = match hart.turn {
            Some(turn) => turn,
            None => {
                let turn = OpenTurn::new(self.next_turn, hart, index, time);
                known.waiting.push_back(turn);
                self.next_turn += 1;
                *hart.turn.insert(self.next_turn - 1)
            }
        };
        match &mut known.running {
            Some(running) if running.number == open => {
                running.note(&item.value, time);
                self.outcome = self.turns.item(&ThreadItem { thread, number, time, item: *item });
            }
            _ => {
                if let Some(turn) = known.waiting.iter_mut().rev().find(|turn| turn.number == open) {
                    turn.note(&item.value, time);
                    let &Item { offset, length, window, value, .. } = item;
                    let position = item.position();
                    turn.items.push(Stored { offset, length, position, number, time, window, value });
                    self.waiting += 1;
                }
            }
        }
        if item.value.is_edge() {
            self.end_turn(index);
        }
        self.settle();
        self.outcome
    }

    /// Nothing more comes of a hart.
    fn end_hart(&mut self, item: &Item<'_, Event>) -> ControlFlow<()> {
        let index = self.hart(item.source, item.sub_source);
        self.end_turn(index);
        self.harts[index].earliest = u64::MAX;
        self.settle();
        self.outcome
    }

    fn change_context(&mut self, index: usize, context: Context, isa: Isa) {
        let Some(hart) = self.harts.get_mut(index) else { return };
        hart.context = Some((context, isa));
        let thread = match hart.code.context_id(&context) {
            None => return,
            Some(0) => ThreadId::OfHart(index),
            Some(number) => ThreadId::Numbered(number),
        };
        if thread != hart.thread {
            self.end_turn(index);
            self.harts[index].thread = thread;
        }
    }

    /// What follows on a hart is another turn.
    fn end_turn(&mut self, index: usize) {
        let Some(hart) = self.harts.get_mut(index) else { return };
        let Some(open) = hart.turn.take() else { return };
        let thread = hart.thread;
        let Some(known) = self.threads.get_mut(&thread) else { return };
        if let Some(turn) = known.waiting.iter_mut().find(|turn| turn.number == open) {
            turn.is_over = true;
        }
        if let Some(running) = known.running.take_if(|running| running.number == open) {
            known.goes_on_at = running.interrupted_at;
            self.end(thread);
            self.go_on(thread);
        }
    }

    /// Gives what no other turn can come before any more.
    #[inline]
    fn settle(&mut self) {
        let reached = self.harts.iter().map(|hart| hart.earliest).min().unwrap_or(0);
        if reached > self.reached {
            self.reached = reached;
            let threads = self.threads.iter().filter(|(_, known)| !known.waiting.is_empty());
            let all: Vec<ThreadId> = threads.map(|(thread, _)| *thread).collect();
            all.into_iter().for_each(|thread| self.go_on(thread));
        }
        while self.waiting > MOST_WAITING && self.outcome.is_continue() {
            let held = |known: &Thread| known.waiting.iter().map(|turn| turn.items.len()).sum::<usize>();
            let most = self.threads.iter().max_by_key(|(_, known)| held(known));
            let Some(thread) = most.map(|(thread, _)| *thread) else { return };
            let Some(turn) = self.next_turn(thread, true) else { return };
            self.give(thread, turn);
            self.go_on(thread);
        }
    }

    /// Gives the next turns of a thread, as far as it is known which they are.
    fn go_on(&mut self, thread: ThreadId) {
        while self.outcome.is_continue()
            && let Some(turn) = self.next_turn(thread, false)
        {
            self.give(thread, turn);
        }
    }

    /// The turn that a thread goes on with.
    fn next_turn(&mut self, thread: ThreadId, at_once: bool) -> Option<OpenTurn> {
        let known = self.threads.get_mut(&thread)?;
        let mut heads: Vec<(usize, &OpenTurn)> = Vec::new();
        for (place, turn) in known.waiting.iter().enumerate() {
            if heads.iter().all(|(_, head)| head.hart != turn.hart) {
                heads.push((place, turn));
            }
        }
        let end = heads.iter().map(|(_, turn)| turn.bounds.1).min()?;
        // On another hart, something may be yet to come that was before the end of that.
        if self.reached <= end && self.reached < u64::MAX && !at_once {
            return None;
        }
        // The thread has left the hart that it ran on, and nothing there has said so.
        if let Some(running) = &known.running
            && running.last > end
            && !at_once
        {
            return None;
        }
        let goes_on_at = match &known.running {
            Some(running) => running.interrupted_at,
            None => known.goes_on_at,
        };
        let goes_on = |turn: &OpenTurn| goes_on_at.is_some() && turn.begins_at == goes_on_at;
        let may_be = heads.iter().filter(|(_, turn)| turn.bounds.0 <= end);
        let are_several = may_be.clone().filter(|(_, turn)| goes_on(turn)).nth(1).is_some();
        let mut ahead = are_several.then(|| Ahead::new(&known.waiting, self.reached == u64::MAX));
        let next = may_be.min_by_key(|(_, turn)| {
            let follow = ahead.as_mut().filter(|_| goes_on(turn)).map_or(0, |ahead| ahead.after(turn));
            (!goes_on(turn), Reverse(follow), turn.estimate)
        });
        let place = next.map(|(place, _)| *place)?;
        if let Some(left) = known.running.take() {
            self.harts.get_mut(left.hart).into_iter().for_each(|hart| hart.turn = None);
            self.turns.end(thread);
        }
        known.waiting.remove(place)
    }

    /// A turn ends. Where nothing more is wanted, it does not: it stopped in the middle.
    fn end(&mut self, thread: ThreadId) {
        if self.outcome.is_continue() {
            self.turns.end(thread);
        }
    }

    fn give(&mut self, thread: ThreadId, mut turn: OpenTurn) {
        let Some(hart) = self.harts.get(turn.hart) else { return };
        let (source, sub_source) = (&hart.source, hart.number);
        self.turns.begin(&Turn { thread, source, hart: sub_source, context: turn.context, time: turn.time });
        self.waiting -= turn.items.len();
        for Stored { offset, length, position, number, time, window, value } in turn.items.drain(..) {
            let origin = position.map_or(Origin::Unknown, |position| Origin::Known(position, &[]));
            let item = Item { source, sub_source, offset, length, window, value, origin };
            if self.outcome.is_continue() {
                self.outcome = self.turns.item(&ThreadItem { thread, number, time, item });
            }
        }
        let Some(known) = self.threads.get_mut(&thread) else { return };
        match turn.is_over {
            true => {
                known.goes_on_at = turn.interrupted_at;
                self.end(thread);
            }
            false => known.running = Some(turn),
        }
    }

    /// The trace ends.
    fn finish(&mut self) {
        (0..self.harts.len()).for_each(|index| self.end_turn(index));
        self.reached = u64::MAX;
        let all: Vec<ThreadId> = self.threads.keys().copied().collect();
        all.into_iter().for_each(|thread| self.go_on(thread));
    }
}
