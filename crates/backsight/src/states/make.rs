//! How an index of the states of a log is made: the log is read once.

use std::io::Write;
use std::ops::ControlFlow;

use backsight_core::leb128;
use backsight_tarmac::{Line, Machine};

use super::file::{MAGIC, put_end};
use super::index::{Block, Part, StateIndex, Store, Stored, checksum};
use super::pieces::{Lines, read};
use crate::logs::Opcodes;
use crate::moments::Identity;
use crate::protocol::Configuration;
use crate::{Buffer, Error, Result, Source};

/// Bytes of a part, at least.
const PART: u64 = 1 << 22;

/// Lines of memory that stay with the machine from part to part.
const MOST_LINES: usize = 1 << 17;

/// How an index is made.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// Read the log on up to so many threads.
    pub threads: usize,
    /// Bytes of a part of the log, at least.
    pub part: u64,
}

impl Making {
    /// On up to so many threads.
    pub const fn on(threads: usize) -> Self {
        Self { threads, part: PART }
    }

    /// Writes the index of a source that is a log. Gives how many parts it has.
    ///
    /// # Errors
    /// If the source is no log, cannot be read, or `out` fails.
    pub fn write(
        self,
        source: &Source,
        buffer: &Buffer,
        identity: Identity,
        out: &mut dyn Write,
    ) -> Result<usize> {
        let Configuration::Tarmac(config) = source.decoding() else {
            return Err(Error::Absent(format!("source {}: it is no Tarmac log", source.name())));
        };
        let mut written = Written { out, position: 0 };
        written.put(&[&MAGIC, &identity.0[..]].concat())?;
        let mut making = Maker {
            machine: Machine::new(u64::MAX),
            opcodes: Opcodes::default(),
            parts: Vec::new(),
            start: 0,
            end: 0,
            scratch: Vec::new(),
            written,
        };
        let size = usize::try_from(self.part).unwrap_or(usize::MAX);
        read(buffer, config, (self.threads, size), &mut |lines| {
            if lines.begins_anew && lines.offset >= making.start + self.part {
                making.end_part(lines.offset)?;
            }
            making.take(lines);
            Ok(ControlFlow::Continue(()))
        })?;
        making.end_part(making.end)?;
        making.finish()
    }

    /// The index of a source that is a log, in memory: at most so many bytes.
    ///
    /// # Errors
    /// As [`write`](Self::write), or if it takes more.
    pub fn in_memory(self, source: &Source, buffer: &Buffer, most: u64) -> Result<StateIndex> {
        let mut bytes = Bounded { bytes: Vec::new(), most };
        self.write(source, buffer, Identity::default(), &mut bytes)?;
        let (parts, code) = super::file::directory(&bytes.bytes)
            .ok_or_else(|| Error::Absent("an index that was just made makes no sense".to_owned()))?;
        Ok(StateIndex::new(Store::Bytes(bytes.bytes), parts, code))
    }
}

struct Maker<'o> {
    machine: Machine,
    opcodes: Opcodes,
    parts: Vec<Part>,
    /// Where the part begins that is being read, and how far it was read.
    start: u64,
    end: u64,
    scratch: Vec<u8>,
    written: Written<'o>,
}

impl Maker<'_> {
    fn take(&mut self, lines: &Lines<'_>) {
        for packet in lines.packets {
            if let Line::Instruction(instruction) = &packet.value.line {
                self.opcodes.add(instruction);
            }
            self.machine.push(packet);
        }
        if let Some(last) = lines.packets.last() {
            self.end = self.end.max(last.offset + u64::from(last.length));
        }
    }

    fn end_part(&mut self, end: u64) -> Result {
        self.scratch.clear();
        let (blocks, is_cleared) = self.machine.take_layer(self.start, &mut self.scratch);
        let base = self.written.position;
        let blocks = blocks.iter().map(|block| {
            let bytes =
                self.scratch.get(block.start as usize..).and_then(|rest| rest.get(..block.length as usize));
            let checksum = checksum(bytes.unwrap_or_default());
            let stored = Stored { position: base + block.start, length: block.length, checksum };
            Block { lines: block.lines, stored }
        });
        let blocks = blocks.collect();
        self.written.put(&self.scratch)?;
        self.scratch.clear();
        self.machine.save_registers(&mut self.scratch);
        let registers = self.written.store(&self.scratch)?;
        let contradictions = self.machine.contradictions();
        let start = std::mem::replace(&mut self.start, end);
        self.parts.push(Part { start, end, blocks, is_cleared, registers, contradictions });
        self.machine.leave_memory(MOST_LINES);
        Ok(())
    }

    fn finish(mut self) -> Result<usize> {
        let (mut code, mut failed, written) = (Vec::new(), Ok(()), &mut self.written);
        let _ = self.opcodes.pieces(&mut |address, bytes| match written.store(&bytes) {
            Ok(stored) => {
                code.push((address, stored));
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Err(error);
                ControlFlow::Break(())
            }
        });
        failed?;
        let position = self.written.position;
        let mut end = Vec::new();
        put_end(&self.parts, &code, position, &mut end);
        self.written.put(&end)?;
        Ok(self.parts.len())
    }
}

/// What is written, and how much that was.
struct Written<'o> {
    out: &'o mut dyn Write,
    position: u64,
}

impl Written<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result {
        self.position += bytes.len() as u64;
        let written = self.out.write_all(bytes);
        written.map_err(|error| Error::Capture(backsight_capture::Error::io("an index of states", &error)))
    }

    fn store(&mut self, bytes: &[u8]) -> Result<Stored> {
        let stored =
            Stored { position: self.position, length: bytes.len() as u32, checksum: checksum(bytes) };
        self.put(bytes).map(|()| stored)
    }
}

/// Bytes in memory, not more than are allowed.
struct Bounded {
    bytes: Vec<u8>,
    most: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if (self.bytes.len() + bytes.len()) as u64 > self.most {
            let why = "it takes more memory than is allowed: `backsight index` writes it to a file, --budget allows more";
            return Err(std::io::Error::other(why));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes a number.
pub(super) fn put_number(number: u64, out: &mut Vec<u8>) {
    leb128::write(number, |byte| out.push(byte));
}
