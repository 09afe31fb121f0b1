//! How blocks come from a hart to its tracer.

use backsight_core::{Execution, RetiredBlock};
use backsight_riscv::ingress::{Builder, Ctype, Ingress};

use super::BlockTracer;
use super::retire::{Figures, InOrder, Pipeline, Retirement};

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
    pub fn push<E: BlockTracer>(
        &mut self,
        item: &Execution,
        tracer: &mut E,
        send: &mut impl FnMut(E::Packet),
    ) {
        match self {
            Self::Blocks(builder) => {
                builder.push(item, &mut |ingress: Ingress| hand_over(&ingress, tracer, send));
            }
            Self::Cycles(pipeline) => pipeline.push(item, &mut InOrder(tracer, send)),
        }
    }

    /// Takes straight-line code that retired: the same as its instructions one by one.
    #[inline]
    pub fn push_block<E: BlockTracer>(
        &mut self,
        block: &RetiredBlock<'_>,
        tracer: &mut E,
        send: &mut impl FnMut(E::Packet),
    ) {
        match self {
            Self::Blocks(builder) => {
                builder.push_block(block, &mut |ingress: Ingress| hand_over(&ingress, tracer, send));
            }
            // Instructions of one block retire in several cycles.
            Self::Cycles(pipeline) => block.instructions().for_each(|retired| {
                pipeline.push(&Execution::Instruction(retired), &mut InOrder(&mut *tracer, &mut *send));
            }),
        }
    }

    /// Takes the end of execution, and ends the trace.
    pub fn finish<E: BlockTracer>(&mut self, tracer: &mut E, send: &mut impl FnMut(E::Packet)) {
        match self {
            Self::Blocks(builder) => {
                builder.finish(&mut |ingress: Ingress| hand_over(&ingress, tracer, send));
                tracer.finish(send);
            }
            Self::Cycles(pipeline) => {
                pipeline.finish(&mut InOrder(&mut *tracer, &mut *send));
                let mut last = 0;
                tracer.finish(&mut |packet| {
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
fn hand_over<E: BlockTracer>(ingress: &Ingress, tracer: &mut E, send: &mut impl FnMut(E::Packet)) {
    match ingress {
        Ingress::Block(block) => tracer.push(block, send),
        Ingress::Gap => tracer.unqualified(send),
    }
}
