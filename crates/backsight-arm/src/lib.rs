//! CoreSight frames and the Arm trace protocols, decoded and encoded.
//!
//! Each protocol is a module of the same shape: `config` says how the trace unit was built and programmed, `table` is
//! its header map, `packet` is what it can say (a file for each family of packets, with its layout, reader, writer and
//! description), `decode` turns bytes into packets, `encode` turns packets into bytes. The crate has no dependencies
//! beyond `backsight-core`, and needs no standard library.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod etm;
pub mod etm3;
pub mod etm4;
pub mod etm4_data;
pub mod frame;
pub mod itm;
pub mod ptm;
pub mod stm;
