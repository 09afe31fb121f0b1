//! The E-Trace unit.
//!
//! Executed instructions of one hart become blocks, as the core hands them to its encoder; blocks become packets;
//! packets are framed for the transport. Everything here is in `backsight-riscv`; the unit puts it together. Where
//! the cycles of the hart matter, blocks come through its commit ports, several in one cycle.

use backsight_core::Execution;
use backsight_riscv::BlockEncoder;
use backsight_riscv::encap::{Encapsulated, FrameError, Framer, Framing, Kind};
use backsight_riscv::etrace::{
    BufferedEncoder, Encoder, EncoderError, Fidelity, Fifo, Losses, Options, Packet, Params, Payload,
    Payloads, SeedEncoder, SeedSettings, Settings, encode,
};
use backsight_riscv::filter::{Filter, Filtered};
use backsight_riscv::ingress::{Block, Ctype};
use backsight_riscv::retire::{Figures, Retirement};

use crate::port::Port;

/// How a unit is built and programmed.
#[derive(Clone, Copy, Debug)]
pub struct UnitConfig {
    /// What a decoder must know.
    pub params: Params,
    /// What is switched on; the trace tells it.
    pub options: Options,
    /// The rules of the encoder, and how often it begins anew.
    pub settings: Settings,
    /// The encoder of the thesis instead; of the settings it takes resync and shallow.
    pub seed: Option<Fidelity>,
    /// The buffer behind the encoder, if it is limited.
    pub fifo: Option<Fifo>,
    /// What is traced; without a filter, everything.
    pub filter: Option<Filter>,
    /// How packets travel.
    pub framing: Framing,
    /// Number of the hart in frames that have one.
    pub source: u16,
    /// How changes of context are told.
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
            seed: None,
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
    config: UnitConfig,
    port: Port,
    encoder: Filtered<AnyEncoder>,
    transport: Transport,
}

/// One of the encoders.
enum AnyEncoder {
    Standard(Box<Encoder>),
    Buffered(Box<BufferedEncoder>),
    Seed(Box<SeedEncoder>),
}

impl AnyEncoder {
    fn new(config: &UnitConfig) -> Result<Self, EncoderError> {
        let UnitConfig { params, options, settings, .. } = *config;
        Ok(match (config.seed, config.fifo) {
            (None, None) => Self::Standard(Box::new(Encoder::new(params, options, settings)?)),
            (None, Some(fifo)) => {
                let encoder = Encoder::new(params, options, settings)?;
                Self::Buffered(Box::new(BufferedEncoder::new(encoder, fifo)?))
            }
            (Some(_), Some(_)) => {
                let needs = "another algorithm: the encoder of the thesis has none";
                return Err(EncoderError::Missing { option: "a buffer", needs });
            }
            (Some(fidelity), None) => {
                let settings = SeedSettings { fidelity, resync: settings.resync, shallow: settings.shallow };
                Self::Seed(Box::new(SeedEncoder::new(params, options, settings)?))
            }
        })
    }
}

impl BlockEncoder for AnyEncoder {
    type Packet = Packet;

    #[inline]
    fn push(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        match self {
            Self::Standard(encoder) => encoder.push(block, sink),
            Self::Buffered(encoder) => encoder.push(block, sink),
            Self::Seed(encoder) => encoder.push(block, sink),
        }
    }

    fn unqualified(&mut self, sink: &mut impl FnMut(Packet)) {
        match self {
            Self::Standard(encoder) => encoder.unqualified(sink),
            Self::Buffered(encoder) => encoder.unqualified(sink),
            Self::Seed(encoder) => encoder.unqualified(sink),
        }
    }

    fn finish(&mut self, sink: &mut impl FnMut(Packet)) {
        match self {
            Self::Standard(encoder) => encoder.finish(sink),
            Self::Buffered(encoder) => encoder.finish(sink),
            Self::Seed(encoder) => encoder.finish(sink),
        }
    }
}

/// Packets to bytes.
struct Transport {
    framer: Framer,
    source: u16,
    period: u64,
    /// Bytes since the last synchronisation sequence; `None`: there was none yet.
    since_sync: Option<u64>,
    refused: Option<FrameError>,
}

impl Unit {
    /// A unit that has seen nothing yet.
    ///
    /// # Errors
    /// If parameters and options do not fit together.
    pub fn new(config: UnitConfig) -> Result<Self, EncoderError> {
        let itype_width = config.params.itype_width;
        Ok(Self {
            config,
            port: Port::new(itype_width, config.context, config.retirement),
            encoder: Filtered::new(AnyEncoder::new(&config)?, config.filter),
            transport: Transport {
                framer: Framer::new(config.framing),
                source: config.source,
                period: config.sync_period,
                since_sync: None,
                refused: None,
            },
        })
    }

    /// One step of execution; bytes of trace go to the end of `out`.
    ///
    /// # Errors
    /// If the framing cannot hold a packet: its length, or the number of the hart.
    #[inline]
    pub fn push(&mut self, item: Execution, out: &mut Vec<u8>) -> Result<(), FrameError> {
        self.take(&item, out);
        self.transport.outcome()
    }

    #[inline]
    fn take(&mut self, item: &Execution, out: &mut Vec<u8>) {
        let Self { config, port, encoder, transport } = self;
        if let (Port::Blocks(builder), Some(AnyEncoder::Standard(encoder))) =
            (&mut *port, encoder.unfiltered())
        {
            let mut sink = Payloads(|payload: &Payload| transport.send(payload, out));
            return builder.push(item, &mut encoder.port(&mut sink));
        }
        port.push(item, encoder, &mut |packet| transport.send_packet(&packet, config, out));
    }

    /// Many steps of execution.
    ///
    /// # Errors
    /// As [`Unit::push`].
    pub fn push_all(&mut self, items: &[Execution], out: &mut Vec<u8>) -> Result<(), FrameError> {
        items.iter().for_each(|item| self.take(item, out));
        self.transport.outcome()
    }

    /// Execution ends here: writes what is still to say.
    ///
    /// # Errors
    /// As [`Unit::push`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        let Self { config, port, encoder, transport } = self;
        port.finish(encoder, &mut |packet| transport.send_packet(&packet, config, out));
        transport.outcome()
    }

    /// What the buffer behind the encoder cost, if it is limited.
    pub fn losses(&self) -> Option<Losses> {
        match self.encoder.encoder() {
            AnyEncoder::Buffered(encoder) => Some(encoder.losses()),
            AnyEncoder::Standard(_) | AnyEncoder::Seed(_) => None,
        }
    }

    /// What the cycles of the hart cost, if they are counted.
    pub fn cycles(&self) -> Option<Figures> {
        self.port.cycles()
    }
}

impl Transport {
    fn send_packet(&mut self, packet: &Packet, config: &UnitConfig, out: &mut Vec<u8>) {
        self.send(&encode(packet, &config.params, &config.options), out);
    }

    fn send(&mut self, payload: &Payload, out: &mut Vec<u8>) {
        let before = out.len();
        let due = self.period != 0 && self.since_sync.is_some_and(|bytes| bytes >= self.period);
        if due || self.since_sync.is_none() {
            self.framer.synchronise(out);
            self.since_sync = Some(0);
        }
        let message = Encapsulated {
            source: self.source,
            kind: Kind::Instruction,
            flow: 0,
            time: None,
            payload: payload.as_slice(),
        };
        if let Err(error) = self.framer.frame(&message, out) {
            self.refused.get_or_insert(error);
        }
        let written = (out.len() - before) as u64;
        self.since_sync = self.since_sync.map(|bytes| bytes + written);
    }

    fn outcome(&mut self) -> Result<(), FrameError> {
        match self.refused.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
