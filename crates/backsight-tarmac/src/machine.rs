//! Registers and memory, as far as the lines of a log have told.
//!
//! Nothing is made up: what no line has said is not known, what the host of a semihosting call may have changed is not known
//! afterwards, and what a line marks as unknown is unknown.

use std::collections::BTreeMap;

use backsight_core::Located;
use backsight_core::describe::Name;

use crate::names::{Bank, Class, Register};
use crate::packet::{Instruction, Line, Memory, Packet, RegisterWrite, State};

/// Bytes of memory that are kept together.
const LINE: u64 = 64;
/// Bytes of memory whose writer is kept together.
const GRANULE: u64 = 8;

/// The line that wrote something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// Offset of the line in the log.
    pub offset: u64,
    /// Address of the instruction; `None` for what was there before the first one.
    pub instruction: Option<u64>,
}

/// A register.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its bytes, the least significant first; `None` for those that are not known.
    pub bytes: Vec<Option<u8>>,
    /// Who wrote it last.
    pub writer: Writer,
}

/// Some bytes of memory.
#[derive(Clone, Debug)]
struct MemoryLine {
    bytes: [u8; LINE as usize],
    known: u64,
    writers: [Option<Writer>; (LINE / GRANULE) as usize],
}

/// A core.
#[derive(Clone, Debug, Default)]
struct Core {
    registers: BTreeMap<Register, Contents>,
    /// The instruction whose lines these are, and its instruction set.
    last: Option<(u64, State)>,
    /// It has registers that the other state calls otherwise: r13 to r15, and x13 to x30.
    has_narrow: bool,
    has_wide: bool,
    /// Stack pointers and link registers were written with a bank, and without.
    has_banked: bool,
    has_plain: bool,
}

/// Registers of all cores, and memory.
#[derive(Clone, Debug)]
pub struct Machine {
    cores: BTreeMap<u16, Core>,
    memory: BTreeMap<u64, MemoryLine>,
    most_lines: usize,
    contradictions: u64,
    is_full: bool,
    /// The register that the last line wrote, or that holds it.
    written: Option<Register>,
}

impl Machine {
    /// Nothing is known. Of memory, at most so many bytes are kept: others are not known.
    pub fn new(most_memory: u64) -> Self {
        let most_lines = usize::try_from(most_memory / size_of::<MemoryLine>() as u64).unwrap_or(usize::MAX);
        let (cores, memory) = Default::default();
        Self {
            cores,
            memory,
            most_lines: most_lines.max(1),
            contradictions: 0,
            is_full: false,
            written: None,
        }
    }

    /// Takes the next line of the log.
    pub fn push(&mut self, packet: &Located<Packet>) {
        let Located { offset, value: Packet { core, line, .. }, .. } = *packet;
        self.written = None;
        match line {
            Line::Instruction(instruction) => self.instruction(core, &instruction),
            Line::Register(write) => {
                let core = self.cores.entry(core).or_default();
                let writer = Writer { offset, instruction: core.last.map(|(address, _)| address) };
                self.written = Some(core.write(&write, writer));
            }
            Line::Memory(memory) => {
                let instruction = self.cores.entry(core).or_default().last.map(|(address, _)| address);
                self.access(&memory, Writer { offset, instruction });
            }
            Line::Exception(_) | Line::Branch(_) | Line::Text(_) | Line::Bad(_) => {}
        }
    }

    /// A register of a core, in any of its names. W, S and D registers are part of X and V.
    pub fn register(&self, core: u16, register: Register) -> Option<&Contents> {
        self.cores.get(&core)?.registers.get(&register)
    }

    /// All registers of a core of which something is known, with their names.
    pub fn registers(&self, core: u16) -> impl Iterator<Item = (Name, &Contents)> {
        let core = self.cores.get(&core);
        let is_narrow = core.and_then(|core| core.last).is_some_and(|(_, state)| state != State::A64);
        core.into_iter().flat_map(|core| &core.registers).map(move |(register, contents)| {
            let shown = match register.class {
                Class::X if is_narrow && register.number < 13 => Register { class: Class::R, ..*register },
                _ => *register,
            };
            (shown.name(), contents)
        })
    }

    /// The register that the last line wrote, by the name that [`Machine::register`] has it by; `None` if it wrote none.
    pub const fn written(&self) -> Option<Register> {
        self.written
    }

    /// A byte of memory, if it is known, and who wrote it, if that was seen.
    pub fn byte(&self, address: u64) -> Option<(u8, Option<Writer>)> {
        let line = self.memory.get(&(address / LINE))?;
        let at = (address % LINE) as usize;
        (line.known >> at & 1 == 1).then(|| (line.bytes[at], line.writers[at / GRANULE as usize]))
    }

    /// How often a read found other bytes than those that were there.
    pub const fn contradictions(&self) -> u64 {
        self.contradictions
    }

    /// Was there more memory than is kept?
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    fn instruction(&mut self, core: u16, it: &Instruction) {
        let known = self.cores.entry(core).or_default();
        known.last = Some((it.address, it.state));
        if it.executed && is_semihosting(it) {
            self.call_host(core, if it.state == State::A64 { 8 } else { 4 });
        }
    }

    /// The host may have changed the result, and what the operation says of memory.
    #[cold]
    fn call_host(&mut self, core: u16, word: u64) {
        let general = |number| Register::new(Class::X, number);
        let value = |register: Option<&Contents>| {
            let bytes = register?.bytes.get(..word as usize)?;
            bytes.iter().rev().try_fold(0, |sum, byte| Some(sum << 8 | u64::from((*byte)?)))
        };
        let (operation, block) =
            (value(self.register(core, general(0))), value(self.register(core, general(1))));
        if let Some(known) = self.cores.get_mut(&core) {
            known.registers.remove(&general(0));
        }
        let (Some(operation), Some(block)) = (operation, block) else { return self.memory.clear() };
        // Memory of a machine with the most significant byte first would be read wrongly: it is looked at for these alone.
        let parameter = |number: u64| {
            let address = block.wrapping_add(word * number);
            (0..word)
                .rev()
                .try_fold(0, |sum, byte| Some(sum << 8 | u64::from(self.byte(address.wrapping_add(byte))?.0)))
        };
        let changed = match operation {
            0x06 => parameter(1).zip(parameter(2)),
            0x0D => parameter(0).zip(parameter(2)),
            // How long the command line is, the host says: nobody knows.
            0x15 => None,
            0x16 => parameter(0).map(|address| (address, 4 * word)),
            0x30 => Some((block, 2 * word)),
            _ => return,
        };
        match changed {
            Some((start, length)) if start.checked_add(length).is_some() => self.forget(start, length),
            _ => self.memory.clear(),
        }
    }

    fn forget(&mut self, start: u64, length: u64) {
        let Some(last) = length.checked_sub(1).map(|length| start + length) else { return };
        for (number, line) in self.memory.range_mut(start / LINE..=last / LINE) {
            for at in 0..LINE {
                if (start..=last).contains(&(number * LINE + at)) {
                    line.known &= !(1 << at);
                }
            }
        }
    }

    fn access(&mut self, memory: &Memory, writer: Writer) {
        if memory.aborted {
            return;
        }
        let mut contradicts = false;
        for index in 0..16_u64 {
            let bit = 1_u16 << index;
            if memory.data.touched & bit == 0 {
                continue;
            }
            let is_known = memory.data.known & bit != 0;
            let address = memory.address.wrapping_add(index);
            if !memory.write && !is_known {
                continue;
            }
            let Some(line) = self.line(address / LINE) else { continue };
            let at = (address % LINE) as usize;
            let byte = memory.data.bytes[index as usize];
            let was_known = line.known >> at & 1 == 1;
            let slot = &mut line.writers[at / GRANULE as usize];
            if memory.write {
                *slot = Some(writer);
            } else if was_known && line.bytes[at] != byte {
                // Somebody else wrote it.
                *slot = None;
                contradicts = true;
            }
            line.bytes[at] = byte;
            line.known = line.known & !(1 << at) | u64::from(is_known) << at;
        }
        self.contradictions += u64::from(contradicts);
    }

    fn line(&mut self, number: u64) -> Option<&mut MemoryLine> {
        let is_full = self.memory.len() >= self.most_lines && !self.memory.contains_key(&number);
        self.is_full |= is_full;
        let new = || MemoryLine { bytes: [0; LINE as usize], known: 0, writers: [None; 8] };
        (!is_full).then(|| self.memory.entry(number).or_insert_with(new))
    }
}

/// Is it one of the instructions that call the host?
const fn is_semihosting(it: &Instruction) -> bool {
    match (it.state, it.size) {
        (State::A64, _) => it.opcode == 0xD45E_0000,
        (State::A32, _) => it.opcode & 0x0FFF_FFFF == 0x0F12_3456 || it.opcode & 0x0FFF_FFFF == 0x010F_0070,
        (State::T32, 2) => matches!(it.opcode, 0xBEAB | 0xDFAB | 0xBABC),
        (State::T32, _) => false,
    }
}

/// What a write of a register means for the one that holds it.
struct Held {
    register: Register,
    /// Where in it the first byte is.
    offset: usize,
    /// So many bytes become zero where not all of them are written.
    zeros: usize,
    /// All bytes from this one on are not known afterwards.
    forget: usize,
}

impl Core {
    /// Gives the register that holds what is written.
    fn write(&mut self, write: &RegisterWrite, writer: Writer) -> Register {
        let held = self.held(write);
        if held.register.class == Class::X && held.register.number >= 13 {
            self.has_wide = true;
            if std::mem::take(&mut self.has_narrow) {
                self.registers.retain(|register, _| register.class != Class::R || is_own(register));
            }
        }
        if matches!(held.register.class, Class::Sp)
            || held.register.class == Class::R && held.register.number > 12
        {
            self.forget_other_names(held.register);
        }
        let contents = self.registers.entry(held.register).or_default();
        let mut reach = held.zeros;
        for index in (0..16).filter(|index| write.data.touched >> index & 1 == 1) {
            reach = reach.max(held.offset + index + 1);
        }
        if contents.bytes.len() < reach {
            contents.bytes.resize(reach, None);
        }
        contents.bytes.iter_mut().skip(held.forget).for_each(|byte| *byte = None);
        contents.bytes.iter_mut().take(held.zeros).for_each(|byte| *byte = Some(0));
        for index in (0..16).filter(|index| write.data.touched >> index & 1 == 1) {
            let is_known = write.data.known >> index & 1 == 1;
            if let Some(byte) = contents.bytes.get_mut(held.offset + index) {
                *byte = is_known.then_some(write.data.bytes[index]);
            }
        }
        contents.writer = writer;
        held.register
    }

    /// A register without a bank is that of the current mode, which is not told: it may be any of those with one.
    fn forget_other_names(&mut self, written: Register) {
        let is_plain = written.bank == Bank::NONE;
        self.has_plain |= is_plain;
        self.has_banked |= !is_plain;
        if !(self.has_plain && self.has_banked) {
            return;
        }
        self.registers.retain(|other, _| {
            let is_same = (other.class, other.number) == (written.class, written.number);
            !is_same || (other.bank == Bank::NONE) == (written.bank == Bank::NONE)
        });
    }

    /// The register that holds what is written.
    fn held(&mut self, write: &RegisterWrite) -> Held {
        let RegisterWrite { register, offset, width, .. } = *write;
        let Register { class, number, bank } = register;
        let is_wide = self.last.is_none_or(|(_, state)| state == State::A64);
        let (offset, whole) = (usize::from(offset), width > 0);
        let held = |class, number, bank, zeros| Held {
            register: Register { class, number, bank },
            offset,
            zeros,
            forget: usize::MAX,
        };
        match class {
            Class::W => held(Class::X, number, Bank::NONE, if whole { 8 } else { 0 }),
            Class::Wsp => held(Class::Sp, 0, bank, if whole { 8 } else { 0 }),
            Class::R if number < 13 && (number < 8 || bank != Bank::new(b"fiq")) => {
                Held { forget: 4, ..held(Class::X, number, Bank::NONE, 0) }
            }
            Class::R => {
                // The same registers have other names in AArch64.
                self.has_narrow = true;
                if std::mem::take(&mut self.has_wide) {
                    self.registers.retain(|register, _| register.class != Class::X || register.number < 13);
                }
                held(Class::R, number, bank, 0)
            }
            Class::S | Class::D if !is_wide => {
                let (size, count) = if class == Class::S { (4, 4) } else { (8, 2) };
                let part = size * usize::from(number % count);
                Held { offset: offset + part, ..held(Class::V, number / count, Bank::NONE, 0) }
            }
            Class::S | Class::D => {
                let zeros = if whole { 16 } else { 0 };
                Held { forget: 16, ..held(Class::V, number, Bank::NONE, zeros) }
            }
            Class::V if is_wide => Held { forget: 16, ..held(Class::V, number, Bank::NONE, 0) },
            Class::Z => held(Class::V, number, Bank::NONE, 0),
            Class::System(name) => {
                let lower = name.as_str().to_ascii_lowercase();
                // A shorter value than before is all there is of it.
                let forget = if whole { usize::from(width) } else { usize::MAX };
                Held { forget, ..held(Class::System(Name::new(lower.as_bytes())), 0, bank, 0) }
            }
            _ => held(class, number, bank, 0),
        }
    }
}

/// Is it a register of AArch32 that AArch64 has not got?
fn is_own(register: &Register) -> bool {
    register.number == 15
}
