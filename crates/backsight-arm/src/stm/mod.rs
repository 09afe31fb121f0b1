//! STM: what software writes to the channels of a system trace, in the packets of MIPI STPv2.
//!
//! The stream is one of nibbles, the low one of each byte first, and packets begin at any of them. An opcode of one, two
//! or three nibbles is followed by data, and a timestamp by a nibble that says how many of its nibbles changed:
//!
//! ```text
//!   6 0000002A               D32: 42 on the current channel         1 41     M8: master 0x41, channel 0
//!   F6 0000002A 3 1F0        D32TS: the same with a time            3 05     C8: channel 5
//!   FA 0000002A              D32M: the same with a mark             FE       FLAG: a mark alone
//!   F×21 0                   ASYNC: from here on it can be read     F00 3    VERSION: timestamps in binary
//! ```
//!
//! Fields are sent with their highest nibble first, unless the version says otherwise.

mod common;
mod decode;
mod encode;
mod packet;
mod table;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, PacketSink};
pub use encode::Encoder;
pub use packet::{Bad, Content, Packet, SentTime, TimeCoding};
