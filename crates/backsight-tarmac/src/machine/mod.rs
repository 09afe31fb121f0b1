//! Registers and memory, as far as the lines of a log have told.
//!
//! Nothing is made up: what no line has said is not known, what the host of a semihosting call may have changed is not known
//! afterwards, nor what a line that makes no sense may have written, and what a line marks as unknown is unknown.

mod layer;
mod memory;
mod registers;
mod saved;

use std::collections::BTreeMap;
use std::sync::Arc;

use backsight_core::Located;
use backsight_core::describe::Name;

use self::memory::Memory;
use self::registers::Core;
use crate::names::{Class, Register};
use crate::packet::{Bad, Instruction, Line, Packet, State};

pub use self::layer::{LayerBlock, LayerLine, lines_of_block};
pub use self::memory::{Earlier, LINE, MemoryLine};

/// Cores that are kept: what a log says of others is not known.
const MOST_CORES: usize = 1 << 10;

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

/// Registers of all cores, and memory.
#[derive(Clone, Debug)]
pub struct Machine {
    cores: BTreeMap<u16, Core>,
    memory: Memory,
    /// The register that the last line wrote, or that holds it.
    written: Option<Register>,
}

impl Machine {
    /// Nothing is known. Of memory, at most so many bytes are kept: others are not known.
    pub fn new(most_memory: u64) -> Self {
        let most_lines = usize::try_from(most_memory / size_of::<MemoryLine>() as u64).unwrap_or(usize::MAX);
        Self { cores: BTreeMap::new(), memory: Memory::new(most_lines.clamp(1, 1 << 31)), written: None }
    }

    /// The same, where memory was known to somebody before the lines that come.
    #[must_use]
    pub fn after(mut self, earlier: Arc<dyn Earlier>) -> Self {
        self.memory.earlier = Some(earlier);
        self
    }

    /// Takes the next line of the log.
    #[inline]
    pub fn push(&mut self, packet: &Located<Packet>) {
        let Located { offset, value: Packet { core, ref line, .. }, .. } = *packet;
        self.written = None;
        match line {
            Line::Instruction(instruction) => self.instruction(core, instruction),
            Line::Register(write) => {
                let Some(core) = self.core(core) else { return };
                let writer = Writer { offset, instruction: core.last.map(|(address, _)| address) };
                self.written = Some(core.write(write, writer));
            }
            Line::Memory(memory) if !memory.aborted => {
                let instruction = self.core(core).and_then(|core| core.last).map(|(address, _)| address);
                self.memory.access(memory, Writer { offset, instruction });
            }
            Line::Bad(bad) => self.lose(core, *bad),
            Line::Memory(_) | Line::Exception(_) | Line::Branch(_) | Line::Text(_) => {}
        }
    }

    /// What a line that makes no sense may have written is not known afterwards.
    #[cold]
    fn lose(&mut self, core: u16, bad: Bad) {
        let (registers, memory) = match bad {
            // Nothing comes after it.
            Bad::Cut => return,
            Bad::Opcode | Bad::State => return,
            Bad::Register => (true, false),
            Bad::Size | Bad::Picture => (false, true),
            Bad::Address | Bad::Mark | Bad::Value | Bad::TooLong => (true, true),
        };
        if registers && let Some(core) = self.core(core) {
            core.forget(|_| true);
        }
        if memory {
            self.memory.clear();
        }
    }

    #[inline]
    fn core(&mut self, number: u16) -> Option<&mut Core> {
        if self.cores.len() >= MOST_CORES && !self.cores.contains_key(&number) {
            return None;
        }
        Some(self.cores.entry(number).or_default())
    }

    /// The cores that the log has named.
    pub fn cores(&self) -> impl Iterator<Item = u16> {
        self.cores.keys().copied()
    }

    /// A register of a core, by the name under which it is kept: W, S and D registers are part of X and V.
    pub fn register(&self, core: u16, register: Register) -> Option<&Contents> {
        self.cores.get(&core)?.get(&register)
    }

    /// All registers of a core of which something is known, with their names.
    pub fn registers(&self, core: u16) -> impl Iterator<Item = (Name, &Contents)> {
        let core = self.cores.get(&core);
        let is_narrow = core.and_then(|core| core.last).is_some_and(|(_, state)| state != State::A64);
        core.into_iter().flat_map(Core::all).map(move |(register, contents)| {
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

    /// The instruction set that a core is in.
    pub fn instruction_set(&self, core: u16) -> Option<State> {
        self.cores.get(&core)?.last.map(|(_, state)| state)
    }

    /// The address of the last instruction, if there is one core.
    pub fn only_instruction(&self) -> Option<u64> {
        let mut cores = self.cores.values();
        let last = cores.next()?.last;
        last.filter(|_| cores.next().is_none()).map(|(address, _)| address)
    }

    /// A byte of memory, if it is known, and who wrote it, if that was seen.
    pub fn byte(&self, address: u64) -> Option<(u8, Option<Writer>)> {
        self.memory.byte(address)
    }

    /// What is known of [`LINE`] bytes of memory: the number of a line is its address divided by that.
    pub fn line(&self, number: u64) -> MemoryLine {
        self.memory.line(number)
    }

    /// The lines of memory of which something was said since [earlier](Self::after), in no order.
    pub fn own_lines(&self) -> impl Iterator<Item = u64> {
        self.memory.own_numbers()
    }

    /// How often a read found other bytes than those that were there.
    pub const fn contradictions(&self) -> u64 {
        self.memory.contradictions
    }

    /// Was there more memory than is kept?
    pub const fn is_full(&self) -> bool {
        self.memory.is_full
    }

    #[inline]
    fn instruction(&mut self, number: u16, it: &Instruction) {
        let Some(core) = self.core(number) else { return };
        core.last = Some((it.address, it.state));
        if it.executed && is_semihosting(it) {
            self.call_host(number, if it.state == State::A64 { 8 } else { 4 });
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
            known.forget(|register| *register == general(0));
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
            Some((start, length)) => self.memory.forget(start, length),
            None => self.memory.clear(),
        }
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
