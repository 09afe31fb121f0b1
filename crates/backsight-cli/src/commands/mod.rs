//! One file per command.

pub mod bench;
pub mod flow;
pub mod packets;
