//! Lines of registers.

use crate::names::{Bank, Class, Register};
use crate::packet::{Bad, Bytes, Line, RegisterWrite};
use crate::words::{Cursor, DIGITS, Token, decimal};

/// Digits of the longest register: 256 bytes.
const MOST_DIGITS: usize = 512;
/// Stands for a digit that is not known, and for one that stays.
const UNKNOWN: u8 = 16;
const SAME: u8 = 17;

/// A line that begins with `R`: the cursor is behind that. `false` for text: operations of the system.
pub(crate) fn read(cursor: &mut Cursor<'_>, give: &mut impl FnMut(Line)) -> Result<bool, Bad> {
    let name = cursor.word().ok_or(Bad::Register)?;
    if matches!(name, b"DC" | b"IC" | b"TLBI" | b"AT") {
        return Ok(false);
    }
    let mut bank = None;
    if cursor.mark(b'(') {
        bank = Some(cursor.word().ok_or(Bad::Register)?);
        if !cursor.mark(b')') {
            return Err(Bad::Mark);
        }
    }
    let part = part(cursor)?;
    let after_name = *cursor;
    let mut register = Register::named(name, || after_name.peek_word_length() >= 16);
    if let Some(bank) = bank {
        register.bank = Bank::new(bank);
    }
    let size = match part {
        Some((first, last)) => Some(usize::from(last - first) + 1),
        None => register.class.size(),
    };
    let offset = part.map_or(0, |(first, _)| first);
    // Most lines have all in one word.
    if let (Some(size @ (4 | 8)), None, Token::Word(word)) = (size, part, cursor.peek())
        && word.len() == 2 * size
        && let Some(value) = crate::words::hex(word)
    {
        let touched = u16::MAX >> (16 - size);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        let data = Bytes { bytes, touched, known: touched };
        give(Line::Register(RegisterWrite { register, offset, width: size as u16, data }));
        return Ok(true);
    }
    let mut digits = [0; MOST_DIGITS];
    let count = values(cursor, register.class, size, &mut digits)?;
    let digits = digits.get(..count).unwrap_or_default();
    // No value at all is zero, but what stands there instead of one is none.
    if count == 0 && size.is_some() && cursor.peek_word().is_some() {
        return Err(Bad::Value);
    }
    let is_free = matches!(register.class, Class::Cpsr | Class::Fpcr) && part.is_none();
    match size {
        Some(size) if is_free && count > 2 * size => {
            give_parts(register, offset, size, digits.get(count - 2 * size..).unwrap_or_default(), give);
        }
        Some(size) if count == 2 * size => give_parts(register, offset, size, digits, give),
        Some(size) if digits.iter().all(|&digit| digit == 0) => {
            give_parts(register, offset, size, &[0; MOST_DIGITS][..2 * size.min(MOST_DIGITS / 2)], give);
        }
        Some(_) if digits.iter().all(|&digit| digit == SAME) => give_nothing(register, give),
        None if count == 0 => return Ok(false),
        None if count % 2 == 0 => give_parts(register, offset, count / 2, digits, give),
        _ => return Err(Bad::Value),
    }
    Ok(true)
}

impl Cursor<'_> {
    fn peek_word_length(&self) -> usize {
        match self.peek() {
            Token::Word(word) => word.iter().filter(|&&byte| byte != b'_').count(),
            _ => 0,
        }
    }
}

/// `<hi:lo>`: the first and the last byte.
fn part(cursor: &mut Cursor<'_>) -> Result<Option<(u8, u8)>, Bad> {
    if !cursor.mark(b'<') {
        return Ok(None);
    }
    let high = cursor.word().and_then(decimal).ok_or(Bad::Value)?;
    let low = cursor.mark(b':').then(|| cursor.word().and_then(decimal)).flatten().ok_or(Bad::Value)?;
    if !cursor.mark(b'>') {
        return Err(Bad::Mark);
    }
    let is_whole = low % 8 == 0 && high % 8 == 7 && low < high && high < 2048;
    if is_whole { Ok(Some(((low / 8) as u8, (high / 8) as u8))) } else { Err(Bad::Value) }
}

/// The digits of the value, the most significant first; how many.
fn values(
    cursor: &mut Cursor<'_>,
    class: Class,
    size: Option<usize>,
    digits: &mut [u8; MOST_DIGITS],
) -> Result<usize, Bad> {
    let is_free = matches!(class, Class::Cpsr | Class::Fpcr);
    let wanted = size.map_or(MOST_DIGITS, |size| 2 * size);
    let (mut count, mut words) = (0, 0);
    while count < wanted {
        cursor.mark(b':');
        let Token::Word(word) = cursor.peek() else { break };
        let is_pure = || word.iter().all(|&byte| DIGITS[usize::from(byte)] < 16);
        if !is_value(word) || is_free && words > 0 && !is_pure() {
            break;
        }
        cursor.word();
        words += 1;
        for &byte in word {
            let digit = match byte {
                b'_' => continue,
                b'x' | b'X' => UNKNOWN,
                b'-' => SAME,
                _ => DIGITS[usize::from(byte)],
            };
            *digits.get_mut(count).ok_or(Bad::Value)? = digit;
            count += 1;
        }
    }
    Ok(count)
}

fn is_value(word: &[u8]) -> bool {
    word.iter().all(|&byte| DIGITS[usize::from(byte)] < 16 || matches!(byte, b'_' | b'-' | b'x' | b'X'))
}

/// Gives the bytes of a register in parts of 16.
fn give_parts(register: Register, offset: u8, size: usize, digits: &[u8], give: &mut impl FnMut(Line)) {
    let mut is_given = false;
    for (number, part) in digits.rchunks(32).enumerate() {
        let mut data = Bytes::default();
        for (index, pair) in part.rchunks(2).enumerate().take(16) {
            let [high, low] = pair else { continue };
            let bit = 1 << index;
            match (*high, *low) {
                (SAME, _) | (_, SAME) => {}
                (UNKNOWN, _) | (_, UNKNOWN) => data.touched |= bit,
                (high, low) => {
                    data.touched |= bit;
                    data.known |= bit;
                    data.bytes[index] = high << 4 | low;
                }
            }
        }
        let width = if offset == 0 { size as u16 } else { 0 };
        // Parts of 16 bytes of at most 256 begin below 256.
        let offset = offset.saturating_add((16 * number) as u8);
        give(Line::Register(RegisterWrite { register, offset, width, data }));
        is_given = true;
    }
    if !is_given {
        give_nothing(register, give);
    }
}

fn give_nothing(register: Register, give: &mut impl FnMut(Line)) {
    give(Line::Register(RegisterWrite { register, offset: 0, width: 0, data: Bytes::default() }));
}
