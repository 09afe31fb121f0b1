//! What a program writes to its standard output and error.
//!
//! A descriptor 1 or 2 that the program made something else of is not one of them any more: what it stands for is
//! compared with what it stood for when the program began.

use std::os::unix::fs::MetadataExt;

use crate::calls::FAILED;
use crate::event::{OUTPUT, OUTPUT_ERROR, event};
use crate::inputs::{self, Size};
use crate::target::Call;
use crate::thread::Thread;
use crate::{Recorder, system};

/// Bytes in one record: several fit a chunk.
const PIECE: usize = 1 << 14;

/// What a descriptor stands for: device and inode.
type File = (u64, u64);

/// What standard output and error stood for when the program began; `None` where it has none.
#[derive(Clone, Copy, Debug)]
pub struct StandardStreams([Option<File>; 2]);

impl StandardStreams {
    /// Those of this process, which are the program's.
    pub fn now() -> Self {
        Self([1, 2].map(file_of))
    }

    /// Is a descriptor still the standard stream of its number?
    fn has(&self, descriptor: u32) -> bool {
        let first = match descriptor {
            1 | 2 => self.0[descriptor as usize - 1],
            _ => None,
        };
        first.is_some() && first == file_of(descriptor)
    }
}

fn file_of(descriptor: u32) -> Option<File> {
    let file = std::fs::metadata(format!("/proc/self/fd/{descriptor}")).ok()?;
    Some((file.dev(), file.ino()))
}

/// A system call came back: writes down what it wrote to standard output or error.
pub fn record(thread: &mut Thread, recorder: &Recorder, streams: &StandardStreams, result: i64) {
    let size = match recorder.target.call(thread.call.number) {
        Call::Write => Size::Result(1),
        Call::WriteVectors => Size::Vectors(2),
        _ => return,
    };
    let descriptor = thread.call.arguments[0] as u32;
    if FAILED.contains(&result) || !streams.has(descriptor) {
        return;
    }
    let error = if descriptor == 2 { OUTPUT_ERROR } else { 0 };
    let call = inputs::Call { recorder, arguments: thread.call.arguments, result: result as u64 };
    call.each(1, size, &mut |address, length| output(thread, recorder, error, address, length));
}

fn output(thread: &mut Thread, recorder: &Recorder, error: u32, address: u64, length: u64) {
    let Some(base) = recorder.base() else { return };
    let mut buffer = [0; PIECE];
    let mut done = 0;
    while done < length {
        let wanted = (length - done).min(PIECE as u64) as usize;
        let at = base.wrapping_add(address).wrapping_add(done);
        let read = system::read_memory(at, &mut buffer[..wanted]);
        if read == 0 {
            return;
        }
        let mut record = Vec::with_capacity(4 + read);
        record.extend_from_slice(&event(OUTPUT, error | read as u32).to_le_bytes());
        record.extend_from_slice(&buffer[..read]);
        thread.push_bytes(&record);
        done += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_stands_for_something_else_is_no_standard_stream() {
        let mut streams = StandardStreams::now();
        assert_eq!(streams.has(1), streams.0[0].is_some());
        assert!(!streams.has(0) && !streams.has(3));
        streams.0[0] = Some((u64::MAX, 1));
        assert!(!streams.has(1));
    }
}
