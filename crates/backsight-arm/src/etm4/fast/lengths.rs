//! How long would a packet be that began here?
//!
//! Where a packet begins is known only when the one before has been read: each waits for the header of the last.
//! But how long a packet *would* be depends on nothing but its bytes. That is worked out for every byte of a block,
//! packet or not, with plain arithmetic on bytes that the compiler does for sixteen and more of them at once; going
//! from packet to packet is then no more than adding up.

use crate::etm4::Kind;
use crate::etm4::table::HeaderRange;

/// Bytes that are worked out at a time.
pub(super) const BLOCK: usize = 256;
/// Bytes after a block that its packets may reach into, twice: a timestamp may, and then the count after it.
pub(super) const AHEAD: usize = 16;
/// Bytes that must be readable for a block.
pub(super) const READ: usize = BLOCK + 2 * AHEAD;

/// Packets of a run that are taken at a time.
pub(super) const RUN: usize = 8;

/// A field of more than three bytes is no cycle count.
pub(super) const COUNT_TOO_LONG: usize = 4;

/// Lengths by position.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    /// Of a packet, header included. Only what the engine reads counts: addresses, timestamps (without the count
    /// after them) and cycle counts in commit mode 1; anything else has 1.
    pub packet: [u8; BLOCK],
    /// Of a cycle count field.
    pub count: [u8; BLOCK + AHEAD],
    /// Of a run of packets that are a header alone, up to [`RUN`] of them.
    pub run: [u8; BLOCK],
}

/// Runs of up to `2 * N` out of runs of up to `N`. The last few are not right: nobody asks for them.
#[inline(always)]
fn doubled<const N: usize>(runs: &[u8; BLOCK + AHEAD]) -> [u8; BLOCK + AHEAD] {
    let mut doubled = *runs;
    for (sum, next) in doubled.iter_mut().zip(runs.iter().skip(N)) {
        *sum += if *sum == N as u8 { *next } else { 0 };
    }
    doubled
}

// The headers of the packets that the engine reads.
const SHORT: HeaderRange = HeaderRange::new(Kind::AddressShortIs0, Kind::AddressShortIs1);
const SHORT_SOURCE: HeaderRange = HeaderRange::new(Kind::SourceShortIs0, Kind::SourceShortIs1);
const LONG32: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::Address32Is0, Kind::Address32Is1);
const LONG32_SOURCE: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::Source32Is0, Kind::Source32Is1);
const LONG64: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::Address64Is0, Kind::Address64Is1);
const LONG64_SOURCE: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::Source64Is0, Kind::Source64Is1);
const TIMESTAMPS: HeaderRange = HeaderRange::new(Kind::Timestamp, Kind::TimestampCycles);
/// A cycle count of format 1 that has one: U is 0.
const KNOWN_COUNT: HeaderRange = HeaderRange::only(Kind::CycleCountF1, 0);
const COUNT_F2: (HeaderRange, u8) = HeaderRange::of_bytes(Kind::CycleCountF2, Kind::CycleCountF2);
const COUNT_F3: HeaderRange = HeaderRange::new(Kind::CycleCountF3, Kind::CycleCountF3);
const EVENTS: HeaderRange = HeaderRange::new(Kind::Event, Kind::Event);
const ATOMS: HeaderRange = HeaderRange::new(Kind::AtomF6, Kind::AtomF3);

/// All bits if a header is one of these.
#[inline(always)]
const fn one_of(header: u8, headers: HeaderRange) -> u8 {
    if headers.contains(header) { 0xFF } else { 0 }
}

/// So many bytes if a header is one of these.
#[inline(always)]
const fn fixed(header: u8, (headers, bytes): (HeaderRange, u8)) -> u8 {
    one_of(header, headers) & bytes
}

/// The length of an address packet less the header, by its header and bit 7 of the byte after it.
#[inline(always)]
const fn address(header: u8, continues: u8) -> u8 {
    (one_of(header, SHORT) | one_of(header, SHORT_SOURCE)) & (1 + continues)
        | (fixed(header, LONG32) | fixed(header, LONG32_SOURCE))
        | (fixed(header, LONG64) | fixed(header, LONG64_SOURCE))
}

impl Lengths {
    pub const EMPTY: Self = Self { packet: [1; BLOCK], count: [1; BLOCK + AHEAD], run: [0; BLOCK] };

    /// Works out addresses only.
    #[inline(never)]
    pub fn addresses(&mut self, bytes: &[u8; READ]) {
        let (headers, next) = (from::<BLOCK>(bytes, 0), from::<BLOCK>(bytes, 1));
        for ((length, header), next) in self.packet.iter_mut().zip(headers).zip(next) {
            *length = 1 + address(*header, next >> 7);
        }
    }

    /// Works out runs. Those of up to two are made of those of up to one, and so on.
    #[inline(never)]
    pub fn runs(&mut self, bytes: &[u8; READ]) {
        let mut one = [0; BLOCK + AHEAD];
        for (length, &header) in one.iter_mut().zip(bytes) {
            *length = u8::from(is_run(header));
        }
        let two = doubled::<1>(&one);
        let four = doubled::<2>(&two);
        for (length, sum) in self.run.iter_mut().zip(doubled::<4>(&four)) {
            *length = sum;
        }
    }

    /// Works out addresses, cycle counts and timestamps.
    #[inline(never)]
    pub fn timed(&mut self, bytes: &[u8; READ]) {
        let ahead: [_; 3] = core::array::from_fn(|distance| from::<{ BLOCK + AHEAD }>(bytes, distance));
        for (at, length) in self.count.iter_mut().enumerate() {
            let first = ahead[0][at] & 0x80;
            let second = ahead[1][at] & first;
            let third = ahead[2][at] & second;
            *length = 1 + (first >> 7) + (second >> 7) + (third >> 7);
        }
        let counts = self.count.split_first().and_then(|(_, counts)| counts.first_chunk::<BLOCK>());
        let ahead: [_; 9] = core::array::from_fn(|distance| from::<BLOCK>(bytes, distance));
        for (at, (length, count)) in self.packet.iter_mut().zip(counts.unwrap_or(&[1; BLOCK])).enumerate() {
            let header = ahead[0][at];
            // Eight bytes may continue; the ninth never does.
            let mut continues = 0x80;
            let mut timestamp = 1;
            for bytes in ahead.iter().skip(1) {
                continues &= bytes[at];
                timestamp += continues >> 7;
            }
            *length = 1
                + (address(header, ahead[1][at] >> 7)
                    | fixed(header, COUNT_F2)
                    | one_of(header, KNOWN_COUNT) & count
                    | one_of(header, TIMESTAMPS) & timestamp);
        }
    }
}

/// Atoms, events and cycle counts of format 3: the commonest of the packets that are a header alone, and valid in
/// every configuration.
#[inline(always)]
pub(super) const fn is_run(header: u8) -> bool {
    one_of(header, COUNT_F3) | one_of(header, EVENTS) | one_of(header, ATOMS) != 0
}

/// The bytes from a position on. There are enough of them.
#[inline(always)]
fn from<const N: usize>(bytes: &[u8; READ], at: usize) -> &[u8; N] {
    const { assert!(N + AHEAD <= READ) };
    bytes.get(at..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; N])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etm4::{Part, ROWS, When};

    /// The ranges are made of the first and the last kind: whatever is between must be of the same make.
    #[test]
    fn runs_are_the_rows_of_atoms_events_and_format_3_which_are_always_valid_and_a_header_alone() {
        for row in ROWS {
            let expected = matches!(row.name, "I_EVENT" | "I_CCNT_F3") || row.name.starts_with("I_ATOM");
            for header in row.first..=row.last {
                assert_eq!(is_run(header), expected, "{header:#04x}");
            }
            assert!(!expected || row.payload.is_empty() && row.when == When::Always, "{}", row.title);
        }
    }

    #[test]
    fn lengths_are_those_of_the_table() {
        let mut lengths = Lengths::EMPTY;
        for row in ROWS {
            for header in row.first..=row.last {
                let bytes: [u8; READ] = core::array::from_fn(|at| if at == 0 { header } else { 0 });
                lengths.timed(&bytes);
                let is_address = row.name.starts_with("I_ADDR_S")
                    || row.name.starts_with("I_ADDR_L")
                    || row.name.starts_with("I_SRC_ADDR")
                    || row.name.starts_with("I_SCR_ADDR");
                let is_time = row.name.starts_with("I_CCNT") || row.name == "I_TIMESTAMP";
                let expected = match row.payload {
                    [Part::Bytes(bytes)] if is_address || is_time => 1 + bytes,
                    [Part::ShortAddress] | [Part::Timestamp, ..] | [Part::Commit, Part::Continued(_)] => 2,
                    _ => 1,
                };
                assert_eq!(lengths.packet[0], expected, "{header:#04x} {}", row.title);
            }
        }
    }

    #[test]
    fn runs_end_at_the_first_byte_that_is_no_header_of_a_run() {
        let mut lengths = Lengths::EMPTY;
        for headers in 0..=255u8 {
            let bytes: [u8; READ] =
                core::array::from_fn(|at| if at % 37 < 20 { headers } else { at as u8 ^ headers });
            lengths.runs(&bytes);
            for (at, &length) in lengths.run.iter().enumerate() {
                let expected = bytes[at..].iter().take(RUN).take_while(|&&byte| is_run(byte)).count();
                assert_eq!(usize::from(length), expected);
            }
        }
    }
}
