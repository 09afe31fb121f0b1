//! States that are kept, and going to a moment from the nearest one before it.

use super::History;
use super::machine::State;
use backsight_core::{Address, Execution};
use std::collections::BTreeMap;

/// Items between two states close to where somebody looks.
const NEAR: usize = 2048;
/// States that are kept there.
const MOST_NEAR: usize = 96;
/// Bytes of memory that they may take beside those they share.
const MOST_NEAR_BYTES: u64 = 32 << 20;
/// States that are kept along the whole recording.
const MOST: usize = 1024;

/// States at the beginnings of chunks along the whole recording, and more of them around one place.
pub(super) struct States {
    /// By chunk. Each with what it does not share with the one before.
    far: Vec<(usize, State, u64)>,
    /// A state every so many chunks.
    spacing: usize,
    bytes: u64,
    most_bytes: u64,
    /// By chunk and item.
    near: BTreeMap<(usize, usize), (State, u64)>,
    near_bytes: u64,
}

impl States {
    pub fn new(most_bytes: u64) -> Self {
        Self { far: Vec::new(), spacing: 1, bytes: 0, most_bytes, near: BTreeMap::new(), near_bytes: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.far.is_empty()
    }

    /// The state before a chunk.
    pub fn push(&mut self, chunk: usize, state: &State) {
        if !chunk.is_multiple_of(self.spacing) {
            return;
        }
        let unshared = match self.far.last() {
            Some((_, before, _)) => state.memory.unshared(&before.memory),
            None => 0,
        };
        self.bytes += unshared;
        self.far.push((chunk, state.clone(), unshared));
        while self.far.len() > MOST || self.bytes > self.most_bytes && self.far.len() > 2 {
            self.thin();
        }
    }

    /// Keeps every second one.
    fn thin(&mut self) {
        self.spacing *= 2;
        let spacing = self.spacing;
        self.far.retain(|(chunk, ..)| chunk.is_multiple_of(spacing));
        self.bytes = 0;
        for index in 1..self.far.len() {
            let unshared = self.far[index].1.memory.unshared(&self.far[index - 1].1.memory);
            self.far[index].2 = unshared;
            self.bytes += unshared;
        }
    }

    /// The last state at or before a place, with at most so many instructions.
    fn before(&self, place: (usize, usize)) -> Option<((usize, usize), &State)> {
        let far = self.far.partition_point(|&(chunk, ..)| (chunk, 0) <= place).checked_sub(1);
        let far = far.and_then(|index| self.far.get(index)).map(|(chunk, state, _)| ((*chunk, 0), state));
        let near = self.near.range(..=place).next_back().map(|(&place, (state, _))| (place, state));
        far.into_iter().chain(near).max_by_key(|&(place, _)| place)
    }

    /// Keeps a state close to where somebody looks; others that are far from there go.
    fn keep(&mut self, place: (usize, usize), state: &State) {
        if self.near.contains_key(&place) {
            return;
        }
        let before = self.near.range(..place).next_back().map(|(_, (before, _))| before);
        let unshared = before.map_or(0, |before| state.memory.unshared(&before.memory));
        self.near_bytes += unshared;
        self.near.insert(place, (state.clone(), unshared));
        while self.near.len() > MOST_NEAR || self.near_bytes > MOST_NEAR_BYTES && self.near.len() > 1 {
            let [first, last] = [self.near.first_key_value(), self.near.last_key_value()]
                .map(|entry| entry.map_or(place, |(&place, _)| place));
            let farther = if place.0.abs_diff(first.0) > place.0.abs_diff(last.0) { first } else { last };
            // Those after it are of no use for what lies before.
            let goes = if farther == place { first } else { farther };
            let gone = self.near.remove(&goes);
            self.near_bytes -= gone.map_or(0, |(_, bytes)| bytes);
        }
    }
}

/// A chunk that was read.
#[derive(Default)]
pub(super) struct Decoded {
    pub chunk: usize,
    pub items: Vec<Execution>,
    /// Which items are instructions.
    instructions: Vec<u32>,
}

impl Decoded {
    fn new(chunk: usize, items: Vec<Execution>) -> Self {
        let is_instruction = |item: &Execution| matches!(item, Execution::Instruction(_));
        let instructions =
            (0..).zip(&items).filter(|(_, item)| is_instruction(item)).map(|(at, _)| at).collect();
        Self { chunk, items, instructions }
    }
}

impl History {
    /// The items of a chunk.
    pub(super) fn items(&mut self, chunk: usize) -> &Decoded {
        if self.decoded.as_ref().is_none_or(|decoded| decoded.chunk != chunk) {
            let items = self.chunks.get(chunk).map(|chunk| chunk.items()).unwrap_or_default();
            self.decoded = Some(Decoded::new(chunk, items));
        }
        self.decoded.get_or_insert_default()
    }

    /// The chunk with the instruction after so many, and its item there.
    fn place_of(&mut self, instructions: u64) -> (usize, usize) {
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= instructions).saturating_sub(1);
        let first = self.chunks.get(chunk).map_or(0, |chunk| chunk.first);
        let decoded = self.items(chunk);
        let index = usize::try_from(instructions - first).unwrap_or(usize::MAX);
        let end = decoded.items.len();
        (chunk, decoded.instructions.get(index).map_or(end, |&at| at as usize))
    }

    /// Takes the machine to the moment after so many instructions, all that happened before the next one included. Gives where
    /// that one is.
    pub(super) fn seek(&mut self, instructions: u64) -> Option<Address> {
        let target = self.place_of(instructions);
        let here = self.position.filter(|&here| here <= target);
        match self.states.before(target) {
            Some((place, state)) if here.is_none_or(|here| here < place) => {
                self.machine.resume(state.clone());
                self.position = Some(place);
            }
            _ => {}
        }
        let mut place = self.position.unwrap_or_default();
        // Executing leaves `decoded` at the chunk of the target, which is the last one.
        while place < target {
            place = self.execute_to(place, target);
        }
        self.position = Some(place);
        match self.items(target.0).items.get(target.1) {
            Some(Execution::Instruction(retired)) => Some(retired.address),
            _ => None,
        }
    }

    /// Executes from one place to another one, but to the end of the chunk at most. Gives how far it came.
    fn execute_to(&mut self, from: (usize, usize), target: (usize, usize)) -> (usize, usize) {
        let chunk = from.0;
        self.items(chunk);
        let Some(Decoded { items, .. }) = &self.decoded else { return target };
        let end = if chunk == target.0 { target.1 } else { items.len() };
        let mut kept = from.1 / NEAR;
        for (at, item) in items.iter().enumerate().take(end).skip(from.1) {
            // Between instructions only.
            let between = matches!(item, Execution::Instruction(_) | Execution::Thread(_));
            if chunk == target.0 && between && at / NEAR != kept {
                kept = at / NEAR;
                self.machine.settle(&mut self.beginning);
                self.states.keep((chunk, at), &self.machine.state);
            }
            self.machine.push(item, &mut self.beginning);
        }
        self.machine.settle(&mut self.beginning);
        if chunk == target.0 {
            return target;
        }
        let next = (chunk + 1, 0);
        self.states.keep(next, &self.machine.state);
        next
    }
}
