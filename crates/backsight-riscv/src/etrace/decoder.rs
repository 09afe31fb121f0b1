//! From the bytes of a stream to packets of all its sources.
//!
//! Frames are taken apart and their payloads decoded. Each source has options of its own, which its support packets
//! announce, and a memory of its own that differences in its data trace refer to.

use alloc::boxed::Box;

use backsight_core::{Accounting, Address, Located, Resume};

use super::resolve::ReportedAddress;
use super::{
    BranchPacket, Config, Content, Message, MessageSink, Packet, PacketLayout, PayloadDecoder, data,
};
use crate::encap::{Deframer, Encapsulated, Frame, Kind};
use crate::per_source::PerSource;

/// Sources of a stream: what a number of 16 bits can distinguish.
const MOST_SOURCES: usize = 1 << 16;

/// Format 3 with subformat 0 (start) or 1 (trap): packets with a whole address.
const SYNC_HEADERS: [u8; 2] = [0b0011, 0b0111];

/// Decodes a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    deframer: Deframer,
    sources: Sources,
}

/// The state of all sources.
#[derive(Clone, Debug, PartialEq)]
struct Sources {
    /// A source that was not met before.
    fresh: DecodedSource,
    all: PerSource<DecodedSource>,
    /// Bytes of good frames with bad payloads: the deframer counts them as decoded.
    bad: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct DecodedSource {
    instructions: PayloadDecoder,
    address: ReportedAddress,
    layout: PacketLayout,
    /// There is one once the source sent data trace.
    data: Option<Box<data::Decoder>>,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new(config: &Config) -> Self {
        let Config { params, options, .. } = config;
        let fresh = DecodedSource {
            instructions: PayloadDecoder::new(*params, *options),
            address: ReportedAddress::new(params, options),
            layout: PacketLayout::new(params),
            data: None,
        };
        Self {
            deframer: Deframer::new(config.framing),
            sources: Sources { fresh, all: PerSource::new(MOST_SOURCES), bad: 0 },
        }
    }

    /// Takes the next bytes of the stream and gives the packets that end in them. However a stream is cut into
    /// pieces, the packets are the same.
    #[inline]
    pub fn feed(&mut self, mut bytes: &[u8], sink: &mut impl MessageSink) {
        while !bytes.is_empty() {
            if self.deframer.is_between_frames() {
                bytes = self.feed_common(bytes, sink);
            }
            let Self { deframer, sources } = self;
            bytes = deframer.step(bytes, &mut |frame| sink.take(sources.message(&frame)));
        }
    }

    /// Takes common packets up to the first that is none, and gives the rest back. Nearly all packets go this way: from
    /// the frame to the code that takes the packet in registers.
    #[inline]
    fn feed_common<'a>(&mut self, mut bytes: &'a [u8], sink: &mut impl MessageSink) -> &'a [u8] {
        let Self { deframer, sources } = self;
        while let Some((packet, rest)) = deframer.peek(bytes) {
            let Encapsulated { source, kind, time, payload, .. } = packet;
            let length = bytes.len() - rest.len();
            let Some(known) = sources.all.latest(source).filter(|_| kind == Kind::Instruction) else { break };
            let DecodedSource { instructions, address, layout, .. } = known;
            let layout = *layout;
            if let Some((map, reported)) = instructions.branches(payload) {
                let offset = deframer.pass(length);
                let address = reported.and_then(|reported| address.reported(&reported)).map(Address);
                let value = BranchPacket { source, time, address, layout, map, reported };
                sink.take_branches(Located { offset, length: length as u32, value });
            } else if let Some((index, map, irreport)) = instructions.jump_target(payload) {
                let offset = deframer.pass(length);
                let packet = Packet::JumpTarget { index, map, irreport };
                let (source, address) = (Some(source), address.of(&packet).map(Address));
                let value = Message { source, time, address, layout, content: Content::Instruction(packet) };
                sink.take(Located { offset, length: length as u32, value });
            } else {
                break;
            }
            bytes = rest;
        }
        bytes
    }

    /// The stream ends: reports the bytes that are in no packet yet.
    pub fn finish(&mut self, sink: &mut impl MessageSink) {
        let Self { deframer, sources } = self;
        deframer.finish(&mut |frame| sink.take(sources.message(&frame)));
    }

    /// Bytes of the stream are missing here: reports the packet that they cut off, and forgets what differences in
    /// data trace refer to. Options stay, for no packet need repeat them; offsets go on as if nothing was missing.
    pub fn reset(&mut self, sink: &mut impl MessageSink) {
        self.finish(sink);
        self.sources.all.iter_mut().for_each(DecodedSource::forget);
    }

    /// What became of the bytes so far. Those of a frame that has not ended are in no count yet.
    pub const fn accounting(&self) -> Accounting {
        let mut accounting = self.deframer.accounting();
        accounting.decoded -= self.sources.bad;
        accounting.bad += self.sources.bad;
        accounting
    }
}

impl Resume for Decoder {
    fn state(&self) -> Self {
        let Self { deframer, sources } = self;
        Self { deframer: deframer.state(), sources: Sources { bad: 0, ..sources.clone() } }
    }

    fn starting_at(&self, offset: u64) -> Self {
        let sources =
            Sources { all: PerSource::new(MOST_SOURCES), bad: 0, fresh: self.sources.fresh.clone() };
        Self { deframer: self.deframer.starting_at(offset), sources }
    }

    /// No packet need repeat the options of a source, and sources may have sent nothing in between.
    fn starting_later(&self, offset: u64) -> Self {
        Self { deframer: self.deframer.starting_at(offset), ..self.state() }
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut last = None;
        self.deframer.starting_at(0).feed(bytes, &mut |frame| {
            if let Frame::Packet(packet) = frame.value
                && packet.kind == Kind::Instruction
                && packet.payload.first().is_some_and(|byte| SYNC_HEADERS.contains(&(byte & 0xF)))
            {
                last = Some(frame.offset as usize);
            }
        });
        last.filter(|&last| last >= from)
    }
}

impl Sources {
    #[inline(never)]
    fn message(&mut self, frame: &Located<Frame<'_>>) -> Located<Message> {
        let packet = match frame.value {
            Frame::Packet(packet) => packet,
            Frame::Null => return frame.map(|_| Message::of_nobody(Content::Null)),
            Frame::Fault(fault) => {
                // Whose packets these bytes were, nobody knows.
                self.all.iter_mut().for_each(DecodedSource::lose);
                return frame.map(|_| Message::of_nobody(Content::BadFrame(fault)));
            }
        };
        let fresh = &self.fresh;
        let source = self.all.of(packet.source, || fresh.clone());
        let (mut address, mut layout) = (None, PacketLayout::NONE);
        let content = match (packet.kind, source) {
            (Kind::Instruction, Some(source)) => {
                layout = source.layout;
                source.instruction(packet.payload, &mut address)
            }
            (Kind::Data, Some(source)) => source.data(packet.payload),
            (kind, _) => Content::Other(kind, packet.payload.len() as u16),
        };
        let bad = match content {
            Content::BadPacket(_) => true,
            Content::BadData(why) => !why.is_unresolved(),
            _ => false,
        };
        if bad {
            self.bad += u64::from(frame.length);
        }
        let (source, address) = (Some(packet.source), address.map(Address));
        frame.map(|_| Message { source, time: packet.time, address, layout, content })
    }
}

impl DecodedSource {
    fn instruction(&mut self, payload: &[u8], address: &mut Option<u64>) -> Content {
        let before = (*self.instructions.params(), *self.instructions.options());
        let decoded = self.instructions.decode(payload);
        if before != (*self.instructions.params(), *self.instructions.options()) {
            self.configure();
        }
        match decoded {
            Ok(packet) => {
                *address = self.address.of(&packet);
                self.keep_in_step(&packet);
                Content::Instruction(packet)
            }
            Err(why) => {
                self.address.forget();
                Content::BadPacket(why)
            }
        }
    }

    /// Bytes were damaged.
    fn lose(&mut self) {
        if self.instructions.fault() {
            self.configure();
        }
        self.forget();
    }

    /// Other options are in force.
    fn configure(&mut self) {
        let Self { instructions, address, layout, data } = self;
        address.configure(instructions.params(), instructions.options());
        *layout = PacketLayout::new(instructions.params());
        if let Some(data) = data {
            data.configure(instructions.params(), instructions.data_options());
        }
    }

    /// Packets may be missing: what differences refer to is not known.
    fn forget(&mut self) {
        self.address.forget();
        if let Some(data) = &mut self.data {
            data.synchronise();
        }
    }

    fn data(&mut self, payload: &[u8]) -> Content {
        let Self { instructions, data, .. } = self;
        let data = data.get_or_insert_with(|| {
            Box::new(data::Decoder::new(instructions.params(), instructions.data_options()))
        });
        data.trace(payload).map_or_else(Content::BadData, Content::Data)
    }

    /// Sync packets of instruction trace end the memory of data trace; support packets announce options.
    fn keep_in_step(&mut self, packet: &Packet) {
        if let Packet::Support(support) = packet {
            self.configure();
            if !support.dloss {
                return;
            }
        } else if !packet.is_sync() {
            return;
        }
        if let Some(data) = &mut self.data {
            data.synchronise();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::super::{
        BadPacket, BranchMap, CountEnd, DataOptions, Options, Params, Start, Support, encode,
    };
    use super::*;
    use crate::encap::{Encapsulation, Framer, Framing, FramingFault};
    use crate::ingress::{DataAccess, DataRecord, Dtype};
    use proptest::prelude::*;

    fn config(framing: Framing) -> Config {
        let params = Params {
            data_width: 64,
            daddress_width: 64,
            iaddress_width: 64,
            f0s_width: 1,
            cache_size: 4,
            bpred_size: 4,
            ..Params::default()
        };
        Config { params, options: Options::default(), framing }
    }

    fn decode(config: &Config, bytes: &[u8], pieces: usize) -> (Vec<Located<Message>>, Accounting) {
        let (mut decoder, mut messages) = (Decoder::new(config), Vec::new());
        let mut sink = |message| messages.push(message);
        bytes.chunks(pieces.max(1)).for_each(|piece| decoder.feed(piece, &mut sink));
        decoder.finish(&mut sink);
        (messages, decoder.accounting())
    }

    fn framed(framing: Framing, packets: &[(u16, Kind, Vec<u8>)]) -> Vec<u8> {
        let (mut framer, mut bytes) = (Framer::new(framing), Vec::new());
        for (source, kind, payload) in packets {
            let packet = Encapsulated { source: *source, kind: *kind, flow: 0, time: None, payload };
            framer.frame(&packet, &mut bytes).unwrap();
        }
        bytes
    }

    fn store(address: u64, data: u128) -> DataRecord {
        let (address, data) = (Some(address), Some(data));
        DataRecord::Access(DataAccess {
            dtype: Dtype::Store,
            size: 3,
            address,
            data,
            ..DataAccess::default()
        })
    }

    #[test]
    fn each_source_is_decoded_by_the_options_that_it_announced() {
        let config = config(Framing::SIEMENS);
        let options = Options { branch_prediction: true, ..Options::default() };
        let support = Packet::Support(Support { options, ..Support::default() });
        let count = Packet::BranchCount { count: 7, end: CountEnd::Mispredicted };
        let payload = |packet| encode(packet, &config.params, &options).to_vec();
        let packets = [
            (1, Kind::Instruction, payload(&support)),
            (1, Kind::Instruction, payload(&count)),
            (2, Kind::Instruction, payload(&count)),
        ];
        let bytes = framed(config.framing, &packets);
        let (messages, accounting) = decode(&config, &bytes, bytes.len());
        let found: Vec<_> =
            messages.iter().map(|message| (message.value.source, message.value.content)).collect();
        let expected = [
            (Some(1), Content::Instruction(support)),
            (Some(1), Content::Instruction(count)),
            (Some(2), Content::BadPacket(BadPacket::OptionOff)),
        ];
        assert_eq!(found, expected);
        assert_eq!(accounting.bad, u64::from(messages[2].length));
        assert_eq!(accounting.total(), bytes.len() as u64);
    }

    #[test]
    fn differences_in_data_trace_refer_to_accesses_of_the_same_source_since_its_last_sync() {
        let config = config(Framing::SIEMENS);
        let mut encoder = data::Encoder::new(&config.params, &DataOptions::default());
        let start = Packet::Start(Start { branch: true, ..Start::default() });
        let start = encode(&start, &config.params, &config.options).to_vec();
        let records = [0, 8, 16, 24].map(|distance| store(0x8000_0000_0000 + distance, 1));
        let mut data = |n: usize| encoder.push(&records[n]).unwrap().1.to_vec();
        let packets = vec![
            (1, Kind::Data, data(0)),
            (1, Kind::Data, data(1)),
            (2, Kind::Data, data(2)),
            (1, Kind::Instruction, start),
            (1, Kind::Data, data(3)),
        ];
        let bytes = framed(config.framing, &packets);
        let (messages, accounting) = decode(&config, &bytes, 1);
        let found: Vec<_> = messages
            .iter()
            .filter_map(|message| match message.value.content {
                Content::Data(traced) => Some(Ok(traced.record())),
                Content::BadData(why) => Some(Err(why)),
                _ => None,
            })
            .collect();
        let missing = Err(data::BadData::NoReference);
        assert_eq!(found, [Ok(records[0]), Ok(records[1]), missing, missing]);
        assert_eq!(accounting.decoded, bytes.len() as u64);
    }

    #[test]
    fn a_reset_reports_the_frame_that_was_cut_off_and_keeps_options() {
        let config = config(Framing::ATB);
        let options = Options { jump_target_cache: true, ..Options::default() };
        let support = Packet::Support(Support { options, ..Support::default() });
        let jump = Packet::JumpTarget { index: 3, map: BranchMap::new(2, 1), irreport: None };
        let [support, jump] = [support, jump].map(|packet| {
            framed(
                config.framing,
                &[(0, Kind::Instruction, encode(&packet, &config.params, &options).to_vec())],
            )
        });
        let (mut decoder, mut messages) = (Decoder::new(&config), Vec::new());
        let mut sink = |message: Located<Message>| messages.push(message);
        decoder.feed(&support, &mut sink);
        decoder.feed(&jump[..1], &mut sink);
        decoder.reset(&mut sink);
        decoder.feed(&jump, &mut sink);
        let [_, cut, again] = messages[..] else { panic!("{messages:?}") };
        assert_eq!(cut.value.content, Content::BadFrame(FramingFault::CutOff));
        assert_eq!((again.offset, again.value.source), (cut.end(), Some(0)));
        assert!(matches!(again.value.content, Content::Instruction(Packet::JumpTarget { index: 3, .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same_messages_and_every_byte_counts(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            pieces in 1usize..40,
            source_bits in 0u8..=16,
            time_bytes in 0u8..=8,
            type_bits in 0u8..=3,
            form in 0u8..5,
            jump_target_cache: bool,
        ) {
            let framing = match form {
                0 => Framing::Reference { hart_bits: source_bits },
                1 => Framing::Esp32,
                2 => Framing::Pulp,
                _ => Framing::Standard(Encapsulation { source_bits, time_bytes, type_bits }),
            };
            let mut config = config(framing);
            config.options.jump_target_cache = jump_target_cache;
            let (messages, accounting) = decode(&config, &bytes, bytes.len());
            prop_assert_eq!(decode(&config, &bytes, pieces), (messages.clone(), accounting));
            prop_assert_eq!(accounting.total(), bytes.len() as u64);
            let end = messages.iter().try_fold(0, |end, message| (message.offset == end).then_some(message.end()));
            prop_assert_eq!(end, Some(bytes.len() as u64));
            // One frame after the other, as the deframer gives them, is what the quick way through many gives.
            let (mut deframer, mut sources) = (Deframer::new(framing), Decoder::new(&config).sources);
            let mut expected = Vec::new();
            deframer.feed(&bytes, &mut |frame| expected.push(sources.message(&frame)));
            deframer.finish(&mut |frame| expected.push(sources.message(&frame)));
            prop_assert_eq!(messages, expected);
        }
    }
}
