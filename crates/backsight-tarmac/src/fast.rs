//! The lines that nearly all of a log is made of, read in one go: everything that is not exactly so is left to those who read any line.

use crate::head::Before;
use crate::instruction::{mode, state};
use crate::names::{Class, Register};
use crate::packet::{Bytes, Instruction, Line, Memory, Mode, Packet, RegisterWrite};
use crate::words::DIGITS;

/// A line with whole time, unit and at most a core before its type: `17 clk IT (17) 00008044 e2811004 A svc_s :`,
/// `17 clk R X0 0000000000000003`, `17 clk MW4 00008000 00000001`. `None` if it is another.
#[inline]
pub(crate) fn read(line: &[u8], big_endian: bool, before: &mut Before) -> Option<Packet> {
    let mut rest = Rest(line);
    let time = rest.decimal()?;
    let [unit @ .., b' '] = rest.0.first_chunk::<4>()? else { return None };
    if !matches!(unit, b"clk" | b"cyc" | b"tic") {
        return None;
    }
    rest.skip(4);
    let mut core = 0;
    if rest.0.starts_with(b"cpu") {
        rest.skip(3);
        core = u16::try_from(rest.decimal()?).ok()?;
        rest.byte(b' ')?;
    }
    let line = match *rest.0.first_chunk::<3>()? {
        [b'I', kind @ (b'T' | b'S'), b' '] => {
            rest.skip(3);
            Line::Instruction(instruction(rest, kind == b'T', &mut before.mode)?)
        }
        [b'R', b' ', _] => {
            rest.skip(2);
            Line::Register(register(rest)?)
        }
        [b'M', direction @ (b'R' | b'W'), size @ (b'1' | b'2' | b'4' | b'8')] if !big_endian => {
            rest.skip(3);
            Line::Memory(memory(rest, direction == b'W', size - b'0')?)
        }
        _ => return None,
    };
    (before.time, before.core) = (time, core);
    Some(Packet { time, core, line })
}

/// What is left of a line.
#[derive(Clone, Copy)]
struct Rest<'l>(&'l [u8]);

impl Rest<'_> {
    #[inline]
    fn skip(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    #[inline]
    fn byte(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        (*first == byte).then_some(())
    }

    /// Digits that fit for certain; without a blank behind them unless it is asked for.
    #[inline]
    fn decimal(&mut self) -> Option<u64> {
        let (mut value, mut count) = (0_u64, 0);
        while let Some(digit) =
            self.0.get(count).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10)
        {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            count += 1;
        }
        // A core comes right behind its digits, a unit behind a blank.
        if !(1..=18).contains(&count) {
            return None;
        }
        self.skip(count);
        if self.0.first() == Some(&b' ') && self.0.get(1).is_some_and(u8::is_ascii_lowercase) {
            self.skip(1);
        }
        Some(value)
    }

    /// At most 16 hexadecimal digits; how many.
    #[inline]
    fn hex(&mut self) -> Option<(u64, usize)> {
        let (mut value, mut count) = (0_u64, 0);
        while let Some(digit) =
            self.0.get(count).map(|&byte| DIGITS[usize::from(byte)]).filter(|&digit| digit < 16)
        {
            value = value << 4 | u64::from(digit);
            count += 1;
        }
        self.skip(count);
        (1..=16).contains(&count).then_some((value, count))
    }

    /// Passes over a physical address and a blank.
    #[inline]
    fn physical_and_blank(&mut self) -> Option<()> {
        if self.0.first() == Some(&b':') {
            self.skip(1);
            self.hex()?;
            if self.0.first() == Some(&b'_') {
                let end = self.0.iter().position(|&byte| byte == b' ')?;
                let is_world = matches!(self.0.get(..end)?, b"_S" | b"_NS");
                is_world.then(|| self.skip(end))?;
            }
        }
        self.byte(b' ')
    }
}

#[inline]
fn instruction(mut rest: Rest<'_>, executed: bool, last: &mut (u64, Mode)) -> Option<Instruction> {
    rest.byte(b'(')?;
    let count = rest.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.skip(count);
    rest.byte(b')')?;
    rest.byte(b' ')?;
    let (address, _) = rest.hex().filter(|_| count > 0)?;
    rest.physical_and_blank()?;
    let (opcode, digits) = rest.hex()?;
    let size = match digits {
        8 => 4,
        4 => 2,
        _ => return None,
    };
    let [b' ', letter, b' '] = rest.0.first_chunk::<3>()? else { return None };
    let state = state(std::slice::from_ref(letter))?;
    if size != 4 && state.is_wide_opcode() {
        return None;
    }
    rest.skip(3);
    // Most instructions are in the mode of the one before.
    let word = rest.0.get(..8)?;
    let end = word.iter().position(|&byte| byte == b' ' || byte == b':').filter(|&end| end > 0)?;
    let key = u64::from_le_bytes(*word.first_chunk()?) & (u64::MAX >> (64 - 8 * end));
    if last.0 != key {
        let word = word.get(..end)?;
        let is_word = word.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
        *last = is_word.then(|| (key, mode(word)))?;
    }
    rest.skip(end);
    if rest.0.first() == Some(&b' ') {
        rest.skip(1);
    }
    rest.byte(b':')?;
    let opcode = opcode as u32;
    Some(Instruction { address, opcode, size, state, executed, fetched: true, mode: last.1 })
}

/// A register X or R by its number, whose value is the rest of the line.
#[inline]
fn register(mut rest: Rest<'_>) -> Option<RegisterWrite> {
    let letter = rest.0.first()?;
    let (class, size) = match letter {
        b'X' | b'x' => (Class::X, 8),
        b'R' | b'r' => (Class::R, 4),
        _ => return None,
    };
    let (number, digits) = match *rest.0.get(1..4)? {
        [one @ b'0'..=b'9', b' ', _] => (one - b'0', 1),
        [ten @ b'1'..=b'9', one @ b'0'..=b'9', b' '] => ((ten - b'0') * 10 + one - b'0', 2),
        _ => return None,
    };
    if number > if size == 8 { 30 } else { 15 } {
        return None;
    }
    rest.skip(2 + digits);
    let (value, count) = rest.hex()?;
    let is_all = count == 2 * size && rest.0.first().is_none_or(|&byte| byte == b' ');
    let data = low(value, size);
    let register = Register::new(class, number);
    is_all.then_some(RegisterWrite { register, offset: 0, width: size as u16, data })
}

#[inline]
fn memory(mut rest: Rest<'_>, write: bool, size: u8) -> Option<Memory> {
    rest.byte(b' ')?;
    let (address, _) = rest.hex()?;
    rest.physical_and_blank()?;
    let (mut value, mut count) = rest.hex()?;
    if rest.0.first() == Some(&b'_') {
        rest.skip(1);
        let (lower, more) = rest.hex()?;
        count += more;
        value = if count > 16 { return None } else { value << (4 * more) | lower };
    }
    let size = usize::from(size);
    let is_all = count == 2 * size && rest.0.first().is_none_or(|&byte| byte == b' ');
    let data = low(value, size);
    is_all.then_some(Memory { address, data, write, aborted: false, picture: false, big_endian: false })
}

/// The lowest bytes of a value.
#[inline]
fn low(value: u64, size: usize) -> Bytes {
    let touched = u16::MAX >> (16 - size);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    Bytes { bytes, touched, known: touched }
}
