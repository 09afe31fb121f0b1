//! Cycles: the same program through harts that retire several instructions at once.

use backsight_core::Execution;
use backsight_riscv::ingress::Ctype;
use backsight_unit::etrace::Tracer;
use backsight_unit::riscv::retire::{Figures, InOrder, Pipeline, Retirement};

use super::Variant;

/// A hart of some shape, with an encoder.
pub struct MeasuredHart {
    shape: Retirement,
    pipeline: Pipeline,
    encoder: Tracer,
}

impl MeasuredHart {
    /// With the options of `variant`; nothing if its encoder cannot be.
    pub fn new(shape: Retirement, variant: &Variant) -> Option<Self> {
        let pipeline = Pipeline::new(shape, variant.params.itype_width, Ctype::Unreported);
        Some(Self { shape, pipeline, encoder: variant.encoder().ok()? })
    }

    /// Takes one step of execution.
    #[inline]
    pub fn push(&mut self, execution: &Execution) {
        self.pipeline.push(execution, &mut InOrder(&mut self.encoder, |_| {}));
    }

    /// What it cost.
    pub fn finish(mut self) -> (Retirement, Figures) {
        self.pipeline.finish(&mut InOrder(&mut self.encoder, |_| {}));
        let mut last = 0;
        self.encoder.finish(&mut |_| last += 1);
        self.pipeline.drain(last);
        (self.shape, self.pipeline.figures())
    }
}
