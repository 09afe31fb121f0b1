//! The head of a line: its time, its core, and the word that says what it is.

use backsight_core::describe::Name;

use crate::decode::Config;
use crate::packet::{Bad, Line, Mode, Packet};
use crate::words::{Cursor, decimal};
use crate::{exception, fast, instruction, memory, register};

/// What a line takes from those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    pub time: u64,
    pub core: u16,
    /// A picture may go on: the column of its address, and whether it is written.
    pub picture: Option<(u32, bool)>,
    /// The first letters of the last mode, and what they mean.
    pub mode: (u64, Mode),
}

/// Decimal places of a time with a point: 10^6.
const PLACES: u32 = 6;

/// Reads a line, without its end. Gives packets, most often one.
#[inline]
pub(crate) fn read(line: &[u8], config: &Config, before: &mut Before, give: &mut impl FnMut(Packet)) {
    if before.picture.is_none()
        && let Some(packet) = fast::read(line, config.big_endian, before)
    {
        return give(packet);
    }
    read_any(line, config, before, give);
}

/// The same for a line of any form.
pub(crate) fn read_any(line: &[u8], config: &Config, before: &mut Before, give: &mut impl FnMut(Packet)) {
    let mut cursor = Cursor::new(line);
    let column = cursor.column();
    let picture = before.picture.take();
    if let Some((same, write)) = picture
        && u32::try_from(column) == Ok(same)
        && let Ok(line) = memory::picture(&mut cursor, write, config)
    {
        before.picture = picture;
        return give(Packet { time: before.time, core: before.core, line });
    }
    let mut cursor = Cursor::new(line);
    let time = match cursor.plain_decimal() {
        Some(time) => {
            skip_unit(&mut cursor);
            Some(time)
        }
        None => cursor.peek_word().and_then(|word| time_of(word, &mut cursor)),
    };
    if let Some(time) = time {
        before.time = time;
        before.core = 0;
    }
    let mut word = cursor.word();
    let mut kind = word.map_or(Type::Text, Type::of);
    if let (Type::Text, Some(source)) = (kind, word) {
        let mut ahead = cursor;
        let next = ahead.word();
        let next_kind = next.map_or(Type::Text, Type::of);
        if next_kind != Type::Text || source.starts_with(b"cpu") && next.is_some() {
            before.core = core_number(source);
            (cursor, word, kind) = (ahead, next, next_kind);
        }
    }
    let (time, core) = (before.time, before.core);
    let mut give = |line| give(Packet { time, core, line });
    let text = || Line::Text(Name::new(word.unwrap_or_default()));
    let read = match kind {
        Type::It { executed } => instruction::it(&mut cursor, executed, config),
        Type::Es => instruction::es(&mut cursor),
        Type::Register => match register::read(&mut cursor, &mut give) {
            Ok(true) => return,
            Ok(false) => Ok(text()),
            Err(bad) => Err(bad),
        },
        Type::Memory => memory::number(word.unwrap_or_default(), &mut cursor, config)
            .map(|memory| memory.unwrap_or_else(text)),
        Type::Picture { write } => {
            let column = u32::try_from(cursor.column()).unwrap_or(u32::MAX);
            let read = memory::picture(&mut cursor, write, config);
            if read.is_ok() {
                before.picture = Some((column, write));
            }
            read
        }
        Type::E => Ok(exception::e(&mut cursor).unwrap_or_else(text)),
        Type::Exc => Ok(exception::exc(&mut cursor)),
        Type::Branch => branch(&mut cursor),
        Type::Text => Ok(text()),
    };
    give(read.unwrap_or_else(Line::Bad));
}

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    It { executed: bool },
    Es,
    Register,
    Memory,
    Picture { write: bool },
    E,
    Exc,
    Branch,
    Text,
}

impl Type {
    #[inline]
    fn of(word: &[u8]) -> Self {
        match word {
            b"IT" | b"IF" => Self::It { executed: true },
            b"IS" => Self::It { executed: false },
            b"R" => Self::Register,
            b"ES" => Self::Es,
            b"LD" => Self::Picture { write: false },
            b"ST" => Self::Picture { write: true },
            b"E" => Self::E,
            b"EXC" => Self::Exc,
            b"BR" => Self::Branch,
            [b'M', ..] | [b'R' | b'W', b'0', b'1' | b'2' | b'4' | b'8'] if memory::is_type(word) => {
                Self::Memory
            }
            _ => Self::Text,
        }
    }
}

/// The time that the next word says, with the unit behind it.
fn time_of(word: &[u8], cursor: &mut Cursor<'_>) -> Option<u64> {
    if !word.first()?.is_ascii_digit() {
        return None;
    }
    let digits = word.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(word.len());
    let (whole, rest) = word.split_at(digits);
    let (fraction, unit) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
            (Some(&rest[..digits]), &rest[digits..])
        }
        None => (None, rest),
    };
    if !unit.is_empty() && !is_unit(unit) {
        return None;
    }
    let whole = decimal(whole)?;
    let Some(fraction) = fraction else {
        cursor.word();
        if unit.is_empty() {
            skip_unit(cursor);
        }
        return Some(whole);
    };
    let mut millionths = 0;
    for place in 0..PLACES {
        let digit = fraction.get(place as usize).map_or(0, |digit| u64::from(digit - b'0'));
        millionths = 10 * millionths + digit;
    }
    let rounded = u64::from(fraction.get(PLACES as usize).is_some_and(|&digit| digit >= b'5'));
    let time = whole.checked_mul(10_u64.pow(PLACES))?.checked_add(millionths + rounded)?;
    cursor.word();
    if unit.is_empty() {
        skip_unit(cursor);
    }
    Some(time)
}

#[inline]
fn skip_unit(cursor: &mut Cursor<'_>) {
    if cursor.peek_word().is_some_and(is_unit) {
        cursor.word();
    }
}

fn is_unit(word: &[u8]) -> bool {
    matches!(word, b"clk" | b"cyc" | b"tic" | b"cs" | b"ns" | b"us" | b"ps")
}

/// The number in the name of a core. Where there are several numbers, those of clusters count above.
fn core_number(source: &[u8]) -> u16 {
    let groups = source.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
    groups.fold(0_u16, |sum, digits| {
        let number = decimal(digits).unwrap_or(u64::MAX).min(u64::from(u16::MAX)) as u16;
        sum.wrapping_shl(8).wrapping_add(number)
    })
}

/// `BR (address) state`.
fn branch(cursor: &mut Cursor<'_>) -> Result<Line, Bad> {
    let has_bracket = cursor.mark(b'(');
    let address = cursor.hex().ok_or(Bad::Address)?;
    if has_bracket && !cursor.mark(b')') {
        return Err(Bad::Mark);
    }
    Ok(Line::Branch(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_testing::{Random, corpus, repository};

    /// What a line says, read in one go where that can be, and as any line.
    fn both(line: &[u8]) -> bool {
        let (mut before, mut other) = (Before::default(), Before::default());
        let fast = fast::read(line, false, &mut before);
        let mut all = Vec::new();
        read_any(line, &Config::default(), &mut other, &mut |packet| all.push(packet));
        if let Some(packet) = fast {
            assert_eq!(all, [packet], "{}", String::from_utf8_lossy(line));
            assert_eq!((before.time, before.core), (other.time, other.core));
        }
        fast.is_some()
    }

    #[test]
    fn lines_that_are_read_in_one_go_say_the_same() {
        let mut logs = vec![repository().join("testdata/tarmac/calls.tarmac")];
        logs.push(repository().join("testdata/tarmac/dialects.tarmac"));
        let names = ["quicksort", "calculator-aarch32-fastmodel", "calltests/calltest64"];
        let others = corpus().map(|corpus| names.map(|name| corpus.join(format!("tarmac/{name}.tarmac"))));
        logs.extend(others.into_iter().flatten());
        let (mut random, mut fast, mut of_mutated) = (Random(9), 0, 0);
        for log in logs {
            let text = std::fs::read(log).expect("a log");
            for line in text.split(|&byte| byte == b'\n') {
                fast += u32::from(both(line));
                for _ in 0..4 {
                    let mut line = line.to_vec();
                    for _ in 0..=random.below(2) {
                        let at = random.below(line.len().max(1) as u64) as usize;
                        match random.below(3) {
                            0 if at < line.len() => line[at] = b"0aFxX_ :(),R8M-"[random.below(15) as usize],
                            1 if at < line.len() => drop(line.remove(at)),
                            _ => line.insert(at, b" \t:()_xX0fA#MW"[random.below(14) as usize]),
                        }
                    }
                    of_mutated += u32::from(both(&line));
                }
            }
        }
        assert!(fast > 50 && of_mutated > 50, "{fast}, {of_mutated}");
    }
}
