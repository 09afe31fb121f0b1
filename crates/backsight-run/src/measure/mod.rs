//! How well RISC-V trace compresses: one program, run once, encoded in every way.
//!
//! Every block that retires goes to one encoder for each [`Variant`]. What the encoders send is counted as the thesis on
//! the RTL encoder counted it. For Arm, [`bandwidth`] has what trace units send and how fast.

pub mod bandwidth;
mod cycles;
mod encoder;
mod variants;

use backsight_core::Execution;
use backsight_riscv::ingress::{Builder, Ctype, Ingress};
use backsight_unit::etrace::UnitError;
use backsight_unit::riscv::retire::{Figures, Retirement};

use self::cycles::MeasuredHart;
use self::encoder::MeasuredEncoder;
pub use self::variants::{BASELINE, CVA6, Variant, Which, variants};
use crate::{Ended, Error, ExecutionSource, Observation};

/// What encoding a program gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Instructions that it committed.
    pub instructions: u64,
    /// How its run ended.
    pub ended: Ended,
    /// What each variant sent, or why there is none.
    pub sent: Vec<Result<Sent, UnitError>>,
    /// What the cycles of harts of other shapes cost.
    pub shapes: Vec<(Retirement, Figures)>,
}

/// What one encoder sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

impl Sent {
    /// How much smaller than 32 bits for each instruction, in percent.
    pub fn rate(&self, instructions: u64) -> f64 {
        (1.0 - 8.0 * self.bytes as f64 / (32.0 * instructions.max(1) as f64)) * 100.0
    }

    /// Bits sent for each instruction.
    pub fn bits_per_instruction(&self, instructions: u64) -> f64 {
        8.0 * self.bytes as f64 / instructions.max(1) as f64
    }
}

impl Measured {
    fn of(&self, variant: usize) -> Option<&Sent> {
        self.sent.get(variant)?.as_ref().ok()
    }

    /// The rate of a variant.
    pub fn rate(&self, variant: usize) -> Option<f64> {
        self.of(variant).map(|sent| sent.rate(self.instructions))
    }

    /// Bits for each instruction with a variant.
    pub fn bits(&self, variant: usize) -> Option<f64> {
        self.of(variant).map(|sent| sent.bits_per_instruction(self.instructions))
    }
}

impl Sent {
    /// One packet more, of so many bytes.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Runs a program and encodes what it executes. `shapes` are those of harts whose cycles are counted, with the options
/// of the baseline.
///
/// # Errors
/// If it cannot be run, or no instruction retires.
pub fn measure(
    name: &str,
    source: &mut dyn ExecutionSource,
    variants: &[Variant],
    shapes: &[Retirement],
) -> Result<Measured, Error> {
    let mut encoders: Vec<_> = variants.iter().map(MeasuredEncoder::new).collect();
    let itype_width = variants.first().map_or(4, |variant| variant.params.itype_width);
    let mut builder = Builder::new(itype_width, Ctype::Unreported);
    let baseline = variants.get(BASELINE);
    let mut harts: Vec<_> = shapes
        .iter()
        .filter_map(|&shape| baseline.and_then(|variant| MeasuredHart::new(shape, variant)))
        .collect();
    let mut instructions = 0;
    let mut each =
        |ingress: Ingress| encoders.iter_mut().flatten().for_each(|encoder| encoder.push(&ingress));
    let ending = source.run(&mut |seen| {
        let Observation::Execution(execution) = seen else { return };
        instructions += u64::from(matches!(execution, Execution::Instruction(_)));
        builder.push(&execution, &mut each);
        harts.iter_mut().for_each(|hart| hart.push(&execution));
    })?;
    builder.finish(&mut each);
    if instructions == 0 {
        return Err(Error::NothingExecuted { name: name.to_owned(), ended: ending.ended });
    }
    let sent = encoders.into_iter().map(|encoder| encoder.map(MeasuredEncoder::finish)).collect();
    let shapes = harts.into_iter().map(MeasuredHart::finish).collect();
    Ok(Measured { name: name.to_owned(), instructions, ended: ending.ended, sent, shapes })
}
