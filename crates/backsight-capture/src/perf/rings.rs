//! Trace cut into the pieces that were written without a pause.
//!
//! The kernel appends to a ring for each CPU (or thread) and says with an AUX record which bytes it has just written. The
//! recorder copies rings out as AUXTRACE records, whenever it comes to it. Between two AUX records the trace unit was
//! stopped and programmed again: nothing continues from one to the next.

use std::collections::BTreeMap;

use super::record::{Aux, Trailer};
use super::walk::AuxTrace;
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
    /// Slices whose bytes are those of others.
    pub repeated: u64,
}

/// Where a ring was copied to: a CPU's, or a thread's.
type Key = (Option<u32>, Option<u32>);

fn key(cpu: Option<u32>, tid: u32) -> Key {
    if cpu.is_some() { (cpu, None) } else { (None, Some(tid)) }
}

/// Cuts the trace of a file into slices.
pub(super) fn cut(traces: &[AuxTrace], records: &[(Aux, Trailer)]) -> BTreeMap<Ring, Slices> {
    let mut copied: BTreeMap<Key, Copied> = BTreeMap::new();
    for trace in traces {
        copied.entry(key(trace.cpu, trace.tid)).or_default().traces.push(*trace);
    }
    copied.values_mut().for_each(Copied::sort);
    let mut rings: BTreeMap<Ring, Slices> = BTreeMap::new();
    for (aux, trailer) in records {
        let of_cpu = (trailer.cpu, None);
        let of_thread = (None, trailer.thread.map(|(_, tid)| tid));
        let key = [of_cpu, of_thread].into_iter().find(|key| copied.contains_key(key));
        let ring = ring_of(key.unwrap_or(of_cpu), trailer, aux);
        let slices = rings.entry(ring).or_default();
        slices.count(aux.flags);
        if aux.size == 0 {
            continue;
        }
        let Some(copied) = key.and_then(|key| copied.get_mut(&key)) else {
            slices.miss(aux.size);
            continue;
        };
        let extents = copied.take(aux, slices);
        if !extents.is_empty() {
            slices.slices.push(Slice { extents, time: trailer.time });
        }
    }
    // A stream that was cut off has no AUX records for what it has: each copy is taken as one slice.
    for (&(cpu, tid), Copied { traces, .. }) in copied.iter().filter(|(_, copied)| !copied.is_described) {
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
    /// So many bytes of a slice are not in the file.
    fn miss(&mut self, bytes: u64) {
        self.missing += u64::from(bytes > 0);
        self.missing_bytes = self.missing_bytes.saturating_add(bytes);
    }

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
        say(
            self.repeated,
            "lies",
            "lie",
            "over others, which hold its bytes: what is new is read, the rest left out",
        );
        losses
    }
}

/// A ring as it was copied out.
#[derive(Debug, Default)]
struct Copied {
    /// In the order of the ring; none is inside of another.
    traces: Vec<AuxTrace>,
    /// The size of the largest copy.
    largest: u64,
    /// An AUX record speaks of it.
    is_described: bool,
    /// Where the last piece ended that an AUX record stands for.
    taken: u64,
    /// How much the records of a ring that is overwritten may still stand for.
    left: u64,
}

impl Copied {
    /// How often each byte of a ring that is overwritten may be in a piece: snapshots may have parts in common.
    const MOST_TIMES: u64 = 4;

    fn sort(&mut self) {
        self.traces.sort_by_key(|trace| (trace.offset, trace.size));
        let mut sorted: Vec<AuxTrace> = Vec::with_capacity(self.traces.len());
        let end = |trace: &AuxTrace| trace.offset.saturating_add(trace.size);
        for trace in self.traces.drain(..).filter(|trace| trace.size > 0) {
            // Of copies of the same bytes the longest counts, and of those the last.
            while sorted.last().is_some_and(|last| last.offset == trace.offset) {
                sorted.pop();
            }
            if sorted.last().is_none_or(|last| end(last) < end(&trace)) {
                sorted.push(trace);
            }
        }
        self.traces = sorted;
        self.largest = self.traces.iter().map(|trace| trace.size).max().unwrap_or(0);
        self.left = self.traces.iter().map(|trace| trace.size).fold(0, u64::saturating_add);
        self.left = self.left.saturating_mul(Self::MOST_TIMES);
    }

    /// Where the bytes of an AUX record are in the file. They may have been copied in several pieces.
    fn take(&mut self, aux: &Aux, slices: &mut Slices) -> Vec<Extent> {
        self.is_described = true;
        let is_overwritten = aux.flags & OVERWRITE != 0;
        let (start, size) = match is_overwritten {
            // It holds no more than it can, and is known by its end.
            true => {
                let size = aux.size.min(self.largest);
                (aux.offset.wrapping_sub(size), size)
            }
            false => (aux.offset, aux.size),
        };
        let end = start.saturating_add(size);
        // The kernel writes forward: what a record before this one stands for is not written again.
        let mut at = if is_overwritten { start } else { start.max(self.taken) };
        slices.repeated += u64::from(at > start);
        let mut extents = Vec::new();
        let mut index = self.traces.partition_point(|trace| trace.offset <= at).saturating_sub(1);
        while at < end {
            let Some(trace) = self.traces.get(index).filter(|trace| trace.offset <= at) else { break };
            let within = at - trace.offset;
            let length = trace.size.saturating_sub(within).min(end - at);
            if is_overwritten && length > self.left {
                slices.repeated += 1;
                return extents;
            }
            if length > 0 {
                extents.push(Extent { position: trace.position + within, length });
                at += length;
                self.left = self.left.saturating_sub(length);
            }
            index += 1;
        }
        if !extents.is_empty() {
            self.taken = self.taken.max(at);
        }
        slices.miss(end.saturating_sub(at));
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(position: u64, offset: u64, size: u64) -> AuxTrace {
        AuxTrace { position, size, offset, cpu: Some(0), tid: 0 }
    }

    fn copied(traces: &[AuxTrace]) -> Copied {
        let mut copied = Copied { traces: traces.to_vec(), ..Copied::default() };
        copied.sort();
        copied
    }

    #[test]
    fn a_piece_that_was_copied_in_two_parts_is_put_together() {
        let mut copied = copied(&[trace(1000, 0, 0x50), trace(5000, 0x50, 0x50)]);
        let (aux, mut slices) = (Aux { offset: 0x40, size: 0x20, flags: 0 }, Slices::default());
        let expected = [Extent { position: 1064, length: 0x10 }, Extent { position: 5000, length: 0x10 }];
        assert_eq!((copied.take(&aux, &mut slices), slices.missing), (expected.to_vec(), 0));
    }

    #[test]
    fn a_ring_that_is_overwritten_is_known_by_its_end() {
        let mut copied = copied(&[trace(1000, 0x300, 0x100)]);
        let (aux, mut slices) = (Aux { offset: 0x400, size: 0x4000, flags: OVERWRITE }, Slices::default());
        let expected = vec![Extent { position: 1000, length: 0x100 }];
        assert_eq!((copied.take(&aux, &mut slices), slices.missing), (expected, 0));
    }

    #[test]
    fn bytes_of_a_ring_are_read_once_however_often_records_stand_for_them() {
        const COUNT: u64 = 2000;
        let traces: Vec<_> = (0..COUNT).map(|number| trace(number * 8, number * 8, 8)).collect();
        for flags in [0, OVERWRITE] {
            let offset = if flags == 0 { 0 } else { 8 };
            let aux = Aux { offset, size: COUNT * 8, flags };
            let records = vec![(aux, Trailer { cpu: Some(0), ..Trailer::default() }); COUNT as usize];
            let rings = cut(&traces, &records);
            let slices = &rings[&Ring { tid: None, cpu: Some(0), is_raw: false }];
            let extents: usize = slices.slices.iter().map(|slice| slice.extents.len()).sum();
            assert!(extents <= 4 * COUNT as usize, "{extents}");
            assert!(slices.repeated > 0 || flags != 0);
        }
    }

    #[test]
    fn the_longest_copy_of_the_same_bytes_counts() {
        let mut copied =
            copied(&[trace(1000, 0, 8), trace(2000, 0, 16), trace(3000, 4, 8), trace(4000, 0, 16)]);
        let (aux, mut slices) = (Aux { offset: 0, size: 16, flags: 0 }, Slices::default());
        assert_eq!(copied.take(&aux, &mut slices), [Extent { position: 4000, length: 16 }]);
    }

    #[test]
    fn bytes_that_the_recorder_lost_are_counted_as_missing() {
        let trailer = Trailer { cpu: Some(0), ..Trailer::default() };
        let records =
            [(0, 0x20), (0x100, 0x20)].map(|(offset, size)| (Aux { offset, size, flags: 0 }, trailer));
        let rings = cut(&[trace(1000, 0, 0x10)], &records);
        let slices = &rings[&Ring { tid: None, cpu: Some(0), is_raw: false }];
        assert_eq!((slices.slices.len(), slices.missing), (1, 2));
    }

    #[test]
    fn trace_without_frames_in_a_session_of_threads_is_sorted_by_cpu() {
        let raw = |cpu, offset| {
            let trailer = Trailer { thread: Some((7, 8)), cpu: Some(cpu), time: None };
            (Aux { offset, size: 0x10, flags: 0x100 }, trailer)
        };
        let traces = [AuxTrace { position: 0, size: 0x20, offset: 0, cpu: None, tid: 8 }];
        let names: Vec<String> = cut(&traces, &[raw(1, 0), raw(2, 0x10)]).keys().map(Ring::name).collect();
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
        let trailer = Trailer { cpu: Some(0), ..Trailer::default() };
        let missing = |traces: &[AuxTrace]| {
            let rings = cut(traces, &[(aux, trailer)]);
            rings[&Ring { tid: None, cpu: Some(0), is_raw: false }].missing_bytes
        };
        assert_eq!((missing(&[]), missing(&[trace(0, 0x300, 0x100)])), (0x4000, 0));
    }
}
