//! The search for the first Async of a stream.
//!
//! An Async is eleven zero bytes and 0x80. Where a stream begins in the middle, zeros of an older packet may come
//! before it: the Async is the last twelve bytes. The bytes passed over are one region, reported when it ends, so
//! that the way a stream is cut into pieces does not show.

use backsight_core::Located;

use crate::etm4::Packet;
use crate::etm4::packet::{ASYNC_END, ASYNC_ZEROS};

/// Bytes of an Async.
const ASYNC: u64 = ASYNC_ZEROS as u64 + 1;

/// Longest region in one report, because lengths have 32 bits.
const MAX_REGION: u64 = 1 << 31;

/// Where the search stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Search {
    /// Where the bytes that have not been reported begin.
    start: u64,
    /// The offset of the next byte.
    offset: u64,
    /// Zeros just before it.
    zeros: u64,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Found,
    GivenUp,
}

impl Search {
    pub const fn new(offset: u64) -> Self {
        Self { start: offset, offset, zeros: 0, end: None }
    }

    /// Is there nothing more to look at, only to report?
    pub const fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// There are no more bytes.
    pub const fn give_up(&mut self) {
        self.end = Some(End::GivenUp);
    }

    /// Looks through bytes; gives how many it used where it has found the end of an Async.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            // So many zeros cannot begin here if the last of so many bytes from here is none.
            if self.zeros == 0 && bytes.get(at + ASYNC_ZEROS - 1).is_some_and(|&byte| byte != 0) {
                at += ASYNC_ZEROS;
                continue;
            }
            at += 1;
            if byte == 0 {
                self.zeros += 1;
            } else if byte == ASYNC_END && self.zeros >= ASYNC_ZEROS as u64 {
                self.offset += at as u64;
                self.end = Some(End::Found);
                return Some(at);
            } else {
                self.zeros = 0;
            }
        }
        self.offset += at as u64;
        None
    }

    /// What the search has to report: regions of skipped bytes, then the Async.
    pub fn next(&mut self) -> Option<Located<Packet>> {
        let end = self.end?;
        let skipped = match end {
            End::Found => (self.offset - self.start).saturating_sub(ASYNC),
            End::GivenUp => self.offset - self.start,
        };
        let (value, length) = match (skipped.min(MAX_REGION), end) {
            (0, End::GivenUp) => return None,
            (0, End::Found) => (Packet::Async, ASYNC),
            (length, _) => (Packet::Unsynchronised, length),
        };
        let packet = Located { offset: self.start, length: length as u32, value };
        self.start += length;
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_longer_than_a_length_can_say_are_split() {
        let mut search =
            Search { start: 5, offset: 5 + MAX_REGION + 12 + 3, zeros: 0, end: Some(End::Found) };
        let lengths =
            std::iter::from_fn(|| search.next()).take(3).map(|packet| (packet.offset, packet.length));
        let expected = [(5, 1 << 31), (5 + MAX_REGION, 3), (8 + MAX_REGION, 12)];
        assert!(lengths.eq(expected));
    }

    #[test]
    fn an_async_is_the_last_twelve_bytes_of_a_longer_run_of_zeros() {
        let mut bytes = std::vec![7; 40];
        bytes.extend([0; 20]);
        bytes.push(0x80);
        let mut search = Search::new(0);
        assert_eq!(search.feed(&bytes), Some(61));
        assert_eq!(search.next().map(|packet| (packet.offset, packet.length)), Some((0, 49)));
        assert_eq!(search.next().map(|packet| (packet.offset, packet.value)), Some((49, Packet::Async)));
    }

    #[test]
    fn ten_zeros_are_no_async() {
        let mut search = Search::new(0);
        assert_eq!(search.feed(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0]), None);
    }
}
