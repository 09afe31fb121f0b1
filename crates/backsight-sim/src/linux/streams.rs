//! Where the standard streams of the program go.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Where the standard streams of the program go.
pub struct Streams {
    /// Standard input.
    pub input: Box<dyn Read + Send>,
    /// Would reading from the input return at once? Waits up to this long until it would. A program that waits for input
    /// can be interrupted in between.
    pub input_ready: Box<dyn FnMut(Duration) -> bool + Send>,
    /// Standard output.
    pub output: Box<dyn Write + Send>,
    /// Standard error.
    pub error: Box<dyn Write + Send>,
}

impl Streams {
    /// Those of this process.
    pub fn inherited() -> Self {
        // Without a buffer of this process: what the program does not read stays for others.
        let unbuffered = || io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let (Ok(input), Ok(polled)) = (unbuffered(), unbuffered()) else {
            return Self { output: Box::new(io::stdout()), error: Box::new(io::stderr()), ..Self::none() };
        };
        Self {
            input: Box::new(input),
            input_ready: Box::new(move |wait| is_readable(&polled, wait)),
            output: Box::new(io::stdout()),
            error: Box::new(io::stderr()),
        }
    }

    /// Nothing to read; what is written is dropped.
    pub fn none() -> Self {
        Self {
            input: Box::new(io::empty()),
            input_ready: Box::new(|_| true),
            output: Box::new(io::sink()),
            error: Box::new(io::sink()),
        }
    }
}

/// Would reading from a file of the host return at once? Waits up to this long until it would.
pub fn is_readable(file: &impl AsFd, wait: Duration) -> bool {
    is_ready(file, PollFlags::IN, wait)
}

/// Would writing to a file of the host return at once?
pub fn is_writable(file: &impl AsFd) -> bool {
    is_ready(file, PollFlags::OUT, Duration::ZERO)
}

fn is_ready(file: &impl AsFd, flags: PollFlags, wait: Duration) -> bool {
    let wait = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(file, flags)], Some(&wait)) {
        Ok(ready) => ready > 0,
        // A signal of this process; the caller looks at its interrupt and asks again.
        Err(rustix::io::Errno::INTR) => false,
        // What cannot be polled does not wait.
        Err(_) => true,
    }
}
