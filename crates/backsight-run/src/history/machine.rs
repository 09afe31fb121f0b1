//! Executing a recording again, item by item.
//!
//! What an instruction computes follows from registers, what it loads is in the recording. Where a source is not known,
//! what comes of it is not known either; where the recording says something else than execution gives, the recording is
//! believed, and the registers of that thread are not known from there on.

use super::memory::{Byte, Memory};
use super::operands::{ALL, FCSR, Operands, Set, x};
use backsight_core::{Access, Execution, Input, Isa, Retired};
use backsight_sim::decode::{Kind, Op, decode};
use backsight_sim::{Hart, Inputs, step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Threads whose registers are kept.
const MOST_THREADS: usize = 1024;
/// Accesses of one instruction that are kept until it is executed; no RV64 instruction has more than two.
const MOST_ACCESSES: usize = 4;
/// Decoded instructions that are kept.
const OPS: usize = 1 << 12;
/// Numbers of registers in DWARF.
pub(super) const F0: u16 = 32;
pub(super) const FFLAGS: u16 = 4096 + 1;
pub(super) const FRM: u16 = 4096 + 2;
pub(super) const FCSR_NUMBER: u16 = 4096 + 3;
const A0: u8 = 10;

/// The registers of a thread, as far as they are known.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    pub hart: Hart,
    pub known: Set,
}

impl Default for Registers {
    fn default() -> Self {
        Self { hart: Hart::default(), known: x(0) }
    }
}

impl Registers {
    fn forget(&mut self) {
        self.known = x(0);
    }

    fn set(&mut self, number: u16, value: u64) {
        match number {
            1..F0 => self.hart.set_x(number as u8, value),
            F0..64 => self.hart.set_f((number - F0) as u8, value),
            FCSR_NUMBER => {
                self.hart.frm = (value >> 5) as u8 & 7;
                self.hart.fflags = value as u8 & 31;
                self.known |= FCSR;
                return;
            }
            _ => return,
        }
        self.known |= 1 << number;
    }

    fn set_x(&mut self, number: u8, value: u64) {
        self.hart.set_x(number, value);
        self.known |= x(number);
    }

    /// What is in a register, by its number in DWARF.
    pub fn get(&self, number: u16) -> Option<u64> {
        let (bit, value) = match number {
            0..F0 => (1 << number, self.hart.x(number as u8)),
            F0..64 => (1 << number, self.hart.f((number - F0) as u8)),
            FFLAGS => (FCSR, u64::from(self.hart.fflags)),
            FRM => (FCSR, u64::from(self.hart.frm)),
            FCSR_NUMBER => (FCSR, u64::from(self.hart.frm) << 5 | u64::from(self.hart.fflags)),
            _ => return None,
        };
        (self.known & bit != 0).then_some(value)
    }
}

/// What is known at one moment.
#[derive(Clone, Default)]
pub(super) struct State {
    pub memory: Memory,
    threads: BTreeMap<u32, Arc<Registers>>,
    pub thread: u32,
    /// Instructions before.
    pub instructions: u64,
    /// All that was executed since the beginning is in the recording, and the registers at the beginning: so they are from our
    /// simulator, whose counters count instructions.
    whole: bool,
    /// What did not come out as the recording has it.
    pub disagreements: u64,
    /// Loads that brought something else than was known to be there.
    pub surprises: u64,
}

impl State {
    /// The registers of a thread.
    pub fn registers(&self, thread: u32) -> Option<&Registers> {
        self.threads.get(&thread).map(|registers| &**registers)
    }

    fn current(&mut self) -> &mut Registers {
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&self.thread) {
            self.threads.clear();
        }
        Arc::make_mut(self.threads.entry(self.thread).or_default())
    }
}

/// What was in memory at the beginning: what the program's file puts there, and what was read before it was written.
#[derive(Clone, Default)]
pub(super) struct Beginning {
    pub program: Memory,
    pub read: Memory,
    /// The program read something else than its file has there: the file does not count.
    pub other_program: bool,
}

impl Beginning {
    fn get(&self, address: u64) -> Option<u8> {
        match self.read.get(address) {
            Byte::Known(byte) => Some(byte),
            _ if self.other_program => None,
            _ => match self.program.get(address) {
                Byte::Known(byte) => Some(byte),
                _ => None,
            },
        }
    }

    /// What a byte of a state is.
    pub fn byte(&self, memory: &Memory, address: u64) -> Option<u8> {
        match memory.get(address) {
            Byte::Known(byte) => Some(byte),
            Byte::Lost => None,
            Byte::Untouched => self.get(address),
        }
    }

    /// A byte that nothing had happened to was read.
    fn learn(&mut self, address: u64, byte: u8) -> bool {
        match self.read.get(address) {
            Byte::Known(known) => known == byte,
            _ => {
                self.other_program |=
                    matches!(self.program.get(address), Byte::Known(other) if other != byte);
                self.read.put(address, byte);
                true
            }
        }
    }
}

/// Executes.
pub(super) struct Machine {
    /// Instructions are executed: registers are known.
    pub executes: bool,
    pub state: State,
    /// An instruction whose accesses are not all there yet.
    pending: Option<Retired>,
    accesses: Vec<Access>,
    counter: Option<u64>,
    ops: Box<[Option<(Retired, Op, Operands)>]>,
}

impl Machine {
    /// For a recording that begins in this instruction set.
    pub fn new(isa: Isa) -> Self {
        Self {
            executes: isa == Isa::Rv64,
            state: State { whole: true, ..State::default() },
            pending: None,
            accesses: Vec::new(),
            counter: None,
            ops: vec![None; OPS].into(),
        }
    }

    /// Goes on from a state, which is between two items that [`settle`](Self::settle) was called between.
    pub fn resume(&mut self, state: State) {
        (self.state, self.pending, self.counter) = (state, None, None);
        self.accesses.clear();
    }

    /// Takes an item.
    pub fn push(&mut self, item: &Execution, beginning: &mut Beginning) {
        match item {
            Execution::Access(access) => {
                if self.accesses.len() >= MOST_ACCESSES {
                    self.apply(beginning);
                }
                return self.accesses.push(*access);
            }
            Execution::Input(Input::Counter(value)) if self.pending.is_some() => {
                return self.counter = Some(*value);
            }
            _ => self.settle(beginning),
        }
        match *item {
            Execution::Thread(thread) => self.state.thread = thread,
            Execution::Instruction(retired) => {
                if self.state.instructions == 0 {
                    self.state.whole &= self.state.current().known == ALL;
                }
                self.pending = Some(retired);
            }
            Execution::Input(Input::Result(value)) if self.executes => {
                self.state.current().set_x(A0, value);
            }
            Execution::Input(Input::Register { number, value }) if self.executes => {
                self.state.current().set(number, value);
            }
            Execution::Input(Input::Memory { address, value, size }) => {
                if let Some(bytes) = value.to_le_bytes().get(..usize::from(size)) {
                    self.state.memory.write(address.0, bytes);
                }
            }
            Execution::Input(Input::Cleared { address, length }) => {
                self.state.memory.clear(address.0, length)
            }
            Execution::Gap => {
                self.state.memory.forget();
                self.state.threads.clear();
                self.state.whole = false;
            }
            _ => {}
        }
    }

    /// Executes what waits for its accesses: no more of them come.
    pub fn settle(&mut self, beginning: &mut Beginning) {
        if let Some(retired) = self.pending.take() {
            if self.executes {
                self.execute(&retired, beginning);
            }
            self.state.instructions += 1;
            self.counter = None;
        }
        self.apply(beginning);
    }

    /// Accesses change what is known of memory.
    fn apply(&mut self, beginning: &mut Beginning) {
        for access in self.accesses.drain(..) {
            let memory = &mut self.state.memory;
            let bytes = access.value.to_le_bytes();
            let Some(bytes) = bytes.get(..usize::from(access.size)) else { continue };
            match (access.known, access.store) {
                (true, true) => memory.write(access.address.0, bytes),
                (true, false) => {
                    let surprising = read(memory, beginning, &access, bytes);
                    self.state.surprises += u64::from(surprising);
                }
                (false, true) => memory.lose(access.address.0, access.size),
                (false, false) => {}
            }
        }
    }

    fn decoded(&mut self, retired: &Retired) -> (Op, Operands) {
        let slot = (retired.address.0 / 2) as usize % OPS;
        if let Some((known, op, operands)) = &self.ops[slot]
            && (known.address, known.opcode, known.size) == (retired.address, retired.opcode, retired.size)
        {
            return (*op, *operands);
        }
        let mut op = decode(retired.opcode as u16, (retired.opcode >> 16) as u16);
        if op.size != retired.size {
            // A file that makes no sense.
            op.kind = Kind::Illegal;
        }
        let operands = Operands::of(&op);
        self.ops[slot] = Some((*retired, op, operands));
        (op, operands)
    }

    fn execute(&mut self, retired: &Retired, beginning: &Beginning) {
        let (op, operands) = self.decoded(retired);
        let (instructions, whole) = (self.state.instructions, self.state.whole);
        if is_store(&op) && self.accesses.is_empty() {
            // It may have written anywhere.
            self.state.memory.forget();
        }
        self.state.current();
        let State { memory, threads, thread, disagreements, .. } = &mut self.state;
        let Some(registers) = threads.get_mut(thread).map(Arc::make_mut) else { return };
        learn_operands(registers, &op, &self.accesses);
        let known = registers.known & operands.reads == operands.reads;
        let counter = op.kind == Kind::Csr && (0xC00..=0xC02).contains(&(op.opcode >> 20));
        match op.kind {
            Kind::Ecall => registers.known &= !x(A0),
            // Nobody knows what it does.
            _ if operands.writes == ALL => registers.forget(),
            _ if counter && self.counter.is_some() => {
                registers.set_x(op.rd, self.counter.unwrap_or_default());
            }
            // Only where the kernel is ours are counters what execution gives.
            _ if counter && !whole => registers.known &= !operands.writes,
            _ if known => {
                registers.hart.pc = retired.address.0;
                registers.hart.retired = instructions;
                let atomic = (op.kind == Kind::Atomic).then_some((&*memory, beginning));
                let mut given =
                    Given { accesses: &self.accesses, atomic, counter: self.counter, wrong: false };
                let stored = self.accesses.iter().any(|access| access.store);
                let done = step(&mut registers.hart, &op, stored, &mut given);
                let wrong = given.wrong || !given.accesses.is_empty();
                match done {
                    Ok(()) if !wrong && registers.hart.pc == retired.next.0 => {
                        registers.known |= operands.writes
                    }
                    Ok(()) => {
                        *disagreements += 1;
                        registers.forget();
                    }
                    // What it loaded is not known.
                    Err(_) => registers.known &= !operands.writes,
                }
            }
            _ => registers.known = registers.known & !operands.writes | x(0),
        }
    }
}

/// Does it always store?
fn is_store(op: &Op) -> bool {
    use Kind::*;
    match op.kind {
        Sb | Sh | Sw | Sd | Fsw | Fsd => true,
        // LR and SC.
        Atomic => !matches!(op.opcode >> 27, 0x02 | 0x03),
        _ => false,
    }
}

/// A load shows what is in memory. Was something else known to be there?
fn read(memory: &mut Memory, beginning: &mut Beginning, access: &Access, bytes: &[u8]) -> bool {
    if memory.number(access.address.0, access.size) == Some(access.value) {
        return false;
    }
    let mut surprising = false;
    for (n, &byte) in bytes.iter().enumerate() {
        let address = access.address.0.wrapping_add(n as u64);
        let as_known = match memory.get(address) {
            Byte::Known(known) => known == byte,
            Byte::Lost => false,
            Byte::Untouched => beginning.learn(address, byte),
        };
        // Where it is another value, something wrote it that nobody recorded.
        if !as_known {
            surprising |= memory.get(address) != Byte::Lost;
            memory.put(address, byte);
        }
    }
    surprising
}

/// Where an access was says what the base register was; a whole register that was stored, what was in it.
fn learn_operands(registers: &mut Registers, op: &Op, accesses: &[Access]) {
    use Kind::*;
    let Some(access) = accesses.first() else { return };
    let missing = |registers: &Registers, set: Set| registers.known & set == 0;
    let offset = match op.kind {
        Lb | Lh | Lw | Ld | Lbu | Lhu | Lwu | Sb | Sh | Sw | Sd | Flw | Fld | Fsw | Fsd => {
            i64::from(op.imm) as u64
        }
        Atomic => 0,
        _ => return,
    };
    if missing(registers, x(op.rs1)) {
        registers.set_x(op.rs1, access.address.0.wrapping_sub(offset));
    }
    if access.store && access.known && access.size == 8 {
        match op.kind {
            Sd if missing(registers, x(op.rs2)) => registers.set_x(op.rs2, access.value),
            Fsd if missing(registers, 1 << (32 + op.rs2)) => {
                registers.set(F0 + u16::from(op.rs2), access.value)
            }
            _ => {}
        }
    }
}

/// What an instruction loads, from the recording; what it stores must be what the recording has.
struct Given<'a> {
    accesses: &'a [Access],
    /// Where an atomic instruction loads from if the recording does not say it: QEMU shows its store only.
    atomic: Option<(&'a Memory, &'a Beginning)>,
    counter: Option<u64>,
    wrong: bool,
}

impl Inputs for Given<'_> {
    fn load(&mut self, address: u64, size: u8) -> Option<u64> {
        if let Some((first, rest)) = self.accesses.split_first()
            && !first.store
        {
            self.accesses = rest;
            self.wrong |= (first.address.0, first.size) != (address, size);
            return first.known.then_some(first.value);
        }
        let (memory, beginning) = self.atomic?;
        let byte = |n: u8| beginning.byte(memory, address.wrapping_add(u64::from(n))).map(u64::from);
        (0..size).try_fold(0, |value, n| Some(value | byte(n)? << (8 * n)))
    }

    fn store(&mut self, address: u64, size: u8, value: u64) {
        let Some((first, rest)) = self.accesses.split_first() else { return self.wrong = true };
        self.accesses = rest;
        self.wrong |= !first.store || (first.address.0, first.size) != (address, size);
        self.wrong |= first.known && first.value != value;
    }

    fn outside(&mut self) -> Option<u64> {
        self.counter
    }
}
