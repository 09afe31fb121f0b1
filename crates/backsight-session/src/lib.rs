//! Programming a trace session: which registers of which components are written, in which order, so that what a user
//! wants is traced.
//!
//! A [`System`] says which components there are and how trace flows from one to the next; it is read from a small file
//! or from what Linux shows in `/sys/bus/coresight/devices`. A [`Request`] says what is to be traced. A [`Session`] is
//! the checked result: a sequence of register accesses that starts the trace, one that stops it, and, from what the
//! registers then hold, the metadata by which the capture is decoded.
//!
//! "Checked" means that the ID registers of every trace unit allow what is asked for, that trace can flow from every
//! unit to the one sink, and that a [`Target`], a model of the registers with their locks, claims and idle states, was
//! taken through both sequences without refusing any access.
//!
//! # What is where
//!
//! Programming CoreSight trace: `system` and `sysfs` (components and their connections), `request` (what is wanted),
//! `route` (from trace units to the sink), `unit/` (registers of ETMv4 and ETE, and of ETMv3 and PTM, as their ID registers
//! allow), `sequence` (the order of accesses), `target` (a model of the registers, which every sequence is taken through),
//! `output/` a file for each form.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
pub mod output;
mod register;
mod request;
mod route;
mod sequence;
mod session;
mod sysfs;
mod system;
mod target;
mod unit;

pub use error::Error;
pub use register::Register;
pub use request::{Data, Request, Timestamps};
pub use sequence::{Action, RegisterAccess};
pub use session::{Session, TracedUnit};
pub use system::{Component, Connection, Kind, System};
pub use target::{Refused, Target};
pub use unit::UnitConfig;
