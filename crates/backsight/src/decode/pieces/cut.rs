//! Where the stream of a source is cut.

use std::ops::Range;

use crate::decode::source_decoder::Part;
use crate::decode::split::{Piece, PieceSlice};

/// Two decoders are compared after so many bytes of a piece.
const CHECKS: [usize; 3] = [64, 256, 1024];

/// Bytes of a piece that the decoder of the one before it also reads.
const OVERLAP: usize = CHECKS[CHECKS.len() - 1];

/// Bytes without any synchronisation that wait for one.
const MOST_WAITING: usize = 1 << 23;

/// A piece of the stream of a source.
pub(in crate::decode) struct StreamPiece {
    /// Offset of the first byte in the stream.
    pub offset: u64,
    /// Its bytes, and the first ones of the next piece.
    data: Piece,
    /// How many are its own.
    own: usize,
    /// Nothing comes after it.
    pub is_last: bool,
    /// It begins with a synchronisation.
    pub can_begin_alone: bool,
}

impl StreamPiece {
    /// How many parts it has: to each comparison at its beginning, to its end, and to each comparison after that.
    pub const fn parts(&self) -> usize {
        if self.is_last { CHECKS.len() + 1 } else { 2 * CHECKS.len() + 1 }
    }

    /// The part that its own bytes end with.
    pub const OWN_END: usize = CHECKS.len();

    fn end_of(&self, part: usize) -> usize {
        match part.checked_sub(Self::OWN_END) {
            None => CHECKS[part].min(self.own),
            Some(0) => self.own,
            Some(after) => self.own + CHECKS[after - 1],
        }
    }

    /// All of its bytes, and the first ones of the next piece.
    pub fn all(&self) -> Part<'_> {
        self.data.part()
    }

    /// The bytes of a part.
    pub fn part(&self, part: usize) -> PieceSlice<'_> {
        let start = part.checked_sub(1).map_or(0, |before| self.end_of(before));
        self.data.slice(Range { start, end: self.end_of(part) })
    }

    /// Offset of the first byte of a part in the stream.
    pub fn offset_of(&self, part: usize) -> u64 {
        self.offset + part.checked_sub(1).map_or(0, |before| self.end_of(before)) as u64
    }
}

/// Cuts the bytes of a source that somebody gathers.
pub(in crate::decode) struct Cutter {
    /// How many bytes have to be there for a piece, and how many of them it has at most, if it can.
    size: usize,
    most: usize,
    /// Offset of the first byte that is not cut off.
    offset: u64,
    can_begin_alone: bool,
}

impl Cutter {
    /// Pieces are of about so many bytes.
    pub fn new(size: usize) -> Self {
        let size = size.max(OVERLAP + 1);
        Self { size, most: size, offset: 0, can_begin_alone: false }
    }

    /// The same where the first byte is at this offset.
    pub fn starting_at(size: usize, offset: u64) -> Self {
        Self { offset, ..Self::new(size) }
    }

    /// The same; but where more bytes are there, up to twice as many. What is left has to be moved: it is less then.
    pub fn up_to_twice(size: usize) -> Self {
        let cutter = Self::new(size);
        Self { most: 2 * cutter.size, ..cutter }
    }

    /// Cuts off the next piece of what was gathered, if there is enough for one. `last_sync` finds the last synchronisation
    /// in some bytes, from an offset on.
    pub fn next(
        &mut self,
        gathered: &mut Piece,
        last_sync: &dyn Fn(&[u8], usize) -> Option<usize>,
    ) -> Option<StreamPiece> {
        let bytes = &gathered.bytes;
        let most = bytes.len().checked_sub(OVERLAP).filter(|&most| most >= self.size)?;
        let mut end = most.min(self.most);
        let (own, is_sync) = loop {
            if let Some(found) = bytes.get(..end).and_then(|bytes| last_sync(bytes, OVERLAP)) {
                break (found, true);
            }
            if end == most {
                break (most, false);
            }
            end = (2 * end).min(most);
        };
        if !is_sync && most < MOST_WAITING {
            return None;
        }
        let rest = gathered.slice(own..bytes.len()).into_piece();
        let mut data = std::mem::replace(gathered, rest);
        data.truncate(own + OVERLAP);
        let &mut Self { offset, can_begin_alone, .. } = self;
        self.offset += own as u64;
        self.can_begin_alone = is_sync;
        Some(StreamPiece { offset, data, own, is_last: false, can_begin_alone })
    }

    /// What is left at the end of what was gathered.
    pub fn rest(&self, gathered: &mut Piece) -> StreamPiece {
        let data = std::mem::take(gathered);
        let &Self { offset, can_begin_alone, .. } = self;
        StreamPiece { offset, own: data.bytes.len(), data, is_last: true, can_begin_alone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A synchronisation is a byte of 0xFF here.
    fn last_sync(bytes: &[u8], from: usize) -> Option<usize> {
        bytes.iter().rposition(|&byte| byte == 0xFF).filter(|&found| found >= from)
    }

    fn pieces(bytes: &[u8], mut cutter: Cutter, block: usize) -> Vec<StreamPiece> {
        let mut gathered = Piece::default();
        let mut pieces = Vec::new();
        for block in bytes.chunks(block) {
            gathered.bytes.extend_from_slice(block);
            pieces.extend(std::iter::from_fn(|| cutter.next(&mut gathered, &last_sync)));
        }
        pieces.push(cutter.rest(&mut gathered));
        pieces
    }

    #[test]
    fn pieces_begin_with_a_synchronisation_and_overlap() {
        let bytes: Vec<u8> =
            (0..100_000).map(|n| if n % 1500 == 7 { 0xFF } else { n as u8 & 0x7F }).collect();
        let all_at_once = bytes.len();
        for (block, is_larger) in
            [100, 4096, all_at_once].into_iter().flat_map(|block| [(block, false), (block, true)])
        {
            let cutter = if is_larger { Cutter::up_to_twice(4000) } else { Cutter::new(4000) };
            let pieces = pieces(&bytes, cutter, block);
            let longest = pieces.iter().map(|piece| piece.own).max().unwrap_or(0);
            let most = if is_larger { 8000 } else { 4000 };
            assert!(longest <= most && pieces.len() > all_at_once / most, "{longest}, {}", pieces.len());
            assert!(longest > 4000 || !is_larger || block < all_at_once, "{longest}");
            let mut own = Vec::new();
            for piece in &pieces {
                assert_eq!(piece.offset, own.len() as u64);
                let parts: Vec<_> = (0..piece.parts()).map(|part| piece.part(part).bytes).collect();
                let after = parts.get(StreamPiece::OWN_END + 1..).unwrap_or_default().concat();
                own.extend(parts[..=StreamPiece::OWN_END].concat());
                assert_eq!(after, bytes[own.len()..own.len() + after.len()]);
                assert_eq!(after.len(), if piece.is_last { 0 } else { OVERLAP });
                assert_eq!(piece.can_begin_alone, piece.offset > 0);
                assert!(piece.offset == 0 || piece.part(0).bytes.first() == Some(&0xFF));
            }
            assert_eq!(own, bytes);
        }
    }

    #[test]
    fn a_stream_without_synchronisation_is_cut_all_the_same() {
        let bytes = vec![1; 3 * MOST_WAITING];
        let pieces = pieces(&bytes, Cutter::up_to_twice(1 << 16), 1 << 18);
        assert!(pieces.len() > 2 && pieces.iter().all(|piece| !piece.can_begin_alone));
        assert!(pieces.iter().all(|piece| piece.own <= MOST_WAITING + (1 << 18)));
    }

    #[test]
    fn a_short_stream_is_one_piece() {
        let pieces = pieces(&[0xFF; 10], Cutter::new(1 << 16), 3);
        assert!(pieces.len() == 1 && pieces[0].is_last && pieces[0].part(0).bytes.len() == 10);
    }
}
