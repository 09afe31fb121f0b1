//! ITM: what software writes to stimulus ports, and what the DWT of a Cortex-M notices.
//!
//! Every packet is a header and up to six bytes. The header says how many:
//!
//! ```text
//!   AAAAA0SS  stimulus port A, S = 1, 2, 3: one, two or four bytes     11TT0000  local timestamp, 1 to 4 bytes
//!   DDDDD1SS  the DWT, what D says, likewise                           0ttt0000  local timestamp of t ticks, 1 to 6
//!   01110000  overflow: packets were lost                              10010100  global timestamp, the low 26 bits
//!   CDDD1S00  extension: S = 0, C = 0: stimulus ports of page D        10110100  global timestamp, the high bits
//!   00000000  five times or more, then 10000000: synchronisation
//! ```
//!
//! Values are sent low byte first; those of timestamps seven bits at a time, bit 7 for more. Timestamps follow what they
//! date.

mod decode;
mod encode;
mod packet;
#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub use encode::Encoder;
pub use packet::{Bad, Packet};

/// How a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The source sends synchronisation packets: decoding begins at one, and goes on at one after damage. If not,
    /// decoding begins at once, and goes on at the next byte.
    pub synchronises: bool,
    /// Ticks that one tick of a local timestamp stands for.
    pub prescale: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { synchronises: true, prescale: 1 }
    }
}

impl Config {
    /// The same with what ITM_TCR says: the prescaler counts where the trace port clocks timestamps.
    #[must_use]
    pub const fn with_control(self, control: u32) -> Self {
        let by_port = control >> 4 & 1 == 1;
        let prescale = if by_port { 1 << (2 * (control >> 8 & 3)) } else { 1 };
        Self { prescale, ..self }
    }
}
