//! The event log, as what was mapped where and when.
//!
//! What a log says to end or to exist without having said that it began was there from as far back as nothing is known to
//! be missing and nothing else is known to have been there: so a log that begins in the middle, or only lists what there is
//! at the end, says what it can. Where events were lost, what was there before counts after them only if the log says later
//! that it still was: else it is not known, and nothing is made up.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use backsight_capture::events::{Head, Item, Mapping, Patch, PatchCode, Pid, Record, RecordReader, State};
use backsight_core::AddressSpace;
use backsight_image::{Elf, MappingId, SortedMap, Timeline};

use super::few::Few;
use super::files::{Files, LazyFile, Mapped, MappedBytes, MappedFile, Placement};
use super::history::Epoch;
use super::holders::Holders;
use super::processes::Processes;

/// Patches that begin at one address and are there at the same time; more is damage.
const MOST_PATCHES: usize = 64;

/// First and last address.
type Range = (u64, u64);

/// Where something is mapped.
type Places = Few<(Range, MappingId)>;

/// What is mapped at a time of the log.
#[derive(Debug)]
struct Live {
    /// Where, for the end: of the image or of the patch.
    ranges: Places,
    process: u32,
    image: Option<Arc<str>>,
    /// The last snapshot that it was listed in, or that was before it.
    listed: u32,
    /// The last time at which it is known to have been there.
    confirmed: u64,
    /// Where events were lost since then: what hides it until it is known to be there still.
    hidden: Option<Box<Places>>,
}

/// There may be as many as lines of a log: memory is counted by them.
const _: () = assert!(size_of::<Few<Live>>() <= 72);

impl Live {
    /// Where it is mapped, and what hides it.
    fn places(&self) -> impl Iterator<Item = &(Range, MappingId)> {
        self.ranges.iter().chain(self.hidden.iter().flat_map(|hidden| hidden.iter()))
    }
}

/// Reads a log, epoch after epoch.
#[derive(Debug)]
pub(super) struct LogReader {
    records: RecordReader,
    /// The first record of the next epoch.
    pending: Option<Record>,
    /// If it can be read forward: the least number of records of an epoch.
    forward: Option<usize>,
    /// Records that the next epoch takes at least; `None` before the first.
    least: Option<usize>,
    state: LogState,
}

impl LogReader {
    pub fn new(
        records: RecordReader,
        forward: Option<usize>,
        processes: Arc<Processes>,
        files: Option<Arc<Files>>,
    ) -> Self {
        Self { records, pending: None, forward, least: None, state: LogState::new(processes, files) }
    }

    /// Reads the next part of a log that can be read forward; else all of it.
    pub fn read_epoch(&mut self) -> Epoch {
        if let Some(record) = self.pending.take() {
            self.state.apply(&record);
        }
        let least = self.forward.unwrap_or(usize::MAX);
        let (mut head, mut count) = (Head::new(least), 0);
        let mut last = u64::MAX;
        while let Some(record) = self.records.next() {
            count += 1;
            let is_full = match self.least {
                None => !head.takes(&record.item),
                Some(least) => count > least,
            };
            // Events of one time stay together.
            if let Some(time) = record.time.filter(|&time| time > self.state.now && is_full) {
                last = time - 1;
                self.pending = Some(record.clone());
                break;
            }
            self.state.apply(record);
        }
        self.state.warn(self.records.take_problems().iter().map(ToString::to_string));
        let epoch = self.state.cut(last, self.pending.is_some());
        // What is carried over to the next epoch is less than what it adds.
        self.least = Some(least.max(2 * self.state.carried));
        epoch
    }

    pub fn has_unsized(&self) -> bool {
        self.state.has_unsized
    }
}

/// What is known at a point of the log.
#[derive(Debug)]
struct LogState {
    processes: Arc<Processes>,
    files: Option<Arc<Files>>,
    timeline: Timeline,
    mapped: Vec<Mapped>,
    holders: Holders,
    /// By process and base, the newest last.
    live: SortedMap<(Pid, u64), Few<Live>>,
    /// What was begun or confirmed since events were last lost. `None` before the first loss: all.
    certain: Option<Vec<(Pid, u64)>>,
    /// From this time on nothing is known to be missing.
    known_since: u64,
    is_lost: bool,
    now: u64,
    snapshot: Option<bool>,
    /// How many snapshots there were.
    snapshots: u32,
    has_unsized: bool,
    /// How much the epoch that begins took over from the one before.
    carried: usize,
}

impl LogState {
    fn new(processes: Arc<Processes>, files: Option<Arc<Files>>) -> Self {
        let (timeline, mapped, holders, live, certain) = Default::default();
        let (known_since, is_lost, now, snapshot, snapshots, has_unsized, carried) = Default::default();
        Self {
            processes,
            files,
            timeline,
            mapped,
            holders,
            live,
            certain,
            known_since,
            is_lost,
            now,
            snapshot,
            snapshots,
            has_unsized,
            carried,
        }
    }

    fn apply(&mut self, record: &Record) {
        self.now = record.time.unwrap_or(self.now).max(self.now);
        self.holders.push(record, self.now);
        if self.files.is_none() {
            return;
        }
        // What was lost was lost before the next event that is there.
        if record.time.is_some() && std::mem::take(&mut self.is_lost) {
            self.known_since = self.now;
        }
        match &record.item {
            Item::Mapping(State::Start, mapping) => self.start(mapping, self.now),
            Item::Mapping(State::Current, mapping) => self.current(mapping),
            Item::Mapping(State::End, mapping) => self.end(mapping),
            Item::Patch(patch) => self.patch(patch),
            Item::SnapshotBegin { complete } => {
                self.snapshot = Some(*complete);
                self.snapshots = self.snapshots.wrapping_add(1);
            }
            Item::SnapshotEnd => self.end_snapshot(),
            Item::Lost(_) => self.lose(),
            _ => {}
        }
    }

    fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        if let Some(files) = &self.files {
            files.search().warnings.extend(warnings);
        }
    }

    /// Ends an epoch. If another one follows, what is there at its end is taken over.
    fn cut(&mut self, last: u64, is_followed: bool) -> Epoch {
        let (mut timeline, mut mapped, mut holders) = (Timeline::default(), Vec::new(), Holders::default());
        if is_followed {
            holders = self.holders.carry();
            let mut places: Vec<(MappingId, u32, Range)> = Vec::new();
            for live in self.live.iter().flat_map(|(_, all)| all.iter()) {
                places.extend(live.places().map(|&(range, id)| (id, live.process, range)));
            }
            places.sort_unstable_by_key(|(id, ..)| *id);
            let mut renumbered = HashMap::with_capacity(places.len());
            for (id, process, range) in places {
                if let (Some(known), Some(from)) = (self.mapped.get(id.index()), self.timeline.begin(id)) {
                    renumbered.insert(id, timeline.keep(process, range, from));
                    mapped.push(known.clone());
                }
            }
            for live in self.live.values_mut().flat_map(|all| all.iter_mut()) {
                let hidden = live.hidden.iter_mut().flat_map(|hidden| hidden.iter_mut());
                for (_, id) in live.ranges.iter_mut().chain(hidden) {
                    *id = renumbered.get(id).copied().unwrap_or(*id);
                }
            }
        } else {
            // Nothing follows that could end.
            self.live = SortedMap::default();
        }
        self.carried = mapped.len() + holders.len();
        let mut ended = std::mem::replace(&mut self.timeline, timeline);
        ended.finish();
        if ended.is_full() {
            self.warn(["the event log maps more than can be kept: the rest is left out".to_owned()]);
        }
        Epoch {
            last,
            timeline: ended,
            mapped: std::mem::replace(&mut self.mapped, mapped),
            holders: std::mem::replace(&mut self.holders, holders),
            next: OnceLock::new(),
        }
    }

    fn number(&self, pid: Pid) -> u32 {
        match pid {
            Pid::All => 0,
            Pid::Process(pid) => self.processes.add(AddressSpace::ANY, pid).process(),
        }
    }

    fn map(&mut self, process: u32, range: Range, from: u64, bytes: MappedBytes) -> MappingId {
        let id = self.timeline.map(process, range, from);
        self.mapped.push(Mapped { start: range.0, bytes });
        id
    }

    fn start(&mut self, mapping: &Mapping, from: u64) {
        let key = (mapping.pid, mapping.base.0);
        // Two starts without an end: the first ended at some time between them.
        let before = self.live.remove(&key).unwrap_or_default();
        for live in before.iter() {
            self.finish_one(live, from);
        }
        let process = self.number(mapping.pid);
        let ranges = self.place(mapping, process, from);
        let (image, hidden) = (mapping.image.clone(), None);
        let live = Live { ranges, process, image, listed: self.snapshots, confirmed: self.now, hidden };
        self.live.insert(key, Few::One(live));
        self.set_certain(key);
    }

    fn set_certain(&mut self, key: (Pid, u64)) {
        self.certain.iter_mut().for_each(|certain| certain.push(key));
    }

    /// The mapping is there now, and was before unless something else is said.
    fn current(&mut self, mapping: &Mapping) {
        let key = (mapping.pid, mapping.base.0);
        if let Some(live) = self.live.get_mut(&key).and_then(|all| all.last_mut()) {
            if live.image == mapping.image {
                live.listed = self.snapshots;
                live.confirmed = self.now;
                let (process, hidden) = (live.process, live.hidden.take());
                self.set_certain(key);
                return self.show(process, hidden);
            }
            let name = mapping.image.as_deref().unwrap_or("an image");
            let before = live.image.as_deref().unwrap_or("another");
            let conflict = format!(
                "event log: a list has {name} at {} where {before} was: the list is believed",
                mapping.base
            );
            self.warn([conflict]);
            return self.start(mapping, self.now);
        }
        self.start_before(mapping);
    }

    /// A mapping is there that was not said to begin: it was there since nothing is known to be missing, and nothing else was
    /// there.
    fn start_before(&mut self, mapping: &Mapping) {
        let process = self.number(mapping.pid);
        let range = (mapping.base.0, mapping.base.0.saturating_add(mapping.size.unwrap_or(1).max(1) - 1));
        let from = self.timeline.last_end(process, range).max(self.known_since);
        self.start(mapping, from);
    }

    /// It was there all the time.
    fn show(&mut self, process: u32, hidden: Option<Box<Places>>) {
        for &(range, id) in hidden.iter().flat_map(|hidden| hidden.iter()) {
            self.timeline.withdraw(process, range, id);
        }
    }

    /// From a time on it is not known what is in the ranges of these places.
    fn hide(&mut self, process: u32, places: &[(Range, MappingId)], from: u64) -> Places {
        let hide = |&(range, _): &(Range, _)| (range, self.map(process, range, from, MappedBytes::Unknown));
        places.iter().map(hide).collect()
    }

    /// Events were lost: what there was may be gone, and other things may be in its place.
    fn lose(&mut self) {
        (self.known_since, self.is_lost) = (self.now, true);
        self.timeline.lose(self.now);
        let mut live = std::mem::take(&mut self.live);
        match self.certain.replace(Vec::new()) {
            None => live.values_mut().for_each(|all| self.hide_all(all)),
            Some(keys) => {
                for key in keys {
                    live.get_mut(&key).into_iter().for_each(|all| self.hide_all(all));
                }
            }
        }
        self.live = live;
    }

    fn hide_all(&mut self, all: &mut [Live]) {
        for live in all.iter_mut().filter(|live| live.hidden.is_none()) {
            let hidden = self.hide(live.process, &live.ranges, self.now);
            live.hidden = (!hidden.is_empty()).then(|| Box::new(hidden));
        }
    }

    /// The mapping is gone; the end of a process takes all that it had along.
    fn end(&mut self, mapping: &Mapping) {
        let key = (mapping.pid, mapping.base.0);
        match self.live.get_mut(&key).and_then(|all| all.last_mut()) {
            // It was there all the time.
            Some(live) if live.image.is_none() || live.image == mapping.image => {
                let (process, hidden) = (live.process, live.hidden.take());
                self.show(process, hidden);
            }
            // Something else was there, and nothing says when it went: from then on it could be either.
            Some(live) => {
                let (process, from) = (live.process, live.confirmed.saturating_add(1));
                let places = live.ranges.clone();
                let hidden = self.hide(process, &places, from);
                let now = self.now;
                hidden.iter().for_each(|&(range, id)| self.timeline.end(process, range, id, now));
            }
            None => self.start_before(mapping),
        }
        let gone: Vec<(Pid, u64)> = match mapping.main {
            true => {
                let all = self.live.starting_at(&(mapping.pid, 0)).map(|(key, _)| *key);
                all.take_while(|(pid, _)| *pid == mapping.pid).collect()
            }
            false => vec![key],
        };
        let now = self.now;
        for key in gone {
            let all = self.live.remove(&key).unwrap_or_default();
            all.iter().for_each(|live| self.finish_one(live, now));
        }
    }

    fn finish_one(&mut self, live: &Live, at: u64) {
        for &(range, id) in live.places() {
            self.timeline.end(live.process, range, id, at);
        }
    }

    /// What a complete list does not have does not exist.
    fn end_snapshot(&mut self) {
        if self.snapshot.take() != Some(true) {
            return;
        }
        let is_gone = |all: &[Live]| all.iter().any(|live| live.listed != self.snapshots);
        let gone: Vec<_> = self.live.iter().filter(|(_, all)| is_gone(all)).map(|(key, _)| *key).collect();
        for live in
            gone.iter().filter_map(|key| self.live.remove(key)).flat_map(Few::into_vec).collect::<Vec<_>>()
        {
            if let Some(image) = &live.image {
                self.warn([format!(
                    "event log: {image} ended without a word: a complete list leaves it out"
                )]);
            }
            self.finish_one(&live, self.now);
        }
        self.known_since = self.now;
    }

    /// Puts an image or one mapping of it where it was.
    fn place(&mut self, mapping: &Mapping, process: u32, from: u64) -> Places {
        let key = (mapping.image.clone(), mapping.build_id.clone());
        match mapping.size {
            Some(0) => Places::None,
            Some(size) if !mapping.relocated => {
                let range = (mapping.base.0, mapping.base.0.saturating_add(size - 1));
                let file = MappedFile::new(key, size, mapping.offset);
                Places::One((range, self.map(process, range, from, MappedBytes::File(file))))
            }
            size => {
                // Where it is, only the file says.
                self.has_unsized = true;
                let Some(files) = self.files.clone() else { return Places::None };
                let located = files.search().mapped(&key);
                let Some(elf) = located.and_then(|file| Elf::parse(&file.name, &file.contents).ok()) else {
                    return Places::None;
                };
                let placement = Placement::from(mapping);
                let (named, bias) =
                    (files.placed(&key, placement), super::bias_of(&elf, placement, size.is_some()));
                let segments = elf.segments.iter().filter(|segment| segment.length > 0);
                let place = |segment: &backsight_image::ElfSegment| {
                    let start = segment.address.wrapping_add(bias);
                    let range = (start, start.saturating_add(segment.length - 1));
                    let bytes = MappedBytes::Segment(named.clone(), segment.offset);
                    (range, self.map(process, range, from, bytes))
                };
                segments.map(place).collect()
            }
        }
    }

    fn patch(&mut self, patch: &Patch) {
        if patch.length == 0 {
            return;
        }
        let bytes = match &patch.code {
            PatchCode::Inline(code) => MappedBytes::Inline(code.clone().into()),
            PatchCode::File(path, offset) => MappedBytes::Code(LazyFile::code(path), *offset),
            PatchCode::Id(id) => MappedBytes::Code(LazyFile::code(&format!("code/{id}")), 0),
            // It was never replaced: what memory had at the end is it.
            PatchCode::InMemory => return,
        };
        let process = self.number(patch.pid);
        let range = (patch.address.0, patch.address.0.saturating_add(patch.length - 1));
        let id = self.map(process, range, self.now, bytes);
        let ranges = Places::One((range, id));
        let (listed, hidden) = (self.snapshots, None);
        let live = Live { ranges, process, image: None, listed, confirmed: self.now, hidden };
        // Patches end with their process, and are never listed. One takes the place of those that it covers.
        let all = self.live.get_or_insert_with((patch.pid, patch.address.0), Few::default);
        let (mut patches, mut others): (Vec<Live>, Vec<Live>) =
            std::mem::take(all).into_vec().into_iter().partition(|live| {
                live.image.is_none() && live.ranges.iter().all(|((_, last), _)| *last <= range.1)
            });
        others.insert(0, live);
        // The oldest of those that reach farther; what comes last may be the image below.
        if others.len() > MOST_PATCHES {
            patches.push(others.remove(others.len() - 2));
        }
        *all = others.into_iter().collect();
        self.set_certain((patch.pid, patch.address.0));
        let now = self.now;
        patches.iter().for_each(|live| self.finish_one(live, now));
    }
}
