//! Cycles: the same program through harts that retire several instructions at once.

use std::fmt::Write;

use backsight_core::Execution;
use backsight_riscv::etrace::Encoder;
use backsight_riscv::ingress::Ctype;
use backsight_riscv::retire::{Figures, InOrder, Pipeline, Retirement};
use serde_json::{Value, json};

use super::measure::Measured;
use super::variants::Variant;

/// A hart of some shape with an encoder behind it.
pub struct Shaped {
    shape: Retirement,
    pipeline: Pipeline,
    encoder: Encoder,
}

impl Shaped {
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

const HEADER: &str = "  shape                 cycles  inst/cycle  blocks/cycle  most  packets/cycle  most  held early    stalls";

/// The figures of all programs as rows; nothing if none were asked for.
pub fn text(measured: &[Measured]) -> String {
    let mut text = String::new();
    for program in measured.iter().filter(|program| !program.shapes.is_empty()) {
        let _ = writeln!(text, "\n{}: cycles of the hart, baseline options\n{HEADER}", program.name);
        for (shape, figures) in &program.shapes {
            let _ = writeln!(
                text,
                "  {:<18}{:>10}{:>12.3}{:>14.3}{:>6}{:>15.4}{:>6}{:>12}{:>10}",
                shape.to_string(),
                figures.cycles,
                figures.instructions_per_cycle(),
                figures.blocks_per_cycle(),
                figures.most_blocks(),
                figures.packets_per_cycle(),
                figures.most_packets(),
                figures.held,
                figures.stalls + figures.waits,
            );
        }
    }
    text
}

/// The same of one program as a list.
pub fn json(program: &Measured) -> Value {
    let shapes = program.shapes.iter().map(|(shape, figures)| {
        json!({
            "shape": shape.to_string(),
            "cycles": figures.cycles,
            "commit_cycles": figures.commit_cycles,
            "held_early": figures.held,
            "stalls": figures.stalls,
            "waits": figures.waits,
            "blocks": figures.blocks,
            "packets": figures.packets,
            "most_packets_waiting": figures.most_waiting,
            "cycles_by_blocks": figures.by_blocks,
            "cycles_by_packets": figures.by_packets,
        })
    });
    shapes.collect()
}
