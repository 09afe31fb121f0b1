//! Which process a context belongs to.
//!
//! Code is kept by process where the capture says so. What a core executes names its process through CONTEXTIDR, in the
//! way that the operating system uses it: the capture says which.

use std::collections::BTreeMap;

use backsight_capture::events::{Item, Pid, State};
use backsight_capture::{Capture, ContextIdLayout};
use backsight_core::{AddressSpace, Context};
use backsight_image::Window;

/// The number of a process without code of its own: it sees what all see.
const NOBODY: u32 = (1 << 24) - 1;

/// The number that stands for the process that its CPU is on, where only switches of the log say which.
pub(super) const OWN: u32 = NOBODY - 1;

/// No process has this number: events were lost, and nobody knows which it is.
const UNKNOWN: u64 = u64::MAX;

/// The number is that of a process itself, and no thread's.
const ITSELF: u64 = u64::MAX - 1;

/// What something was from each time on; `None`: nothing any more.
type Since = Vec<(u64, Option<u64>)>;

/// What it was in a span of time: at its beginning, or what it became first within it, unless events were lost before that
/// (`losses`: when, in order). What it was last, if it was nothing any more: a CPU that still has the identifier of a thread
/// which has ended is about to leave it. Without a time, the last.
fn at(since: &Since, window: Option<Window>, losses: &[u64]) -> Option<u64> {
    let last = |some: &[(u64, Option<u64>)]| some.iter().rev().find_map(|&(_, pid)| pid);
    let Some(window) = window else { return last(since) };
    let index = since.partition_point(|&(from, _)| from <= window.from);
    let (before, after) = since.split_at(index);
    let at_once = before.last().and_then(|&(_, pid)| pid);
    let since_when = before.last().map_or(0, |&(from, _)| from);
    let first_loss = losses.get(losses.partition_point(|&time| time < since_when));
    let is_certain = |from: u64| from <= window.to && first_loss.is_none_or(|&loss| from < loss);
    let mut soon = after.iter().take_while(|&&(from, _)| is_certain(from));
    at_once.or_else(|| soon.find_map(|&(_, pid)| pid)).or_else(|| last(before))
}

/// The processes of a capture, by everything that they are known by.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    layout: Option<ContextIdLayout>,
    /// Context identifiers are in the field for virtual machines.
    in_vmid: bool,
    /// The number of each process that has code of its own: spaces have room for small ones only.
    numbers: BTreeMap<u64, u32>,
    /// The process of a thread.
    threads: BTreeMap<u64, Since>,
    /// The process of an ASID, on one CPU or (`None`) on all.
    asids: BTreeMap<(Option<u32>, u32), Since>,
    /// The process that a CPU is on.
    switches: BTreeMap<u32, Since>,
    /// When events were lost, in order.
    losses: Vec<u64>,
}

impl Processes {
    /// Those that a capture names. What was declared last counts.
    pub fn of(capture: &Capture) -> Self {
        let in_vmid = capture.context_in_vmid;
        let mut processes = Self { layout: capture.contextidr, in_vmid, ..Self::default() };
        let (mut now, mut known_since, mut is_lost) = (0, 0, false);
        for record in capture.events.iter().flat_map(|log| &log.records) {
            now = record.time.unwrap_or(now).max(now);
            // What was lost was lost before the next event that is there.
            if record.time.is_some() && std::mem::take(&mut is_lost) {
                known_since = now;
            }
            match &record.item {
                Item::Thread { state, tid, pid: Pid::Process(pid), .. } => {
                    declare(processes.threads.entry(*tid).or_default(), *state, *pid, now, known_since);
                }
                // Threads and processes share their numbers: this one is that of a process, or was until now.
                Item::Mapping(state, mapping) if mapping.main => {
                    if let Pid::Process(pid) = mapping.pid {
                        let since = processes.threads.entry(pid).or_default();
                        declare(since, *state, ITSELF, now, known_since);
                    }
                }
                Item::Asid { state, asid, pid: Pid::Process(pid), cpu } => {
                    declare(
                        processes.asids.entry((*cpu, *asid)).or_default(),
                        *state,
                        *pid,
                        now,
                        known_since,
                    );
                }
                Item::Switch { cpu, pid: Pid::Process(pid), .. } => {
                    processes.switches.entry(*cpu).or_default().push((now, Some(*pid)));
                }
                Item::Lost(_) => {
                    (known_since, is_lost) = (now, true);
                    processes.losses.push(now);
                    forget(&mut processes.asids, now);
                    forget(&mut processes.threads, now);
                    forget(&mut processes.switches, now);
                }
                _ => {}
            }
        }
        processes
    }

    /// The same views in the space of a process, which has code of its own from now on.
    pub fn add(&mut self, space: AddressSpace, pid: u64) -> AddressSpace {
        let next = self.numbers.len() as u32 + 1;
        space.in_process(*self.numbers.entry(pid).or_insert(next.min(OWN - 1)))
    }

    /// The space of a context in a span of time. As long as the trace does not name a context, code of every process is
    /// seen.
    pub fn space_of(&self, context: &Context, seen: &Seen) -> AddressSpace {
        let (space, layout) = (context.space(), self.layout.unwrap_or(ContextIdLayout::None));
        if self.numbers.is_empty() {
            return space;
        }
        if let Some(tid) = seen.thread {
            return space.in_process(self.number(self.pid(ContextIdLayout::Tid, tid, seen)));
        }
        let id = if self.in_vmid { context.vmid.map(u64::from) } else { context.context_id };
        match id {
            Some(id) if layout != ContextIdLayout::None => {
                space.in_process(self.number(self.pid(layout, id, seen)))
            }
            None if layout != ContextIdLayout::None => space,
            _ if seen.cpu.is_some_and(|cpu| self.switches.contains_key(&cpu)) => space.in_process(OWN),
            _ => space,
        }
    }

    /// The space of the process that a CPU is on.
    pub fn own_space(&self, space: AddressSpace, seen: &Seen) -> AddressSpace {
        let since = seen.cpu.and_then(|cpu| self.switches.get(&cpu));
        space.in_process(self.number(since.and_then(|since| at(since, seen.window, &self.losses))))
    }

    /// Did a CPU go over to another process in this time?
    pub fn has_switched(&self, cpu: Option<u32>, after: u64, up_to: u64) -> bool {
        let Some(since) = cpu.and_then(|cpu| self.switches.get(&cpu)) else { return false };
        let count = |time| since.partition_point(|&(from, _)| from <= time);
        count(after) != count(up_to)
    }

    fn number(&self, pid: Option<u64>) -> u32 {
        pid.and_then(|pid| self.numbers.get(&pid)).copied().unwrap_or(NOBODY)
    }

    fn pid(&self, layout: ContextIdLayout, id: u64, seen: &Seen) -> Option<u64> {
        let of_thread = |tid: u64| {
            let process = self.threads.get(&tid).and_then(|since| at(since, seen.window, &self.losses));
            process.filter(|&process| process != ITSELF).unwrap_or(tid)
        };
        let of_asid = || {
            let asid = (id & 0xFF) as u32;
            let since = self.asids.get(&(seen.cpu, asid)).or_else(|| self.asids.get(&(None, asid)))?;
            at(since, seen.window, &self.losses)
        };
        match layout {
            ContextIdLayout::None => None,
            ContextIdLayout::Asid => of_asid(),
            // Units that trace 8 bits leave the number out.
            ContextIdLayout::AsidPid | ContextIdLayout::AsidTid if id >> 8 == 0 => of_asid(),
            ContextIdLayout::AsidPid => Some(id >> 8),
            ContextIdLayout::AsidTid => Some(of_thread(id >> 8)),
            ContextIdLayout::Tid => Some(of_thread(id)),
            ContextIdLayout::Pid => Some(id),
        }
    }
}

/// Who looks at code, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The CPU.
    pub cpu: Option<u32>,
    /// The thread that all of the trace belongs to.
    pub thread: Option<u64>,
    /// The time; `None`: nobody knows.
    pub window: Option<Window>,
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

/// Events were lost: what something stands for is not known any more. The code of a process says itself whether it is still
/// there.
fn forget(all: &mut BTreeMap<impl Ord, Since>, now: u64) {
    let is_believed = |since: &Since| matches!(since.last(), None | Some((_, Some(ITSELF | UNKNOWN))));
    all.values_mut().filter(|since| !is_believed(since)).for_each(|since| since.push((now, Some(UNKNOWN))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(layout: ContextIdLayout) -> Processes {
        let mut processes = Processes { layout: Some(layout), ..Processes::default() };
        processes.threads.insert(0x501, vec![(0, Some(0x500))]);
        processes.asids.insert((None, 7), vec![(0, Some(0x500))]);
        processes.asids.insert((Some(1), 7), vec![(0, Some(0x600))]);
        processes.add(AddressSpace::ANY, 0x500);
        processes.add(AddressSpace::ANY, 0x600);
        processes
    }

    fn number(layout: ContextIdLayout, id: Option<u64>, cpu: Option<u32>) -> u32 {
        let context = Context { context_id: id, ..Context::riscv(0, true) };
        processes(layout).space_of(&context, &Seen { cpu, ..Seen::default() }).process()
    }

    #[test]
    fn each_layout_names_the_process_in_its_own_way() {
        use ContextIdLayout::{Asid, AsidPid, AsidTid, Pid, Tid};
        for (layout, id) in [
            (Asid, 7),
            (AsidPid, 0x500 << 8 | 7),
            (AsidTid, 0x501 << 8 | 9),
            (Tid, 0x501),
            (Tid, 0x500),
            (Pid, 0x500),
        ] {
            assert_eq!(number(layout, Some(id), Some(0)), 1, "{layout:?} {id:#x}");
        }
        assert_eq!(number(Asid, Some(7), Some(1)), 2, "an ASID of one CPU");
        assert_eq!(number(AsidTid, Some(7), None), 1, "eight bits are traced");
    }

    #[test]
    fn a_number_stands_for_whoever_has_it_at_the_time() {
        // A thread of one process, then one of another, then a process.
        let since = vec![(10, Some(0x500)), (20, None), (30, Some(0x600)), (40, None), (50, Some(ITSELF))];
        let look = |from, to| at(&since, Some(Window { from, to }), &[]);
        assert_eq!([look(5, 9), look(5, 10), look(15, 15)], [None, Some(0x500), Some(0x500)]);
        assert_eq!(look(20, 29), Some(0x500), "it has ended, and is about to be left");
        assert_eq!([look(20, 30), look(30, 30), look(45, 45)], [Some(0x600); 3]);
        assert_eq!([look(45, 50), look(60, 60), at(&since, None, &[])], [Some(ITSELF); 3]);
        let lost = |from, to| at(&since, Some(Window { from, to }), &[25]);
        assert_eq!([lost(22, 24), lost(22, 35), lost(30, 35)], [Some(0x500), Some(0x500), Some(0x600)]);
        assert_eq!(at(&since, Some(Window { from: 5, to: 10 }), &[2]), None, "somebody else may have had it");
    }

    #[test]
    fn a_process_that_ends_had_its_number_since_a_thread_had_it() {
        let mut since = Vec::new();
        declare(&mut since, State::End, 0x500, 20, 0);
        declare(&mut since, State::End, ITSELF, 60, 0);
        let look = |time| at(&since, Some(Window { from: time, to: time }), &[]);
        assert_eq!([look(10), look(30), look(59)], [Some(0x500), Some(ITSELF), Some(ITSELF)]);
    }

    #[test]
    fn a_process_that_nobody_declared_sees_what_all_see() {
        assert_eq!(number(ContextIdLayout::Pid, Some(0x700), None), NOBODY);
        assert_eq!(number(ContextIdLayout::Asid, Some(9), None), NOBODY);
    }

    #[test]
    fn without_a_context_code_of_every_process_is_seen() {
        assert_eq!(number(ContextIdLayout::Pid, None, None), 0);
        assert_eq!(number(ContextIdLayout::None, Some(0x500), None), 0);
        let context = Context { context_id: Some(5), ..Context::riscv(0, true) };
        let none = Processes { layout: Some(ContextIdLayout::Pid), ..Processes::default() };
        assert_eq!(none.space_of(&context, &Seen::default()).process(), 0, "no process has code of its own");
    }
}
