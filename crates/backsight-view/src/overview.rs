//! What there is to look at: recordings, sources, lanes, clocks; and how far the index is.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::ask::Ask;
use crate::chart::Lane;
use crate::names::shown;
use crate::recording::Recording;
use crate::view::{Failed, View};
use crate::windows::formats;

/// Columns of an answer, at most.
const MOST_COLUMNS: u64 = 4_096;

/// Warnings of a recording that are shown.
const MOST_WARNINGS: usize = 100;

impl View<'_> {
    /// What does not change.
    pub(crate) fn overview(&self) -> Value {
        let recordings: Vec<_> = self.recordings.iter().map(|one| self.recording_value(one)).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"), "recordings": recordings, "formats": formats(),
            "gdb": self.gdb, "has_sources": !self.sources.is_empty(),
        })
    }

    fn recording_value(&self, recording: &Recording<'_>) -> Value {
        let sources: Vec<_> = recording
            .sources
            .iter()
            .enumerate()
            .map(|(number, source)| {
                let known = recording.known(number);
                let lanes = known.map_or(&[][..], |known| &known.lanes);
                let lanes: Vec<_> = lanes.iter().map(|lane| lane_value(recording, number, *lane)).collect();
                json!({
                    "name": shown(source.name()), "buffer": shown(source.buffer()), "id": source.id().get(),
                    "protocol": source.protocol().map(|names| names.name), "instructions": known.map(|known| known.instructions),
                    "lanes": lanes, "times": known.map(|known| since(recording, &known.times)),
                    "points": known.map(|known| known.points.len()),
                })
            })
            .collect();
        let description = recording.capture.description();
        let code = recording.capture.code().ok();
        let modules = code.map(|code| {
            let modules = code.image().modules().iter().take(1_000);
            modules.map(|module| shown(&module.name().to_string_lossy())).collect::<Vec<_>>()
        });
        let warnings = recording
            .capture
            .warnings()
            .iter()
            .cloned()
            .chain(code.into_iter().flat_map(|code| code.warnings()));
        json!({
            "name": shown(&recording.name), "description": description.description.as_deref().map(shown),
            "frequency": description.timestamp_frequency, "bytes": recording.total, "sources": sources,
            "modules": modules, "warnings": warnings.take(MOST_WARNINGS).map(|text| shown(&text)).collect::<Vec<_>>(),
            "is_indexed": recording.is_indexed(),
        })
    }

    /// How far indexes are: bytes that were read, and of how many.
    pub(crate) fn progress(&self) -> Value {
        let recordings = self.recordings.iter().map(|recording| {
            // Each byte is read once for each source of its buffer; nobody waits for more than all.
            let read = recording.read.load(Ordering::Relaxed).min(recording.total);
            json!({
                "read": read, "total": recording.total, "is_indexed": recording.is_indexed(),
                "failed": recording.failure().map(|why| shown(&why)),
            })
        });
        recordings.collect()
    }

    /// What the index counts, by columns: exceptions, gaps, contexts, functions entered, and bytes of trace.
    pub(crate) fn counters(&self, ask: Ask<'_>) -> Result<Value, Failed> {
        let recording = self.recording(ask.get("recording")?)?;
        let number: usize = ask.get("source")?;
        let source = recording.sources.get(number).ok_or("there is no such source")?;
        let (from, to): (u64, u64) = (ask.get("from")?, ask.get("to")?);
        let columns = ask.or("columns", 500_u64)?.clamp(1, MOST_COLUMNS);
        let length = u128::from(to.checked_sub(from).filter(|length| *length > 0).ok_or("an empty window")?);
        let moments = recording.moments();
        let Some(index) = moments.known_index().and_then(|index| index.source(source)) else {
            return Ok(Value::Null);
        };
        let column = |at: u64| (u128::from(at - from) * u128::from(columns) / length) as usize;
        let mut counts = vec![[0_u64; 4]; columns as usize];
        let mut begin = 0;
        for part in index.part_sums() {
            let (first, end) = (begin.max(from), part.end.min(to));
            begin = part.end;
            if first < end {
                // A part that is longer than a column counts where its middle is.
                let count = &mut counts[column(first + (end - first) / 2).min(columns as usize - 1)];
                let counted = &part.counts;
                let contexts = counted.contexts.iter().map(|(_, times)| times).sum();
                let entered = counted.functions.iter().map(|function| function.entered).sum();
                let all = [counted.exceptions, counted.gaps, contexts, entered];
                count.iter_mut().zip(all).for_each(|(sum, more)| *sum += more);
            }
        }
        // Bytes of the stream that came before instructions.
        let mut bytes: Vec<(u64, u64)> = Vec::new();
        for point in &index.points {
            let at = point.place.instructions;
            let is_next = |last: &(u64, u64)| {
                at > last.0 && (at < from || at >= to || column(at) > column(last.0.clamp(from, to)))
            };
            if bytes.last().is_none_or(is_next) {
                bytes.push((at, point.cut.offset));
            }
        }
        let first = bytes.partition_point(|known| known.0 < from).saturating_sub(1);
        let end = (bytes.partition_point(|known| known.0 < to) + 1).min(bytes.len());
        Ok(json!({ "counts": counts, "bytes": bytes.get(first..end).unwrap_or_default() }))
    }
}

/// Instructions and times, counted from the first one.
pub(crate) fn since(recording: &Recording<'_>, times: &[(u64, u64)]) -> Vec<(u64, u64)> {
    times.iter().map(|&(instruction, time)| (instruction, recording.since(time))).collect()
}

pub(crate) fn lane_value(recording: &Recording<'_>, source: usize, lane: Lane) -> Value {
    let thread = lane.thread.map(|thread| format!("{thread:#x}"));
    json!({ "hart": lane.hart, "thread": thread, "name": shown(&recording.lane_name(source, lane)) })
}
