//! The address history that addresses are compressed against.
//!
//! A trace unit remembers the last three addresses that it sent, each with its instruction set flag. A new
//! address may be sent as one of them, or as its low bits with the rest taken from the newest. Decoder and
//! encoder both keep this state; every address pushes, speculation or not.

use backsight_core::Address;

use super::{AddressForm, AddressPacket, Is};

/// The last three addresses.
///
/// They stand in a ring, so that a new one needs no others to be moved: moving what was written just before is
/// slow.
#[derive(Clone, Copy, Debug)]
pub struct AddressHistory {
    ring: [(Address, Is); 4],
    newest: u8,
}

impl AddressHistory {
    /// What every Trace Info sets: three times address 0, IS0.
    pub const EMPTY: Self = Self { ring: [(Address(0), Is::Is0); 4], newest: 0 };

    /// The newest address.
    #[inline]
    pub const fn newest(&self) -> Address {
        self.entry(0).0
    }

    /// Makes an address the newest.
    #[inline]
    pub const fn push(&mut self, address: Address, is: Is) {
        self.newest = self.newest.wrapping_sub(1) & 3;
        self.ring[(self.newest & 3) as usize] = (address, is);
    }

    /// The entry that an exact match names: 0 is the newest, 2 the oldest. 3 is reserved in every packet.
    #[inline]
    pub const fn entry(&self, index: u8) -> (Address, Is) {
        self.ring[(self.newest.wrapping_add(index) & 3) as usize]
    }

    /// The newest address with its low `bits` replaced.
    #[inline]
    pub const fn merge(&self, low: u64, bits: u32) -> Address {
        Address(merge(self.newest().0, low, bits))
    }

    /// The shortest form of an address. `wide`: the processor is in AArch64 state, where a 32-bit address keeps the
    /// upper half of the newest one; in AArch32 state it has none.
    #[inline]
    pub fn compress(&self, address: Address, is: Is, wide: bool) -> AddressPacket {
        let form = match (0..3).find(|&index| self.entry(index) == (address, is)) {
            Some(index) => AddressForm::Exact(index),
            None => self.shortest(address, is, wide),
        };
        AddressPacket { address, is, form }
    }

    /// The shortest form that is no exact match.
    #[inline]
    fn shortest(&self, address: Address, is: Is, wide: bool) -> AddressForm {
        let differs = address.0 ^ self.newest().0;
        let (short1, short2) = short_bits(is);
        if differs >> short1 == 0 {
            AddressForm::Short1
        } else if differs >> short2 == 0 {
            AddressForm::Short2
        } else {
            self.long(address, wide)
        }
    }

    /// The shorter of the two long forms that can hold an address.
    #[inline]
    pub const fn long(&self, address: Address, wide: bool) -> AddressForm {
        let upper = if wide { self.newest().0 >> 32 } else { 0 };
        if address.0 >> 32 == upper { AddressForm::Long32 } else { AddressForm::Long64 }
    }

    /// Would this packet, read with this history, give the address that it holds?
    pub fn expresses(&self, packet: &AddressPacket, wide: bool) -> bool {
        let AddressPacket { address, is, form } = *packet;
        let aligned = address.0 & if matches!(is, Is::Is0) { 3 } else { 1 } == 0;
        let (short1, short2) = short_bits(is);
        let differs = address.0 ^ self.newest().0;
        match form {
            AddressForm::Exact(index) => index < 3 && self.entry(index) == (address, is),
            AddressForm::Short1 => aligned && differs >> short1 == 0,
            AddressForm::Short2 => aligned && differs >> short2 == 0,
            AddressForm::Long32 => aligned && matches!(self.long(address, wide), AddressForm::Long32),
            AddressForm::Long64 => aligned,
        }
    }
}

impl Default for AddressHistory {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for AddressHistory {
    fn eq(&self, other: &Self) -> bool {
        (0..3).all(|index| self.entry(index) == other.entry(index))
    }
}

impl Eq for AddressHistory {}

/// `value` with its low `bits` taken from `low`.
#[inline]
pub(super) const fn merge(value: u64, low: u64, bits: u32) -> u64 {
    if bits >= 64 { low } else { value >> bits << bits | low }
}

/// How many low bits the two short forms replace.
#[inline]
const fn short_bits(is: Is) -> (u32, u32) {
    match is {
        Is::Is0 => (9, 17),
        Is::Is1 => (8, 16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(addresses: [u64; 3]) -> AddressHistory {
        let mut history = AddressHistory::EMPTY;
        for address in addresses.into_iter().rev() {
            history.push(Address(address), Is::Is0);
        }
        history
    }

    #[test]
    fn an_address_takes_the_shortest_form_that_holds_it() {
        let history = history([0xFFFF_FFC0_0008_0000, 0x40_0000, 0x50_0000]);
        let form = |address, is, wide| history.compress(Address(address), is, wide).form;
        assert_eq!(form(0x50_0000, Is::Is0, true), AddressForm::Exact(2));
        assert_eq!(form(0x50_0000, Is::Is1, true), AddressForm::Long64, "the instruction set flag differs");
        assert_eq!(form(0xFFFF_FFC0_0008_01FC, Is::Is0, true), AddressForm::Short1);
        assert_eq!(form(0xFFFF_FFC0_0008_01FC, Is::Is1, true), AddressForm::Short2);
        assert_eq!(form(0xFFFF_FFC0_0009_FFFC, Is::Is0, true), AddressForm::Short2);
        assert_eq!(form(0xFFFF_FFC0_0009_FFFC, Is::Is1, true), AddressForm::Long32);
        assert_eq!(form(0xFFFF_FFC0_0010_0000, Is::Is0, true), AddressForm::Long32);
        assert_eq!(form(0x1234, Is::Is0, true), AddressForm::Long64);
        assert_eq!(form(0x1234, Is::Is0, false), AddressForm::Long32, "AArch32 has no upper half");
    }

    #[test]
    fn what_compress_chooses_is_always_expressible() {
        let mut random = backsight_testing::Random(1);
        let mut history = AddressHistory::EMPTY;
        for _ in 0..20_000 {
            let near = history.newest().0 ^ random.next() >> random.below(64);
            let is = if random.below(4) == 0 { Is::Is1 } else { Is::Is0 };
            let address = match random.below(4) {
                0 => history.entry(random.below(3) as u8).0.0,
                _ => near,
            } & if is == Is::Is0 { !3 } else { !1 };
            let wide = random.below(2) == 0;
            let packet = history.compress(Address(address), is, wide);
            assert!(history.expresses(&packet, wide), "{packet:?} after {history:?}");
            history.push(packet.address, packet.is);
        }
    }
}
