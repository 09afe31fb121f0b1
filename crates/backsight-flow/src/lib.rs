//! From trace packets to executed instructions.

#![forbid(unsafe_code)]

mod event;
pub mod ntrace;

pub use event::*;
