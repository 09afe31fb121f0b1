//! `backsight decompress`: restores what `compress` squeezed.

use std::io::Write;
use std::path::PathBuf;

use backsight_core::{Execution, ExecutionSink, RetiredBlock};
use backsight_image::ImageSpec;
use backsight_run::retired::RetiredWriter;
use backsight_squeeze::container::Reader;
use clap::Args;

use super::compress::{open, program};
use crate::failure::{Failure, Result};
use crate::output::{Inputs, Output, not_written, say};

/// Restore compressed executed instructions
///
/// The result is a file of retired instructions. If INPUT is damaged, no file is written, and the exit status is 1; with
/// `-o -`, what comes before the damage goes to standard output.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Decompress {
    /// A file that `compress` wrote; `-` is standard input
    input: PathBuf,

    /// The file to write; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// The program that was executed, as it was given to `compress`
    #[arg(long, value_name = "FILE[@ADDRESS]")]
    program: Option<ImageSpec>,

    /// No summary
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight decompress run.small -o run.retired
  backsight decompress run.small -o run.retired --program program";

/// Writes what is restored.
struct Restored<W> {
    writer: RetiredWriter<W>,
    written: std::io::Result<()>,
}

impl<W: Write> ExecutionSink for Restored<W> {
    fn item(&mut self, item: Execution) {
        if self.written.is_ok() {
            self.written = self.writer.push(&item);
        }
    }

    fn block(&mut self, block: &RetiredBlock<'_>) {
        if self.written.is_ok() {
            self.written = self.writer.push_block(block);
        }
    }
}

/// Runs the command.
pub fn run(command: &Decompress) -> Result {
    let named = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", command.input.display()));
    let inputs = Inputs::none().and([&command.input]).and(command.program.iter().map(|spec| &spec.file));
    let output = Output::open(Some(&command.output), &inputs)?;
    let program = command.program.as_ref().map(program).transpose()?;
    let mut reader = Reader::new(open(&command.input)?, program.as_ref()).map_err(|error| named(&error))?;
    let to = |why: &dyn std::fmt::Display| not_written(&command.output, why);
    let writer = RetiredWriter::new(output, reader.header().isa).map_err(|error| to(&error))?;
    let mut restored = Restored { writer, written: Ok(()) };
    let read = loop {
        match reader.next_blocks(&mut restored) {
            Ok(true) if restored.written.is_ok() => {}
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    restored.written.map_err(|error| to(&error))?;
    let output = restored.writer.finish().map_err(|error| to(&error))?;
    if let Err(error) = read {
        let is_file = command.output.as_os_str() != "-";
        let kept = if is_file { "; with -o -, what comes before the damage is written" } else { "" };
        return Err(named(&format_args!("{error}{kept}")));
    }
    output.finish()?;
    if !command.quiet {
        say(format_args!("{} instructions, {}", reader.instructions(), reader.header().scheme.name()));
    }
    Ok(())
}
