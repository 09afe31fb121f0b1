//! From what a recording says about memory to the events of a capture.
//!
//! A decoder needs the code that ran. Most of it is in files, which the log of events names with the place where
//! they were mapped; what is in no file (signal trampolines, generated code, code in writable memory) goes into
//! the log as it was.

use std::collections::HashMap;

use backsight_capture::events::{self, Mapping, Patch, PatchCode, Pid, Record, State};
use backsight_core::Address;

use crate::{CodeMap, Observation};

/// Keeps track of mappings, threads and code of one process, and writes events.
#[derive(Clone, Debug)]
pub struct Journal {
    pid: Pid,
    maps: Vec<(u64, u64, Mapping)>,
    code: HashMap<u64, Box<[u8]>>,
    threads: HashMap<u32, u64>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { pid: Pid::Process(1), maps: Vec::new(), code: HashMap::new(), threads: HashMap::new() }
    }
}

impl Journal {
    /// A journal of a process; its number is 1 until it says otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends to `records` the events that `item`, at this time, amounts to: none for execution itself.
    pub fn note(&mut self, time: Option<u64>, item: &Observation<'_>, records: &mut Vec<Record>) {
        let mut push = |item| records.push(Record { line: records.len() as u32 + 1, time, item });
        match *item {
            Observation::Execution(_) | Observation::Blocks(_) => {}
            Observation::ProcessStarts { pid } => self.pid = Pid::Process(pid.into()),
            Observation::ThreadStarts { thread, tid } => {
                self.threads.insert(thread, tid.into());
                push(self.thread(State::Start, tid.into()));
            }
            Observation::ThreadEnds { thread } => {
                if let Some(tid) = self.threads.remove(&thread) {
                    push(self.thread(State::End, tid));
                }
            }
            Observation::Map(map) => {
                self.unmap(map.address.0, map.length, &mut push);
                // Code of writable memory is logged as it was when it ran.
                if !map.path.as_os_str().is_empty() && !map.writable {
                    let mapping = self.mapping(&map);
                    push(events::Item::Mapping(State::Start, Box::new(mapping.clone())));
                    self.maps.push((map.address.0, map.length, mapping));
                }
            }
            Observation::Unmap { address, length } => self.unmap(address.0, length, &mut push),
            Observation::Output { .. }
            | Observation::Process { .. }
            | Observation::ProcessEnds { .. }
            | Observation::ProcessReplaced { .. } => {}
            Observation::Code { address, bytes } => {
                if self.is_new(address, bytes) {
                    self.code.insert(address.0, bytes.into());
                    push(events::Item::Patch(Box::new(Patch {
                        pid: self.pid,
                        address,
                        length: bytes.len() as u64,
                        code: PatchCode::Inline(bytes.to_vec()),
                    })));
                }
            }
        }
    }

    fn thread(&self, state: State, tid: u64) -> events::Item {
        events::Item::Thread { state, tid, pid: self.pid, name: None }
    }

    fn mapping(&self, map: &CodeMap<'_>) -> Mapping {
        Mapping {
            main: map.program,
            pid: self.pid,
            base: map.address,
            image: Some(map.path.display().to_string().into()),
            build_id: None,
            size: Some(map.length),
            offset: map.offset,
            relocated: false,
            name: None,
            cpu: None,
        }
    }

    /// Ends every mapping that the range touches; the rest of one beside the range is a new mapping.
    fn unmap(&mut self, address: u64, length: u64, push: &mut impl FnMut(events::Item)) {
        let end = address.saturating_add(length);
        self.code.retain(|&at, _| at < address || at >= end);
        for (start, size, mapping) in std::mem::take(&mut self.maps) {
            let stop = start.saturating_add(size);
            if stop <= address || end <= start {
                self.maps.push((start, size, mapping));
                continue;
            }
            push(events::Item::Mapping(State::End, Box::new(mapping.clone())));
            for (from, to) in [(start, address.min(stop)), (end.max(start), stop)] {
                if from < to {
                    let rest = Mapping {
                        base: Address(from),
                        size: Some(to - from),
                        offset: mapping.offset + (from - start),
                        ..mapping.clone()
                    };
                    push(events::Item::Mapping(State::Start, Box::new(rest.clone())));
                    self.maps.push((from, to - from, rest));
                }
            }
        }
    }

    /// Is this code in no file, and not logged yet?
    fn is_new(&self, address: Address, bytes: &[u8]) -> bool {
        let end = address.0.saturating_add(bytes.len() as u64);
        let mapped = |(start, size, _): &(u64, u64, Mapping)| {
            *start <= address.0 && end <= start.saturating_add(*size)
        };
        !self.maps.iter().any(mapped) && self.code.get(&address.0).is_none_or(|code| **code != *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_capture::events::EventLog;
    use std::path::Path;

    fn map(address: u64, length: u64, writable: bool) -> Observation<'static> {
        Observation::Map(CodeMap {
            address: Address(address),
            length,
            offset: 0x1000,
            path: Path::new("/lib/a.so"),
            program: false,
            writable,
        })
    }

    fn lines(items: &[Observation<'_>]) -> Vec<String> {
        let mut journal = Journal::new();
        let mut records = Vec::new();
        journal.note(None, &Observation::ProcessStarts { pid: 7 }, &mut records);
        for (time, item) in items.iter().enumerate() {
            journal.note(Some(time as u64), item, &mut records);
        }
        let log = EventLog { records, problems: Vec::new() }.to_string();
        log.lines().skip(1).map(String::from).collect()
    }

    #[test]
    fn files_are_named_and_code_of_no_file_is_logged() {
        let code = |address, bytes| Observation::Code { address: Address(address), bytes };
        let logged = lines(&[
            map(0x4000, 0x2000, false),
            map(0x8000, 0x2000, true),
            code(0x4000, &[1, 2]),
            code(0x5FFF, &[1, 2]),
            code(0x8000, &[3, 4]),
            code(0x8000, &[3, 4]),
            code(0x8000, &[5, 6]),
        ]);
        assert_eq!(logged.len(), 4, "{logged:#?}");
        assert!(logged[0].starts_with("0 declare_library START pid=7 base=0x4000"), "{}", logged[0]);
        assert!(logged[0].contains("/lib/a.so") && logged[0].contains("size=0x2000"), "{}", logged[0]);
        assert!(logged[1].starts_with("3 patch_code pid=7 addr=0x5fff len=2 code=0102"), "{}", logged[1]);
        assert!(logged[2].contains("code=0304") && logged[3].contains("code=0506"), "{logged:?}");
    }

    #[test]
    fn a_hole_in_a_mapping_leaves_two() {
        let logged = lines(&[
            map(0x4000, 0x3000, false),
            Observation::Unmap { address: Address(0x5000), length: 0x1000 },
        ]);
        let [_, end, first, second] = &logged[..] else { panic!("{logged:#?}") };
        assert!(end.contains("declare_library END") && end.contains("base=0x4000"), "{end}");
        assert!(
            first.contains("START") && first.contains("base=0x4000") && first.contains("size=0x1000"),
            "{first}"
        );
        assert!(second.contains("base=0x6000") && second.contains("offset=0x3000"), "{second}");
    }

    #[test]
    fn threads_begin_and_end() {
        let logged =
            lines(&[Observation::ThreadStarts { thread: 1, tid: 99 }, Observation::ThreadEnds { thread: 1 }]);
        assert_eq!(logged, ["0 declare_thread START tid=99 pid=7", "1 declare_thread END tid=99 pid=7"]);
    }
}
