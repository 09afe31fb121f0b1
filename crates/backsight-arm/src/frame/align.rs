//! Captures of unknown alignment: bits shifted, words swapped, frames that begin anywhere.

use super::layout::FULL_SYNC;
use super::{Deframer, Framing};

/// How a trace port capture has to be brought into order before a [`Deframer`] can read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortAlignment {
    /// Bits to drop at the beginning, 0 to 7: a byte begins in the middle of a captured one.
    pub bits: u8,
    /// The capture device stored 32-bit words with the last byte first; this is where the first complete word is.
    pub swapped: Option<u8>,
    /// Full syncs found this way.
    pub syncs: usize,
}

/// Searches part of a trace port capture for full syncs: at every bit offset, and in words whose bytes are
/// swapped. Gives the arrangement with the most, or nothing if there is no full sync at all.
pub fn find_port_alignment(bytes: &[u8]) -> Option<PortAlignment> {
    let mut shifted = [0; 8];
    let mut swapped = [0; 4];
    for window in bytes.windows(5) {
        // Wherever a full sync begins in the first byte, the next two are FF.
        if window[1..3] != FULL_SYNC[..2] {
            continue;
        }
        let bits = window.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        for (offset, count) in shifted.iter_mut().enumerate() {
            *count += usize::from((bits >> offset) as u32 == u32::from_le_bytes(FULL_SYNC));
        }
    }
    shifted[0] += usize::from(bytes.ends_with(&FULL_SYNC));
    for (at, window) in bytes.windows(4).enumerate() {
        swapped[at % 4] += usize::from(window == [0x7F, 0xFF, 0xFF, 0xFF]);
    }
    let plain = (0..8).map(|bits| PortAlignment { bits, swapped: None, syncs: shifted[usize::from(bits)] });
    let words =
        (0..4).map(|at| PortAlignment { bits: 0, swapped: Some(at), syncs: swapped[usize::from(at)] });
    // The first of equals: straight before shifted before swapped.
    plain.chain(words).rev().max_by_key(|alignment| alignment.syncs).filter(|alignment| alignment.syncs > 0)
}

/// Brings a trace port capture into order, as [`find_port_alignment`] found necessary.
/// Bits at the end that are no complete byte, and bytes that are no complete word, are dropped.
#[derive(Clone, Debug)]
pub struct BitAligner {
    alignment: PortAlignment,
    /// Bytes in hand: of a word to swap, or the one whose bits are needed with the next byte.
    held: [u8; 4],
    count: usize,
    /// Bytes still to drop before the first complete word.
    skip: u8,
}

impl BitAligner {
    /// An aligner at the beginning of a capture.
    pub const fn new(alignment: PortAlignment) -> Self {
        let skip = match alignment.swapped {
            Some(at) => at,
            None => 0,
        };
        Self { alignment, held: [0; 4], count: 0, skip }
    }

    /// Takes more of the capture.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        match self.alignment {
            PortAlignment { swapped: Some(_), .. } => self.swap(bytes, sink),
            PortAlignment { bits: 1..=7, .. } => self.shift(bytes, sink),
            _ => sink(bytes),
        }
    }

    fn swap(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        for &byte in bytes {
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.held[3 - self.count] = byte;
            self.count += 1;
            if self.count == 4 {
                self.count = 0;
                sink(&self.held);
            }
        }
    }

    fn shift(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        let bits = self.alignment.bits;
        let mut piece = [0; 256];
        for part in bytes.chunks(piece.len()) {
            let mut length = 0;
            for &byte in part {
                if self.count == 1 {
                    piece[length] = self.held[0] >> bits | byte << (8 - bits);
                    length += 1;
                }
                (self.held[0], self.count) = (byte, 1);
            }
            sink(&piece[..length]);
        }
    }
}

/// How well frames decode from one of the 16 offsets where they may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// Where the first complete frame begins, 0 to 15.
    pub offset: usize,
    /// Different IDs with data.
    pub ids: u64,
    /// ID bytes with the ID 0x7F, and data bytes of reserved IDs.
    pub illegal: u64,
    /// Data bytes of the null source that are not zero.
    pub nonzero_padding: u64,
    /// What the caller's decoders found wrong.
    pub errors: u64,
}

impl Alignment {
    fn badness(&self) -> u64 {
        self.ids.saturating_add(self.illegal).saturating_add(self.nonzero_padding).saturating_add(self.errors)
    }
}

/// Searches for the beginning of frames in formatted data of unknown alignment without sync packets.
///
/// Tries the 16 offsets on `bytes` (a hundred frames and more are enough to distinguish them) and gives them, the
/// likeliest first. The number and kind of IDs distinguish odd from even offsets; the even ones among themselves are distinguished
/// by padding that is not zero and by `errors`, which gets the bytes from that offset on, takes them apart,
/// decodes the known streams and says how many packets were bad (`|_| 0` where nothing is known of the streams).
pub fn find_alignment(bytes: &[u8], mut errors: impl FnMut(&[u8]) -> u64) -> [Alignment; 16] {
    let mut candidates = [Alignment::default(); 16];
    for (offset, candidate) in candidates.iter_mut().enumerate() {
        let candidate_bytes = bytes.get(offset..).unwrap_or_default();
        let mut deframer = Deframer::new(Framing::Coresight);
        deframer.feed(candidate_bytes, &mut |_| {});
        let counts = deframer.counts();
        *candidate = Alignment {
            offset,
            ids: counts.data.iter().filter(|&&bytes| bytes != 0).count() as u64,
            illegal: counts.illegal_ids + counts.reserved(),
            nonzero_padding: counts.nonzero_padding,
            errors: errors(candidate_bytes),
        };
    }
    candidates.sort_unstable_by_key(|candidate| (candidate.badness(), candidate.offset));
    candidates
}
