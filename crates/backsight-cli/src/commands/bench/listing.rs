//! What commands do with execution, but for writing it to a file.

use std::sync::Arc;

use backsight::decode::Written;
use backsight::listing::{
    Detail, ExecutionFormat, ExecutionWriter, Filter, FilterOptions, ListedCounts, Style,
};
use backsight::{Buffer, Capture, Source};
use backsight_profile::CountOptions;

use super::{Bench, Work};
use crate::args::CaptureArgs;
use crate::failure::Result;
use crate::output::listed;

/// What comes of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// A profile.
    Counts,
    /// A line for each stay in a function.
    Calls,
    /// A line for each range.
    Text,
    /// A line for each instruction.
    Pcs,
}

/// A buffer of which something is made.
pub struct Listing<'c> {
    capture: &'c Capture,
    arguments: &'c CaptureArgs,
    buffer: String,
    list: List,
}

impl<'c> Listing<'c> {
    pub fn new(command: &'c Bench, capture: &'c Capture, buffer: &Buffer, list: List) -> Self {
        Self { capture, arguments: &command.capture, buffer: buffer.name().to_owned(), list }
    }

    /// Makes it once.
    pub fn pass(&self, bytes: u64, threads: usize) -> Result<Work> {
        let decode = self.arguments.choose(self.capture.execution(), self.capture, true);
        let decode = decode.only(&self.buffer).positions(false).threads(threads);
        let detail = if self.list == List::Calls { Detail::Calls } else { Detail::Ranges };
        let format = if self.list == List::Pcs { ExecutionFormat::Pcs } else { ExecutionFormat::Text };
        if self.list == List::Counts {
            let (profile, summary) =
                backsight_profile::count(self.capture, decode, &CountOptions::default())?;
            let instructions = profile.totals.instructions;
            return Ok(Work { bytes, packets: summary.packets(), instructions, text: 0 });
        }
        let code = self.capture.code()?;
        let (style, counts) = (Style { format, detail, ..Style::default() }, Arc::<ListedCounts>::default());
        let make = |source: &Source| {
            let filter = Filter::new(&FilterOptions::default(), || code.of(source))?;
            Ok(ExecutionWriter::new(style, source, code.seen_by(source), filter, Arc::clone(&counts)))
        };
        let mut text = 0;
        let mut put = |written: Written<'_>| {
            if let Written::Text(lines) = written {
                text += lines.len() as u64;
            }
            Ok(())
        };
        let summary = listed(|put| ExecutionWriter::write(decode, &make, put), &mut put)?;
        let instructions = summary.statistics().instructions;
        Ok(Work { bytes, packets: summary.packets(), instructions, text })
    }
}
