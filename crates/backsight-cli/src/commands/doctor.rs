//! `backsight doctor`: why a result is empty, wrong or thin.

use std::path::PathBuf;

use backsight::doctor::{self, Finding, Severity};
use clap::Args;
use serde_json::json;

use crate::args::{CaptureArgs, ImageArgs};
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Say why a result is empty, wrong or thin, and what to do
///
/// Looks at everything between the capture and a good profile: buffers, framing, protocol, configuration, trace IDs,
/// losses, programs and their versions, contexts, clocks, debug information. What can be tried is tried. Of a bare file it
/// says what it holds, and the command that reads it. The likeliest cause comes first.
///
/// Exit status: 0 nothing is wrong (notes may be there), 3 something is, 1 could not be found out, 2 wrong use.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// One JSON object a line
    #[arg(long)]
    json: bool,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  backsight doctor capture/                       what is wrong with a capture
  backsight doctor perf.data --symfs rootfs/      with the files of the traced system
  backsight doctor trace.bin                      what a bare file holds
  backsight doctor capture/ && echo good          exit status 3 if something is wrong";

/// Runs the command.
pub fn run(command: &Doctor) -> Result {
    command.capture.check(&command.images)?;
    let findings = match command.capture.open_as(&command.images) {
        Ok(capture) => doctor::examine(&capture)?,
        Err(error) => match doctor::of_failure(&error) {
            Some(finding) => vec![finding],
            None => return Err(error.into()),
        },
    };
    let path = command.output.as_deref();
    let inputs = command.capture.inputs(&command.images);
    let mut output = match command.json {
        true => Output::for_tables(path, &inputs, true)?,
        false => Output::for_people(path, &inputs)?,
    };
    for finding in &findings {
        let line = if command.json { as_json(finding) } else { finding.to_string() };
        output.put(|out| writeln!(out, "{line}"))?;
    }
    let is_wrong = findings.iter().any(|finding| finding.severity != Severity::Note);
    if !command.json && !is_wrong {
        output.put(|out| writeln!(out, "nothing is wrong with this capture"))?;
    }
    output.finish()?;
    if is_wrong { Err(Failure::Found) } else { Ok(()) }
}

fn as_json(finding: &Finding) -> String {
    let Finding { severity, cause, what, advice, commands, .. } = finding;
    let (severity, cause) = (severity.name(), cause.name());
    json!({"severity": severity, "cause": cause, "what": what, "advice": advice, "commands": commands})
        .to_string()
}
