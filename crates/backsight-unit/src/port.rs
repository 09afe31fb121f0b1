//! How blocks come from a hart to its encoder.

use backsight_core::Execution;
use backsight_riscv::BlockEncoder;
use backsight_riscv::ingress::{Builder, Ctype, Ingress};
use backsight_riscv::retire::{Figures, InOrder, Pipeline, Retirement};

pub(crate) enum Port {
    /// One after the other.
    Blocks(Builder),
    /// Cycle by cycle.
    Cycles(Box<Pipeline>),
}

impl Port {
    /// With `retirement` cycles are counted.
    pub fn new(itype_width: u8, context: Ctype, retirement: Option<Retirement>) -> Self {
        match retirement {
            Some(retirement) => Self::Cycles(Box::new(Pipeline::new(retirement, itype_width, context))),
            None => Self::Blocks(Builder::new(itype_width, context)),
        }
    }

    /// Takes one step of execution.
    #[inline]
    pub fn push<E: BlockEncoder>(
        &mut self,
        item: &Execution,
        encoder: &mut E,
        send: &mut impl FnMut(E::Packet),
    ) {
        match self {
            Self::Blocks(builder) => {
                builder.push(item, &mut |ingress: Ingress| hand_over(&ingress, encoder, send));
            }
            Self::Cycles(pipeline) => pipeline.push(item, &mut InOrder(encoder, send)),
        }
    }

    /// Takes the end of execution, and ends the trace.
    pub fn finish<E: BlockEncoder>(&mut self, encoder: &mut E, send: &mut impl FnMut(E::Packet)) {
        match self {
            Self::Blocks(builder) => {
                builder.finish(&mut |ingress: Ingress| hand_over(&ingress, encoder, send));
                encoder.finish(send);
            }
            Self::Cycles(pipeline) => {
                pipeline.finish(&mut InOrder(&mut *encoder, &mut *send));
                let mut last = 0;
                encoder.finish(&mut |packet| {
                    last += 1;
                    send(packet);
                });
                pipeline.drain(last);
            }
        }
    }

    /// What the cycles cost, if they are counted.
    pub fn cycles(&self) -> Option<Figures> {
        match self {
            Self::Blocks(_) => None,
            Self::Cycles(pipeline) => Some(pipeline.figures()),
        }
    }
}

#[inline]
fn hand_over<E: BlockEncoder>(ingress: &Ingress, encoder: &mut E, send: &mut impl FnMut(E::Packet)) {
    match ingress {
        Ingress::Block(block) => encoder.push(block, send),
        Ingress::Gap => encoder.unqualified(send),
    }
}
