//! Efficient Trace for RISC-V (E-Trace): parameters, and packets both ways.
//!
//! [`ROWS`] is the table of formats. A te_inst packet is a string of bits, least significant first, whose top is cut off where it only repeats the
//! sign: a receiver extends it to any length. The first two bits give the format.
//!
//! ```text
//!  format 0  subformat 0: number of correctly predicted branches   subformat 1: index into the jump target cache
//!  format 1  branch map, with or without an address
//!  format 2  address
//!  format 3  subformat 0: start or resync   1: trap   2: context   3: support
//! ```

mod announced;
mod bad;
mod bits;
mod coding;
mod common;
mod config;
pub mod data;
mod decode;
mod decoder;
mod describe;
mod encode;
mod encoder;
mod message;
mod packet;
mod params;
mod resolve;
pub mod tables;
mod word;

pub use announced::Announced;
pub use bad::BadPacket;
pub use bits::{BitReader, BitWriter, Payload};
pub(crate) use coding::{FieldReader, FieldWriter};
pub use config::{Config, ConfigError, set};
pub use decode::{PayloadDecoder, decode};
pub use decoder::Decoder;
pub use encode::{encode, encode_address};
pub use encoder::{EncodeError, Encoder};
pub use message::{BranchPacket, Content, Message, MessageSink};
pub(crate) use packet::read_format3;
pub use packet::{
    BranchMap, ContextPacket, CountEnd, Disclosed, Kind, MOST_COUNTED, Packet, PacketLayout, QualStatus,
    ROWS, Reported, Row, Start, Support, SupportLayout, TrapPacket,
};
pub use params::{DataOptions, Dialect, ImplicitReturn, Options, Params, ParamsError};
