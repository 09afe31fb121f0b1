//! ETMv3.0 to ETMv3.5, instruction and data trace.
//!
//! The trace unit of ARM11, Cortex-A5, A7, A8, R4, R5, M3 and M4. It has an atom for every instruction, an address where
//! the code does not give the target of a branch, and packets for the transfers of loads and stores. [`Config`] says how
//! the unit was built and programmed, [`Packet`] is what it can say, [`Decoder`] turns its bytes into packets and
//! [`Encoder`] packets into bytes. [`ROWS`] is the header map that all of them go by.

mod config;
mod data;
mod decode;
mod encode;
mod opencsd;
mod p_header;
mod packet;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use crate::etm::{Bad, EncodeError, OptionError, Profile, Reason, Registers, State, packets};
pub use config::Config;
pub use data::{DataAddress, DataValue};
pub use decode::{Decoded, Decoder};
pub use encode::Encoder;
pub use opencsd::opencsd;
pub use p_header::{CycleMarks, PHeader, PHeaders};
pub use packet::{Branch, EarlyException, ISync, Information, NextInstruction, Packet, Timestamp};
pub use table::{Kind, ROWS, Row, lookup};

crate::etm::configuration!(Config, Packet, decode::Reader, data::DataBase);
