//! A filter in front of an tracer.

use super::Standard;
use crate::cva6;
use crate::riscv::BlockTracer;
use backsight_riscv::ingress::Block;

/// Everything that decides what is traced. What is not set up accepts everything.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// The specification's filters.
    pub standard: Standard,
    /// That of the tracer for CVA6.
    pub cva6: cva6::Filter,
}

/// An tracer that sees only blocks that a filter accepts.
#[derive(Clone, Debug)]
pub struct Filtered<E> {
    tracer: E,
    filter: Option<Filter>,
    /// Where the latest trap led to: the filter for CVA6 looks at it.
    tvec: u64,
    trapped: bool,
}

impl<E> Filtered<E> {
    /// Without a filter every block is traced.
    pub const fn new(tracer: E, filter: Option<Filter>) -> Self {
        Self { tracer, filter, tvec: 0, trapped: false }
    }

    /// The tracer.
    pub const fn tracer(&self) -> &E {
        &self.tracer
    }

    /// The tracer itself, if it sees every block.
    #[inline]
    pub const fn unfiltered(&mut self) -> Option<&mut E> {
        if self.filter.is_none() { Some(&mut self.tracer) } else { None }
    }

    /// Is the block traced, and is its last instruction to be reported?
    fn judge(&mut self, block: &Block) -> Option<Block> {
        let Some(filter) = &mut self.filter else { return Some(*block) };
        if self.trapped && block.iretire > 0 {
            self.tvec = block.iaddr;
        }
        self.trapped = block.itype.is_trap();
        let verdict = filter.standard.judge(block);
        let notify = block.notify || verdict.notify;
        (verdict.qualified && filter.cva6.qualifies(block, self.tvec)).then_some(Block { notify, ..*block })
    }
}

impl<E: BlockTracer> BlockTracer for Filtered<E> {
    type Packet = E::Packet;

    #[inline]
    fn push(&mut self, block: &Block, sink: &mut impl FnMut(E::Packet)) {
        if self.filter.is_none() {
            return self.tracer.push(block, sink);
        }
        match self.judge(block) {
            Some(block) => self.tracer.push(&block, sink),
            None => self.tracer.unqualified(sink),
        }
    }

    fn unqualified(&mut self, sink: &mut impl FnMut(E::Packet)) {
        self.tracer.unqualified(sink);
    }

    fn finish(&mut self, sink: &mut impl FnMut(E::Packet)) {
        self.tracer.finish(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cva6::{self, Check};
    use backsight_riscv::ingress::Itype;
    use std::vec::Vec;

    /// Sends the address of every block, and 0 where tracing ends.
    struct Echo;

    impl BlockTracer for Echo {
        type Packet = u64;

        fn push(&mut self, block: &Block, sink: &mut impl FnMut(u64)) {
            sink(block.iaddr);
        }

        fn unqualified(&mut self, sink: &mut impl FnMut(u64)) {
            sink(0);
        }

        fn finish(&mut self, _: &mut impl FnMut(u64)) {}
    }

    #[test]
    fn refused_blocks_end_the_trace_and_the_handler_is_learnt_from_traps() {
        let cva6 = cva6::Filter { tvec: Check::Match(0x40), ..cva6::Filter::default() };
        let filter = Filter { standard: Standard::new(1), cva6 };
        let mut filtered = Filtered::new(Echo, Some(filter));
        let block = |iaddr, itype| Block { iaddr, iretire: 2, itype, ..Block::default() };
        let mut sent = Vec::new();
        for block in [
            block(0x10, Itype::None),
            block(0x14, Itype::Exception),
            block(0x40, Itype::TrapReturn),
            block(0x18, Itype::Interrupt),
            block(0x80, Itype::None),
        ] {
            filtered.push(&block, &mut |packet| sent.push(packet));
        }
        assert_eq!(sent, [0, 0, 0x40, 0x18, 0]);
    }
}
