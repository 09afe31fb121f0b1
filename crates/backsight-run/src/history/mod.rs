//! What was in registers and memory at any moment of a recording that has data.
//!
//! A recording with loads, stores and what came from outside (`record --truth=accesses`, `compress --data replay=1`) is executed
//! again: no system call is made, what a load brings is in the recording. Every register of RV64 and every byte that the
//! program read or wrote is known at every moment, forwards and backwards; what is not known is not made up. Recordings of other
//! instruction sets give memory alone.
//!
//! States are kept at distances that double when they become too many, and close to where somebody looks, so that going back
//! costs no more than executing a few thousand instructions.
//!
//! ```no_run
//! use backsight_core::{Budget, Door};
//! use backsight_run::{history::History, retired::RetiredReader};
//!
//! let file = std::fs::File::open("capture/truth.retired")?;
//! let mut reader = RetiredReader::new(file)?;
//! let mut history = History::read(&mut reader, &[], &Budget::of(Door::History, None, 0))?;
//! let end = history.instructions();
//! println!("a0 at the end: {:x?}", history.at(end).register(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chunk;
mod instructions;
mod machine;
mod memory;
mod operands;
mod search;
mod states;
#[cfg(test)]
mod tests;

pub use chunk::Hit;
pub use instructions::Instructions;
pub use search::Wanted;

use crate::retired::{RetiredError, RetiredReader};
use backsight_core::{Address, Budget, Exceeded, Execution, Isa};
use chunk::{Chunk, ChunkWriter};
use machine::{Beginning, Machine, State};
use states::{Decoded, States};
use std::collections::BTreeMap;
use std::io;
use std::{fmt, mem};

/// Items between two looks at what memory takes.
const LOOK: u32 = 512;
/// Items that are held back until the next instruction.
const MOST_HELD: usize = 4096;

/// Why a recording gives no history.
#[derive(Debug)]
pub enum HistoryError {
    /// The file cannot be read.
    Retired(RetiredError),
    /// It would need more memory than is allowed.
    Memory(Exceeded),
    /// It was cut off, and what is there contradicts itself.
    Contradicts {
        /// How often.
        times: u64,
    },
    /// No memory could be written to.
    Io(io::Error),
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retired(error) => write!(f, "{error}"),
            Self::Memory(exceeded) => write!(f, "registers and memory at every moment: {exceeded}"),
            Self::Contradicts { times } => {
                write!(
                    f,
                    "the recording was cut off and is damaged: executed again, it contradicts itself {times} times"
                )
            }
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for HistoryError {}

impl From<Exceeded> for HistoryError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Memory(exceeded)
    }
}

/// A part of memory as the program's file has it.
#[derive(Clone, Copy, Debug)]
pub struct InitialMemory<'a> {
    /// The first byte.
    pub address: u64,
    /// What is there; the rest is zero.
    pub bytes: &'a [u8],
    /// Bytes in memory.
    pub length: u64,
}

/// Takes a recording, item by item.
pub struct HistoryBuilder<'b> {
    machine: Machine,
    beginning: Beginning,
    writer: ChunkWriter,
    chunks: Vec<Chunk>,
    states: States,
    isa: Isa,
    budget: &'b Budget,
    counted: u64,
    looked: u32,
    accesses: u64,
}

impl<'b> HistoryBuilder<'b> {
    /// For a recording that begins in an instruction set, of a program whose file puts this into memory.
    ///
    /// # Errors
    /// If the budget does not allow what the program's memory takes.
    pub fn new(isa: Isa, program: &[InitialMemory<'_>], budget: &'b Budget) -> Result<Self, HistoryError> {
        let mut beginning = Beginning::default();
        for part in program {
            // Half as much again, for what says which bytes are known.
            budget.take(part.length.saturating_add(part.length / 2))?;
            let zeros = (part.bytes.len() as u64).min(part.length)..part.length;
            let bytes = part.bytes.iter().copied().zip(0..part.length);
            bytes.for_each(|(byte, n)| beginning.program.put(part.address.wrapping_add(n), byte));
            zeros.for_each(|n| beginning.program.put(part.address.wrapping_add(n), 0));
        }
        Ok(Self {
            machine: Machine::new(isa),
            beginning,
            writer: ChunkWriter::new(isa),
            chunks: Vec::new(),
            states: States::new(budget.limit() / 4),
            isa,
            budget,
            counted: 0,
            looked: 0,
            accesses: 0,
        })
    }

    /// No registers: what the accesses say of memory is all that is asked for, and they may not be all that there were.
    #[must_use]
    pub fn memory_only(mut self) -> Self {
        self.machine.executes = false;
        self
    }

    /// Takes the next item.
    ///
    /// # Errors
    /// If the budget does not allow to keep it.
    pub fn push(&mut self, item: &Execution) -> Result<(), HistoryError> {
        if self.writer.ends_before(item) {
            self.end_chunk()?;
        }
        if self.chunks.is_empty() && self.states.is_empty() {
            self.states.push(0, &self.machine.state);
        }
        self.accesses += u64::from(matches!(item, Execution::Access(_)));
        self.machine.push(item, &mut self.beginning);
        self.writer.push(item);
        self.looked += 1;
        if self.looked >= LOOK {
            self.count()?;
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), HistoryError> {
        self.looked = 0;
        let made = self.machine.state.memory.made() + self.beginning.read.made();
        self.budget.take(made.saturating_sub(mem::replace(&mut self.counted, made)))?;
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<(), HistoryError> {
        self.machine.settle(&mut self.beginning);
        if let Some(chunk) = self.writer.take().map_err(HistoryError::Io)? {
            self.budget.take(chunk.size())?;
            self.chunks.push(chunk);
            self.states.push(self.chunks.len(), &self.machine.state);
        }
        Ok(())
    }

    /// The recording has ended.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn finish(mut self) -> Result<History, HistoryError> {
        self.end_chunk()?;
        self.count()?;
        let (instructions, counts) = self.writer.counts();
        Ok(History {
            isa: self.isa,
            instructions,
            counts: counts.clone(),
            threads: mem::take(&mut self.writer.threads),
            disagreements: self.machine.state.disagreements,
            surprises: self.machine.state.surprises,
            has_data: self.accesses > 0,
            machine: self.machine,
            beginning: self.beginning,
            chunks: self.chunks,
            states: self.states,
            truncated: None,
            decoded: None,
            position: None,
        })
    }
}

/// Registers and memory at every moment of a recording.
pub struct History {
    isa: Isa,
    instructions: u64,
    counts: BTreeMap<u32, u64>,
    threads: BTreeMap<u32, Vec<(u64, usize)>>,
    disagreements: u64,
    surprises: u64,
    has_data: bool,
    machine: Machine,
    beginning: Beginning,
    chunks: Vec<Chunk>,
    states: States,
    truncated: Option<u64>,
    /// The items of one chunk.
    decoded: Option<Decoded>,
    /// The chunk and the item that the machine takes next.
    position: Option<(usize, usize)>,
}

impl History {
    /// Reads a file of retired instructions. `program` is what the file of the program puts into memory; none if that is not known.
    /// One that was cut off is read as far as it goes ([`truncated`](Self::truncated)).
    ///
    /// # Errors
    /// If it is damaged (then nothing in it can be relied on), or needs more than the budget.
    pub fn read(
        reader: &mut RetiredReader<'_>,
        program: &[InitialMemory<'_>],
        budget: &Budget,
    ) -> Result<Self, HistoryError> {
        let mut builder = HistoryBuilder::new(reader.isa(), program, budget)?;
        // The last instruction, with what belongs to it: where a file was cut off, some of that may be missing.
        let (mut last, mut is_partly_taken) = (Vec::new(), false);
        let truncated = loop {
            match reader.next_item() {
                Ok(Some(item)) => {
                    let is_next = matches!(item, Execution::Instruction(_));
                    if is_next || last.len() >= MOST_HELD {
                        is_partly_taken = !is_next;
                        last.drain(..).try_for_each(|item| builder.push(&item))?;
                    }
                    last.push(item);
                }
                Ok(None) => {
                    last.drain(..).try_for_each(|item| builder.push(&item))?;
                    break None;
                }
                Err(RetiredError::Truncated { offset }) => {
                    if is_partly_taken {
                        builder.push(&Execution::Gap)?;
                    }
                    break Some(offset);
                }
                Err(error) => return Err(HistoryError::Retired(error)),
            }
        };
        let history = builder.finish()?;
        match history.disagreements {
            times @ 1.. if truncated.is_some() => Err(HistoryError::Contradicts { times }),
            _ => Ok(Self { truncated, ..history }),
        }
    }

    /// The instruction set that it begins in. Registers are known of RV64 only.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Are registers known, as far as they can be?
    pub fn has_registers(&self) -> bool {
        self.machine.executes
    }

    /// Has it loads and stores at all?
    pub fn has_data(&self) -> bool {
        self.has_data
    }

    /// Where its file was cut off: an offset in bytes.
    pub fn truncated(&self) -> Option<u64> {
        self.truncated
    }

    /// The program read something at its beginning that is not what the given file puts there: that file is not believed.
    pub fn is_other_program(&self) -> bool {
        self.beginning.other_program
    }

    /// How often execution gave something else than the recording has. It is believed, and registers are unknown from there.
    pub fn disagreements(&self) -> u64 {
        self.disagreements
    }

    /// How many loads brought something else than was known to be there: what wrote it is not in the recording, and before such a load an
    /// older value is shown.
    pub fn surprises(&self) -> u64 {
        self.surprises
    }

    /// Instructions of all threads: moments are from 0 to this.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The threads, and the instructions of each.
    pub fn threads(&self) -> &BTreeMap<u32, u64> {
        &self.counts
    }

    /// What is known after so many instructions of all threads; after the last one at most.
    pub fn at(&mut self, instructions: u64) -> Moment<'_> {
        let next = self.seek(instructions.min(self.instructions));
        Moment {
            state: &self.machine.state,
            beginning: &self.beginning,
            data: self.has_data,
            registers: self.machine.executes,
            next,
        }
    }

    /// The number that the instruction has among all threads that comes after so many of this thread; at its end, the one after
    /// its last. `None`: there is no such instruction, or thread.
    pub fn number_of(&mut self, thread: u32, instructions: u64) -> Option<u64> {
        let count = *self.counts.get(&thread)?;
        let of_last = instructions == count;
        let wanted = if of_last { count.checked_sub(1)? } else { instructions };
        if wanted >= count {
            return None;
        }
        // With one thread they are the same.
        if self.counts.len() == 1 {
            return Some(instructions);
        }
        let parts = self.threads.get(&thread)?;
        let part = parts.partition_point(|&(before, _)| before <= wanted).checked_sub(1)?;
        let &(mut before, chunk) = parts.get(part)?;
        let (mut number, mut now) = self.chunks.get(chunk).map(|chunk| (chunk.first, chunk.thread))?;
        for item in &self.items(chunk).items {
            match item {
                Execution::Thread(other) => now = *other,
                Execution::Instruction(_) => {
                    if now == thread {
                        if before == wanted {
                            return Some(number + u64::from(of_last));
                        }
                        before += 1;
                    }
                    number += 1;
                }
                _ => {}
            }
        }
        None
    }

    /// Instructions of a thread among the first so many of all.
    pub fn instructions_of(&mut self, thread: u32, number: u64) -> u64 {
        let Some(&count) = self.counts.get(&thread) else { return 0 };
        if self.counts.len() == 1 || number >= self.instructions {
            return number.min(count);
        }
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= number).saturating_sub(1);
        let Some(parts) = self.threads.get(&thread) else { return 0 };
        let next = parts.partition_point(|&(_, other)| other < chunk);
        let before = parts.get(next).map_or(count, |&(before, _)| before);
        let Some((first, mut now)) = self.chunks.get(chunk).map(|chunk| (chunk.first, chunk.thread)) else {
            return before;
        };
        let (mut left, mut found) = (number - first, before);
        for item in &self.items(chunk).items {
            match item {
                Execution::Thread(other) => now = *other,
                Execution::Instruction(_) if left == 0 => break,
                Execution::Instruction(_) => {
                    left -= 1;
                    found += u64::from(now == thread);
                }
                _ => {}
            }
        }
        found
    }
}

/// What is known at a moment.
pub struct Moment<'h> {
    state: &'h State,
    beginning: &'h Beginning,
    data: bool,
    registers: bool,
    next: Option<Address>,
}

impl Moment<'_> {
    /// The thread that executes the next instruction.
    pub fn thread(&self) -> u32 {
        self.state.thread
    }

    /// Instructions of all threads before.
    pub fn instructions(&self) -> u64 {
        self.state.instructions
    }

    /// Where the next instruction is; `None` at the end.
    pub fn next(&self) -> Option<Address> {
        self.next
    }

    /// A register of the thread that executes the next instruction, by its number in DWARF: x0 to x31, f0 to f31 (32 to 63), fflags,
    /// frm, fcsr (4097 to 4099).
    pub fn register(&self, number: u16) -> Option<u64> {
        self.register_of(self.state.thread, number)
    }

    /// A register of any thread.
    pub fn register_of(&self, thread: u32, number: u16) -> Option<u64> {
        self.state.registers(thread).filter(|_| self.registers)?.get(number)
    }

    /// A byte of memory.
    pub fn byte(&self, address: u64) -> Option<u8> {
        if self.data { self.beginning.byte(&self.state.memory, address) } else { None }
    }

    /// The bytes from an address on, each if it is known.
    pub fn memory(&self, address: u64, bytes: &mut [Option<u8>]) {
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(address.wrapping_add(n as u64));
        }
    }
}
