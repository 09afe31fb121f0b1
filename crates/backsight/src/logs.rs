//! Logs of executed instructions, recognised by what is in them, and the code that they bring along.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{IsTerminal as _, Read};
use std::ops::ControlFlow;
use std::path::Path;

use backsight_capture::folder::{Incoming, Lone};
use backsight_capture::packed::{is_packed, unpacked, unpacking};
use backsight_capture::{Capture, Error as FileError, FileRef};
use backsight_core::{Address, AddressSpace};
use backsight_image::Image;
use backsight_tarmac::{Config, Decoder, Instruction, Line, State};

use crate::protocol::tarmac::{NAME, config_of};
use crate::{Error, Result};

/// Bytes of a file that say whether it is a log.
const SAMPLE: u64 = 1 << 16;
/// Registers at the beginning of a log without an instruction that make it one.
const FEWEST_REGISTERS: u32 = 8;

/// A log that was recognised.
pub(crate) struct Log {
    pub file: FileRef,
    /// What its lines say of all of it.
    pub config: Vec<&'static str>,
}

/// The log in a file, plain or compressed; `None` if there is something else.
pub(crate) fn in_file(path: &Path) -> Result<Option<Log>> {
    let file = Lone(path.to_owned()).file();
    if !file.can_reopen() {
        return Ok(None);
    }
    let file = unpacked(file)?;
    let sample = sample(&mut *file.open()?);
    Ok(settings_of(&sample).map(|config| Log { file, config }))
}

/// The log in standard input; `None` if there is something else, or somebody at a terminal.
pub(crate) fn in_input() -> Result<Option<Log>> {
    let input = std::io::stdin();
    if input.is_terminal() { Ok(None) } else { in_reader("standard input", input) }
}

/// The log in a stream that can be read once, plain or compressed; `None` if there is something else.
pub(crate) fn in_reader(name: &str, mut reader: impl Read + Send + 'static) -> Result<Option<Log>> {
    let failed = |error| Error::Capture(FileError::io(name, &error));
    let mut start = Vec::new();
    reader.by_ref().take(4).read_to_end(&mut start).map_err(failed)?;
    let mut contents: Box<dyn Read + Send> = match is_packed(&start) {
        true => unpacking(start, reader),
        false => Box::new(std::io::Cursor::new(start).chain(reader)),
    };
    let sample = sample(&mut *contents);
    let config = settings_of(&sample);
    Ok(config.map(|config| {
        let all = std::io::Cursor::new(sample).chain(contents);
        Log { file: Incoming::file(name, all), config }
    }))
}

/// The beginning of a file. What cannot be read is found by those who read it all.
fn sample(reader: &mut (dyn Read + Send)) -> Vec<u8> {
    let mut sample = Vec::new();
    let _ = reader.take(SAMPLE).read_to_end(&mut sample);
    sample
}

/// Is this the beginning of a Tarmac log? The settings that it needs.
fn settings_of(sample: &[u8]) -> Option<Vec<&'static str>> {
    if !crate::detect::is_text(sample) {
        return None;
    }
    let plain = Evidence::of(sample, Config::default());
    if plain.is_enough() {
        return Some(plain.settings());
    }
    let assume_thumb = Config { assume_thumb: true, ..Config::default() };
    let thumb = Evidence::of(sample, assume_thumb);
    thumb.is_enough().then(|| [thumb.settings(), vec!["thumb=yes"]].concat())
}

/// What speaks for a log.
#[derive(Default)]
struct Evidence {
    instructions: u32,
    registers: u32,
    others: u32,
    bad: u32,
    several: bool,
}

impl Evidence {
    fn of(sample: &[u8], config: Config) -> Self {
        let mut evidence = Self::default();
        Decoder::new(&config).feed(sample, &mut |packet| {
            evidence.several |= packet.value.core > 0;
            match packet.value.line {
                Line::Instruction(_) => evidence.instructions += 1,
                Line::Register(_) => evidence.registers += 1,
                Line::Memory(_) | Line::Exception(_) | Line::Branch(_) => evidence.registers += 1,
                Line::Text(_) => evidence.others += 1,
                Line::Bad(_) => evidence.bad += 1,
            }
        });
        evidence
    }

    fn is_enough(&self) -> bool {
        let known = self.instructions + self.registers;
        (self.instructions > 0 || self.registers >= FEWEST_REGISTERS)
            && self.bad <= known / 4
            && self.others <= known.saturating_mul(2) + 16
    }

    fn settings(&self) -> Vec<&'static str> {
        if self.several { vec!["cores=yes"] } else { Vec::new() }
    }
}

/// Bytes that are kept together.
const LINE: u64 = 64;

/// Most of these: 64 MiB of code, however much a compressed log unpacks to. What is not kept is code that is missing.
const MOST_LINES: usize = 1 << 20;

/// The code of a log: the opcodes of its instructions where they were executed. Where code changed, the last counts. `None` if
/// the capture is no log, or can be read once only.
pub(crate) fn code(capture: &Capture, image: Image) -> Option<Image> {
    parts(capture).map(|parts| image_of(parts, image))
}

/// The same as addresses and bytes.
pub(crate) fn parts(capture: &Capture) -> Option<Vec<(u64, Vec<u8>)>> {
    let source = capture.sources.first().filter(|source| source.format.eq_ignore_ascii_case(NAME))?;
    let buffer = capture.buffers.first().filter(|buffer| buffer.files.iter().all(FileRef::can_reopen))?;
    let mut decoder = Decoder::new(&config_of(&source.options).ok()?);
    let mut opcodes = Opcodes::default();
    let mut reader = buffer.open().ok()?;
    let mut block = vec![0; 1 << 18];
    loop {
        let count = match reader.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            // What could be read is decoded, too.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        decoder.feed(&block[..count], &mut |packet| {
            if let Line::Instruction(instruction) = packet.value.line {
                opcodes.add(&instruction);
            }
        });
    }
    let mut parts = Vec::new();
    let _ = opcodes.pieces(&mut |address, bytes| {
        parts.push((address, bytes));
        ControlFlow::Continue(())
    });
    Some(parts)
}

/// Opcodes of a log as code.
pub(crate) fn image_of(parts: Vec<(u64, Vec<u8>)>, mut image: Image) -> Image {
    let (name, space) = (Path::new("opcodes of the log"), AddressSpace::ANY);
    for (address, bytes) in parts {
        if image.add_dump_contents(name, bytes, 0, None, Address(address), space).is_err() {
            break;
        }
    }
    image
}

/// Opcodes by their addresses.
#[derive(Default)]
pub(crate) struct Opcodes {
    numbers: HashMap<u64, usize>,
    /// The address divided by [`LINE`], the bytes, and a bit for each that is known.
    lines: Vec<(u64, [u8; LINE as usize], u64)>,
    latest: usize,
}

impl Opcodes {
    /// Adds that of an instruction.
    pub(crate) fn add(&mut self, it: &Instruction) {
        if !it.fetched {
            return;
        }
        let bytes = match (it.state, it.size) {
            (_, 2) => [it.opcode as u8, (it.opcode >> 8) as u8, 0, 0],
            (State::T32, _) => it.opcode.rotate_left(16).to_le_bytes(),
            _ => it.opcode.to_le_bytes(),
        };
        for (byte, index) in bytes.into_iter().take(it.size.into()).zip(0..) {
            let address = it.address.wrapping_add(index);
            let at = (address % LINE) as usize;
            let Some(line) = self.line(address / LINE) else { return };
            line.1[at] = byte;
            line.2 |= 1 << at;
        }
    }

    /// The bytes around an address; `None` if there is no room for them.
    fn line(&mut self, number: u64) -> Option<&mut (u64, [u8; LINE as usize], u64)> {
        if self.lines.get(self.latest).is_none_or(|line| line.0 != number) {
            self.latest = match self.numbers.entry(number) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(_) if self.lines.len() == MOST_LINES => return None,
                Entry::Vacant(place) => {
                    self.lines.push((number, [0; LINE as usize], 0));
                    *place.insert(self.lines.len() - 1)
                }
            };
        }
        self.lines.get_mut(self.latest)
    }

    /// The bytes that lie together, in the order of their addresses.
    pub(crate) fn pieces(mut self, give: &mut dyn FnMut(u64, Vec<u8>) -> ControlFlow<()>) -> ControlFlow<()> {
        self.lines.sort_unstable_by_key(|line| line.0);
        let (mut start, mut piece) = (0_u64, Vec::new());
        for (number, bytes, known) in &self.lines {
            for (address, (at, byte)) in (number * LINE..).zip(bytes.iter().enumerate()) {
                if known >> at & 1 == 0 {
                    continue;
                }
                if start + piece.len() as u64 != address && !piece.is_empty() {
                    give(start, std::mem::take(&mut piece))?;
                }
                if piece.is_empty() {
                    start = address;
                }
                piece.push(*byte);
            }
        }
        if piece.is_empty() { ControlFlow::Continue(()) } else { give(start, piece) }
    }
}
