//! Input that nobody waits for after a request to stop.

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Stop;

/// How long a request to stop may go unseen where no signal comes with it.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Reads from a file, terminal or pipe. Waiting for bytes ends with `EINTR` when it is requested to stop.
#[derive(Debug)]
pub struct StoppableInput<F> {
    file: F,
    stop: Stop,
}

impl<F: AsFd> StoppableInput<F> {
    /// Reads from `file` until `stop` is requested.
    pub fn new(file: F, stop: Stop) -> Self {
        Self { file, stop }
    }
}

impl<F: AsFd> Read for StoppableInput<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.is_requested() {
                return Err(Errno::INTR.into());
            }
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&PATIENCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(&self.file, buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    #[test]
    fn bytes_that_come_are_read_and_waiting_for_more_ends_with_the_request() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let stop = Stop::new();
        let mut input = StoppableInput::new(reader, stop.clone());
        writer.write_all(b"abc").expect("room in the pipe");
        let mut buffer = [0; 8];
        assert_eq!(input.read(&mut buffer).expect("bytes"), 3);
        let asked = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            stop.request();
        });
        let error = input.read(&mut buffer).expect_err("nothing more comes");
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        asked.join().expect("a thread that ends");
        drop(writer);
    }

    #[test]
    fn the_end_is_the_end() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(writer);
        assert_eq!(StoppableInput::new(reader, Stop::new()).read(&mut [0; 8]).expect("the end"), 0);
    }
}
