//! What a packet may leave out, because both ends remember it.

use super::AddressHistory;

/// What packets change and need: the same in a trace unit and in a decoder of its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StreamState {
    pub history: AddressHistory,
    /// The last timestamp since the last Trace Info, else 0.
    pub timestamp: u64,
    /// The cycle count threshold of the last Trace Info.
    pub threshold: u32,
    /// SF of the last context packet: a 32-bit address keeps the upper half of the newest address.
    pub wide: bool,
}

impl StreamState {
    /// What a trace unit has at the beginning.
    pub const START: Self = Self { history: AddressHistory::EMPTY, timestamp: 0, threshold: 0, wide: false };
}
