//! For each byte: how far is it to the next packet that has a value, and how far past that one?
//!
//! Where a packet begins is known only when the one before has been read: each waits for the header of the last. But
//! how long a packet *would* be that began at some byte depends on nothing but the bytes there. That is worked out for
//! every byte of a region, header or not, for sixteen to sixty-four of them at once. Packets that are a header alone and
//! come in every configuration are passed over in the same way: a step over two of them is made of steps over one, that over
//! four of those over two, and so on. What is left to do one after the other is a step from each packet that has a value
//! to the next.
//!
//! There are two ways to the same lanes. With tables of bytes and with vectors that see their neighbours everything stays in
//! registers ([`registers`]). Without them the compiler makes vector instructions of plain arithmetic on arrays, pass by
//! pass ([`passes`]).

mod passes;
mod registers;
#[cfg(test)]
mod tests;

use backsight_simd::Instructions;

use super::headers::Headers;
use passes::Passes;

/// Bytes that are worked out at a time.
pub(super) const REGION: usize = 1024;
/// Packets that are passed over at a time, at most.
pub(super) const RUN: usize = 15;
/// Bytes that lanes are worked out for: a run from the last byte of a region may end after it. A multiple of the longest
/// vector, so that no loop has a rest that is worked out byte by byte.
const LANES: usize = (REGION + 2 * RUN).next_multiple_of(VECTOR);
/// Bytes of the longest vector.
const VECTOR: usize = backsight_simd::LANES;
/// Bytes that must be readable for a region, with room for whatever a byte may say as a distance.
pub(super) const READ: usize = REGION + 288;

/// The bits of a step that say how many packets are a header alone. Above them is the length of the packet after them that
/// has a value; 0 if there are more packets that are a header alone, or one for the clear reader.
const ALONE: u8 = 0x0F;
/// One byte more of a packet that has a value.
pub(super) const BYTE: u8 = 0x10;

/// Packets with times that are common in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    None,
    /// Cycle counts.
    Counts,
    /// Cycle counts and timestamps.
    CountsAndTimestamps,
}

// The same, for parameters.
const NO_TIMES: u8 = Times::None as u8;
const COUNTS: u8 = Times::Counts as u8;
const TIMESTAMPS: u8 = Times::CountsAndTimestamps as u8;

/// The lanes of a region.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Lanes {
    /// How many bytes, up to [`RUN`], are to be passed over as packets that are a header alone.
    pub to: [u8; LANES + VECTOR],
    /// The same with the packet after them, if that has a value that is read here. Else equal to `to`: there are more
    /// packets that are a header alone, or there is one for the clear reader.
    pub over: [u8; LANES + VECTOR],
    /// The form of a packet that has a value.
    pub form: [u8; REGION + 256],
    passes: Passes,
}

impl Lanes {
    pub const EMPTY: Self = Self {
        to: [0; LANES + VECTOR],
        over: [0; LANES + VECTOR],
        form: [0; REGION + 256],
        passes: Passes::EMPTY,
    };

    /// Works them out for a region, with packets that have times as far as they are common.
    #[inline(always)]
    pub fn work_out<I: Instructions>(&mut self, bytes: &[u8; READ], headers: &Headers, times: Times) {
        match times {
            Times::None => self.work_out_with::<I, NO_TIMES>(bytes, headers),
            Times::Counts => self.work_out_with::<I, COUNTS>(bytes, headers),
            Times::CountsAndTimestamps => self.work_out_with::<I, TIMESTAMPS>(bytes, headers),
        }
    }

    #[inline(always)]
    fn work_out_with<I: Instructions, const TIMES: u8>(&mut self, bytes: &[u8; READ], headers: &Headers) {
        if I::ARE_THERE {
            self.by_registers::<I::Bytes, TIMES>(bytes, headers);
        } else if headers.has_sources {
            self.by_passes::<true, TIMES>(bytes, headers.counts);
        } else {
            self.by_passes::<false, TIMES>(bytes, headers.counts);
        }
    }
}
