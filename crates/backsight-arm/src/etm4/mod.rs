//! ETMv4 (4.0 to 4.6) and ETE (1.0 to 1.3) instruction trace.
//!
//! A trace unit writes down as little as it can: an atom for each branch, an address where the program image
//! does not tell the target, and beside that context, time and cycle counts. [`Config`] says how the unit was
//! built and programmed, [`Packet`] is what it can say, [`Decoder`] turns its bytes into packets and [`Encoder`] packets
//! into bytes.

mod atoms;
mod config;
mod decode;
mod encode;
mod history;
mod name;
mod packet;
#[cfg(test)]
mod round_trips;
pub mod synthetic;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod worked;

pub use atoms::MAX_ATOMS;
pub use config::*;
pub use decode::{Batch, Decoder, MAX_PACKET, Packets, Tally, packets};
pub use encode::{EncodeError, Encoder};
pub use history::AddressHistory;
pub use packet::*;
pub use table::{Kind, Payload, ROWS, Row, When, lookup};
