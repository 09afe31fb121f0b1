//! Lines of a log, in the way of Fast Models: what is written is read as the same.

use std::fmt;

use crate::packet::{Instruction, Mode, ModeKind, State};

/// The head of a line: its time, and the core that it is about, if there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The time.
    pub time: u64,
    /// The core.
    pub core: Option<u16>,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} clk ", self.time)?;
        self.core.map_or(Ok(()), |core| write!(f, "cpu{core} "))
    }
}

/// The line of an instruction, with what is shown behind it: its number, and its text.
#[derive(Clone, Copy, Debug)]
pub struct InstructionLine<'t> {
    /// Time and core.
    pub head: Head,
    /// How many instructions came before it, and itself.
    pub number: u64,
    /// The instruction.
    pub instruction: &'t Instruction,
    /// Its text; what would end a line ends it.
    pub text: &'t str,
}

impl fmt::Display for InstructionLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, number, instruction: it, text } = self;
        let kind = if it.executed { "IT" } else { "IS" };
        write!(f, "{head}{kind} ({number}) {:08x} ", it.address)?;
        match (it.fetched, it.size) {
            (true, 2) => write!(f, "{:04x}", it.opcode & 0xFFFF)?,
            (true, _) => write!(f, "{:08x}", it.opcode)?,
            (false, size) => f.write_str(if size == 2 { "----" } else { "--------" })?,
        }
        let state = match it.state {
            State::A32 => "A",
            State::T32 => "T",
            State::A64 => "O",
        };
        write!(f, " {state}")?;
        if it.mode != Mode::default() {
            write!(f, " {}", it.mode)?;
        }
        f.write_str(" :")?;
        let text = text.lines().next().unwrap_or_default();
        if text.is_empty() { Ok(()) } else { write!(f, " {text}") }
    }
}

/// As logs write it, with the security state.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use backsight_core::Security;
        f.write_str(if self.kind == ModeKind::Unknown { "---" } else { self.name() })?;
        f.write_str(match self.security {
            None => "",
            Some(Security::Secure) => "_s",
            Some(Security::NonSecure) => "_ns",
            Some(Security::Root) => "_rt",
            Some(Security::Realm) => "_rl",
        })
    }
}

/// The lines of an access: of an odd size, several.
#[derive(Clone, Copy, Debug)]
pub struct AccessLines {
    /// Time and core.
    pub head: Head,
    /// The first byte.
    pub address: u64,
    /// Bytes of it, at most 8.
    pub size: u8,
    /// Its value; `None` if it is not known.
    pub value: Option<u64>,
    /// It writes.
    pub write: bool,
    /// It faulted.
    pub aborted: bool,
}

impl fmt::Display for AccessLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut address, mut left, mut value) = (self.address, self.size.min(8), self.value);
        while left > 0 {
            let size = 1 << left.ilog2();
            let letter = if self.write { 'W' } else { 'R' };
            write!(f, "{}M{letter}{size} {address:08x} ", self.head)?;
            let digits = 2 * usize::from(size);
            match value {
                _ if self.aborted => writeln!(f, "(ABORTED)")?,
                Some(value) => {
                    let part = value & u64::MAX >> (64 - 8 * u32::from(size));
                    writeln!(f, "{part:0digits$x}")?;
                }
                None => writeln!(f, "{}", "x".repeat(digits))?,
            }
            // All of it, if the size is 8: then nothing is left.
            value = value.map(|value| value.checked_shr(8 * u32::from(size)).unwrap_or(0));
            address = address.wrapping_add(u64::from(size));
            left -= size;
        }
        Ok(())
    }
}
