//! Lines of accesses to memory.

use crate::decode::Config;
use crate::packet::{Bad, Bytes, Line, Memory};
use crate::words::{Cursor, DIGITS, Token};

/// The longest type of a line of memory.
const TYPE: usize = 8;

/// Is it the type of a line of memory: `M`, letters, `R` or `W`, a size? `R04` and `W08` are others.
pub(crate) fn is_type(word: &[u8]) -> bool {
    access(word).is_some()
}

/// Does it write, and how many bytes?
fn access(word: &[u8]) -> Option<(bool, usize, &[u8])> {
    let mut rest = match word {
        [b'M', rest @ ..] => rest,
        [b'R' | b'W', b'0', _] => word,
        _ => return None,
    };
    loop {
        let (first, others) = rest.split_first()?;
        if !first.is_ascii_uppercase() && !first.is_ascii_lowercase() {
            return None;
        }
        let digits = others.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if matches!(first, b'R' | b'W') && digits > 0 {
            let size = others[..digits].iter().fold(0, |sum: usize, digit| {
                sum.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
            });
            return Some((*first == b'W', size, &others[digits..]));
        }
        rest = others;
    }
}

/// A line with a number: the cursor is behind its type. `None` for text: fetches, other buses, coprocessors.
pub(crate) fn number(kind: &[u8], cursor: &mut Cursor<'_>, config: &Config) -> Result<Option<Line>, Bad> {
    let Some((write, size, suffix)) = access(kind) else { return Ok(None) };
    let is_long = kind.len() == TYPE;
    if suffix.ends_with(b"I") || suffix.ends_with(b"A") && is_long {
        return Ok(None);
    }
    let in_memory_order = is_long && suffix.ends_with(b"D");
    if !matches!(size, 1 | 2 | 4 | 8 | 16) {
        return Err(Bad::Size);
    }
    cursor.keyword(b"X");
    if cursor.mark(b'(') {
        let is_whole = cursor.word().is_some() && cursor.mark(b':') && cursor.word().is_some();
        if !(is_whole && cursor.mark(b')')) {
            return Err(Bad::Mark);
        }
    }
    if let Token::Word(word) = cursor.peek()
        && word.eq_ignore_ascii_case(b"TRANSFER")
    {
        return Ok(None);
    }
    let address = cursor.hex().ok_or(Bad::Address)?;
    if !cursor.physical() {
        return Err(Bad::Mark);
    }
    let touched = u16::MAX >> (16 - size);
    let mut memory = Memory {
        address,
        data: Bytes { bytes: [0; 16], touched, known: 0 },
        write,
        aborted: false,
        picture: false,
        big_endian: config.big_endian,
    };
    if cursor.mark(b'(') {
        memory.aborted = cursor.word() == Some(b"ABORTED");
        return if memory.aborted { Ok(Some(Line::Memory(memory))) } else { Err(Bad::Value) };
    }
    let word = cursor.word().ok_or(Bad::Value)?;
    if size == 16 && word.len() == 32 && !word.contains(&b'_') {
        // gem5 writes one such line for a load of two registers: the direction is wrong, and so is the value.
        return Ok(Some(Line::Memory(Memory { write: false, ..memory })));
    }
    let mut digits = Digits::default();
    digits.take(word)?;
    if size == 16
        && let Token::Word(lower) = cursor.peek()
        && digits.take(lower).is_ok()
    {
        cursor.word();
    }
    let (bytes, known) = digits.number();
    let known = known & touched;
    let mut kept = [0; 16];
    kept.iter_mut().zip(bytes).take(size).for_each(|(to, from)| *to = from);
    memory.data.bytes = kept;
    memory.data.known = known;
    if in_memory_order || config.big_endian {
        memory.data.bytes[..size].reverse();
        memory.data.known = known.reverse_bits() >> (16 - size);
    }
    Ok(Some(Line::Memory(memory)))
}

/// Digits of a number of up to 16 bytes, the most significant first.
#[derive(Default)]
struct Digits {
    value: u128,
    /// A bit for each digit that is not known, the last one in bit 0.
    unknown: u32,
    count: u32,
}

impl Digits {
    fn take(&mut self, word: &[u8]) -> Result<(), Bad> {
        let before = (self.value, self.unknown, self.count);
        for &byte in word {
            let (digit, unknown) = match byte {
                b'_' => continue,
                b'x' | b'X' => (0, 1),
                _ => (DIGITS[usize::from(byte)], 0),
            };
            if digit > 15 {
                (self.value, self.unknown, self.count) = before;
                return Err(Bad::Value);
            }
            self.value = self.value << 4 | u128::from(digit);
            self.unknown = self.unknown << 1 | unknown;
            self.count += 1;
        }
        if self.count == 0 { Err(Bad::Value) } else { Ok(()) }
    }

    /// The bytes, the least significant first, and which of them are known. What is not written is zero.
    fn number(&self) -> ([u8; 16], u16) {
        let (mut bytes, mut known) = (self.value.to_le_bytes(), u16::MAX);
        for (index, byte) in bytes.iter_mut().enumerate() {
            if self.unknown >> (2 * index) & 3 != 0 {
                *byte = 0;
                known &= !(1 << index);
            }
        }
        (bytes, known)
    }
}

/// A picture of 16 bytes: the cursor is at its address.
pub(crate) fn picture(cursor: &mut Cursor<'_>, write: bool, config: &Config) -> Result<Line, Bad> {
    let address = cursor.hex().ok_or(Bad::Address)?;
    if !cursor.physical() {
        return Err(Bad::Mark);
    }
    let mut digits = [0; 32];
    let mut count = 0;
    while count < digits.len() {
        let word = cursor.word().ok_or(Bad::Picture)?;
        let free = digits.get_mut(count..count + word.len()).ok_or(Bad::Picture)?;
        free.copy_from_slice(word);
        count += word.len();
    }
    let mut data = Bytes::default();
    for (index, pair) in digits.rchunks_exact(2).enumerate() {
        let bit = 1 << index;
        match pair {
            b".." => {}
            b"##" => data.touched |= bit,
            [high, low] => {
                let (high, low) = (DIGITS[usize::from(*high)], DIGITS[usize::from(*low)]);
                if high > 15 || low > 15 {
                    return Err(Bad::Picture);
                }
                data.touched |= bit;
                data.known |= bit;
                data.bytes[index] = high << 4 | low;
            }
            _ => {}
        }
    }
    Ok(Line::Memory(Memory {
        address,
        data,
        write,
        aborted: false,
        picture: true,
        big_endian: config.big_endian,
    }))
}
