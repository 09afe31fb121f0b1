//! `backsight doctor`: why a result is empty, wrong or thin.

use backsight::doctor::{self, Finding, Severity};
use clap::Args;
use serde_json::json;

use crate::args::{CaptureArgs, ImageArgs, OutputArgs};
use crate::failure::{Failure, Result};
use crate::output::{Output, counted};

/// Say why a result is empty, wrong or thin, and what to do
///
/// Looks at everything between the capture and a good profile: buffers, framing, protocol, configuration, trace IDs,
/// losses, programs and their versions, contexts, clocks, debug information. What can be tried is tried.
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

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight doctor capture/                       what is wrong with a capture
  backsight doctor perf.data --symfs rootfs/      with the files of the traced system
  backsight doctor capture/ --strict && echo good exit status 1 if there is a problem";

/// Runs the command.
pub fn run(command: &Doctor) -> Result {
    let capture = command.capture.open(&command.images, true)?;
    let findings = doctor::examine(&capture)?;
    let path = command.output.output.as_deref();
    let mut output = if command.json { Output::open(path)? } else { Output::for_people(path)? };
    for finding in &findings {
        let line = if command.json { as_json(finding) } else { finding.to_string() };
        output.put(|out| writeln!(out, "{line}"))?;
    }
    let fatal = findings.iter().filter(|finding| finding.severity == Severity::Fatal).count();
    if !command.json && findings.is_empty() {
        output.put(|out| writeln!(out, "nothing is wrong with this capture"))?;
    }
    output.finish()?;
    match command.output.strict && fatal > 0 {
        true => Err(Failure::new(format!("{} (--strict)", counted(fatal as u64, "problem")))),
        false => Ok(()),
    }
}

fn as_json(finding: &Finding) -> String {
    let Finding { severity, cause, what, advice } = finding;
    json!({"severity": severity.name(), "cause": cause.name(), "what": what, "advice": advice}).to_string()
}
