//! `flow --all`: what all sources report, on one time axis.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::decode::{Consumer as _, Summary, TimeBounds};
use backsight::listing::{ExecutionWriter, Filter, ListedCounts};
use backsight::moments::Moment;
use backsight::{Capture, Event};

use super::Flow;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::window::{SpanArgs, WindowArgs, Windows};

/// Text that is written together.
const ENOUGH: usize = 1 << 16;

/// Refuses windows that are no part of a time axis.
pub(super) fn check(window: &WindowArgs) -> Result {
    let is_time = |moment: Option<Moment>| matches!(moment, None | Some(Moment::Time(_)));
    let SpanArgs { from, to } = window.span;
    match window.is_given() && (window.span.window().is_everything() || !is_time(from) || !is_time(to)) {
        true => {
            Err(Failure::usage("--all has one time axis: it takes --from and --to, with times as in t5000"))
        }
        false => Ok(()),
    }
}

/// Where something is that happened then.
fn relation(time: TimeBounds, window: &SpanArgs) -> Ordering {
    let is_before = |edge: Option<Moment>| match edge {
        Some(Moment::Time(edge)) => Some(time.estimate.is_none_or(|time| time < edge)),
        _ => None,
    };
    match (is_before(window.from), is_before(window.to)) {
        (Some(true), _) => Ordering::Less,
        (_, Some(false)) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Lists everything in the order of time, or the part of it that a window names.
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
    let (mut text, mut failure, mut has_begun) = (Vec::new(), None, false);
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
        let relation = relation(time, &command.window.span);
        has_begun |= relation != Ordering::Less;
        writer.at(time, item.window);
        match (relation, &item.value) {
            (Ordering::Equal, _) => writer.item(item),
            (Ordering::Greater, _) => return ControlFlow::Break(()),
            (Ordering::Less, Event::Range(_)) if !writer.keeps_calls() => return ControlFlow::Continue(()),
            (Ordering::Less, _) => {
                writer.item(item);
                writer.text().into_iter().for_each(Vec::clear);
                writer.begin_window();
            }
        }
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
        None if !has_begun && command.window.is_given() => {
            Windows::default().finish(&command.window, capture).map(|()| summary)
        }
        None => {
            output.put_lines(&text)?;
            Ok(summary)
        }
    }
}
