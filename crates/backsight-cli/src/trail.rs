//! Where the recent bytes of one source were in the capture.
//!
//! A packet decoder counts the bytes of its own stream. A listing shows the bytes of each packet and their place
//! in the capture, which frames have scattered. The trail keeps both for the bytes that the decoder may still
//! speak about, and forgets the rest: its memory is bounded.

use std::collections::VecDeque;

/// Bytes that are kept for a packet that has not ended yet. Longer stretches are found only while a decoder looks
/// for synchronisation, and a listing shows none of their bytes.
const MOST_BYTES: usize = 1 << 16;

/// The recent bytes of one source.
#[derive(Debug, Default)]
pub struct Trail {
    bytes: VecDeque<u8>,
    /// Stream offset of the first of `bytes`.
    base: u64,
    /// (stream offset, capture index) of each run that reaches into `bytes`, oldest first.
    runs: VecDeque<(u64, u64)>,
    /// The same for the first byte that was not taken yet: survives when its bytes are forgotten.
    next: Option<(u64, u64)>,
}

impl Trail {
    /// Appends a run: bytes that lie together at `index`.
    pub fn push(&mut self, index: u64, bytes: &[u8]) {
        let offset = self.base + self.bytes.len() as u64;
        self.next.get_or_insert((offset, index));
        self.runs.push_back((offset, index));
        self.bytes.extend(bytes);
        if self.bytes.len() > MOST_BYTES {
            self.forget(offset + bytes.len() as u64 - MOST_BYTES as u64);
        }
    }

    /// The index of the byte at `offset`, and the `length` bytes from there (none where they are forgotten).
    /// Everything before the end of them is forgotten afterwards.
    pub fn take(&mut self, offset: u64, length: u32, bytes: &mut Vec<u8>) -> u64 {
        bytes.clear();
        let index = self.index_of(offset);
        let end = offset + u64::from(length);
        if offset >= self.base {
            let first = (offset - self.base) as usize;
            bytes.extend(self.bytes.iter().skip(first).take(length as usize));
        }
        self.forget(end);
        self.next = if self.bytes.is_empty() { None } else { Some((end, self.index_of(end))) };
        index
    }

    /// The index of the byte at `offset`, as far as it is remembered.
    pub fn index_of(&self, offset: u64) -> u64 {
        let later = self.runs.partition_point(|&(start, _)| start <= offset);
        let run = later.checked_sub(1).and_then(|at| self.runs.get(at));
        match (self.next, run) {
            (Some((start, index)), _) if start == offset => index,
            (_, Some(&(start, index))) => index + (offset - start),
            (Some((_, index)), None) => index,
            (None, None) => offset,
        }
    }

    fn forget(&mut self, offset: u64) {
        let count = (offset.saturating_sub(self.base) as usize).min(self.bytes.len());
        self.bytes.drain(..count);
        self.base += count as u64;
        while self.runs.get(1).is_some_and(|&(start, _)| start <= self.base) {
            self.runs.pop_front();
        }
        if self.bytes.is_empty() {
            self.runs.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(trail: &mut Trail, offset: u64, length: u32) -> (u64, Vec<u8>) {
        let mut bytes = Vec::new();
        (trail.take(offset, length, &mut bytes), bytes)
    }

    #[test]
    fn a_packet_that_crosses_runs_has_the_index_of_its_first_byte() {
        let mut trail = Trail::default();
        trail.push(0, &[1, 2, 3]);
        trail.push(16, &[4, 5]);
        assert_eq!(take(&mut trail, 0, 2), (0, vec![1, 2]));
        assert_eq!(take(&mut trail, 2, 2), (2, vec![3, 4]));
        assert_eq!(take(&mut trail, 4, 1), (17, vec![5]));
        trail.push(40, &[6]);
        assert_eq!(take(&mut trail, 5, 1), (40, vec![6]));
    }

    #[test]
    fn memory_stays_bounded_while_nothing_is_taken() {
        let mut trail = Trail::default();
        for index in 0..100 {
            trail.push(index * 8192, &[0; 4096]);
        }
        assert!(trail.bytes.len() <= MOST_BYTES && trail.runs.len() <= 20);
        assert_eq!(take(&mut trail, 0, 100 * 4096), (0, vec![]));
    }
}
