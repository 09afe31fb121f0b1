//! Listings: what is shown of packets and of execution, in each format.
//!
//! Packets and events give their fields once ([`backsight_core::Describe`]); text and JSON are written from those,
//! whatever the protocol.

mod branches;
mod call_lines;
mod counted;
mod digits;
mod event_line;
mod execution;
mod filter;
mod instruction_text;
mod instructions;
mod json;
mod label;
mod message_lines;
mod packet;
mod range_text;
mod stay_line;
mod style;
mod tarmac;
mod thread_calls;
mod truth;
mod visible;
mod write;

pub use backsight_core::Printable;
pub use branches::{BranchWriter, EventNames};
pub use counted::counted;
pub use event_line::write_address;
pub use execution::{ExecutionWriter, ListedCounts};
pub use filter::{Filter, FilterOptions, Remembered};
pub use instructions::{RangeInstruction, steps};
pub use message_lines::{MessageFormat, MessageWriter};
pub use packet::{PacketFormat, PacketWriter};
pub use style::{Detail, ExecutionFormat, Style};
pub use thread_calls::ThreadCalls;
pub use truth::{TruthSettings, TruthWriter};
pub use visible::{Escape, Visible, first_lines};
pub use write::{Make, Put};
