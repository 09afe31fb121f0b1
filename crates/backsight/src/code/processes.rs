//! Which process a context belongs to.
//!
//! Code is kept by process where the capture says so. What a core executes names its process through CONTEXTIDR, in the
//! way that the operating system uses it: the capture says which.

use std::collections::BTreeMap;

use backsight_capture::events::{Item, Pid, State};
use backsight_capture::{Capture, ContextIdLayout};
use backsight_core::{AddressSpace, Context};

/// The number of a process without code of its own: it sees what all see.
const NOBODY: u32 = (1 << 24) - 1;

/// The processes of a capture, by everything that they are known by.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    layout: Option<ContextIdLayout>,
    /// Context identifiers are in the field for virtual machines.
    in_vmid: bool,
    /// The number of each process that has code of its own: spaces have room for small ones only.
    numbers: BTreeMap<u64, u32>,
    /// The process of a thread.
    threads: BTreeMap<u64, u64>,
    /// The process of an ASID, on one CPU or (`None`) on all.
    asids: BTreeMap<(Option<u32>, u32), u64>,
}

impl Processes {
    /// Those that a capture names. What was declared last counts.
    pub fn of(capture: &Capture) -> Self {
        let in_vmid = capture.context_in_vmid;
        let mut processes = Self { layout: capture.contextidr, in_vmid, ..Self::default() };
        for record in capture.events.iter().flat_map(|log| &log.records) {
            match &record.item {
                Item::Thread {
                    state: State::Start | State::Current, tid, pid: Pid::Process(pid), ..
                } => {
                    processes.threads.insert(*tid, *pid);
                }
                Item::Asid { state: State::Start | State::Current, asid, pid: Pid::Process(pid), cpu } => {
                    processes.asids.insert((*cpu, *asid), *pid);
                }
                _ => {}
            }
        }
        processes
    }

    /// The same views in the space of a process, which has code of its own from now on.
    pub fn add(&mut self, space: AddressSpace, pid: u64) -> AddressSpace {
        let next = self.numbers.len() as u32 + 1;
        space.in_process(*self.numbers.entry(pid).or_insert(next.min(NOBODY - 1)))
    }

    /// The space of a context on a CPU, or of the thread that all the trace belongs to. As long as the trace does not name
    /// a context, code of every process is seen.
    pub fn space_of(&self, context: &Context, cpu: Option<u32>, thread: Option<u64>) -> AddressSpace {
        let (space, layout) = (context.space(), self.layout.unwrap_or(ContextIdLayout::None));
        if let Some(tid) = thread.filter(|_| !self.numbers.is_empty()) {
            let number = self.pid(ContextIdLayout::Tid, tid, cpu).and_then(|pid| self.numbers.get(&pid));
            return space.in_process(number.copied().unwrap_or(NOBODY));
        }
        let id = if self.in_vmid { context.vmid.map(u64::from) } else { context.context_id };
        match id {
            Some(id) if layout != ContextIdLayout::None && !self.numbers.is_empty() => {
                let number = self.pid(layout, id, cpu).and_then(|pid| self.numbers.get(&pid));
                space.in_process(number.copied().unwrap_or(NOBODY))
            }
            _ => space,
        }
    }

    fn pid(&self, layout: ContextIdLayout, id: u64, cpu: Option<u32>) -> Option<u64> {
        let of_thread = |tid: u64| self.threads.get(&tid).copied().unwrap_or(tid);
        let of_asid = || {
            let asid = (id & 0xFF) as u32;
            self.asids.get(&(cpu, asid)).or_else(|| self.asids.get(&(None, asid))).copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(layout: ContextIdLayout) -> Processes {
        let mut processes = Processes { layout: Some(layout), ..Processes::default() };
        processes.threads.insert(0x501, 0x500);
        processes.asids.insert((None, 7), 0x500);
        processes.asids.insert((Some(1), 7), 0x600);
        processes.add(AddressSpace::ANY, 0x500);
        processes.add(AddressSpace::ANY, 0x600);
        processes
    }

    fn number(layout: ContextIdLayout, id: Option<u64>, cpu: Option<u32>) -> u32 {
        let context = Context { context_id: id, ..Context::riscv(0, true) };
        processes(layout).space_of(&context, cpu, None).process()
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
        assert_eq!(none.space_of(&context, None, None).process(), 0, "no process has code of its own");
    }
}
