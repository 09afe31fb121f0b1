//! The fields of a message: several in a row of bytes with six bits of data each.

use alloc::vec::Vec;

use super::History;
use super::packet::Bad;

/// Most fields of variable size in a message, the timestamp included.
pub(super) const MOST_FIELDS: usize = 6;

/// Most bits of I-CNT.
pub const INSTRUCTION_COUNT_BITS: u32 = 22;

/// Most bits of B-CNT and HREPEAT.
pub const REPETITION_BITS: u32 = 18;

/// Bits of data in a byte.
pub(super) const DATA_BITS: u32 = 6;

/// Markers.
pub(super) const END_OF_FIELD: u8 = 0b01;
pub(super) const RESERVED_MARKER: u8 = 0b10;
pub(super) const END_OF_MESSAGE: u8 = 0b11;

/// The bits of a field up to its end marker. Nearly all fit a machine word.
pub(super) trait FieldValue: Copy + Default {
    /// `width` bits from bit `from` on, at most 12 of them.
    fn part(self, from: u32, width: u32) -> u64;

    /// All bits from `from` on; `None` if they are too many.
    fn rest(self, from: u32) -> Option<u64>;
}

impl FieldValue for u64 {
    #[inline]
    fn part(self, from: u32, width: u32) -> u64 {
        self >> from.min(63) & ((1 << width) - 1)
    }

    #[inline]
    fn rest(self, from: u32) -> Option<u64> {
        Some(self >> from.min(63))
    }
}

impl FieldValue for u128 {
    #[inline]
    fn part(self, from: u32, width: u32) -> u64 {
        (self >> from & ((1 << width) - 1)) as u64
    }

    #[inline]
    fn rest(self, from: u32) -> Option<u64> {
        u64::try_from(self >> from).ok()
    }
}

/// Reads the fields of one message.
pub(super) struct FieldReader<'a, V> {
    fields: &'a [(V, u32); MOST_FIELDS],
    field: usize,
    /// Bits of the field that were read as fields of fixed size.
    used: u32,
}

impl<'a, V: FieldValue> FieldReader<'a, V> {
    /// Of the fields of a message, each up to its end marker: value and number of bits.
    #[inline]
    pub fn new(fields: &'a [(V, u32); MOST_FIELDS]) -> Self {
        Self { fields, field: 0, used: 0 }
    }

    /// A field of fixed size. What was not sent is zero.
    #[inline]
    pub fn fixed(&mut self, width: u32) -> u64 {
        let (value, _) = self.fields.get(self.field).copied().unwrap_or_default();
        let bits = value.part(self.used, width);
        self.used += width;
        bits
    }

    /// The rest of the current field, or the whole of the next.
    #[inline]
    pub fn variable(&mut self) -> Result<u64, Bad> {
        let (value, bits) = self.fields.get(self.field).copied().unwrap_or_default();
        if bits == 0 {
            return Err(Bad::FieldMissing);
        }
        let value = value.rest(self.used);
        self.field += 1;
        self.used = 0;
        value.ok_or(Bad::TooLong)
    }

    /// A field of variable size that the specification gives no more than so many bits. What claims more is damaged: one
    /// wrong bit would else make millions of instructions.
    pub fn bounded(&mut self, bits: u32) -> Result<u32, Bad> {
        let value = self.variable()?;
        if value >> bits == 0 { Ok(value as u32) } else { Err(Bad::TooLong) }
    }

    /// I-CNT.
    pub fn instruction_count(&mut self) -> Result<u32, Bad> {
        self.bounded(INSTRUCTION_COUNT_BITS)
    }

    /// B-CNT or HREPEAT.
    pub fn repetitions(&mut self) -> Result<u32, Bad> {
        self.bounded(REPETITION_BITS)
    }

    /// A field of variable size, if there is one more.
    pub fn optional(&mut self) -> Option<u64> {
        self.variable().ok()
    }

    /// HIST.
    pub fn history(&mut self) -> Result<History, Bad> {
        self.variable().map(History)
    }
}

/// Bytes that are written at once.
const AT_ONCE: usize = 8;

/// Packs fields into bytes of six bits of data.
pub(super) struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Fields of fixed size that wait for one of variable size: all of a message have no more than 24 bits.
    pending: u64,
    bits: u32,
}

impl<'a> FieldWriter<'a> {
    #[inline]
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, pending: 0, bits: 0 }
    }

    /// A field of fixed size. One of variable size has to follow.
    #[inline]
    pub fn fixed(&mut self, value: u64, width: u32) {
        self.pending |= (value & ((1 << width) - 1)) << self.bits;
        self.bits += width;
    }

    /// A field of variable size: as many bytes as it needs, at least one of its own or shared with fixed fields.
    #[inline]
    pub fn variable(&mut self, value: u64) {
        let bits = self.bits + u64::BITS - (value | 1).leading_zeros();
        let count = bits.div_ceil(DATA_BITS) as usize;
        let data = self.pending | value << self.bits;
        if count <= AT_ONCE {
            self.store(spread(data) | u64::from(END_OF_FIELD) << ((count - 1) * 8), count);
        } else {
            self.store(spread(data), AT_ONCE);
            let data = u128::from(self.pending) | u128::from(value) << self.bits;
            let rest = (data >> (DATA_BITS * AT_ONCE as u32)) as u64;
            let count = count - AT_ONCE;
            self.store(spread(rest) | u64::from(END_OF_FIELD) << ((count - 1) * 8), count);
        }
        (self.pending, self.bits) = (0, 0);
    }

    /// The lowest `count` bytes.
    #[inline]
    fn store(&mut self, bytes: u64, count: usize) {
        let end = self.out.len() + count;
        // A copy of a fixed size is quick; what is too much is cut off again.
        self.out.extend_from_slice(&bytes.to_le_bytes());
        self.out.truncate(end);
    }

    /// The message ends.
    #[inline]
    pub fn finish(self) {
        if let Some(last) = self.out.last_mut() {
            *last |= END_OF_MESSAGE;
        }
    }
}

/// Eight bytes with six bits of data each, above their markers.
#[inline]
const fn spread(data: u64) -> u64 {
    let two_dozen = data & 0x00FF_FFFF | data << 8 & 0x00FF_FFFF_0000_0000;
    let twelve = two_dozen & 0x0000_0FFF_0000_0FFF | two_dozen << 4 & 0x0FFF_0000_0FFF_0000;
    let six = twelve & 0x003F_003F_003F_003F | twelve << 2 & 0x3F00_3F00_3F00_3F00;
    six << 2
}

/// The fields of a message in these bytes.
#[cfg(test)]
pub(super) fn separate(bytes: &[u8]) -> FieldReader<'static, u128> {
    let fields = alloc::boxed::Box::leak(alloc::boxed::Box::new([(0, 0); MOST_FIELDS]));
    let mut field = 0;
    for byte in bytes {
        let (value, bits): &mut (u128, u32) = &mut fields[field];
        *value |= u128::from(byte >> 2) << *bits;
        *bits += 6;
        field += usize::from(byte & 3 == END_OF_FIELD);
    }
    FieldReader::new(fields)
}
