//! What decides which packets a hart's trace needs: blocks go in, packets come out.

use backsight_riscv::ingress::Block;

/// A tracer of some protocol, for one hart.
pub trait BlockTracer {
    /// What it sends.
    type Packet;

    /// Takes a block that is to be traced. Packets about it may come with later blocks.
    fn push(&mut self, block: &Block, sink: &mut impl FnMut(Self::Packet));

    /// What comes next is not traced: a filter refused it, or it was not observed.
    fn unqualified(&mut self, sink: &mut impl FnMut(Self::Packet));

    /// Tracing ends. The tracer can be used again.
    fn finish(&mut self, sink: &mut impl FnMut(Self::Packet));
}

/// What a tracer does, done by its methods of the same names.
macro_rules! block_tracer {
    ($tracer:ty, $packet:ty) => {
        impl $crate::riscv::BlockTracer for $tracer {
            type Packet = $packet;

            #[inline]
            fn push(&mut self, block: &backsight_riscv::ingress::Block, sink: &mut impl FnMut($packet)) {
                Self::push(self, block, sink);
            }

            fn unqualified(&mut self, sink: &mut impl FnMut($packet)) {
                Self::unqualified(self, sink);
            }

            fn finish(&mut self, sink: &mut impl FnMut($packet)) {
                Self::finish(self, sink);
            }
        }
    };
}

pub(crate) use block_tracer;
