//! Registers and memory of a log at any of its lines, and who wrote them.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use backsight_core::{Address, Located, Resume as _};
use backsight_tarmac::{
    Config, Decoder, Instruction, LINE, Line, Machine, MemoryLine, Packet, Register, Writer,
};

use super::index::StateIndex;
use crate::protocol::Configuration;
use crate::{Buffer, Error, Result, Source};

/// Bytes that are read at once.
const BLOCK: usize = 1 << 16;
/// Bytes of a part of a log that is kept, so that it is read once.
const MOST_KEPT: u64 = 1 << 24;
/// Lines of memory that are compared at once: where more changed, the first are named.
const MOST_CHANGED: usize = 1 << 16;

/// What is looked for in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A register of a core, by the name under which [`Machine::register`] has it.
    Register(u16, Register),
    /// Bytes of memory.
    Memory {
        /// The bytes.
        addresses: Range<u64>,
        /// Reads count, and writes.
        reads: bool,
        /// Writes count.
        writes: bool,
    },
}

/// A line of a log that wrote a register, or touched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The line, and the instruction it is of.
    pub writer: Writer,
    /// The core.
    pub core: u16,
    /// Of an access: the first byte of those that were touched, and up to the last one.
    pub address: u64,
    /// How many bytes.
    pub length: u64,
    /// It wrote.
    pub is_write: bool,
}

/// The states of a source that is a log.
///
/// ```
/// use backsight::states::States;
/// let log = b"0 clk IT (1) 00080000 d2800140 A EL3h : MOV x0,#10\n0 clk R X0 000000000000000a\n";
/// let capture = backsight::OpenOptions::new().protocol("tarmac").bytes(&log[..])?;
/// let (source, _) = capture.log().expect("a log");
/// let mut states = States::new(&capture, &source, None)?;
/// let machine = states.before(log.len() as u64)?;
/// assert_eq!(machine.registers(0).count(), 1);
/// # Ok::<(), backsight::Error>(())
/// ```
#[derive(Debug)]
pub struct States<'c> {
    buffer: &'c Buffer,
    config: Config,
    index: Arc<StateIndex>,
    most_memory: u64,
    at: Option<Standing>,
    text: Option<(usize, Vec<u8>)>,
}

/// A machine before a line.
#[derive(Debug)]
struct Standing {
    part: usize,
    offset: u64,
    machine: Machine,
    decoder: Decoder,
    last_core: u16,
}

impl<'c> States<'c> {
    /// Of a source, by its index if there is one: without, the log is read from its beginning.
    ///
    /// # Errors
    /// If the source is no log, or can be read once only.
    pub fn new(capture: &'c crate::Capture, source: &Source, index: Option<Arc<StateIndex>>) -> Result<Self> {
        let Configuration::Tarmac(config) = source.decoding() else {
            let why = "registers and memory are in Tarmac logs; of recordings with loads and stores, `backsight gdb` shows them";
            return Err(Error::Absent(format!("source {}: {why}", source.name())));
        };
        let Some(buffer) = capture.buffer(source.buffer()) else {
            return Err(Error::misuse(format!("buffer {}: there is none", source.buffer())));
        };
        let files = capture.description().buffers.iter().flat_map(|buffer| &buffer.files);
        if !files.into_iter().all(backsight_capture::FileRef::can_reopen) {
            let why = "it can be read once only: the state at a moment needs a file";
            return Err(Error::misuse(format!("buffer {}: {why}", buffer.name())));
        }
        let index = index.unwrap_or_else(|| Arc::new(StateIndex::nothing()));
        Ok(Self { buffer, config: **config, index, most_memory: u64::MAX, at: None, text: None })
    }

    /// Keeps at most so many bytes of memory: others are not known.
    #[must_use]
    pub fn most_memory(self, bytes: u64) -> Self {
        Self { most_memory: bytes, ..self }
    }

    /// The index.
    pub fn index(&self) -> &StateIndex {
        &self.index
    }

    /// Registers and memory before the line at an offset, or the first one after it; at the end if there is none.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn before(&mut self, offset: u64) -> Result<&Machine> {
        let (part, _) = self.index.part_at(offset);
        let at = match self.at.take() {
            Some(at) if at.part == part && at.offset <= offset => at,
            _ => self.beginning_of(part)?,
        };
        let Standing { part, offset: from, mut machine, mut decoder, mut last_core } = at;
        let mut reached = from;
        self.read(part, from, &mut |at, bytes| {
            let wanted = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
            let bytes = bytes.get(..wanted).unwrap_or_default();
            decoder.feed(bytes, &mut |packet| {
                last_core = packet.value.core;
                machine.push(&packet);
            });
            reached = at + bytes.len() as u64;
            if reached >= offset { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let at = Standing { part, offset: reached, machine, decoder, last_core };
        Ok(&self.at.insert(at).machine)
    }

    fn beginning_of(&self, part: usize) -> Result<Standing> {
        let offset = self.index.range(part).start;
        let machine = StateIndex::machine_at(&self.index, part, self.most_memory).ok_or_else(|| {
            Error::Absent("the index of states is damaged: `backsight index` makes it again".to_owned())
        })?;
        let decoder = Decoder::new(&self.config).starting_at(offset);
        Ok(Standing { part, offset, machine, decoder, last_core: 0 })
    }

    /// How often a read found other bytes than those that were there, before the part of the log that [`before`](Self::before) went to
    /// last, and in that part as far as it was read.
    pub fn contradictions(&self) -> u64 {
        let Some(at) = &self.at else { return 0 };
        self.index.contradictions_before(at.part) + at.machine.contradictions()
    }

    /// Who touched something last before an offset.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn last_before(&mut self, offset: u64, watched: &Watched) -> Result<Option<Touch>> {
        if let Watched::Register(core, register) = *watched {
            let contents = self.before(offset)?.register(core, register);
            let Some(writer) = contents.map(|contents| contents.writer) else { return Ok(None) };
            return Ok(Some(Touch { writer, core, address: 0, length: 0, is_write: true }));
        }
        let (last, _) = self.index.part_at(offset);
        for part in (0..=last).rev() {
            if part < last && !self.may_touch(part, watched) {
                continue;
            }
            let mut found = None;
            self.touches(part, 0..offset, watched, &mut |touch| {
                found = Some(touch);
                ControlFlow::Continue(())
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Who touches something first, from an offset on.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn next_from(&mut self, offset: u64, watched: &Watched) -> Result<Option<Touch>> {
        let (first, _) = self.index.part_at(offset);
        for part in first..=self.index.parts() {
            if part > first && !self.may_touch(part, watched) {
                continue;
            }
            let mut found = None;
            self.touches(part, offset..u64::MAX, watched, &mut |touch| {
                found = Some(touch);
                ControlFlow::Break(())
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The bytes of memory that are not the same at two offsets of the log, each with what was known of it: by address, at most so many
    /// lines of memory. The flag says whether there are more.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn memory_changes(&mut self, from: u64, to: u64) -> Result<(Vec<MemoryChange>, bool)> {
        let (from, to) = (from.min(to), from.max(to));
        let ((first, _), (last, _)) = (self.index.part_at(from), self.index.part_at(to));
        let mut numbers = BTreeSet::new();
        // What was touched in the parts, and in the first and the last as far as they were read.
        numbers.extend(self.before(from)?.own_lines());
        for part in first..last {
            let read = self.index.each_line(part, 0..u64::MAX, &mut |line| {
                numbers.insert(line.number);
                true
            });
            let is_cleared = self.index.parts.get(part).is_some_and(|part| part.is_cleared);
            if read.is_err() || is_cleared {
                let why = "the host may have changed all of memory in between: what changed is not known";
                return Err(Error::Absent(why.to_owned()));
            }
        }
        numbers.extend(self.before(to)?.own_lines());
        let numbers: Vec<u64> = numbers.into_iter().collect();
        let mut changes = Vec::new();
        for numbers in numbers.chunks(MOST_CHANGED) {
            let before = self.before(from)?;
            let before: Vec<MemoryLine> = numbers.iter().map(|number| before.line(*number)).collect();
            let after = self.before(to)?;
            for (number, before) in numbers.iter().zip(before) {
                let after = after.line(*number);
                for at in 0..LINE as usize {
                    let (old, new) = (before.byte(at), after.byte(at));
                    let (old, new) = (old.map(|(byte, _)| byte), new.map(|(byte, _)| byte));
                    if old != new {
                        if changes.len() >= MOST_CHANGED {
                            return Ok((changes, true));
                        }
                        changes.push(MemoryChange { address: number * LINE + at as u64, old, new });
                    }
                }
            }
        }
        Ok((changes, false))
    }

    /// The instruction whose line is at an offset, or the last one of the same core before that line.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn instruction_of(&self, offset: u64) -> Result<Option<u64>> {
        let (part, range) = self.index.part_at(offset);
        let mut decoder = Decoder::new(&self.config).starting_at(range.start);
        let mut last: Vec<(u16, u64)> = Vec::new();
        let mut found = None;
        self.read(part, range.start, &mut |_, bytes| {
            decoder.feed(bytes, &mut |Located { offset: at, value: Packet { core, line, .. }, .. }| {
                if at > offset || found.is_some() {
                    return;
                }
                if let Line::Instruction(it) = line {
                    last.retain(|known| known.0 != core);
                    last.push((core, it.address));
                }
                if at == offset {
                    found = Some(last.iter().find(|known| known.0 == core).map(|known| known.1));
                }
            });
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match found.flatten() {
            // The instruction is in the part before.
            None if part > 0 && found.is_some() => {
                let before = self.index.registers_after(part - 1);
                Ok(before.and_then(|machine| machine.only_instruction()))
            }
            found => Ok(found),
        }
    }

    /// The core of the last line that [`before`](Self::before) has read.
    pub fn last_core(&self) -> u16 {
        self.at.as_ref().map_or(0, |at| at.last_core)
    }

    /// The first line of an instruction of a core at this address, from an offset on that a line begins at.
    pub(super) fn line_of(
        &self,
        from: u64,
        core: u16,
        address: Address,
    ) -> Result<Option<(u64, Instruction)>> {
        let (part, _) = self.index.part_at(from);
        let mut found = None;
        for part in part..=self.index.parts() {
            let from = from.max(self.index.range(part).start);
            let mut decoder = Decoder::new(&self.config).starting_at(from);
            self.read(part, from, &mut |_, bytes| {
                decoder.feed(bytes, &mut |packet| match packet.value.line {
                    Line::Instruction(it)
                        if found.is_none() && packet.value.core == core && it.address == address.0 =>
                    {
                        found = Some((packet.offset, it));
                    }
                    _ => {}
                });
                if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if found.is_some() {
                break;
            }
        }
        Ok(found)
    }

    /// May a part have touched what is watched?
    fn may_touch(&self, part: usize, watched: &Watched) -> bool {
        // What comes after the last part was not looked at.
        let Some(known) = self.index.parts.get(part) else { return true };
        // What was touched before all of memory was lost is not among the changes.
        if known.is_cleared {
            return true;
        }
        match watched {
            Watched::Memory { addresses, reads, .. } => self.index.may_touch(part, addresses, !reads),
            Watched::Register(core, register) => {
                let Some(machine) = self.index.registers_after(part) else { return true };
                let contents = machine.register(*core, *register);
                contents.is_some_and(|contents| contents.writer.offset >= known.start)
            }
        }
    }

    /// The lines of a part, at offsets in a range, that touch something.
    fn touches(
        &mut self,
        part: usize,
        offsets: Range<u64>,
        watched: &Watched,
        each: &mut dyn FnMut(Touch) -> ControlFlow<()>,
    ) -> Result {
        let start = self.index.range(part).start;
        let mut decoder = Decoder::new(&self.config).starting_at(start);
        let is_register = matches!(watched, Watched::Register(..));
        let mut machine = match is_register {
            true => self.beginning_of(part)?.machine,
            false => Machine::new(0),
        };
        let mut last: Vec<(u16, u64)> = Vec::new();
        self.keep(part)?;
        self.read(part, start, &mut |at, bytes| {
            let mut flow = ControlFlow::Continue(());
            decoder.feed(bytes, &mut |packet| {
                let Located { offset, value: Packet { core, line, .. }, .. } = packet;
                if flow.is_break() || offset >= offsets.end {
                    return;
                }
                if is_register {
                    machine.push(&packet);
                }
                let is_inside = offset >= offsets.start;
                let writer = || Writer {
                    offset,
                    instruction: last.iter().find(|known| known.0 == core).map(|known| known.1),
                };
                match (line, watched) {
                    (Line::Instruction(it), _) => match last.iter_mut().find(|known| known.0 == core) {
                        Some(known) => known.1 = it.address,
                        None => last.push((core, it.address)),
                    },
                    (Line::Register(_), Watched::Register(of, register))
                        if is_inside && core == *of && machine.written() == Some(*register) =>
                    {
                        let (writer, is_write) = (writer(), true);
                        flow = each(Touch { writer, core, address: 0, length: 0, is_write });
                    }
                    (Line::Memory(memory), Watched::Memory { addresses, reads, writes })
                        if is_inside && !memory.aborted =>
                    {
                        let wanted = if memory.write { *writes } else { *reads };
                        let touched = (0..16_u64).filter(|at| memory.data.touched >> at & 1 == 1);
                        let mut hit = touched.map(|at| memory.address.wrapping_add(at));
                        let mut hit = hit.by_ref().filter(|address| addresses.contains(address));
                        if wanted && let Some(first) = hit.next() {
                            let length = hit.last().unwrap_or(first) - first + 1;
                            let (writer, is_write) = (writer(), memory.write);
                            flow = each(Touch { writer, core, address: first, length, is_write });
                        }
                    }
                    _ => {}
                }
            });
            let is_over = flow.is_break() || at + bytes.len() as u64 >= offsets.end;
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    /// Keeps the text of a part, if it is not too long.
    fn keep(&mut self, part: usize) -> Result {
        let range = self.index.range(part);
        if self.text.as_ref().is_some_and(|(kept, _)| *kept == part) || range.end - range.start > MOST_KEPT {
            return Ok(());
        }
        let mut text = Vec::new();
        self.read(part, range.start, &mut |_, bytes| {
            text.extend_from_slice(bytes);
            ControlFlow::Continue(())
        })?;
        self.text = Some((part, text));
        Ok(())
    }

    /// Reads a part from an offset on, block by block: where each begins, and its bytes.
    fn read(&self, part: usize, from: u64, each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>) -> Result {
        let range = self.index.range(part);
        if let Some((_, text)) = self.text.as_ref().filter(|(kept, _)| *kept == part) {
            let start = usize::try_from(from.saturating_sub(range.start)).unwrap_or(usize::MAX);
            let mut at = from;
            for block in text.get(start..).unwrap_or_default().chunks(BLOCK) {
                if each(at, block).is_break() {
                    break;
                }
                at += block.len() as u64;
            }
            return Ok(());
        }
        let mut reader = self.buffer.open_at(from)?.take(range.end.saturating_sub(from));
        let (mut block, mut at) = (vec![0; BLOCK], from);
        loop {
            let count = match reader.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(backsight_capture::Error::io(self.buffer.name(), &error).into()),
            };
            if each(at, block.get(..count).unwrap_or_default()).is_break() {
                return Ok(());
            }
            at += count as u64;
        }
    }
}

/// A byte of memory that is not the same at two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryChange {
    /// Where it is.
    pub address: u64,
    /// What it was, if that was known.
    pub old: Option<u8>,
    /// What it is, if that is known.
    pub new: Option<u8>,
}
