//! What happened to processes, as an event log.

use std::collections::BTreeMap;

use backsight_core::{Address, Budget};

use super::etm::TimeConversion;
use super::record::{Mmap, Record, Trailer};
use super::space::Space;
use super::walk::EVENT;
use crate::events::{self, EventLog, Item, Mapping, Patch, PatchCode, Pid, State};

/// Makes an event log of records. Times are perf's, or those of the counter where there is a conversion.
pub(super) fn log(
    mut records: Vec<(Trailer, Record)>,
    build_ids: &BTreeMap<String, String>,
    conversion: Option<&TimeConversion>,
    budget: &Budget,
    warnings: &mut Vec<String>,
) -> EventLog {
    // What was there before has no time, or time 0.
    records.sort_by_key(|(trailer, _)| trailer.time.unwrap_or(0));
    let mut log =
        Log { conversion, build_ids, records: Vec::new(), mapped: BTreeMap::new(), budget, problem: None };
    for (trailer, record) in records {
        log.record(&trailer, record);
    }
    warnings.extend(log.problem);
    EventLog { records: log.records, problems: Vec::new() }
}

struct Log<'a> {
    conversion: Option<&'a TimeConversion>,
    build_ids: &'a BTreeMap<String, String>,
    records: Vec<events::Record>,
    /// What each process has mapped now.
    mapped: BTreeMap<u64, Space>,
    budget: &'a Budget,
    /// What was left out, in words.
    problem: Option<String>,
}

impl Log<'_> {
    fn record(&mut self, trailer: &Trailer, record: Record) {
        let time = trailer.time.filter(|&time| time != 0);
        let time = time.map(|time| self.conversion.map_or(time, |conversion| conversion.counter(time)));
        match record {
            Record::Mmap(mmap) => self.mmap(time, *mmap),
            Record::Comm { pid, tid, name, exec } => {
                if exec {
                    self.end(time, pid.into());
                }
                self.thread(time, tid, pid, Some(name));
            }
            Record::Fork { pid, parent, tid } => {
                self.thread(time, tid, pid, None);
                if pid != parent {
                    self.inherit(time, parent.into(), pid.into());
                }
            }
            Record::Exit { pid, tid } if pid == tid => self.end(time, pid.into()),
            Record::Exit { pid, tid } => {
                let thread =
                    Item::Thread { state: State::End, tid: tid.into(), pid: process(pid), name: None };
                self.push(time, thread);
            }
            Record::ItraceStart { pid, tid } => self.thread(time, tid, pid, None),
            Record::SwitchIn { pid, tid } => {
                if let Some(cpu) = trailer.cpu {
                    self.push(time, Item::Switch { cpu, pid: process(pid), tid: Some(tid.into()) });
                }
            }
            Record::TextPoke { address, code } if !code.is_empty() => {
                let (address, length) = (Address(address), code.len() as u64);
                let code = PatchCode::Inline(code);
                self.push(time, Item::Patch(Box::new(Patch { pid: Pid::All, address, length, code })));
            }
            Record::TextPoke { .. } | Record::Aux(_) | Record::Lost(_) | Record::HardwareId(_) => {}
        }
    }

    fn mmap(&mut self, time: Option<u64>, mmap: Mmap) {
        if !mmap.executable || mmap.length == 0 {
            return;
        }
        let kernel = mmap.pid == u32::MAX;
        let name = match mmap.name.split_once(']') {
            // The symbol after it is the one whose address the mapping has.
            Some((name, _)) if kernel && mmap.name.starts_with("[kernel") => format!("{name}]"),
            _ => mmap.name,
        };
        let pid = if kernel { Pid::All } else { process(mmap.pid) };
        let number = u64::from(mmap.pid);
        let mapping = Mapping {
            main: !kernel && self.mapped.get(&number).is_none_or(Space::is_empty),
            pid,
            base: Address(mmap.address),
            build_id: mmap.build_id.or_else(|| self.build_ids.get(&name).cloned()).map(Into::into),
            size: Some(mmap.length),
            offset: mmap.offset,
            relocated: kernel && name.starts_with("[kernel"),
            image: Some(name.into()),
            name: None,
            cpu: None,
        };
        if !kernel {
            self.mapped.entry(number).or_default().map(mapping.clone());
        }
        self.push(
            time,
            Item::Mapping(if time.is_some() { State::Start } else { State::Current }, Box::new(mapping)),
        );
    }

    fn thread(&mut self, time: Option<u64>, tid: u32, pid: u32, name: Option<String>) {
        let state = if time.is_some() { State::Start } else { State::Current };
        let name = name.map(String::into_boxed_str);
        self.push(time, Item::Thread { state, tid: tid.into(), pid: process(pid), name });
    }

    /// A process has nothing mapped any more.
    fn end(&mut self, time: Option<u64>, pid: u64) {
        if let Some(first) = self.mapped.remove(&pid).and_then(Space::into_main) {
            self.push(time, Item::Mapping(State::End, Box::new(Mapping { main: true, ..first })));
        }
    }

    /// A child has all that its parent has mapped.
    fn inherit(&mut self, time: Option<u64>, parent: u64, child: u64) {
        let Some(mapped) = self.mapped.get(&parent) else { return };
        if let Err(why) = self.budget.take(EVENT * mapped.len() as u64) {
            let what = || format!("some of the mappings that forks hand on are left out: {why}");
            self.problem.get_or_insert_with(what);
            return;
        }
        let mapped = mapped.forked(child);
        for mapping in mapped.mappings() {
            self.push(time, Item::Mapping(State::Start, Box::new(mapping.clone())));
        }
        self.mapped.insert(child, mapped);
    }

    fn push(&mut self, time: Option<u64>, item: Item) {
        let line = u32::try_from(self.records.len() + 1).unwrap_or(u32::MAX);
        self.records.push(events::Record { line, time, item });
    }
}

fn process(pid: u32) -> Pid {
    Pid::Process(pid.into())
}
