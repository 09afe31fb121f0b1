//! Lines of instructions.

use backsight_core::Security;

use crate::decode::Config;
use crate::exception;
use crate::packet::{Bad, Instruction, Line, Mode, ModeKind, State};
use crate::words::{Cursor, Token, hex};

/// A bracket behind `IT`: a count, an address, or an address with a count.
struct Bracket<'a> {
    word: &'a [u8],
    has_two: bool,
}

fn bracket<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Bracket<'a>>, Bad> {
    if !cursor.mark(b'(') {
        return Ok(None);
    }
    let word = cursor.word().ok_or(Bad::Address)?;
    let has_two = cursor.mark(b':');
    if has_two {
        cursor.word().ok_or(Bad::Address)?;
    }
    if !cursor.mark(b')') {
        return Err(Bad::Mark);
    }
    Ok(Some(Bracket { word, has_two }))
}

/// A line that begins with `IT`, `IF` or `IS`: the cursor is behind that.
pub(crate) fn it(cursor: &mut Cursor<'_>, executed: bool, config: &Config) -> Result<Line, Bad> {
    let bracket = bracket(cursor)?;
    let word = cursor.word().ok_or(Bad::Address)?;
    if !cursor.physical() {
        return Err(Bad::Mark);
    }
    // What follows says which of the two was the address.
    let next_is_state = matches!(cursor.peek(), Token::Word(next) if state(next).is_some());
    let (address, opcode) = match &bracket {
        Some(bracket) if next_is_state => (bracket.word, word),
        _ => (word, cursor.word().ok_or(Bad::Opcode)?),
    };
    let address = hex(address).ok_or(Bad::Address)?;
    let (opcode, size, fetched) = opcode_of(opcode)?;
    let mut ahead = *cursor;
    let named = ahead.word().and_then(|word| Some((state(word)?, word.len() == 3)));
    let Some((state, says_size)) = named else {
        if !config.assume_thumb {
            return Err(Bad::State);
        }
        let (state, mode) = (State::T32, Mode::default());
        return finish(Instruction { address, opcode, size, state, executed, fetched, mode });
    };
    *cursor = ahead;
    let has_no_mode = says_size && bracket.is_some_and(|bracket| bracket.has_two);
    let mode = if has_no_mode { Mode::default() } else { mode_and_colon(cursor)? };
    finish(Instruction { address, opcode, size, state, executed, fetched, mode })
}

/// A line that begins with `ES`: the cursor is behind that.
pub(crate) fn es(cursor: &mut Cursor<'_>) -> Result<Line, Bad> {
    if cursor.keyword(b"EXC") {
        return Ok(exception::exc(cursor));
    }
    if cursor.keyword(b"Reset") {
        return Ok(Line::Exception(exception::reset()));
    }
    if !cursor.mark(b'(') {
        return Err(Bad::Mark);
    }
    let address = cursor.hex().ok_or(Bad::Address)?;
    if !cursor.mark(b':') {
        return Err(Bad::Mark);
    }
    let (opcode, size, fetched) = opcode_of(cursor.word().ok_or(Bad::Opcode)?)?;
    if !cursor.mark(b')') {
        return Err(Bad::Mark);
    }
    let state = cursor.word().and_then(state).ok_or(Bad::State)?;
    let mode = mode_and_colon(cursor)?;
    let executed = !cursor.keyword(b"CCFAIL");
    finish(Instruction { address, opcode, size, state, executed, fetched, mode })
}

fn finish(instruction: Instruction) -> Result<Line, Bad> {
    if instruction.size != 4 && instruction.state != State::T32 {
        return Err(Bad::Opcode);
    }
    // What could not be fetched did not execute.
    let executed = instruction.executed && instruction.fetched;
    Ok(Line::Instruction(Instruction { executed, ..instruction }))
}

pub(crate) fn state(word: &[u8]) -> Option<State> {
    Some(match word {
        b"A" => State::A32,
        b"O" => State::A64,
        b"T" | b"T16" | b"T32" => State::T32,
        _ => return None,
    })
}

/// An opcode, its size, and whether there is one.
fn opcode_of(word: &[u8]) -> Result<(u32, u8, bool), Bad> {
    let size = match word.len() {
        4 => 2,
        8 => 4,
        _ => return Err(Bad::Opcode),
    };
    match hex(word) {
        Some(opcode) => Ok((opcode as u32, size, true)),
        None if word.iter().all(|&byte| byte == b'-') => Ok((0, size, false)),
        None => Err(Bad::Opcode),
    }
}

fn mode_and_colon(cursor: &mut Cursor<'_>) -> Result<Mode, Bad> {
    if cursor.mark(b':') {
        return Ok(Mode::default());
    }
    let mode = mode(cursor.word().ok_or(Bad::Mark)?);
    if cursor.mark(b':') { Ok(mode) } else { Err(Bad::Mark) }
}

/// A mode, in any case.
pub(crate) fn mode(word: &[u8]) -> Mode {
    let end = word.iter().position(|&byte| byte == b'_').unwrap_or(word.len());
    let (name, suffix) = word.split_at(end);
    let is = |text: &[u8]| name.eq_ignore_ascii_case(text);
    let suffix = suffix.get(1..).unwrap_or_default();
    let kind = match name {
        [b'E' | b'e', b'L' | b'l', level @ b'0'..=b'3', stack @ ..] => {
            ModeKind::Level(level - b'0', matches!(stack, [b'h' | b'H', ..]))
        }
        _ if is(b"svc") => ModeKind::Svc,
        _ if is(b"usr") => ModeKind::Usr,
        _ if is(b"thread") || is(b"thrd") => ModeKind::Thread,
        _ if is(b"handler") || is(b"hndl") => ModeKind::Handler,
        _ if is(b"irq") => ModeKind::Irq,
        _ if is(b"fiq") => ModeKind::Fiq,
        _ if is(b"abt") => ModeKind::Abt,
        _ if is(b"und") => ModeKind::Und,
        _ if is(b"sys") => ModeKind::Sys,
        _ if is(b"hyp") => ModeKind::Hyp,
        _ if is(b"mon") => ModeKind::Mon,
        _ => ModeKind::Unknown,
    };
    let security = match suffix {
        [b's' | b'S'] => Some(Security::Secure),
        [b'n' | b'N'] | [b'n' | b'N', b's' | b'S'] => Some(Security::NonSecure),
        [b'r' | b'R', b't' | b'T'] => Some(Security::Root),
        [b'r' | b'R', b'l' | b'L'] => Some(Security::Realm),
        _ => None,
    };
    Mode { kind, security }
}
