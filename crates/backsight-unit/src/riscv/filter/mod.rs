//! What is traced: filters, comparators and triggers.
//!
//! A block is *qualified* if tracing is on and an enabled filter accepts it. [`Standard`] is the model of the
//! specification with its registers; [`cva6::Filter`](crate::cva6::Filter) that of the encoder for CVA6. A whole
//! block is traced if any of its instructions matches. [`Filtered`] puts them in front of a tracer.

mod comparator;
mod gate;
mod standard;

pub use comparator::{Comparator, Function, Input, Mode};
pub use gate::{Filter, Filtered};
pub use standard::{FilterUnit, Standard, Verdict};

use backsight_riscv::ingress::Block;

/// Tracing as the triggers of the debug module switch it.
#[derive(Clone, Copy, Debug)]
pub struct Triggered {
    on: bool,
}

impl Triggered {
    /// Tracing is on or off until a trigger says otherwise.
    pub const fn new(on: bool) -> Self {
        Self { on }
    }

    /// Is the block traced? It starts with the block that carries trace-on and stops after the one that carries
    /// trace-off; with both while off only that block is traced.
    pub fn qualifies(&mut self, block: &Block) -> bool {
        let traced = self.on || block.trace_on;
        self.on = traced && !block.trace_off;
        traced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_include_the_blocks_that_carry_them() {
        let mut tracing = Triggered::new(false);
        let block = |trace_on, trace_off| Block { trace_on, trace_off, ..Block::default() };
        let steps = [
            (block(false, false), false),
            (block(true, true), true),
            (block(false, false), false),
            (block(true, false), true),
            (block(false, false), true),
            (block(false, true), true),
            (block(false, false), false),
        ];
        for (block, traced) in steps {
            assert_eq!(tracing.qualifies(&block), traced);
        }
    }
}
