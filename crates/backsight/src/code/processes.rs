//! Which process a context belongs to.
//!
//! Code is kept by process where the capture says so. What a core executes names its process through CONTEXTIDR, in the
//! way that the operating system uses it: the capture says which.

use std::sync::{PoisonError, RwLock};

use backsight_capture::{Capture, ContextIdLayout};
use backsight_core::{AddressSpace, Context};
use backsight_image::SortedMap;

use super::history::Moment;
use super::holders::{Holders, ITSELF, Since};

/// The number of a process without code of its own: it sees what all see.
const NOBODY: u32 = (1 << 24) - 1;

/// The number that stands for the process that its CPU is on, where only switches of the log say which.
pub(super) const OWN: u32 = NOBODY - 1;

/// The processes of a capture, by everything that they are known by.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    layout: Option<ContextIdLayout>,
    /// Context identifiers are in the field for virtual machines.
    in_vmid: bool,
    /// The number of each process that has code of its own: spaces have room for small ones only. They are given in the
    /// order of the log.
    numbers: RwLock<SortedMap<u64, u32>>,
}

impl Processes {
    pub fn of(capture: &Capture) -> Self {
        Self { layout: capture.contextidr, in_vmid: capture.context_in_vmid, numbers: RwLock::default() }
    }

    /// The same views in the space of a process, which has code of its own from now on.
    pub fn add(&self, space: AddressSpace, pid: u64) -> AddressSpace {
        let known = self.numbers.read().unwrap_or_else(PoisonError::into_inner).get(&pid).copied();
        space.in_process(known.unwrap_or_else(|| {
            let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
            let next = numbers.len() as u32 + 1;
            *numbers.get_or_insert_with(pid, || next.min(OWN - 1))
        }))
    }

    /// The number that the operating system gave to a context.
    pub fn context_id(&self, context: &Context) -> Option<u64> {
        if self.in_vmid { context.vmid.map(u64::from) } else { context.context_id }
    }

    /// Does a context ID stand for one thread, and not for all those of a process?
    pub fn names_threads(&self) -> bool {
        use ContextIdLayout::{AsidTid, None as Nothing, Tid};
        matches!(self.layout, Some(Tid | AsidTid | Nothing) | None)
    }

    /// The thread that a context ID stands for, where it stands for one.
    pub fn thread_number(&self, id: u64) -> Option<u64> {
        match self.layout {
            Some(ContextIdLayout::AsidTid) => Some(id >> 8).filter(|&thread| thread != 0),
            _ => Some(id).filter(|_| self.names_threads()),
        }
    }

    /// What a context ID stands for, in words.
    pub fn thread_name(&self, id: u64) -> String {
        match self.layout {
            Some(ContextIdLayout::Tid) => format!("thread {id}"),
            Some(ContextIdLayout::AsidTid) if id >> 8 != 0 => format!("thread {}", id >> 8),
            Some(ContextIdLayout::Pid) => format!("process {id}"),
            Some(ContextIdLayout::AsidPid) if id >> 8 != 0 => format!("process {}", id >> 8),
            Some(ContextIdLayout::Asid | ContextIdLayout::AsidPid | ContextIdLayout::AsidTid) => {
                format!("ASID {}", id & 0xFF)
            }
            Some(ContextIdLayout::None) | None => format!("context {id:#x}"),
        }
    }

    /// The space of a context in a span of time. As long as the trace does not name a context, code of every process is
    /// seen.
    pub fn space_of(&self, context: &Context, seen: &Seen<'_>) -> AddressSpace {
        let (space, layout) = (context.space(), self.layout.unwrap_or(ContextIdLayout::None));
        if self.numbers.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return space;
        }
        if let Some(tid) = seen.thread {
            return space.in_process(self.number(self.pid(ContextIdLayout::Tid, tid, seen)));
        }
        match self.context_id(context) {
            Some(id) if layout != ContextIdLayout::None => {
                space.in_process(self.number(self.pid(layout, id, seen)))
            }
            None if layout != ContextIdLayout::None => space,
            _ if seen.moment.is_some_and(|moment| moment.switches(seen.cpu)) => space.in_process(OWN),
            _ => space,
        }
    }

    /// The space of the process that a CPU is on.
    pub fn own_space(&self, space: AddressSpace, seen: &Seen<'_>) -> AddressSpace {
        let process = seen.cpu.and_then(|cpu| seen.holder(|holders| holders.cpu(cpu)));
        space.in_process(self.number(process))
    }

    fn number(&self, pid: Option<u64>) -> u32 {
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        pid.and_then(|pid| numbers.get(&pid)).copied().unwrap_or(NOBODY)
    }

    fn pid(&self, layout: ContextIdLayout, id: u64, seen: &Seen<'_>) -> Option<u64> {
        let of_thread = |tid: u64| {
            let process = seen.holder(|holders| holders.thread(tid));
            process.filter(|&process| process != ITSELF).unwrap_or(tid)
        };
        let of_asid = || {
            let asid = (id & 0xFF) as u32;
            seen.holder(|holders| holders.asid(seen.cpu, asid).or_else(|| holders.asid(None, asid)))
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
pub(crate) struct Seen<'c> {
    /// The CPU.
    pub cpu: Option<u32>,
    /// The thread that all of the trace belongs to.
    pub thread: Option<u64>,
    /// The time, of a capture that has events.
    pub moment: Option<Moment<'c>>,
}

impl Seen<'_> {
    /// The process that a number stands for at the time.
    fn holder(&self, since: impl Fn(&Holders) -> Option<&Since>) -> Option<u64> {
        self.moment?.holder(since)
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::*;
    use backsight_capture::events::EventLog;
    use std::sync::Arc;

    const LOG: &str = "%system-event-log version=1
0 declare_thread START tid=0x501 pid=0x500
0 declare_asid START asid=7 pid=0x500
0 declare_asid START asid=7 pid=0x600 cpu=1
";

    fn number(layout: ContextIdLayout, id: Option<u64>, cpu: Option<u32>) -> u32 {
        let context = Context { context_id: id, ..Context::riscv(0, true) };
        let processes = Arc::new(Processes { layout: Some(layout), ..Processes::default() });
        processes.add(AddressSpace::ANY, 0x500);
        processes.add(AddressSpace::ANY, 0x600);
        let log = EventLog::parse("log", LOG).expect("a log");
        let history = History::new(&log.into(), processes.clone(), None);
        let moment = Some(history.at_no_time());
        processes.space_of(&context, &Seen { cpu, moment, ..Seen::default() }).process()
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
