//! The last door of text: whatever would move a terminal's cursor, change its colours or turn the direction of what is
//! written is made visible here, wherever it came from.

use std::io::{self, Write};

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

/// Writes text with what is harmful in it made visible. Ends of lines and tabs are what they are.
pub struct Visible<W> {
    inner: W,
    escape: Escape,
    /// The beginning of a character whose end is not written yet.
    begun: Vec<u8>,
}

impl<W: Write> Visible<W> {
    pub fn new(inner: W, escape: Escape) -> Self {
        Self { inner, escape, begun: Vec::new() }
    }

    pub fn into_inner(self) -> W {
        self.inner
    }

    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.put_text(text),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.put_text(std::str::from_utf8(good).unwrap_or_default())?;
                    let Some(length) = error.error_len() else {
                        self.begun.extend_from_slice(bad);
                        return Ok(());
                    };
                    let (bad, later) = bad.split_at(length);
                    bad.iter().try_for_each(|byte| write!(self.inner, "\\x{byte:02x}"))?;
                    rest = later;
                }
            }
        }
        Ok(())
    }

    fn put_text(&mut self, text: &str) -> io::Result<()> {
        let mut written = 0;
        let found = text.char_indices().filter(|(_, c)| is_harmful(*c) && !matches!(c, '\n' | '\t'));
        for (at, c) in found {
            self.inner.write_all(&text.as_bytes()[written..at])?;
            written = at + c.len_utf8();
            match self.escape {
                // All of them are in the basic plane.
                Escape::Json => write!(self.inner, "\\u{:04x}", u32::from(c))?,
                _ => write!(self.inner, "{}", c.escape_default())?,
            }
        }
        self.inner.write_all(&text.as_bytes()[written..])
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
        if self.escape == Escape::Nothing || self.begun.is_empty() && bytes.iter().all(is_plain) {
            self.inner.write_all(bytes)?;
        } else if self.begun.is_empty() {
            self.put(bytes)?;
        } else {
            let mut whole = std::mem::take(&mut self.begun);
            whole.extend_from_slice(bytes);
            self.put(&whole)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(text: &str, escape: Escape, piece: usize) -> String {
        let mut visible = Visible::new(Vec::new(), escape);
        text.as_bytes().chunks(piece).for_each(|piece| visible.write_all(piece).unwrap());
        String::from_utf8(visible.into_inner()).unwrap()
    }

    #[test]
    fn however_it_is_cut_what_is_harmful_is_visible() {
        let text = "a\x1b[31m\u{9b}\u{202e}b\u{2028}\tGröße 日本\n";
        for piece in 1..=text.len() {
            let seen = through(text, Escape::Text, piece);
            assert_eq!(seen, "a\\u{1b}[31m\\u{9b}\\u{202e}b\\u{2028}\tGröße 日本\n");
            let seen = through(text, Escape::Json, piece);
            assert_eq!(seen, "a\\u001b[31m\\u009b\\u202eb\\u2028\tGröße 日本\n");
            assert_eq!(through(text, Escape::Nothing, piece), text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_numbers() {
        let mut visible = Visible::new(Vec::new(), Escape::Text);
        visible.write_all(b"a\xff\x9bb").unwrap();
        assert_eq!(visible.into_inner(), b"a\\xff\\x9bb");
    }
}
