//! What changes in one hart.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::SourceCode;
use backsight::core::{AddressSpace, Cause};
use backsight::flow::{AccessKind, TracedAccess};
use backsight::steps::{Batch, Bytes, Note, Step};

use super::{Change, Kind, REGISTERS, Value, WaveMemory, WaveOptions};

/// Instructions that wait for the next time, so that they can be spread.
const MOST_HELD: usize = 1 << 16;

/// Changes that are handed on together.
const BATCH: usize = 1 << 12;

/// Functions whose names are kept.
const MOST_NAMES: usize = 1 << 16;

/// Exceptions within exceptions.
const MOST_EXCEPTIONS: usize = 64;

/// How a hart is followed.
pub(super) struct Following<'o> {
    pub options: &'o WaveOptions,
    pub has_time: bool,
    /// Ticks of timestamps in a second.
    pub frequency: Option<u64>,
}

/// Bits of a register, by its name.
pub(super) fn bits_of(name: &str) -> u8 {
    match name.as_bytes().first().map(u8::to_ascii_lowercase) {
        Some(b'v' | b'q' | b'z') => 128,
        Some(b'r' | b'c' | b'f') => 32,
        _ => 64,
    }
}

/// The name by which logs' registers are kept.
fn canonical(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let number = |prefix: &str| lower.strip_prefix(prefix)?.parse::<u8>().ok();
    match (number("r"), number("w"), number("e"), number("q")) {
        (Some(number @ 0..=12), ..) | (_, Some(number), ..) | (_, _, Some(number), _) => format!("x{number}"),
        (.., Some(number)) => format!("v{number}"),
        _ => match lower.as_str() {
            "xsp" | "wsp" => "sp".to_owned(),
            "lr" => "r14".to_owned(),
            "msp" => "r13".to_owned(),
            "psr" => "cpsr".to_owned(),
            _ => lower,
        },
    }
}

/// What changes, in order.
pub(super) struct Lane<'l, 'c> {
    following: &'l Following<'l>,
    code: SourceCode<'c>,
    space: AddressSpace,
    names: HashMap<u64, Arc<str>>,
    /// The numbers of registers, by their names.
    registers: BTreeMap<String, usize>,
    pub written: Vec<bool>,
    /// Bytes of memory that are waves.
    bytes: BTreeMap<u64, Option<u8>>,
    exceptions: Vec<Arc<str>>,
    nothing: Arc<str>,
    /// The number of the next instruction.
    number: u64,
    /// The latest time, and what waits for the next: each with the number of its instruction among those that wait.
    time: Option<u64>,
    held: Vec<(u32, u32, Value)>,
    held_steps: u32,
    /// What is seen, and what will be at the time that is written.
    shown: Vec<Value>,
    next: Vec<Option<Value>>,
    now: Option<u64>,
    out: Vec<Change>,
    pub instructions: u64,
    pub untimed: u64,
}

impl<'l, 'c> Lane<'l, 'c> {
    pub fn new(following: &'l Following<'l>, code: SourceCode<'c>, signals: usize) -> Self {
        let names = following.options.registers.iter().enumerate();
        let memory = following.options.memory.iter();
        let bytes = memory.flat_map(|memory| memory.addresses()).map(|address| (address, None));
        Self {
            following,
            code,
            space: AddressSpace::ANY,
            names: HashMap::new(),
            registers: names.map(|(index, name)| (canonical(name), REGISTERS + index)).collect(),
            written: vec![false; following.options.registers.len()],
            bytes: bytes.collect(),
            exceptions: Vec::new(),
            nothing: "".into(),
            number: 0,
            time: None,
            held: Vec::new(),
            held_steps: 0,
            shown: vec![Value::Unknown; signals],
            next: vec![None; signals],
            now: None,
            out: Vec::new(),
            instructions: 0,
            untimed: 0,
        }
    }

    pub fn batch(
        &mut self,
        batch: &Batch,
        send: &mut dyn FnMut(Vec<Change>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut notes = batch.notes.iter().peekable();
        for (index, step) in batch.steps.iter().enumerate() {
            while let Some((_, note)) = notes.next_if(|(before, _)| *before as usize <= index) {
                self.note(note);
            }
            self.step(step);
        }
        notes.for_each(|(_, note)| self.note(note));
        if self.out.len() >= BATCH { send(std::mem::take(&mut self.out)) } else { ControlFlow::Continue(()) }
    }

    pub fn finish(&mut self, send: &mut dyn FnMut(Vec<Change>) -> ControlFlow<()>) {
        // After the last time, an instruction is taken to last a tick.
        let time = *self.time.get_or_insert(0);
        self.release(Some(time.saturating_add(u64::from(self.held_steps))));
        self.show();
        // A receiver that does not take them has gone.
        let _ = send(std::mem::take(&mut self.out));
    }

    fn step(&mut self, step: &Step) {
        self.instructions += 1;
        if self.following.has_time {
            if self.held_steps as usize >= MOST_HELD {
                self.untimed += u64::from(self.held_steps);
                let time = *self.time.get_or_insert(0);
                self.release(Some(time));
            }
            self.held_steps += 1;
        } else {
            self.at(self.number);
        }
        self.number += 1;
        let function = self.name_of(step);
        self.set(Kind::Function as usize, Value::Text(function));
        self.set(Kind::Pc as usize, Value::Number(step.address.0.into(), 0));
        let opcode = if step.is_fetched { Value::Number(step.opcode.into(), 0) } else { Value::Unknown };
        self.set(Kind::Opcode as usize, opcode);
        let exception = self.exceptions.last().unwrap_or(&self.nothing).clone();
        self.set(Kind::Exception as usize, Value::Text(exception));
        if step.returns {
            self.exceptions.pop();
        }
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::Time(time) if self.following.has_time => {
                let time = match self.following.frequency {
                    Some(frequency) => {
                        let nanoseconds = u128::from(*time) * 1_000_000_000 / u128::from(frequency.max(1));
                        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
                    }
                    None => *time,
                };
                if self.time.is_none() {
                    // What came before the first time is at it.
                    self.time = Some(time);
                }
                self.release(Some(time));
                self.time = Some(time);
            }
            Note::Number(number) => self.number = *number,
            Note::Space(space) => {
                self.space = *space;
                self.names.clear();
            }
            Note::Depth(depth) => self.set_next(Kind::Depth as usize, Value::Number((*depth).into(), 0)),
            // Nothing returns from a reset.
            Note::Exception { cause: Cause::Arm(0) | Cause::Armv7(8) | Cause::ArmM(1), .. } => {
                self.exceptions.clear();
            }
            Note::Exception { cause, .. } => {
                if self.exceptions.len() < MOST_EXCEPTIONS {
                    self.exceptions.push(cause.to_string().into());
                }
            }
            Note::Register(register, bytes) => {
                if let Some(&signal) = self.registers.get(&register.name().as_str().to_ascii_lowercase()) {
                    self.written
                        .iter_mut()
                        .skip(signal - REGISTERS)
                        .take(1)
                        .for_each(|written| *written = true);
                    self.set(signal, value_of(bytes));
                }
            }
            Note::Access(access) => self.access(access),
            Note::Time(_) | Note::Gap | Note::AccessesLost => {}
        }
    }

    fn access(&mut self, access: &TracedAccess) {
        let Some(address) = access.address().filter(|_| !access.has_failed()) else { return };
        if self.bytes.is_empty() || !matches!(access.kind(), AccessKind::Load | AccessKind::Store) {
            return;
        }
        let mut is_seen = false;
        for index in 0..u64::from(access.size().min(8)) {
            if let Some(byte) = self.bytes.get_mut(&address.0.wrapping_add(index)) {
                *byte = access.value().map(|value| (value >> (8 * index)) as u8);
                is_seen = true;
            }
        }
        let memory = if is_seen { self.following.options.memory.as_slice() } else { &[] };
        let first = REGISTERS + self.following.options.registers.len();
        for (index, memory) in memory.iter().enumerate() {
            let bytes = memory.addresses().enumerate().map(|(at, address)| (at, self.bytes.get(&address)));
            let value = bytes.fold((0_u128, 0_u128), |(number, unknown), (at, byte)| match byte {
                Some(Some(byte)) => (number | u128::from(*byte) << (8 * at), unknown),
                _ => (number, unknown | 0xFF << (8 * at)),
            });
            self.set(first + index, Value::Number(value.0, value.1));
        }
    }

    /// A wave has another value with the instruction that was given last.
    fn set(&mut self, signal: usize, value: Value) {
        match self.following.has_time {
            true => self.held.push((self.held_steps.saturating_sub(1), signal as u32, value)),
            false => self.put(signal, value),
        }
    }

    /// The same with the next instruction.
    fn set_next(&mut self, signal: usize, value: Value) {
        match self.following.has_time {
            true => self.held.push((self.held_steps, signal as u32, value)),
            false => {
                self.at(self.number);
                self.put(signal, value);
            }
        }
    }

    /// It is this time: what waits is spread over the time since the last one.
    fn release(&mut self, until: Option<u64>) {
        let (Some(from), count) = (self.time, u64::from(self.held_steps.max(1))) else { return };
        let ticks = until.map_or(0, |until| until.saturating_sub(from));
        let steps = self.held_steps;
        let mut held = std::mem::take(&mut self.held);
        let mut later = Vec::new();
        for (step, signal, value) in held.drain(..) {
            if step >= steps && steps > 0 {
                // It belongs to the next instruction.
                later.push((0, signal, value));
                continue;
            }
            let after = u128::from(ticks) * u128::from(step) / u128::from(count);
            self.at(from.saturating_add(after as u64));
            self.put(signal as usize, value);
        }
        self.held = held;
        self.held.append(&mut later);
        self.held_steps = 0;
    }

    fn put(&mut self, signal: usize, value: Value) {
        if let Some(next) = self.next.get_mut(signal) {
            *next = Some(value);
        }
    }

    /// What follows is at this time.
    fn at(&mut self, time: u64) {
        if self.now.is_none_or(|now| now < time) {
            self.show();
            self.now = Some(time);
        }
    }

    /// What has another value at the time that is written.
    fn show(&mut self) {
        let Some(time) = self.now else { return };
        for (signal, (next, shown)) in self.next.iter_mut().zip(&mut self.shown).enumerate() {
            if let Some(value) = next.take()
                && value != *shown
            {
                self.out.push(Change { time, signal: signal as u32, value: value.clone() });
                *shown = value;
            }
        }
    }

    fn name_of(&mut self, step: &Step) -> Arc<str> {
        if let Some(name) = self.names.get(&step.address.0) {
            return name.clone();
        }
        let image = self.code.names_at(self.space, step.address);
        let symbol = image.symbolise(self.space, step.address);
        let name: Arc<str> = match symbol {
            Some(symbol) => symbol.name.into(),
            None => "?".into(),
        };
        if self.names.len() >= MOST_NAMES {
            self.names.clear();
        }
        self.names.insert(step.address.0, name.clone());
        name
    }
}

impl WaveMemory {
    fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        let address = self.address;
        (0..u64::from(self.size.min(16))).map(move |index| address.wrapping_add(index))
    }
}

fn value_of(bytes: &Bytes) -> Value {
    let mask = |bits: u16| {
        (0..16).filter(|index| bits >> index & 1 == 1).fold(0_u128, |all, index| all | 0xFF << (8 * index))
    };
    // What is beyond the bytes that are known of, nobody says.
    let width = 16 - bytes.touched.leading_zeros();
    let all = u16::MAX.checked_shr(16 - width.min(16)).unwrap_or(0);
    Value::Number(bytes.number() & mask(bytes.known), mask(all & !bytes.known))
}
