//! What the units of RISC-V protocols have in common.
//!
//! ```text
//!  execution ──► port ──► filter ──► tracer ──► packets
//!                blocks   what is    which packets
//!                         traced     a decoder needs
//! ```
//!
//! A [`BlockTracer`] of a protocol decides about packets; [`filter`] says what it sees; [`retire`] models harts that
//! retire several instructions in one cycle.

pub mod filter;
mod port;
mod resync;
pub mod retire;
mod tracer;

pub(crate) use port::Port;
pub use resync::{Resync, ResyncMode};
pub use tracer::BlockTracer;
pub(crate) use tracer::block_tracer;
