//! Listings: what is shown of packets and of execution, in each format.

mod etm4;
mod event;
mod execution;
mod filter;
mod instruction_text;
mod instructions;
mod packet;
mod printable;
mod riscv;

pub use execution::{BranchWriter, EventNames, ExecutionFormat, ExecutionWriter, Style, write_address};
pub use filter::{Filter, FilterOptions};
pub use packet::{Listed, PacketFormat, write as write_packet};
pub use printable::Printable;
