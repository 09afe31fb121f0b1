//! The N-Trace unit: executed instructions of one hart become blocks, blocks become messages, messages bytes.

use std::fmt;

use backsight_core::{Execution, RetiredBlock};
use backsight_riscv::ingress::Ctype;
use backsight_riscv::ntrace::{Config, Encoder, MOST_SOURCE_BITS, Packet};

use super::{Settings, Tracer};
use crate::riscv::Port;
use crate::riscv::filter::{Filter, Filtered};
use crate::riscv::retire::{Figures, Retirement};

/// How a unit is built and programmed.
#[derive(Clone, Copy, Debug)]
pub struct UnitConfig {
    /// How messages are laid out: what a decoder must know.
    pub config: Config,
    /// What is sent.
    pub settings: Settings,
    /// What is traced; without a filter, everything.
    pub filter: Option<Filter>,
    /// How changes of context are reported.
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

/// A unit that there cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// The number of the source does not fit its field.
    Source {
        /// The number.
        source: u16,
        /// Bits of the field.
        bits: u8,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Source { source, bits } = self;
        write!(f, "source {source} does not fit {bits} bits (0 to {MOST_SOURCE_BITS})")
    }
}

impl std::error::Error for UnitError {}

/// A trace unit.
pub struct Unit {
    port: Port,
    tracer: Filtered<Tracer>,
    encoder: Encoder,
}

impl Unit {
    /// A unit that has seen nothing yet.
    ///
    /// # Errors
    /// If the number of the source does not fit its field.
    pub fn new(config: UnitConfig) -> Result<Self, UnitError> {
        let (source, bits) = (config.settings.source, config.config.source_bits);
        if bits > MOST_SOURCE_BITS || source >> bits != 0 {
            return Err(UnitError::Source { source, bits });
        }
        Ok(Self {
            port: Port::new(4, config.context, config.retirement),
            tracer: Filtered::new(Tracer::new(config.settings), config.filter),
            encoder: Encoder::new(&config.config),
        })
    }

    /// One step of execution; bytes of trace go to the end of `out`.
    #[inline]
    pub fn push(&mut self, item: Execution, out: &mut Vec<u8>) {
        let Self { port, tracer, encoder } = self;
        port.push(&item, tracer, &mut |packet| put(encoder, &packet, out));
    }

    /// Many steps of execution.
    pub fn push_all(&mut self, items: &[Execution], out: &mut Vec<u8>) {
        items.iter().for_each(|item| self.push(*item, out));
    }

    /// Straight-line code that retired: the same as its instructions one by one, at less cost.
    #[inline]
    pub fn push_block(&mut self, block: &RetiredBlock<'_>, out: &mut Vec<u8>) {
        let Self { port, tracer, encoder } = self;
        port.push_block(block, tracer, &mut |packet| put(encoder, &packet, out));
    }

    /// One step of execution; messages go to `sink`.
    pub fn push_packets(&mut self, item: Execution, sink: &mut impl FnMut(Packet)) {
        self.port.push(&item, &mut self.tracer, sink);
    }

    /// Execution ends here: writes what is still to say.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let Self { port, tracer, encoder } = self;
        port.finish(tracer, &mut |packet| put(encoder, &packet, out));
        encoder.finish(out);
    }

    /// Execution ends here: gives the messages that are still to be sent.
    pub fn finish_packets(&mut self, sink: &mut impl FnMut(Packet)) {
        self.port.finish(&mut self.tracer, sink);
    }

    /// What the cycles of the hart cost, if they are counted.
    pub fn cycles(&self) -> Option<Figures> {
        self.port.cycles()
    }
}

#[inline]
fn put(encoder: &mut Encoder, packet: &Packet, out: &mut Vec<u8>) {
    let has_bytes = encoder.put(packet, out);
    debug_assert!(has_bytes, "a tracer sends nothing else");
}
