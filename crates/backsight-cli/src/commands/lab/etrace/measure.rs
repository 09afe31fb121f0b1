//! One program, run once, encoded in every way.

use backsight_core::Execution;
use backsight_riscv::etrace::EncoderError;
use backsight_riscv::ingress::{Builder, Ctype, Ingress};
use backsight_riscv::retire::{Figures as Cycles, Retirement};
use backsight_sim::{Exit, Options, Simulator, Streams};

use super::lane::Lane;
use super::retire::Shaped;
use super::variants::{BASELINE, Variant};
use crate::failure::{Failure, Result};

/// What encoding a program gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Instructions that it committed.
    pub instructions: u64,
    /// How its run ended.
    pub end: String,
    /// Figures of each variant, or why there are none.
    pub figures: Vec<std::result::Result<Figures, EncoderError>>,
    /// What the cycles of harts of other shapes cost.
    pub shapes: Vec<(Retirement, Cycles)>,
}

/// What one encoder sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Packets.
    pub packets: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

impl Figures {
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
    fn of(&self, variant: usize) -> Option<&Figures> {
        self.figures.get(variant)?.as_ref().ok()
    }

    /// The rate of a variant.
    pub fn rate(&self, variant: usize) -> Option<f64> {
        self.of(variant).map(|figures| figures.rate(self.instructions))
    }

    /// Bits for each instruction with a variant.
    pub fn bits(&self, variant: usize) -> Option<f64> {
        self.of(variant).map(|figures| figures.bits_per_instruction(self.instructions))
    }
}

impl Figures {
    /// One packet more, of so many bytes.
    pub fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Runs a program and encodes what it executed. It sees no files and no input, and its output goes nowhere.
/// `shapes` are those of harts whose cycles are counted, with the options of the baseline.
pub fn measure(
    name: &str,
    file: &[u8],
    limit: u64,
    variants: &[Variant],
    shapes: &[Retirement],
) -> Result<Measured> {
    let options = Options {
        arguments: vec![name.to_owned()],
        streams: Streams::none(),
        host_files: false,
        instructions: limit,
        ..Options::default()
    };
    let mut simulator =
        Simulator::load(file, options).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let mut lanes: Vec<_> = variants.iter().map(Lane::new).collect();
    let itype_width = variants.first().map_or(4, |variant| variant.params.itype_width);
    let mut builder = Builder::new(itype_width, Ctype::Unreported);
    let baseline = variants.get(BASELINE);
    let mut shaped: Vec<_> =
        shapes.iter().filter_map(|&shape| baseline.and_then(|variant| Shaped::new(shape, variant))).collect();
    let mut instructions = 0;
    let mut each = |ingress: Ingress| lanes.iter_mut().flatten().for_each(|lane| lane.push(&ingress));
    let exit = simulator.run(&mut |execution| {
        instructions += u64::from(matches!(execution, Execution::Instruction(_)));
        builder.push(&execution, &mut each);
        shaped.iter_mut().for_each(|hart| hart.push(&execution));
    });
    builder.finish(&mut each);
    if instructions == 0 {
        return Err(Failure::new(format!("{name}: no instruction retired: {exit}")));
    }
    let end = match exit {
        Exit::Limit => format!("stopped after {instructions} instructions"),
        other => other.to_string(),
    };
    let figures = lanes.into_iter().map(|lane| lane.map(Lane::finish)).collect();
    let shapes = shaped.into_iter().map(Shaped::finish).collect();
    Ok(Measured { name: name.to_owned(), instructions, end, figures, shapes })
}
