//! From trace packets to executed instructions.
//!
//! A follower takes the packets of one source, reads the code they speak about, and says what was executed as
//! [`Event`]s. There is one follower per protocol. They share what is no matter of the protocol: a cache of the code that
//! they walked through before, the return stack, and the queue of what a processor did speculatively.

#![forbid(unsafe_code)]

mod beginning;
mod blocks;
mod describe;
mod describe_messages;
mod etm;
pub mod etm3;
pub mod etm4;
pub mod etrace;
mod event;
pub mod itm;
mod message;
pub mod ntrace;
pub mod opencsd;
mod opencsd_messages;
pub mod ptm;
mod return_stack;
mod sink;
mod speculation;
mod statistics;
pub mod stm;
mod walk;

pub use blocks::{CodeCache, PathId};
pub use event::*;
pub use message::*;
pub use sink::{Buffer, Sink};
pub use statistics::{Gaps, Statistics};
