//! The fast engine: common packets, in blocks.
//!
//! Its law: **it gives what the clear reader gives** ([`super::decode::ClearReader`]), packet by packet, for any bytes in
//! any configuration. It knows nothing that the header map does not say, and stops at anything uncommon or wrong, which
//! the clear reader then takes.
//!
//! Reading packet after packet is slow because each step waits for the one before: what is this header, how long is
//! the packet, where does the next one begin? The engine takes the waiting out. The lengths of all packets that
//! may begin in a block are worked out beforehand ([`lengths`]); addresses of all forms ([`shapes`]), cycle counts of all
//! formats and timestamps of all lengths are each read by the same arithmetic, without branches that depend on the
//! data; and where headers alone make up most of the stream, up to eight of them are taken at a time.

mod batch;
mod engine;
mod headers;
mod lengths;
mod output;
mod sevens;
mod shapes;
mod tally;
#[cfg(test)]
mod tests;

pub use batch::PacketBatch;
pub(super) use engine::FastEngine;
pub use tally::Tally;
