//! Which logs can be read as a decode goes on.
//!
//! What a log says to end or to exist without having said that it began was there before: such an event changes what is
//! known of the time before it. Where no event does that, and all are in the order of time, a decoder needs to read no
//! further than to the time it has come to. A writer that has made sure of it says so in the first line of the log.

use super::{EventLog, Item, Mapping, Patch, PatchCode, Pid, Record, State};
use backsight_image::SortedMap;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Records that a reader takes at once at the beginning: among them anything may be said of the time before.
pub const HEAD: usize = 1 << 12;

/// How much of a log is its head: so many records, and all of a list that it begins with.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    records: usize,
    least: usize,
    /// Up to now there were directives and a list of what exists, not at its end.
    is_list: bool,
}

impl Head {
    /// No record was taken yet.
    pub fn new(least: usize) -> Self {
        Self { records: 0, least, is_list: true }
    }

    /// Is this record still part of the head?
    pub fn takes(&mut self, item: &Item) -> bool {
        self.records += 1;
        self.is_list &= match item {
            Item::Frequency(_) | Item::Host(_) | Item::SnapshotBegin { .. } => true,
            Item::Mapping(state, _) | Item::Thread { state, .. } | Item::Asid { state, .. } => {
                *state == State::Current
            }
            _ => false,
        };
        self.records <= self.least || self.is_list
    }
}

impl EventLog {
    /// Can it be read as a decode goes on? Only a log that is worth it: longer than what is read at once, and in which
    /// code changes.
    pub fn is_forward(&self) -> bool {
        self.records.len() > HEAD && self.is_forward_after(HEAD)
    }

    /// The same for a head of at least so many records.
    #[doc(hidden)]
    pub fn is_forward_after(&self, least: usize) -> bool {
        let (mut head, mut check, mut changes) =
            (Head::new(least), ForwardCheck::default(), Changes::default());
        let is_sorted = self.records.iter().filter_map(|record| record.time).is_sorted();
        is_sorted
            && self.records.iter().all(|record| {
                changes.push(&record.item);
                let is_head = head.takes(&record.item);
                check.push(record, is_head)
            })
            && changes.is_any()
    }
}

/// What a number of a thread, a process or an ASID stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// The process itself.
    Itself,
    Process(u64),
    /// It had ended.
    Nobody,
}

/// Looks for events that change what is known of the time before them.
#[derive(Default)]
struct ForwardCheck {
    /// By process and base: the image. Patches have none.
    live: BTreeMap<(Pid, u64), Option<Arc<str>>>,
    /// What the list that is being read has named, if it is a complete one.
    listed: Option<HashSet<(Pid, u64)>>,
    threads: HashMap<u64, Holder>,
    asids: HashMap<(Option<u32>, u32), Holder>,
    switched: HashSet<u32>,
    has_process: bool,
    /// Is there code that was patched? A complete list ends it, and what it lies over with it.
    has_patches: bool,
    has_events: bool,
}

impl ForwardCheck {
    /// Does this event leave the time before it as it is?
    fn push(&mut self, record: &Record, is_head: bool) -> bool {
        let is_directive = matches!(record.item, Item::Frequency(_) | Item::Host(_));
        self.has_events |= !is_directive;
        let is_exact = match &record.item {
            // A user who opens the capture wants to know.
            Item::Frequency(_) if self.has_events => return false,
            Item::Frequency(_) | Item::Host(_) => true,
            Item::SnapshotBegin { complete } => {
                self.listed = complete.then(HashSet::new);
                true
            }
            Item::SnapshotEnd => {
                if let Some(listed) = self.listed.take() {
                    if self.has_patches {
                        return false;
                    }
                    self.live.retain(|key, _| listed.contains(key));
                }
                true
            }
            Item::Mapping(state, mapping) => self.mapping(*state, mapping),
            Item::Patch(patch) if patch.length == 0 || patch.code == PatchCode::InMemory => true,
            Item::Patch(patch) => {
                self.has_patches = true;
                let key = (patch.pid, patch.address.0);
                self.live.entry(key).or_default();
                self.names_process(patch.pid, is_head)
            }
            Item::Thread { state, tid, pid: Pid::Process(pid), .. } => {
                declare(&mut self.threads, *tid, *state, Holder::Process(*pid))
            }
            Item::Asid { state, asid, pid: Pid::Process(pid), cpu } => {
                let is_new = cpu.is_some() && !self.asids.contains_key(&(*cpu, *asid));
                declare(&mut self.asids, (*cpu, *asid), *state, Holder::Process(*pid)) && !is_new
            }
            // Where a CPU is never switched, its code is that of every process: from the beginning on.
            Item::Switch { cpu, pid: Pid::Process(_), .. } => !self.switched.insert(*cpu),
            Item::Thread { .. } | Item::Asid { .. } | Item::Switch { .. } => true,
            // Nothing is known after a loss but what is named again. Sources have to be known from the beginning.
            Item::Lost(_) | Item::DefineTrace(..) => return false,
        };
        let is_known = match &record.item {
            Item::Mapping(_, mapping) => self.names_process(mapping.pid, is_head),
            _ => true,
        };
        is_head || is_exact && is_known
    }

    /// As long as no process has code of its own, all see the same: that is known from the beginning on.
    fn names_process(&mut self, pid: Pid, is_head: bool) -> bool {
        let is_first = pid != Pid::All && !std::mem::replace(&mut self.has_process, true);
        is_head || !is_first
    }

    fn list(&mut self, key: (Pid, u64)) {
        if let Some(listed) = &mut self.listed {
            listed.insert(key);
        }
    }

    fn mapping(&mut self, state: State, mapping: &Mapping) -> bool {
        let key = (mapping.pid, mapping.base.0);
        let is_number_known = match mapping.pid {
            Pid::Process(pid) if mapping.main => declare(&mut self.threads, pid, state, Holder::Itself),
            _ => true,
        };
        let is_live = match (self.live.get(&key), state) {
            (_, State::Start) => true,
            (known, State::Current) => known.is_some(),
            (known, State::End) => known.is_some_and(|image| image.is_none() || *image == mapping.image),
        };
        match state {
            State::End if mapping.main => {
                let all = (mapping.pid, 0)..=(mapping.pid, u64::MAX);
                let gone: Vec<(Pid, u64)> = self.live.range(all).map(|(key, _)| *key).collect();
                gone.iter().for_each(|key| drop(self.live.remove(key)));
            }
            State::End => drop(self.live.remove(&key)),
            State::Start | State::Current => {
                self.live.insert(key, mapping.image.clone());
                self.list(key);
            }
        }
        is_number_known && is_live
    }
}

/// Something stands for a process, or does no longer. Was that known, or does it hold from now on?
fn declare<K: std::hash::Hash + Eq>(
    all: &mut HashMap<K, Holder>,
    key: K,
    state: State,
    holder: Holder,
) -> bool {
    let before = all.insert(key, if state == State::End { Holder::Nobody } else { holder });
    state == State::Start || before.is_some_and(|before| before != Holder::Nobody)
}

/// What was mapped or made, one over the other: by process and first address, the last.
#[derive(Debug, Default)]
pub(super) struct Ranges(SortedMap<(Pid, u64), u64>);

impl Ranges {
    /// Adds a mapping. Is it over something else?
    pub fn map(&mut self, mapping: &Mapping) -> bool {
        mapping.size.is_some_and(|size| self.put(mapping.pid, mapping.base.0, size))
    }

    /// Adds new code. Is it over something? At the same place it is other code.
    pub fn patch(&mut self, patch: &Patch) -> bool {
        let known = self.0.len();
        self.put(patch.pid, patch.address.0, patch.length) || self.0.len() == known
    }

    /// Adds a range. Is it over another one that is not the same?
    fn put(&mut self, pid: Pid, start: u64, size: u64) -> bool {
        let last = start.saturating_add(size.max(1) - 1);
        let below = self.0.up_to(&(pid, last)).filter(|((other, _), _)| *other == pid);
        let is_same = below == Some((&(pid, start), &last));
        let overlaps = below.is_some_and(|(_, &other)| other >= start) && !is_same;
        self.0.insert((pid, start), last);
        overlaps
    }
}

/// Does a log say that code changes? If it only adds, and nothing over anything else, time makes no difference.
#[derive(Debug, Default)]
pub struct Changes {
    ranges: Ranges,
    is_any: bool,
}

impl Changes {
    /// The next event.
    pub fn push(&mut self, item: &Item) {
        if self.is_any {
            return;
        }
        self.is_any = match item {
            Item::Mapping(State::End, _) | Item::Patch(_) | Item::Switch { .. } | Item::Lost(_) => true,
            Item::Asid { state: State::Start | State::End, .. } => true,
            Item::Mapping(_, mapping) => self.ranges.map(mapping),
            _ => false,
        };
    }

    /// Did code change up to now?
    pub fn is_any(&self) -> bool {
        self.is_any
    }
}
