//! Timestamps: 7-bit groups, lowest first, in binary or Gray code.
//!
//! Groups that are not sent are those of the timestamp before. A counter of 48 bits has at most seven bytes, the last of
//! six bits; one of 64 bits at most nine, the last of eight. In Gray code the groups replace those of the code, and the
//! whole is converted.

use super::{EncodeError, PacketWriter, PayloadReader, Stop};

/// How the unit codes timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimestampCode {
    /// 64 bits; else 48.
    pub is_wide: bool,
    /// Gray code; else binary.
    pub is_gray: bool,
}

impl TimestampCode {
    const fn most_bytes(self) -> u8 {
        if self.is_wide { 9 } else { 7 }
    }

    /// Bits in so many bytes.
    const fn bits(self, bytes: u8) -> u32 {
        match (bytes, self.is_wide) {
            (9.., true) => 64,
            (7.., false) => 48,
            (bytes, _) => 7 * bytes as u32,
        }
    }

    const fn sent(self, value: u64) -> u64 {
        if self.is_gray { value ^ value >> 1 } else { value }
    }

    const fn value(self, sent: u64) -> u64 {
        let mut value = sent;
        if self.is_gray {
            let mut distance = 1;
            while distance < 64 {
                value ^= value >> distance;
                distance *= 2;
            }
        }
        value
    }
}

/// The last timestamp, as it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimestampState(u64);

impl TimestampState {
    /// Reads a timestamp: its value, how many bytes it has, and the state after it.
    pub fn read(self, payload: &mut PayloadReader<'_>, code: TimestampCode) -> Result<(u64, u8, Self), Stop> {
        let (mut sent, mut bytes) = (0, 0);
        loop {
            let byte = payload.byte()?;
            bytes += 1;
            let is_full = bytes == code.most_bytes();
            let bits = code.bits(bytes) - if bytes == 1 { 0 } else { code.bits(bytes - 1) };
            sent |=
                (u64::from(byte) & ((1 << bits) - 1)) << if bytes == 1 { 0 } else { code.bits(bytes - 1) };
            if is_full || byte & 0x80 == 0 {
                break;
            }
        }
        let state = self.merged(sent, bytes, code);
        Ok((code.value(state.0), bytes, state))
    }

    /// Writes a timestamp in so many bytes; gives the state after it.
    pub fn write(
        self,
        value: u64,
        bytes: u8,
        code: TimestampCode,
        out: &mut PacketWriter,
    ) -> Result<Self, EncodeError> {
        let sent = code.sent(value);
        let after = self.merged(sent, bytes, code);
        if !(1..=code.most_bytes()).contains(&bytes) || after.0 != sent {
            return Err(EncodeError::OutOfRange);
        }
        for index in 1..=bytes {
            let low = if index == 1 { 0 } else { code.bits(index - 1) };
            let bits = code.bits(index) - low;
            let part = (sent >> low & ((1 << bits) - 1)) as u8;
            out.byte(if index < bytes { part | 0x80 } else { part });
        }
        Ok(after)
    }

    /// Fewest bytes that a timestamp can be sent in.
    pub fn fewest(self, value: u64, code: TimestampCode) -> u8 {
        let differs = u64::BITS - (code.sent(value) ^ self.0).leading_zeros();
        (1..code.most_bytes()).find(|&bytes| code.bits(bytes) >= differs).unwrap_or(code.most_bytes())
    }

    /// All bytes that there can be.
    pub const fn full(code: TimestampCode) -> u8 {
        code.most_bytes()
    }

    const fn merged(self, sent: u64, bytes: u8, code: TimestampCode) -> Self {
        match code.bits(bytes) {
            64 => Self(sent),
            bits => {
                let mask = (1 << bits) - 1;
                Self(self.0 & !mask | sent & mask)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gray_code_and_binary_read_back() {
        for is_gray in [false, true] {
            for is_wide in [false, true] {
                let code = TimestampCode { is_wide, is_gray };
                let mut state = TimestampState::default();
                let mut reading = TimestampState::default();
                for value in [0, 1, 2, 3, 0x7F, 0x80, 0xFFFF_FFFF_FFFF, 0x1234_5678, 5] {
                    let mut out = PacketWriter::new();
                    let bytes = state.fewest(value, code);
                    state = state.write(value, bytes, code, &mut out).unwrap();
                    let read = reading.read(&mut PayloadReader::new(out.bytes(), 0), code).unwrap();
                    assert_eq!((read.0, read.1), (value, bytes));
                    reading = read.2;
                }
            }
        }
    }

    #[test]
    fn a_real_timestamp_is_read() {
        let bytes = [0xCC, 0x97, 0xC6, 0xCE, 0xAF, 0x90, 0x80, 0x80, 0x00];
        let code = TimestampCode { is_wide: true, is_gray: false };
        let read = TimestampState::default().read(&mut PayloadReader::new(&bytes, 0), code).unwrap();
        assert_eq!((read.0, read.1), (0x82_F9D1_8BCC, 9));
    }

    #[test]
    fn a_counter_of_48_bits_cannot_send_more() {
        let code = TimestampCode { is_wide: false, is_gray: true };
        let state = TimestampState::default();
        assert_eq!(state.write(1 << 48, 7, code, &mut PacketWriter::new()), Err(EncodeError::OutOfRange));
    }
}
