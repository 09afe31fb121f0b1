//! What a header says by itself: whether it is a packet alone, how long it is, which form its value has.

use super::forms::{COUNT_F1, COUNT_F2, HEADER_BITS, SECOND_BYTE, SOURCE, TIMESTAMP};
use super::lanes::{BYTE, Times};
use crate::etm4::Kind;
use crate::etm4::table::HeaderRange;

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
pub(super) const TIMESTAMPS: HeaderRange = HeaderRange::new(Kind::Timestamp, Kind::TimestampCycles);
pub(super) const WITH_CYCLES: HeaderRange = HeaderRange::new(Kind::TimestampCycles, Kind::TimestampCycles);
/// A cycle count of format 1 that has one: U is 0.
pub(super) const KNOWN_COUNT: HeaderRange = HeaderRange::only(Kind::CycleCountF1, 0);
pub(super) const SHORT_COUNT: (HeaderRange, u8) =
    HeaderRange::of_bytes(Kind::CycleCountF2, Kind::CycleCountF2);
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
pub(super) const fn one_of(header: u8, headers: HeaderRange) -> u8 {
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
pub(super) const fn address<const HAS_SOURCES: bool>(header: u8, next: u8) -> (u8, u8) {
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

/// What each header says by itself, in a configuration.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    /// Are there source addresses?
    pub has_sources: bool,
    /// Are there cycle counts of one field, those of commit mode 1?
    pub counts: bool,
    /// The step that a packet with this header is, as far as its length is known by the header.
    pub steps: [u8; 256],
    /// Its form, likewise; with [`MAY_GO_ON`] for short addresses.
    pub forms: [u8; 256],
}

/// Bit 7 of the byte after the header says whether there is another.
pub(super) const MAY_GO_ON: u8 = 0x80;

impl Headers {
    /// Those of a configuration with these; `counts`: cycle counts have one field.
    pub fn new(has_sources: bool, counts: bool, times: Times) -> Self {
        let counts = counts && times != Times::None;
        let mut headers = Self { has_sources, counts, steps: [0; 256], forms: [0; 256] };
        for header in 0..=255 {
            let (length, mut form) =
                if has_sources { address::<true>(header, 0) } else { address::<false>(header, 0) };
            let mut step = length * BYTE + u8::from(is_alone(header));
            if SHORT.contains(header) || has_sources && SHORT_SOURCE.contains(header) {
                form |= MAY_GO_ON;
            }
            if counts && SHORT_COUNT.0.contains(header) {
                (step, form) = ((1 + SHORT_COUNT.1) * BYTE, COUNT_F2 | header & HEADER_BITS);
            }
            if counts && KNOWN_COUNT.contains(header) {
                form = COUNT_F1;
            }
            if times == Times::CountsAndTimestamps && TIMESTAMPS.contains(header) {
                form = TIMESTAMP;
            }
            headers.steps[usize::from(header)] = step;
            headers.forms[usize::from(header)] = form;
        }
        headers
    }
}
