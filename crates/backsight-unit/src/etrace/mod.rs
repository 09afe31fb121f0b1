//! The E-Trace unit.
//!
//! Executed instructions of one hart become blocks, as the core hands them to its trace encoder; the [`Tracer`] makes
//! packets of blocks; packets are framed for the transport. Where the cycles of the hart matter, blocks come through
//! its commit ports, several in one cycle. A buffer of limited size may stand between tracer and transport.

mod buffer;
mod tracer;
mod transport;
mod unit;

pub use buffer::{BufferedTracer, Fifo, Losses};
pub use tracer::{Algorithm, Payloads, Settings, Sink, Tracer, TracerPort, UnitError};
pub use unit::{Unit, UnitConfig};
