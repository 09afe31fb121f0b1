//! Calls over time as Chrome's trace events, which Perfetto shows.
//!
//! Time is counted in instructions: one is shown as a nanosecond. Where the trace has timestamps, calls carry them as
//! arguments.

use std::io::Write;

use serde_json::json;

use super::{ExportError, ExportOptions, Format, Need, json_text};
use crate::{Profile, Slice, Thread};

pub(super) const FORMAT: Format = Format {
    name: "chrome",
    title: "Calls over time, thread by thread",
    readers: "ui.perfetto.dev, chrome://tracing",
    needs: &[Need::Symbols, Need::Timeline],
    write,
};

/// Where a call begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallEvent {
    pub phase: Phase,
    pub function: u32,
    pub at: u64,
    pub slice: usize,
}

/// Does it begin or end?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Begin,
    End,
}

/// Beginnings and ends in order, properly inside of each other. Short calls in between were left out.
pub(super) fn events_of(slices: &[Slice]) -> impl Iterator<Item = CallEvent> + '_ {
    let mut open: Vec<(usize, &Slice)> = Vec::new();
    let mut next = slices.iter().enumerate().peekable();
    std::iter::from_fn(move || {
        let begins = next.peek().map(|(_, slice)| slice.begin);
        if let Some(&(number, slice)) = open.last()
            && begins.is_none_or(|begin| slice.end <= begin)
        {
            open.pop();
            return Some(CallEvent {
                phase: Phase::End,
                function: slice.function,
                at: slice.end,
                slice: number,
            });
        }
        let (number, slice) = next.next()?;
        open.push((number, slice));
        Some(CallEvent { phase: Phase::Begin, function: slice.function, at: slice.begin, slice: number })
    })
}

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let title = json_text(&options.title);
    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{title},\"time\":\"1 ns is 1 instruction\"}},"
    )?;
    writeln!(out, "\"traceEvents\":[")?;
    write!(
        out,
        "{}",
        json!({ "ph": "M", "pid": 1, "name": "process_name", "args": { "name": options.title } })
    )?;
    for (thread, number) in profile.threads.iter().zip(1..) {
        let name = format!("{} (1 ns = 1 instruction)", thread.full_name(true));
        let event =
            json!({ "ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": { "name": name } });
        write!(out, ",\n{event}")?;
        write_thread(profile, thread, number, out)?;
    }
    Ok(writeln!(out, "\n]}}")?)
}

fn write_thread(
    profile: &Profile,
    thread: &Thread,
    number: u32,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    for slice in &thread.slices {
        let name = profile.functions.get(slice.function as usize).map_or("?", |function| &function.name);
        let mut arguments = json!({ "instructions": slice.end - slice.begin });
        if let Some(time) = time_at(&thread.timestamps, slice.begin) {
            arguments["timestamp"] = json!(time);
        }
        let event = json!({
            "ph": "X", "pid": 1, "tid": number, "name": name, "cat": "call",
            "ts": slice.begin as f64 / 1000.0, "dur": (slice.end - slice.begin) as f64 / 1000.0,
            "args": arguments,
        });
        write!(out, ",\n{event}")?;
    }
    Ok(())
}

/// The last timestamp before so many instructions.
fn time_at(timestamps: &[(u64, u64)], clock: u64) -> Option<u64> {
    let after = timestamps.partition_point(|&(at, _)| at <= clock);
    Some(timestamps.get(after.checked_sub(1)?)?.1)
}
