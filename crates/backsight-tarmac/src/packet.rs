//! What a line says.

use backsight_core::describe::Name;
use backsight_core::{Describe, Field, Text, Value};

use crate::names::Register;

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The time of the line, or of the one before it that has one. One with a point counts millionths.
    pub time: u64,
    /// The core that the line is about; 0 where it does not say.
    pub core: u16,
    /// What it says.
    pub line: Line,
}

const _: () = assert!(size_of::<Packet>() <= 88);

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// An instruction was reached.
    Instruction(Instruction),
    /// A register was written. A long one comes in parts.
    Register(RegisterWrite),
    /// Memory was read or written.
    Memory(Memory),
    /// An exception, or a change of mode that comes with one.
    Exception(Exception),
    /// A branch was taken, to this address.
    Branch(u64),
    /// Something else, that begins with this word.
    Text(Name),
    /// It makes no sense.
    Bad(Bad),
}

/// An instruction that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its virtual address.
    pub address: u64,
    /// Its opcode as a number: of T32, the first halfword in the upper half. 0 if it could not be fetched.
    pub opcode: u32,
    /// Bytes of it.
    pub size: u8,
    /// Its instruction set.
    pub state: State,
    /// Its condition did not fail, as far as the log says.
    pub executed: bool,
    /// Its opcode was fetched.
    pub fetched: bool,
    /// The mode that it ran in.
    pub mode: Mode,
}

/// An instruction set, as logs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `A`: A32.
    A32,
    /// `T`, `T16`, `T32`: T32.
    T32,
    /// `O`: A64.
    A64,
}

impl State {
    /// Does it have the registers of AArch64?
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::A64)
    }

    /// Does it have opcodes of 32 bits alone?
    pub(crate) const fn is_wide_opcode(self) -> bool {
        !matches!(self, Self::T32)
    }

    /// Its name in the manuals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A32 => "A32",
            Self::T32 => "T32",
            Self::A64 => "A64",
        }
    }
}

/// A mode with its security state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// The mode.
    pub kind: ModeKind,
    /// Secure, Non-secure, Root or Realm, where the log says.
    pub security: Option<backsight_core::Security>,
}

/// A mode of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the manual's names")]
pub enum ModeKind {
    /// The log does not say.
    #[default]
    Unknown,
    Usr,
    Fiq,
    Irq,
    Svc,
    Mon,
    Abt,
    Hyp,
    Und,
    Sys,
    /// An exception level of AArch64, with its own stack pointer or that of EL0.
    Level(u8, bool),
    /// M profile.
    Thread,
    /// M profile.
    Handler,
}

/// At most 16 bytes, the lowest address or the least significant one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// What they are; 0 where that is not known.
    pub bytes: [u8; 16],
    /// The ones that are read or written: bit i for byte i.
    pub touched: u16,
    /// Those of them whose contents are known.
    pub known: u16,
}

impl Bytes {
    /// The value of the first 8 bytes.
    pub fn low(&self) -> u64 {
        self.part(0)
    }

    /// The value of 8 bytes from this one on.
    pub fn part(&self, first: usize) -> u64 {
        let mut part = [0; 8];
        let bytes = self.bytes.get(first..).unwrap_or_default();
        bytes.iter().zip(&mut part).for_each(|(from, to)| *to = *from);
        u64::from_le_bytes(part)
    }

    /// All of them as a number.
    pub const fn number(&self) -> u128 {
        u128::from_le_bytes(self.bytes)
    }

    /// Is all that is touched known?
    pub const fn is_known(&self) -> bool {
        self.known == self.touched
    }
}

/// Bytes of a register that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterWrite {
    /// The register.
    pub register: Register,
    /// Where in it the first byte is.
    pub offset: u8,
    /// The line speaks of so many bytes of the register from byte 0 on; 0 if only of those that are here.
    pub width: u16,
    /// Its bytes, least significant first.
    pub data: Bytes,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The virtual address of the first byte.
    pub address: u64,
    /// The bytes in the order of their addresses.
    pub data: Bytes,
    /// It writes.
    pub write: bool,
    /// It faulted: nothing was transferred.
    pub aborted: bool,
    /// A picture of 16 bytes: sizes of accesses are lost.
    pub picture: bool,
    /// The machine has the most significant byte first.
    pub big_endian: bool,
}

impl Memory {
    /// Bytes of the access.
    pub const fn size(&self) -> u32 {
        self.data.touched.count_ones()
    }

    /// The value of some of its bytes, at most 8, and whether all of it is known. Parts of a long access are numbers of their own.
    pub fn part(&self, first: usize, size: usize) -> (u64, bool) {
        let mask = (u16::MAX >> (16 - size.clamp(1, 8))) << first;
        let (value, unused) = (self.data.part(first), 64 - 8 * size.clamp(1, 8));
        let value = if self.big_endian { value.swap_bytes() >> unused } else { value & u64::MAX >> unused };
        (value, self.data.known & mask == mask)
    }

    /// The value of an access of at most 8 bytes.
    pub fn value(&self) -> u64 {
        let (value, size) = (self.data.low(), self.size());
        match self.big_endian && size > 0 && size <= 8 {
            true => value.swap_bytes() >> (64 - 8 * size),
            false => value,
        }
    }
}

/// An exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// What the log has for its address: of the instruction, or where it returns to.
    pub address: Option<u64>,
    /// Its number, as it stands: of an exception, of a vector.
    pub number: Option<u64>,
    /// What it is.
    pub kind: ExceptionKind,
    /// What the log calls it.
    pub name: Name,
}

/// What an exception is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the manual's names")]
pub enum ExceptionKind {
    /// The mode changes; the exception itself has a line of its own.
    ModeChange,
    Reset,
    /// SVC, HVC or SMC.
    Call,
    Undefined,
    PrefetchAbort,
    DataAbort,
    Irq,
    Fiq,
    /// A system error.
    SystemError,
    /// A synchronous exception: its syndrome says which.
    Synchronous,
    /// One whose name is not known.
    Other,
}

/// Why a line makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// A hexadecimal number was expected.
    Address,
    /// An opcode has 4 or 8 digits.
    Opcode,
    /// An instruction without an instruction set.
    State,
    /// A mark is missing.
    Mark,
    /// A value is missing, or too short.
    Value,
    /// A register without a name.
    Register,
    /// An access of a size that there is not.
    Size,
    /// A picture of memory has 32 digits.
    Picture,
    /// Longer than any line of a log.
    TooLong,
    /// The log ends within it.
    Cut,
}

impl Bad {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Address,
        Self::Opcode,
        Self::State,
        Self::Mark,
        Self::Value,
        Self::Register,
        Self::Size,
        Self::Picture,
        Self::TooLong,
        Self::Cut,
    ];

    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Address => "no address",
            Self::Opcode => "no opcode of 4 or 8 digits",
            Self::State => "no instruction set",
            Self::Mark => "a bracket or colon is missing",
            Self::Value => "a value is missing or too short",
            Self::Register => "no name of a register",
            Self::Size => "a size that accesses do not have",
            Self::Picture => "no picture of 16 bytes",
            Self::TooLong => "longer than a line can be",
            Self::Cut => "cut off",
        }
    }
}

impl Mode {
    /// The mode as logs write it, without the security state.
    pub const fn name(self) -> &'static str {
        match self.kind {
            ModeKind::Unknown => "",
            ModeKind::Usr => "usr",
            ModeKind::Fiq => "fiq",
            ModeKind::Irq => "irq",
            ModeKind::Svc => "svc",
            ModeKind::Mon => "mon",
            ModeKind::Abt => "abt",
            ModeKind::Hyp => "hyp",
            ModeKind::Und => "und",
            ModeKind::Sys => "sys",
            ModeKind::Level(level, own) => match (level, own) {
                (0, _) => "EL0t",
                (1, true) => "EL1h",
                (1, false) => "EL1t",
                (2, true) => "EL2h",
                (2, false) => "EL2t",
                (_, true) => "EL3h",
                (_, false) => "EL3t",
            },
            ModeKind::Thread => "thread",
            ModeKind::Handler => "handler",
        }
    }
}

impl Describe for Packet {
    fn name(&self) -> &'static str {
        match self.line {
            Line::Instruction(Instruction { executed: true, .. }) => "instruction",
            Line::Instruction(_) => "instruction not executed",
            Line::Register(_) => "register",
            Line::Memory(Memory { write: true, .. }) => "write",
            Line::Memory(_) => "read",
            Line::Exception(Exception { kind: ExceptionKind::ModeChange, .. }) => "mode change",
            Line::Exception(_) => "exception",
            Line::Branch(_) => "branch",
            Line::Text(_) => "text",
            Line::Bad(_) => "bad line",
        }
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        let plain = |name, value| Field::new(name, value).text(Text::Plain);
        each(Field::new("time", Value::Decimal(self.time)));
        each(Field::new("core", Value::Decimal(self.core.into())));
        match self.line {
            Line::Instruction(it) => {
                each(plain("address", Value::Address(it.address.into())));
                let opcode = Value::Padded(it.opcode.into(), it.size * 2);
                each(plain("opcode", if it.fetched { opcode } else { Value::Absent }));
                each(plain("isa", Value::Word(it.state.name())));
                let mode = it.mode.name();
                let has_mode = !mode.is_empty();
                let value = if has_mode { Value::Word(mode) } else { Value::Absent };
                each(Field::new("mode", value).text(if has_mode { Text::Plain } else { Text::Hidden }));
                let security =
                    it.mode.security.map_or(Value::Absent, |security| Value::Word(security.name()));
                let shown = if it.mode.security.is_some() { Text::Plain } else { Text::Hidden };
                each(Field::new("security", security).text(shown));
            }
            Line::Register(write) => {
                each(plain("register", Value::Name(write.register.name())));
                each(Field::new("byte", Value::Decimal(write.offset.into())));
                each_of(&write.data, each);
            }
            Line::Memory(memory) => {
                each(plain("address", Value::Address(memory.address.into())));
                each_of(&memory.data, each);
                each(Field::new("aborted", Value::Flag(memory.aborted)).text(Text::Words("aborted")));
                each(Field::new("picture", Value::Flag(memory.picture)).text(Text::Hidden));
            }
            Line::Exception(exception) => {
                each(plain("cause", Value::Name(exception.name)));
                each(optional("address", exception.address.map(|at| Value::Address(at.into()))));
                each(optional("number", exception.number.map(Value::Hexadecimal)));
            }
            Line::Branch(address) => each(plain("address", Value::Address(address.into()))),
            Line::Text(word) => each(plain("word", Value::Name(word))),
            Line::Bad(bad) => each(plain("why", Value::Word(bad.text()))),
        }
    }
}

fn optional(name: &'static str, value: Option<Value>) -> Field {
    let field = Field::new(name, value.unwrap_or(Value::Absent));
    if value.is_some() { field } else { field.text(Text::Hidden) }
}

/// The bytes as a number, how many they are, and which of them are touched and known where that is not all.
fn each_of(data: &Bytes, each: &mut dyn FnMut(Field)) {
    let size = 16 - data.touched.leading_zeros().min(16);
    let value = if data.known == 0 { Value::Absent } else { Value::Wide(data.number()) };
    each(Field::new("value", value).text(Text::Plain));
    each(Field::new("size", Value::Decimal(size.into())));
    let all = u16::MAX.checked_shr(16 - size).unwrap_or(0);
    let mask = |name, mask: u16, all| {
        let field = Field::new(name, Value::Bits(mask.into(), 16));
        if mask == all { field.text(Text::Hidden) } else { field }
    };
    each(mask("touched", data.touched, all));
    each(mask("known", data.known, data.touched));
}
