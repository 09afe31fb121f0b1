//! What the units of ETMv3 and PTM share: they follow execution, know where branches and exceptions led, and write
//! synchronisation, context and time. Atoms, branches and data are written by each in its own way.

mod observer;
mod output;
mod unit;

pub use observer::Timestamps;
pub(crate) use observer::{Location, Pending};
pub(crate) use output::{exception_number, state_of};
pub(crate) use unit::Writer;
pub use unit::{Protocol, Unit, UnitConfig};

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
