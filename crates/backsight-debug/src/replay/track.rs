//! The execution of one source, any instruction of which is at hand.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use backsight::decode::{Decode, Execution};
use backsight::moments::{InWindow, Moment, Moments, Window};
use backsight::{Result, Source, SourceCode};

use super::calls::{Call, ChunkCalls, Follower, KeptStacks};
use super::chunk::{Chunk, Instruction, Loader, Note};

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

    /// The calls under way at an instruction, the innermost first, and whether there are more that are forgotten.
    pub fn calls(&mut self, instruction: u64) -> Result<(Vec<Call>, bool)> {
        let number = instruction / self.size;
        if self.load(instruction)?.calls.is_none() {
            let calls = self.follow_calls(number)?;
            self.load(instruction)?.calls = Some(calls);
        }
        let loaded = self.load(instruction)?;
        let run = loaded.chunk.run_at(instruction);
        Ok(loaded.calls.as_ref().zip(run).map(|(calls, run)| calls.of_run(run)).unwrap_or_default())
    }

    /// Follows calls up to the end of a chunk, from the nearest place before it where they are known.
    fn follow_calls(&mut self, number: u64) -> Result<ChunkCalls> {
        let (first, stacks) = self.stacks.before(number);
        let mut follower = Follower::new(self.code, stacks);
        for before in first..number {
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

    /// The numbers of instructions before which points of the index are, between two others.
    pub fn points(&self, from: u64, to: u64) -> Vec<u64> {
        let index = self.reader.moments.known_index().and_then(|index| index.source(&self.source));
        let points = index.iter().flat_map(|index| &index.points).map(|point| point.place.instructions);
        let mut inside: Vec<u64> = points.filter(|number| (from + 1..to).contains(number)).collect();
        inside.dedup();
        inside
    }

    pub fn reader(&self) -> &Reader<'c> {
        &self.reader
    }
}
