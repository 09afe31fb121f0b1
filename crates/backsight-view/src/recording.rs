//! A capture with its index, as far as that is there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock};

use backsight::decode::{Decode, Execution};
use backsight::moments::{Index, Moments, SourceIndex};
use backsight::{Capture, Result, Source};

use crate::chart::Lane;

/// Lanes of a source that are known before anything is looked at.
const MOST_LANES: usize = 1 << 12;

/// Points of the clock of a source that a page is told.
const MOST_TIMES: usize = 4_096;

/// What the index says of a source, prepared for answers.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Instructions of the source.
    pub instructions: u64,
    /// Where points are, and whether the calls under way are known there.
    pub points: Vec<(u64, bool)>,
    pub lanes: Vec<Lane>,
    /// What time it was before some instructions.
    pub times: Vec<(u64, u64)>,
}

/// A capture that is looked at.
pub(crate) struct Recording<'c> {
    pub name: String,
    pub capture: &'c Capture,
    pub sources: Vec<Source>,
    pub decode: Decode<'c, Execution>,
    moments: RwLock<Moments<'c>>,
    known: OnceLock<Vec<Known>>,
    /// Bytes that were read for the index, and how many there are.
    pub read: Arc<AtomicU64>,
    pub total: u64,
    failed: Mutex<Option<String>>,
    changed: Condvar,
    is_over: AtomicBool,
}

impl<'c> Recording<'c> {
    pub fn new(
        name: String,
        capture: &'c Capture,
        decode: Decode<'c, Execution>,
        index: Option<Arc<Index>>,
    ) -> Result<Self> {
        let sources: Vec<_> = decode.sources()?.into_iter().filter(Source::is_decoded).collect();
        let is_of = |index: &Arc<Index>| sources.iter().all(|source| index.source(source).is_some());
        let index = index.filter(is_of);
        let total = capture.buffers().iter().filter_map(backsight::Buffer::size).sum();
        let recording = Self {
            name,
            capture,
            sources,
            decode,
            moments: RwLock::new(capture.moments()),
            known: OnceLock::new(),
            read: Arc::default(),
            total,
            failed: Mutex::new(None),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
        };
        index.into_iter().try_for_each(|index| recording.set_index(index))?;
        Ok(recording)
    }

    /// Makes the index, if there is none. It takes long.
    pub fn make_index(&self, threads: usize, stop: &Arc<AtomicBool>) {
        if self.is_indexed() {
            return;
        }
        let read = Arc::clone(&self.read);
        let decode = self.decode.clone().stop_on(Arc::clone(stop));
        let decode = decode.progress(move |bytes| {
            read.fetch_add(bytes, Ordering::Relaxed);
        });
        let index = self.capture.moments().index_of(&decode, threads);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let outcome = index.and_then(|index| self.set_index(index.into()));
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = outcome.err().map(|error| error.to_string());
        self.changed.notify_all();
    }

    fn set_index(&self, index: Arc<Index>) -> Result<()> {
        let known = self.sources.iter().map(|source| self.known_of(source, index.source(source)));
        let known = known.collect::<Result<Vec<_>>>()?;
        *self.moments.write().unwrap_or_else(PoisonError::into_inner) =
            self.capture.moments().with_index(index);
        // There is one index.
        let _ = self.known.set(known);
        let _failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
        Ok(())
    }

    fn known_of(&self, source: &Source, index: Option<&SourceIndex>) -> Result<Known> {
        let Some(index) = index else { return Ok(Known::default()) };
        let code = self.capture.code()?.seen_by(source);
        let mut lanes = BTreeSet::new();
        for (hart, context, _) in index.points.iter().flat_map(|point| point.contexts.iter()) {
            if lanes.len() < MOST_LANES {
                lanes.insert(Lane { hart: *hart, thread: code.context_id(context) });
            }
        }
        let places = index.points.iter().map(|point| point.place).chain([index.end]);
        let mut times: Vec<(u64, u64)> = Vec::new();
        if let Some(first) = index.end.first_time {
            times.push((0, first));
        }
        for place in places {
            let is_new =
                |time: u64| times.last().is_none_or(|last| last.0 < place.instructions && last.1 <= time);
            times.extend(place.time.filter(|time| is_new(*time)).map(|time| (place.instructions, time)));
        }
        let every = times.len().div_ceil(MOST_TIMES).max(1);
        let last = times.last().copied();
        let mut times: Vec<_> = times.into_iter().step_by(every).collect();
        times.extend(last.filter(|last| times.last() != Some(last)));
        Ok(Known {
            instructions: index.end.instructions,
            points: index
                .points
                .iter()
                .map(|point| (point.place.instructions, point.knows_calls()))
                .collect(),
            lanes: lanes.into_iter().collect(),
            times,
        })
    }

    /// The moments, by the index if that is there.
    pub fn moments(&self) -> Moments<'c> {
        self.moments.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn is_indexed(&self) -> bool {
        self.known.get().is_some()
    }

    /// What is known of a source, once the index is there.
    pub fn known(&self, source: usize) -> Option<&Known> {
        self.known.get()?.get(source)
    }

    /// A time, counted from the first of the recording: pages know numbers up to 2 to the 53rd.
    pub fn since(&self, time: u64) -> u64 {
        let firsts = self.known.get().into_iter().flatten().filter_map(|known| known.times.first());
        time.saturating_sub(firsts.map(|first| first.1).min().unwrap_or(0))
    }

    /// Why there is no index.
    pub fn failure(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nobody waits any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    /// Waits for the index. False, if there will be none.
    pub fn wait(&self) -> bool {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_indexed() && failed.is_none() && !self.is_over.load(Ordering::Relaxed) {
            failed = self.changed.wait(failed).unwrap_or_else(PoisonError::into_inner);
        }
        self.is_indexed()
    }

    /// What a lane is called.
    pub fn lane_name(&self, source: usize, lane: Lane) -> String {
        let Some(source) = self.sources.get(source) else { return String::new() };
        let core = source.hart_name(lane.hart);
        match (lane.thread, self.capture.code()) {
            (Some(thread), Ok(code)) => format!("{core}: {}", code.thread_name(thread)),
            _ => core,
        }
    }
}
