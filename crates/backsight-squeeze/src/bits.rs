//! Records of any number of bits: most significant bit first, bytes filled from bit 7 down.

use crate::Damage;

/// Writes bits.
#[derive(Clone, Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that do not fill a byte yet, at the low end.
    pending: u64,
    count: u32,
}

impl BitWriter {
    /// Writes the low `width` bits of `value`; 64 at most.
    #[inline]
    pub fn put(&mut self, value: u64, width: u32) {
        if width > 32 {
            self.put_short(value >> 32, width - 32);
            self.put_short(value & 0xFFFF_FFFF, 32);
        } else {
            self.put_short(value, width);
        }
    }

    #[inline]
    fn put_short(&mut self, value: u64, width: u32) {
        self.pending = self.pending << width | value & ((1 << width) - 1);
        self.count += width;
        while self.count >= 8 {
            self.count -= 8;
            self.bytes.push((self.pending >> self.count) as u8);
        }
    }

    /// A number of variable length: as many ones as steps are needed, a zero, then the value in `size` bits and `step`
    /// more for each one.
    pub fn put_number(&mut self, value: u64, size: u32, step: u32) {
        let needed = 64 - value.leading_zeros();
        let steps = needed.saturating_sub(size).div_ceil(step.max(1));
        self.put_ones(steps);
        self.put(value, (size + steps * step).min(64));
    }

    /// `count` ones and a zero.
    pub fn put_ones(&mut self, count: u32) {
        for _ in 0..count {
            self.put(1, 1);
        }
        self.put(0, 1);
    }

    /// Bits written since the last [`take`](Self::take).
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64 * 8 + u64::from(self.count)
    }

    /// Nothing was written since the last [`take`](Self::take).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was written: bytes, the last one filled up with zeros, and the number of bits.
    pub fn take(&mut self) -> (Vec<u8>, u64) {
        let bits = self.len();
        if self.count > 0 {
            self.bytes.push((self.pending << (8 - self.count)) as u8);
        }
        self.count = 0;
        (core::mem::take(&mut self.bytes), bits)
    }
}

/// Reads bits.
#[derive(Clone, Copy, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    at: u64,
    end: u64,
}

impl<'a> BitReader<'a> {
    /// The first `bits` bits of `bytes`.
    pub fn new(bytes: &'a [u8], bits: u64) -> Self {
        Self { bytes, at: 0, end: bits.min(bytes.len() as u64 * 8) }
    }

    /// Nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    /// The next `width` bits, 64 at most.
    #[inline]
    pub fn take(&mut self, width: u32) -> Result<u64, Damage> {
        if self.end - self.at < u64::from(width) {
            return Err(Damage::RecordsEnd);
        }
        let mut value = 0;
        let mut left = width;
        while left > 0 {
            let byte = self.bytes[(self.at / 8) as usize];
            let room = 8 - (self.at % 8) as u32;
            let now = left.min(room);
            let bits = byte >> (room - now) & (0xFF >> (8 - now));
            value = value << now | u64::from(bits);
            self.at += u64::from(now);
            left -= now;
        }
        Ok(value)
    }

    /// Ones up to a zero; more than `most` are an error.
    pub fn take_ones(&mut self, most: u32) -> Result<u32, Damage> {
        let mut count = 0;
        while self.take(1)? == 1 {
            count += 1;
            if count > most {
                return Err(Damage::Record("a number of more than 64 bits"));
            }
        }
        Ok(count)
    }

    /// What [`BitWriter::put_number`] wrote.
    pub fn take_number(&mut self, size: u32, step: u32) -> Result<u64, Damage> {
        let steps = self.take_ones(64)?;
        self.take((size + steps * step).min(64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut BitWriter)) -> String {
        let mut writer = BitWriter::default();
        write(&mut writer);
        let (bytes, bits) = writer.take();
        let mut reader = BitReader::new(&bytes, bits);
        (0..bits).map(|_| if reader.take(1).unwrap() == 1 { '1' } else { '0' }).collect()
    }

    #[test]
    fn numbers_of_variable_length_are_those_of_the_text() {
        for (value, size, step, expected) in [
            (1, 3, 2, "0001"),
            (5, 3, 2, "0101"),
            (7, 3, 2, "0111"),
            (8, 3, 2, "1001000"),
            (31, 3, 2, "1011111"),
            (32, 3, 2, "1100100000"),
            (128, 3, 2, "1110010000000"),
            (1000, 3, 2, "1111001111101000"),
            (8, 3, 1, "101000"),
            (31, 3, 1, "11011111"),
            (32, 3, 1, "1110100000"),
        ] {
            assert_eq!(text(|out| out.put_number(value, size, step)), expected, "V({value}; {size}, {step})");
        }
    }

    #[test]
    fn every_number_is_read_as_it_was_written() {
        let values = [0, 1, 7, 8, 255, 1 << 20, u64::from(u32::MAX), 1 << 40, u64::MAX];
        let mut writer = BitWriter::default();
        for (size, step) in [(1, 1), (3, 2), (2, 4), (12, 13)] {
            values.iter().for_each(|&value| writer.put_number(value, size, step));
        }
        values.iter().for_each(|&value| writer.put(value, 64));
        let (bytes, bits) = writer.take();
        let mut reader = BitReader::new(&bytes, bits);
        for (size, step) in [(1, 1), (3, 2), (2, 4), (12, 13)] {
            assert!(values.iter().all(|&value| reader.take_number(size, step) == Ok(value)));
        }
        assert!(values.iter().all(|&value| reader.take(64) == Ok(value)));
        assert!(reader.is_empty());
        assert_eq!(reader.take(1), Err(Damage::RecordsEnd));
    }
}
