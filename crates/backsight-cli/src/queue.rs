//! Bytes of a source that wait until there are enough of them.
//!
//! Where sources take turns in frames, each piece is a few bytes, and a decoder that gets them one by one is busy with
//! beginning and ending. Where nobody asks how the packets of different sources follow one another, pieces can wait.

/// Bytes that are enough.
const ENOUGH: usize = 4096;

/// Bytes that wait.
#[derive(Debug, Default)]
pub struct Queue(Vec<u8>);

impl Queue {
    /// Takes bytes, and hands them on when there are enough.
    pub fn push(&mut self, bytes: &[u8], mut on: impl FnMut(&[u8])) {
        if self.is_empty() && bytes.len() >= ENOUGH / 4 {
            return on(bytes);
        }
        self.wait(bytes);
        if self.0.len() >= ENOUGH {
            self.drain(on);
        }
    }

    /// Takes bytes, however many wait.
    pub fn wait(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Does nothing wait?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Hands on what waits.
    pub fn drain(&mut self, mut on: impl FnMut(&[u8])) {
        if !self.is_empty() {
            on(&self.0);
            self.0.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_few_wait() {
        let all: Vec<u8> = (0..60_000u32).map(|number| (number % 251) as u8).collect();
        for piece in [1, 15, 1000, 1024, 4096, 5000, 60_000] {
            let (mut queue, mut out) = (Queue::default(), Vec::new());
            for bytes in all.chunks(piece) {
                queue.push(bytes, |bytes| out.extend_from_slice(bytes));
                assert!(queue.0.len() < ENOUGH);
            }
            queue.drain(|bytes| out.extend_from_slice(bytes));
            assert_eq!(out, all);
        }
    }
}
