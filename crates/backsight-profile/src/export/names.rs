//! Names come from programs and captures and may hold anything. Whatever a format means by a character, a name with that
//! character in it must not mean the same: here is what each format does to names.

use backsight::core::{Printable, is_harmful};

/// A name in one line of text, with what is harmful in it made visible. A name that is nothing is a question mark.
pub(crate) fn one_line(name: &str) -> String {
    if name.is_empty() { "?".to_owned() } else { Printable(name).to_string() }
}

/// The same with these characters made visible, too.
fn one_line_without(name: &str, forbidden: impl Fn(usize, char) -> bool) -> String {
    let mut clean = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        match forbidden(at, c) || is_harmful(c) {
            true => clean.extend(c.escape_unicode()),
            false => clean.push(c),
        }
    }
    if clean.is_empty() { "?".to_owned() } else { clean }
}

/// A frame of a stack: semicolons stand between frames, and in C++ names there are none.
pub(super) fn frame(name: &str) -> String {
    one_line(name).replace(';', ":")
}

/// A name for Callgrind, where a number in brackets at the beginning stands for another name.
pub(super) fn callgrind(name: &str) -> String {
    let is_number = name.strip_prefix('(').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    one_line_without(name, |at, _| at == 0 && is_number)
}

/// A function for lcov, where a number and a comma may stand before the name.
pub(super) fn lcov(name: &str) -> String {
    let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    one_line_without(name, |at, c| c == ',' && at == digits && digits > 0)
}

/// A symbol for the text of LLVM: lines begin with it, blanks end it, a colon and a number come after it; `#` begins a comment
/// and `[` a context at the beginning of a line, and a digit a count.
pub(super) fn llvm(name: &str) -> String {
    let after = |at: usize| name[at + 1..].chars().next();
    one_line_without(name, |at, c| match c {
        '#' | '[' | '!' | '0'..='9' => at == 0,
        ':' => after(at).is_none_or(|next| next.is_ascii_digit() || next == ' '),
        c => c == ' ' || c.is_whitespace(),
    })
}

/// A symbol for BOLT, where a backslash stands before blanks and backslashes that are meant.
pub(super) fn fdata(name: &str) -> String {
    one_line(name).replace('\\', "\\\\").replace(' ', "\\ ")
}

/// Text for XML 1.0, which knows most control characters under no name.
pub(super) fn xml(text: &str) -> String {
    let text = one_line_without(text, |_, c| matches!(c, '\u{FFFE}' | '\u{FFFF}'));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&apos;")
}

/// A field of CSV; those with commas, quotes or blanks at an end are quoted.
pub(super) fn csv(text: &str) -> String {
    let text = Printable(text).to_string();
    match text.contains([',', '"']) || text.trim() != text {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// The bytes of a string that ends at a zero.
pub(crate) fn zero_terminated(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().map(|byte| if byte == 0 { b'?' } else { byte }).chain([0])
}
