//! One stream for everything: where load values are sent, the rest comes free.
//!
//! With the program, its registers at some moment, what its loads bring and what enters from outside, the other side executes
//! the program itself: instructions, addresses and stored values follow. So a part of a trace is executed again before it is
//! written. If everything came out the same, its load values are all that is written of it (and what is no instruction and
//! no access, as [notes](crate::notes)); if not, it is compressed as any other, and registers are unknown until the trace has
//! them again.
//!
//! ```text
//! chunk      its notes stand after so many instructions and accesses; its records are load values;
//!            in place of accesses, the address of the first instruction
//! ```

use super::values::{ValueCache, ValueCompressor, ValueDecompressor};
use crate::Damage;
use crate::block::Records;
use crate::code::Section;
use crate::notes::{Cursor, Note, NoteReader, NoteWriter, put_number};
use crate::pack::Chunk;
use backsight_core::{Execution, Input};
use backsight_sim::{Elf, Hart, Inputs, Replay, Segment};
use std::collections::BTreeMap;

/// Instructions that are executed again in one go, at most.
const MOST_INSTRUCTIONS: u64 = 1 << 17;
/// Threads whose registers are kept.
const MOST_THREADS: usize = 256;
/// The first of the floating-point registers, and the register of their flags and rounding, as DWARF numbers them.
const F0: u16 = 32;
const FCSR: u16 = 4096 + 3;
/// All registers: x1 to x31, f0 to f31, fcsr.
const ALL: u128 = ((1 << 65) - 1) & !1;

/// What both sides know of the registers of threads.
#[derive(Clone, Debug, Default)]
struct Threads {
    current: u32,
    harts: BTreeMap<u32, Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    hart: Hart,
    /// Registers that were seen: x0 to x31, f0 to f31, fcsr.
    seen: u128,
    /// The address of the next instruction is known, too.
    located: bool,
}

impl Threads {
    /// Takes an item that was not executed again.
    fn see(&mut self, item: &Execution) {
        match *item {
            Execution::Thread(thread) => self.current = thread,
            Execution::Instruction(_) => {
                self.harts.remove(&self.current);
            }
            Execution::Input(Input::Register { number, value }) => self.register(number, value),
            _ => {}
        }
    }

    fn register(&mut self, number: u16, value: u64) {
        if self.harts.len() >= MOST_THREADS && !self.harts.contains_key(&self.current) {
            self.harts.clear();
        }
        let known = self.harts.entry(self.current).or_default();
        // Where the registers of a thread are given again, they are given all.
        if known.seen == ALL {
            *known = Known::default();
        }
        let bit = match number {
            0..F0 => {
                known.hart.set_x(number as u8, value);
                number
            }
            F0..64 => {
                known.hart.set_f((number - F0) as u8, value);
                number
            }
            FCSR => {
                known.hart.frm = (value >> 5) as u8 & 7;
                known.hart.fflags = value as u8 & 31;
                64
            }
            _ => return,
        };
        known.seen |= 1 << bit;
    }

    /// The registers of the thread that is about to execute the instruction at `address`, if they are known.
    fn hart(&self, address: u64) -> Option<Hart> {
        let known = self.harts.get(&self.current).filter(|known| known.seen == ALL)?;
        let mut hart = known.hart.clone();
        if !known.located {
            hart.pc = address;
        }
        (hart.pc == address).then_some(hart)
    }

    fn set(&mut self, hart: Hart) {
        self.harts.insert(self.current, Known { hart, seen: ALL, located: true });
    }
}

/// Is it an item that execution gives?
fn is_executed(item: &Execution) -> bool {
    matches!(item, Execution::Instruction(_) | Execution::Access(_))
}

/// Does it change what is known of registers?
fn changes_registers(item: &Execution) -> bool {
    matches!(item, Execution::Thread(_) | Execution::Input(Input::Register { .. }))
}

/// What entered from outside with an item.
fn outside(item: &Execution) -> Option<u64> {
    match *item {
        Execution::Input(Input::Result(value) | Input::Counter(value)) => Some(value),
        _ => None,
    }
}

fn segment(section: &Section) -> Segment<'_> {
    Segment { address: section.address, size: section.bytes.len() as u64, bytes: &section.bytes, flags: 1 }
}

/// The code, as what is executed again needs it.
fn program(sections: &[Section]) -> Elf<'_> {
    Elf {
        entry: 0,
        segments: sections.iter().map(segment).collect(),
        headers: 0,
        header_count: 0,
        bias: 0,
        executable_stack: false,
    }
}

/// A part of a trace.
#[derive(Debug)]
pub enum Part {
    /// It can be executed again.
    Executed(Box<Chunk>),
    /// It cannot.
    Items(Vec<Execution>),
}

/// Packs.
#[derive(Clone, Debug)]
pub struct UnifiedPacker {
    sections: Vec<Section>,
    threads: Threads,
    values: ValueCompressor,
    items: Vec<Execution>,
    instructions: u64,
    /// Some item of the part changes what is known of registers.
    changes: bool,
}

impl UnifiedPacker {
    /// For a program, with the cache of load values that both sides keep.
    pub fn new(sections: Vec<Section>, cache: ValueCache) -> Self {
        Self {
            sections,
            threads: Threads::default(),
            values: ValueCompressor::new(cache),
            items: Vec::new(),
            instructions: 0,
            changes: false,
        }
    }

    /// Takes an item. Gives the part before it, where one ends.
    pub fn push(&mut self, item: &Execution) -> Option<Part> {
        let is_instruction = matches!(item, Execution::Instruction(_));
        let ends = if is_instruction {
            self.changes || self.instructions >= MOST_INSTRUCTIONS
        } else {
            self.instructions > 0 && changes_registers(item)
        };
        let part = if ends { self.flush() } else { None };
        self.items.push(*item);
        self.instructions += u64::from(is_instruction);
        self.changes |= changes_registers(item);
        part
    }

    /// Ends a part.
    pub fn flush(&mut self) -> Option<Part> {
        let items = std::mem::take(&mut self.items);
        let instructions = std::mem::take(&mut self.instructions);
        self.changes = false;
        if items.is_empty() {
            return None;
        }
        if let Some(chunk) = self.execute(&items, instructions) {
            return Some(Part::Executed(Box::new(chunk)));
        }
        items.iter().for_each(|item| self.threads.see(item));
        Some(Part::Items(items))
    }

    /// Executes a part again; gives what it can be executed from, if all of it came out the same.
    fn execute(&mut self, items: &[Execution], instructions: u64) -> Option<Chunk> {
        let start = items.iter().find_map(|item| match item {
            Execution::Instruction(retired) => Some(retired.address.0),
            _ => None,
        })?;
        let hart = self.threads.hart(start)?;
        let program = program(&self.sections);
        let mut replay = Replay::new(&program, hart, Given { items, loads: 0, outside: 0 }, instructions);
        let mut expected = items.iter().filter(|item| is_executed(item));
        let mut differs = false;
        replay.run_with_accesses(&mut |item| {
            differs |= is_executed(&item) && expected.next() != Some(&item);
        });
        if differs || expected.next().is_some() {
            return None;
        }
        self.threads.set(replay.hart().clone());
        Some(self.write(items, (start, instructions)))
    }

    fn write(&mut self, items: &[Execution], (start, instructions): (u64, u64)) -> Chunk {
        let mut notes = NoteWriter::default();
        let mut executed = 0;
        for item in items {
            match item {
                Execution::Access(access) if access.store => {
                    self.values.store(access.address.0, access.size, access.value);
                }
                Execution::Access(access) => {
                    self.values.load(access.address.0, access.size, access.value);
                }
                Execution::Instruction(_) => {}
                item => notes.put(executed, &Note::Item(*item)),
            }
            executed += u64::from(is_executed(item));
        }
        let (bytes, bits) = self.values.take();
        let mut accesses = Vec::new();
        put_number(&mut accesses, start);
        let records = Records { bytes, bits, instructions };
        Chunk { notes: notes.take(), accesses, records, ..Chunk::default() }
    }
}

/// What enters a program, from the items of a part.
struct Given<'a> {
    items: &'a [Execution],
    loads: usize,
    outside: usize,
}

impl Inputs for Given<'_> {
    fn load(&mut self, _address: u64, _size: u8) -> Option<u64> {
        let rest = self.items.get(self.loads..)?;
        let is_load = |item: &Execution| matches!(item, Execution::Access(access) if !access.store);
        let at = rest.iter().position(is_load)?;
        self.loads += at + 1;
        let Execution::Access(access) = rest[at] else { return None };
        Some(access.value)
    }

    fn store(&mut self, _address: u64, _size: u8, _value: u64) {}

    fn outside(&mut self) -> Option<u64> {
        let rest = self.items.get(self.outside..)?;
        let (at, value) = rest.iter().enumerate().find_map(|(at, item)| Some((at, outside(item)?)))?;
        self.outside += at + 1;
        Some(value)
    }
}

/// Unpacks.
#[derive(Clone, Debug)]
pub struct UnifiedUnpacker {
    sections: Vec<Section>,
    threads: Threads,
    values: ValueDecompressor<'static>,
}

impl UnifiedUnpacker {
    /// With the program and the cache of the [`UnifiedPacker`].
    pub fn new(sections: Vec<Section>, cache: ValueCache) -> Self {
        let values = ValueDecompressor::new(cache, &[], 0);
        Self { sections, threads: Threads::default(), values }
    }

    /// Takes an item of a part that was not executed again.
    pub fn see(&mut self, item: &Execution) {
        self.threads.see(item);
    }

    /// Executes a part.
    pub fn unpack(&mut self, chunk: &Chunk, sink: &mut dyn FnMut(Execution)) -> Result<(), Damage> {
        let start = Cursor::new(&chunk.accesses).number()?;
        let hart = self.threads.hart(start).ok_or(Damage::Record("registers that are not known"))?;
        let mut notes = NoteReader::new(&chunk.notes)?;
        let mut inputs = Recorded {
            loads: self.values.clone().next_part(&chunk.records.bytes, chunk.records.bits),
            notes,
        };
        let program = program(&self.sections);
        let instructions = chunk.records.instructions;
        let mut replay = Replay::new(&program, hart, Lent(&mut inputs), instructions);
        let (mut executed, mut damaged) = (0, Ok(()));
        let mut give_notes = |executed: u64, sink: &mut dyn FnMut(Execution)| -> Result<(), Damage> {
            while let Some(note) = notes.next_at(executed)? {
                match note {
                    Note::Item(item) => sink(item),
                    _ => return Err(Damage::Record("a note on an instruction that was executed again")),
                }
            }
            Ok(())
        };
        give_notes(0, sink)?;
        let mut retired = 0;
        replay.run_with_accesses(&mut |item| {
            if is_executed(&item) && damaged.is_ok() {
                sink(item);
                executed += 1;
                retired += u64::from(matches!(item, Execution::Instruction(_)));
                // Notes on the last instruction come after its accesses.
                damaged = give_notes(executed, sink);
            }
        });
        damaged?;
        let hart = replay.hart().clone();
        if retired != instructions || !inputs.loads.is_empty() || notes.at() != u64::MAX {
            return Err(Damage::Record("a part that cannot be executed again"));
        }
        self.threads.set(hart);
        self.values = inputs.loads.next_part(&[], 0);
        Ok(())
    }
}

/// What enters a program, from a chunk.
struct Recorded<'a> {
    loads: ValueDecompressor<'a>,
    notes: NoteReader<'a>,
}

struct Lent<'r, 'a>(&'r mut Recorded<'a>);

impl Inputs for Lent<'_, '_> {
    fn load(&mut self, address: u64, size: u8) -> Option<u64> {
        self.0.loads.load(address, size).ok()
    }

    fn store(&mut self, address: u64, size: u8, value: u64) {
        self.0.loads.store(address, size, value);
    }

    fn outside(&mut self) -> Option<u64> {
        loop {
            let at = self.0.notes.at();
            let note = self.0.notes.next_at(at).ok()??;
            if let Note::Item(item) = note
                && let Some(value) = outside(&item)
            {
                return Some(value);
            }
        }
    }
}
