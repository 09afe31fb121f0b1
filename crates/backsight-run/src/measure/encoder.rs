//! An encoder of any kind, and what it sent.

use backsight_riscv::etrace::{self, Packet, Payload};
use backsight_riscv::ingress::Ingress;
use backsight_riscv::ntrace;
use backsight_unit::cva6;
use backsight_unit::cva6::Fidelity;
use backsight_unit::etrace::{Payloads, Tracer, UnitError};
use backsight_unit::riscv::BlockTracer;

use super::{Sent, Variant, Which};

/// One of the encoders that are compared.
pub struct MeasuredEncoder {
    encoder: AnyEncoder,
    sent: Sent,
}

enum AnyEncoder {
    Standard(Box<Tracer>),
    Thesis(Box<cva6::Tracer>),
    Ntrace(Box<backsight_unit::ntrace::Tracer>),
}

impl MeasuredEncoder {
    /// A new encoder for the variant.
    pub fn new(variant: &Variant) -> Result<Self, UnitError> {
        let encoder = match variant.which {
            Which::Standard => AnyEncoder::Standard(Box::new(variant.encoder()?)),
            Which::Thesis => {
                let settings = cva6::Settings { fidelity: Fidelity::Rtl, ..cva6::Settings::default() };
                AnyEncoder::Thesis(Box::new(cva6::Tracer::new(variant.params, variant.options, settings)?))
            }
            Which::Ntrace(mode) => {
                let settings = backsight_unit::ntrace::Settings {
                    mode,
                    repeat_branch: true,
                    ..backsight_unit::ntrace::Settings::default()
                };
                AnyEncoder::Ntrace(Box::new(backsight_unit::ntrace::Tracer::new(settings)))
            }
        };
        Ok(Self { encoder, sent: Sent::default() })
    }

    /// Takes what a hart reports.
    #[inline]
    pub fn push(&mut self, ingress: &Ingress) {
        let Self { encoder, sent } = self;
        match encoder {
            AnyEncoder::Standard(encoder) => {
                let mut count = Payloads(|payload: &Payload| sent.count(payload.len()));
                match ingress {
                    Ingress::Block(block) => encoder.push(block, &mut count),
                    Ingress::Gap => encoder.unqualified(&mut count),
                }
            }
            AnyEncoder::Thesis(encoder) => hand_over(ingress, &mut **encoder, |packet| {
                sent.count(thesis_bytes(&packet));
            }),
            AnyEncoder::Ntrace(encoder) => hand_over(ingress, &mut **encoder, |packet| {
                sent.count(message_bytes(&packet));
            }),
        }
    }

    /// What was sent in all.
    pub fn finish(mut self) -> Sent {
        let Self { encoder, sent } = &mut self;
        match encoder {
            AnyEncoder::Standard(encoder) => {
                encoder.finish(&mut Payloads(|payload: &Payload| sent.count(payload.len())));
            }
            AnyEncoder::Thesis(encoder) => encoder.finish(&mut |packet| sent.count(thesis_bytes(&packet))),
            AnyEncoder::Ntrace(encoder) => encoder.finish(&mut |packet| sent.count(message_bytes(&packet))),
        }
        self.sent
    }
}

fn hand_over<E: BlockTracer>(ingress: &Ingress, encoder: &mut E, mut sink: impl FnMut(E::Packet)) {
    match ingress {
        Ingress::Block(block) => encoder.push(block, &mut sink),
        Ingress::Gap => encoder.unqualified(&mut sink),
    }
}

fn thesis_bytes(packet: &Packet) -> usize {
    etrace::encode(packet, &backsight_riscv::cva6::params(), &etrace::Options::default()).len()
}

fn message_bytes(packet: &ntrace::Packet) -> usize {
    let mut bytes = Vec::new();
    ntrace::encode(&ntrace::Config::default(), packet, &mut bytes);
    bytes.len()
}
