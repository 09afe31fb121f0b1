//! Efficient Trace for RISC-V (E-Trace): parameters, packets both ways, the encoder.
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

mod bits;
mod buffer;
mod config;
pub mod data;
mod decode;
mod decoder;
mod encode;
mod encoder;
mod fields;
mod message;
mod packet;
mod params;
mod quick;
mod seed;
mod short;
mod support;
pub mod tables;

pub use bits::{BitReader, BitWriter, Payload};
pub use buffer::{BufferedEncoder, Fifo, Losses};
pub use config::{Config, ConfigError, set};
pub use decode::{BadPacket, PayloadDecoder, decode};
pub use decoder::Decoder;
pub use encode::encode;
pub use encoder::{
    Algorithm, Encoder, EncoderError, EncoderPort, Payloads, Resync, ResyncMode, Settings, Sink,
};
pub use fields::Value;
pub use message::{Content, Message};
pub use packet::*;
pub use params::{DataOptions, Dialect, ImplicitReturn, Options, Params, ParamsError};
pub use seed::{Fidelity, SeedEncoder, SeedSettings};
pub use support::SupportLayout;
