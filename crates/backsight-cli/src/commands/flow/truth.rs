//! What was really executed: the retired instructions that a recording keeps beside its trace.

use std::collections::BTreeMap;

use backsight::core::TraceId;
use backsight::description::{Capture, FileRef, Format as CaptureFormat};
use backsight::listing::{TruthSettings, TruthWriter};
use backsight_run::TRUTH;
use backsight_run::retired::{RetiredError, RetiredReader};

use super::{Flow, Format};
use crate::failure::{Failure, Result};
use crate::output::{Output, say};

/// Items between two looks at what was written.
const PIECE: usize = 1 << 12;

/// Lists the truth of a capture.
pub fn run(command: &Flow) -> Result {
    if command.format == Format::Branches {
        return Err(Failure::usage("--truth: a list of branches comes from packets, and the truth has none"));
    }
    let capture = command.capture.open(&command.images, command.output.quiet)?;
    command.check_architecture(&capture)?;
    let description = capture.description();
    let file = FileRef::new(&description.folder, TRUTH).map_err(Failure::new)?;
    if description.format == CaptureFormat::Bare || !file.exists() {
        return Err(Failure::new(format!(
            "{}: the capture has no {TRUTH}; record it with --truth",
            command.capture.capture.display()
        )));
    }
    let code = capture.code()?;
    if !command.output.quiet {
        code.warnings().iter().for_each(|warning| say(format_args!("warning: {warning}")));
    }
    let named = |error: &RetiredError| Failure::new(format!("{file}: {error}"));
    let mut reader = RetiredReader::new(file.open().map_err(Failure::new)?).map_err(|error| named(&error))?;
    let inputs = command.capture.inputs(&command.images);
    let mut output = Output::open(command.output.output.as_deref(), &inputs)?.limit(command.limit);
    let settings = TruthSettings {
        style: command.style(false),
        filter: command.filter.options(),
        ids: command.capture.id.clone(),
        threads: ids_of_threads(description),
    };
    let mut writer = TruthWriter::new(settings, code.seen_by_all())?;
    let outcome = match list(&mut reader, &mut writer, &mut output) {
        // That the end is missing is said already.
        Ok(Err(RetiredError::Truncated { .. })) if description.recording().is_some() => {
            end(&mut writer, &mut output).map(|()| Ok(()))
        }
        Ok(outcome) => end(&mut writer, &mut output).map(|()| outcome),
        Err(failure) => Err(failure),
    };
    if matches!(outcome, Ok(Ok(())) | Err(Failure::Enough)) {
        output.finish()?;
        if !command.output.quiet {
            say(format_args!("{} instructions", writer.instructions()));
        }
    }
    outcome?.map_err(|error| named(&error))
}

/// The trace ID of each thread.
fn ids_of_threads(capture: &Capture) -> BTreeMap<u32, TraceId> {
    let thread_of = |name: &str| name.strip_prefix("unit_").and_then(|number| number.parse().ok());
    capture.sources.iter().filter_map(|source| Some((thread_of(&source.name)?, source.id?))).collect()
}

/// The inner error is what is wrong with the file; what came before it is listed on standard output.
fn list(
    reader: &mut RetiredReader<'_>,
    writer: &mut TruthWriter<'_>,
    output: &mut Output,
) -> Result<std::result::Result<(), RetiredError>> {
    loop {
        let mut written = Ok(());
        let more = reader.read_some(PIECE, &mut |item| {
            if written.is_ok() {
                written = writer.item(item);
            }
        });
        written?;
        put_out(writer, output)?;
        match more {
            Ok(true) => {}
            Ok(false) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        }
    }
}

fn end(writer: &mut TruthWriter<'_>, output: &mut Output) -> Result {
    writer.finish()?;
    put_out(writer, output)
}

fn put_out(writer: &mut TruthWriter<'_>, output: &mut Output) -> Result {
    let text = writer.text();
    let outcome = output.put_lines(text);
    text.clear();
    outcome
}
