//! File descriptors, and reading and writing through them.

use super::errno::Errno;
use crate::memory::Memory;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Where the standard streams of the program go.
pub struct Streams {
    /// Standard input.
    pub input: Box<dyn Read + Send>,
    /// Standard output.
    pub output: Box<dyn Write + Send>,
    /// Standard error.
    pub error: Box<dyn Write + Send>,
}

impl Streams {
    /// Those of this process.
    pub fn inherited() -> Self {
        Self { input: Box::new(io::stdin()), output: Box::new(io::stdout()), error: Box::new(io::stderr()) }
    }

    /// Nothing to read; what is written is dropped.
    pub fn none() -> Self {
        Self { input: Box::new(io::empty()), output: Box::new(io::sink()), error: Box::new(io::sink()) }
    }
}

/// What a descriptor stands for.
pub enum Descriptor {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// A file of the host.
    File(File),
    /// A directory of the host: its path, its entries in order of their names, and how many were read.
    Directory(PathBuf, Vec<(String, u8)>, usize),
}

impl Descriptor {
    fn duplicate(&self) -> Result<Self, Errno> {
        Ok(match self {
            Self::Input => Self::Input,
            Self::Output => Self::Output,
            Self::Error => Self::Error,
            Self::File(file) => Self::File(file.try_clone()?),
            Self::Directory(path, entries, read) => Self::Directory(path.clone(), entries.clone(), *read),
        })
    }
}

/// As many as Linux allows by default.
const MOST: usize = 1024;
/// Data moves in pieces of this size, whatever the program asks for.
const PIECE: usize = 1 << 16;
/// Vectors of `readv` and `writev`.
const MOST_VECTORS: u64 = 1024;

/// The descriptors of a process.
pub struct Files {
    streams: Streams,
    table: Vec<Option<Descriptor>>,
}

impl Files {
    /// The three standard streams.
    pub fn new(streams: Streams) -> Self {
        let table = vec![Some(Descriptor::Input), Some(Descriptor::Output), Some(Descriptor::Error)];
        Self { streams, table }
    }

    /// What `fd` stands for.
    pub fn get(&mut self, fd: u64) -> Result<&mut Descriptor, Errno> {
        usize::try_from(fd).ok().and_then(|fd| self.table.get_mut(fd)?.as_mut()).ok_or(Errno::BADF)
    }

    /// Gives a descriptor the lowest free number from `lowest` on.
    pub fn insert(&mut self, descriptor: Descriptor, lowest: u64) -> Result<u64, Errno> {
        let lowest = usize::try_from(lowest).ok().filter(|&fd| fd < MOST).ok_or(Errno::INVAL)?;
        let free = (lowest..MOST).find(|&fd| !matches!(self.table.get(fd), Some(Some(_))));
        let fd = free.ok_or(Errno::MFILE)?;
        if fd >= self.table.len() {
            self.table.resize_with(fd + 1, || None);
        }
        self.table[fd] = Some(descriptor);
        Ok(fd as u64)
    }

    /// `dup`, `fcntl(F_DUPFD)`.
    pub fn duplicate(&mut self, fd: u64, lowest: u64) -> Result<u64, Errno> {
        let copy = self.get(fd)?.duplicate()?;
        self.insert(copy, lowest)
    }

    /// `dup3`.
    pub fn duplicate_to(&mut self, fd: u64, to: u64) -> Result<u64, Errno> {
        let copy = self.get(fd)?.duplicate()?;
        if to == fd {
            return Err(Errno::INVAL);
        }
        let _ = self.close(to);
        self.insert(copy, to)
    }

    /// `close`.
    pub fn close(&mut self, fd: u64) -> Result<u64, Errno> {
        self.get(fd)?;
        self.table[fd as usize] = None;
        Ok(0)
    }

    fn read_some(&mut self, fd: u64, buffer: &mut [u8], at: Option<u64>) -> Result<usize, Errno> {
        // Borrowed apart from the table.
        let Self { streams, table } = self;
        match table.get_mut(fd as usize).and_then(Option::as_mut).ok_or(Errno::BADF)? {
            Descriptor::Input if at.is_none() => Ok(streams.input.read(buffer)?),
            Descriptor::File(file) => Ok(match at {
                Some(at) => file.read_at(buffer, at)?,
                None => file.read(buffer)?,
            }),
            Descriptor::Directory(..) => Err(Errno(21)),
            Descriptor::Input => Err(Errno::SPIPE),
            Descriptor::Output | Descriptor::Error => Err(Errno::BADF),
        }
    }

    fn write_some(&mut self, fd: u64, bytes: &[u8], at: Option<u64>) -> Result<usize, Errno> {
        let Self { streams, table } = self;
        let stream = match table.get_mut(fd as usize).and_then(Option::as_mut).ok_or(Errno::BADF)? {
            Descriptor::File(file) => {
                return Ok(match at {
                    Some(at) => file.write_at(bytes, at)?,
                    None => file.write(bytes)?,
                });
            }
            Descriptor::Output => &mut streams.output,
            Descriptor::Error => &mut streams.error,
            Descriptor::Input | Descriptor::Directory(..) => return Err(Errno::BADF),
        };
        if at.is_some() {
            return Err(Errno::SPIPE);
        }
        stream.write_all(bytes)?;
        // The program does its own buffering; and it must learn of a full disk.
        stream.flush()?;
        Ok(bytes.len())
    }

    /// `read`, `pread64`.
    pub fn read(
        &mut self,
        memory: &mut Memory,
        fd: u64,
        address: u64,
        count: u64,
        at: Option<u64>,
    ) -> Result<u64, Errno> {
        self.get(fd)?;
        let mut buffer = vec![0; count.min(PIECE as u64) as usize];
        let mut done = 0;
        while done < count {
            let want = (count - done).min(PIECE as u64) as usize;
            let result = self.read_some(fd, &mut buffer[..want], at.map(|at| at.wrapping_add(done)));
            let got = match result {
                Ok(got) => got,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            };
            memory.write(address.wrapping_add(done), &buffer[..got])?;
            done += got as u64;
            // A terminal or pipe gives what it has; asking again would wait.
            if got < want {
                break;
            }
        }
        Ok(done)
    }

    /// `write`, `pwrite64`.
    pub fn write(
        &mut self,
        memory: &mut Memory,
        fd: u64,
        address: u64,
        count: u64,
        at: Option<u64>,
    ) -> Result<u64, Errno> {
        self.get(fd)?;
        let mut buffer = vec![0; count.min(PIECE as u64) as usize];
        let mut done = 0;
        while done < count {
            let part = &mut buffer[..(count - done).min(PIECE as u64) as usize];
            let result = memory
                .read(address.wrapping_add(done), part)
                .map_err(Errno::from)
                .and_then(|()| self.write_some(fd, part, at.map(|at| at.wrapping_add(done))));
            match result {
                Ok(0) => break,
                Ok(wrote) => done += wrote as u64,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// `readv`, `writev`: one part after the other, until one is short.
    pub fn vectors(
        &mut self,
        memory: &mut Memory,
        fd: u64,
        vectors: u64,
        count: u64,
        mut one: impl FnMut(&mut Self, &mut Memory, u64, u64) -> Result<u64, Errno>,
    ) -> Result<u64, Errno> {
        self.get(fd)?;
        if count > MOST_VECTORS {
            return Err(Errno::INVAL);
        }
        let mut done = 0;
        for number in 0..count {
            let entry = vectors.wrapping_add(number * 16);
            let address = u64::from_le_bytes(memory.load(entry)?);
            let length = u64::from_le_bytes(memory.load(entry.wrapping_add(8))?);
            match one(self, memory, address, length) {
                Ok(part) => {
                    done += part;
                    if part < length {
                        break;
                    }
                }
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// `lseek`.
    pub fn seek(&mut self, fd: u64, offset: i64, whence: u64) -> Result<u64, Errno> {
        match self.get(fd)? {
            Descriptor::File(file) => {
                let to = match whence {
                    0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::INVAL)?),
                    1 => SeekFrom::Current(offset),
                    2 => SeekFrom::End(offset),
                    _ => return Err(Errno::INVAL),
                };
                Ok(file.seek(to)?)
            }
            Descriptor::Directory(_, _, read) if whence == 0 && offset == 0 => {
                *read = 0;
                Ok(0)
            }
            _ => Err(Errno::SPIPE),
        }
    }

    /// `ftruncate`.
    pub fn truncate(&mut self, fd: u64, length: u64) -> Result<u64, Errno> {
        match self.get(fd)? {
            Descriptor::File(file) => {
                file.set_len(length)?;
                Ok(0)
            }
            _ => Err(Errno::INVAL),
        }
    }
}
