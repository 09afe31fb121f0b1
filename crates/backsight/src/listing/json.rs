//! JSON objects, one a line, written as bytes.
//!
//! The members of an object stand in the order of their names, whatever order they were given in: a line can be compared
//! with that of another version, and a field that is added later changes nothing else.

use std::io::{self, Write};
use std::ops::Range;

use backsight_core::{Describe, Value, is_harmful};

use super::digits::{Decimal, hexadecimal};

/// Writes one object after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectWriter {
    /// The values of the members, as they will stand in the line.
    values: Vec<u8>,
    /// Name and value of each member. `object.member` is a member of an object inside.
    members: Vec<(&'static str, Range<usize>)>,
    line: Vec<u8>,
}

impl ObjectWriter {
    /// A member that is a number.
    pub fn number(&mut self, name: &'static str, number: u64) {
        self.member(name, |values| write_number(values, number));
    }

    /// A member that is a number, or `null`.
    pub fn optional_number(&mut self, name: &'static str, number: Option<u64>) {
        match number {
            Some(number) => self.number(name, number),
            None => self.member(name, |values| values.write_all(b"null")),
        }
    }

    /// A member that is a text.
    pub fn text(&mut self, name: &'static str, text: &str) {
        self.member(name, |values| write_string(values, text));
    }

    /// A member that is true or false.
    pub fn flag(&mut self, name: &'static str, flag: bool) {
        self.member(name, |values| write!(values, "{flag}"));
    }

    /// A member that is a list of bytes, two hexadecimal digits each.
    pub fn bytes(&mut self, name: &'static str, bytes: &[u8]) {
        self.member(name, |values| {
            values.push(b'"');
            bytes.iter().for_each(|&byte| values.extend_from_slice(&hexadecimal(byte)));
            values.push(b'"');
            Ok(())
        });
    }

    /// All fields of something.
    pub fn fields(&mut self, described: &dyn Describe) {
        described.fields(&mut |field| self.member(field.name, |values| write_value(values, field.value)));
    }

    fn member(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
        let from = self.values.len();
        // Memory takes everything.
        let _ = write(&mut self.values);
        self.members.push((name, from..self.values.len()));
    }

    /// Writes the object and a line end, and begins the next one.
    pub fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Self { values, members, line } = self;
        // A dot comes before whatever a name has, so that the members of an object inside stand together.
        members.sort_unstable_by_key(|&(name, _)| name);
        line.clear();
        line.push(b'{');
        let mut inside = None;
        for (name, value) in members.iter() {
            let (object, name) = match name.split_once('.') {
                Some((object, name)) => (Some(object), name),
                None => (None, *name),
            };
            if inside != object && inside.is_some() {
                line.push(b'}');
            }
            if !line.ends_with(b"{") {
                line.push(b',');
            }
            if inside != object
                && let Some(object) = object
            {
                push_name(line, object);
                line.push(b'{');
            }
            inside = object;
            push_name(line, name);
            line.extend_from_slice(values.get(value.clone()).unwrap_or_default());
        }
        line.extend_from_slice(if inside.is_some() { b"}}\n" } else { b"}\n" });
        values.clear();
        members.clear();
        out.write_all(line)
    }
}

fn push_name(line: &mut Vec<u8>, name: &str) {
    line.push(b'"');
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":");
}

fn write_value(out: &mut Vec<u8>, value: Value) -> io::Result<()> {
    match value {
        Value::Decimal(number) | Value::Hexadecimal(number) => write_number(out, number),
        Value::Padded(number, _) | Value::Bits(number, _) => write_number(out, number),
        Value::Address(address) => write!(out, "\"{address}\""),
        Value::Flag(set) => write!(out, "{set}"),
        Value::Word(word) => write_string(out, word),
        Value::Characters(number, count) => {
            let bytes = number.to_le_bytes();
            let bytes = bytes.get(..usize::from(count)).unwrap_or(&bytes);
            write_string(out, &String::from_utf8_lossy(bytes))
        }
        Value::Name(name) => write_string(out, name.as_str()),
        Value::Absent => out.write_all(b"null"),
        // No number of JSON has so many bits, and letters are letters.
        Value::Wide(_) | Value::Outcomes(..) => write!(out, "\"{value}\""),
    }
}

fn write_number(out: &mut Vec<u8>, number: u64) -> io::Result<()> {
    out.extend_from_slice(Decimal::default().bytes_of(number));
    Ok(())
}

/// A string: what JSON does not allow in one is escaped, and what would move a terminal's cursor too.
fn write_string(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    out.push(b'"');
    let mut rest = text;
    // Names of packets and fields, nearly always.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' ')) {
        out.extend_from_slice(text.as_bytes());
        rest = "";
    }
    while let Some(at) = rest.find(|c| matches!(c, '"' | '\\') || is_harmful(c)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut after = special.chars();
        if let Some(c) = after.next() {
            match c {
                '"' | '\\' => out.extend([b'\\', c as u8]),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                _ => write!(out, "\\u{:04x}", u32::from(c))?,
            }
        }
        rest = after.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::{Address, Field};
    use serde_json::json;

    struct Sample;

    impl Describe for Sample {
        fn name(&self) -> &'static str {
            "sample"
        }

        fn fields(&self, each: &mut dyn FnMut(Field)) {
            for (name, value) in [
                ("wide", Value::Wide(u128::MAX)),
                ("inner.second", Value::Address(Address(0x10))),
                ("count", Value::Decimal(u64::MAX)),
                ("inner.first", Value::Flag(true)),
                ("inner_after", Value::Absent),
                ("atoms", Value::Outcomes(1, 2, ['E', 'N'])),
                ("bits", Value::Bits(5, 4)),
                ("word", Value::Word("a \"word\"")),
            ] {
                each(Field::new(name, value));
            }
        }
    }

    fn line(fill: impl FnOnce(&mut ObjectWriter)) -> String {
        let (mut writer, mut out) = (ObjectWriter::default(), Vec::new());
        fill(&mut writer);
        writer.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_stand_in_the_order_of_their_names_and_objects_inside_together() {
        let text = line(|object| {
            object.fields(&Sample);
            object.bytes("bytes", &[0, 0xAB]);
        });
        let expected = "{\"atoms\":\"EN\",\"bits\":5,\"bytes\":\"00ab\",\"count\":18446744073709551615,\
             \"inner\":{\"first\":true,\"second\":\"0x10\"},\"inner_after\":null,\
             \"wide\":\"0xffffffffffffffffffffffffffffffff\",\"word\":\"a \\\"word\\\"\"}\n";
        assert_eq!(text, expected);
        let last = line(|object| object.member("z.a", |values| write_value(values, Value::Decimal(1))));
        assert_eq!(last, "{\"z\":{\"a\":1}}\n");
        assert_eq!(line(|_| ()), "{}\n");
    }

    #[test]
    fn any_text_is_read_back_as_it_was_and_holds_nothing_that_moves_a_cursor() {
        for text in ["", "a\"\\b/\n\r\t\u{8}\u{1b}[2J", "Größe \u{202e}txt\u{7f}\u{85}", "\u{1f600}x\u{0}"]
        {
            let written = line(|object| object.text("text", text));
            let value: serde_json::Value = serde_json::from_str(&written).unwrap();
            assert_eq!(value, json!({ "text": text }));
            assert!(!written.trim_end().chars().any(is_harmful), "{written:?}");
        }
    }

    #[test]
    fn a_writer_begins_again_after_each_object() {
        let (mut writer, mut out) = (ObjectWriter::default(), Vec::new());
        for number in 0..2 {
            writer.number("number", number);
            writer.end(&mut out).unwrap();
        }
        assert_eq!(out, b"{\"number\":0}\n{\"number\":1}\n");
    }
}
