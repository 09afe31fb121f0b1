//! The two dialects of INI files that captures use.
//!
//! Snapshots know `key=value`, with comments anywhere on a line. Trace packages know `key=value` and `key: value`,
//! with comments on lines of their own, because their values hold `#`. Lines are kept, so that every complaint
//! can name one.

use crate::Error;
use std::collections::HashMap;

/// Which rules a file follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Snapshot files.
    Snapshot,
    /// Trace package files.
    Package,
}

/// One `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, trimmed.
    pub key: String,
    /// The value, trimmed.
    pub value: String,
    /// Its line, from 1.
    pub line: u32,
}

/// A `[name]` with the entries after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name, trimmed.
    pub name: String,
    /// The line of its header, from 1.
    pub line: u32,
    /// The entries, in order.
    pub entries: Vec<Entry>,
}

/// A file, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ini {
    /// The file, for messages.
    pub file: String,
    /// The rules it follows.
    pub dialect: Dialect,
    /// The sections, in order. A name may occur again.
    pub sections: Vec<Section>,
    /// Where the sections of each name are.
    index: HashMap<String, Vec<usize>>,
}

impl Ini {
    /// Takes a file apart.
    ///
    /// # Errors
    /// If a line is neither a section, nor an entry, nor a comment, or an entry stands before any section.
    pub fn parse(file: &str, text: &str, dialect: Dialect) -> Result<Self, Error> {
        let mut sections: Vec<Section> = Vec::new();
        for (number, line) in (1..).zip(text.trim_start_matches('\u{FEFF}').lines()) {
            let line = without_comment(line, dialect).trim();
            if line.is_empty() {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let name = rest.strip_suffix(']').ok_or_else(|| {
                    Error::line(
                        file,
                        number,
                        format!("expected `]` at the end of the section name `{}`", short(line)),
                    )
                })?;
                sections.push(Section { name: name.trim().to_owned(), line: number, entries: Vec::new() });
                continue;
            }
            let (key, value) = split(line, dialect).ok_or_else(|| {
                Error::line(
                    file,
                    number,
                    format!("expected `[section]` or `key=value`, found `{}`", short(line)),
                )
            })?;
            let section = sections.last_mut().ok_or_else(|| {
                Error::line(file, number, format!("`{}` stands before any [section]", short(line)))
            })?;
            let entry = Entry { key: key.trim().to_owned(), value: value.trim().to_owned(), line: number };
            section.entries.push(entry);
        }
        let mut index: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, section) in sections.iter().enumerate() {
            index.entry(dialect.key(&section.name)).or_default().push(number);
        }
        Ok(Self { file: file.to_owned(), dialect, sections, index })
    }

    /// The sections of that name. Package files compare without regard to case.
    pub fn sections(&self, name: &str) -> impl Iterator<Item = &Section> {
        let places = self.index.get(&self.dialect.key(name)).map_or(&[][..], Vec::as_slice);
        places.iter().filter_map(|&place| self.sections.get(place))
    }

    /// The first value of a key in the sections of that name.
    pub fn get(&self, section: &str, key: &str) -> Option<&Entry> {
        self.sections(section).find_map(|section| self.entry(section, key))
    }

    /// The first value of a key in a section.
    pub fn entry<'a>(&self, section: &'a Section, key: &str) -> Option<&'a Entry> {
        section.entries.iter().find(|entry| self.same(&entry.key, key))
    }

    /// Complains about a key that occurs twice in the given sections, taken together.
    ///
    /// # Errors
    /// If one does.
    pub fn refuse_duplicates<'a>(
        &self,
        sections: impl Iterator<Item = &'a Section>,
        same_key: impl Fn(&str) -> String,
    ) -> Result<(), Error> {
        let mut seen = HashMap::new();
        for entry in sections.flat_map(|section| &section.entries) {
            if let Some(first) = seen.insert(same_key(&entry.key), entry.line) {
                let what = format!("`{}` is given a second time (first in line {first})", short(&entry.key));
                return Err(Error::line(&self.file, entry.line, what).advise("keep one of the two lines"));
            }
        }
        Ok(())
    }

    /// An error at an entry of this file.
    pub fn error(&self, entry: &Entry, what: impl Into<String>) -> Error {
        Error::line(&self.file, entry.line, what)
    }

    /// The number that an entry gives.
    ///
    /// # Errors
    /// If it gives none.
    pub fn number(&self, entry: &Entry) -> Result<u64, Error> {
        parse_number(&entry.value, self.dialect).ok_or_else(|| {
            self.error(
                entry,
                format!("`{}` is `{}`, expected a number", short(&entry.key), short(&entry.value)),
            )
        })
    }

    fn same(&self, one: &str, other: &str) -> bool {
        match self.dialect {
            Dialect::Snapshot => one == other,
            Dialect::Package => one.eq_ignore_ascii_case(other),
        }
    }
}

impl Dialect {
    /// The same for all spellings of a name that mean the same.
    fn key(self, name: &str) -> String {
        match self {
            Self::Snapshot => name.to_owned(),
            Self::Package => name.to_ascii_lowercase(),
        }
    }
}

fn without_comment(line: &str, dialect: Dialect) -> &str {
    match dialect {
        Dialect::Snapshot => line.split([';', '#']).next().unwrap_or_default(),
        Dialect::Package if line.trim_start().starts_with([';', '#']) => "",
        Dialect::Package => line,
    }
}

fn split(line: &str, dialect: Dialect) -> Option<(&str, &str)> {
    if dialect == Dialect::Snapshot {
        return line.split_once('=');
    }
    // The first `=`, or the first `:` with a blank or the end after it; else any `:`.
    let bytes = line.as_bytes();
    let separator = |place: usize| match bytes[place] {
        b'=' => true,
        b':' => matches!(bytes.get(place + 1), None | Some(b' ' | b'\t')),
        _ => false,
    };
    let place = (0..bytes.len()).find(|&place| separator(place)).or_else(|| line.find(':'))?;
    Some((&line[..place], &line[place + 1..]))
}

/// A number as the dialect writes it: `0x` hexadecimal, decimal, and in snapshots a leading 0 for octal.
pub fn parse_number(text: &str, dialect: Dialect) -> Option<u64> {
    let text = text.trim();
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if dialect == Dialect::Snapshot && text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// A truth value: 0 or 1, false or true, no or yes.
pub fn parse_boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Some(true),
        "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// Removes one pair of quotes around a value.
pub fn unquote(text: &str) -> &str {
    let text = text.trim();
    ['"', '\''].iter().find_map(|&quote| text.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(text)
}

/// Enough of a text to recognise it in a message.
pub(crate) fn short(text: &str) -> String {
    let mut shown: String =
        text.chars().take(60).map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    shown
}
