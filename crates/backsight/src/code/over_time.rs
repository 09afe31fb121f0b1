//! The event log, as what was mapped where and when.
//!
//! The log is read once, forward. What it says to end or to exist without having said that it began was there from as far
//! back as nothing is known to be missing and nothing else is known to have been there: so a log that begins in the
//! middle, or only lists what there is at the end, says what it can. Where events were lost, what was there before counts
//! after them only if the log says later that it still was: else nobody knows, and nothing is made up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backsight_capture::events::{EventLog, Item, Mapping, Patch, PatchCode, Pid, State};
use backsight_capture::{Capture, FileRef};
use backsight_core::{Address, AddressSpace};
use backsight_image::{Code, Elf, Image, Lookup, MappedBytes, MappingId, TimedChange, Timeline, Window};

use super::names::Names;
use super::processes::Processes;
use super::search::Search;

/// Longest file of patched code.
const LONGEST_PATCH: u64 = 1 << 28;

/// Code over time, and what is the same all the time.
#[derive(Debug)]
pub(crate) struct OverTime {
    timeline: Timeline,
    names: Names,
    /// What the user named: it hides everything.
    named: Image,
    /// Memory contents: what nothing else hides.
    dumps: Image,
}

impl OverTime {
    pub fn new((timeline, names): (Timeline, Names), named: Image, dumps: Image) -> Self {
        Self { timeline, names, named, dumps }
    }

    pub fn changes(&self) -> &[TimedChange] {
        self.timeline.changes()
    }

    /// The bytes at an address of a space, in a span of time.
    pub fn bytes_at(&self, space: AddressSpace, address: Address, window: Window) -> Option<&[u8]> {
        if let Some(bytes) = self.named.bytes_at(space, address) {
            return Some(bytes);
        }
        let look = |process| self.timeline.look(process, address.0, window);
        // What lies below ends where something above it begins.
        let named = self.named.next_start(space, address).map_or(u64::MAX, |start| start.0);
        let own = self.timeline.next_start(space.process(), address.0).unwrap_or(u64::MAX);
        let mut room = usize::try_from(named - address.0).unwrap_or(usize::MAX);
        for process in [space.process(), 0] {
            match look(process) {
                Lookup::Bytes(bytes) => return Some(&bytes[..bytes.len().min(room)]),
                Lookup::Unknown => return None,
                Lookup::Nothing => room = room.min(usize::try_from(own - address.0).unwrap_or(usize::MAX)),
            }
        }
        // As long as nobody says which process it is, code of every process is seen.
        let all = self.timeline.processes().filter(|_| space.process() == 0);
        let any =
            all.map(look).find_map(|seen| if let Lookup::Bytes(bytes) = seen { Some(bytes) } else { None });
        let common = self.timeline.next_start(0, address.0).unwrap_or(u64::MAX);
        room = room.min(usize::try_from(common - address.0).unwrap_or(usize::MAX));
        let below = any.or_else(|| self.dumps.bytes_at(space, address))?;
        Some(&below[..below.len().min(room)])
    }

    /// The image that names what was at an address of a space, in a span of time.
    pub fn names_at(&self, space: AddressSpace, address: Address, window: Window) -> &Image {
        if self.named.bytes_at(space, address).is_some() {
            return &self.named;
        }
        let look = |process| self.timeline.mapping_at(process, address.0, window);
        let all = self.timeline.processes().filter(|_| space.process() == 0);
        let id = look(space.process()).or_else(|| look(0)).or_else(|| all.map(look).find_map(|id| id));
        id.map_or(&self.dumps, |id| self.names.of(id))
    }
}

/// Does the log say that code changes? If it only adds, and nothing over anything else, time makes no difference.
pub(crate) fn changes(log: &EventLog) -> bool {
    let mut ranges: BTreeMap<Pid, BTreeMap<u64, u64>> = BTreeMap::new();
    log.records.iter().any(|record| match &record.item {
        Item::Mapping(State::End, _) | Item::Patch(_) | Item::Switch { .. } | Item::Lost(_) => true,
        Item::Asid { state: State::Start | State::End, .. } => true,
        Item::Mapping(_, mapping) => match mapping.size {
            Some(size) => {
                let ranges = ranges.entry(mapping.pid).or_default();
                let (start, last) = (mapping.base.0, mapping.base.0.saturating_add(size.max(1) - 1));
                let below = ranges.range(..=last).next_back();
                let is_same = below == Some((&start, &last));
                let overlaps = below.is_some_and(|(_, &other)| other >= start) && !is_same;
                ranges.insert(start, last);
                overlaps
            }
            None => false,
        },
        _ => false,
    })
}

/// What is mapped at a time of the log.
struct Live {
    /// Where, for the end: of the image or of the patch.
    ranges: Vec<((u64, u64), MappingId)>,
    process: u32,
    image: Option<Arc<str>>,
    /// It was listed in the snapshot that is being read.
    is_listed: bool,
    /// The last time at which it is known to have been there.
    confirmed: u64,
    /// Where events were lost since then: what hides it until it is known to be there still.
    hidden: Vec<((u64, u64), MappingId)>,
}

/// Reads a log.
pub(crate) struct LogReader<'a, 'c> {
    pub capture: &'c Capture,
    pub search: &'a mut Search<'c>,
    pub processes: &'a mut Processes,
    timeline: Timeline,
    names: Names,
    /// By process and base, the newest last.
    live: BTreeMap<(Pid, u64), Vec<Live>>,
    /// What was begun or confirmed since events were last lost.
    certain: Vec<(Pid, u64)>,
    /// From this time on nothing is known to be missing.
    known_since: u64,
    is_lost: bool,
    now: u64,
    snapshot: Option<bool>,
    conflicts: BTreeSet<String>,
}

impl<'a, 'c> LogReader<'a, 'c> {
    pub fn new(capture: &'c Capture, search: &'a mut Search<'c>, processes: &'a mut Processes) -> Self {
        let (timeline, names, live, certain, conflicts) = Default::default();
        let (known_since, is_lost, now, snapshot) = Default::default();
        Self {
            capture,
            search,
            processes,
            timeline,
            names,
            live,
            certain,
            known_since,
            is_lost,
            now,
            snapshot,
            conflicts,
        }
    }

    pub fn read(mut self, log: &EventLog) -> (Timeline, Names) {
        for record in &log.records {
            self.now = record.time.unwrap_or(self.now).max(self.now);
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
                    self.live.values_mut().flatten().for_each(|live| live.is_listed = false);
                }
                Item::SnapshotEnd => self.end_snapshot(),
                Item::Lost(_) => self.lose(),
                _ => {}
            }
        }
        self.timeline.finish();
        if self.timeline.is_full() {
            self.search
                .warnings
                .insert("the event log maps more than can be kept: the rest is left out".to_owned());
        }
        self.search.warnings.extend(self.conflicts);
        (self.timeline, self.names)
    }

    fn number(&mut self, pid: Pid) -> u32 {
        match pid {
            Pid::All => 0,
            Pid::Process(pid) => self.processes.add(AddressSpace::ANY, pid).process(),
        }
    }

    fn start(&mut self, mapping: &Mapping, from: u64) {
        let key = (mapping.pid, mapping.base.0);
        // Two starts without an end: the first ended at some time between them.
        let before = self.live.remove(&key).unwrap_or_default();
        for live in before {
            self.finish_one(&live, from);
        }
        let process = self.number(mapping.pid);
        let ranges = self.place(mapping, process, from);
        let (image, hidden) = (mapping.image.clone(), Vec::new());
        let live = Live { ranges, process, image, is_listed: true, confirmed: self.now, hidden };
        self.live.insert(key, vec![live]);
        self.certain.push(key);
    }

    /// The mapping is there now, and was before unless something else is said.
    fn current(&mut self, mapping: &Mapping) {
        let key = (mapping.pid, mapping.base.0);
        if let Some(live) = self.live.get_mut(&key).and_then(|all| all.last_mut()) {
            if live.image == mapping.image {
                live.is_listed = true;
                live.confirmed = self.now;
                let (process, hidden) = (live.process, std::mem::take(&mut live.hidden));
                self.certain.push(key);
                return self.show(process, &hidden);
            }
            let name = mapping.image.as_deref().unwrap_or("an image");
            let before = live.image.as_deref().unwrap_or("another");
            self.conflicts.insert(format!(
                "event log: a list has {name} at {} where {before} was: the list is believed",
                mapping.base
            ));
            return self.start(mapping, self.now);
        }
        self.start_before(mapping);
    }

    /// A mapping is there that nobody said began: it was there since nothing is known to be missing, and nothing else was
    /// there.
    fn start_before(&mut self, mapping: &Mapping) {
        let process = self.number(mapping.pid);
        let range = (mapping.base.0, mapping.base.0.saturating_add(mapping.size.unwrap_or(1).max(1) - 1));
        let from = self.timeline.last_end(process, range).max(self.known_since);
        self.start(mapping, from);
    }

    /// It was there all the time.
    fn show(&mut self, process: u32, hidden: &[((u64, u64), MappingId)]) {
        for &(range, id) in hidden {
            self.timeline.withdraw(process, range, id);
        }
    }

    /// From a time on nobody knows what is in these ranges.
    fn hide(&mut self, process: u32, ranges: &[(u64, u64)], from: u64) -> Vec<((u64, u64), MappingId)> {
        ranges.iter().map(|&range| (range, self.timeline.map(process, range, from, None))).collect()
    }

    /// Events were lost: what there was may be gone, and other things may be in its place.
    fn lose(&mut self) {
        (self.known_since, self.is_lost) = (self.now, true);
        self.timeline.lose(self.now);
        for key in std::mem::take(&mut self.certain) {
            for mut live in self.live.remove(&key).unwrap_or_default() {
                if live.hidden.is_empty() {
                    let ranges: Vec<_> = live.ranges.iter().map(|(range, _)| *range).collect();
                    live.hidden = self.hide(live.process, &ranges, self.now);
                }
                self.live.entry(key).or_default().push(live);
            }
        }
    }

    /// The mapping is gone; the end of a process takes all that it had along.
    fn end(&mut self, mapping: &Mapping) {
        let key = (mapping.pid, mapping.base.0);
        match self.live.get_mut(&key).and_then(|all| all.last_mut()) {
            // It was there all the time.
            Some(live) if live.image.is_none() || live.image == mapping.image => {
                let (process, hidden) = (live.process, std::mem::take(&mut live.hidden));
                self.show(process, &hidden);
            }
            // Something else was there, and nobody said when it went: from then on it could be either.
            Some(live) => {
                let (process, from) = (live.process, live.confirmed.saturating_add(1));
                let ranges: Vec<_> = live.ranges.iter().map(|(range, _)| *range).collect();
                let hidden = self.hide(process, &ranges, from);
                let now = self.now;
                hidden.iter().for_each(|&(range, id)| self.timeline.end(process, range, id, now));
            }
            None => self.start_before(mapping),
        }
        let gone: Vec<(Pid, u64)> = match mapping.main {
            true => {
                self.live.range((mapping.pid, 0)..=(mapping.pid, u64::MAX)).map(|(key, _)| *key).collect()
            }
            false => vec![key],
        };
        let now = self.now;
        for live in gone.iter().filter_map(|key| self.live.remove(key)).flatten().collect::<Vec<_>>() {
            self.finish_one(&live, now);
        }
    }

    fn finish_one(&mut self, live: &Live, at: u64) {
        for &(range, id) in live.ranges.iter().chain(&live.hidden) {
            self.timeline.end(live.process, range, id, at);
        }
    }

    /// What a complete list does not have does not exist.
    fn end_snapshot(&mut self) {
        if self.snapshot.take() != Some(true) {
            return;
        }
        let is_gone = |all: &Vec<Live>| all.iter().any(|live| !live.is_listed);
        let gone: Vec<_> = self.live.iter().filter(|(_, all)| is_gone(all)).map(|(key, _)| *key).collect();
        for live in gone.iter().filter_map(|key| self.live.remove(key)).flatten().collect::<Vec<_>>() {
            if let Some(image) = &live.image {
                self.conflicts.insert(format!(
                    "event log: {image} ended without a word: a complete list leaves it out"
                ));
            }
            self.finish_one(&live, self.now);
        }
        self.known_since = self.now;
    }

    /// Puts an image or one mapping of it where it was.
    fn place(&mut self, mapping: &Mapping, process: u32, from: u64) -> Vec<((u64, u64), MappingId)> {
        let file = self.search.mapped(mapping);
        let mut pieces: Vec<((u64, u64), Option<MappedBytes>)> = Vec::new();
        let bytes = |offset: u64| {
            let contents = file.as_ref().map(|file| file.contents.clone())?;
            Some(MappedBytes { contents, offset: usize::try_from(offset).ok()? })
        };
        let elf = || Elf::parse(&file.as_ref()?.name, &file.as_ref()?.contents).ok();
        match mapping.size {
            Some(0) => {}
            Some(size) if !mapping.relocated => {
                let last = mapping.base.0.saturating_add(size - 1);
                pieces.push(((mapping.base.0, last), bytes(mapping.offset)));
            }
            size => {
                let Some(elf) = elf() else { return Vec::new() };
                let bias = super::bias_of(&elf, mapping, size.is_some());
                for segment in elf.segments.iter().filter(|segment| segment.length > 0) {
                    let start = segment.address.wrapping_add(bias);
                    pieces.push(((start, start.saturating_add(segment.length - 1)), bytes(segment.offset)));
                }
            }
        }
        let timeline = &mut self.timeline;
        let placed: Vec<_> = pieces
            .into_iter()
            .map(|(range, bytes)| (range, timeline.map(process, range, from, bytes)))
            .collect();
        if let Some(file) = &file {
            self.names.add(placed.iter().map(|(_, id)| *id), mapping, file);
        }
        placed
    }

    fn patch(&mut self, patch: &Patch) {
        if patch.length == 0 {
            return;
        }
        let contents = match &patch.code {
            PatchCode::Inline(code) => Some((code.clone().into(), 0)),
            PatchCode::File(path, offset) => self.patch_file(path).zip(Some(*offset)),
            PatchCode::Id(id) => self.patch_file(&format!("code/{id}")).zip(Some(0)),
            // It was never replaced: what memory had at the end is it.
            PatchCode::InMemory => return,
        };
        let bytes = contents.and_then(|(contents, offset)| {
            Some(MappedBytes { contents, offset: usize::try_from(offset).ok()? })
        });
        let process = self.number(patch.pid);
        let range = (patch.address.0, patch.address.0.saturating_add(patch.length - 1));
        let id = self.timeline.map(process, range, self.now, bytes);
        let ranges = vec![(range, id)];
        let (is_listed, hidden) = (true, Vec::new());
        let live = Live { ranges, process, image: None, is_listed, confirmed: self.now, hidden };
        // Patches end with their process, and are never listed. One takes the place of those that it covers.
        let all = self.live.entry((patch.pid, patch.address.0)).or_default();
        let (patches, mut others): (Vec<Live>, Vec<Live>) =
            std::mem::take(all).into_iter().partition(|live| {
                live.image.is_none() && live.ranges.iter().all(|((_, last), _)| *last <= range.1)
            });
        others.insert(0, live);
        *all = others;
        self.certain.push((patch.pid, patch.address.0));
        let now = self.now;
        patches.iter().for_each(|live| self.finish_one(live, now));
    }

    fn patch_file(&mut self, path: &str) -> Option<backsight_image::Contents> {
        let file = FileRef::new(&self.capture.folder, path).ok()?;
        if file.length().is_none_or(|length| length > LONGEST_PATCH) {
            self.search.warnings.insert(format!("{file}: patched code that the log names is not there"));
            return None;
        }
        self.search.contents(&file).ok()
    }
}
