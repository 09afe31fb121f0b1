//! The fast engine: common packets, in blocks.
//!
//! Its law: **it gives what the clear reader gives** ([`super::decode::ClearReader`]), packet by packet, for any bytes in
//! any configuration. It knows nothing that the header map does not say, and stops at anything uncommon or wrong, which
//! the clear reader then takes.
//!
//! Reading packet after packet is slow because each step waits for the one before: what is this header, how long is
//! the packet, where does the next one begin? The engine takes the waiting out. For every byte of a region it is worked
//! out beforehand, by vector instructions, how far it is to the next packet that has a value, and past it ([`lanes`]); the
//! headers in between are copied, sixteen at a time. Addresses, cycle counts and timestamps of all forms are read by
//! the same arithmetic, without branches that depend on the data ([`forms`]). What comes out are arrays: the headers of all
//! packets, and the values of those that have one ([`batch`]).

mod batch;
mod engine;
mod forms;
mod headers;
mod lanes;
mod sevens;
mod tally;
#[cfg(test)]
mod tests;

pub use batch::PacketBatch;
pub(super) use engine::FastEngine;
pub use tally::Tally;
