//! The execution of one source, any instruction of which is at hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backsight::decode::{Decode, Execution};
use backsight::moments::{InWindow, Moment, Moments, Sought, SourceIndex, Window};
use backsight::{Error, Result, Source, SourceCode};

use super::calls::{Approach, Call, ChunkCalls, Follower, KeptStacks, Stacks};
use super::chunk::{Chunk, Executor, Instruction, Loader, Note, Run};
use super::search::{Direction, Wanted};

/// Instructions that are decoded together: where decoding can begin near by, and where it begins at the beginning.
const NEAR: u64 = 1 << 16;
const FAR: u64 = 1 << 19;

/// Chunks that are kept.
const MOST_CHUNKS: usize = 4;

/// What all sources of a recording share.
#[derive(Clone, Debug)]
pub(super) struct Reader<'c> {
    pub moments: Moments<'c>,
    pub decode: Decode<'c, Execution>,
    /// Set by whoever wants no more.
    pub stop: Arc<AtomicBool>,
}

/// A chunk, and its stacks of calls where somebody has asked for them.
struct Loaded {
    number: u64,
    chunk: Chunk,
    calls: Option<ChunkCalls>,
}

/// One source.
pub(super) struct Track<'c> {
    pub source: Source,
    pub code: SourceCode<'c>,
    /// Its instructions.
    pub instructions: u64,
    reader: Reader<'c>,
    /// Instructions in each chunk but the last.
    size: u64,
    /// The one that was used last is the last.
    loaded: Vec<Loaded>,
    stacks: KeptStacks,
}

impl<'c> Track<'c> {
    pub fn new(source: Source, code: SourceCode<'c>, instructions: u64, reader: Reader<'c>) -> Self {
        let known = reader.moments.known_index().and_then(|index| index.source(&source));
        let size = if known.is_some_and(|known| !known.points.is_empty()) { NEAR } else { FAR };
        Self { source, code, instructions, reader, size, loaded: Vec::new(), stacks: KeptStacks::default() }
    }

    /// The window of a chunk. The last one ends with what comes after the last instruction.
    fn window(&self, number: u64) -> Window {
        let (from, to) = (number * self.size, (number + 1) * self.size);
        Window {
            from: (from > 0).then_some(Moment::Instruction(from)),
            to: (to < self.instructions).then_some(Moment::Instruction(to)),
        }
    }

    fn decode(&self, number: u64) -> Result<Chunk> {
        let mut loader = Loader::new(self.code);
        let decode = self.reader.decode.clone().positions(false);
        self.reader.moments.take(decode, &self.source, self.window(number), &mut loader)?;
        Ok(loader.chunk)
    }

    /// Gives all that the source did to something that takes it.
    pub fn follow(&self, taker: &mut dyn InWindow) -> Result<()> {
        let decode = self.reader.decode.clone().positions(false).stop_on(self.reader.stop.clone());
        self.reader.moments.take(decode, &self.source, Window::default(), taker).map(drop)
    }

    /// The chunk that has an instruction.
    fn load(&mut self, instruction: u64) -> Result<&mut Loaded> {
        let number = instruction / self.size;
        let known = self.loaded.iter().position(|loaded| loaded.number == number);
        let loaded = match known {
            Some(place) => self.loaded.remove(place),
            None => Loaded { number, chunk: self.decode(number)?, calls: None },
        };
        if self.loaded.len() >= MOST_CHUNKS {
            self.loaded.remove(0);
        }
        let place = self.loaded.len();
        self.loaded.push(loaded);
        Ok(&mut self.loaded[place])
    }

    /// The chunk that has an instruction.
    pub fn chunk(&mut self, instruction: u64) -> Result<&Chunk> {
        Ok(&self.load(instruction)?.chunk)
    }

    /// An instruction; `None` if there are not so many.
    pub fn instruction(&mut self, number: u64) -> Result<Option<Instruction>> {
        let code = self.code;
        Ok(self.chunk(number)?.instruction(number, &code))
    }

    /// What was reported right before an instruction, or at the end.
    pub fn notes(&mut self, number: u64) -> Result<Vec<Note>> {
        // The end belongs to the last chunk.
        let chunk = self.chunk(number.min(self.instructions.saturating_sub(1)))?;
        Ok(chunk.notes_at(number).to_vec())
    }

    /// The latest time that the trace names before an instruction.
    pub fn time(&mut self, number: u64) -> Result<Option<u64>> {
        Ok(self.chunk(number)?.time_at(number))
    }

    /// The chunk that has an instruction, with its stacks of calls.
    fn load_calls(&mut self, instruction: u64) -> Result<(&Chunk, &ChunkCalls)> {
        let number = instruction / self.size;
        if self.load(instruction)?.calls.is_none() {
            let calls = self.follow_calls(number)?;
            self.load(instruction)?.calls = Some(calls);
        }
        let Loaded { chunk, calls, .. } = self.load(instruction)?;
        Ok((chunk, calls.get_or_insert_default()))
    }

    /// The calls under way at an instruction, the innermost first, and whether there are more that are forgotten.
    pub fn calls(&mut self, instruction: u64) -> Result<(Vec<Call>, bool)> {
        let (chunk, calls) = self.load_calls(instruction)?;
        Ok(chunk.run_at(instruction).map(|run| calls.of_run(run)).unwrap_or_default())
    }

    /// How many calls are under way at an instruction.
    pub fn depth(&mut self, instruction: u64) -> Result<u32> {
        let (chunk, calls) = self.load_calls(instruction)?;
        Ok(chunk.run_at(instruction).map_or(0, |run| calls.depth_of_run(run)))
    }

    /// The nearest instruction of an executor after another one, or before it, with no more than so many calls under way.
    pub fn nearest_depth(
        &mut self,
        executor: Executor,
        from: u64,
        direction: Direction,
        most: u32,
    ) -> Result<Option<u64>> {
        let (mut at, end) = (from, self.instructions);
        loop {
            let (chunk, calls) = self.load_calls(at)?;
            let Some(place) = chunk.run_at(at) else { return Ok(None) };
            let is_it = |(number, run): &(usize, &Run)| {
                let is_turn = chunk.scene(run).is_some_and(|scene| scene.executor == executor);
                is_turn && calls.depth_of_run(*number) <= most
            };
            let last = |run: &Run| run.number + u64::from(run.range.instructions) - 1;
            let mut runs = chunk.runs.iter().enumerate();
            let (found, next) = match direction {
                Direction::Forwards => {
                    let found = runs.skip(place).filter(is_it).find(|(_, run)| last(run) > from);
                    let number = found.map(|(_, run)| run.number.max(from + 1));
                    (number, Some(chunk.end).filter(|next| *next < end))
                }
                Direction::Backwards => {
                    let found = runs.by_ref().take(place + 1).rev().filter(is_it);
                    let number = found.map(|(_, run)| (run.number, last(run))).find(|known| known.0 < from);
                    (number.map(|(_, last)| last.min(from - 1)), chunk.first.checked_sub(1))
                }
            };
            match (found, next) {
                (Some(number), _) => return Ok(Some(number)),
                (None, Some(next)) if !self.is_stopped() => at = next,
                (None, _) => return Ok(None),
            }
        }
    }

    /// Does somebody want no more?
    fn is_stopped(&self) -> bool {
        self.reader.stop.load(Ordering::Relaxed)
    }

    /// Follows calls up to the end of a chunk, from the nearest place before it where they are known.
    fn follow_calls(&mut self, number: u64) -> Result<ChunkCalls> {
        let (mut first, stacks) = self.stacks.before(number);
        let mut follower = Follower::new(self.code, stacks);
        let start = Moment::Instruction(number * self.size);
        if self.knows_calls_between(first * self.size, number * self.size) {
            follower = Follower::new(self.code, Stacks::default());
            let decode = self.reader.decode.clone().positions(false);
            let window = Window { from: Some(start), to: None };
            self.reader.moments.take(decode, &self.source, window, &mut Approach::new(&mut follower))?;
            self.stacks.insert(number, follower.stacks());
            first = number;
        }
        for before in first..number {
            if self.is_stopped() {
                return Err(Error::Absent(
                    "the calls under way are not known: it was interrupted".to_owned(),
                ));
            }
            let known = self.loaded.iter().find(|loaded| loaded.number == before);
            match known {
                Some(loaded) => drop(follower.follow(&loaded.chunk)),
                None => drop(follower.follow(&self.decode(before)?)),
            }
            self.stacks.insert(before + 1, follower.stacks());
        }
        let calls = follower.follow(&self.load(number * self.size)?.chunk);
        self.stacks.insert(number + 1, follower.stacks());
        Ok(calls)
    }

    /// Does the index know the calls under way at a point between two instructions?
    fn knows_calls_between(&self, first: u64, last: u64) -> bool {
        let points = self.index().map_or(&[][..], |index| &index.points);
        let before = points.partition_point(|point| point.place.instructions < last);
        let mut between = points[..before].iter().rev().take_while(|point| point.place.instructions > first);
        between.any(|point| point.knows_calls())
    }

    /// The first instruction of a moment, if the source comes to it.
    pub fn find(&self, moment: Moment) -> Result<Option<u64>> {
        let number = match moment {
            Moment::Instruction(number) => Some(number),
            Moment::BeforeEnd(number) => Some(self.instructions.saturating_sub(number)),
            other => {
                let place = self.reader.moments.place_of(self.reader.decode.clone(), &self.source, other)?;
                place.map(|place| place.instructions)
            }
        };
        Ok(number.filter(|number| *number <= self.instructions).map(|number| self.clamp(number)))
    }

    /// The instruction of this number, or the last.
    pub fn clamp(&self, number: u64) -> u64 {
        number.min(self.instructions.saturating_sub(1))
    }

    fn index(&self) -> Option<&SourceIndex> {
        self.reader.moments.known_index()?.source(&self.source)
    }

    /// The numbers of instructions before which points of the index are, between two others.
    pub fn points(&self, from: u64, to: u64) -> Vec<u64> {
        let points = self.index().map_or(&[][..], |index| &index.points);
        let first = points.partition_point(|point| point.place.instructions <= from);
        let inside = points[first..].iter().map(|point| point.place.instructions);
        let mut inside: Vec<u64> = inside.take_while(|number| *number < to).collect();
        inside.dedup();
        inside
    }

    /// Stretches between two instructions in which something may be that is looked for, as far as the index says.
    pub fn stretches(&self, wanted: &Wanted, first: u64, end: u64) -> Vec<(u64, u64)> {
        let addresses: Vec<_> = wanted.addresses.iter().map(|&one| one..one.saturating_add(1)).collect();
        let sought = Sought { addresses: &addresses, exceptions: wanted.exceptions, breaks: wanted.gaps };
        let index = self.index().filter(|_| wanted.of.is_none());
        let Some(known) = index.and_then(|index| index.stretches_with(&sought, &self.code)) else {
            return vec![(first, end)];
        };
        let inside = known.into_iter().map(|stretch| (stretch.start.max(first), stretch.end.min(end)));
        inside.filter(|(from, to)| from < to).collect()
    }

    pub fn reader(&self) -> &Reader<'c> {
        &self.reader
    }
}
