//! PTM: Program Flow Trace, PFTv1.0 and PFTv1.1.
//!
//! The trace unit of Cortex-A9, A12, A15 and A17. It reports *waypoints*: an atom for each branch and barrier that was
//! passed, an address where the code does not give the target, and context, time and cycle counts beside that.
//! [`Config`] says how the unit was built and programmed, [`Packet`] is what it can say, [`Decoder`] turns its bytes into
//! packets and [`Encoder`] packets into bytes. [`ROWS`] is the header map that all of them go by.

mod config;
mod cycles;
mod decode;
mod encode;
mod opencsd;
mod packet;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use crate::etm::{Bad, EncodeError, OptionError, Profile, Reason, Registers, State, packets};
pub use config::Config;
pub use decode::Decoder;
pub use encode::Encoder;
pub use opencsd::opencsd;
pub use packet::{Atoms, Branch, ISync, Information, Packet, Timestamp, WaypointUpdate};
pub use table::{Kind, ROWS, Row, lookup};

crate::etm::configuration!(Config, Packet, decode::Reader, ());
