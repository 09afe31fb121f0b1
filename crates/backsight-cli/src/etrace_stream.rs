//! E-Trace packets out of a byte stream: framing and payload in one.

use std::collections::BTreeMap;

use backsight_core::{Accounting, Located};
use backsight_riscv::encap::{Deframer, Frame, FramingFault, Kind, Message};
use backsight_riscv::etrace::{BadPacket, Decoder, Packet, Params, data};
use backsight_riscv::ingress::DataRecord;

use crate::plan::Etrace;

/// What is found in the stream.
#[derive(Clone, Copy, Debug)]
pub enum Found {
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

/// Takes frames apart and decodes their payloads. The options that support packets announce are kept.
pub struct EtraceStream {
    deframer: Deframer,
    decoder: Decoder,
    data: DataDecoders,
    /// Bytes of good frames with bad payloads: the deframer counts them as decoded.
    bad: u64,
}

impl EtraceStream {
    /// A stream at its beginning.
    pub fn new(etrace: &Etrace) -> Self {
        Self {
            deframer: Deframer::new(etrace.framing),
            decoder: Decoder::new(etrace.params, etrace.options),
            data: DataDecoders::new(),
            bad: 0,
        }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Found>)) {
        let Self { deframer, decoder, data, bad } = self;
        deframer.feed(bytes, &mut |frame| sink(found(frame, decoder, data, bad)));
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Found>)) {
        let Self { deframer, decoder, data, bad } = self;
        deframer.finish(&mut |frame| sink(found(frame, decoder, data, bad)));
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        let mut accounting = self.deframer.accounting();
        accounting.decoded -= self.bad;
        accounting.bad += self.bad;
        accounting
    }
}

/// One decoder for each source that sends data trace.
type DataDecoders = BTreeMap<u16, data::Decoder>;

fn found(
    frame: Located<Frame<'_>>,
    decoder: &mut Decoder,
    data: &mut DataDecoders,
    bad: &mut u64,
) -> Located<Found> {
    let length = frame.length;
    frame.map(|frame| match frame {
        Frame::Null => Found::Null,
        Frame::Fault(fault) => Found::BadFrame(fault),
        Frame::Message(message) if message.kind == Kind::Data => {
            let found = found_data(&message, decoder, data);
            if matches!(found, Found::BadData(_)) {
                *bad += u64::from(length);
            }
            found
        }
        Frame::Message(message) if message.kind != Kind::Instruction => {
            Found::Other(message.kind, message.payload.len() as u16)
        }
        Frame::Message(message) => {
            let params = *decoder.params();
            match decoder.decode(message.payload) {
                Ok(packet) => {
                    if !data.is_empty() {
                        keep_in_step(&packet, message.source, decoder, data);
                    }
                    Found::Instruction { source: message.source, packet, params }
                }
                Err(why) => {
                    *bad += u64::from(length);
                    Found::BadPacket(why)
                }
            }
        }
    })
}

fn found_data(message: &Message<'_>, decoder: &Decoder, data: &mut DataDecoders) -> Found {
    let of_source = data
        .entry(message.source)
        .or_insert_with(|| data::Decoder::new(decoder.params(), decoder.data_options()));
    match of_source.decode(message.payload) {
        Ok(packet) => Found::Data { source: message.source, packet, record: of_source.resolve(&packet) },
        Err(why) => Found::BadData(why),
    }
}

/// Sync packets of instruction trace end the memory of data trace; support packets tell its options.
fn keep_in_step(packet: &Packet, source: u16, decoder: &Decoder, data: &mut DataDecoders) {
    let Some(of_source) = data.get_mut(&source) else { return };
    if let Packet::Support(support) = packet {
        of_source.configure(decoder.params(), decoder.data_options());
        if support.dloss {
            of_source.synchronise();
        }
    } else if packet.is_sync() {
        of_source.synchronise();
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
                found.push(record);
            }
        });
        assert_eq!(names, ["F3.3_support", "F3.0_start", "store", "store", "store"]);
        assert_eq!(found, [Ok(sent[0]), Ok(sent[1]), Err(data::BadData::NoReference)]);
    }
}
