//! E-Trace packets out of a byte stream: framing and payload in one.

use backsight_core::{Accounting, Located};
use backsight_riscv::encap::{Deframer, Frame, FramingFault, Kind};
use backsight_riscv::etrace::{BadPacket, Decoder, Packet, Params, data};
use backsight_riscv::ingress::DataRecord;

use super::super::by_sub_source::BySubSource;
use super::Configuration;

/// What is found in a stream of E-Trace.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// An instruction trace packet of a source.
    Instruction {
        /// The source.
        source: u16,
        /// The packet.
        packet: Packet,
        /// The parameters in force.
        params: Params,
    },
    /// A data trace packet of a source.
    Data {
        /// The source.
        source: u16,
        /// The packet as sent.
        packet: data::Packet,
        /// What it means after those before.
        record: Result<DataRecord, data::BadData>,
    },
    /// A frame of data trace whose payload is no packet.
    BadData(data::BadData),
    /// A packet of another kind; how many bytes its payload has.
    Other(Kind, u16),
    /// Idle or alignment.
    Null,
    /// A frame whose payload is no packet.
    BadPacket(BadPacket),
    /// Bytes that are no frame.
    BadFrame(FramingFault),
}

impl Message {
    /// The source that sent it.
    pub(super) fn source(&self) -> u16 {
        match self {
            Self::Instruction { source, .. } | Self::Data { source, .. } => *source,
            _ => 0,
        }
    }
}

/// Takes frames apart and decodes their payloads. The options that support packets announce are kept for each source.
pub(super) struct Messages {
    deframer: Deframer,
    sources: Sources,
}

/// The decoders of all sources.
struct Sources {
    /// What a new source's decoder is.
    decoder: Decoder,
    all: BySubSource<Source>,
    /// Bytes of good frames with bad payloads: the deframer counts them as decoded.
    bad: u64,
}

struct Source {
    decoder: Decoder,
    /// There is one once the source sent data trace.
    data: Option<Box<data::Decoder>>,
}

impl Messages {
    /// A stream at its beginning.
    pub fn new(configuration: &Configuration) -> Self {
        let decoder = Decoder::new(configuration.params, configuration.options);
        // As many as the number of a source can say.
        let sources = Sources { decoder, all: BySubSource::new(1 << 16), bad: 0 };
        Self { deframer: Deframer::new(configuration.framing), sources }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Message>)) {
        let Self { deframer, sources } = self;
        deframer.feed(bytes, &mut |frame| sources.take(&frame, sink));
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Message>)) {
        let Self { deframer, sources } = self;
        deframer.finish(&mut |frame| sources.take(&frame, sink));
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        let mut accounting = self.deframer.accounting();
        accounting.decoded -= self.sources.bad;
        accounting.bad += self.sources.bad;
        accounting
    }
}

impl Sources {
    #[inline(always)]
    fn take(&mut self, frame: &Located<Frame<'_>>, sink: &mut impl FnMut(Located<Message>)) {
        let Located { offset, length, value } = *frame;
        let found = match value {
            Frame::Message(message) => self.message(message.source, message.kind, message.payload),
            Frame::Null => Message::Null,
            Frame::Fault(fault) => Message::BadFrame(fault),
        };
        if matches!(found, Message::BadPacket(_) | Message::BadData(_)) {
            self.bad += u64::from(length);
        }
        sink(Located { offset, length, value: found });
    }

    #[inline(always)]
    fn message(&mut self, source: u16, kind: Kind, payload: &[u8]) -> Message {
        let decoder = self.decoder;
        let of_source = self.all.of(source, || Source { decoder, data: None });
        match (kind, of_source) {
            (Kind::Instruction, Some(of_source)) => match of_source.decoder.decode(payload) {
                Ok(packet) => {
                    of_source.keep_in_step(&packet);
                    Message::Instruction { source, packet, params: *of_source.decoder.params() }
                }
                Err(why) => Message::BadPacket(why),
            },
            (Kind::Data, Some(of_source)) => {
                let data = of_source.data();
                match data.decode(payload) {
                    Ok(packet) => Message::Data { source, packet, record: data.resolve(&packet) },
                    Err(why) => Message::BadData(why),
                }
            }
            _ => Message::Other(kind, payload.len() as u16),
        }
    }
}

impl Source {
    fn data(&mut self) -> &mut data::Decoder {
        let Self { decoder, data } = self;
        data.get_or_insert_with(|| Box::new(data::Decoder::new(decoder.params(), decoder.data_options())))
    }

    /// Sync packets of instruction trace end the memory of data trace; support packets say its options.
    #[inline]
    fn keep_in_step(&mut self, packet: &Packet) {
        let Some(data) = &mut self.data else { return };
        if let Packet::Support(support) = packet {
            data.configure(self.decoder.params(), self.decoder.data_options());
            if support.dloss {
                data.synchronise();
            }
        } else if packet.is_sync() {
            data.synchronise();
        }
    }
}
