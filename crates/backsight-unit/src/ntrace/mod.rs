//! The N-Trace unit: executed instructions of one hart become blocks, blocks become messages, messages bytes.

mod outcomes;
mod sender;
mod settings;
mod tracer;
mod unit;

pub use settings::{Settings, Timestamps};
pub use tracer::Tracer;
pub use unit::{Unit, UnitConfig, UnitError};
