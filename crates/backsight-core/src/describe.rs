//! What a packet or an event says, field by field.
//!
//! Every packet and every event gives its fields once, in the order in which people read them. Text, JSON and tables
//! are written from those by whoever wants them.

use crate::Address;

/// The value of a field, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number that people read in decimal.
    Decimal(u64),
    /// A number that people read in hexadecimal.
    Hexadecimal(u64),
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
    /// The value is not known, or does not apply.
    Absent,
}

/// How a field is written in a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// `label=value`.
    Labelled(&'static str),
    /// The value alone, whose meaning is plain.
    Plain,
    /// These words, for a flag that is set or a value that is absent.
    Words(&'static str),
    /// Not in text: what it says is in another field, or goes without saying.
    Hidden,
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in JSON and in tables; stable.
    pub name: &'static str,
    /// What it says.
    pub value: Value,
    /// How it is written in a line of text.
    pub text: Text,
}

impl Field {
    /// A field that is written as `name=value` in text.
    pub const fn new(name: &'static str, value: Value) -> Self {
        Self { name, value, text: Text::Labelled(name) }
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
