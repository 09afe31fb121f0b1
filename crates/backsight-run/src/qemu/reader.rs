//! The stream: header, chunks, definitions, events of each thread.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use backsight_core::{Access, Address, Context, Execution, Input, Security};

use super::follow::{Process, ThreadReader};
use super::{Damage, StreamError};
use crate::{CodeMap, Observation, Target};

const STREAM_HEADER: usize = 16;
const CHUNK_HEADER: usize = 24;
const TAIL_HEADER: usize = 64;
const LONGEST_CHUNK: u32 = 1 << 16;
const MOST_THREADS: u32 = 1 << 16;
const DEFINITIONS: u32 = u32::MAX;
const END: u32 = u32::MAX - 1;
/// In the chunk that ends a stream: another program takes the place of this one.
const REPLACED: u32 = 1;

/// What a recording came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Instructions handed out.
    pub instructions: u64,
    /// Traps handed out.
    pub traps: u64,
    /// Threads seen.
    pub threads: u32,
    /// The program ended in order and everything is there.
    pub complete: bool,
    /// Bytes of a last chunk that was cut off; a tail file may hold them.
    pub unread: u64,
}

/// Reads a stream piece by piece.
#[derive(Debug, Default)]
pub struct StreamReader {
    process: Option<Process>,
    gives_blocks: bool,
    threads: Vec<Option<Thread>>,
    /// The thread of the items handed out last.
    current: Option<u32>,
    definitions_read: u64,
    /// The beginning of a header or chunk whose rest has not come yet.
    pending: Vec<u8>,
    /// Offset of `pending` in the stream.
    offset: u64,
    ended: bool,
    /// Another program takes the place of this one.
    is_replaced: bool,
    failed: Option<StreamError>,
}

#[derive(Debug, Default)]
struct Thread {
    read: u64,
    follower: ThreadReader,
    exited: bool,
}

impl StreamReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with [blocks](Observation::Blocks) where they ran to their end.
    pub fn with_blocks() -> Self {
        Self { gives_blocks: true, ..Self::default() }
    }

    /// Starts over with another stream.
    pub fn reset(&mut self) {
        *self = Self { gives_blocks: self.gives_blocks, ..Self::default() };
    }

    /// Has the program ended because another one takes its place, with the number of its process?
    pub fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// The target of the program, once the header was read.
    pub fn target(&self) -> Option<Target> {
        self.process.as_ref().map(|process| process.target)
    }

    /// Reads on. Any division of the stream into pieces gives the same items.
    ///
    /// # Errors
    /// If the stream is not what the plugin writes. Nothing more can be read then; what was handed out is good.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), StreamError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        while !bytes.is_empty() {
            if self.pending.is_empty() {
                let used = self.pieces(bytes, sink)?;
                bytes = &bytes[used..];
                self.pending.extend_from_slice(bytes);
                return Ok(());
            }
            let wanted = self.wanted(&self.pending).map_err(|what| self.fail(what))?;
            let wanted = wanted.saturating_sub(self.pending.len()).max(1);
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            self.pending.extend_from_slice(now);
            bytes = later;
            let pending = std::mem::take(&mut self.pending);
            let used = self.pieces(&pending, sink)?;
            self.pending = pending;
            self.pending.drain(..used);
        }
        Ok(())
    }

    /// Handles every whole header and chunk at the start of `bytes`; gives their length.
    fn pieces(
        &mut self,
        bytes: &[u8],
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<usize, StreamError> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let length = self.wanted(rest).map_err(|what| self.fail(what))?;
            let Some(piece) = rest.get(..length).filter(|piece| !piece.is_empty()) else { return Ok(used) };
            let done = match &self.process {
                None => self.header(piece, sink),
                Some(_) => self.chunk(piece, sink),
            };
            if let Err(what) = done {
                return Err(self.fail(what));
            }
            used += length;
            self.offset += length as u64;
        }
    }

    /// How long the header or chunk is that begins here, as far as can be told yet.
    fn wanted(&self, bytes: &[u8]) -> Result<usize, Damage> {
        if self.process.is_none() {
            return Ok(STREAM_HEADER);
        }
        match bytes
            .get(4..8)
            .and_then(|length| length.first_chunk())
            .map(|length| u32::from_le_bytes(*length))
        {
            None => Ok(CHUNK_HEADER),
            Some(length) if length <= LONGEST_CHUNK => Ok(CHUNK_HEADER + length as usize),
            Some(length) => Err(Damage::ChunkLength(length)),
        }
    }

    fn fail(&mut self, what: Damage) -> StreamError {
        *self.failed.insert(StreamError { offset: self.offset, what })
    }

    fn header(
        &mut self,
        bytes: &[u8],
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), Damage> {
        let mut fields = ChunkFields(bytes);
        if fields.bytes(8) != Some(b"BSQEMU\x00\x01") {
            return Err(Damage::Header);
        }
        let target = match fields.bytes(4) {
            Some(&[1, ..]) => Target::Aarch64,
            Some(&[2, ..]) => Target::Arm,
            Some(&[3, ..]) => Target::Riscv64,
            Some(&[other, ..]) => return Err(Damage::Target(other)),
            _ => return Err(Damage::Header),
        };
        let pid = fields.word().ok_or(Damage::Header)?;
        self.process = Some(Process::new(target, self.gives_blocks));
        sink(Observation::ProcessStarts { pid });
        Ok(())
    }

    fn chunk(
        &mut self,
        bytes: &[u8],
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), Damage> {
        let mut fields = ChunkFields(bytes);
        let header = (fields.word(), fields.word(), fields.long(), fields.word(), fields.word());
        let (Some(source), _, Some(position), Some(tid), _) = header else { return Err(Damage::Position) };
        match source {
            END => (self.ended, self.is_replaced) = (true, tid == REPLACED),
            DEFINITIONS => {
                if position != self.definitions_read {
                    return Err(Damage::Position);
                }
                self.definitions(fields.0, sink)?;
            }
            number => {
                if self.thread(number, tid, sink)?.read != position {
                    return Err(Damage::Position);
                }
                self.words(number, fields.0, sink)?;
            }
        }
        Ok(())
    }

    fn definitions(
        &mut self,
        mut bytes: &[u8],
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), Damage> {
        let process = self.process.as_mut().ok_or(Damage::Header)?;
        self.definitions_read += bytes.len() as u64;
        while !bytes.is_empty() {
            let length =
                process.blocks.define(bytes, |address, bytes| sink(Observation::Code { address, bytes }))?;
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// Makes `number` the thread that items belong to.
    fn thread(
        &mut self,
        number: u32,
        tid: u32,
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<&mut Thread, Damage> {
        if number >= MOST_THREADS {
            return Err(Damage::Threads);
        }
        let index = number as usize;
        if self.threads.len() <= index {
            self.threads.resize_with(index + 1, || None);
        }
        if self.current != Some(number) {
            self.current = Some(number);
            sink(Observation::Execution(Execution::Thread(number)));
        }
        let target = self.target();
        let thread = &mut self.threads[index];
        if thread.is_none() {
            sink(Observation::ThreadStarts { thread: number, tid });
            let context = match target {
                Some(Target::Riscv64) => Context::riscv(0, true),
                target => Context::arm(0, Security::NonSecure, target != Some(Target::Arm)),
            };
            let context = Context { context_id: Some(tid.into()), ..context };
            sink(Observation::Execution(Execution::Context(context)));
        }
        Ok(thread.get_or_insert_default())
    }

    fn words(
        &mut self,
        number: u32,
        bytes: &[u8],
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), Damage> {
        let process = self.process.as_mut().ok_or(Damage::Header)?;
        let Some(thread) = self.threads.get_mut(number as usize).and_then(Option::as_mut) else {
            return Err(Damage::Threads);
        };
        if thread.exited && !bytes.is_empty() {
            return Err(Damage::Position);
        }
        thread.read += bytes.len() as u64;
        let read = read_words(number, thread, process, bytes, sink);
        process.report_blocks(sink);
        read
    }

    /// Reads a tail file: what QEMU had not written when it died. First that of the definitions, then those of threads.
    ///
    /// # Errors
    /// If the file is not what the plugin writes, or does not belong to the stream.
    pub fn tail(
        &mut self,
        bytes: &[u8],
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), StreamError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.read_tail(bytes, sink).map_err(|what| self.fail(what))
    }

    fn read_tail(
        &mut self,
        bytes: &[u8],
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), Damage> {
        if self.process.is_none() || bytes.len() < TAIL_HEADER {
            return Err(Damage::Tail);
        }
        let mut fields = ChunkFields(bytes);
        let magic = fields.bytes(8);
        let header =
            (fields.word(), fields.word(), fields.long(), fields.long(), fields.long(), fields.long());
        let (Some(source), Some(fill), Some(position), Some(begun), Some(expected), Some(block)) = header
        else {
            return Err(Damage::Tail);
        };
        let payload = bytes.get(TAIL_HEADER..).and_then(|bytes| bytes.get(..fill as usize));
        let (Some(b"BSQTAIL1"), Some(payload)) = (magic, payload) else { return Err(Damage::Tail) };
        // What the stream already has is not read twice.
        let news = |read: u64| {
            let known = read.checked_sub(position)?.min(payload.len() as u64);
            payload.get(known as usize..)
        };
        if source == DEFINITIONS {
            let news = news(self.definitions_read).ok_or(Damage::Position)?;
            return self.definitions(news, sink);
        }
        let read = self.threads.get(source as usize).and_then(|t| t.as_ref()).map_or(0, |thread| thread.read);
        let news = news(read).ok_or(Damage::Position)?;
        if read == 0 && news.is_empty() {
            return Ok(());
        }
        self.thread(source, 0, sink)?;
        self.words(source, news, sink)?;
        let end = position.saturating_add(payload.len() as u64);
        // The number of a block that was about to begin does not stand in the stream yet.
        let cut = (begun < expected && block < end).then_some(begun as u32);
        self.finish_thread(source, cut, sink)
    }

    fn finish_thread(
        &mut self,
        number: u32,
        cut: Option<u32>,
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), Damage> {
        let process = self.process.as_mut().ok_or(Damage::Header)?;
        let Some(thread) = self.threads.get_mut(number as usize).and_then(Option::as_mut) else {
            return Ok(());
        };
        if self.current != Some(number) && thread.follower.is_busy() {
            self.current = Some(number);
            sink(Observation::Execution(Execution::Thread(number)));
        }
        thread.follower.finish(cut, process, &mut |execution| sink(Observation::Execution(execution)))
    }

    /// The stream ends here, tails included: hands out what is still known to have executed.
    pub fn finish(&mut self, sink: &mut (impl FnMut(Observation<'_>) + ?Sized)) -> Summary {
        for number in 0..self.threads.len() as u32 {
            // Only a stream that has already failed can fail here: its summary is not complete.
            if self.finish_thread(number, None, sink).is_err() {
                self.fail(Damage::EventContents(1));
            }
        }
        Summary {
            instructions: self.process.as_ref().map_or(0, |process| process.instructions),
            traps: self.process.as_ref().map_or(0, |process| process.traps),
            threads: self.threads.iter().flatten().count() as u32,
            complete: self.ended && self.failed.is_none() && self.pending.is_empty(),
            unread: self.pending.len() as u64,
        }
    }
}

/// Reads blocks and events of a thread. The last blocks that ran are not handed out yet then.
fn read_words(
    number: u32,
    thread: &mut Thread,
    process: &mut Process,
    bytes: &[u8],
    sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
) -> Result<(), Damage> {
    let mut fields = ChunkFields(bytes);
    loop {
        let known = thread.follower.known_blocks(fields.0.as_chunks().0, process, sink);
        fields.0 = &fields.0[4 * known..];
        let Some(word) = fields.word() else { break };
        if word >> 31 == 0 {
            thread.follower.block(word, process, sink)?;
        } else {
            let (kind, argument) = (word >> 24 & 0x7F, word & 0x00FF_FFFF);
            process.report_blocks(sink);
            event(number, thread, process, kind, argument, &mut fields, sink)?;
        }
    }
    if fields.0.is_empty() { Ok(()) } else { Err(Damage::EventContents(0)) }
}

/// An event of a thread, and the words that belong to it.
fn event(
    number: u32,
    thread: &mut Thread,
    process: &mut Process,
    kind: u32,
    argument: u32,
    fields: &mut ChunkFields<'_>,
    sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
) -> Result<(), Damage> {
    let malformed = Damage::EventContents(kind);
    match kind {
        1 | 3 | 4 | 9 => thread.follower.event(kind, argument)?,
        2 => access(thread, process, argument, fields, sink)?,
        5 => {
            let handler = fields.long().ok_or(malformed)?;
            *process.handlers.get_mut(argument as usize).ok_or(malformed)? = handler;
        }
        6 => {
            let (address, length, offset) = (fields.long(), fields.long(), fields.long());
            let (Some(address), Some(length), Some(offset)) = (address, length, offset) else {
                return Err(malformed);
            };
            let size = fields.word().ok_or(malformed)? as usize;
            let path = fields.padded(size).ok_or(malformed)?;
            sink(Observation::Map(CodeMap {
                address: Address(address),
                length,
                offset,
                path: Path::new(OsStr::from_bytes(path)),
                program: argument & 16 != 0,
                writable: argument & 2 != 0,
            }));
        }
        7 => {
            let (Some(address), Some(length)) = (fields.long(), fields.long()) else { return Err(malformed) };
            sink(Observation::Unmap { address: Address(address), length });
        }
        8 => {
            thread.exited = true;
            thread
                .follower
                .finish(None, process, &mut |execution| sink(Observation::Execution(execution)))?;
            sink(Observation::ThreadEnds { thread: number });
        }
        10..=12 => input(thread, process, kind, argument, fields, sink)?,
        13 => output(thread, process, argument, fields, sink)?,
        _ => return Err(Damage::Event(kind)),
    }
    Ok(())
}

/// What a system call returned, or did to memory.
fn input(
    thread: &mut Thread,
    process: &mut Process,
    kind: u32,
    length: u32,
    fields: &mut ChunkFields<'_>,
    sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
) -> Result<(), Damage> {
    let malformed = Damage::EventContents(kind);
    let first = fields.long().ok_or(malformed)?;
    let mut each = |execution| sink(Observation::Execution(execution));
    if kind == 10 {
        return thread.follower.input(Input::Result(first), process, &mut each);
    }
    if kind == 12 {
        let length = fields.long().ok_or(malformed)?;
        let cleared = Input::Cleared { address: Address(first), length };
        return thread.follower.input(cleared, process, &mut each);
    }
    let bytes = fields.padded(length as usize).ok_or(malformed)?;
    Input::written(Address(first), bytes)
        .try_for_each(|input| thread.follower.input(input, process, &mut each))
}

/// What a system call wrote to standard output, or with bit 23 to standard error.
fn output(
    thread: &mut Thread,
    process: &mut Process,
    argument: u32,
    fields: &mut ChunkFields<'_>,
    sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
) -> Result<(), Damage> {
    let malformed = Damage::EventContents(13);
    let (stream, length) = (if argument >> 23 == 0 { 1 } else { 2 }, argument & 0x7F_FFFF);
    let bytes = fields.padded(length as usize).ok_or(malformed)?;
    let mut each = |execution| sink(Observation::Execution(execution));
    thread.follower.call(process, &mut each)?.then_some(()).ok_or(malformed)?;
    sink(Observation::Output { stream, bytes });
    Ok(())
}

fn access(
    thread: &mut Thread,
    process: &mut Process,
    argument: u32,
    fields: &mut ChunkFields<'_>,
    sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
) -> Result<(), Damage> {
    let malformed = Damage::EventContents(2);
    let size = 1u64 << (argument >> 9 & 7);
    let (index, store, known) =
        ((argument & 0x1FF) as usize, argument >> 12 & 1 == 1, argument >> 13 & 1 == 1);
    let mut address = fields.long().ok_or(malformed)?;
    let mut left = size;
    while left > 0 {
        let size = left.min(8);
        let value = match (known, size) {
            (false, _) => Some(0),
            (true, 8) => fields.long(),
            (true, _) => fields.word().map(u64::from),
        };
        let value = value.ok_or(malformed)?;
        let access = Access { address: Address(address), value, size: size as u8, store, known };
        thread
            .follower
            .access(index, access, process, &mut |execution| sink(Observation::Execution(execution)))?;
        address = address.wrapping_add(size);
        left -= size;
    }
    Ok(())
}

/// Little-endian numbers, one after the other.
struct ChunkFields<'a>(&'a [u8]);

impl<'a> ChunkFields<'a> {
    #[inline]
    fn word(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn long(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Bytes that are followed by padding up to a whole word.
    fn padded(&mut self, count: usize) -> Option<&'a [u8]> {
        self.bytes(count.checked_next_multiple_of(4)?)?.get(..count)
    }
}
