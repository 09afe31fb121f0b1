//! Hardware trace in, executed instructions out.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod decode;
pub mod listing;
pub mod protocol;

mod capture;
mod code;
mod error;
mod open;
mod save;
mod settings;
mod source;
mod sources;
mod wrapped;

pub use capture::{Buffer, Capture};
pub use code::Code;
pub use decode::{Decode, Item, Session, Summary};
pub use error::{Error, Result};
pub use open::{OpenOptions, framings};
pub use protocol::Packet;
pub use source::Source;

pub use backsight_arm::etm4;
pub use backsight_arm::frame;
pub use backsight_capture as description;
pub use backsight_core as core;
pub use backsight_flow as flow;
pub use backsight_flow::Event;
pub use backsight_image as image;
pub use backsight_isa as isa;
pub use backsight_riscv as riscv;
