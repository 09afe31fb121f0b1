//! The PTM trace unit.
//!
//! The unit watches one thread (or core) and writes an atom for each waypoint, the targets of indirect branches that its
//! return stack does not have, exceptions, context, time and cycles.
//!
//! | in the stream | in the trace |
//! |---|---|
//! | first instruction, or first after a break | A-sync where there was none, I-sync |
//! | direct branch, barrier | an atom; with branch broadcasting a branch packet, if it was taken |
//! | taken indirect branch | an atom if the return stack has its target, else a branch packet |
//! | `Trap` | a waypoint update if instructions were executed since the last waypoint, then a branch packet with the exception |
//! | instructions after a `Trap`, at EL0 | I-sync: exceptions are never taken to EL0, so the handler was not seen |
//! | `Gap`, or an instruction that does not follow from the one before | a waypoint update as before an exception, then I-sync |

mod unit;

pub use crate::etm::{Statistics, Timestamps};
use backsight_arm::ptm::Config;

/// How a unit is built and programmed.
pub type UnitConfig = crate::etm::UnitConfig<Config>;

/// A PTM.
pub type Unit = crate::etm::Unit<Config>;
