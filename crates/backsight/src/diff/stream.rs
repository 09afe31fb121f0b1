//! One side of a comparison: the instructions that lie ahead and some that lie behind, with what is noted of them.

use std::collections::{BTreeMap, VecDeque};

use backsight_core::AddressSpace;

use super::Shown;
use crate::steps::{Batch, Bytes, Note, Register, Step};

/// Instructions behind that are kept: turns of loops are found by them.
pub(super) const KEPT: usize = 1 << 12;

/// Registers whose contents are kept.
const MOST_REGISTERS: usize = 1 << 12;

/// Instructions of one side, batch by batch.
pub trait Steps {
    /// The next ones; `None` at the end.
    fn next_batch(&mut self) -> Option<Batch>;
}

impl<I: Iterator<Item = Batch>> Steps for I {
    fn next_batch(&mut self) -> Option<Batch> {
        self.next()
    }
}

/// One side.
pub(super) struct Stream<'s> {
    source: Box<dyn Steps + 's>,
    steps: Vec<Step>,
    /// Instructions before the first one that is kept.
    base: u64,
    /// How many of those that are kept lie behind.
    at: usize,
    has_ended: bool,
    /// Notes of instructions that lie ahead, each with the number of instructions before it.
    notes: VecDeque<(u64, Note)>,
    numbers: Marks<u64>,
    times: Marks<u64>,
    spaces: Marks<AddressSpace>,
    /// What is in registers, as far as it was written.
    pub registers: BTreeMap<Register, Bytes>,
    /// Accesses of both directions that were seen: loads, and stores.
    pub has_accesses: [bool; 2],
    pub has_registers: bool,
    pub has_lost_accesses: bool,
}

/// What holds from some instruction on.
struct Marks<T>(VecDeque<(u64, T)>);

impl<T: Copy> Marks<T> {
    fn at(&self, position: u64) -> Option<(u64, T)> {
        let after = self.0.partition_point(|(from, _)| *from <= position);
        self.0.get(after.checked_sub(1)?).copied()
    }

    fn forget_before(&mut self, position: u64) {
        while self.0.get(1).is_some_and(|(from, _)| *from <= position) {
            self.0.pop_front();
        }
    }

    fn push(&mut self, position: u64, value: T) {
        match self.0.back_mut() {
            Some(last) if last.0 == position => last.1 = value,
            _ => self.0.push_back((position, value)),
        }
    }
}

impl<'s> Stream<'s> {
    pub fn new(source: Box<dyn Steps + 's>) -> Self {
        Self {
            source,
            steps: Vec::new(),
            base: 0,
            at: 0,
            has_ended: false,
            notes: VecDeque::new(),
            numbers: Marks(VecDeque::new()),
            times: Marks(VecDeque::new()),
            spaces: Marks(VecDeque::new()),
            registers: BTreeMap::new(),
            has_accesses: [false; 2],
            has_registers: false,
            has_lost_accesses: false,
        }
    }

    /// Instructions that lie behind.
    pub fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Tries to have so many instructions ahead. Gives whether there are.
    pub fn fill(&mut self, count: usize) -> bool {
        while self.steps.len() - self.at < count && !self.has_ended {
            self.forget();
            match self.source.next_batch() {
                Some(batch) => self.take(batch),
                None => self.has_ended = true,
            }
        }
        self.steps.len() - self.at >= count
    }

    fn forget(&mut self) {
        // Seldom, so that what is kept is seldom moved.
        if self.at < 16 * KEPT {
            return;
        }
        let gone = self.at - KEPT;
        self.steps.drain(..gone);
        self.base += gone as u64;
        self.at = KEPT;
        self.numbers.forget_before(self.base);
        self.times.forget_before(self.base);
        self.spaces.forget_before(self.base);
    }

    fn take(&mut self, batch: Batch) {
        let start = self.base + self.steps.len() as u64;
        self.steps.extend_from_slice(&batch.steps);
        for (before, note) in batch.notes {
            let position = start + u64::from(before);
            match note {
                Note::Number(number) => self.numbers.push(position, number),
                Note::Time(time) => self.times.push(position, time),
                Note::Space(space) => self.spaces.push(position, space),
                Note::Depth(_) => {}
                note => self.notes.push_back((position, note)),
            }
        }
    }

    /// Instructions that lie ahead, as many as are there.
    pub fn ahead(&self) -> &[Step] {
        &self.steps[self.at..]
    }

    /// Instructions that lie behind, the last one last.
    pub fn behind(&self) -> &[Step] {
        &self.steps[self.at.saturating_sub(KEPT)..self.at]
    }

    /// Has it ended right here?
    pub fn is_at_end(&mut self) -> bool {
        !self.fill(1)
    }

    /// Does what lies ahead end with what is there?
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Notes of what lies ahead, from here on.
    pub fn notes(&self) -> impl Iterator<Item = &(u64, Note)> {
        self.notes.iter()
    }

    /// The note with this number.
    pub fn note(&self, number: usize) -> Option<&(u64, Note)> {
        self.notes.get(number)
    }

    /// Notes that come before the next instruction.
    pub fn notes_here(&self) -> impl Iterator<Item = &Note> {
        let here = self.position();
        self.notes.iter().take_while(move |(position, _)| *position <= here).map(|(_, note)| note)
    }

    /// Goes on by so many instructions, and gives what is noted of them and of the way to each of them.
    pub fn advance(&mut self, count: usize, each: &mut dyn FnMut(u64, Note)) {
        let from = self.position();
        let to = from + count as u64;
        self.at += count;
        let mut index = 0;
        while let Some(&(position, note)) = self.notes.get(index)
            && position <= to
        {
            if leads(&note) && position == to {
                index += 1;
                continue;
            }
            self.notes.remove(index);
            self.learn(&note);
            each(position.saturating_sub(from), note);
        }
    }

    /// Takes the notes that lead to the next instruction, which comes after something else.
    pub fn pass_leading(&mut self) {
        let here = self.position();
        while self.notes.front().is_some_and(|(position, note)| *position <= here && leads(note)) {
            self.notes.pop_front();
        }
    }

    fn learn(&mut self, note: &Note) {
        match note {
            Note::Register(register, bytes) => {
                self.has_registers = true;
                if self.registers.len() < MOST_REGISTERS || self.registers.contains_key(register) {
                    self.registers.insert(*register, *bytes);
                }
            }
            Note::Access(access) => {
                let store = access.kind() == backsight_flow::AccessKind::Store;
                self.has_accesses[usize::from(store)] = true;
            }
            Note::AccessesLost => self.has_lost_accesses = true,
            _ => {}
        }
    }

    /// The moment of the instruction at this distance from here, backwards if it is negative.
    pub fn moment(&self, distance: i64) -> (u64, Option<u64>) {
        let position = self.position().saturating_add_signed(distance);
        let number = self.numbers.at(position).map_or(position, |(from, number)| number + position - from);
        (number, self.times.at(position).map(|(_, time)| time))
    }

    /// The instruction at this distance from here, if it is kept.
    pub fn shown(&self, distance: i64) -> Option<Shown> {
        let index = i64::try_from(self.at).ok()?.checked_add(distance)?;
        let step = *self.steps.get(usize::try_from(index).ok()?)?;
        let (number, time) = self.moment(distance);
        let position = self.position().saturating_add_signed(distance);
        let space = self.spaces.at(position).map_or(AddressSpace::ANY, |(_, space)| space);
        Some(Shown { step, number, time, space })
    }
}

/// Does it say how execution came to the next instruction, and not what the one before did?
fn leads(note: &Note) -> bool {
    matches!(note, Note::Exception { .. } | Note::Gap)
}
