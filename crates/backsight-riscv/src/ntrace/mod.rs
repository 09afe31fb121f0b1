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
//! timestamp where one is sent. Fields of fixed size and the first of variable size behind them are packed
//! without gaps; any other field of variable size begins at a byte. What is not sent of a field is zero.

mod decode;
mod encode;
mod encoder;
mod message;
mod outcomes;
mod process;
mod sender;
mod settings;

pub use decode::{Decoder, messages};
pub use encode::encode;
pub use encoder::Encoder;
pub use message::*;
pub use process::{Process, ProcessContext};
pub use settings::{MOST_RETURNS, Mode, Settings, Timestamps, event, lost, sync};
