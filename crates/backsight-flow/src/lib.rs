//! From trace packets to executed instructions.

#![forbid(unsafe_code)]

mod event;

pub use event::*;
