//! From trace packets to executed instructions.
//!
//! A follower takes the packets of one source, reads the code they speak about, and says what was executed as
//! [`Event`]s. There is one follower per protocol; the parts they share are here: the walk through code
//! ([`walk`]), the blocks it remembers ([`blocks`]), the [`return_stack`] and the queue of [`speculation`].

#![forbid(unsafe_code)]

pub mod blocks;
mod display;
pub mod etm4;
pub mod etrace;
mod event;
pub mod ntrace;
pub mod opencsd;
pub mod return_stack;
pub mod speculation;
mod statistics;
pub mod walk;

pub use event::*;
pub use statistics::{Gaps, Statistics};
