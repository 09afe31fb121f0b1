//! Which process a number stands for: that of a thread, an ASID, or the CPU that runs it.

use backsight_capture::events::{Item, Pid, Record, State};
use backsight_image::{SortedMap, Window};

use super::few::Few;

/// No process has this number: events were lost, and nobody knows which it is.
const UNKNOWN: u64 = u64::MAX;

/// The number is that of a process itself, and no thread's.
pub(super) const ITSELF: u64 = u64::MAX - 1;

/// What something was from each time on; `None`: nothing any more.
pub(super) type Since = Few<(u64, Option<u64>)>;

/// What something was last.
pub(super) fn last(since: &[(u64, Option<u64>)]) -> Option<u64> {
    since.iter().rev().find_map(|&(_, pid)| pid)
}

/// What it was when a span of time began, or what it became first within it, unless events were lost before that (`losses`:
/// when, in order).
pub(super) fn in_window(since: &Since, window: Window, losses: &[u64]) -> Option<u64> {
    let (before, after) = since.split_at(since.partition_point(|&(from, _)| from <= window.from));
    let at_once = before.last().and_then(|&(_, pid)| pid);
    let since_when = before.last().map_or(0, |&(from, _)| from);
    let mut soon = after.iter().take_while(|&&(from, _)| {
        let first_loss = losses.get(losses.partition_point(|&time| time < since_when));
        from <= window.to && first_loss.is_none_or(|&loss| from < loss)
    });
    at_once.or_else(|| soon.find_map(|&(_, pid)| pid))
}

/// What it was last before a time: a CPU that still has the identifier of a thread which has ended is about to leave it.
pub(super) fn last_before(since: &Since, time: u64) -> Option<u64> {
    last(&since[..since.partition_point(|&(from, _)| from <= time)])
}

/// A number, and what it is the number of.
#[derive(Clone, Copy, Debug)]
enum Number {
    Thread(u64),
    Asid(Option<u32>, u32),
    Cpu(u32),
}

/// What a number stands for over time.
#[derive(Clone, Debug, Default)]
struct Held {
    since: Since,
    /// It was declared since events were last lost.
    is_certain: bool,
}

/// There may be as many numbers as lines of a log: memory is counted by them.
const _: () = assert!(size_of::<Held>() <= 32);

/// What numbers stand for, over a part of the log.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// The process of a thread.
    threads: SortedMap<u64, Held>,
    /// The process of an ASID, on one CPU or (`None`) on all.
    asids: SortedMap<(Option<u32>, u32), Held>,
    /// The process that a CPU is on.
    switches: SortedMap<u32, Held>,
    /// When events were lost, in order.
    pub losses: Vec<u64>,
    /// The numbers that were declared since events were last lost: there may be many losses. `None` before the first.
    certain: Option<Vec<Number>>,
    /// From this time on nothing is known to be missing.
    known_since: u64,
    is_lost: bool,
}

impl Holders {
    /// The next record of the log, at this time.
    pub fn push(&mut self, record: &Record, now: u64) {
        // What was lost was lost before the next event that is there.
        if record.time.is_some() && std::mem::take(&mut self.is_lost) {
            self.known_since = now;
        }
        let known_since = self.known_since;
        match &record.item {
            Item::Thread { state, tid, pid: Pid::Process(pid), .. } => {
                let held = self.threads.get_or_insert_with(*tid, Held::default);
                declare(&mut held.since, *state, *pid, now, known_since);
                held.set_certain(&mut self.certain, Number::Thread(*tid));
            }
            // Threads and processes share their numbers: this one is that of a process, or was until now.
            Item::Mapping(state, mapping) if mapping.main => {
                if let Pid::Process(pid) = mapping.pid {
                    let held = self.threads.get_or_insert_with(pid, Held::default);
                    declare(&mut held.since, *state, ITSELF, now, known_since);
                }
            }
            Item::Asid { state, asid, pid: Pid::Process(pid), cpu } => {
                let held = self.asids.get_or_insert_with((*cpu, *asid), Held::default);
                declare(&mut held.since, *state, *pid, now, known_since);
                held.set_certain(&mut self.certain, Number::Asid(*cpu, *asid));
            }
            Item::Switch { cpu, pid: Pid::Process(pid), .. } => {
                let held = self.switches.get_or_insert_with(*cpu, Held::default);
                held.since.push((now, Some(*pid)));
                held.set_certain(&mut self.certain, Number::Cpu(*cpu));
            }
            Item::Lost(_) => {
                (self.known_since, self.is_lost) = (now, true);
                self.losses.push(now);
                self.forget(now);
            }
            _ => {}
        }
    }

    /// Events were lost.
    fn forget(&mut self, now: u64) {
        let Self { threads, asids, switches, .. } = self;
        let Some(certain) = self.certain.replace(Vec::new()) else {
            let all = threads.values_mut().chain(asids.values_mut()).chain(switches.values_mut());
            all.filter(|held| held.is_certain).for_each(|held| held.forget(now));
            return;
        };
        for number in certain {
            let held = match number {
                Number::Thread(tid) => threads.get_mut(&tid),
                Number::Asid(cpu, asid) => asids.get_mut(&(cpu, asid)),
                Number::Cpu(cpu) => switches.get_mut(&cpu),
            };
            held.into_iter().for_each(|held| held.forget(now));
        }
    }

    /// The process of a thread.
    pub fn thread(&self, tid: u64) -> Option<&Since> {
        self.threads.get(&tid).map(|held| &held.since)
    }

    /// The process of an ASID, on one CPU or (`None`) on all.
    pub fn asid(&self, cpu: Option<u32>, asid: u32) -> Option<&Since> {
        self.asids.get(&(cpu, asid)).map(|held| &held.since)
    }

    /// The process that a CPU is on.
    pub fn cpu(&self, cpu: u32) -> Option<&Since> {
        self.switches.get(&cpu).map(|held| &held.since)
    }

    /// What is known at the end of this part of the log, for the next one.
    pub fn carry(&self) -> Self {
        let Self { threads, asids, switches, certain, known_since, is_lost, .. } = self;
        Self {
            threads: ends(threads),
            asids: ends(asids),
            switches: ends(switches),
            losses: Vec::new(),
            certain: certain.clone(),
            known_since: *known_since,
            is_lost: *is_lost,
        }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.threads.len() + self.asids.len() + self.switches.len()
    }
}

/// Of each the last that it was, and that it is no longer, where that is so.
fn ends<K: Copy + Ord>(all: &SortedMap<K, Held>) -> SortedMap<K, Held> {
    let end = |Held { since, is_certain }: &Held| {
        let last = since.iter().rposition(|(_, pid)| pid.is_some()).unwrap_or(0);
        let end = since[last..].first().into_iter().chain(since[last..].iter().skip(1).last());
        Held { since: end.copied().collect(), is_certain: *is_certain }
    };
    all.iter().map(|(key, held)| (*key, end(held))).collect()
}

/// Something stands for a process. What ends or exists without having begun was so before: as far back as nothing is
/// known to be missing, and since it was last something else.
fn declare(since: &mut Since, state: State, pid: u64, now: u64, known_since: u64) {
    let before = since.last().copied();
    let is_known = before.is_some_and(|(from, last)| last == Some(pid) && from >= known_since);
    if !is_known && state != State::Start {
        let from = before.map_or(0, |(from, _)| from).max(known_since);
        // It was another process, and somewhere between became this one: when, nobody says.
        match before {
            Some((_, Some(other))) if other != pid && other != UNKNOWN => since.push((now, Some(pid))),
            _ => since.push((from, Some(pid))),
        }
    }
    match state {
        State::Start => since.push((now, Some(pid))),
        State::Current => {}
        State::End => since.push((now, None)),
    }
}

impl Held {
    /// It is declared. Before the first loss no list is needed: all that are certain are meant.
    fn set_certain(&mut self, certain: &mut Option<Vec<Number>>, number: Number) {
        if !std::mem::replace(&mut self.is_certain, true) {
            certain.iter_mut().for_each(|certain| certain.push(number));
        }
    }

    /// Events were lost: what it stands for is not known any more. The code of a process says itself whether it is still
    /// there.
    fn forget(&mut self, now: u64) {
        self.is_certain = false;
        if !matches!(self.since.last(), None | Some((_, Some(ITSELF | UNKNOWN)))) {
            self.since.push((now, Some(UNKNOWN)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(since: &Since, window: Window, losses: &[u64]) -> Option<u64> {
        in_window(since, window, losses).or_else(|| last_before(since, window.from))
    }

    #[test]
    fn a_number_stands_for_the_process_that_has_it_at_the_time() {
        // A thread of one process, then one of another, then a process.
        let since: Since = [(10, Some(0x500)), (20, None), (30, Some(0x600)), (40, None), (50, Some(ITSELF))]
            .into_iter()
            .collect();
        let look = |from, to| at(&since, Window { from, to }, &[]);
        assert_eq!([look(5, 9), look(5, 10), look(15, 15)], [None, Some(0x500), Some(0x500)]);
        assert_eq!(look(20, 29), Some(0x500), "it has ended, and is about to be left");
        assert_eq!([look(20, 30), look(30, 30), look(45, 45)], [Some(0x600); 3]);
        assert_eq!([look(45, 50), look(60, 60), last(&since)], [Some(ITSELF); 3]);
        let lost = |from, to| at(&since, Window { from, to }, &[25]);
        assert_eq!([lost(22, 24), lost(22, 35), lost(30, 35)], [Some(0x500), Some(0x500), Some(0x600)]);
        assert_eq!(at(&since, Window { from: 5, to: 10 }, &[2]), None, "somebody else may have had it");
    }

    #[test]
    fn a_process_that_ends_had_its_number_since_a_thread_had_it() {
        let mut since = Since::default();
        declare(&mut since, State::End, 0x500, 20, 0);
        declare(&mut since, State::End, ITSELF, 60, 0);
        let look = |time| at(&since, Window { from: time, to: time }, &[]);
        assert_eq!([look(10), look(30), look(59)], [Some(0x500), Some(ITSELF), Some(ITSELF)]);
    }
}
