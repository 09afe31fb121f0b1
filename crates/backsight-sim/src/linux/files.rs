//! File descriptors: numbers, the open files that they stand for, and pipes.

use super::directory::Directory;
use super::errno::Errno;
use super::pipe::{End, Pipes};
use super::streams::{Streams, is_readable, is_writable};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// What an open file is.
pub enum Resource {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// A file of the host whose reads never wait.
    File(File),
    /// Another file of the host: a terminal, a FIFO.
    Device(File),
    /// A directory of the host.
    Directory(Directory),
    /// One end of a pipe of the program.
    Pipe(End),
    /// A text that the kernel made, and how many bytes were read.
    Text(Vec<u8>, u64),
}

/// An open file; several descriptors may stand for it.
pub struct Open {
    /// What it is.
    pub resource: Resource,
    /// `O_RDONLY`, `O_WRONLY`, `O_RDWR` and status flags.
    pub flags: u64,
    /// Its path, where it has one.
    pub path: Option<PathBuf>,
    references: usize,
}

pub const O_ACCMODE: u64 = 3;
pub const O_WRONLY: u64 = 1;
pub const O_APPEND: u64 = 0o2000;
pub const O_NONBLOCK: u64 = 0o4000;
pub const O_CLOEXEC: u64 = 0o2_000_000;

/// As many as Linux allows by default.
pub const MOST: usize = 1024;

#[derive(Clone, Copy)]
struct Descriptor {
    open: usize,
    close_on_exec: bool,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is something to read, or an end to reach.
    pub read: bool,
    /// Writing would not wait.
    pub write: bool,
    /// Nobody writes to it any more.
    pub hang_up: bool,
    /// Nobody reads from it any more.
    pub error: bool,
}

/// The descriptors of a process.
pub struct Files {
    pub(super) streams: Streams,
    pub(super) pipes: Pipes,
    descriptors: Vec<Option<Descriptor>>,
    open: Vec<Option<Open>>,
}

impl Files {
    /// The three standard streams.
    pub fn new(streams: Streams) -> Self {
        let mut files = Self { streams, pipes: Pipes::default(), descriptors: Vec::new(), open: Vec::new() };
        for (resource, flags) in
            [(Resource::Input, 0), (Resource::Output, O_WRONLY), (Resource::Error, O_WRONLY)]
        {
            // There is room for three.
            let _ = files.insert(resource, flags, None);
        }
        files
    }

    fn descriptor(&self, fd: u64) -> Result<Descriptor, Errno> {
        let descriptor = usize::try_from(fd as u32).ok().and_then(|fd| *self.descriptors.get(fd)?);
        descriptor.ok_or(Errno::BADF)
    }

    /// What `fd` stands for.
    pub fn get(&mut self, fd: u64) -> Result<&mut Open, Errno> {
        let descriptor = self.descriptor(fd)?;
        self.open.get_mut(descriptor.open).and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    /// The streams, the pipes, and what `fd` stands for.
    pub fn parts(&mut self, fd: u64) -> Result<(&mut Streams, &mut Pipes, &mut Open), Errno> {
        let descriptor = self.descriptor(fd)?;
        let open = self.open.get_mut(descriptor.open).and_then(Option::as_mut).ok_or(Errno::BADF)?;
        Ok((&mut self.streams, &mut self.pipes, open))
    }

    /// Opens a file: its descriptor is the lowest that is free.
    pub fn insert(&mut self, resource: Resource, flags: u64, path: Option<PathBuf>) -> Result<u64, Errno> {
        let fd = self.free(0)?;
        if let Resource::Pipe(end) = resource {
            self.pipes.opened(end);
        }
        let open = Open { resource, flags: flags & !O_CLOEXEC, path, references: 1 };
        let index = match self.open.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.open.push(None);
                self.open.len() - 1
            }
        };
        self.open[index] = Some(open);
        self.set(fd, Descriptor { open: index, close_on_exec: flags & O_CLOEXEC != 0 });
        Ok(fd as u64)
    }

    fn free(&self, lowest: usize) -> Result<usize, Errno> {
        (lowest..MOST).find(|&fd| !matches!(self.descriptors.get(fd), Some(Some(_)))).ok_or(Errno::MFILE)
    }

    fn set(&mut self, fd: usize, descriptor: Descriptor) {
        if fd >= self.descriptors.len() {
            self.descriptors.resize(fd + 1, None);
        }
        self.descriptors[fd] = Some(descriptor);
    }

    /// `dup`, `fcntl(F_DUPFD)`.
    pub fn duplicate(&mut self, fd: u64, lowest: u64, close_on_exec: bool) -> Result<u64, Errno> {
        let open = self.descriptor(fd)?.open;
        let lowest = usize::try_from(lowest).ok().filter(|&fd| fd < MOST).ok_or(Errno::INVAL)?;
        let free = self.free(lowest)?;
        self.get(fd)?.references += 1;
        self.set(free, Descriptor { open, close_on_exec });
        Ok(free as u64)
    }

    /// `dup3`.
    pub fn duplicate_to(&mut self, fd: u64, to: u64, flags: u64) -> Result<u64, Errno> {
        let open = self.descriptor(fd)?.open;
        if to == fd {
            return Err(Errno::INVAL);
        }
        let target = usize::try_from(to).ok().filter(|&to| to < MOST).ok_or(Errno::BADF)?;
        let _ = self.close(to);
        self.get(fd)?.references += 1;
        self.set(target, Descriptor { open, close_on_exec: flags & O_CLOEXEC != 0 });
        Ok(to)
    }

    /// `close`.
    pub fn close(&mut self, fd: u64) -> Result<u64, Errno> {
        let index = self.descriptor(fd)?.open;
        self.descriptors[fd as u32 as usize] = None;
        if let Some(slot) = self.open.get_mut(index)
            && let Some(open) = slot
        {
            open.references -= 1;
            if open.references == 0 {
                if let Resource::Pipe(end) = open.resource {
                    self.pipes.closed(end);
                }
                *slot = None;
            }
        }
        Ok(0)
    }

    /// `close_range`.
    pub fn close_range(&mut self, first: u64, last: u64, flags: u64) -> Result<u64, Errno> {
        const CLOEXEC: u64 = 4;
        if first > last {
            return Err(Errno::INVAL);
        }
        for fd in first..=last.min(MOST as u64) {
            // Those that are not open do not matter.
            let _ = if flags & CLOEXEC == 0 { self.close(fd) } else { self.set_close_on_exec(fd, true) };
        }
        Ok(0)
    }

    /// Does an `exec` close it?
    pub fn close_on_exec(&self, fd: u64) -> Result<bool, Errno> {
        Ok(self.descriptor(fd)?.close_on_exec)
    }

    /// Sets whether an `exec` closes it.
    pub fn set_close_on_exec(&mut self, fd: u64, close_on_exec: bool) -> Result<u64, Errno> {
        let descriptor = self.descriptor(fd)?;
        self.set(fd as u32 as usize, Descriptor { close_on_exec, ..descriptor });
        Ok(0)
    }

    /// What a descriptor is ready for; waits up to this long for input from the host.
    pub fn ready(&mut self, fd: u64, wait: Duration) -> Result<Ready, Errno> {
        let (streams, pipes, open) = self.parts(fd)?;
        let both = Ready { read: true, write: true, ..Ready::default() };
        Ok(match &open.resource {
            Resource::Input => Ready { read: (streams.input_ready)(wait), ..Ready::default() },
            Resource::Output | Resource::Error => Ready { write: true, ..Ready::default() },
            Resource::Device(file) => {
                Ready { read: is_readable(file, wait), write: is_writable(file), ..Ready::default() }
            }
            Resource::Pipe(end) => pipes.ready(*end),
            Resource::File(_) | Resource::Directory(_) | Resource::Text(..) => both,
        })
    }

    /// Does reading from it wait for the host?
    pub fn waits_for_host(&mut self, fd: u64) -> bool {
        self.get(fd).is_ok_and(|open| matches!(open.resource, Resource::Input | Resource::Device(_)))
    }
}
