//! A packet decoder of any protocol, for listings.

use backsight_arm::etm4;
use backsight_core::{Accounting, Located};
use backsight_riscv::ntrace;

use crate::etrace_stream::EtraceStream;
use crate::listing::packet::Listed;
use crate::plan::Decoding;

/// Receives packets of any protocol.
pub type Sink<'a> = dyn FnMut(Located<&dyn Listed>) + 'a;

/// A packet decoder of any protocol.
pub enum Decoder {
    /// ETMv4 or ETE.
    Etm4(Box<etm4::Decoder>),
    /// RISC-V E-Trace.
    Etrace(Box<EtraceStream>),
    /// RISC-V N-Trace.
    Ntrace(Box<ntrace::Decoder>),
}

impl Decoder {
    /// The decoder for a source, if there is one.
    pub fn new(decoding: &Decoding) -> Option<Self> {
        match decoding {
            Decoding::Etm4(config) => Some(Self::Etm4(Box::new(etm4::Decoder::new(config)))),
            Decoding::Etrace(etrace) => Some(Self::Etrace(Box::new(EtraceStream::new(etrace)))),
            Decoding::Ntrace(config) => Some(Self::Ntrace(Box::new(ntrace::Decoder::new(config)))),
            Decoding::NotDecoded(_) => None,
        }
    }

    /// Takes more bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) {
        match self {
            Self::Etm4(decoder) => decoder.feed(bytes, &mut |packet| sink(listed(&packet))),
            Self::Etrace(decoder) => decoder.feed(bytes, &mut |packet| sink(listed(&packet))),
            Self::Ntrace(decoder) => decoder.feed(bytes, &mut |packet| sink(listed(&packet))),
        }
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        match self {
            Self::Etm4(decoder) => decoder.finish(&mut |packet| sink(listed(&packet))),
            Self::Etrace(decoder) => decoder.finish(&mut |packet| sink(listed(&packet))),
            Self::Ntrace(decoder) => decoder.finish(&mut |packet| sink(listed(&packet))),
        }
    }

    /// The stream does not continue here.
    pub fn reset(&mut self, sink: &mut Sink<'_>) {
        match self {
            Self::Etm4(decoder) => decoder.reset(&mut |packet| sink(listed(&packet))),
            Self::Etrace(decoder) => decoder.reset(&mut |packet| sink(listed(&packet))),
            Self::Ntrace(decoder) => decoder.reset(&mut |packet| sink(listed(&packet))),
        }
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        match self {
            Self::Etm4(decoder) => decoder.accounting(),
            Self::Etrace(decoder) => decoder.accounting(),
            Self::Ntrace(decoder) => decoder.accounting(),
        }
    }
}

fn listed<P: Listed>(packet: &Located<P>) -> Located<&dyn Listed> {
    Located { offset: packet.offset, length: packet.length, value: &packet.value }
}
