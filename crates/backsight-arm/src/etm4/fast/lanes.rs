//! For each byte: how far is it to the next packet that has a value, and how far past that one?
//!
//! Where a packet begins is known only when the one before has been read: each waits for the header of the last. But
//! how long a packet *would* be that began at some byte depends on nothing but the bytes there. That is worked out for
//! every byte of a region, header or not, with plain arithmetic on bytes that the compiler does for sixteen to sixty-four
//! of them at once. Packets that are a header alone and come in every configuration are passed over in the same way: the
//! distance over two of them is made of the distances over one, that over four of those over two, and so on. What is left
//! to do one after the other is a step from each packet that has a value to the next.

use super::forms::{
    COUNT_BYTES, COUNT_F1, COUNT_F2, HEADER_BITS, SECOND_BYTE, SOURCE, TIMESTAMP, TIMESTAMP_BYTES,
};
use crate::etm4::Kind;
use crate::etm4::table::HeaderRange;

/// Bytes that are worked out at a time.
pub(super) const REGION: usize = 1024;
/// Packets that are passed over at a time, at most.
pub(super) const RUN: usize = 16;
/// Bytes that lanes are worked out for: a run from the last byte of a region may end after it. A multiple of the longest
/// vector, so that no loop has a rest that is worked out byte by byte.
const LANES: usize = (REGION + 2 * RUN).next_multiple_of(VECTOR);
/// Bytes of the longest vector.
const VECTOR: usize = 64;
/// Bytes that must be readable for a region, with room for whatever a byte may say as a distance.
pub(super) const READ: usize = REGION + 288;

/// Packets with times: none are common.
pub(super) const NO_TIMES: u8 = 0;
/// Cycle counts are.
pub(super) const COUNTS_ONLY: u8 = 1;
/// Timestamps are as well.
pub(super) const WITH_TIMESTAMPS: u8 = 2;

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
}

// The headers of the packets that have values.
const EXACT: HeaderRange = HeaderRange::new(Kind::AddressExact, Kind::AddressExact);
const SHORT: HeaderRange = HeaderRange::new(Kind::AddressShortIs0, Kind::AddressShortIs1);
const LONG32: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::Address32Is0, Kind::Address32Is1);
const LONG64: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::Address64Is0, Kind::Address64Is1);
const EXACT_SOURCE: HeaderRange = HeaderRange::new(Kind::SourceExact, Kind::SourceExact);
const SHORT_SOURCE: HeaderRange = HeaderRange::new(Kind::SourceShortIs0, Kind::SourceShortIs1);
const LONG32_SOURCE: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::Source32Is0, Kind::Source32Is1);
const LONG64_SOURCE: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::Source64Is0, Kind::Source64Is1);
const SOURCES: HeaderRange = HeaderRange::new(Kind::SourceExact, Kind::Source64Is1);
const TIMESTAMPS: HeaderRange = HeaderRange::new(Kind::Timestamp, Kind::TimestampCycles);
const WITH_CYCLES: HeaderRange = HeaderRange::new(Kind::TimestampCycles, Kind::TimestampCycles);
/// A cycle count of format 1 that has one: U is 0.
const KNOWN_COUNT: HeaderRange = HeaderRange::only(Kind::CycleCountF1, 0);
const SHORT_COUNT: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::CycleCountF2, Kind::CycleCountF2);
// Those of packets that are a header alone.
const COUNT_F3: HeaderRange = HeaderRange::new(Kind::CycleCountF3, Kind::CycleCountF3);
const SPECULATION: HeaderRange = HeaderRange::new(Kind::Mispredict, Kind::CancelF3);
const EVENTS: HeaderRange = HeaderRange::new(Kind::Event, Kind::Event);
const ATOMS: HeaderRange = HeaderRange::new(Kind::AtomF6, Kind::AtomF3);

/// Atoms, events, cycle counts of format 3, mispredictions and cancellations: packets that are a header alone, and valid in
/// every configuration.
#[inline(always)]
pub(super) const fn is_alone(header: u8) -> bool {
    one_of(header, COUNT_F3) | one_of(header, SPECULATION) | one_of(header, EVENTS) | one_of(header, ATOMS)
        != 0
}

/// All bits if a header is one of these.
#[inline(always)]
const fn one_of(header: u8, headers: HeaderRange) -> u8 {
    if headers.contains(header) { 0xFF } else { 0 }
}

/// The length of a packet of fixed length if a header is one of these.
#[inline(always)]
const fn fixed(header: u8, (headers, bytes): (HeaderRange, u8)) -> u8 {
    one_of(header, headers) & (1 + bytes)
}

/// The length of an address packet and its form, by its header and bit 7 of the byte after it. The form holds for any
/// packet with an address, its length is 0 for others.
#[inline(always)]
const fn address<const HAS_SOURCES: bool>(header: u8, next: u8) -> (u8, u8) {
    let continues = next >> 7;
    let mut short = one_of(header, SHORT);
    let mut length = one_of(header, EXACT) & 1 | fixed(header, LONG32) | fixed(header, LONG64);
    let mut form = header & HEADER_BITS;
    if HAS_SOURCES {
        short |= one_of(header, SHORT_SOURCE);
        length |= one_of(header, EXACT_SOURCE) & 1;
        length |= fixed(header, LONG32_SOURCE) | fixed(header, LONG64_SOURCE);
        form |= one_of(header, SOURCES) & SOURCE;
    }
    (length | short & (2 + continues), form | short & continues.wrapping_mul(SECOND_BYTE))
}

impl Lanes {
    pub const EMPTY: Self =
        Self { to: [0; LANES + VECTOR], over: [0; LANES + VECTOR], form: [0; REGION + 256] };

    /// Works them out for a region, with packets that have times as far as they are common.
    #[inline(always)]
    pub fn work_out<const HAS_SOURCES: bool, const TIMES: u8>(&mut self, bytes: &[u8; READ], counts: bool) {
        let (headers, next) = (from::<LANES>(bytes, 0), from::<LANES>(bytes, 1));
        for at in 0..LANES {
            let (length, form) = address::<HAS_SOURCES>(headers[at], next[at]);
            let alone = u8::from(is_alone(headers[at]));
            self.to[at] = alone;
            self.over[at] = length | alone;
            self.form[at] = form;
        }
        if TIMES != NO_TIMES {
            self.add_times::<TIMES>(bytes, if counts { 0xFF } else { 0 });
        }
        let Self { to, over, .. } = self;
        double::<1>(to, over);
        double::<2>(to, over);
        double::<4>(to, over);
        double::<8>(to, over);
    }

    /// Adds the lengths and forms of cycle counts and timestamps.
    #[inline(always)]
    fn add_times<const TIMES: u8>(&mut self, bytes: &[u8; READ], counts: u8) {
        // How long is a count field that begins here, up to one more than is allowed?
        const AHEAD: usize = LANES + VECTOR;
        let mut count = [0; AHEAD];
        let (first, second, third) =
            (from::<AHEAD>(bytes, 0), from::<AHEAD>(bytes, 1), from::<AHEAD>(bytes, 2));
        for at in 0..AHEAD {
            let has_second = first[at] >> 7;
            let has_third = second[at] >> 7 & has_second;
            let has_fourth = third[at] >> 7 & has_third;
            count[at] = 1 + has_second + has_third + has_fourth;
        }
        let headers = from::<LANES>(bytes, 0);
        for at in 0..LANES {
            let (header, field) = (headers[at], count[at + 1]);
            let is_count = one_of(header, KNOWN_COUNT) & counts & if field <= COUNT_BYTES { 0xFF } else { 0 };
            let is_short = one_of(header, SHORT_COUNT.0) & counts;
            let form = is_count & (COUNT_F1 | field) | is_short & (COUNT_F2 | header & HEADER_BITS);
            self.over[at] |= is_count & (1 + field) | is_short & (1 + SHORT_COUNT.1);
            // Headers that introduce counts introduce no addresses.
            self.form[at] = self.form[at] & !(is_count | is_short) | form;
        }
        if TIMES == WITH_TIMESTAMPS {
            self.add_timestamps(bytes, &count);
        }
    }

    /// Adds the lengths and forms of timestamps and of the counts after them.
    #[inline(always)]
    fn add_timestamps(&mut self, bytes: &[u8; READ], count: &[u8; LANES + VECTOR]) {
        // Bytes of a timestamp that go on are passed over as packets are that are a header alone: how many begin here, and how
        // far is it past the last byte and a count after that?
        let (mut goes_on, mut over) = ([0; LANES + VECTOR], [0; LANES + VECTOR]);
        for at in 0..LANES {
            goes_on[at] = bytes[at] >> 7;
            over[at] = 1 + count[at + 1];
        }
        double::<1>(&mut goes_on, &mut over);
        double::<2>(&mut goes_on, &mut over);
        double::<4>(&mut goes_on, &mut over);
        let headers = from::<LANES>(bytes, 0);
        for at in 0..LANES {
            let (header, stamp) = (headers[at], 1 + goes_on[at + 1]);
            let field = over[at + 1].wrapping_sub(stamp);
            let with_count = one_of(header, WITH_CYCLES);
            let is_too_long = stamp > TIMESTAMP_BYTES || with_count & field > COUNT_BYTES;
            let is_stamp = one_of(header, TIMESTAMPS) & if is_too_long { 0 } else { 0xFF };
            self.over[at] |= is_stamp & (1 + stamp).wrapping_add(field & with_count);
            self.form[at] = self.form[at] & !is_stamp | is_stamp & (TIMESTAMP | stamp);
        }
    }
}

/// Distances over up to `2 * N` packets that are a header alone out of distances over up to `N`. The last few are not right:
/// nobody asks for them.
#[inline(always)]
fn double<const N: usize>(to: &mut [u8; LANES + VECTOR], over: &mut [u8; LANES + VECTOR]) {
    for at in 0..LANES {
        let (to_next, over_next) = (to[at + N], N as u8 + over[at + N]);
        let all = if to[at] == N as u8 { 0xFF } else { 0 };
        to[at] += to_next & all;
        over[at] = over_next & all | over[at] & !all;
    }
}

/// The bytes from a position on. There are enough of them.
#[inline(always)]
fn from<const N: usize>(bytes: &[u8; READ], at: usize) -> &[u8; N] {
    const { assert!(N + 16 <= READ) };
    bytes.get(at..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; N])
}
