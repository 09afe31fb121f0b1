//! Decoded instructions of one source, around a position.

use std::collections::HashMap;

use backsight::core::{AddressSpace, Context, Isa};
use backsight::flow::Range;
use backsight::image::{Code as _, Window as TimeSpan};
use backsight::listing::steps;
use backsight::moments::{InWindow, Place};
use backsight::{Event, Item, SourceCode};

use super::search::{Direction, Found, IsRight, Reason, Wanted};

/// Events between instructions that are kept for each chunk.
const MOST_NOTES: usize = 1 << 14;

/// Who executes: a hart, and the thread on it where contexts tell threads apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Executor {
    pub hart: u16,
    pub thread: Option<u64>,
}

/// What holds for instructions beside their addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scene {
    pub executor: Executor,
    pub space: AddressSpace,
    /// The span of time, where it decides which code there was.
    pub span: Option<TimeSpan>,
}

/// Instructions one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The number of the first.
    pub number: u64,
    pub range: Range,
    /// The number of its scene.
    pub scene: u32,
}

/// Something that is no instruction, and was reported before one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Note {
    pub number: u64,
    pub hart: u16,
    pub event: Event,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Instruction {
    pub address: u64,
    pub isa: Isa,
    pub scene: Scene,
}

/// Instructions from one number to another.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub first: u64,
    /// The number after the last.
    pub end: u64,
    pub runs: Vec<Run>,
    pub scenes: Vec<Scene>,
    pub notes: Vec<Note>,
    /// Notes that there was no room for.
    pub unkept: u64,
    /// What the trace says of time, with the number of the instruction that comes next.
    times: Vec<(u64, u64)>,
}

impl Chunk {
    /// The run that has an instruction, by its place in the list.
    pub fn run_at(&self, number: u64) -> Option<usize> {
        let place = self.runs.partition_point(|run| run.number <= number).checked_sub(1)?;
        let run = self.runs.get(place)?;
        (number - run.number < u64::from(run.range.instructions)).then_some(place)
    }

    /// The scene of a run.
    pub fn scene(&self, run: &Run) -> Option<&Scene> {
        self.scenes.get(run.scene as usize)
    }

    /// An instruction, whose address is found by the code of that time.
    pub fn instruction(&self, number: u64, code: &SourceCode<'_>) -> Option<Instruction> {
        let run = self.runs.get(self.run_at(number)?)?;
        let scene = *self.scene(run)?;
        let (isa, index) = (run.range.isa, number - run.number);
        let address = address_in(&run.range, index, &scene, code);
        Some(Instruction { address, isa, scene })
    }

    /// The latest time that the trace names before an instruction.
    pub fn time_at(&self, number: u64) -> Option<u64> {
        let place = self.times.partition_point(|known| known.0 <= number).checked_sub(1)?;
        self.times.get(place).map(|known| known.1)
    }

    /// The nearest place after an instruction, or before it, at which something holds.
    pub fn search(
        &self,
        from: u64,
        direction: Direction,
        wanted: &Wanted,
        code: &SourceCode<'_>,
        is_right: &IsRight<'_>,
    ) -> Option<Found> {
        let is_event = |note: &&Note| {
            let is_wanted = match note.event {
                Event::Exception { .. } => wanted.exceptions,
                event => wanted.gaps && event.is_break(),
            };
            // Before the first instruction and after the last one is no place to stop at.
            is_wanted && note.number > 0 && note.number < self.end
        };
        let reason = |note: &Note| match note.event {
            Event::Exception { .. } => Reason::Exception,
            _ => Reason::Gap,
        };
        let place = self.run_at(from)?;
        let in_run = |run: &Run| self.search_run(run, from, direction, wanted, code, is_right);
        let (note, met) = match direction {
            Direction::Forwards => {
                let first = self.notes.partition_point(|note| note.number <= from);
                (self.notes[first..].iter().find(is_event), self.runs[place..].iter().find_map(in_run))
            }
            Direction::Backwards => {
                let end = self.notes.partition_point(|note| note.number < from);
                (
                    self.notes[..end].iter().rev().find(is_event),
                    self.runs[..=place].iter().rev().find_map(in_run),
                )
            }
        };
        let is_note_nearer = |note: &Note, met: u64| match direction {
            Direction::Forwards => note.number <= met,
            Direction::Backwards => note.number > met,
        };
        let (number, reason) = match (note, met) {
            (Some(note), Some((number, reason))) if !is_note_nearer(note, number) => (number, reason),
            (Some(note), _) => (note.number, reason(note)),
            (None, found) => found?,
        };
        Some(Found { number, reason, time: self.time_at(number) })
    }

    /// The nearest instruction of a run at which something holds.
    fn search_run(
        &self,
        run: &Run,
        from: u64,
        direction: Direction,
        wanted: &Wanted,
        code: &SourceCode<'_>,
        is_right: &IsRight<'_>,
    ) -> Option<(u64, Reason)> {
        let scene = self.scene(run)?;
        let numbers = run.number..run.number + u64::from(run.range.instructions);
        let is_beyond = |number: &u64| match direction {
            Direction::Forwards => *number > from,
            Direction::Backwards => *number < from,
        };
        let nearest = |numbers: &mut dyn DoubleEndedIterator<Item = u64>| match direction {
            Direction::Forwards => numbers.next(),
            Direction::Backwards => numbers.next_back(),
        };
        if wanted.of == Some(scene.executor) {
            let number = nearest(&mut numbers.clone().filter(is_beyond));
            return number.map(|number| (number, Reason::Turn));
        }
        let (start, end) = (run.range.start.0, run.range.end.0);
        wanted.addresses.range(start..end.max(start)).next()?;
        let mut code = *code;
        scene.span.into_iter().for_each(|span| drop(code.enter(span)));
        let mut addresses = Vec::new();
        steps(&run.range, scene.space, &code, |step| addresses.push(step.address.0));
        let mut met = numbers.zip(addresses).filter(|(number, address)| {
            is_beyond(number) && wanted.addresses.contains(address) && is_right(&code, scene.space, *address)
        });
        let found = match direction {
            Direction::Forwards => met.next(),
            Direction::Backwards => met.last(),
        };
        found.map(|(number, address)| (number, Reason::Address(address)))
    }

    /// What was reported right before an instruction.
    pub fn notes_at(&self, number: u64) -> &[Note] {
        let first = self.notes.partition_point(|note| note.number < number);
        let end = self.notes.partition_point(|note| note.number <= number);
        self.notes.get(first..end).unwrap_or_default()
    }
}

/// The address of one instruction of a range. Where sizes vary, the code of that time says where it is.
pub(super) fn address_in(range: &Range, index: u64, scene: &Scene, code: &SourceCode<'_>) -> u64 {
    if let Isa::A64 | Isa::A32 = range.isa {
        return range.start.0.wrapping_add(4 * index);
    }
    if index == 0 {
        return range.start.0;
    }
    let mut code = *code;
    scene.span.into_iter().for_each(|span| drop(code.enter(span)));
    let (mut count, mut address) = (0, range.start);
    steps(range, scene.space, &code, |step| {
        if count <= index {
            address = step.address;
        }
        count += 1;
    });
    address.0
}

/// Puts a chunk together.
pub(super) struct Loader<'c> {
    pub chunk: Chunk,
    code: SourceCode<'c>,
    span: Option<TimeSpan>,
    contexts: HashMap<u16, Context>,
    /// The scenes that harts are in; none after something has changed.
    current: HashMap<u16, u32>,
    number: u64,
}

impl<'c> Loader<'c> {
    pub fn new(code: SourceCode<'c>) -> Self {
        let (chunk, span, contexts, current) = Default::default();
        Self { chunk, code, span, contexts, current, number: 0 }
    }

    /// A hart is in a context. Is it another one than before?
    fn context(&mut self, hart: u16, context: Context) -> bool {
        let is_new = self.contexts.insert(hart, context) != Some(context);
        if is_new {
            self.current.remove(&hart);
        }
        is_new
    }

    fn time(&mut self, event: &Event) {
        if let &Event::Timestamp { value, .. } = event
            && value != 0
        {
            let last = self.chunk.times.last().copied();
            match self.chunk.times.last_mut() {
                Some(known) if known.0 == self.number => known.1 = known.1.max(value),
                _ => {
                    let value = last.map_or(value, |known| known.1.max(value));
                    self.chunk.times.push((self.number, value));
                }
            }
        }
    }

    fn scene(&mut self, hart: u16) -> u32 {
        if let Some(&known) = self.current.get(&hart) {
            return known;
        }
        let context = self.contexts.get(&hart);
        let thread = context.and_then(|context| self.code.context_id(context));
        let space = context.map_or(AddressSpace::ANY, |context| self.code.space_of(context));
        let scene = Scene { executor: Executor { hart, thread }, space, span: self.span };
        // Harts that take turns come back to what they were.
        let recent = self.chunk.scenes.iter().rev().take(8).position(|known| *known == scene);
        let place = match recent {
            Some(back) => self.chunk.scenes.len() - 1 - back,
            None => {
                self.chunk.scenes.push(scene);
                self.chunk.scenes.len() - 1
            }
        };
        self.current.insert(hart, place as u32);
        place as u32
    }
}

impl InWindow for Loader<'_> {
    fn begin(&mut self, place: &Place) {
        self.number = place.instructions;
        (self.chunk.first, self.chunk.end) = (self.number, self.number);
        self.chunk.times.extend(place.time.map(|time| (self.number, time)));
    }

    fn before(&mut self, item: Item<'_, Event>) {
        if let Event::Context(context, _) = item.value {
            self.context(item.sub_source, context);
        }
    }

    fn enter(&mut self, span: TimeSpan) {
        if self.span != Some(span) {
            self.span = Some(span);
            self.code.enter(span);
            self.current.clear();
        }
    }

    fn item(&mut self, item: Item<'_, Event>) {
        let hart = item.sub_source;
        match item.value {
            Event::Range(range) if range.instructions > 0 => {
                let scene = self.scene(hart);
                self.chunk.runs.push(Run { number: self.number, range, scene });
                self.number += u64::from(range.instructions);
                self.chunk.end = self.number;
            }
            Event::Range(_) => {}
            event => {
                let is_wanted = match event {
                    Event::Context(context, _) => self.context(hart, context),
                    _ => matters(&event),
                };
                self.time(&event);
                if is_wanted {
                    match self.chunk.notes.len() < MOST_NOTES {
                        true => self.chunk.notes.push(Note { number: self.number, hart, event }),
                        false => self.chunk.unkept += 1,
                    }
                }
            }
        }
    }
}

/// Does the stack of calls, or somebody at a position, have to know of it?
pub(super) fn matters(event: &Event) -> bool {
    event.is_edge() || matches!(event, Event::Exception { .. } | Event::ExceptionReturn)
}
