//! What the units of ETMv3 and PTM share: following execution, and knowing where branches and exceptions led.

mod observer;
mod output;

pub use observer::Timestamps;
pub(crate) use observer::{Clock, Location, Observed, Observer, Pending};
pub(crate) use output::{Identifiers, exception_number, state_of};

/// What became of the instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All that retired.
    pub instructions: u64,
    /// Memory accesses that were traced.
    pub accesses: u64,
    /// How often decoders can begin.
    pub synchronisations: u64,
}
