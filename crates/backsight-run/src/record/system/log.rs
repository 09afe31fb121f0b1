//! The event log of a system: processes, threads, address space identifiers, mappings, code of no file.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use backsight_capture::events::{Item, Mapping, Patch, PatchCode, Pid, Record, State};
use backsight_core::{Address, Retired};
use backsight_image::Elf;

use super::bytes_of;
use super::numbers::Numbers;
use super::shadow::Shadow;
use crate::{CodeMap, Error};

/// Address space identifiers have 8 bits; 0 is the kernel's.
const ASIDS: Option<NonZeroU32> = NonZeroU32::new(255);
/// Bytes of code that one event has at most.
const LONGEST_PATCH: usize = 1 << 12;

/// A file whose code ran, to be kept in the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What the log calls it: its build ID, or its path.
    pub name: String,
}

/// What was logged.
pub struct LogNews {
    /// The events, numbered from 1.
    pub records: Vec<Record>,
    /// The event of code that is being run for the first time, as it is so far.
    pub growing: Option<Record>,
    /// Files that were mapped, for copying.
    pub files: Vec<MappedFile>,
}

/// A process of the log.
struct Process {
    pid: u32,
    asid: Option<u32>,
    /// By first address.
    maps: BTreeMap<u64, Mapping>,
    /// The mapping that `declare_process` named.
    main: Option<Mapping>,
    shadow: Shadow,
    /// The mapping that ran last: first and last address.
    ran: (u64, u64),
}

impl Process {
    /// First and last address of the mapping that an address is in.
    fn mapping(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, mapping) = self.maps.range(..=address).next_back()?;
        let last = start.saturating_add(mapping.size.unwrap_or(1).max(1) - 1);
        (address <= last).then_some((start, last))
    }
}

struct Thread {
    process: u32,
    tid: u32,
    /// It has the number of its process.
    is_first: bool,
}

/// Code that is being run for the first time, instruction after instruction.
struct Run {
    process: u32,
    time: u64,
    address: u64,
    bytes: Vec<u8>,
}

/// Writes the log.
pub struct SystemLog {
    records: Vec<Record>,
    now: u64,
    has_news: bool,
    /// The same, for those who write the log down.
    is_unread: bool,
    numbers: Numbers,
    asids: Numbers,
    /// By number in the operating system that runs them.
    processes: HashMap<u32, Process>,
    threads: HashMap<u32, Thread>,
    /// Numbers of programs whose place another one takes, which has not begun.
    replaced: HashMap<u32, u32>,
    run: Option<Run>,
    /// What is known of each file: its build ID.
    build_ids: HashMap<PathBuf, Option<String>>,
    files: Vec<MappedFile>,
}

impl SystemLog {
    pub fn new(numbers: Option<NonZeroU32>) -> Self {
        Self {
            records: Vec::new(),
            now: 0,
            has_news: false,
            is_unread: false,
            numbers: Numbers::new(numbers),
            asids: Numbers::new(ASIDS),
            processes: HashMap::new(),
            threads: HashMap::new(),
            replaced: HashMap::new(),
            run: None,
            build_ids: HashMap::new(),
            files: Vec::new(),
        }
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// An instruction takes a tick of the clock.
    #[inline]
    pub fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// So many instructions take as many ticks.
    pub fn pass(&mut self, instructions: u64) {
        self.now += instructions;
    }

    /// Was anything logged since the last call?
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Logs an event, which takes a tick of the clock too.
    pub fn write(&mut self, item: Item) {
        self.end_run();
        let time = self.tick();
        self.push(time, item);
    }

    fn push(&mut self, time: u64, item: Item) {
        (self.has_news, self.is_unread) = (true, true);
        self.records.push(Record { line: self.records.len() as u32 + 1, time: Some(time), item });
    }

    pub fn process_starts(&mut self, pid: u32) -> u32 {
        let number = self.replaced.remove(&pid).unwrap_or_else(|| self.numbers.take(pid));
        let (asid, main, shadow, ran) = (None, None, Shadow::default(), (1, 0));
        self.processes.insert(pid, Process { pid: number, asid, maps: BTreeMap::new(), main, shadow, ran });
        number
    }

    pub fn asid_starts(&mut self, pid: u32, number: u32) {
        let asid = self.asids.take(number);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.asid = Some(asid);
            self.asid(State::Start, asid, number);
        }
    }

    fn asid(&mut self, state: State, asid: u32, pid: u32) {
        self.write(Item::Asid { state, asid, pid: Pid::Process(pid.into()), cpu: None });
    }

    /// A process is gone: with it, its threads, its mappings and its numbers.
    pub fn process_ends(&mut self, pid: u32) {
        let left: Vec<u32> =
            self.threads.iter().filter(|(_, thread)| thread.process == pid).map(|(id, _)| *id).collect();
        left.into_iter().for_each(|thread| self.thread_ends(thread));
        self.end_run();
        let Some(process) = self.processes.remove(&pid) else { return };
        if let Some(asid) = process.asid {
            self.asid(State::End, asid, process.pid);
            self.asids.give_back(asid);
        }
        let main = process.main;
        let first = main.as_ref().map(|main| main.base);
        let others = process.maps.into_values().filter(|mapping| Some(mapping.base) != first);
        for mapping in others.chain(main) {
            self.write(Item::Mapping(State::End, Box::new(mapping)));
        }
        self.numbers.give_back(process.pid);
    }

    /// Another program takes the place of a process: it has its number.
    pub fn process_is_replaced(&mut self, pid: u32) {
        let number = self.processes.get(&pid).map(|process| process.pid);
        self.process_ends(pid);
        if let Some(number) = number {
            self.numbers.keep(number);
            self.replaced.insert(pid, number);
        }
    }

    pub fn thread_starts(&mut self, process: u32, thread: u32, tid: u32) {
        let Some(pid) = self.processes.get(&process).map(|process| process.pid) else { return };
        let is_first = !self.threads.values().any(|thread| thread.process == process);
        let tid = if is_first { pid } else { self.numbers.take(tid) };
        self.threads.insert(thread, Thread { process, tid, is_first });
        if !is_first {
            self.thread(State::Start, tid, pid);
        }
    }

    pub fn thread_ends(&mut self, thread: u32) {
        let Some(Thread { process, tid, is_first }) = self.threads.remove(&thread) else { return };
        if let Some(pid) = self.processes.get(&process).map(|process| process.pid).filter(|_| !is_first) {
            self.thread(State::End, tid, pid);
            self.numbers.give_back(tid);
        }
    }

    fn thread(&mut self, state: State, tid: u32, pid: u32) {
        self.write(Item::Thread { state, tid: tid.into(), pid: Pid::Process(pid.into()), name: None });
    }

    /// The numbers that a thread has: its process, itself, and the identifier of its address space.
    pub fn identity(&self, process: u32, thread: u32) -> (u32, u32, u32) {
        let (pid, asid) =
            self.processes.get(&process).map_or((0, None), |process| (process.pid, process.asid));
        let tid = self.threads.get(&thread).map_or(pid, |thread| thread.tid);
        (pid, tid, asid.unwrap_or(0))
    }

    /// A file, or memory of no file, was mapped.
    pub fn map(&mut self, process: u32, map: &CodeMap<'_>) -> Result<(), Error> {
        self.unmap(process, map.address.0, map.length);
        // Code of writable memory is logged as it was when it ran.
        if map.path.as_os_str().is_empty() || map.writable || map.length == 0 {
            return Ok(());
        }
        let build_id = self.file(map.path);
        let Some(owner) = self.processes.get_mut(&process) else { return Ok(()) };
        let mapping = Mapping {
            main: map.program && owner.main.is_none(),
            pid: Pid::Process(owner.pid.into()),
            base: map.address,
            image: Some(map.path.display().to_string().into()),
            build_id: build_id.map(Into::into),
            size: Some(map.length),
            offset: map.offset,
            relocated: false,
            name: None,
            cpu: None,
        };
        if mapping.main {
            owner.main = Some(mapping.clone());
        }
        owner.maps.insert(map.address.0, mapping.clone());
        self.write(Item::Mapping(State::Start, Box::new(mapping)));
        Ok(())
    }

    /// The build ID of a file, which is to be kept.
    fn file(&mut self, path: &Path) -> Option<String> {
        if let Some(known) = self.build_ids.get(path) {
            return known.clone();
        }
        let contents = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        let contents = contents.and_then(|_| std::fs::read(path).ok());
        let id = contents.as_ref().and_then(|contents| Elf::parse(path, contents).ok()?.build_id);
        let id = id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        if contents.is_some() {
            let name = id.as_ref().map_or_else(|| path.display().to_string(), |id| format!("build-id:{id}"));
            self.files.push(MappedFile { path: path.to_owned(), name });
        }
        self.build_ids.insert(path.to_owned(), id.clone());
        id
    }

    /// Memory is gone. The rest of a mapping beside it is a new mapping.
    pub fn unmap(&mut self, process: u32, address: u64, length: u64) {
        self.end_run();
        let end = address.saturating_add(length);
        let Some(owner) = self.processes.get_mut(&process) else { return };
        owner.shadow.forget(address, length);
        owner.ran = (1, 0);
        let stop_of = |mapping: &Mapping| mapping.base.0.saturating_add(mapping.size.unwrap_or(0));
        let touched = |mapping: &&Mapping| mapping.base.0 < end && address < stop_of(mapping);
        let hit: Vec<Mapping> = owner.maps.values().filter(touched).cloned().collect();
        for mapping in hit {
            let (start, stop) = (mapping.base.0, stop_of(&mapping));
            if let Some(owner) = self.processes.get_mut(&process) {
                owner.maps.remove(&start);
            }
            // Only the end of a process takes along all that it had.
            self.write(Item::Mapping(State::End, Box::new(Mapping { main: false, ..mapping.clone() })));
            for (from, to) in [(start, address.min(stop)), (end.max(start), stop)] {
                if from < to {
                    let rest = Mapping {
                        main: false,
                        base: Address(from),
                        size: Some(to - from),
                        offset: mapping.offset + (from - start),
                        ..mapping.clone()
                    };
                    if let Some(owner) = self.processes.get_mut(&process) {
                        owner.maps.insert(from, rest.clone());
                    }
                    self.write(Item::Mapping(State::Start, Box::new(rest)));
                }
            }
        }
    }

    /// An instruction is about to run. True: it is code of no file that was not logged yet, and is now.
    #[inline]
    pub fn ran(&mut self, process: u32, retired: &Retired) -> bool {
        let Some(owner) = self.processes.get_mut(&process) else { return false };
        let address = retired.address.0;
        if (owner.ran.0..=owner.ran.1).contains(&address) {
            return false;
        }
        self.ran_elsewhere(process, retired)
    }

    /// Addresses of a mapping that a process runs: what runs there need not be logged. Without an `address`, those of the
    /// mapping that it ran last.
    pub fn known_code(&mut self, process: u32, address: Option<u64>) -> RangeInclusive<u64> {
        let Some(owner) = self.processes.get_mut(&process) else { return RangeInclusive::new(1, 0) };
        if let Some(found) = address.and_then(|address| owner.mapping(address)) {
            owner.ran = found;
        }
        owner.ran.0..=owner.ran.1
    }

    fn ran_elsewhere(&mut self, process: u32, retired: &Retired) -> bool {
        let Some(owner) = self.processes.get_mut(&process) else { return false };
        let address = retired.address.0;
        if let Some(found) = owner.mapping(address) {
            owner.ran = found;
            return false;
        }
        let (bytes, size) = bytes_of(retired);
        let bytes = &bytes[..size];
        if owner.shadow.replace(address, bytes) {
            return false;
        }
        self.is_unread = true;
        match &mut self.run {
            Some(run)
                if run.process == process
                    && run.address + run.bytes.len() as u64 == address
                    && run.bytes.len() < LONGEST_PATCH =>
            {
                run.bytes.extend_from_slice(bytes);
                false
            }
            _ => {
                self.end_run();
                let time = self.tick();
                self.run = Some(Run { process, time, address, bytes: bytes.to_vec() });
                self.has_news = true;
                true
            }
        }
    }

    /// The code that was run for the first time is all there: logs it, at the time at which it began to run.
    pub fn end_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        if let Some(item) = self.patch(&run) {
            self.push(run.time, item);
        }
    }

    fn patch(&self, run: &Run) -> Option<Item> {
        let pid = self.processes.get(&run.process).map(|process| process.pid)?;
        Some(Item::Patch(Box::new(Patch {
            pid: Pid::Process(pid.into()),
            address: Address(run.address),
            length: run.bytes.len() as u64,
            code: PatchCode::Inline(run.bytes.clone()),
        })))
    }

    /// What was logged since the last call.
    pub fn take_unread(&mut self) -> Option<LogNews> {
        if !std::mem::take(&mut self.is_unread) {
            return None;
        }
        let growing = self.run.as_ref().and_then(|run| {
            let item = self.patch(run)?;
            Some(Record { line: 0, time: Some(run.time), item })
        });
        Some(LogNews {
            records: std::mem::take(&mut self.records),
            growing,
            files: std::mem::take(&mut self.files),
        })
    }
}
