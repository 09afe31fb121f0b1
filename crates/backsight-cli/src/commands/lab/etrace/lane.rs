//! An encoder of any kind, and what it sent.

use backsight_riscv::etrace::{
    self, Encoder, EncoderError, Fidelity, Packet, Params, Payload, Payloads, SeedEncoder, SeedSettings,
};
use backsight_riscv::ingress::Ingress;
use backsight_riscv::{BlockEncoder, ntrace};

use super::measure::Figures;
use super::variants::{Variant, Which};

/// One of the encoders that are compared.
pub struct Lane {
    encoder: AnyEncoder,
    figures: Figures,
}

enum AnyEncoder {
    Standard(Box<Encoder>),
    Thesis(Box<SeedEncoder>),
    Ntrace(Box<ntrace::Encoder>),
}

impl Lane {
    /// A new encoder for the variant.
    pub fn new(variant: &Variant) -> Result<Self, EncoderError> {
        let encoder = match variant.which {
            Which::Standard => AnyEncoder::Standard(Box::new(variant.encoder()?)),
            Which::Thesis => {
                let settings = SeedSettings { fidelity: Fidelity::Rtl, ..SeedSettings::default() };
                AnyEncoder::Thesis(Box::new(SeedEncoder::new(variant.params, variant.options, settings)?))
            }
            Which::Ntrace(mode) => {
                let settings = ntrace::Settings { mode, repeat_branch: true, ..ntrace::Settings::default() };
                AnyEncoder::Ntrace(Box::new(ntrace::Encoder::new(settings)))
            }
        };
        Ok(Self { encoder, figures: Figures::default() })
    }

    /// Takes what a hart tells.
    #[inline]
    pub fn push(&mut self, ingress: &Ingress) {
        let Self { encoder, figures } = self;
        match encoder {
            AnyEncoder::Standard(encoder) => {
                let mut count = Payloads(|payload: &Payload| figures.count(payload.len()));
                match ingress {
                    Ingress::Block(block) => encoder.push(block, &mut count),
                    Ingress::Gap => encoder.unqualified(&mut count),
                }
            }
            AnyEncoder::Thesis(encoder) => hand_over(ingress, &mut **encoder, |packet| {
                figures.count(thesis_bytes(&packet));
            }),
            AnyEncoder::Ntrace(encoder) => hand_over(ingress, &mut **encoder, |packet| {
                figures.count(message_bytes(&packet));
            }),
        }
    }

    /// What was sent in all.
    pub fn finish(mut self) -> Figures {
        let Self { encoder, figures } = &mut self;
        match encoder {
            AnyEncoder::Standard(encoder) => {
                encoder.finish(&mut Payloads(|payload: &Payload| figures.count(payload.len())));
            }
            AnyEncoder::Thesis(encoder) => encoder.finish(&mut |packet| figures.count(thesis_bytes(&packet))),
            AnyEncoder::Ntrace(encoder) => {
                encoder.finish(&mut |packet| figures.count(message_bytes(&packet)))
            }
        }
        self.figures
    }
}

fn hand_over<E: BlockEncoder>(ingress: &Ingress, encoder: &mut E, mut sink: impl FnMut(E::Packet)) {
    match ingress {
        Ingress::Block(block) => encoder.push(block, &mut sink),
        Ingress::Gap => encoder.unqualified(&mut sink),
    }
}

fn thesis_bytes(packet: &Packet) -> usize {
    etrace::encode(packet, &Params::seed(), &etrace::Options::default()).len()
}

fn message_bytes(packet: &ntrace::Packet) -> usize {
    let mut bytes = Vec::new();
    ntrace::encode(&ntrace::Config::default(), packet, &mut bytes);
    bytes.len()
}
