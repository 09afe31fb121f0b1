//! Functions that were looked up before: execution comes to the same addresses again and again.

use backsight_core::{Address, AddressSpace};

use super::FunctionName;

/// Functions by address. Memory is bounded: one takes the slot of another that falls on it.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownFunctions<'i> {
    /// None at first, then a power of two.
    slots: Vec<Option<(AddressSpace, FunctionName<'i>)>>,
}

const SLOTS: usize = 1 << 12;

impl<'i> KnownFunctions<'i> {
    /// The function of an address; `look_up` finds those that are not known.
    #[inline]
    pub fn get(
        &mut self,
        space: AddressSpace,
        address: Address,
        look_up: impl FnOnce() -> FunctionName<'i>,
    ) -> FunctionName<'i> {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, None);
        }
        let slot = (address.0 >> 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
        let slot = &mut self.slots[slot as usize % SLOTS];
        match slot {
            Some((known, function)) if *known == space && function.address == address => *function,
            _ => slot.insert((space, look_up())).1,
        }
    }
}
