//! `flow --all`: what all sources report, on one time axis.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::Capture;
use backsight::decode::{Consumer as _, Summary};
use backsight::listing::{ExecutionWriter, Filter, ListedCounts};

use super::Flow;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Text that is written together.
const ENOUGH: usize = 1 << 16;

/// Lists everything in the order of time.
pub(super) fn list(
    command: &Flow,
    capture: &Capture,
    output: &mut Output,
    counts: &Arc<ListedCounts>,
) -> Result<Summary> {
    let arguments = &command.capture;
    let quiet = command.output.quiet || output.is_terminal();
    let code = capture.code()?;
    let style = command.style(arguments.chooses_several(capture));
    let options = command.filter.options();
    let mut writers: BTreeMap<(String, u8), ExecutionWriter<'_>> = BTreeMap::new();
    let (mut text, mut failure) = (Vec::new(), None);
    let decode = arguments.choose(capture.execution(), capture, quiet).strict_image(command.strict_image);
    let summary = decode.run_by_time(|item, time| {
        let source = item.source;
        let key = (source.buffer().to_owned(), source.frame_id().get());
        let writer = match writers.entry(key) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let filter = match Filter::new(&options, || code.of(source)) {
                    Ok(filter) => filter.harts(&command.hart),
                    Err(error) => {
                        failure = Some(Failure::from(error));
                        return ControlFlow::Break(());
                    }
                };
                let code = code.seen_by(source);
                entry.insert(ExecutionWriter::new(style, source, code, filter, Arc::clone(counts)))
            }
        };
        writer.at(time, item.window);
        writer.item(item);
        writer.text().into_iter().for_each(|line| text.append(line));
        if text.len() < ENOUGH {
            return ControlFlow::Continue(());
        }
        let written = output.put_lines(&text);
        text.clear();
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match failure {
        Some(failure) => Err(failure),
        None => {
            output.put_lines(&text)?;
            Ok(summary)
        }
    }
}
