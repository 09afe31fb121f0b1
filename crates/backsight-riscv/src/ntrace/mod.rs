//! N-Trace: the RISC-V trace in Nexus messages.
//!
//! A message is a sequence of bytes, each with six bits of data and a two-bit marker (MSEO) that says where
//! fields and messages end:
//!
//! ```text
//!   7           2 1    0
//!  ┌─────────────┬──────┐   00 more of this field follows      01 the field ends here
//!  │ data        │ MSEO │   11 the message ends here (0xFF between messages: idle)
//!  └─────────────┴──────┘   10 reserved
//! ```
//!
//! TCODE comes first, then the number of the source where one is sent, then the fields of the message, then a
//! timestamp where one is sent. Fields of fixed size and the first of variable size after them are packed
//! without gaps; any other field of variable size begins at a byte. What is not sent of a field is zero.

mod codes;
mod config;
mod decode;
mod encode;
mod fields;
mod packet;
mod process;
mod resolve;
mod table;
#[cfg(test)]
mod testing;
mod window;

pub use codes::{MOST_RETURNS, Mode, event, in_circuit, lost, sync};
pub use config::{Config, Dialect, MOST_SOURCE_BITS};
pub use decode::{Decoder, messages};
pub use encode::{Encoder, encode};
pub use fields::{INSTRUCTION_COUNT_BITS, REPETITION_BITS};
pub use packet::{Bad, BranchKind, History, Message, Packet, Resource};
pub use process::{Process, ProcessContext};
pub use table::{Kind, Part, RESOURCES, ROWS, Row};
