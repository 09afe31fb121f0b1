//! Taking a line of a log apart.
//!
//! Words are kept as positions in the line, in memory that is used again for every line, and keys as numbers that can be
//! compared at once: nothing is allocated for a line.

use crate::ini::{Dialect, parse_number, short};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Plain words that a line has room for: time, name and state.
const PLAIN: usize = 3;

/// A key. Those of up to eight bytes differ in length or code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    code: u64,
    length: usize,
    text: &'static str,
}

impl Key {
    pub const fn new(text: &'static str) -> Self {
        let (bytes, mut code, mut at) = (text.as_bytes(), 0, 0);
        while at < bytes.len() {
            code = code << 8 | bytes[at] as u64;
            at += 1;
        }
        Self { code, length: bytes.len(), text }
    }
}

/// Where something is in its line.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    start: usize,
    end: usize,
}

impl Extent {
    fn of(self, line: &str) -> &str {
        line.get(self.start..self.end).unwrap_or_default()
    }
}

/// A key with its value.
#[derive(Clone, Copy, Debug)]
struct Keyed {
    code: u64,
    key: Extent,
    value: Extent,
    /// The value has characters that are written in another way.
    is_escaped: bool,
}

impl Keyed {
    fn length(&self) -> usize {
        self.key.end - self.key.start
    }

    fn has(&self, line: &str, code: u64, text: &str) -> bool {
        self.code == code && self.length() == text.len() && (text.len() <= 8 || self.key.of(line) == text)
    }
}

/// Room for the words of a line, to be used again and again.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    plain: [Extent; PLAIN],
    plain_count: usize,
    keyed: Vec<Keyed>,
}

/// The words of a line: those without `=` first, then keys with their values.
#[derive(Clone, Copy)]
pub(super) struct Words<'t> {
    line: &'t str,
    tokens: &'t Tokens,
}

/// Does a word end before this byte?
const fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'=' | b'"')
}

/// Does a value without quotes end before this byte?
const fn ends_value(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'"' | b'#')
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

impl Tokens {
    /// Takes a line apart at blanks, with strings in quotes and a comment after `#`.
    pub fn read<'t>(&'t mut self, line: &'t str) -> Result<Words<'t>, String> {
        self.plain_count = 0;
        self.keyed.clear();
        let text = line.trim_end_matches([' ', '\t', '\r']);
        let bytes = text.as_bytes();
        let mut at = text.len() - text.trim_start_matches([' ', '\t', '\r']).len();
        while let Some(&first) = bytes.get(at)
            && first != b'#'
        {
            let (start, mut code) = (at, 0_u64);
            while let Some(&byte) = bytes.get(at)
                && !ends_word(byte)
            {
                code = code << 8 | u64::from(byte);
                at += 1;
            }
            let word = Extent { start, end: at };
            match bytes.get(at) {
                Some(b'=') => at = self.keyed_value(text, word, code)?,
                Some(b'"') => return Err("a string stands where a word is expected".to_owned()),
                _ if !self.keyed.is_empty() => {
                    return Err(format!("expected `key=value`, found `{}`", short(word.of(text))));
                }
                _ => {
                    if let Some(plain) = self.plain.get_mut(self.plain_count) {
                        *plain = word;
                    }
                    self.plain_count += 1;
                }
            }
            if bytes.get(at).is_some_and(|&byte| !is_blank(byte)) {
                let rest = text.get(at..).unwrap_or_default();
                return Err(format!("expected a blank before `{}`", short(rest)));
            }
            while bytes.get(at).is_some_and(|&byte| is_blank(byte)) {
                at += 1;
            }
        }
        Ok(Words { line, tokens: self })
    }

    /// Takes the value of a key, which stands after `=`. Gives where it ends.
    fn keyed_value(&mut self, text: &str, key: Extent, code: u64) -> Result<usize, String> {
        let (bytes, start) = (text.as_bytes(), key.end + 1);
        let (value, end, is_escaped) = if bytes.get(start) == Some(&b'"') {
            let start = start + 1;
            let quoted = text.get(start..).unwrap_or_default();
            match quoted.bytes().position(|byte| matches!(byte, b'"' | b'\\')) {
                None => return Err("the string has no closing quote".to_owned()),
                // Most have no character that is written in another way.
                Some(length) if quoted.as_bytes()[length] == b'"' => {
                    (Extent { start, end: start + length }, start + length + 1, false)
                }
                Some(_) => {
                    let length = unescape(quoted, &mut |_| {})?;
                    (Extent { start, end: start + length }, start + length + 1, true)
                }
            }
        } else {
            let rest = bytes.get(start..).unwrap_or_default();
            let length = rest.iter().position(|&byte| ends_value(byte)).unwrap_or(rest.len());
            (Extent { start, end: start + length }, start + length, false)
        };
        let name = key.of(text);
        if self.keyed.iter().any(|other| other.has(text, code, name)) {
            return Err(format!("`{}` is given twice", short(name)));
        }
        self.keyed.push(Keyed { code, key, value, is_escaped });
        Ok(end)
    }
}

impl<'t> Words<'t> {
    /// Is there neither a word nor a key?
    pub fn is_empty(&self) -> bool {
        self.tokens.plain_count == 0 && self.tokens.keyed.is_empty()
    }

    /// How many plain words there are.
    pub fn plain_count(&self) -> usize {
        self.tokens.plain_count
    }

    /// One of the first plain words.
    pub fn plain(&self, index: usize) -> Option<&'t str> {
        let extent = self.tokens.plain.get(index).filter(|_| index < self.tokens.plain_count)?;
        Some(extent.of(self.line))
    }

    pub fn get(&self, key: Key) -> Option<Cow<'t, str>> {
        let Key { code, text, .. } = key;
        let keyed = self.tokens.keyed.iter().find(|keyed| keyed.has(self.line, code, text))?;
        Some(self.value(keyed))
    }

    fn value(&self, keyed: &Keyed) -> Cow<'t, str> {
        let text = keyed.value.of(self.line);
        if !keyed.is_escaped {
            return Cow::Borrowed(text);
        }
        let (mut bytes, quoted) = (Vec::new(), self.line.get(keyed.value.start..).unwrap_or_default());
        // It was read without an error when the line was taken apart.
        let _ = unescape(quoted, &mut |byte| bytes.push(byte));
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// All keys with their values, in their order.
    pub fn all(&self) -> impl Iterator<Item = (&'t str, Cow<'t, str>)> {
        self.tokens.keyed.iter().map(|keyed| (keyed.key.of(self.line), self.value(keyed)))
    }

    pub fn needed(&self, key: Key) -> Result<Cow<'t, str>, String> {
        self.get(key).ok_or_else(|| format!("expected `{}=`", key.text))
    }

    pub fn number(&self, key: Key) -> Result<u64, String> {
        number(key.text, &self.needed(key)?)
    }

    pub fn maybe_number(&self, key: Key) -> Result<Option<u64>, String> {
        self.get(key).map(|text| number(key.text, &text)).transpose()
    }
}

/// Reads a string up to its closing quote; gives where that is.
fn unescape(quoted: &str, put: &mut dyn FnMut(u8)) -> Result<usize, String> {
    let bytes = quoted.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at) {
            None => return Err("the string has no closing quote".to_owned()),
            Some(b'"') => return Ok(at),
            Some(b'\\') => {
                let (byte, length) = match bytes.get(at + 1) {
                    Some(b'n') => (b'\n', 2),
                    Some(b't') => (b'\t', 2),
                    Some(&byte @ (b'\\' | b'"')) => (byte, 2),
                    Some(b'x') => {
                        let digits = quoted.get(at + 2..at + 4).and_then(hex_bytes);
                        let byte = digits.and_then(|bytes| bytes.first().copied());
                        (byte.ok_or("`\\x` needs two digits")?, 4)
                    }
                    _ => return Err("expected \\\\, \\\", \\n, \\t or \\xHH in the string".to_owned()),
                };
                put(byte);
                at += length;
            }
            Some(&byte) => {
                put(byte);
                at += 1;
            }
        }
    }
}

/// A number, decimal or hexadecimal.
pub(super) fn number(key: &str, text: &str) -> Result<u64, String> {
    plain_number(text.as_bytes())
        .or_else(|| parse_number(text, Dialect::Package))
        .ok_or_else(|| format!("`{key}` is `{}`, expected a number", short(text)))
}

/// A number in the usual form that cannot be too large.
fn plain_number(text: &[u8]) -> Option<u64> {
    if let Some(digits) = text.strip_prefix(b"0x").filter(|digits| matches!(digits.len(), 1..=16)) {
        return digits.iter().try_fold(0, |sum, &digit| Some(sum << 4 | u64::from(hex_digit(digit)?)));
    }
    if !matches!(text.len(), 1..=19) {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, &digit| {
        digit.is_ascii_digit().then(|| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    })
}

const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The bytes that an even number of hexadecimal digits stands for.
pub(super) fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(hex_digit(high)? << 4 | hex_digit(low)?)).collect()
}

/// Texts that were met last: most come again soon.
const RECENT_BITS: u32 = 10;
/// Texts that are remembered at once. Of a log with more, some are in memory several times.
const MOST_TEXTS: usize = 1 << 16;

/// Texts that a log repeats in many of its events: each is kept once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    all: HashSet<Arc<str>>,
    /// By a few bits of their last bytes.
    recent: Vec<Option<Arc<str>>>,
}

impl Texts {
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if self.recent.is_empty() {
            self.recent.resize(1 << RECENT_BITS, None);
        }
        let end = text.as_bytes().last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mixed = (end ^ text.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = (mixed >> (64 - RECENT_BITS)) as usize;
        if let Some(Some(known)) = self.recent.get(slot)
            && **known == *text
        {
            return known.clone();
        }
        let text = match self.all.get(text) {
            Some(known) => known.clone(),
            None => {
                let text: Arc<str> = text.into();
                if self.all.len() >= MOST_TEXTS {
                    self.all.clear();
                }
                self.all.insert(text.clone());
                text
            }
        };
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = Some(text.clone());
        }
        text
    }
}
