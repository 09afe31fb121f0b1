//! E-Trace packets out of a byte stream: framing and payload in one.

use backsight_core::{Accounting, Located};
use backsight_riscv::encap::{Deframer, Frame, FramingFault, Kind};
use backsight_riscv::etrace::{BadPacket, Decoder, Packet, Params};

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
    /// Bytes of good frames with bad payloads: the deframer counts them as decoded.
    bad: u64,
}

impl EtraceStream {
    /// A stream at its beginning.
    pub fn new(etrace: &Etrace) -> Self {
        Self {
            deframer: Deframer::new(etrace.framing),
            decoder: Decoder::new(etrace.params, etrace.options),
            bad: 0,
        }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Found>)) {
        let Self { deframer, decoder, bad } = self;
        deframer.feed(bytes, &mut |frame| sink(found(frame, decoder, bad)));
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Found>)) {
        let Self { deframer, decoder, bad } = self;
        deframer.finish(&mut |frame| sink(found(frame, decoder, bad)));
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        let mut accounting = self.deframer.accounting();
        accounting.decoded -= self.bad;
        accounting.bad += self.bad;
        accounting
    }
}

fn found(frame: Located<Frame<'_>>, decoder: &mut Decoder, bad: &mut u64) -> Located<Found> {
    let length = frame.length;
    frame.map(|frame| match frame {
        Frame::Null => Found::Null,
        Frame::Fault(fault) => Found::BadFrame(fault),
        Frame::Message(message) if message.kind != Kind::Instruction => {
            Found::Other(message.kind, message.payload.len() as u16)
        }
        Frame::Message(message) => {
            let params = *decoder.params();
            match decoder.decode(message.payload) {
                Ok(packet) => Found::Instruction { source: message.source, packet, params },
                Err(why) => {
                    *bad += u64::from(length);
                    Found::BadPacket(why)
                }
            }
        }
    })
}
