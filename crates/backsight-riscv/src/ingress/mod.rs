//! The interface between hart and trace encoder, and ways to it.
//!
//! A hart reports *blocks*: instructions that retired one after the other, of which only the last may change the
//! flow. [`Block`] is one block with everything the specification's signals say about it. [`Builder`] makes blocks
//! from a stream of executed instructions, [`connector`] from the commit ports of a core; [`csv`] reads the reference
//! flow's files, [`LogReader`] commit logs. [`DataRecord`] is one access to memory or a CSR.

mod block;
mod builder;
pub mod connector;
pub mod csv;
mod data;
mod known_code;
mod log;

pub use block::{Block, Ctype, Itype};
pub use builder::{Builder, Continuation, Ingress, Port};
pub use data::{DataAccess, DataRecord, Dtype};
pub use log::{LogError, LogReader};
