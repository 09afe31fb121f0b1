//! How long would a packet be that began here?
//!
//! Where a packet begins is known only when the one before has been read: each waits for the header of the last.
//! But how long a packet *would* be depends on nothing but its bytes. That is worked out for every byte of a block,
//! packet or not, with plain arithmetic on bytes that the compiler does for sixteen and more of them at once; going
//! from packet to packet is then no more than adding up.

/// Bytes that are worked out at a time.
pub(super) const BLOCK: usize = 256;
/// Bytes behind a block that its packets may reach into, twice: a timestamp may, and then the count behind it.
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
    /// behind them) and cycle counts in commit mode 1; anything else has 1.
    pub packet: [u8; BLOCK],
    /// Of a cycle count field.
    pub count: [u8; BLOCK + AHEAD],
    /// Of a run of packets that are all in their header, up to [`RUN`] of them.
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

/// All bits if `byte` is one of `many` from `first` on.
#[inline(always)]
const fn one_of(byte: u8, first: u8, many: u8) -> u8 {
    if byte.wrapping_sub(first) < many { 0xFF } else { 0 }
}

/// The length of an address packet less the header, by its header and bit 7 of the byte behind.
#[inline(always)]
const fn address(header: u8, continues: u8) -> u8 {
    (one_of(header, 0x95, 2) | one_of(header, 0xB4, 2)) & (1 + continues)
        | (one_of(header, 0x9A, 2) | one_of(header, 0xB6, 2)) & 4
        | (one_of(header, 0x9D, 2) | one_of(header, 0xB8, 2)) & 8
}

impl Lengths {
    pub const EMPTY: Self = Self { packet: [1; BLOCK], count: [1; BLOCK + AHEAD], run: [0; BLOCK] };

    /// Works out addresses only.
    #[inline(never)]
    pub fn addresses(&mut self, bytes: &[u8; READ]) {
        let (headers, behind) = (from::<BLOCK>(bytes, 0), from::<BLOCK>(bytes, 1));
        for ((length, header), behind) in self.packet.iter_mut().zip(headers).zip(behind) {
            *length = 1 + address(*header, behind >> 7);
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
        let behind: [_; 3] = core::array::from_fn(|distance| from::<{ BLOCK + AHEAD }>(bytes, distance));
        for (at, length) in self.count.iter_mut().enumerate() {
            let first = behind[0][at] & 0x80;
            let second = behind[1][at] & first;
            let third = behind[2][at] & second;
            *length = 1 + (first >> 7) + (second >> 7) + (third >> 7);
        }
        let counts = self.count.split_first().and_then(|(_, counts)| counts.first_chunk::<BLOCK>());
        let behind: [_; 9] = core::array::from_fn(|distance| from::<BLOCK>(bytes, distance));
        for (at, (length, count)) in self.packet.iter_mut().zip(counts.unwrap_or(&[1; BLOCK])).enumerate() {
            let header = behind[0][at];
            // Eight bytes may continue; the ninth never does.
            let mut continues = 0x80;
            let mut timestamp = 1;
            for bytes in behind.iter().skip(1) {
                continues &= bytes[at];
                timestamp += continues >> 7;
            }
            *length = 1
                + (address(header, behind[1][at] >> 7)
                    | one_of(header, 0x0C, 2) & 1
                    | one_of(header, 0x0E, 1) & count
                    | one_of(header, 0x02, 2) & timestamp);
        }
    }
}

/// Atoms, events and cycle counts of format 3: the commonest of the packets that are all in their header, and valid in
/// every configuration.
#[inline(always)]
pub(super) const fn is_run(header: u8) -> bool {
    one_of(header, 0x10, 0x10) | one_of(header, 0x71, 0xF) | one_of(header, 0xC0, 0x40) != 0
}

/// The bytes from a place on. There are enough of them.
#[inline(always)]
fn from<const N: usize>(bytes: &[u8; READ], at: usize) -> &[u8; N] {
    const { assert!(N + AHEAD <= READ) };
    bytes.get(at..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

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
