//! E-Trace packets out of a byte stream: framing and payload in one.

use backsight_core::{Accounting, Located};
use backsight_riscv::encap::{Deframer, Frame, FramingFault, Kind, Message};
use backsight_riscv::etrace::{BadPacket, Decoder, Packet, Params, data};
use backsight_riscv::ingress::DataRecord;

use crate::per_source::PerSource;
use crate::plan::Etrace;

/// What is found in the stream.
#[derive(Clone, Copy, Debug)]
pub enum Found<'s> {
    /// An instruction trace packet of a source.
    Instruction {
        /// The source.
        source: u16,
        /// The packet.
        packet: &'s Packet,
        /// The parameters in force.
        params: &'s Params,
    },
    /// A data trace packet of a source.
    Data {
        /// The source.
        source: u16,
        /// The packet as sent.
        packet: &'s data::Packet,
        /// What it means after those before.
        record: &'s Result<DataRecord, data::BadData>,
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

/// Takes frames apart and decodes their payloads. The options that support packets announce are kept for each source.
pub struct EtraceStream {
    deframer: Deframer,
    sources: Sources,
}

/// The decoders of all sources.
struct Sources {
    /// What a new source's decoder is.
    decoder: Decoder,
    all: PerSource<Source>,
    /// Bytes of good frames with bad payloads: the deframer counts them as decoded.
    bad: u64,
}

struct Source {
    decoder: Decoder,
    /// There is one once the source sent data trace.
    data: Option<Box<data::Decoder>>,
}

impl EtraceStream {
    /// A stream at its beginning.
    pub fn new(etrace: &Etrace) -> Self {
        let decoder = Decoder::new(etrace.params, etrace.options);
        // As many as the number of a source can tell apart.
        let sources = Sources { decoder, all: PerSource::new(1 << 16), bad: 0 };
        Self { deframer: Deframer::new(etrace.framing), sources }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Found<'_>>)) {
        let Self { deframer, sources } = self;
        deframer.feed(bytes, &mut |frame| sources.take(&frame, sink));
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Found<'_>>)) {
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
    fn take(&mut self, frame: &Located<Frame<'_>>, sink: &mut impl FnMut(Located<Found<'_>>)) {
        let Located { offset, length, value } = *frame;
        let mut tell = |value: Found<'_>| sink(Located { offset, length, value });
        let understood = match value {
            Frame::Message(message) => self.message(&message, &mut tell),
            Frame::Null => {
                tell(Found::Null);
                true
            }
            Frame::Fault(fault) => {
                tell(Found::BadFrame(fault));
                true
            }
        };
        if !understood {
            self.bad += u64::from(length);
        }
    }

    /// Is its payload a packet?
    #[inline(always)]
    fn message(&mut self, message: &Message<'_>, tell: &mut impl FnMut(Found<'_>)) -> bool {
        let (source, payload, kind) = (message.source, message.payload, message.kind);
        let decoder = self.decoder;
        let of_source = self.all.of(source, || Source { decoder, data: None });
        match (kind, of_source) {
            (Kind::Instruction, Some(of_source)) => match of_source.decoder.decode(payload) {
                Ok(packet) => {
                    of_source.keep_in_step(&packet);
                    let params = of_source.decoder.params();
                    tell(Found::Instruction { source, packet: &packet, params });
                }
                Err(why) => {
                    tell(Found::BadPacket(why));
                    return false;
                }
            },
            (Kind::Data, Some(of_source)) => {
                let data = of_source.data();
                match data.decode(payload) {
                    Ok(packet) => {
                        let record = &data.resolve(&packet);
                        tell(Found::Data { source, packet: &packet, record });
                    }
                    Err(why) => {
                        tell(Found::BadData(why));
                        return false;
                    }
                }
            }
            _ => tell(Found::Other(kind, payload.len() as u16)),
        }
        true
    }
}

impl Source {
    fn data(&mut self) -> &mut data::Decoder {
        let Self { decoder, data } = self;
        data.get_or_insert_with(|| Box::new(data::Decoder::new(decoder.params(), decoder.data_options())))
    }

    /// Sync packets of instruction trace end the memory of data trace; support packets tell its options.
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

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_riscv::encap::{Framer, Framing};
    use backsight_riscv::etrace::{DataOptions, Options, Start, Support, encode};
    use backsight_riscv::ingress::{DataAccess, Dtype};

    use crate::listing::packet::Listed;

    fn store(address: u64, data: u128) -> DataRecord {
        let dtype = Dtype::Store;
        let (address, data) = (Some(address), Some(data));
        DataRecord::Access(DataAccess { dtype, size: 3, address, data, ..DataAccess::default() })
    }

    #[test]
    fn data_packets_between_instruction_packets_are_resolved_for_each_source() {
        let etrace = Etrace {
            params: Params { data_width: 64, daddress_width: 64, iaddress_width: 64, ..Params::default() },
            options: Options::default(),
            framing: Framing::SIEMENS,
            handlers: Default::default(),
            unknown: Vec::new(),
        };
        let data_options = DataOptions { full_data: true, ..DataOptions::default() };
        let support = Packet::Support(Support { denable: true, data_options, ..Support::default() });
        let start = Packet::Start(Start { branch: true, ..Start::default() });
        let (mut framer, mut bytes) = (Framer::new(etrace.framing), Vec::new());
        let mut frame = |source, kind, payload: &[u8]| {
            framer.frame(&Message { source, kind, flow: 0, time: None, payload }, &mut bytes).unwrap();
        };
        let mut encoder = data::Encoder::new(&etrace.params, &data_options);
        let mut sent = Vec::new();
        for packet in [support, start] {
            let payload = encode(&packet, &etrace.params, &etrace.options);
            frame(1, Kind::Instruction, &payload);
        }
        for record in [store(0x8000_0000_0000, 1), store(0x8000_0000_0008, 2)] {
            frame(1, Kind::Data, &encoder.push(&record).unwrap().1);
            sent.push(record);
        }
        // Another source has seen nothing that a difference could refer to.
        frame(2, Kind::Data, &encoder.push(&store(0x8000_0000_0010, 3)).unwrap().1);
        let (mut found, mut names) = (Vec::new(), Vec::new());
        EtraceStream::new(&etrace).feed(&bytes, &mut |item| {
            names.push(item.value.name());
            if let Found::Data { record, .. } = item.value {
                found.push(*record);
            }
        });
        assert_eq!(names, ["F3.3_support", "F3.0_start", "store", "store", "store"]);
        assert_eq!(found, [Ok(sent[0]), Ok(sent[1]), Err(data::BadData::NoReference)]);
    }
}
