//! CoreSight frames and the Arm trace protocols, decoded and encoded.
//!
//! Each protocol is a module of the same shape: `config` says how the trace unit was built and programmed, `table` is
//! its header map, `packet` is what it can say (a file for each family of packets, with its layout, reader, writer and
//! description), `decode` turns bytes into packets, `encode` turns packets into bytes. The crate has no dependencies
//! beyond `backsight-core`, and needs no standard library.
//!
//! # What is where
//!
//! `frame/` CoreSight frames (`ids`: whom they name, without taking them apart); `etm4/` ETMv4 and ETE: `config/` (how the
//! unit was built and programmed), `table/` (one row per header: dispatch, header bytes, layout, names), `packet/` (a file
//! for each family: layout, reader, writer and description side by side), `decode/` (the clear reader), `fast/` (the engine
//! that reads common packets into arrays of headers and values, equal to the clear reader by law: `headers` what a header
//! says, `lanes/` where packets would end, in registers or in passes over arrays, `forms` how values are made, `engine` the
//! loop), `encode/`; `ptm/` and `etm3/` likewise but for the fast engine, on `etm/`, what these two share: their shell, registers,
//! A-sync, compressed addresses, timestamps; `etm4_data/` the headers of ETMv4 data trace; `itm/` ITM and DWT; `stm/`
//! STPv2; `sync` where a stream can be begun in its middle. `no_std`.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod etm;
pub mod etm3;
pub mod etm4;
pub mod etm4_data;
pub mod frame;
pub mod itm;
pub mod ptm;
pub mod stm;
mod sync;
