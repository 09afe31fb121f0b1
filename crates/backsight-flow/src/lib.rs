//! From trace packets to executed instructions.
//!
//! A follower takes the packets of one source, reads the code they speak about, and says what was executed as
//! [`Event`]s. There is one follower per protocol. They share what is no matter of the protocol: a cache of the code that
//! they walked through before, the return stack, and the queue of what a processor did speculatively.
//!
//! # What is where
//!
//! Packets + image → execution: one follower per protocol, all on one cache of decoded code and of the paths that were
//! walked through it (`blocks/`; of ETMv4 they are found by where they begin, so that a processor can look for the next
//! before it is through with one), one `return_stack` and one kind of `sink` that may say "enough for now" and may take
//! remembered paths by name; `speculation`; the `Event` vocabulary, described once, and OpenCSD's words for it; `itm`,
//! `stm` packets to messages and time; `tarmac` lines of a log to execution; `etm4/data_match` data transfers to their instructions.

#![forbid(unsafe_code)]

mod beginning;
mod blocks;
mod describe;
mod describe_messages;
pub mod etm;
pub mod etm3;
pub mod etm4;
pub mod etrace;
mod event;
mod follow;
pub mod itm;
mod message;
pub mod ntrace;
mod numbers;
pub mod opencsd;
mod opencsd_messages;
mod path_ranges;
pub mod ptm;
mod return_stack;
mod sink;
mod speculation;
mod statistics;
pub mod stm;
pub mod tarmac;
mod walk;

pub use blocks::{CodeCache, PathId};
pub use event::*;
pub use follow::{Follow, FollowHart};
pub use message::*;
pub use numbers::{ByPath, RangeNumbers};
pub use path_ranges::{CountedRanges, PathRanges};
pub use sink::{Buffer, Sink};
pub use statistics::{Gaps, Statistics};
