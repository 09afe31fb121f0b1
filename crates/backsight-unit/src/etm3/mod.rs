//! The ETMv3 trace unit.
//!
//! The unit watches one thread (or core) and writes an atom for each instruction, the targets of branches that the code
//! does not give, exceptions, the addresses and values of loads and stores, context, time and cycles.
//!
//! | in the stream | in the trace |
//! |---|---|
//! | first instruction, or first after a break | A-sync where there was none, I-sync |
//! | instruction | an atom, E where its condition passed |
//! | taken indirect branch, BLX (immediate) | a branch packet; with branch broadcasting for every taken branch |
//! | `Access` | a data packet for each word of it; its address where it does not follow from the one before |
//! | `Trap` | a branch packet with the exception |
//! | instructions after a `Trap`, at EL0 | I-sync: exceptions are never taken to EL0, so the handler was not seen |
//! | `Gap`, or an instruction that does not follow from the one before | I-sync |

mod atoms;
mod unit;

pub use crate::etm::{Statistics, Timestamps};
use backsight_arm::etm3::Config;

/// How a unit is built and programmed.
pub type UnitConfig = crate::etm::UnitConfig<Config>;

/// An ETMv3.
pub type Unit = crate::etm::Unit<Config>;
