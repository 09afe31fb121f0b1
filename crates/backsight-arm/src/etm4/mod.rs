//! ETMv4 (4.0 to 4.6) and ETE (1.0 to 1.3) instruction trace.
//!
//! A trace unit writes down as little as it can: an atom for each branch, an address where the program image
//! does not give the target, and beside that context, time and cycle counts. [`Config`] says how the unit was
//! built and programmed, [`Packet`] is what it can say, [`Decoder`] turns its bytes into packets and [`Encoder`] packets
//! into bytes. [`ROWS`] is the header map that all of them go by.

mod atom_run;
mod config;
mod counted_run;
mod decode;
mod encode;
mod fast;
mod history;
mod opencsd;
mod packet;
mod state;
pub mod synthetic;
mod table;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod round_trips;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod worked;

pub use atom_run::{AtomRun, PacketSink, packets_of};
pub use backsight_simd::InstructionSet;
pub use config::*;
pub use counted_run::CountedRun;
pub use decode::{Decoder, DecoderState, Packets, find_async, packets};
pub use encode::{EncodeError, Encoder};
pub use fast::{PacketBatch, Tally};
pub use history::AddressHistory;
pub use opencsd::opencsd;
pub use packet::{
    AddressForm, AddressPacket, Atoms, Bad, ConditionalResult, Context, CycleCount, CycleCountFormat,
    Exception, Is, MAX_ATOMS, Packet, Q, Timestamp, TraceInfo,
};
pub use table::{Kind, MAX_PACKET, Part, ROWS, Row, When, lookup};
