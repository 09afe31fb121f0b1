//! Where captures are cut.

use backsight_table::{PlanOptions, Wanted, plan};

use super::Pieces;
use crate::args::CaptureArgs;
use crate::failure::{Failure, Result};
use crate::output::{Output, counted, say};

/// Runs the command.
///
/// # Errors
/// If a capture cannot be read: the others are cut all the same.
pub fn run(command: &Pieces) -> Result {
    let wanted: Wanted = command.table.parse()?;
    let options = PlanOptions { bytes: usize::try_from(command.bytes).unwrap_or(usize::MAX).max(1) };
    let path = command.output.as_deref();
    let inputs = command.capture.inputs(&command.images).and(&command.others);
    let mut output = Output::for_tables(path, &inputs, command.json)?;
    let (mut failed, mut count) = (0, 0);
    let mut unknown = command.capture.id.clone();
    for path in std::iter::once(&command.capture.capture).chain(&command.others) {
        count += 1;
        let arguments = command.capture.at(path);
        let capture = arguments.open(&command.images, command.quiet);
        let planned = capture.and_then(|capture| {
            arguments.check_buffers(&capture)?;
            let here = arguments.unknown_ids(&capture);
            unknown.retain(|id| here.contains(id));
            Ok(plan(wanted, &capture, path, options)?)
        });
        let pieces = match planned {
            Ok(pieces) => pieces,
            Err(failure @ Failure::Usage(_)) => return Err(failure),
            Err(failure) => {
                say(failure);
                failed += 1;
                continue;
            }
        };
        let wants = |buffer: &str, id: Option<u8>| {
            let buffers = &command.capture.buffer;
            (buffers.is_empty() || buffers.iter().any(|name| name == buffer))
                && (command.capture.id.is_empty()
                    || id.is_some_and(|id| command.capture.id.contains(&u64::from(id))))
        };
        for piece in pieces.iter().filter(|piece| wants(&piece.buffer, piece.source)) {
            let line = match command.json {
                true => piece.to_json(),
                false => {
                    let source = piece.source.map_or_else(|| "-".to_owned(), |id| format!("{id:#04x}"));
                    let from = piece.start.map_or(0, |cut| cut.offset);
                    let to = piece.end.map_or_else(|| "end".to_owned(), |end| end.to_string());
                    format!("{}  {}  {source}  {from}..{to}", piece.capture.display(), piece.buffer)
                }
            };
            output.put(|out| writeln!(out, "{line}"))?;
        }
    }
    output.finish()?;
    match failed {
        0 => CaptureArgs::check_known(&unknown),
        failed => Err(Failure::new(format!("{failed} of {} could not be read", counted(count, "capture")))),
    }
}
