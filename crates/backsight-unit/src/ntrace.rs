//! The N-Trace unit: executed instructions of one hart become blocks, blocks become messages, messages bytes.

use std::fmt;

use backsight_core::Execution;
use backsight_riscv::filter::{Filter, Filtered};
use backsight_riscv::ingress::Ctype;
use backsight_riscv::ntrace::{Config, Encoder, MOST_SOURCE_BITS, Packet, Settings, encode};
use backsight_riscv::retire::{Figures, Retirement};

use crate::port::Port;

/// How a unit is built and programmed.
#[derive(Clone, Copy, Debug)]
pub struct UnitConfig {
    /// How messages are laid out: what a decoder must know.
    pub config: Config,
    /// What is sent.
    pub settings: Settings,
    /// What is traced; without a filter, everything.
    pub filter: Option<Filter>,
    /// How changes of context are told.
    pub context: Ctype,
    /// How the hart retires, if its cycles are to be counted.
    pub retirement: Option<Retirement>,
}

impl Default for UnitConfig {
    fn default() -> Self {
        let (config, settings) = (Config::default(), Settings::default());
        Self { config, settings, filter: None, context: Ctype::Precise, retirement: None }
    }
}

/// A number of the source that its field cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceTooLarge {
    /// The number.
    pub source: u16,
    /// Bits of the field.
    pub bits: u8,
}

impl fmt::Display for SourceTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {} does not fit {} bits (0 to {MOST_SOURCE_BITS})", self.source, self.bits)
    }
}

impl std::error::Error for SourceTooLarge {}

/// A trace unit.
pub struct Unit {
    config: Config,
    port: Port,
    encoder: Filtered<Encoder>,
}

impl Unit {
    /// A unit that has seen nothing yet.
    ///
    /// # Errors
    /// If the number of the source does not fit its field.
    pub fn new(config: UnitConfig) -> Result<Self, SourceTooLarge> {
        let (source, bits) = (config.settings.source, config.config.source_bits);
        if bits > MOST_SOURCE_BITS || source >> bits != 0 {
            return Err(SourceTooLarge { source, bits });
        }
        Ok(Self {
            config: config.config,
            port: Port::new(4, config.context, config.retirement),
            encoder: Filtered::new(Encoder::new(config.settings), config.filter),
        })
    }

    /// One step of execution; bytes of trace go to the end of `out`.
    #[inline]
    pub fn push(&mut self, item: Execution, out: &mut Vec<u8>) {
        let Self { config, port, encoder } = self;
        port.push(&item, encoder, &mut |packet| write(config, &packet, out));
    }

    /// Execution ends here: writes what is still to say.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let Self { config, port, encoder } = self;
        port.finish(encoder, &mut |packet| write(config, &packet, out));
    }

    /// What the cycles of the hart cost, if they are counted.
    pub fn cycles(&self) -> Option<Figures> {
        self.port.cycles()
    }
}

fn write(config: &Config, packet: &Packet, out: &mut Vec<u8>) {
    // Every message that an encoder makes has bytes.
    encode(config, packet, out);
}
