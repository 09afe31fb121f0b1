//! The event log over time, in parts that are read when somebody comes to them.
//!
//! A log that changes nothing of the past is read in epochs: all that happened up to a time, with what was known when the
//! epoch began. The next one is read when a decode comes to it. Any other log is one epoch. Epochs are never changed once
//! they are there, so that many decodes at once look into them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use backsight_capture::events::{Events, HEAD};
use backsight_image::{Image, Lookup, TimedChange, Timeline, Window};

use super::files::{Files, Mapped};
use super::holders::{Holders, Since, in_window, last, last_before};
use super::log_reader::LogReader;
use super::processes::Processes;

/// What the log says of a span of time.
#[derive(Debug)]
pub(super) struct Epoch {
    /// Up to this time nothing comes in a later epoch.
    pub last: u64,
    pub timeline: Timeline,
    /// By the numbers of mappings.
    pub mapped: Vec<Mapped>,
    pub holders: Holders,
    pub next: OnceLock<Box<Epoch>>,
}

/// All that the log says.
#[derive(Debug)]
pub(crate) struct History {
    first: Box<Epoch>,
    reader: Mutex<LogReader>,
}

/// What is known of an address.
pub(super) enum Look<'c> {
    /// These bytes are there.
    Bytes(&'c [u8]),
    /// Something is there, and its bytes are not known.
    Unknown,
    /// Nothing is there.
    Nothing,
}

impl History {
    /// Reads a log, or its beginning. Without files, only what numbers stand for is of interest.
    pub fn new(events: &Events, processes: Arc<Processes>, files: Option<Arc<Files>>) -> Self {
        Self::with(events, events.is_forward().then_some(HEAD), processes, files)
    }

    /// The same. If it can be read forward: in epochs of at least so many records.
    fn with(
        events: &Events,
        forward: Option<usize>,
        processes: Arc<Processes>,
        files: Option<Arc<Files>>,
    ) -> Self {
        let mut reader = LogReader::new(events.records(), forward, processes, files);
        Self { first: Box::new(reader.read_epoch()), reader: Mutex::new(reader) }
    }

    /// No time in particular.
    pub fn at_no_time(&self) -> Moment<'_> {
        Moment { history: self, epoch: &self.first, window: None }
    }

    fn next<'c>(&'c self, epoch: &'c Epoch) -> Option<&'c Epoch> {
        if epoch.last == u64::MAX {
            return None;
        }
        if let Some(next) = epoch.next.get() {
            return Some(next);
        }
        // A thread that waits here finds that another one has read it.
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        Some(epoch.next.get_or_init(|| Box::new(reader.read_epoch())))
    }

    fn last(&self) -> &Epoch {
        let mut epoch = &*self.first;
        while let Some(next) = self.next(epoch) {
            epoch = next;
        }
        epoch
    }

    /// What was mapped where is not asked for any more, only what numbers stand for.
    pub fn forget_mappings(&mut self) {
        (self.first.timeline, self.first.mapped) = Default::default();
    }

    /// Is there an image without a size, whose place only its file says?
    pub fn has_unsized(&self) -> bool {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).has_unsized()
    }
}

/// A span of time of the log, or no time in particular.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'c> {
    history: &'c History,
    /// The one that the span begins in.
    epoch: &'c Epoch,
    window: Option<Window>,
}

impl<'c> Moment<'c> {
    pub fn window(&self) -> Option<Window> {
        self.window
    }

    /// Another span of time.
    pub fn enter(self, window: Window) -> Self {
        let is_after = self.window.is_some_and(|before| before.from <= window.from);
        let mut epoch = if is_after { self.epoch } else { &self.history.first };
        while epoch.last < window.from
            && let Some(next) = self.history.next(epoch)
        {
            epoch = next;
        }
        Self { epoch, window: Some(window), ..self }
    }

    /// The epochs from the one that this span begins in, up to a time.
    fn epochs(self, to: u64) -> impl Iterator<Item = &'c Epoch> {
        std::iter::successors(
            Some(self.epoch),
            move |epoch| {
                if epoch.last < to { self.history.next(epoch) } else { None }
            },
        )
    }

    /// Changes after the beginning of this span, up to the end of another. No more than `most` and one.
    pub fn changes(self, after: u64, to: u64, most: usize) -> Vec<TimedChange> {
        let in_epoch = |epoch: &'c Epoch| {
            let changes = epoch.timeline.changes();
            let first = changes.partition_point(|change| change.time <= after);
            changes.get(first..).unwrap_or_default().iter().take_while(move |change| change.time <= to)
        };
        self.epochs(to).flat_map(in_epoch).take(most + 1).copied().collect()
    }

    /// Does a CPU ever go over to another process? If so, that is known from the beginning on.
    pub fn switches(&self, cpu: Option<u32>) -> bool {
        cpu.is_some_and(|cpu| self.history.first.holders.cpu(cpu).is_some())
    }

    /// Did a CPU go over to another process after the beginning of this span, up to a time?
    pub fn has_switched(self, cpu: Option<u32>, after: u64, up_to: u64) -> bool {
        let Some(cpu) = cpu else { return false };
        self.epochs(up_to).any(|epoch| {
            let Some(since) = epoch.holders.cpu(cpu) else { return false };
            let count = |time| since.partition_point(|&(from, _)| from <= time);
            count(after) != count(up_to)
        })
    }

    /// The process that a number stands for: when the span began, or what it became first within it; else what it was last.
    /// At no time in particular, the last.
    pub fn holder(self, since: impl Fn(&'c Holders) -> Option<&'c Since>) -> Option<u64> {
        let Some(window) = self.window else { return last(since(&self.history.last().holders)?) };
        let mut epochs = self.epochs(window.to);
        let found =
            epochs.find_map(|Epoch { holders, .. }| in_window(since(holders)?, window, &holders.losses));
        found.or_else(|| last_before(since(&self.epoch.holders)?, window.from))
    }

    /// What is at an address of a process, 0: of all of them, in a span of time.
    pub fn look(self, process: u32, address: u64, window: Window, files: &Files) -> Look<'c> {
        for epoch in self.epochs(window.to) {
            match epoch.timeline.look(process, address, window) {
                Lookup::Nothing => {}
                Lookup::Unknown => return Look::Unknown,
                Lookup::Mapped { id, last } => {
                    let Some(mapped) = epoch.mapped.get(id.index()) else { return Look::Unknown };
                    let bytes = mapped.bytes_at(address, files);
                    let room = usize::try_from(last - address).unwrap_or(usize::MAX).saturating_add(1);
                    return bytes.map_or(Look::Unknown, |bytes| Look::Bytes(&bytes[..bytes.len().min(room)]));
                }
            }
        }
        Look::Nothing
    }

    /// The image that names what [`Moment::look`] finds there; `None` if nothing is there.
    pub fn names(
        self,
        process: u32,
        address: u64,
        window: Window,
        files: &Files,
    ) -> Option<Option<&'c Image>> {
        for epoch in self.epochs(window.to) {
            match epoch.timeline.look(process, address, window) {
                Lookup::Nothing => {}
                Lookup::Unknown => return None,
                Lookup::Mapped { id, .. } => {
                    let named = epoch.mapped.get(id.index())?.named(files);
                    return Some(named.map(|named| named.image(files)));
                }
            }
        }
        None
    }

    /// The first address above this one where anything was mapped in a process, in a span of time or near it.
    pub fn next_start(self, process: u32, address: u64, window: Window) -> Option<u64> {
        self.epochs(window.to).filter_map(|epoch| epoch.timeline.next_start(process, address)).min()
    }

    /// The processes that have something of their own in a span of time or near it, no more than `most` and one: one of them
    /// is meant, and nobody says which.
    pub fn processes(self, window: Window, most: usize) -> Vec<u32> {
        let mut all = BTreeSet::new();
        for epoch in self.epochs(window.to) {
            all.extend(epoch.timeline.processes().take(most + 1));
        }
        all.into_iter().take(most + 1).collect()
    }

    /// What is mapped in the first epoch.
    pub fn first_mapped(&self) -> &'c [Mapped] {
        &self.history.first.mapped
    }
}

#[cfg(test)]
mod tests;
