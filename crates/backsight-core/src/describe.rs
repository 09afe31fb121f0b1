//! What a packet or an event says, field by field.
//!
//! Every packet and every event gives its fields once, in the order in which people read them. Text ([`write_text`]),
//! JSON and tables are written from those where they are wanted.

use core::fmt;

use crate::Address;

/// The value of a field, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number that people read in decimal.
    Decimal(u64),
    /// A number that people read in hexadecimal.
    Hexadecimal(u64),
    /// The same, always written with so many digits.
    Padded(u64, u8),
    /// A number of more than 64 bits, hexadecimal.
    Wide(u128),
    /// Some bits, the highest first; so many of them.
    Bits(u64, u8),
    /// An address.
    Address(Address),
    /// Yes or no.
    Flag(bool),
    /// One of a few words.
    Word(&'static str),
    /// Outcomes, the oldest in bit 0, so many of them; written as letters, first for 1 and then for 0.
    Outcomes(u64, u8, [char; 2]),
    /// So many bytes of a number, the lowest first, as characters.
    Characters(u64, u8),
    /// A short name out of the trace.
    Name(Name),
    /// The value is not known, or does not apply.
    Absent,
}

/// Writes the value as it stands in a line of text.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Decimal(value) => write!(f, "{value}"),
            Self::Hexadecimal(value) => write!(f, "{value:#x}"),
            Self::Padded(value, digits) => write!(f, "{value:#0width$x}", width = usize::from(digits) + 2),
            Self::Wide(value) => write!(f, "{value:#x}"),
            Self::Bits(value, count) => write!(f, "{value:#0width$b}", width = usize::from(count) + 2),
            Self::Address(address) => write!(f, "{:#018x}", address.0),
            Self::Flag(set) => write!(f, "{set}"),
            Self::Word(word) => f.write_str(word),
            Self::Outcomes(outcomes, count, [one, zero]) => {
                use fmt::Write as _;
                (0..count.min(64))
                    .try_for_each(|index| f.write_char(if outcomes >> index & 1 == 1 { one } else { zero }))
            }
            Self::Characters(value, count) => {
                use fmt::Write as _;
                let bytes = value.to_le_bytes().into_iter().take(count.into());
                bytes.flat_map(core::ascii::escape_default).try_for_each(|byte| f.write_char(byte.into()))
            }
            Self::Name(name) => f.write_str(name.as_str()),
            Self::Absent => f.write_str("-"),
        }
    }
}

/// A name of at most 24 characters, all of them ASCII that can be seen.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name([u8; 24]);

impl Name {
    /// The beginning of a word: up to its first byte that is no such character, and what there is room for.
    pub fn new(word: &[u8]) -> Self {
        let mut name = [0; 24];
        let seen = word.iter().take_while(|byte| byte.is_ascii_graphic());
        name.iter_mut().zip(seen).for_each(|(to, from)| *to = *from);
        Self(name)
    }

    /// The characters.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        core::str::from_utf8(self.0.get(..length).unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// How a field is written in a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// `label=value`.
    Labelled(&'static str),
    /// The value alone, whose meaning is plain.
    Plain,
    /// The value between these words, with nothing in between; an address without leading zeros. A value that is absent
    /// is not written.
    Within(&'static str, &'static str),
    /// These words, for a flag that is set or a value that is absent. A flag that is not set is not written.
    Words(&'static str),
    /// The first words for a flag that is set, the second for one that is not.
    Either(&'static str, &'static str),
    /// Not in text: what it says is in another field, or goes without saying.
    Hidden,
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in JSON and in tables; stable. `object.member` is a member of an object in JSON, and one column of a table.
    pub name: &'static str,
    /// What it says.
    pub value: Value,
    /// How it is written in a line of text.
    pub text: Text,
    /// What comes between the field before and this one in text: a space, if nothing else is said.
    pub separator: &'static str,
}

impl Field {
    /// A field that is written as `name=value` in text.
    pub const fn new(name: &'static str, value: Value) -> Self {
        Self { name, value, text: Text::Labelled(name), separator: " " }
    }

    /// The same, with a comma before it in text.
    pub const fn comma(self) -> Self {
        self.separated(", ")
    }

    /// The same, with these characters before it in text.
    pub const fn separated(self, separator: &'static str) -> Self {
        Self { separator, ..self }
    }

    /// Writes it as text, without what separates it from others. Writes nothing where it is not shown.
    fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match (self.text, self.value) {
            _ if !self.is_shown() => Ok(()),
            (Text::Labelled(label), value) => write!(out, "{label}={value}"),
            (Text::Plain, value) => write!(out, "{value}"),
            (Text::Within(before, after), Value::Address(address)) => write!(out, "{before}{address}{after}"),
            (Text::Within(before, after), value) => write!(out, "{before}{value}{after}"),
            (Text::Either(_, words), Value::Flag(false))
            | (Text::Words(words) | Text::Either(words, _), _) => out.write_str(words),
            (Text::Hidden, _) => Ok(()),
        }
    }

    /// Is there anything of it in text?
    const fn is_shown(&self) -> bool {
        !matches!(
            (self.text, self.value),
            (Text::Hidden, _) | (Text::Words(_), Value::Flag(false)) | (Text::Within(..), Value::Absent)
        )
    }

    /// The same, written otherwise in text.
    pub const fn text(self, text: Text) -> Self {
        Self { text, ..self }
    }
}

/// Something that can be listed.
pub trait Describe {
    /// What kind of thing it is: the name that listings use.
    fn name(&self) -> &'static str;

    /// Gives every field, in the order in which people read them.
    fn fields(&self, each: &mut dyn FnMut(Field));
}

/// Writes the fields in a line of text, without the name: `count=3, address follows`. Nothing is written where no field
/// is shown.
///
/// # Errors
/// If `out` fails.
pub fn write_text(described: &dyn Describe, out: &mut dyn fmt::Write) -> fmt::Result {
    write_after("", described, out)
}

/// The same after some words, as if they were the first field.
///
/// # Errors
/// If `out` fails.
pub fn write_after(words: &str, described: &dyn Describe, out: &mut dyn fmt::Write) -> fmt::Result {
    let (mut outcome, mut is_first) = (out.write_str(words), words.is_empty());
    described.fields(&mut |field| {
        if outcome.is_err() || !field.is_shown() {
            return;
        }
        let separator = if is_first { "" } else { field.separator };
        is_first = false;
        outcome = out.write_str(separator).and_then(|()| field.write(out));
    });
    outcome
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;

    struct Sample(&'static [Field]);

    impl Describe for Sample {
        fn name(&self) -> &'static str {
            "sample"
        }

        fn fields(&self, each: &mut dyn FnMut(Field)) {
            self.0.iter().for_each(|field| each(*field));
        }
    }

    fn text(fields: &'static [Field]) -> String {
        let mut text = String::new();
        write_text(&Sample(fields), &mut text).unwrap();
        text
    }

    #[test]
    fn fields_are_separated_by_spaces_and_commas_and_hidden_ones_by_nothing() {
        const FIELDS: &[Field] = &[
            Field::new("hidden", Value::Decimal(1)).text(Text::Hidden),
            Field::new("count", Value::Decimal(3)).comma(),
            Field::new("unset", Value::Flag(false)).text(Text::Words("never")),
            Field::new("time", Value::Absent).text(Text::Words("time unknown")),
            Field::new("is", Value::Flag(false)).text(Text::Either("yes", "no")).comma(),
            Field::new("kind", Value::Word("load")).text(Text::Plain),
            Field::new("at", Value::Address(Address(0x10))).text(Text::Within("(at ", ")")),
            Field::new("next", Value::Absent).text(Text::Within("then ", "")),
            Field::new("end", Value::Decimal(7)).text(Text::Within("", "")).separated("-"),
        ];
        assert_eq!(text(FIELDS), "count=3 time unknown, no load (at 0x10)-7");
        let mut line = String::new();
        write_after("words", &Sample(&FIELDS[1..2]), &mut line).unwrap();
        assert_eq!(line, "words, count=3");
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn values_are_written_as_people_read_them() {
        const FIELDS: &[Field] = &[
            Field::new("a", Value::Hexadecimal(0x1F)),
            Field::new("b", Value::Padded(0x2A, 8)),
            Field::new("c", Value::Wide(u128::MAX)),
            Field::new("d", Value::Bits(5, 4)),
            Field::new("e", Value::Address(Address(0x40_0000))),
            Field::new("f", Value::Outcomes(0b011, 3, ['E', 'N'])),
            Field::new("g", Value::Flag(true)).text(Text::Either("yes", "no")),
        ];
        let expected = "a=0x1f b=0x0000002a c=0xffffffffffffffffffffffffffffffff d=0b0101 \
                        e=0x0000000000400000 f=EEN yes";
        assert_eq!(text(FIELDS), expected);
    }
}
