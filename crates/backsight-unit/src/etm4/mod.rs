//! The ETMv4/ETE trace unit.

mod atoms;
mod breaks;
mod classify;
mod controls;
mod elements;
mod options;
mod packer;
mod port;
mod speculation;
mod stack;
mod unit;
mod view;

pub use controls::Controls;
pub use options::{Timestamps, UnitConfig, UnitError};
pub use port::Fifo;
pub use speculation::FrontEnd;
pub use unit::{Statistics, Unit};
