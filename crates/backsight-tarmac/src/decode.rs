//! Lines in a stream of bytes.

use backsight_core::{Accounting, Located, Resume};

use crate::head::{Before, read};
use crate::packet::{Bad, Line, Packet};

/// Bytes of the longest line: a register of 256 bytes with blanks takes a thousand.
pub const LONGEST_LINE: usize = 1 << 14;

/// What has to be known of a log that is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The machine has the most significant byte first.
    pub big_endian: bool,
    /// Instructions without an instruction set are of T32.
    pub assume_thumb: bool,
    /// Lines say which core they are about.
    pub cores: bool,
}

/// Turns the bytes of a log into packets, one or more for each line.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    config: Config,
    before: Before,
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    /// Where the next line begins.
    offset: u64,
    /// Bytes of a line that is too long, so far.
    dropped: u64,
    accounting: Accounting,
}

impl Decoder {
    /// A decoder that begins with a log.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            before: Before::default(),
            partial: Vec::new(),
            offset: 0,
            dropped: 0,
            accounting: Accounting::default(),
        }
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        if !self.partial.is_empty() || self.dropped > 0 {
            let Some(end) = end_of_line(bytes) else { return self.keep(bytes) };
            let (first, rest) = bytes.split_at(end + 1);
            bytes = rest;
            self.keep(first);
            if self.dropped > 0 {
                self.bad(self.dropped, Bad::TooLong, sink);
                self.dropped = 0;
            } else {
                let line = std::mem::take(&mut self.partial);
                self.line(&line, sink);
                self.partial = line;
                self.partial.clear();
            }
        }
        while let Some(end) = end_of_line(bytes) {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            self.line(line, sink);
        }
        self.keep(bytes);
    }

    /// There are no more bytes. A line without an end may be cut off: it may look whole and not be.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        let length = self.dropped + self.partial.len() as u64;
        self.partial.clear();
        self.dropped = 0;
        if length > 0 {
            self.bad(length, Bad::Cut, sink);
        }
    }

    /// Bytes are missing here.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        self.finish(sink);
        self.before = Before::default();
    }

    /// What became of the bytes.
    pub const fn accounting(&self) -> Accounting {
        self.accounting
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.dropped > 0 || self.partial.len() + bytes.len() > LONGEST_LINE {
            self.dropped += (self.partial.len() + bytes.len()) as u64;
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// A line with its end.
    #[inline]
    fn line(&mut self, whole: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        if whole.len() > LONGEST_LINE {
            return self.bad(whole.len() as u64, Bad::TooLong, sink);
        }
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (offset, length) = (self.offset, whole.len() as u32);
        self.offset += whole.len() as u64;
        let mut is_bad = false;
        read(line, &self.config, &mut self.before, &mut |value| {
            is_bad |= matches!(value.line, Line::Bad(_));
            sink(Located { offset, length, value });
        });
        match is_bad {
            true => self.accounting.bad += whole.len() as u64,
            false => self.accounting.decoded += whole.len() as u64,
        }
    }

    #[cold]
    fn bad(&mut self, length: u64, why: Bad, sink: &mut impl FnMut(Located<Packet>)) {
        let value = Packet { time: self.before.time, core: self.before.core, line: Line::Bad(why) };
        self.before.picture = None;
        let offset = self.offset;
        self.offset += length;
        self.accounting.bad += length;
        sink(Located { offset, length: u32::try_from(length).unwrap_or(u32::MAX), value });
    }
}

/// Where the next line feed is.
#[inline]
fn end_of_line(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const FEEDS: u64 = ONES * b'\n' as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ FEEDS;
        let found = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    let before = 8 * words.len();
    rest.iter().position(|&byte| byte == b'\n').map(|at| before + at)
}

impl Resume for Decoder {
    fn state(&self) -> Self {
        // What the last mode was is asked of no line.
        let before = Before { mode: Default::default(), ..self.before };
        Self { accounting: Accounting::default(), before, ..self.clone() }
    }

    fn starting_at(&self, offset: u64) -> Self {
        Self { offset, ..Self::new(&self.config) }
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut end = bytes.len();
        while end > from {
            let line = bytes.get(..end)?;
            let start = line.iter().rposition(|&byte| byte == b'\n')? + 1;
            if start >= from && is_sync(&bytes[start..], &self.config) {
                return Some(start);
            }
            end = start - 1;
        }
        None
    }
}

/// Does a whole line begin here, of an instruction with its time?
fn is_sync(bytes: &[u8], config: &Config) -> bool {
    let Some(end) = end_of_line(bytes) else { return false };
    let line = bytes.get(..end).unwrap_or_default();
    // Some producers put blanks before the time.
    if !line.trim_ascii_start().first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let mut is_instruction = false;
    read(line, config, &mut Before::default(), &mut |packet| {
        is_instruction |= matches!(packet.line, Line::Instruction(_));
    });
    is_instruction
}
