//! How moments are named.

use std::fmt;
use std::str::FromStr;

/// A place in the execution of a source, by what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After so many instructions.
    Instruction(u64),
    /// So many instructions before the end.
    BeforeEnd(u64),
    /// At the first timestamp that is not less.
    Time(u64),
    /// So many nanoseconds after the first timestamp.
    Nanoseconds(u64),
    /// At the first byte of the buffer that is not before this position.
    Position(u64),
}

impl Moment {
    /// The beginning of a source.
    pub const START: Self = Self::Instruction(0);
    /// The end of a source.
    pub const END: Self = Self::BeforeEnd(0);

    /// So many instructions earlier, if it is named by instructions; the beginning if there are not so many.
    pub fn earlier(self, instructions: u64) -> Option<Self> {
        match self {
            Self::Instruction(number) => Some(Self::Instruction(number.saturating_sub(instructions))),
            Self::BeforeEnd(number) => Some(Self::BeforeEnd(number.saturating_add(instructions))),
            Self::Time(_) | Self::Nanoseconds(_) | Self::Position(_) => None,
        }
    }

    /// So many instructions later, if it is named by instructions; the end if there are not so many.
    pub fn later(self, instructions: u64) -> Option<Self> {
        match self {
            Self::Instruction(number) => Some(Self::Instruction(number.saturating_add(instructions))),
            Self::BeforeEnd(number) => Some(Self::BeforeEnd(number.saturating_sub(instructions))),
            Self::Time(_) | Self::Nanoseconds(_) | Self::Position(_) => None,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Instruction(number) => write!(f, "#{number}"),
            Self::BeforeEnd(0) => f.write_str("end"),
            Self::BeforeEnd(number) => write!(f, "end-{number}"),
            Self::Time(time) => write!(f, "t{time:#x}"),
            Self::Nanoseconds(time) if time.is_multiple_of(1_000_000_000) => {
                write!(f, "{}s", time / 1_000_000_000)
            }
            Self::Nanoseconds(time) => write!(f, "{time}ns"),
            Self::Position(position) => write!(f, "@{position:#x}"),
        }
    }
}

/// What is wrong with the name of a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MomentError(String);

impl fmt::Display for MomentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}`: a moment is #INSTRUCTION, start, end, end-INSTRUCTIONS, tTIMESTAMP, a time as in 3.2s or 15ms, or @POSITION",
            self.0
        )
    }
}

impl std::error::Error for MomentError {}

/// Units of time, with their nanoseconds.
const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        let moment = match text.as_bytes() {
            b"start" => Some(Self::START),
            b"end" => Some(Self::END),
            [b'#', ..] => number(&text[1..]).map(Self::Instruction),
            [b'@', ..] => number(&text[1..]).map(Self::Position),
            [b't', ..] => number(&text[1..]).map(Self::Time),
            [b'e', b'n', b'd', b'-', ..] => number(&text[4..]).map(Self::BeforeEnd),
            _ => nanoseconds(text).map(Self::Nanoseconds),
        };
        moment.ok_or_else(|| MomentError(text.to_owned()))
    }
}

/// A number, decimal or hexadecimal with `0x`; `_` may stand between digits.
fn number(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (digits.as_str(), 10),
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}

/// A time with its unit: `3.2s`, exactly.
fn nanoseconds(text: &str) -> Option<u64> {
    let &(unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let (whole, part) = {
        let digits = text.strip_suffix(unit)?;
        digits.split_once('.').unwrap_or((digits, ""))
    };
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_plain(whole) || !is_plain(part) || part.len() > 9 {
        return None;
    }
    let of_part = format!("{part:0<9}").parse::<u64>().ok()? * factor / 1_000_000_000;
    whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(of_part)
}

/// What lies between two moments; `None`: from the beginning, to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first moment that is in it.
    pub from: Option<Moment>,
    /// The first moment after it.
    pub to: Option<Moment>,
}

impl Window {
    /// The last instructions.
    pub const fn last(instructions: u64) -> Self {
        Self { from: Some(Moment::BeforeEnd(instructions)), to: None }
    }

    /// Is it all of a source?
    pub fn is_everything(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_is_read_and_shown() {
        for (text, moment) in [
            ("#1234567", Moment::Instruction(1_234_567)),
            ("start", Moment::START),
            ("end", Moment::END),
            ("end-1000", Moment::BeforeEnd(1000)),
            ("t5000", Moment::Time(5000)),
            ("t0x1388", Moment::Time(5000)),
            ("3.2s", Moment::Nanoseconds(3_200_000_000)),
            ("15ms", Moment::Nanoseconds(15_000_000)),
            ("0.5us", Moment::Nanoseconds(500)),
            ("700ns", Moment::Nanoseconds(700)),
            ("@0x1f00", Moment::Position(0x1F00)),
            ("#4_000_000_000", Moment::Instruction(4_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(moment), "{text}");
            assert_eq!(moment.to_string().parse(), Ok(moment), "{moment}");
        }
    }

    #[test]
    fn what_names_no_moment_is_refused() {
        for text in [
            "",
            "#",
            "@",
            "t",
            "7",
            "end-",
            "end+1",
            "#-1",
            "#+1",
            "1.s.",
            ".5s",
            "1,5s",
            "99999999999999999999",
            "#0x",
            "é",
        ] {
            let error = text.parse::<Moment>().expect_err(text);
            assert!(error.to_string().starts_with(&format!("`{text}`: a moment is ")), "{error}");
        }
        assert!("18446744074s".parse::<Moment>().is_err());
        assert!("1.0000000001s".parse::<Moment>().is_err());
    }
}
