//! The unit itself: port, filter, tracer and transport put together.

use backsight_core::{Execution, RetiredBlock, RetiredBlocks};
use backsight_riscv::encap::Framing;
use backsight_riscv::etrace::{Options, Packet, Params, Payload};
use backsight_riscv::ingress::{Block, Ctype};

use super::transport::Transport;
use super::{BufferedTracer, Fifo, Losses, Payloads, Settings, Tracer, UnitError};
use crate::cva6::{self, Fidelity};
use crate::riscv::filter::{Filter, Filtered};
use crate::riscv::retire::{Figures, Retirement};
use crate::riscv::{BlockTracer, Port};

/// How a unit is built and programmed.
#[derive(Clone, Copy, Debug)]
pub struct UnitConfig {
    /// What a decoder must know.
    pub params: Params,
    /// What is switched on; the trace announces it.
    pub options: Options,
    /// The rules of the tracer, and how often it begins again.
    pub settings: Settings,
    /// The tracer for CVA6 instead; of the settings it takes resync and shallow.
    pub cva6: Option<Fidelity>,
    /// The buffer after the tracer, if it is limited.
    pub fifo: Option<Fifo>,
    /// What is traced; without a filter, everything.
    pub filter: Option<Filter>,
    /// How packets travel.
    pub framing: Framing,
    /// Number of the hart in frames that have one.
    pub source: u16,
    /// How changes of context are reported.
    pub context: Ctype,
    /// Bytes between the synchronisation sequences of the framing, where it has them; 0: only at the beginning.
    pub sync_period: u64,
    /// How the hart retires, if its cycles are to be counted.
    pub retirement: Option<Retirement>,
}

impl Default for UnitConfig {
    /// What the reference flow does: its framing, nothing switched on.
    fn default() -> Self {
        Self {
            params: Params::default(),
            options: Options::default(),
            settings: Settings::default(),
            cva6: None,
            fifo: None,
            filter: None,
            framing: Framing::REFERENCE,
            source: 0,
            context: Ctype::Precise,
            sync_period: 4096,
            retirement: None,
        }
    }
}

/// A trace unit.
pub struct Unit {
    port: Port,
    tracer: Filtered<AnyTracer>,
    transport: Transport,
}

/// One of the tracers.
enum AnyTracer {
    Standard(Box<Tracer>),
    Buffered(Box<BufferedTracer>),
    Cva6(Box<cva6::Tracer>),
}

impl AnyTracer {
    fn new(config: &UnitConfig) -> Result<Self, UnitError> {
        let UnitConfig { params, options, settings, .. } = *config;
        Ok(match (config.cva6, config.fifo) {
            (None, None) => Self::Standard(Box::new(Tracer::new(params, options, settings)?)),
            (None, Some(fifo)) => {
                let tracer = Tracer::new(params, options, settings)?;
                Self::Buffered(Box::new(BufferedTracer::new(tracer, fifo)?))
            }
            (Some(_), Some(_)) => {
                let needs = "another algorithm: the encoder for CVA6 has none";
                return Err(UnitError::Missing { option: "a buffer", needs });
            }
            (Some(fidelity), None) => {
                let settings =
                    cva6::Settings { fidelity, resync: settings.resync, shallow: settings.shallow };
                Self::Cva6(Box::new(cva6::Tracer::new(params, options, settings)?))
            }
        })
    }
}

impl BlockTracer for AnyTracer {
    type Packet = Packet;

    #[inline]
    fn push(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        match self {
            Self::Standard(tracer) => tracer.push(block, sink),
            Self::Buffered(tracer) => tracer.push(block, sink),
            Self::Cva6(tracer) => tracer.push(block, sink),
        }
    }

    fn unqualified(&mut self, sink: &mut impl FnMut(Packet)) {
        match self {
            Self::Standard(tracer) => tracer.unqualified(sink),
            Self::Buffered(tracer) => tracer.unqualified(sink),
            Self::Cva6(tracer) => tracer.unqualified(sink),
        }
    }

    fn finish(&mut self, sink: &mut impl FnMut(Packet)) {
        match self {
            Self::Standard(tracer) => tracer.finish(sink),
            Self::Buffered(tracer) => tracer.finish(sink),
            Self::Cva6(tracer) => tracer.finish(sink),
        }
    }
}

impl Unit {
    /// A unit that has seen nothing yet.
    ///
    /// # Errors
    /// If parameters and options do not fit together, or packets of them do not fit the framing.
    pub fn new(config: UnitConfig) -> Result<Self, UnitError> {
        Ok(Self {
            port: Port::new(config.params.itype_width, config.context, config.retirement),
            tracer: Filtered::new(AnyTracer::new(&config)?, config.filter),
            transport: Transport::new(&config)?,
        })
    }

    /// One step of execution; bytes of trace go to the end of `out`.
    #[inline]
    pub fn push(&mut self, item: Execution, out: &mut Vec<u8>) {
        self.take(&item, out);
    }

    #[inline]
    fn take(&mut self, item: &Execution, out: &mut Vec<u8>) {
        let Self { port, tracer, transport } = self;
        if let (Port::Blocks(builder), Some(AnyTracer::Standard(tracer))) = (&mut *port, tracer.unfiltered())
        {
            let mut sink = Payloads(|payload: &Payload| transport.send_payload(payload, out));
            return builder.push(item, &mut tracer.port(&mut sink));
        }
        port.push(item, tracer, &mut |packet| transport.send_packet(packet, out));
    }

    /// Many steps of execution.
    pub fn push_all(&mut self, items: &[Execution], out: &mut Vec<u8>) {
        items.iter().for_each(|item| self.take(item, out));
    }

    /// Straight-line code that retired: the same as its instructions one by one, at less cost.
    #[inline]
    pub fn push_block(&mut self, block: &RetiredBlock<'_>, out: &mut Vec<u8>) {
        let Self { port, tracer, transport } = self;
        if let (Port::Blocks(builder), Some(AnyTracer::Standard(tracer))) = (&mut *port, tracer.unfiltered())
        {
            let mut sink = Payloads(|payload: &Payload| transport.send_payload(payload, out));
            return builder.push_block(block, &mut tracer.port(&mut sink));
        }
        port.push_block(block, tracer, &mut |packet| transport.send_packet(packet, out));
    }

    /// Blocks that retired one after the other.
    pub fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>, out: &mut Vec<u8>) {
        let Self { port, tracer, transport } = self;
        if let (Port::Blocks(builder), Some(AnyTracer::Standard(tracer))) = (&mut *port, tracer.unfiltered())
        {
            let mut sink = Payloads(|payload: &Payload| transport.send_payload(payload, out));
            return builder.push_blocks(blocks, &mut tracer.port(&mut sink));
        }
        for block in blocks.iter() {
            port.push_block(&block, tracer, &mut |packet| transport.send_packet(packet, out));
        }
    }

    /// One step of execution; packets go to `sink`.
    pub fn push_packets(&mut self, item: Execution, sink: &mut impl FnMut(Packet)) {
        self.port.push(&item, &mut self.tracer, sink);
    }

    /// Execution ends here: writes what is still to say.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let Self { port, tracer, transport } = self;
        port.finish(tracer, &mut |packet| transport.send_packet(packet, out));
        transport.finish(out);
    }

    /// Execution ends here: gives the packets that are still to be sent.
    pub fn finish_packets(&mut self, sink: &mut impl FnMut(Packet)) {
        self.port.finish(&mut self.tracer, sink);
    }

    /// What the buffer after the tracer cost, if it is limited.
    pub fn losses(&self) -> Option<Losses> {
        match self.tracer.tracer() {
            AnyTracer::Buffered(tracer) => Some(tracer.losses()),
            AnyTracer::Standard(_) | AnyTracer::Cva6(_) => None,
        }
    }

    /// What the cycles of the hart cost, if they are counted.
    pub fn cycles(&self) -> Option<Figures> {
        self.port.cycles()
    }
}
