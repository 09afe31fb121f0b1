//! `flow --from`, `--to`, `--last` and `--around`: what lies between two moments.

use std::collections::BTreeMap;
use std::sync::Arc;

use backsight::Capture;
use backsight::decode::Written;
use backsight::listing::{
    BranchWriter, EventNames, ExecutionFormat, ExecutionWriter, Filter, ListedCounts, Printable,
};

use super::{Flow, Format, messages};
use crate::failure::Result;
use crate::index_file;
use crate::output::{Output, listed};
use crate::window::Windows;

/// Lists a window of each source, one after the other.
pub(super) fn list(
    command: &Flow,
    capture: &Capture,
    output: &mut Output,
    counts: &Arc<ListedCounts>,
) -> Result<Windows> {
    let arguments = &command.capture;
    let quiet = command.output.quiet || output.is_terminal();
    let style = command.style(arguments.chooses_several(capture));
    let several = style.name_buffers;
    let named = several && matches!(command.format, Format::Text | Format::Opencsd);
    let positions = matches!(style.format, ExecutionFormat::Json | ExecutionFormat::Opencsd)
        && command.format != Format::Branches;
    let decode = arguments.choose(capture.execution(), capture, quiet).positions(positions);
    let decode = decode.as_opencsd(style.format == ExecutionFormat::Opencsd);
    let decode = decode.strict_image(command.strict_image);
    // What is followed in another way has other points.
    let moments = match command.strict_image || style.format == ExecutionFormat::Opencsd {
        true => capture.moments(),
        false => index_file::moments(arguments, capture, command.output.quiet),
    };
    let (code, filter) = (capture.code()?, command.filter.options());
    let (mut windows, mut last_buffer) = (Windows::default(), None);
    for (source, window) in &command.window.of_sources(&moments, &decode)? {
        if named && last_buffer.replace(source.buffer().to_owned()).is_none_or(|last| last != source.buffer())
        {
            output.put(|out| writeln!(out, "# buffer {}", Printable(source.buffer())))?;
        }
        let filter = Filter::new(&filter, || code.of(source))?.harts(&command.hart);
        let mut put = |written: Written<'_>| match written {
            Written::Text(text) => output.put_lines(text),
            Written::Buffer(_) => Ok(()),
        };
        let (decode, place) = (decode.clone(), (source, *window));
        let found = match (command.messages, command.format) {
            (Some(how), format) => {
                let writer = messages::writer(how, format, source, several);
                listed(|put| writer.write_window(&moments, decode, place, put), &mut put)?
            }
            (None, Format::Branches) => {
                let names = EventNames(command.event.iter().cloned().collect::<BTreeMap<_, _>>());
                let writer = BranchWriter::new(filter.following(code.seen_by(source)), names);
                listed(|put| writer.write_window(&moments, decode, place, put), &mut put)?
            }
            (None, _) => {
                let seen = code.seen_by(source);
                let writer = ExecutionWriter::new(style, source, seen, filter, Arc::clone(counts));
                listed(|put| writer.write_window(&moments, decode, place, put), &mut put)?
            }
        };
        windows.add(source, &found, command.output.quiet);
    }
    Ok(windows)
}
