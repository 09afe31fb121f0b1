//! Execution as a Tarmac log.

use std::collections::VecDeque;
use std::io::Write as _;

use backsight_core::{Address, AddressSpace, Cause, Context, Isa, Privilege};
use backsight_flow::{AccessKind, Event, Range, TracedAccess};
use backsight_image::Naming;
use backsight_isa::Class;
use backsight_tarmac::{AccessLines, Head, Instruction, InstructionLine, Mode, ModeKind, State};

use super::instruction_text::InstructionText;
use super::instructions::steps;
use crate::SourceCode;

/// Instructions that are held back: data trace has accesses some instructions after their own.
const MOST_HELD: usize = 256;

/// The lines of one hart.
#[derive(Debug, Default)]
pub(super) struct TarmacLines {
    core: Option<u16>,
    time: u64,
    /// The trace says what time it is: else instructions are counted.
    is_timed: bool,
    instructions: u64,
    mode: Mode,
    /// The address of each instruction, and its lines.
    held: VecDeque<(u64, Vec<u8>)>,
    /// The end of the last range, where a branch was taken that may lead there, and its instruction set.
    taken: Option<(Address, State)>,
    text: InstructionText,
}

impl TarmacLines {
    /// Of a hart; `None` where there is one only.
    pub fn new(core: Option<u16>) -> Self {
        Self { core, ..Self::default() }
    }

    /// Takes an event. What its lines are comes some instructions later.
    pub fn event(&mut self, event: &Event, code: &SourceCode<'_>, space: AddressSpace, out: &mut Vec<u8>) {
        match event {
            Event::Range(range) => self.range(range, code, space, out),
            Event::Context(context, isa) => self.context(context, *isa, out),
            Event::Timestamp { value, .. } => {
                self.time = self.time.max(*value);
                self.is_timed = true;
            }
            Event::Access(access) => self.access(access),
            Event::Exception { cause, return_address, .. } => self.exception(*cause, *return_address, out),
            event if event.is_break() => {
                self.taken = None;
                if self.instructions > 0 {
                    let head = self.head();
                    self.put(|lines| _ = writeln!(lines, "{head}GAP something is missing here"), out);
                }
            }
            _ => {}
        }
    }

    /// There is no more.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.held.drain(..).for_each(|(_, lines)| out.extend(lines));
    }

    fn head(&self) -> Head {
        Head {
            time: if self.is_timed { self.time } else { self.time.max(self.instructions) },
            core: self.core,
        }
    }

    /// Puts lines behind those of the newest instruction.
    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        match self.held.back_mut() {
            Some((_, lines)) => write(lines),
            None => write(out),
        }
    }

    fn context(&mut self, context: &Context, isa: Isa, out: &mut Vec<u8>) {
        let kind = |level| match (level, isa) {
            (level, Isa::A64) => ModeKind::Level(level, level > 0),
            (0, _) => ModeKind::Usr,
            (1, _) => ModeKind::Svc,
            (2, _) => ModeKind::Hyp,
            _ => ModeKind::Mon,
        };
        self.mode = match context.privilege {
            Privilege::Arm { level, security } => Mode { kind: kind(level), security: Some(security) },
            Privilege::Armv7 { security, hyp } => {
                let kind = if hyp { ModeKind::Hyp } else { ModeKind::Unknown };
                Mode { kind, security: Some(security) }
            }
            Privilege::Unknown | Privilege::Riscv(_) => Mode::default(),
        };
        if let Some(id) = context.context_id {
            let head = self.head();
            self.put(|lines| _ = writeln!(lines, "{head}R CONTEXTIDR {id:08x}"), out);
        }
    }

    fn range(&mut self, range: &Range, code: &SourceCode<'_>, space: AddressSpace, out: &mut Vec<u8>) {
        let state = match range.isa {
            Isa::A64 => State::A64,
            Isa::A32 => State::A32,
            _ => State::T32,
        };
        if let Some((end, _)) = self.taken.take().filter(|(end, _)| *end == range.start) {
            // That it was taken shows in nothing else.
            let head = self.head();
            let letter = if state == State::A64 {
                "O"
            } else if state == State::A32 {
                "A"
            } else {
                "T"
            };
            self.put(|lines| _ = writeln!(lines, "{head}BR ({:08x}) {letter}", end.0), out);
        }
        let is_branch = matches!(range.class, Class::DirectBranch | Class::IndirectBranch);
        let (mut text, mut number) = (std::mem::take(&mut self.text), 0);
        steps(range, space, code, |step| {
            number += 1;
            self.instructions += 1;
            let bytes = step.bytes;
            let opcode = match (range.isa, step.size) {
                (_, 2) => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
                (Isa::T32 | Isa::ThumbEe, _) => u32::from_le_bytes(bytes).rotate_left(16),
                _ => u32::from_le_bytes(bytes),
            };
            let executed = number < range.instructions || range.executed;
            let (address, size, mode) = (step.address.0, step.size, self.mode);
            let it = Instruction { address, opcode, size, state, executed, fetched: true, mode };
            let words = text.text(Naming::default(), code, space, range.isa, &step).words;
            let line = InstructionLine {
                head: self.head(),
                number: self.instructions,
                instruction: &it,
                text: &words,
            };
            let mut lines = Vec::with_capacity(96);
            // Memory takes everything.
            let _ = writeln!(lines, "{line}");
            if self.held.len() >= MOST_HELD
                && let Some((_, first)) = self.held.pop_front()
            {
                out.extend(first);
            }
            self.held.push_back((address, lines));
        });
        self.text = text;
        self.taken = (is_branch && range.executed).then_some((range.end, state));
    }

    fn access(&mut self, access: &TracedAccess) {
        let head = self.head();
        let (Some(address), size @ 1..=8) = (access.address(), access.size()) else { return };
        let mut newest = self.held.iter_mut().rev();
        let found = match access.instruction() {
            Some(instruction) => newest.find(|(address, _)| *address == instruction.0),
            None => newest.next(),
        };
        let Some((_, lines)) = found else { return };
        let line = |write| AccessLines {
            head,
            address: address.0,
            size,
            value: access.value(),
            write,
            aborted: access.has_failed(),
        };
        // What is neither a load nor a store may be both.
        let (reads, writes) = match access.kind() {
            AccessKind::Load => (true, false),
            AccessKind::Store => (false, true),
            _ => (true, true),
        };
        // Memory takes everything.
        if reads {
            let _ = write!(lines, "{}", line(false));
        }
        if writes {
            let _ = write!(lines, "{}", line(true));
        }
    }

    fn exception(&mut self, cause: Cause, return_address: Option<Address>, out: &mut Vec<u8>) {
        self.taken = None;
        let head = self.head();
        let address = return_address.map_or(0, |address| address.0);
        let name = match cause {
            Cause::Arm(number) => name_of(number).to_owned(),
            cause => cause.name().unwrap_or("Other").chars().filter(char::is_ascii_alphanumeric).collect(),
        };
        let number = cause.number();
        self.put(|lines| _ = writeln!(lines, "{head}E {address:08x} {number:08x} CoreEvent_{name}"), out);
    }
}

/// The name of an exception of ETMv4 in logs.
const fn name_of(number: u16) -> &'static str {
    match number {
        0x00 => "Reset",
        0x02 => "SWI",
        0x03 => "Undefined",
        0x04 => "SError",
        0x0B => "PrefetchAbort",
        0x0C => "DataAbort",
        0x0E => "IRQ",
        0x0F => "FIQ",
        _ => "Other",
    }
}
