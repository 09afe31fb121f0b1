//! A-sync: where packets begin.
//!
//! Five or more zero bytes and 0x80: the next byte is a header. The zeros belong to the A-sync, however many there are,
//! so that its length is not bounded; zeros are counted, not kept. A decoder that does not know where packets begin
//! looks for one anywhere; one that meets a zero where a header should be expects nothing else.

/// Fewest zeros of an A-sync.
pub(super) const ZEROS: u64 = 5;
/// The byte that ends it.
pub(crate) const END: u8 = 0x80;

/// Where the search stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Search {
    /// Where the bytes that have not been reported begin.
    pub start: u64,
    /// The offset of the next byte.
    pub offset: u64,
    /// Zeros just before it.
    pub zeros: u64,
    /// A zero was met where a header should be.
    pub in_packet: bool,
}

/// How a search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// An A-sync ends here.
    Found,
    /// Zeros where a header should be are no A-sync.
    NotASync,
}

impl Search {
    /// A search for an A-sync anywhere.
    pub const fn lost(offset: u64) -> Self {
        Self { start: offset, offset, zeros: 0, in_packet: false }
    }

    /// A zero at this offset is expected to be the first of an A-sync.
    pub const fn in_packet(offset: u64) -> Self {
        Self { start: offset, offset, zeros: 0, in_packet: true }
    }

    /// Looks through bytes; gives how many it used, and how it ended if it did.
    pub fn feed(&mut self, bytes: &[u8]) -> (usize, Option<Outcome>) {
        let mut outcome = None;
        let mut used = 0;
        for &byte in bytes {
            match byte {
                0 => self.zeros += 1,
                END if self.zeros >= ZEROS => outcome = Some(Outcome::Found),
                _ if self.in_packet => {
                    outcome = Some(Outcome::NotASync);
                    break;
                }
                _ => self.zeros = 0,
            }
            used += 1;
            if outcome.is_some() {
                break;
            }
        }
        self.offset += used as u64;
        (used, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_a_sync_has_at_least_five_zeros_and_takes_all_there_are() {
        let mut search = Search::lost(3);
        assert_eq!(search.feed(&[7, 0, 0, 0, 0, 0x80, 0, 0, 0]), (9, None));
        assert_eq!(search.feed(&[0, 0, 0, 0x80, 1]), (4, Some(Outcome::Found)));
        assert_eq!((search.zeros, search.offset), (6, 16));
    }

    #[test]
    fn zeros_in_the_place_of_a_header_must_be_an_a_sync() {
        let mut search = Search::in_packet(0);
        assert_eq!(search.feed(&[0, 0, 0, 0, 0x80]), (4, Some(Outcome::NotASync)));
        let mut search = Search::in_packet(0);
        assert_eq!(search.feed(&[0, 0, 0, 0, 0, 0, 0x80, 0]), (7, Some(Outcome::Found)));
    }
}
