//! Trace cut into the pieces that were written without a pause.
//!
//! The kernel appends to a ring for each CPU (or thread) and says with an AUX record which bytes it has just written. The
//! recorder copies rings out as AUXTRACE records, whenever it comes to it. Between two AUX records the trace unit was
//! stopped and programmed again: nothing continues from one to the next.

use std::collections::BTreeMap;

use super::record::{Aux, Trailer};
use super::walk::{AuxTrace, Contents};
use crate::store::Extent;

/// The ring filled up, and what followed is lost.
const TRUNCATED: u64 = 1;
/// The ring is overwritten continuously: offsets are those of the end.
const OVERWRITE: u64 = 2;
/// Some of the trace is missing.
const PARTIAL: u64 = 4;
/// Another user of the trace unit was in the way.
const COLLISION: u64 = 8;

/// What wrote the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorder {
    /// Linux perf.
    Perf,
    /// Android's simpleperf.
    Simpleperf,
}

impl Recorder {
    /// The option for a larger buffer of trace.
    fn larger_buffer(self) -> &'static str {
        match self {
            Self::Perf => "-m ,16M",
            Self::Simpleperf => "--aux-buffer-size 16M",
        }
    }
}

/// Whose trace a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ring {
    /// The thread, in a session of threads.
    pub tid: Option<u32>,
    /// The CPU; that of raw trace is the one that wrote it.
    pub cpu: Option<u32>,
    /// Without frames: the bytes of one trace unit.
    pub is_raw: bool,
}

impl Ring {
    pub fn name(&self) -> String {
        let raw = if self.is_raw { "-raw" } else { "" };
        match (self.tid, self.cpu) {
            (Some(tid), Some(cpu)) => format!("thread{tid}-cpu{cpu}{raw}"),
            (Some(tid), None) => format!("thread{tid}{raw}"),
            (None, Some(cpu)) => format!("cpu{cpu}{raw}"),
            (None, None) => format!("trace{raw}"),
        }
    }
}

/// Some bytes of a ring, written without a pause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    pub extents: Vec<Extent>,
    /// When it was complete.
    pub time: Option<u64>,
}

/// The slices of a buffer, and what is missing between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slices {
    pub slices: Vec<Slice>,
    pub truncated: u64,
    pub partial: u64,
    pub collisions: u64,
    /// Slices whose bytes are not in the file, or not all of them.
    pub missing: u64,
    /// Bytes of them that are not in the file.
    pub missing_bytes: u64,
}

/// Where a ring was copied to: a CPU's, or a thread's.
type Key = (Option<u32>, Option<u32>);

fn key(cpu: Option<u32>, tid: u32) -> Key {
    if cpu.is_some() { (cpu, None) } else { (None, Some(tid)) }
}

/// Cuts the trace of a file into slices.
pub(super) fn cut(contents: &Contents) -> BTreeMap<Ring, Slices> {
    let mut copied: BTreeMap<Key, Vec<AuxTrace>> = BTreeMap::new();
    for trace in &contents.traces {
        copied.entry(key(trace.cpu, trace.tid)).or_default().push(*trace);
    }
    copied.values_mut().for_each(|traces| traces.sort_by_key(|trace| trace.offset));
    let mut rings: BTreeMap<Ring, Slices> = BTreeMap::new();
    let mut described: BTreeMap<Key, bool> = BTreeMap::new();
    for (aux, trailer) in &contents.aux {
        let of_cpu = (trailer.cpu, None);
        let of_thread = (None, trailer.thread.map(|(_, tid)| tid));
        let key = [of_cpu, of_thread].into_iter().find(|key| copied.contains_key(key));
        let ring = ring_of(key.unwrap_or(of_cpu), trailer, aux);
        let slices = rings.entry(ring).or_default();
        slices.count(aux.flags);
        if aux.size == 0 {
            continue;
        }
        key.map(|key| described.insert(key, true));
        let traces = key.and_then(|key| copied.get(&key)).map_or(&[][..], Vec::as_slice);
        let (extents, there) = extents(aux, traces);
        let lost = announced(aux, traces).saturating_sub(there);
        slices.missing += u64::from(lost > 0);
        slices.missing_bytes = slices.missing_bytes.saturating_add(lost);
        if !extents.is_empty() {
            slices.slices.push(Slice { extents, time: trailer.time });
        }
    }
    // A stream that was cut off has no AUX records for what it has: each copy is taken as one slice.
    for (&(cpu, tid), traces) in copied.iter().filter(|(key, _)| !described.contains_key(key)) {
        let slices = rings.entry(Ring { tid, cpu, is_raw: false }).or_default();
        slices.slices.extend(traces.iter().filter(|trace| trace.size > 0).map(|trace| Slice {
            extents: vec![Extent { position: trace.position, length: trace.size }],
            time: None,
        }));
    }
    rings.retain(|_, slices| *slices != Slices::default());
    rings
}

fn ring_of((cpu, tid): Key, trailer: &Trailer, aux: &Aux) -> Ring {
    let is_raw = aux.flags >> 8 & 0xFF == 1;
    // Without frames only the record says which trace unit it was.
    let cpu = if is_raw { trailer.cpu.or(cpu) } else { cpu };
    Ring { tid, cpu, is_raw }
}

impl Slices {
    fn count(&mut self, flags: u64) {
        self.truncated += u64::from(flags & TRUNCATED != 0);
        self.partial += u64::from(flags & PARTIAL != 0);
        self.collisions += u64::from(flags & COLLISION != 0);
    }

    /// What is missing, in words: `recorder` says how its buffer is made larger.
    pub fn losses(&self, name: &str, recorder: Recorder) -> Vec<String> {
        let mut losses = Vec::new();
        let mut say = |count: u64, one: &str, many: &str, what: &str| match count {
            0 => {}
            1 => losses.push(format!("{name}: 1 piece of trace {one} {what}")),
            _ => losses.push(format!("{name}: {count} pieces of trace {many} {what}")),
        };
        let larger = recorder.larger_buffer();
        let full =
            format!("the buffer, and what followed is lost: record with a larger one, such as {larger}");
        say(self.truncated, "filled", "filled", &full);
        say(self.partial, "is", "are", "marked as partial: some of the trace before is missing");
        say(self.collisions, "is", "are", "marked as collided: something else used the trace unit");
        let bytes = self.missing_bytes;
        let lost =
            format!("announced, and {bytes} bytes of that are not in the file: the recorder lost them");
        say(self.missing, "is", "are", &lost);
        losses
    }
}

/// How many bytes an AUX record says that there are. Of a ring that is overwritten nobody knows where no copy of it is there.
fn announced(aux: &Aux, traces: &[AuxTrace]) -> u64 {
    if traces.is_empty() { aux.size } else { wanted(aux, traces) }
}

/// How many bytes an AUX record stands for. A ring that is overwritten holds no more than it can.
fn wanted(aux: &Aux, traces: &[AuxTrace]) -> u64 {
    match aux.flags & OVERWRITE {
        0 => aux.size,
        _ => aux.size.min(traces.iter().map(|trace| trace.size).max().unwrap_or(0)),
    }
}

/// Where the bytes of an AUX record are in the file, and how many of them there are. They may have been copied in
/// several pieces.
fn extents(aux: &Aux, traces: &[AuxTrace]) -> (Vec<Extent>, u64) {
    let size = wanted(aux, traces);
    let start = if aux.flags & OVERWRITE != 0 { aux.offset.wrapping_sub(size) } else { aux.offset };
    let (mut extents, mut at, end) = (Vec::new(), start, start.saturating_add(size));
    let mut index = traces.partition_point(|trace| trace.offset <= start).saturating_sub(1);
    while at < end {
        let Some(trace) = traces.get(index).filter(|trace| trace.offset <= at) else { break };
        let within = at - trace.offset;
        let length = trace.size.saturating_sub(within).min(end - at);
        if length > 0 {
            extents.push(Extent { position: trace.position + within, length });
            at += length;
        }
        index += 1;
    }
    (extents, at - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(position: u64, offset: u64, size: u64) -> AuxTrace {
        AuxTrace { position, size, offset, cpu: Some(0), tid: 0 }
    }

    #[test]
    fn a_piece_that_was_copied_in_two_parts_is_put_together() {
        let traces = [trace(1000, 0, 0x50), trace(5000, 0x50, 0x50)];
        let aux = Aux { offset: 0x40, size: 0x20, flags: 0 };
        let expected = [Extent { position: 1064, length: 0x10 }, Extent { position: 5000, length: 0x10 }];
        assert_eq!(extents(&aux, &traces), (expected.to_vec(), 0x20));
    }

    #[test]
    fn a_ring_that_is_overwritten_is_known_by_its_end() {
        let traces = [trace(1000, 0x300, 0x100)];
        let aux = Aux { offset: 0x400, size: 0x4000, flags: OVERWRITE };
        assert_eq!(extents(&aux, &traces), (vec![Extent { position: 1000, length: 0x100 }], 0x100));
    }

    #[test]
    fn bytes_that_the_recorder_lost_are_counted_as_missing() {
        let contents = Contents {
            traces: vec![trace(1000, 0, 0x10)],
            aux: [(0, 0x20), (0x100, 0x20)]
                .map(|(offset, size)| {
                    (Aux { offset, size, flags: 0 }, Trailer { cpu: Some(0), ..Trailer::default() })
                })
                .to_vec(),
            ..Contents::default()
        };
        let rings = cut(&contents);
        let slices = &rings[&Ring { tid: None, cpu: Some(0), is_raw: false }];
        assert_eq!((slices.slices.len(), slices.missing), (1, 2));
    }

    #[test]
    fn trace_without_frames_in_a_session_of_threads_is_sorted_by_cpu() {
        let raw = |cpu, offset| {
            let trailer = Trailer { thread: Some((7, 8)), cpu: Some(cpu), time: None };
            (Aux { offset, size: 0x10, flags: 0x100 }, trailer)
        };
        let traces = vec![AuxTrace { position: 0, size: 0x20, offset: 0, cpu: None, tid: 8 }];
        let contents = Contents { traces, aux: vec![raw(1, 0), raw(2, 0x10)], ..Contents::default() };
        let names: Vec<String> = cut(&contents).keys().map(Ring::name).collect();
        assert_eq!(names, ["thread8-cpu1-raw", "thread8-cpu2-raw"]);
    }

    #[test]
    fn losses_are_told_in_the_words_of_the_recorder() {
        let slices = Slices { truncated: 1, partial: 2, missing: 1, missing_bytes: 77, ..Slices::default() };
        let words = slices.losses("cpu0", Recorder::Simpleperf);
        assert!(
            words[0].contains("1 piece of trace filled") && words[0].contains("--aux-buffer-size"),
            "{words:?}"
        );
        assert!(words[1].starts_with("cpu0: 2 pieces of trace are marked as partial"), "{words:?}");
        assert!(words[2].starts_with("cpu0: 1 piece of trace is announced, and 77 bytes"), "{words:?}");
        assert!(slices.losses("cpu0", Recorder::Perf)[0].ends_with("such as -m ,16M"));
    }

    #[test]
    fn what_an_overwritten_ring_announced_is_lost_without_a_copy_of_it() {
        let aux = Aux { offset: 0x400, size: 0x4000, flags: OVERWRITE };
        assert_eq!((announced(&aux, &[]), announced(&aux, &[trace(0, 0x300, 0x100)])), (0x4000, 0x100));
    }
}
