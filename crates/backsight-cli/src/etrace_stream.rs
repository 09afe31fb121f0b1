//! E-Trace packets for listings, with the parameters that they are listed by.

use backsight_core::{Accounting, Located};
use backsight_riscv::PerSource;
use backsight_riscv::encap::{FramingFault, Kind};
use backsight_riscv::etrace::{BadPacket, Content, Decoder, Message, Options, Packet, Params, data};
use backsight_riscv::ingress::DataRecord;

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

/// Decodes a stream and keeps the parameters of each source.
pub struct EtraceStream {
    decoder: Decoder,
    params: SourceParams,
}

struct SourceParams {
    /// Those of a new source.
    fresh: (Params, Options),
    all: PerSource<(Params, Options)>,
}

impl EtraceStream {
    /// A stream at its beginning.
    pub fn new(etrace: &Etrace) -> Self {
        let params = SourceParams { fresh: (etrace.params, etrace.options), all: PerSource::new(1 << 16) };
        Self { decoder: Decoder::new(&etrace.config()), params }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Found<'_>>)) {
        let Self { decoder, params } = self;
        decoder.feed(bytes, &mut |message| params.take(&message, sink));
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Found<'_>>)) {
        let Self { decoder, params } = self;
        decoder.finish(&mut |message| params.take(&message, sink));
    }

    /// The stream does not continue here.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Found<'_>>)) {
        let Self { decoder, params } = self;
        decoder.reset(&mut |message| params.take(&message, sink));
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }
}

impl SourceParams {
    fn take(&mut self, message: &Located<Message>, sink: &mut impl FnMut(Located<Found<'_>>)) {
        let Located { offset, length, value } = message;
        let mut give = |value: Found<'_>| sink(Located { offset: *offset, length: *length, value });
        let source = value.source.unwrap_or(0);
        match &value.content {
            Content::Instruction(packet) => {
                let fresh = self.fresh;
                let Some((params, options)) = self.all.of(source, || fresh) else { return };
                if let Packet::Support(support) = packet {
                    support.announce(params, options);
                }
                give(Found::Instruction { source, packet, params });
            }
            Content::Data { packet, record } => give(Found::Data { source, packet, record }),
            Content::Other(kind, bytes) => give(Found::Other(*kind, *bytes)),
            Content::Null => give(Found::Null),
            Content::BadPacket(why) => give(Found::BadPacket(*why)),
            Content::BadData(why) => give(Found::BadData(*why)),
            Content::BadFrame(why) => give(Found::BadFrame(*why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_riscv::encap::{Encapsulated, Framer, Framing};
    use backsight_riscv::etrace::{DataOptions, Start, Support, encode};
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
            framer.frame(&Encapsulated { source, kind, flow: 0, time: None, payload }, &mut bytes).unwrap();
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
