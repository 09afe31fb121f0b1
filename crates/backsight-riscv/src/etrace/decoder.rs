//! From the bytes of a stream to packets of all its sources.
//!
//! Frames are taken apart and their payloads decoded. Each source has options of its own, which its support packets
//! announce, and a memory of its own that differences in its data trace refer to.

use alloc::boxed::Box;

use backsight_core::{Accounting, Located};

use super::{Config, Content, Message, Packet, PayloadDecoder, data};
use crate::encap::{Deframer, Encapsulated, Frame, Kind};
use crate::per_source::PerSource;

/// Sources of a stream: what a number of 16 bits can distinguish.
const MOST_SOURCES: usize = 1 << 16;

/// Decodes a stream.
#[derive(Clone, Debug)]
pub struct Decoder {
    deframer: Deframer,
    sources: Sources,
}

/// The state of all sources.
#[derive(Clone, Debug)]
struct Sources {
    /// The decoder of a source that was not met before.
    fresh: PayloadDecoder,
    all: PerSource<Source>,
    /// Bytes of good frames with bad payloads: the deframer counts them as decoded.
    bad: u64,
}

#[derive(Clone, Debug)]
struct Source {
    instructions: PayloadDecoder,
    /// There is one once the source sent data trace.
    data: Option<Box<data::Decoder>>,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new(config: &Config) -> Self {
        let fresh = PayloadDecoder::new(config.params, config.options);
        Self {
            deframer: Deframer::new(config.framing),
            sources: Sources { fresh, all: PerSource::new(MOST_SOURCES), bad: 0 },
        }
    }

    /// Takes the next bytes of the stream and gives the packets that end in them. However a stream is cut into
    /// pieces, the packets are the same.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Message>)) {
        let Self { deframer, sources } = self;
        deframer.feed(bytes, &mut |frame| sink(sources.message(frame)));
    }

    /// The stream ends: reports the bytes that are in no packet yet.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Message>)) {
        let Self { deframer, sources } = self;
        deframer.finish(&mut |frame| sink(sources.message(frame)));
    }

    /// Bytes of the stream are missing here: reports the packet that they cut off, and forgets what differences in
    /// data trace refer to. Options stay, for no packet need repeat them; offsets go on as if nothing was missing.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Message>)) {
        self.finish(sink);
        self.sources
            .all
            .iter_mut()
            .filter_map(|source| source.data.as_mut())
            .for_each(|data| data.synchronise());
    }

    /// What became of the bytes so far. Those of a frame that has not ended are in no count yet.
    pub const fn accounting(&self) -> Accounting {
        let mut accounting = self.deframer.accounting();
        accounting.decoded -= self.sources.bad;
        accounting.bad += self.sources.bad;
        accounting
    }
}

impl Sources {
    #[inline(always)]
    fn message(&mut self, frame: Located<Frame<'_>>) -> Located<Message> {
        let nobodys = |content| Message { source: None, time: None, content };
        let message = match frame.value {
            Frame::Packet(packet) => self.decode(&packet, frame.length),
            Frame::Null => nobodys(Content::Null),
            Frame::Fault(fault) => nobodys(Content::BadFrame(fault)),
        };
        frame.map(|_| message)
    }

    #[inline(always)]
    fn decode(&mut self, packet: &Encapsulated<'_>, length: u32) -> Message {
        let fresh = &self.fresh;
        let source = self.all.of(packet.source, || Source { instructions: *fresh, data: None });
        let content = match (packet.kind, source) {
            (Kind::Instruction, Some(source)) => source.instruction(packet.payload),
            (Kind::Data, Some(source)) => source.data(packet.payload),
            (kind, _) => Content::Other(kind, packet.payload.len() as u16),
        };
        if matches!(content, Content::BadPacket(_) | Content::BadData(_)) {
            self.bad += u64::from(length);
        }
        Message { source: Some(packet.source), time: packet.time, content }
    }
}

impl Source {
    #[inline(always)]
    fn instruction(&mut self, payload: &[u8]) -> Content {
        match self.instructions.decode(payload) {
            Ok(packet) => {
                if self.data.is_some() {
                    self.keep_in_step(&packet);
                }
                Content::Instruction(packet)
            }
            Err(why) => Content::BadPacket(why),
        }
    }

    #[inline(never)]
    fn data(&mut self, payload: &[u8]) -> Content {
        let Self { instructions, data } = self;
        let data = data.get_or_insert_with(|| {
            Box::new(data::Decoder::new(instructions.params(), instructions.data_options()))
        });
        match data.decode(payload) {
            Ok(packet) => Content::Data { packet, record: data.resolve(&packet) },
            Err(why) => Content::BadData(why),
        }
    }

    /// Sync packets of instruction trace end the memory of data trace; support packets announce its options.
    fn keep_in_step(&mut self, packet: &Packet) {
        let Some(data) = &mut self.data else { return };
        if let Packet::Support(support) = packet {
            data.configure(self.instructions.params(), self.instructions.data_options());
            if support.dloss {
                data.synchronise();
            }
        } else if packet.is_sync() {
            data.synchronise();
        }
    }
}
