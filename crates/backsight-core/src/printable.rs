//! Names from a capture may hold anything: what would move a terminal's cursor or change its colours is escaped.

use core::fmt::{self, Write};

/// A text without control characters: they are written as escapes.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.chars().any(is_harmful) {
            return f.pad(self.0);
        }
        for c in self.0.chars() {
            if is_harmful(c) { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

/// Control characters, ends of lines and paragraphs, and what turns the direction of what is written.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::ToString;

    use super::*;

    #[test]
    fn escapes_of_terminals_are_shown_and_not_obeyed() {
        assert_eq!(Printable("a\x1b[2Jb\r\n").to_string(), "a\\u{1b}[2Jb\\r\\n");
        assert_eq!(Printable("Größe \u{202e}txt").to_string(), "Größe \\u{202e}txt");
        assert_eq!(format!("[{:<4}]", Printable("é")), "[é   ]");
    }
}
