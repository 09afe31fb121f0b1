//! Fast signal traces: compressed blocks, as GTKWave defines them.
//!
//! A file is a head, blocks of changes, the lengths of all waves (the geometry) and their names (the hierarchy). A block has the values of
//! all waves at its beginning, the changes of each wave one after the other, where those of each wave begin, and the times that
//! changes count by. Numbers of the blocks are big-endian.

use std::io::{self, SeekFrom, Write};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::vcd::digits;
use super::{Head, Value, WaveWriter, WriteSeek, identifiers};
use crate::export::names;

/// Bytes of changes of a block.
const BLOCK: usize = 1 << 23;

/// Times of a block.
const MOST_TIMES: usize = 1 << 20;

const HEAD: u8 = 0;
const CHANGES: u8 = 5;
const GEOMETRY: u8 = 3;
const HIERARCHY: u8 = 4;

pub(super) struct Writer<'o> {
    out: &'o mut dyn WriteSeek,
    hierarchy: Vec<u8>,
    scopes: u64,
    waves: Vec<Wave>,
    /// When the file and the block begin, and the time that changes are at.
    start: Option<u64>,
    block_start: u64,
    now: u64,
    /// Times of the block, as distances.
    times: Vec<u8>,
    time_count: usize,
    /// Bytes of changes of the block.
    bytes: usize,
    /// What waves have at the beginning of the block.
    frame: Vec<u8>,
    blocks: u64,
}

/// A wave, with its changes in the block.
struct Wave {
    bits: Option<u8>,
    changes: Vec<u8>,
    /// The number of the time of its last change.
    last: usize,
    /// Its value, as characters.
    value: Vec<u8>,
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn deflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(4));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Deflated, or as it is where that is no longer.
fn packed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let packed = deflated(bytes)?;
    Ok(if packed.len() < bytes.len() { packed } else { bytes.to_vec() })
}

impl<'o> Writer<'o> {
    pub fn new(out: &'o mut dyn WriteSeek, head: &Head) -> io::Result<Self> {
        const SCOPE: u8 = 254;
        const UP: u8 = 255;
        const ATTRIBUTE: u8 = 252;
        let (mut hierarchy, mut waves) = (Vec::new(), Vec::new());
        for line in &head.comment {
            // A comment: of the kind 0 (miscellaneous), 0 (comment).
            hierarchy.extend([ATTRIBUTE, 0, 0]);
            hierarchy.extend(names::zero_terminated(&names::one_line(line)));
            varint(0, &mut hierarchy);
        }
        let scopes = identifiers(head.lanes.iter().map(|(name, _)| name.as_str()));
        for (scope, (_, signals)) in scopes.iter().zip(&head.lanes) {
            // A module, of no component.
            hierarchy.extend([SCOPE, 0]);
            hierarchy.extend(names::zero_terminated(scope).chain([0]));
            for (name, signal) in
                identifiers(signals.iter().map(|signal| signal.name.as_str())).iter().zip(signals)
            {
                const WIRE: u8 = 16;
                const STRING: u8 = 21;
                hierarchy.extend([if signal.bits.is_some() { WIRE } else { STRING }, 0]);
                let range = signal.bits.map(|bits| format!(" [{}:0]", bits.max(1) - 1)).unwrap_or_default();
                hierarchy.extend(names::zero_terminated(&format!("{name}{range}")));
                varint(signal.bits.unwrap_or(0).into(), &mut hierarchy);
                // It is not another name of an earlier one.
                varint(0, &mut hierarchy);
                let value = vec![b'x'; signal.bits.unwrap_or(0).into()];
                waves.push(Wave { bits: signal.bits, changes: Vec::new(), last: 0, value });
            }
            hierarchy.push(UP);
        }
        let scopes = scopes.len() as u64;
        let (times, frame) = Default::default();
        let mut writer = Self {
            out,
            hierarchy,
            scopes,
            waves,
            start: None,
            block_start: 0,
            now: 0,
            times,
            time_count: 0,
            bytes: 0,
            frame,
            blocks: 0,
        };
        writer.head()?;
        Ok(writer)
    }

    /// The head, with what is known so far.
    fn head(&mut self) -> io::Result<()> {
        let count = self.waves.len() as u64;
        let mut head = vec![HEAD];
        head.extend(329_u64.to_be_bytes());
        for number in [self.start.unwrap_or(0), self.now] {
            head.extend(number.to_be_bytes());
        }
        // By this, readers see the order of bytes of real numbers.
        head.extend(std::f64::consts::E.to_le_bytes());
        for number in [0, self.scopes, count, count, self.blocks] {
            head.extend(u64::to_be_bytes(number));
        }
        // A unit of time is 10^-9 s.
        head.push((-9_i8) as u8);
        let mut text = |text: &str, length: usize| {
            head.extend(text.bytes().chain(std::iter::repeat(0)).take(length));
        };
        text("backsight", 128);
        // No date: the same trace gives the same file.
        text("", 119);
        // Verilog; and times begin at 0.
        head.push(0);
        head.extend(0_u64.to_be_bytes());
        self.out.write_all(&head)
    }

    fn section(&mut self, kind: u8, contents: &[u8]) -> io::Result<()> {
        self.out.write_all(&[kind])?;
        self.out.write_all(&(contents.len() as u64 + 8).to_be_bytes())?;
        self.out.write_all(contents)
    }

    /// What waves have now begins the next block.
    fn begin_block(&mut self) {
        self.block_start = self.now;
        self.frame = self.waves.iter().flat_map(|wave| &wave.value).copied().collect();
        self.times.clear();
        varint(self.now, &mut self.times);
        (self.time_count, self.bytes) = (1, 0);
        self.waves.iter_mut().for_each(|wave| wave.last = 0);
    }

    /// Writes the changes of the block.
    fn end_block(&mut self) -> io::Result<()> {
        let mut block = Vec::new();
        for number in [self.block_start, self.now, self.bytes as u64] {
            block.extend(number.to_be_bytes());
        }
        let frame = packed(&self.frame)?;
        varint(self.frame.len() as u64, &mut block);
        varint(frame.len() as u64, &mut block);
        varint(self.waves.len() as u64, &mut block);
        block.extend(frame);
        varint(self.waves.len() as u64, &mut block);
        // Changes are deflated.
        let begin = block.len();
        block.push(b'Z');
        let mut places = Vec::new();
        let (mut before, mut without) = (0, 0_u64);
        for wave in &mut self.waves {
            let changes = std::mem::take(&mut wave.changes);
            if changes.is_empty() {
                without += 1;
                continue;
            }
            if without > 0 {
                varint(without << 1, &mut places);
                without = 0;
            }
            let place = (block.len() - begin) as u64;
            varint((place - before) << 1 | 1, &mut places);
            before = place;
            let short = deflated(&changes)?;
            if short.len() < changes.len() {
                varint(changes.len() as u64, &mut block);
                block.extend(short);
            } else {
                varint(0, &mut block);
                block.extend(&changes);
            }
        }
        if without > 0 {
            varint(without << 1, &mut places);
        }
        block.extend(&places);
        block.extend((places.len() as u64).to_be_bytes());
        let times = packed(&self.times)?;
        block.extend(&times);
        for number in [self.times.len(), times.len(), self.time_count] {
            block.extend((number as u64).to_be_bytes());
        }
        self.blocks += 1;
        self.section(CHANGES, &block)
    }
}

impl WaveWriter for Writer<'_> {
    fn change(&mut self, time: u64, signal: usize, value: &Value) -> io::Result<()> {
        if self.start.is_none() {
            self.start = Some(time);
            self.now = time;
            self.begin_block();
        } else if time > self.now {
            if self.bytes >= BLOCK || self.time_count >= MOST_TIMES {
                self.end_block()?;
                self.now = time;
                self.begin_block();
            } else {
                varint(time - self.now, &mut self.times);
                self.time_count += 1;
                self.now = time;
            }
        }
        let at = self.time_count - 1;
        let Some(wave) = self.waves.get_mut(signal) else { return Ok(()) };
        let before = wave.changes.len();
        let after = ((at - wave.last) as u64) << 1;
        wave.last = at;
        match (value, wave.bits) {
            (Value::Text(text), None) => {
                let text = if text.is_empty() { String::new() } else { names::one_line(text) };
                varint(after, &mut wave.changes);
                varint(text.len() as u64, &mut wave.changes);
                wave.changes.extend(text.bytes());
            }
            (_, None) => {
                varint(after, &mut wave.changes);
                varint(0, &mut wave.changes);
            }
            (value, Some(bits)) => {
                let (number, unknown) = match value {
                    Value::Number(number, unknown) => (*number, *unknown),
                    _ => (0, u128::MAX),
                };
                let mut text = String::new();
                digits(number, unknown, bits, &mut text);
                wave.value = text.into_bytes();
                if wave.value.contains(&b'x') {
                    varint(after | 1, &mut wave.changes);
                    wave.changes.extend(&wave.value);
                } else {
                    varint(after, &mut wave.changes);
                    let shifted = number << (128 - u32::from(bits.clamp(1, 128)));
                    let bytes = usize::from(bits).div_ceil(8);
                    wave.changes.extend(shifted.to_be_bytes().into_iter().take(bytes));
                }
            }
        }
        self.bytes += wave.changes.len() - before;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.start.is_some() {
            self.end_block()?;
        }
        let mut lengths = Vec::new();
        self.waves.iter().for_each(|wave| varint(wave.bits.map_or(u32::MAX.into(), u64::from), &mut lengths));
        let mut geometry = Vec::new();
        geometry.extend((lengths.len() as u64).to_be_bytes());
        geometry.extend((self.waves.len() as u64).to_be_bytes());
        geometry.extend(packed(&lengths)?);
        self.section(GEOMETRY, &geometry)?;
        let mut hierarchy = (self.hierarchy.len() as u64).to_be_bytes().to_vec();
        let mut encoder = GzEncoder::new(&mut hierarchy, Compression::default());
        encoder.write_all(&self.hierarchy)?;
        encoder.finish()?;
        self.section(HIERARCHY, &hierarchy)?;
        let end = self.out.stream_position()?;
        self.out.seek(SeekFrom::Start(0))?;
        self.head()?;
        self.out.seek(SeekFrom::Start(end))?;
        self.out.flush()
    }
}
