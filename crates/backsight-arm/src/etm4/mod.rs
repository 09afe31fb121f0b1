//! ETMv4 (4.0 to 4.6) and ETE (1.0 to 1.3) instruction trace.

mod packet;

pub use packet::*;
