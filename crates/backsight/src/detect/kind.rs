//! What a file is, by its first bytes, if it is not trace.

use crate::listing::Printable;

/// Bytes of a text that decide whether it is one.
const TEXT: usize = 4096;
/// Characters of a line that are quoted.
const QUOTED: usize = 60;

/// What a file is instead of trace, and what to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// In words, after "this is".
    pub what: String,
    /// What to do; may be empty.
    pub advice: String,
}

impl Kind {
    fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into() }
    }
}

/// A file that begins like this is this.
const MAGICS: [(&[u8], &str, &str); 16] = [
    (b"BSQUEEZE", "compressed trace", "unpack it with `backsight decompress`"),
    (b"BSRETIRE", "a file of retired instructions", "turn it into trace with `backsight encode`"),
    (
        b"PK\x03\x04",
        "a ZIP archive without snapshot.ini and contents.ini",
        "unpack it, and give what is in it",
    ),
    (b"PK\x05\x06", "an empty ZIP archive", ""),
    (b"\x28\xB5\x2F\xFD", "a file that zstd compressed", "unpack it with `unzstd`"),
    (b"\xFD7zXZ\0", "a file that xz compressed", "unpack it with `unxz`"),
    (b"BZh91AY", "a file that bzip2 compressed", "unpack it with `bunzip2`"),
    (b"7z\xBC\xAF\x27\x1C", "a 7-Zip archive", "unpack it, and give what is in it"),
    (b"\x04\x22\x4D\x18", "a file that lz4 compressed", "unpack it with `unlz4`"),
    (
        b"PAR1",
        "a Parquet file",
        "tables are what `backsight export` writes: give the capture that they were made of",
    ),
    (
        b"ARROW1",
        "an Arrow file",
        "tables are what `backsight export` writes: give the capture that they were made of",
    ),
    (b"\x89PNG", "a picture (PNG)", ""),
    (b"%PDF-", "a PDF document", ""),
    (b"\xCF\xFA\xED\xFE", "a Mach-O program", ""),
    (b"SQLite format 3", "an SQLite database", ""),
    (b"\xD4\xC3\xB2\xA1", "a packet capture of a network", ""),
];

/// What the first bytes of a file say that it is.
pub(super) fn of(start: &[u8]) -> Option<Kind> {
    if let Some(kind) = elf(start) {
        return Some(kind);
    }
    if start.get(257..262) == Some(b"ustar") {
        return Some(Kind::new("a tar archive", "unpack it with `tar -xf`, and give what is in it"));
    }
    let magic = MAGICS.iter().find(|(magic, ..)| start.starts_with(magic));
    magic.map(|&(_, what, advice)| Kind::new(what, advice)).or_else(|| text(start))
}

fn elf(start: &[u8]) -> Option<Kind> {
    let header = start.get(..20).filter(|header| header.starts_with(b"\x7FELF"))?;
    let half = |at: usize| {
        let bytes = [header[at], header[at + 1]];
        if header[5] == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    };
    let machine = match half(18) {
        3 => "x86".to_owned(),
        40 => "Arm".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "AArch64".to_owned(),
        243 => "RISC-V".to_owned(),
        other => format!("machine {other}"),
    };
    let what = match half(16) {
        1 => "an object file or kernel module",
        2 | 3 => "a program or library",
        4 => "a core file without trace",
        _ => "an ELF file",
    };
    Some(Kind::new(
        format!("{what} (ELF, {machine}), and no trace"),
        "give the capture first, and this file with --image",
    ))
}

/// Bytes that people can read.
pub(crate) fn is_text(start: &[u8]) -> bool {
    let start = &start[..start.len().min(TEXT)];
    let valid = match std::str::from_utf8(start) {
        Ok(_) => start.len(),
        // A character may be cut off at the end.
        Err(error) => error.valid_up_to(),
    };
    let is_odd = |byte: &u8| *byte < 0x20 && !b"\t\n\r\x0C\x1B".contains(byte) || *byte == 0x7F;
    valid > 0 && start.len() - valid < 4 && !start.iter().any(is_odd)
}

fn text(start: &[u8]) -> Option<Kind> {
    if !is_text(start) {
        return None;
    }
    let text = String::from_utf8_lossy(&start[..start.len().min(TEXT)]);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = first.chars().take(QUOTED).collect();
    let more = if line.len() < first.len() { "…" } else { "" };
    let (what, advice) = if first.starts_with("%system-event-log") {
        ("an event log", "it belongs into a trace package: give the folder that holds it")
    } else if first.starts_with('[') && text.contains('=') {
        ("a file of settings (INI)", "give the folder of the capture that it describes")
    } else {
        (
            "text",
            "trace is binary: give the file that it was written to; `backsight encode` takes logs of executed instructions",
        )
    };
    Some(Kind::new(format!("{what}, and no trace; it begins with `{}{more}`", Printable(&line)), advice))
}
