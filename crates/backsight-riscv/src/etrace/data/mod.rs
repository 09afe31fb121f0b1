//! Data trace: te_data packets both ways.
//!
//! One packet reports one access: what it does, how many bytes it concerns, where, and what was read or written.
//! Addresses and data may be sent as the difference to the latest access of the same size, so encoder and decoder
//! keep the same memory of it, and begin again at every sync packet of instruction trace.
//!
//! ```text
//!  format 0, 1  load, aligned or not      4  data of a split load      6  atomic
//!  format 2, 3  store, aligned or not     5  CSR                       7  data of a split atomic
//! ```
//!
//! The draft Multi-Memory-Access/CAS extension has formats of its own: 0 load or store, 1 the same as one of several
//! accesses, 2 atomic or CSR, 3 data of a split access. Where the tables of the specification leave a width open,
//! [`Layout`] says how they are read here.

mod decode;
mod encode;
mod fields;
mod layout;
mod packet;
mod state;
#[cfg(test)]
mod tests;
mod traced;

pub use decode::BadData;
pub use layout::Layout;
pub use packet::{AccessPacket, Coding, DataCoding, Packet, ResponsePacket};
pub use state::{Decoder, Encoder};
pub use traced::Traced;
