//! Which form to write a value in: what a trace unit decides before it has a packet.

use backsight_core::Address;

use super::super::{AddressPacket, CycleCount, CycleCountFormat, Is, Timestamp};
use super::Encoder;

impl Encoder {
    /// The shortest form of an address, for an Address or Source Address packet.
    #[inline]
    pub fn compress(&self, address: Address, is: Is) -> AddressPacket {
        self.history.compress(address, is, self.wide)
    }

    /// The shorter of the two long forms, for an Address with Context packet: it has no others.
    #[inline]
    pub fn compress_long(&self, address: Address, is: Is) -> AddressPacket {
        AddressPacket { address, is, form: self.history.long(address, self.wide) }
    }

    /// The shortest timestamp that keeps what the one before has in common with it.
    #[inline]
    pub const fn timestamp(&self, value: u64, cycles: Option<u32>) -> Timestamp {
        let differs = u64::BITS - (value ^ self.timestamp).leading_zeros();
        let bytes = match differs {
            0 => 1,
            57.. => 9,
            bits => bits.div_ceil(7) as u8,
        };
        Timestamp { value, bytes, cycles }
    }

    /// The shortest cycle count. In commit mode 1 `commit` is left out; `None` means that the count is not known.
    /// `None` comes back for fewer cycles than the threshold: such a count is not sent.
    #[inline]
    pub fn cycle_count(&self, commit: u32, cycles: Option<u32>) -> Option<CycleCount> {
        let mode1 = self.config.commit_mode1();
        let commit = if mode1 { 0 } else { commit };
        let unknown = CycleCount { format: CycleCountFormat::F1, commit, cycles };
        let Some(cycles) = cycles else { return Some(unknown) };
        let above = cycles.checked_sub(self.threshold)?;
        let below_maximum = self.config.max_speculation().checked_sub(commit);
        let format = match (above, commit) {
            (0..=3, _) if mode1 => CycleCountFormat::F3,
            (0..=15, _) if mode1 => CycleCountFormat::F2,
            (0..=3, 1..=4) => CycleCountFormat::F3,
            (0..=15, 1..=16) => CycleCountFormat::F2,
            (0..=15, _) if below_maximum.is_some_and(|below| below <= 15) => CycleCountFormat::F2FromMaximum,
            _ => CycleCountFormat::F1,
        };
        Some(CycleCount { format, commit, cycles: Some(cycles) })
    }
}
