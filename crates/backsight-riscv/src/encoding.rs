//! What all encoders have in common: blocks go in, packets come out.

use crate::ingress::Block;
use crate::{etrace, ntrace};

/// An encoder of some protocol, for one hart.
pub trait BlockEncoder {
    /// What it sends.
    type Packet;

    /// Takes a block that is to be traced. Packets about it may come with later blocks.
    fn push(&mut self, block: &Block, sink: &mut impl FnMut(Self::Packet));

    /// What comes next is not traced: a filter refused it, or it was not observed.
    fn unqualified(&mut self, sink: &mut impl FnMut(Self::Packet));

    /// Tracing ends. The encoder can be used again.
    fn finish(&mut self, sink: &mut impl FnMut(Self::Packet));
}

macro_rules! block_encoder {
    ($encoder:ty, $packet:ty) => {
        impl BlockEncoder for $encoder {
            type Packet = $packet;

            #[inline]
            fn push(&mut self, block: &Block, sink: &mut impl FnMut($packet)) {
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

block_encoder!(etrace::Encoder, etrace::Packet);
block_encoder!(etrace::BufferedEncoder, etrace::Packet);
block_encoder!(etrace::SeedEncoder, etrace::Packet);
block_encoder!(ntrace::Encoder, ntrace::Packet);
