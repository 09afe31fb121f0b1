//! System calls that move bytes between files and memory.

use super::Kernel;
use super::errno::Errno;
use super::files::{O_ACCMODE, O_NONBLOCK, O_WRONLY, Resource};
use super::report::Report;
use super::signals::number::SIGPIPE;
use super::streams::is_readable;
use super::threads::Wait;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Data moves in pieces of this size, whatever the program asks for.
const PIECE: usize = 1 << 16;
/// Vectors of `readv` and `writev`.
const MOST_VECTORS: u64 = 1024;

/// A host that was interrupted is asked again.
fn moved(result: io::Result<usize>) -> Result<usize, Errno> {
    result.map_err(|error| if error.kind() == ErrorKind::Interrupted { Errno::WAIT } else { error.into() })
}

impl Kernel {
    /// The call cannot complete because of this descriptor: the thread waits, unless the file says that nobody does.
    fn wait_for(&mut self, fd: u64) -> Errno {
        if self.files.get(fd).is_ok_and(|open| open.flags & O_NONBLOCK != 0) {
            return Errno::AGAIN;
        }
        let host = self.files.waits_for_host(fd).then_some(fd);
        self.wait(Wait::Again { deadline: None, host, restarts: true })
    }

    /// Reads once. [`Errno::WAIT`]: nothing is there yet.
    fn read_some(&mut self, fd: u64, buffer: &mut [u8], at: Option<u64>) -> Result<usize, Errno> {
        let (streams, pipes, open) = self.files.parts(fd)?;
        if open.flags & O_ACCMODE == O_WRONLY {
            return Err(Errno::BADF);
        }
        match (&mut open.resource, at) {
            (Resource::File(file), Some(at)) => Ok(file.read_at(buffer, at)?),
            (Resource::File(file), None) => moved(file.read(buffer)),
            (Resource::Text(text, _), Some(at)) => Ok(read_text(text, at, buffer)),
            (Resource::Text(text, position), None) => {
                let count = read_text(text, *position, buffer);
                *position += count as u64;
                Ok(count)
            }
            (Resource::Directory(_), _) => Err(Errno::ISDIR),
            (_, Some(_)) => Err(Errno::SPIPE),
            (Resource::Input, None) if !(streams.input_ready)(Duration::ZERO) => Err(Errno::WAIT),
            (Resource::Input, None) => moved(streams.input.read(buffer)),
            (Resource::Device(file), None) if !is_readable(file, Duration::ZERO) => Err(Errno::WAIT),
            (Resource::Device(file), None) => moved(file.read(buffer)),
            (Resource::Pipe(end), None) => pipes.read(*end, buffer),
            (Resource::Output | Resource::Error, None) => Err(Errno::BADF),
        }
    }

    /// Writes once. [`Errno::WAIT`]: there is no room yet.
    fn write_some(&mut self, fd: u64, bytes: &[u8], at: Option<u64>) -> Result<usize, Errno> {
        let (streams, pipes, open) = self.files.parts(fd)?;
        if open.flags & O_ACCMODE == 0 {
            return Err(Errno::BADF);
        }
        let (number, stream) = match (&mut open.resource, at) {
            (Resource::File(file), Some(at)) => return Ok(file.write_at(bytes, at)?),
            (Resource::File(file) | Resource::Device(file), None) => return moved(file.write(bytes)),
            (Resource::Input | Resource::Text(..) | Resource::Directory(_), _) => return Err(Errno::BADF),
            (_, Some(_)) => return Err(Errno::SPIPE),
            (Resource::Pipe(end), None) => return pipes.write(*end, bytes),
            (Resource::Output, None) => (1, &mut streams.output),
            (Resource::Error, None) => (2, &mut streams.error),
        };
        stream.write_all(bytes)?;
        // The program does its own buffering; and it must learn of a full disk.
        stream.flush()?;
        self.reports.push(Report::Output { stream: number, bytes: bytes.into() });
        Ok(bytes.len())
    }

    /// `read`, `pread64`.
    pub(super) fn read(&mut self, fd: u64, address: u64, count: u64, at: Option<u64>) -> Result<u64, Errno> {
        let file = matches!(self.files.get(fd)?.resource, Resource::File(_));
        let mut buffer = vec![0; count.min(PIECE as u64) as usize];
        let mut done = 0;
        loop {
            let want = (count - done).min(PIECE as u64) as usize;
            let got = match self.read_some(fd, &mut buffer[..want], at.map(|at| at.wrapping_add(done))) {
                Ok(got) => got,
                Err(Errno::WAIT) if done == 0 => return Err(self.wait_for(fd)),
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => return Ok(done),
            };
            self.memory.write(address.wrapping_add(done), &buffer[..got])?;
            done += got as u64;
            // A terminal or pipe gives what it has; asking again would wait.
            if got < want || done == count || !file {
                return Ok(done);
            }
        }
    }

    /// `write`, `pwrite64`. A write that had to wait goes on where it was.
    pub(super) fn write(&mut self, fd: u64, address: u64, count: u64, at: Option<u64>) -> Result<u64, Errno> {
        self.files.get(fd)?;
        let mut buffer = vec![0; count.min(PIECE as u64) as usize];
        let mut done = self.thread().progress;
        while done < count {
            let part = &mut buffer[..(count - done).min(PIECE as u64) as usize];
            let result = self
                .memory
                .read(address.wrapping_add(done), part)
                .map_err(Errno::from)
                .and_then(|()| self.write_some(fd, part, at.map(|at| at.wrapping_add(done))));
            match result {
                Ok(0) => break,
                Ok(wrote) => done += wrote as u64,
                Err(Errno::WAIT) => match self.wait_for(fd) {
                    Errno::WAIT => {
                        self.thread().progress = done;
                        return Err(Errno::WAIT);
                    }
                    errno if done == 0 => return Err(errno),
                    _ => break,
                },
                Err(errno) if done == 0 => {
                    if errno == Errno::PIPE {
                        self.raise(SIGPIPE);
                    }
                    return Err(errno);
                }
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// `readv`, `writev`: one part after the other, until one is short.
    pub(super) fn vectors(
        &mut self,
        vectors: u64,
        count: u64,
        mut one: impl FnMut(&mut Self, u64, u64, u64) -> Result<u64, Errno>,
    ) -> Result<u64, Errno> {
        if count > MOST_VECTORS {
            return Err(Errno::INVAL);
        }
        let mut done: u64 = 0;
        for number in 0..count {
            let entry = vectors.wrapping_add(number * 16);
            let address = self.memory.load::<8>(entry)?;
            let length = self.memory.load::<8>(entry.wrapping_add(8))?;
            if length == 0 {
                continue;
            }
            match one(self, address, length, done) {
                Ok(part) => {
                    done += part;
                    if part < length {
                        break;
                    }
                }
                Err(errno) if done == 0 => return Err(errno),
                Err(Errno::WAIT) => {
                    // What was moved is the result; nobody waits for the rest.
                    self.no_wait();
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// `sendfile`, `copy_file_range`: one piece. `from_at`, `to_at`: addresses of offsets, or 0.
    pub(super) fn copy(
        &mut self,
        from: u64,
        from_at: u64,
        to: u64,
        to_at: u64,
        count: u64,
    ) -> Result<u64, Errno> {
        let offset = |kernel: &mut Self, address: u64| match address {
            0 => Ok(None),
            address => kernel.memory.load::<8>(address).map(Some),
        };
        let (read_at, write_at) = (offset(self, from_at)?, offset(self, to_at)?);
        let mut buffer = vec![0; count.min(PIECE as u64) as usize];
        let got = match self.read_some(from, &mut buffer, read_at) {
            Err(Errno::WAIT) => return Err(self.wait_for(from)),
            result => result?,
        };
        let mut done = 0;
        while done < got {
            let at = write_at.map(|at| at.wrapping_add(done as u64));
            match self.write_some(to, &buffer[done..got], at) {
                Ok(wrote) => done += wrote,
                Err(errno) if done == 0 && errno != Errno::WAIT => return Err(errno),
                Err(_) => break,
            }
        }
        // What was read and not written is read again.
        if read_at.is_none() && done < got {
            self.seek(from, done as i64 - got as i64, 1)?;
        }
        for (address, before) in [(from_at, read_at), (to_at, write_at)] {
            if let Some(before) = before {
                self.memory.write(address, &before.wrapping_add(done as u64).to_le_bytes())?;
            }
        }
        if done == 0 && got > 0 { Err(self.wait_for(to)) } else { Ok(done as u64) }
    }

    /// `lseek`.
    pub(super) fn seek(&mut self, fd: u64, offset: i64, whence: u64) -> Result<u64, Errno> {
        match &mut self.files.get(fd)?.resource {
            Resource::File(file) => {
                let to = match whence {
                    0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::INVAL)?),
                    1 => SeekFrom::Current(offset),
                    2 => SeekFrom::End(offset),
                    _ => return Err(Errno::INVAL),
                };
                Ok(file.seek(to)?)
            }
            Resource::Directory(directory) => directory.seek(offset, whence),
            Resource::Text(text, position) => {
                let base = match whence {
                    0 => 0,
                    1 => *position as i64,
                    2 => text.len() as i64,
                    _ => return Err(Errno::INVAL),
                };
                *position =
                    base.checked_add(offset).and_then(|to| u64::try_from(to).ok()).ok_or(Errno::INVAL)?;
                Ok(*position)
            }
            _ => Err(Errno::SPIPE),
        }
    }
}

fn read_text(text: &[u8], at: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| text.get(at..)).unwrap_or_default();
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}
