//! Where the stream goes: a socket that somebody listens on, or a file.
//!
//! The stream is a header and then chunks; `docs/qemu-stream.md` describes both. Blocks are defined once, in
//! chunks of their own that always come before the first chunk that uses them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::system;
use crate::tail::{CAPACITY, Tail, Tails};
use crate::target::Target;

/// The source of chunks that define blocks.
pub const DEFINITIONS: u32 = u32::MAX;
/// The source of the chunk that ends a whole stream.
pub const END: u32 = u32::MAX - 1;
/// In that chunk, where others have the number of a thread: another program takes the place of this one.
const REPLACED: u32 = 1;
/// The descriptor is not open, or that of something else.
const EBADF: i32 = 9;
const ENOTSOCK: i32 = 88;
const MAGIC: [u8; 8] = *b"BSQEMU\x00\x01";

enum Sink {
    Socket(OwnedFd),
    File(File),
    /// Writing failed: nothing more is recorded.
    Closed,
}

/// The stream, and the blocks that it has defined.
pub struct Output {
    sink: Sink,
    definitions: Tail,
    numbers: HashMap<Box<[u8]>, u32>,
}

impl Output {
    /// Connects to `DIR/socket` if there is one, else makes the file `DIR/stream`; writes the header. Everything of the
    /// folder is open then: a reader at the socket may remove it.
    pub fn new(directory: &Path, target: Target, tails: &'static Tails) -> io::Result<Self> {
        let socket = directory.join("socket");
        let sink = if socket.exists() {
            let socket = system::out_of_the_way(UnixStream::connect(socket)?.into());
            system::end_with_reader(socket.as_raw_fd());
            Sink::Socket(socket)
        } else {
            let file = File::create(directory.join("stream"))?;
            Sink::File(system::out_of_the_way(file.into()).into())
        };
        Self::begin(sink, target, tails)
    }

    /// Writes to a connection that is there already, of the program that this one replaces.
    pub fn connected(connection: OwnedFd, target: Target, tails: &'static Tails) -> io::Result<Self> {
        Self::begin(Sink::Socket(connection), target, tails)
    }

    fn begin(sink: Sink, target: Target, tails: &'static Tails) -> io::Result<Self> {
        let definitions = tails.tail(DEFINITIONS)?;
        let mut output = Self { sink, definitions, numbers: HashMap::new() };
        output.write_header(target);
        Ok(output)
    }

    /// Is anything still recorded?
    pub fn is_open(&self) -> bool {
        !matches!(self.sink, Sink::Closed)
    }

    /// The descriptor, for a child to close.
    pub fn descriptor(&self) -> Option<RawFd> {
        match &self.sink {
            Sink::Socket(socket) => Some(socket.as_raw_fd()),
            Sink::File(file) => Some(file.as_raw_fd()),
            Sink::Closed => None,
        }
    }

    /// The number of a block: the same block has the same number, however often QEMU translates it.
    pub fn number(&mut self, definition: &[u8]) -> u32 {
        if let Some(&number) = self.numbers.get(definition) {
            return number;
        }
        let number = self.numbers.len() as u32 & 0x7FFF_FFFF;
        self.numbers.insert(definition.into(), number);
        self.define(number, definition);
        number
    }

    /// Writes what a thread has, and before it the definitions that it may use.
    pub fn write_chunk(&mut self, source: u32, thread_id: u32, tail: &mut Tail) {
        self.write_definitions();
        if tail.fill() > 0 {
            self.write_tail(source, thread_id, tail.position(), tail.bytes());
            tail.clear();
        }
    }

    /// Writes the chunk that says the stream is whole.
    pub fn finish(&mut self) {
        self.end(0);
    }

    /// The same, where another program takes the place of this one.
    pub fn finish_replaced(&mut self) {
        self.end(REPLACED);
    }

    fn end(&mut self, why: u32) {
        self.write_definitions();
        self.write_tail(END, why, 0, &[]);
        self.sink = Sink::Closed;
        self.definitions.retire();
    }

    /// Forgets everything: in a forked child, where all of it is the parent's.
    pub fn abandon(&mut self) {
        if let Some(descriptor) = self.descriptor() {
            system::close(descriptor);
        }
        std::mem::forget(std::mem::replace(&mut self.sink, Sink::Closed));
        self.definitions.make_private();
    }

    /// Begins the stream of a forked child, with every block that it has from its parent.
    pub fn begin_child(&mut self, connection: OwnedFd, target: Target) {
        self.sink = Sink::Socket(connection);
        self.write_header(target);
        let mut known: Vec<(u32, Box<[u8]>)> =
            self.numbers.iter().map(|(definition, number)| (*number, definition.clone())).collect();
        known.sort_unstable_by_key(|(number, _)| *number);
        for (number, definition) in known {
            self.define(number, &definition);
        }
        self.write_definitions();
    }

    fn write_header(&mut self, target: Target) {
        let mut header = [0; 16];
        header[..8].copy_from_slice(&MAGIC);
        header[8] = target as u8;
        header[12..].copy_from_slice(&std::process::id().to_le_bytes());
        self.write(&header);
    }

    fn define(&mut self, number: u32, definition: &[u8]) {
        if self.definitions.fill() as usize + 4 + definition.len() > CAPACITY as usize {
            self.write_definitions();
        }
        let mut record = Vec::with_capacity(4 + definition.len());
        record.extend_from_slice(&number.to_le_bytes());
        record.extend_from_slice(definition);
        self.definitions.append(&record);
    }

    fn write_definitions(&mut self) {
        if self.definitions.fill() > 0 {
            let bytes = self.definitions.bytes().to_vec();
            self.write_tail(DEFINITIONS, 0, self.definitions.position(), &bytes);
            self.definitions.clear();
        }
    }

    fn write_tail(&mut self, source: u32, thread_id: u32, position: u64, bytes: &[u8]) {
        let mut header = [0; 24];
        header[..4].copy_from_slice(&source.to_le_bytes());
        header[4..8].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&position.to_le_bytes());
        header[16..20].copy_from_slice(&thread_id.to_le_bytes());
        self.write(&header);
        self.write(bytes);
    }

    /// Writes. A reader that is gone ends the program: nobody is there to see it, or to end it. If a file cannot be
    /// written, or the program closed the connection as if it were its own, says so once and stops recording; the program
    /// goes on.
    fn write(&mut self, bytes: &[u8]) {
        let result = match &mut self.sink {
            Sink::Socket(socket) => send_all(socket.as_raw_fd(), bytes),
            Sink::File(file) => file.write_all(bytes),
            Sink::Closed => Ok(()),
        };
        if let Err(error) = result {
            let is_lost = matches!(error.raw_os_error(), Some(EBADF | ENOTSOCK));
            if matches!(self.sink, Sink::Socket(_)) && !is_lost {
                system::end_process();
            }
            eprintln!("backsight: recording stopped: {error}; the program goes on");
            let lost = std::mem::replace(&mut self.sink, Sink::Closed);
            if is_lost {
                // Its number is not ours any more.
                std::mem::forget(lost);
            }
        }
    }
}

fn send_all(socket: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match system::send(socket, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
