//! Pipes between the threads of a program.

use super::errno::Errno;
use super::files::Ready;
use std::collections::VecDeque;

/// Bytes that a pipe holds.
const CAPACITY: usize = 1 << 16;
/// A write of no more than this goes in at once or not at all.
const ATOMIC: usize = 4096;

/// One end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Number of the pipe.
    pub pipe: usize,
    /// The end that is written to.
    pub writes: bool,
}

#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    readers: usize,
    writers: usize,
}

/// All pipes.
#[derive(Default)]
pub struct Pipes(Vec<Pipe>);

impl Pipes {
    /// A new pipe: the end to read from and the end to write to. Nobody has them open.
    pub fn create(&mut self) -> (End, End) {
        let pipe = match self.0.iter().position(|pipe| pipe.readers == 0 && pipe.writers == 0) {
            Some(pipe) => pipe,
            None => {
                self.0.push(Pipe::default());
                self.0.len() - 1
            }
        };
        (End { pipe, writes: false }, End { pipe, writes: true })
    }

    fn count(&mut self, end: End) -> Option<&mut usize> {
        let pipe = self.0.get_mut(end.pipe)?;
        Some(if end.writes { &mut pipe.writers } else { &mut pipe.readers })
    }

    /// An end was opened.
    pub fn opened(&mut self, end: End) {
        if let Some(count) = self.count(end) {
            *count += 1;
        }
    }

    /// An end was closed.
    pub fn closed(&mut self, end: End) {
        if let Some(count) = self.count(end) {
            *count = count.saturating_sub(1);
        }
        if let Some(pipe) = self.0.get_mut(end.pipe)
            && pipe.readers == 0
        {
            pipe.bytes = VecDeque::new();
        }
    }

    /// What an end is ready for.
    pub fn ready(&self, end: End) -> Ready {
        let Some(pipe) = self.0.get(end.pipe) else {
            return Ready::default();
        };
        if end.writes {
            let write = pipe.bytes.len() + ATOMIC <= CAPACITY;
            Ready { write, error: pipe.readers == 0, ..Ready::default() }
        } else {
            let read = !pipe.bytes.is_empty();
            Ready { read, hang_up: pipe.writers == 0, ..Ready::default() }
        }
    }

    /// Bytes that can be read.
    pub fn available(&self, end: End) -> usize {
        self.0.get(end.pipe).map_or(0, |pipe| pipe.bytes.len())
    }

    /// Reads what there is; [`Errno::WAIT`] if there is nothing yet.
    pub fn read(&mut self, end: End, buffer: &mut [u8]) -> Result<usize, Errno> {
        let pipe = self.0.get_mut(end.pipe).filter(|_| !end.writes).ok_or(Errno::BADF)?;
        if pipe.bytes.is_empty() && pipe.writers > 0 && !buffer.is_empty() {
            return Err(Errno::WAIT);
        }
        let count = buffer.len().min(pipe.bytes.len());
        for (to, from) in buffer.iter_mut().zip(pipe.bytes.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }

    /// Writes what fits; [`Errno::WAIT`] if nothing does yet.
    pub fn write(&mut self, end: End, bytes: &[u8]) -> Result<usize, Errno> {
        let pipe = self.0.get_mut(end.pipe).filter(|_| end.writes).ok_or(Errno::BADF)?;
        if pipe.readers == 0 {
            return Err(Errno::PIPE);
        }
        let room = CAPACITY - pipe.bytes.len();
        if room == 0 || bytes.len() <= ATOMIC && room < bytes.len() {
            return Err(Errno::WAIT);
        }
        let count = bytes.len().min(room);
        pipe.bytes.extend(&bytes[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gives_what_was_written_and_waits_when_empty_or_full() {
        let mut pipes = Pipes::default();
        let (reader, writer) = pipes.create();
        pipes.opened(reader);
        pipes.opened(writer);
        let mut buffer = [0; 4];
        assert_eq!(pipes.read(reader, &mut buffer), Err(Errno::WAIT));
        assert_eq!(pipes.write(writer, b"abcdef"), Ok(6));
        assert_eq!((pipes.read(reader, &mut buffer), &buffer), (Ok(4), b"abcd"));
        assert_eq!(pipes.write(writer, &[0; CAPACITY]), Ok(CAPACITY - 2));
        assert_eq!(pipes.write(writer, b"x"), Err(Errno::WAIT));
        pipes.closed(writer);
        assert_eq!((pipes.read(reader, &mut buffer), &buffer[..2]), (Ok(4), &b"ef"[..]));
        assert_eq!(pipes.read(reader, &mut [0; CAPACITY]), Ok(CAPACITY - 4));
        assert_eq!((pipes.read(reader, &mut buffer), pipes.ready(reader).hang_up), (Ok(0), true));
    }

    #[test]
    fn writing_where_nobody_reads_fails() {
        let mut pipes = Pipes::default();
        let (_, writer) = pipes.create();
        pipes.opened(writer);
        assert_eq!(pipes.write(writer, b"x"), Err(Errno::PIPE));
    }
}
