//! Text on its way out: whatever would move a terminal's cursor, change its colours or turn the direction of what is written is
//! made visible, wherever it came from.

use std::borrow::Cow;
use std::io::Write;

use backsight_core::is_harmful;

/// How harmful characters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// As they are: the format has rules of its own.
    Nothing,
    /// As in `\u{1b}`.
    Text,
    /// As JSON has them in its strings, where alone they can be.
    Json,
}

/// Makes what is harmful in text visible, piece by piece. Ends of lines and tabs are what they are.
#[derive(Clone, Debug)]
pub struct Visible {
    escape: Escape,
    /// The beginning of a character whose end has not come yet.
    begun: Vec<u8>,
}

impl Visible {
    /// Text of which nothing has come.
    pub fn new(escape: Escape) -> Self {
        Self { escape, begun: Vec::new() }
    }

    /// The next piece as it is written. What a character that is cut begins with comes with the piece that ends it.
    pub fn piece<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
        if self.escape == Escape::Nothing || self.begun.is_empty() && bytes.iter().all(is_plain) {
            return Cow::Borrowed(bytes);
        }
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(bytes);
        Cow::Owned(self.escaped(&whole))
    }

    fn escaped(&mut self, bytes: &[u8]) -> Vec<u8> {
        let (mut rest, mut out) = (bytes, Vec::with_capacity(bytes.len() + 16));
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.put_text(text, &mut out);
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.put_text(std::str::from_utf8(good).unwrap_or_default(), &mut out);
                    let Some(length) = error.error_len() else {
                        self.begun.extend_from_slice(bad);
                        break;
                    };
                    let (bad, later) = bad.split_at(length);
                    // Memory takes everything.
                    bad.iter().for_each(|byte| _ = write!(out, "\\x{byte:02x}"));
                    rest = later;
                }
            }
        }
        out
    }

    fn put_text(&self, text: &str, out: &mut Vec<u8>) {
        let mut written = 0;
        let found = text.char_indices().filter(|(_, c)| is_harmful(*c) && !matches!(c, '\n' | '\t'));
        for (at, c) in found {
            out.extend_from_slice(&text.as_bytes()[written..at]);
            written = at + c.len_utf8();
            let _ = match self.escape {
                // All of them are in the basic plane.
                Escape::Json => write!(out, "\\u{:04x}", u32::from(c)),
                _ => write!(out, "{}", c.escape_default()),
            };
        }
        out.extend_from_slice(&text.as_bytes()[written..]);
    }
}

/// The first so many lines of a text, each with its end: their number is taken from `left`. A line without an end is none.
pub fn first_lines<'t>(text: &'t [u8], left: &mut u64) -> &'t [u8] {
    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let (mut count, mut end) = (0, 0);
    for at in ends.take(usize::try_from(*left).unwrap_or(usize::MAX)) {
        (count, end) = (count + 1, at);
    }
    *left -= count;
    if *left == 0 { &text[..end] } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(text: &[u8], escape: Escape, piece: usize) -> String {
        let mut visible = Visible::new(escape);
        let seen: Vec<u8> = text.chunks(piece).flat_map(|piece| visible.piece(piece).into_owned()).collect();
        String::from_utf8(seen).unwrap()
    }

    #[test]
    fn however_it_is_cut_what_is_harmful_is_visible() {
        let text = "a\x1b[31m\u{9b}\u{202e}b\u{2028}\tGröße 日本\n";
        for piece in 1..=text.len() {
            let seen = through(text.as_bytes(), Escape::Text, piece);
            assert_eq!(seen, "a\\u{1b}[31m\\u{9b}\\u{202e}b\\u{2028}\tGröße 日本\n");
            let seen = through(text.as_bytes(), Escape::Json, piece);
            assert_eq!(seen, "a\\u001b[31m\\u009b\\u202eb\\u2028\tGröße 日本\n");
            assert_eq!(through(text.as_bytes(), Escape::Nothing, text.len()), text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_numbers() {
        assert_eq!(through(b"a\xff\x9bb", Escape::Text, 9), "a\\xff\\x9bb");
    }

    #[test]
    fn as_many_lines_are_given_as_are_left() {
        let mut left = 3;
        assert_eq!(first_lines(b"a\nb\n", &mut left), b"a\nb\n");
        assert_eq!((first_lines(b"c\nd\n", &mut left), left), (&b"c\n"[..], 0));
        assert_eq!((first_lines(b"e\n", &mut left), left), (&b""[..], 0));
    }
}
