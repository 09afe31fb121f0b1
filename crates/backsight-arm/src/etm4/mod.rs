//! ETMv4 (4.0 to 4.6) and ETE (1.0 to 1.3) instruction trace.

mod config;
mod packet;

pub use config::*;
pub use packet::*;
