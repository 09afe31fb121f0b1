//! Settings of trace units: `KEY=VALUE`.

use std::fmt;
use std::ops::Range;

use backsight_unit::riscv::{Resync, ResyncMode};

/// Keys with their values.
pub type Settings = [(String, String)];

/// A setting that makes no sense, or settings that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The setting; `None` if it is not a single one.
    pub setting: Option<(String, String)>,
    /// What is wrong, and what was expected.
    pub why: String,
}

impl SettingError {
    /// One setting.
    pub fn new(key: &str, value: &str, why: impl fmt::Display) -> Self {
        Self { setting: Some((key.to_owned(), value.to_owned())), why: why.to_string() }
    }

    /// All of them together.
    pub fn together(why: impl fmt::Display) -> Self {
        Self { setting: None, why: why.to_string() }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.setting {
            Some((key, value)) => write!(f, "{key}={value}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for SettingError {}

/// A text that is no number, or no range of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberError {
    /// No number of at most 64 bits.
    NotANumber(String),
    /// No two numbers with `..` between them.
    NotARange(String),
    /// The second number is not larger than the first.
    EmptyRange(String),
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber(text) => write!(f, "`{text}` is no number (decimal, or hexadecimal with 0x)"),
            Self::NotARange(text) => write!(f, "`{text}` is no range: FROM..TO is expected"),
            Self::EmptyRange(text) => write!(f, "`{text}` is an empty range"),
        }
    }
}

impl std::error::Error for NumberError {}

/// A number as people write it: decimal, or hexadecimal with `0x`. Underscores may group digits.
///
/// # Errors
/// If it is no number of at most 64 bits.
pub fn parse_number(text: &str) -> Result<u64, NumberError> {
    let digits = text.trim().replace('_', "");
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| NumberError::NotANumber(text.to_owned()))
}

/// Two numbers with `..` between them: the first is included, the second is not. Either may be absent.
///
/// # Errors
/// If it is no range, or an empty one.
pub fn parse_range(text: &str) -> Result<Range<u64>, NumberError> {
    let (from, to) = text.split_once("..").ok_or_else(|| NumberError::NotARange(text.to_owned()))?;
    let from = if from.is_empty() { 0 } else { parse_number(from)? };
    let to = if to.is_empty() { u64::MAX } else { parse_number(to)? };
    if from < to { Ok(from..to) } else { Err(NumberError::EmptyRange(text.to_owned())) }
}

/// Yes or no, in the words that configurations use.
pub(crate) fn flag(key: &str, value: &str) -> Result<bool, SettingError> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(SettingError::new(key, value, "expected 0 or 1")),
    }
}

/// A number of some width.
pub(crate) fn number<T: TryFrom<u64>>(key: &str, value: &str) -> Result<T, SettingError> {
    let number = parse_number(value).map_err(|why| SettingError::new(key, value, why))?;
    T::try_from(number).map_err(|_| SettingError::new(key, value, "the number is too large"))
}

/// A range of addresses.
pub(crate) fn range(key: &str, value: &str) -> Result<Range<u64>, SettingError> {
    parse_range(value).map_err(|why| SettingError::new(key, value, why))
}

/// Two numbers with a colon between them, as in 256:512.
pub(crate) fn pair<A: TryFrom<u64>, B: TryFrom<u64>>(key: &str, value: &str) -> Result<(A, B), SettingError> {
    let (first, second) = value
        .split_once(':')
        .ok_or_else(|| SettingError::new(key, value, "BYTES:DRAIN is expected, as in 256:512"))?;
    Ok((number(key, first)?, number(key, second)?))
}

/// How often a RISC-V unit synchronises: `N` packets, or `N:cycles`, `N:halfwords`; 0: never.
pub(crate) fn resync(key: &str, value: &str) -> Result<Resync, SettingError> {
    let (limit, unit) = value.split_once(':').unwrap_or((value, "packets"));
    let mode = match unit {
        "packets" | "messages" => ResyncMode::Packets,
        "cycles" => ResyncMode::Cycles,
        "halfwords" => ResyncMode::HalfWords,
        _ => {
            let why = "expected a number, or one with :packets, :cycles or :halfwords";
            return Err(SettingError::new(key, value, why));
        }
    };
    let limit = number(key, limit)?;
    Ok(Resync { mode: if limit == 0 { ResyncMode::Off } else { mode }, limit })
}

/// What a unit takes, a line for each.
pub(crate) fn listed(options: &[(&str, &str)]) -> String {
    options.iter().map(|(name, meaning)| format!("\n  {name}: {meaning}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(parse_number("0x1_F"), Ok(31));
        assert_eq!(parse_number("12"), Ok(12));
        assert!(parse_number("12h").is_err() && parse_number("").is_err());
    }

    #[test]
    fn ranges_may_be_open() {
        assert_eq!(parse_range("0x10..0x20"), Ok(16..32));
        assert_eq!(parse_range("..8"), Ok(0..8));
        assert_eq!(parse_range("8.."), Ok(8..u64::MAX));
        assert!(parse_range("8..8").is_err() && parse_range("8").is_err());
    }

    #[test]
    fn what_is_counted_towards_a_synchronisation_may_be_named() {
        let taken = |value| resync("resync", value).map(|resync| (resync.mode, resync.limit)).ok();
        assert_eq!(taken("64"), Some((ResyncMode::Packets, 64)));
        assert_eq!(taken("0x1fff:cycles"), Some((ResyncMode::Cycles, 8191)));
        assert_eq!(taken("100:halfwords"), Some((ResyncMode::HalfWords, 100)));
        assert_eq!(taken("0:cycles"), Some((ResyncMode::Off, 0)));
        assert_eq!((taken("64:days"), taken(":cycles")), (None, None));
    }
}
