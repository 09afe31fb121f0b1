//! Efficient Trace for RISC-V (E-Trace): parameters, and packets both ways.
//!
//! A te_inst packet is a string of bits, least significant first, whose top is cut off where it only repeats the
//! sign: a receiver extends it to any length. The first two bits give the format.
//!
//! ```text
//!  format 0  subformat 0: number of correctly predicted branches   subformat 1: index into the jump target cache
//!  format 1  branch map, with or without an address
//!  format 2  address
//!  format 3  subformat 0: start or resync   1: trap   2: context   3: support
//! ```

mod announced;
mod bits;
mod common;
mod config;
pub mod data;
mod decode;
mod decoder;
mod describe;
mod encode;
mod encoder;
mod fields;
mod message;
mod packet;
mod params;
mod resolve;
mod support;
pub mod tables;
mod word;

pub use announced::Announced;
pub use bits::{BitReader, BitWriter, Payload};
pub use config::{Config, ConfigError, set};
pub use decode::{BadPacket, MOST_COUNTED, PayloadDecoder, decode};
pub use decoder::Decoder;
pub use encode::{encode, encode_address};
pub use encoder::{EncodeError, Encoder};
pub use fields::{PacketLayout, Value};
pub use message::{BranchPacket, Content, Message, MessageSink};
pub use packet::*;
pub use params::{DataOptions, Dialect, ImplicitReturn, Options, Params, ParamsError};
pub use support::SupportLayout;
