//! What no compiler makes out of a loop by itself: tables, neighbours, and bits put together.

/// Instructions that there are beside those that the compiler chooses.
pub trait Instructions {
    /// Does the processor have them? If not, they are made of others, which is slow: what can be done in another way is done
    /// so.
    const ARE_THERE: bool;

    /// Vectors of bytes.
    type Bytes: Bytes;

    /// The bits of a word that a mask names, put together from bit 0 on.
    fn extract(word: u64, mask: u64) -> u64;
}

/// How many bytes a vector has.
pub const LANES: usize = 64;

/// Sixty-four bytes, and what is done to all of them at once. Sums wrap around.
pub trait Bytes: Copy {
    /// A table with an entry for every byte, ready to be looked up in.
    type Table: Copy;

    /// As they are in memory.
    fn load(bytes: &[u8; LANES]) -> Self;

    /// To memory.
    fn store(self, to: &mut [u8; LANES]);

    /// The same byte everywhere.
    fn splat(byte: u8) -> Self;

    /// Makes a table ready.
    fn table(entries: &[u8; 256]) -> Self::Table;

    /// The entry for each byte.
    fn look_up(self, table: &Self::Table) -> Self;

    /// The bits that both have.
    fn and(self, other: Self) -> Self;

    /// The sum.
    fn plus(self, other: Self) -> Self;

    /// Each byte shifted up by four bits.
    fn shifted_up(self) -> Self;

    /// Each byte shifted down by four bits.
    fn shifted_down(self) -> Self;

    /// `then` where the bytes of both are equal, else `otherwise`.
    fn where_equal(self, other: Self, then: Self, otherwise: Self) -> Self;

    /// `then` where bit 7 is set, else `otherwise`.
    fn where_high(self, then: Self, otherwise: Self) -> Self;

    /// What follows `N` bytes later, up to 15, where `next` is what comes after these bytes.
    fn following<const N: i32>(self, next: Self) -> Self;
}

/// Those of any processor.
#[derive(Debug)]
pub struct Plain;

impl Instructions for Plain {
    const ARE_THERE: bool = false;

    type Bytes = PlainBytes;

    #[inline(always)]
    fn extract(word: u64, mask: u64) -> u64 {
        let (mut bits, mut rest) = (0, mask);
        for at in 0..mask.count_ones() {
            bits |= (word >> rest.trailing_zeros() & 1) << at;
            rest &= rest - 1;
        }
        bits
    }
}

/// Bytes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainBytes([u8; LANES]);

impl PlainBytes {
    #[inline(always)]
    fn map(self, change: impl Fn(u8) -> u8) -> Self {
        Self(core::array::from_fn(|lane| change(self.0[lane])))
    }

    #[inline(always)]
    fn with(self, other: Self, change: impl Fn(u8, u8) -> u8) -> Self {
        Self(core::array::from_fn(|lane| change(self.0[lane], other.0[lane])))
    }
}

impl Bytes for PlainBytes {
    type Table = [u8; 256];

    #[inline(always)]
    fn load(bytes: &[u8; LANES]) -> Self {
        Self(*bytes)
    }

    #[inline(always)]
    fn store(self, to: &mut [u8; LANES]) {
        *to = self.0;
    }

    #[inline(always)]
    fn splat(byte: u8) -> Self {
        Self([byte; LANES])
    }

    #[inline(always)]
    fn table(entries: &[u8; 256]) -> Self::Table {
        *entries
    }

    #[inline(always)]
    fn look_up(self, table: &Self::Table) -> Self {
        self.map(|byte| table[usize::from(byte)])
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.with(other, |one, other| one & other)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.with(other, u8::wrapping_add)
    }

    #[inline(always)]
    fn shifted_up(self) -> Self {
        self.map(|byte| byte << 4)
    }

    #[inline(always)]
    fn shifted_down(self) -> Self {
        self.map(|byte| byte >> 4)
    }

    #[inline(always)]
    fn where_equal(self, other: Self, then: Self, otherwise: Self) -> Self {
        let equal = self.with(other, |one, other| if one == other { 0xFF } else { 0 });
        equal.where_high(then, otherwise)
    }

    #[inline(always)]
    fn where_high(self, then: Self, otherwise: Self) -> Self {
        Self(core::array::from_fn(|lane| {
            let all = if self.0[lane] >= 0x80 { 0xFF } else { 0 };
            then.0[lane] & all | otherwise.0[lane] & !all
        }))
    }

    #[inline(always)]
    fn following<const N: i32>(self, next: Self) -> Self {
        let mut both = [0; 2 * LANES];
        both[..LANES].copy_from_slice(&self.0);
        both[LANES..].copy_from_slice(&next.0);
        Self(core::array::from_fn(|lane| both[lane + N as usize]))
    }
}
