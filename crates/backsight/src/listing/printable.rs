//! Names from a capture may hold anything: what would move a terminal's cursor or change its colours is escaped.

use std::fmt::{self, Write};

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

/// A number of things: `1 buffer`, `2 buffers`, `3 accesses`.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = match (count, thing) {
        (1, _) => "",
        (_, thing) if ["ch", "sh", "ss"].iter().any(|end| thing.ends_with(end)) => "es",
        _ => "s",
    };
    format!("{count} {thing}{plural}")
}

/// Control characters, and those that turn the direction of what is written.
pub(super) fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        let all = [(0, "gap"), (1, "branch"), (2, "branch"), (1, "byte"), (3, "flush")];
        let words = all.map(|(count, thing)| counted(count, thing));
        assert_eq!(words, ["0 gaps", "1 branch", "2 branches", "1 byte", "3 flushes"]);
    }

    #[test]
    fn escapes_of_terminals_are_shown_and_not_obeyed() {
        assert_eq!(Printable("a\x1b[2Jb\r\n").to_string(), "a\\u{1b}[2Jb\\r\\n");
        assert_eq!(Printable("Größe \u{202e}txt").to_string(), "Größe \\u{202e}txt");
        assert_eq!(format!("[{:<4}]", Printable("é")), "[é   ]");
    }
}
