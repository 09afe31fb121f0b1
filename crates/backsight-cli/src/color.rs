//! Colours in what people read: where in a listing a function, an exception or damage is, the eye finds without reading.
//!
//! Listings are coloured line by line after they are written, by the few marks that all of them share: `#` before a
//! heading, `--` before an event, `;` before a line of source, `<name>` after an address. Formats for programs never
//! pass through here.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use clap::ColorChoice;

/// What the user asked for; set once, before anything is written.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// What `--color` says on a command line that is not parsed yet: its errors and help are coloured too.
pub fn asked_for(mut arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    let word = |text: &OsStr| match text.to_str() {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    };
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--") => break,
            Some("--color") => return arguments.next().map_or(ColorChoice::Auto, |next| word(&next)),
            Some(text) => match text.strip_prefix("--color=") {
                Some(when) => return word(OsStr::new(when)),
                None => continue,
            },
            None => continue,
        }
    }
    ColorChoice::Auto
}

/// Sets what `--color` says.
pub fn set(choice: ColorChoice) {
    // It is set once: there is one command line.
    let _ = CHOICE.set(choice);
}

/// Is what goes to this stream coloured? Without `--color`, if it is a terminal that knows colours, and NO_COLOR is not
/// set.
pub fn is_wanted(stream: &impl IsTerminal) -> bool {
    match CHOICE.get().copied().unwrap_or_default() {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
            let dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
            stream.is_terminal() && !is_set("NO_COLOR") && !dumb
        }
    }
}

/// The first word of a message by its weight: `backsight:` and `error:` are failures.
pub fn message(line: &str) -> String {
    let Some((word, rest)) = line.split_once(':') else { return line.to_owned() };
    let color = match word {
        "backsight" | "error" => RED,
        "warning" => YELLOW,
        "note" | "to see what it did" | "to see what it holds" => CYAN,
        _ => return line.to_owned(),
    };
    format!("{BOLD}{color}{word}:{PLAIN}{rest}")
}

/// Colours the lines that are written through it.
pub struct Highlighter<W> {
    inner: W,
    /// The start of a line whose end is not written yet.
    line: Vec<u8>,
}

impl<W: Write> Highlighter<W> {
    /// Colours what goes to `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, line: Vec::new() }
    }
}

impl<W: Write> Write for Highlighter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") {
                self.line.pop();
                let line = std::mem::take(&mut self.line);
                match std::str::from_utf8(&line) {
                    Ok(text) => writeln!(self.inner, "{}", highlighted(text))?,
                    Err(_) => {
                        self.inner.write_all(&line)?;
                        self.inner.write_all(b"\n")?;
                    }
                }
            }
        }
        Ok(bytes.len())
    }

    /// What is not a whole line yet waits for its end; at the end of a listing there is none.
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// One line of a listing, coloured.
fn highlighted(line: &str) -> String {
    if line.starts_with('#') {
        return format!("{BOLD}{line}{PLAIN}");
    }
    if let Some((before, event)) = line.split_once("-- ")
        && before.len() < 60
    {
        return format!("{DIM}{before}{PLAIN}{}-- {event}{PLAIN}", color_of_event(event));
    }
    if let Some(line) = description(line) {
        return line;
    }
    let (code, source) = match line.split_once("  ; ") {
        Some((code, source)) => (code, format!("  {DIM}; {source}{PLAIN}")),
        None => (line, String::new()),
    };
    let code = match (code.starts_with("      0x"), code.rsplit_once('<')) {
        (true, Some((before, name))) if name.ends_with('>') => format!("{before}{GREEN}<{name}{PLAIN}"),
        (true, _) => code.to_owned(),
        (false, _) => last_column(code),
    };
    code + &source
}

/// A line about what a capture holds: `buffer ETB_0: 384 bytes`, below its capture.
fn description(line: &str) -> Option<String> {
    let words = line.strip_prefix("  ")?;
    let (what, rest) = words.trim_start().split_once(' ')?;
    let indentation = &line[..line.len() - words.trim_start().len()];
    let known = ["core", "buffer", "source", "memory", "image", "event", "time", "ID"].contains(&what);
    let color = if rest.contains("MISSING") || rest.contains("not decoded") { RED } else { GREEN };
    known.then(|| match rest.split_once(": ") {
        Some((name, about)) => format!("{indentation}{what} {color}{name}{PLAIN}: {about}"),
        None => format!("{indentation}{what} {color}{rest}{PLAIN}"),
    })
}

/// Damage, exceptions and the rest.
fn color_of_event(event: &str) -> &'static str {
    let begins = |words: &[&str]| words.iter().any(|word| event.starts_with(word));
    if begins(&["gap", "no memory", "no code", "mismatch", "bad", "overflow", "lost", "path unknown"]) {
        RED
    } else if begins(&["exception", "interrupt", "trap"]) {
        YELLOW
    } else {
        CYAN
    }
}

/// What a range or a packet is: in the last column of its line, after two blanks. Of a call the name is before its cost.
fn last_column(line: &str) -> String {
    let damaged = ["BAD", "NOTSYNC", "RESERVED", "INCOMPLETE", "damage:"];
    if damaged.iter().any(|word| line.contains(word)) {
        return format!("{RED}{line}{PLAIN}");
    }
    match line.trim_end().rsplit_once("  ") {
        Some((before, cost)) if cost.contains("instruction") || cost.starts_with("call took") => {
            let (id, name) = before.split_once("  ").unwrap_or(("", before));
            format!("{id}  {GREEN}{name}{PLAIN}  {cost}")
        }
        Some((before, last)) if !before.trim().is_empty() && !last.is_empty() => {
            format!("{before}  {GREEN}{last}{PLAIN}")
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(pieces: &[&str]) -> String {
        let mut out = Vec::new();
        let mut highlighter = Highlighter::new(&mut out);
        pieces.iter().for_each(|piece| highlighter.write_all(piece.as_bytes()).expect("memory"));
        String::from_utf8(out).expect("text")
    }

    fn without_colors(text: &str) -> String {
        let mut parts = text.split('\x1b');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
    }

    #[test]
    fn colours_change_no_character_of_a_listing() {
        let listing = "capture: snapshot\n  buffer ETB_0: 12 bytes\n    ID 0x10: 12 bytes not decoded: ETMv3\n\
                       # buffer ETB_0\n0x10  -- gap: no code\n0x10  0x400000-0x400008     2  A64  call  main+0x4\n0x10    main  4 instructions\n\
                       \x20     0x400004  94000005   bl 0x400018 <fib>  ; fib.c:3\n\n";
        let coloured = through(&[listing]);
        assert_ne!(coloured, listing);
        assert_eq!(without_colors(&coloured), listing);
        for cut in 0..listing.len() {
            assert_eq!(through(&[&listing[..cut], &listing[cut..]]), coloured, "{cut}");
        }
    }

    #[test]
    fn damage_is_red_and_names_are_green() {
        assert!(highlighted("0x10  -- gap: overflow").contains("\x1b[31m-- gap"));
        assert!(highlighted("0x10  -- exception: IRQ").contains("\x1b[33m-- exception"));
        assert!(highlighted("      0x4  94000005   bl 0x18 <fib>").contains("\x1b[32m<fib>"));
        assert!(highlighted("0x10  0x4-0x8  1  A64  call  main").ends_with("\x1b[32mmain\x1b[0m"));
        let call = highlighted("0x10    main  4 instructions; call took 9 instructions");
        assert!(call.contains("\x1b[32m  main\x1b[0m  4 instructions"), "{call:?}");
    }

    #[test]
    fn the_command_line_is_asked_before_it_is_parsed() {
        let asked = |words: &[&str]| asked_for(words.iter().map(OsString::from));
        assert_eq!(asked(&["backsight", "info", "--color=always"]), ColorChoice::Always);
        assert_eq!(asked(&["backsight", "--color", "never", "info"]), ColorChoice::Never);
        assert_eq!(asked(&["backsight", "record", "--", "ls", "--color=always"]), ColorChoice::Auto);
    }
}
