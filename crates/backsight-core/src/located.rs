//! Where a value was found, and what became of every byte.

/// A value with its place in the byte stream of its source.
///
/// Offsets count the bytes of one source's stream, after frames were taken apart: a decoder knows nothing of
/// frames. The caller that feeds it knows where each of its bytes was in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// Offset of the first byte in the stream of the source.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// What the bytes say.
    pub value: T,
}

impl<T> Located<T> {
    /// The offset after the last byte.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.offset + self.length as u64
    }

    /// The same place with another value.
    #[inline]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Located<U> {
        Located { offset: self.offset, length: self.length, value: f(self.value) }
    }
}

/// What became of the bytes of a stream. Every byte that was fed is in exactly one count once the
/// decoder has been finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    /// Bytes of packets that were understood.
    pub decoded: u64,
    /// Bytes skipped because the decoder did not know where a packet begins.
    pub unsynchronised: u64,
    /// Bytes of packets that are reserved, malformed or cut off.
    pub bad: u64,
}

impl Accounting {
    /// All bytes.
    pub const fn total(&self) -> u64 {
        self.decoded + self.unsynchronised + self.bad
    }
}

/// What became of the bytes since an earlier moment.
impl core::ops::Sub for Accounting {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            decoded: self.decoded.saturating_sub(earlier.decoded),
            unsynchronised: self.unsynchronised.saturating_sub(earlier.unsynchronised),
            bad: self.bad.saturating_sub(earlier.bad),
        }
    }
}

impl core::ops::AddAssign for Accounting {
    fn add_assign(&mut self, other: Self) {
        self.decoded += other.decoded;
        self.unsynchronised += other.unsynchronised;
        self.bad += other.bad;
    }
}
