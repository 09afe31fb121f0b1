//! One file per command.

pub mod bench;
pub mod compress;
pub mod convert;
pub mod decompress;
pub mod encode;
pub mod flow;
pub mod info;
pub mod lab;
pub mod packets;
pub mod record;
