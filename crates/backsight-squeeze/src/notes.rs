//! Notes: what does not follow from the code and the path through it.
//!
//! Traps, contexts and threads; where the last instruction before a discontinuity would have gone. Each note stands at a
//! number of instructions since the note before. They are rare, and bytes are good enough.

use crate::Damage;
use backsight_core::leb128;
use backsight_core::{Access, Address, Context, Execution, Input, Mode, Privilege, Security, Trap, TrapKind};

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The instruction before goes on at this distance from its end, whatever comes next.
    Next(u64),
    /// The instruction before was taken if it seems not to be, and the other way round.
    Flip,
    /// Any item but an instruction.
    Item(Execution),
}

mod tag {
    pub const NEXT: u8 = 0;
    pub const FLIP: u8 = 1;
    pub const THREAD: u8 = 2;
    pub const CONTEXT: u8 = 3;
    pub const TRAP: u8 = 4;
    pub const GAP: u8 = 5;
    pub const ACCESS: u8 = 6;
    pub const RESULT: u8 = 7;
    pub const COUNTER: u8 = 8;
    pub const REGISTER: u8 = 9;
    pub const MEMORY: u8 = 10;
    pub const CLEARED: u8 = 11;
}

pub(crate) fn put_number(out: &mut Vec<u8>, value: u64) {
    leb128::write(value, |byte| out.push(byte));
}

/// A number of either sign, small ones in few bytes.
pub(crate) fn put_distance(out: &mut Vec<u8>, value: u64) {
    put_number(out, value << 1 ^ (value as i64 >> 63) as u64);
}

/// Bytes to be taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn byte(&mut self) -> Result<u8, Damage> {
        let (&first, rest) = self.bytes.split_first().ok_or(Damage::Record("a note that is cut off"))?;
        self.bytes = rest;
        Ok(first)
    }

    pub fn number(&mut self) -> Result<u64, Damage> {
        leb128::read(|| self.byte())?.ok_or(Damage::Record("a number of more than 64 bits"))
    }

    pub fn number32(&mut self) -> Result<u32, Damage> {
        u32::try_from(self.number()?).map_err(|_| Damage::Record("a number of more than 32 bits"))
    }

    pub fn distance(&mut self) -> Result<u64, Damage> {
        let value = self.number()?;
        Ok(value >> 1 ^ (value & 1).wrapping_neg())
    }

    pub fn slice(&mut self, length: u64) -> Result<&'a [u8], Damage> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (slice, rest) =
            self.bytes.split_at_checked(length).ok_or(Damage::Record("a part that is cut off"))?;
        self.bytes = rest;
        Ok(slice)
    }

    /// What was not taken yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Writes notes.
#[derive(Clone, Debug, Default)]
pub struct NoteWriter {
    bytes: Vec<u8>,
    at: u64,
}

impl NoteWriter {
    /// A note after this many instructions.
    pub fn put(&mut self, at: u64, note: &Note) {
        put_number(&mut self.bytes, at - self.at);
        self.at = at;
        match note {
            Note::Next(distance) => {
                self.bytes.push(tag::NEXT);
                put_distance(&mut self.bytes, *distance);
            }
            Note::Flip => self.bytes.push(tag::FLIP),
            Note::Item(item) => self.put_item(item),
        }
    }

    fn put_item(&mut self, item: &Execution) {
        let out = &mut self.bytes;
        match item {
            Execution::Thread(thread) => {
                out.push(tag::THREAD);
                put_number(out, u64::from(*thread));
            }
            Execution::Context(context) => {
                out.push(tag::CONTEXT);
                put_context(out, context);
            }
            Execution::Trap(trap) => {
                out.extend([tag::TRAP, u8::from(trap.kind == TrapKind::Interrupt)]);
                put_number(out, u64::from(trap.cause));
                put_number(out, trap.value);
                put_number(out, trap.return_address.0);
                put_number(out, trap.handler.0);
                put_number(out, trap.cycle);
            }
            Execution::Gap => out.push(tag::GAP),
            Execution::Access(access) => {
                let flags = u8::from(access.store) << 4 | u8::from(access.known) << 5;
                out.extend([tag::ACCESS, access.size & 15 | flags]);
                put_number(out, access.address.0);
                put_number(out, access.value);
            }
            Execution::Input(input) => put_input(out, input),
            Execution::Instruction(_) => unreachable!("instructions are not noted"),
        }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was written; positions begin at 0 again.
    pub fn take(&mut self) -> Vec<u8> {
        self.at = 0;
        std::mem::take(&mut self.bytes)
    }
}

fn put_input(out: &mut Vec<u8>, input: &Input) {
    let mut put = |tag: u8, numbers: &[u64]| {
        out.push(tag);
        numbers.iter().for_each(|&number| put_number(out, number));
    };
    match *input {
        Input::Result(value) => put(tag::RESULT, &[value]),
        Input::Counter(value) => put(tag::COUNTER, &[value]),
        Input::Register { number, value } => put(tag::REGISTER, &[number.into(), value]),
        Input::Memory { address, value, size } => put(tag::MEMORY, &[address.0, value, size.into()]),
        Input::Cleared { address, length } => put(tag::CLEARED, &[address.0, length]),
    }
}

fn take_input(kind: u8, bytes: &mut Cursor<'_>) -> Result<Input, Damage> {
    Ok(match kind {
        tag::RESULT => Input::Result(bytes.number()?),
        tag::COUNTER => Input::Counter(bytes.number()?),
        tag::REGISTER => Input::Register {
            number: u16::try_from(bytes.number()?)
                .map_err(|_| Damage::Record("a register number of more than 16 bits"))?,
            value: bytes.number()?,
        },
        tag::MEMORY => {
            let (address, value, size) = (Address(bytes.number()?), bytes.number()?, bytes.byte()?);
            Input::Memory { address, value, size }
        }
        tag::CLEARED => Input::Cleared { address: Address(bytes.number()?), length: bytes.number()? },
        _ => return Err(Damage::Record("a note of no known kind")),
    })
}

const SECURITIES: [Security; 4] = [Security::Secure, Security::NonSecure, Security::Root, Security::Realm];

fn put_context(out: &mut Vec<u8>, context: &Context) {
    let (family, level, security) = match context.privilege {
        Privilege::Arm { level, security } => (0, level, security as u8),
        // Executions know the exception level: Hyp mode is level 2.
        Privilege::Armv7 { security, .. } => (0, context.level(), security as u8),
        Privilege::Riscv(Mode(mode)) => (1, mode, 0),
        Privilege::Unknown => (2, 0, 0),
    };
    let security = SECURITIES.iter().position(|&known| known as u8 == security).unwrap_or(0) as u8;
    let flags = u8::from(context.wide) << 4
        | u8::from(context.vmid.is_some()) << 5
        | u8::from(context.context_id.is_some()) << 6;
    out.extend([family | security << 2 | flags, level]);
    for id in [context.vmid.map(u64::from), context.context_id].into_iter().flatten() {
        put_number(out, id);
    }
}

fn take_context(bytes: &mut Cursor<'_>) -> Result<Context, Damage> {
    let (flags, level) = (bytes.byte()?, bytes.byte()?);
    Ok(Context {
        privilege: match flags & 3 {
            0 => Privilege::Arm { level, security: SECURITIES[usize::from(flags >> 2 & 3)] },
            1 => Privilege::Riscv(Mode(level)),
            2 => Privilege::Unknown,
            _ => return Err(Damage::Record("a context of no known kind")),
        },
        wide: flags & 0x10 != 0,
        vmid: if flags & 0x20 != 0 { Some(bytes.number32()?) } else { None },
        context_id: if flags & 0x40 != 0 { Some(bytes.number()?) } else { None },
    })
}

/// Reads notes.
#[derive(Clone, Copy, Debug)]
pub struct NoteReader<'a> {
    bytes: Cursor<'a>,
    /// Where the next note stands; `u64::MAX` if there is none.
    at: u64,
}

impl<'a> NoteReader<'a> {
    /// The notes of a [`NoteWriter`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Damage> {
        let mut reader = Self { bytes: Cursor::new(bytes), at: 0 };
        reader.step()?;
        Ok(reader)
    }

    fn step(&mut self) -> Result<(), Damage> {
        self.at = if self.bytes.is_empty() {
            u64::MAX
        } else {
            let distance = self.bytes.number()?;
            self.at.checked_add(distance).ok_or(Damage::Record("a note that is too far away"))?
        };
        Ok(())
    }

    /// The number of instructions at which the next note stands; `u64::MAX` if there is none.
    #[inline]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The next note, if it stands at this number of instructions.
    pub fn next_at(&mut self, at: u64) -> Result<Option<Note>, Damage> {
        if self.at != at {
            return Ok(None);
        }
        let bytes = &mut self.bytes;
        let note = match bytes.byte()? {
            tag::NEXT => Note::Next(bytes.distance()?),
            tag::FLIP => Note::Flip,
            tag::THREAD => Note::Item(Execution::Thread(bytes.number32()?)),
            tag::CONTEXT => Note::Item(Execution::Context(take_context(bytes)?)),
            tag::TRAP => Note::Item(Execution::Trap(Trap {
                kind: match bytes.byte()? {
                    0 => TrapKind::Exception,
                    1 => TrapKind::Interrupt,
                    _ => return Err(Damage::Record("a trap that is neither exception nor interrupt")),
                },
                cause: bytes.number32()?,
                value: bytes.number()?,
                return_address: Address(bytes.number()?),
                handler: Address(bytes.number()?),
                cycle: bytes.number()?,
            })),
            tag::GAP => Note::Item(Execution::Gap),
            tag::ACCESS => {
                let flags = bytes.byte()?;
                Note::Item(Execution::Access(Access {
                    address: Address(bytes.number()?),
                    value: bytes.number()?,
                    size: flags & 15,
                    store: flags & 0x10 != 0,
                    known: flags & 0x20 != 0,
                }))
            }
            kind => Note::Item(Execution::Input(take_input(kind, bytes)?)),
        };
        self.step()?;
        Ok(Some(note))
    }
}
