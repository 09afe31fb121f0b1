//! E-Trace packets with the parameters that they are listed by.

use backsight_core::{Accounting, Located};
use backsight_riscv::PerSource;
use backsight_riscv::encap::{FramingFault, Kind};
use backsight_riscv::etrace::{self, BadPacket, Config, Content, Decoder, Options, Packet, Params, data};

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
        /// What the packet says after those before it.
        traced: data::Traced,
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

/// Decodes a stream, and keeps the parameters of each source, which its packets are listed by.
pub(super) struct Messages {
    decoder: Decoder,
    params: SourceParams,
}

struct SourceParams {
    /// Those of a source that was not met before.
    fresh: (Params, Options),
    all: PerSource<(Params, Options)>,
}

impl Messages {
    /// A stream at its beginning.
    pub fn new(config: &Config) -> Self {
        // As many sources as their number can say.
        let params = SourceParams { fresh: (config.params, config.options), all: PerSource::new(1 << 16) };
        Self { decoder: Decoder::new(config), params }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Message>)) {
        let Self { decoder, params } = self;
        decoder.feed(bytes, &mut |message| sink(params.message(message)));
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Message>)) {
        let Self { decoder, params } = self;
        decoder.finish(&mut |message| sink(params.message(message)));
    }

    /// The stream does not continue here.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Message>)) {
        let Self { decoder, params } = self;
        decoder.reset(&mut |message| sink(params.message(message)));
    }

    /// Takes more bytes, and gives how many messages end in them.
    pub fn count(&mut self, bytes: &[u8]) -> u64 {
        let mut count = 0;
        self.decoder.feed(bytes, &mut |message| {
            std::hint::black_box(&message);
            count += 1;
        });
        count
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }
}

impl SourceParams {
    #[inline(always)]
    fn message(&mut self, message: Located<etrace::Message>) -> Located<Message> {
        let source = message.value.source.unwrap_or(0);
        message.map(|message| match message.content {
            Content::Instruction(packet) => {
                let fresh = self.fresh;
                let params = match self.all.of(source, || fresh) {
                    Some((params, options)) => {
                        if let Packet::Support(support) = &packet {
                            support.announce(params, options);
                        }
                        *params
                    }
                    None => fresh.0,
                };
                Message::Instruction { source, packet, params }
            }
            Content::Data(traced) => Message::Data { source, traced },
            Content::Other(kind, bytes) => Message::Other(kind, bytes),
            Content::Null => Message::Null,
            Content::BadPacket(why) => Message::BadPacket(why),
            Content::BadData(why) => Message::BadData(why),
            Content::BadFrame(why) => Message::BadFrame(why),
        })
    }
}
