//! ELF core files with trace: a trace package whose files are sections of the dump of a process.
//!
//! A core file says what was in the memory of a process and which files it had mapped. Sections whose names begin with
//! `.coresight.` are the files of a trace package: `.coresight.contents.ini` leads to the others. The dump adds what a
//! package would have to say itself: memory contents (segments), mapped files and threads (notes), as they were at the
//! end.

mod elf;
mod notes;
mod write;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use backsight_core::{Address, AddressSpace};

pub(crate) use self::elf::is_core;
use self::elf::{Headers, Segment, read_at};
use self::notes::Notes;
pub use self::write::CoreWriter;
use crate::events::{EventLog, Item, Mapping, Pid, Record, State};
use crate::folder::{FileRef, Folder};
use crate::model::{Capture, Format, MemoryDump};
use crate::store::{Extent, ExtentFolder, Store};
use crate::{Error, ReadOptions, package};

/// What the names of sections with trace begin with.
const PREFIX: &str = ".coresight.";
const LOAD: u32 = 1;
const NOTE: u32 = 4;
/// Bytes of notes at most.
const LONGEST_NOTES: u64 = 1 << 26;

/// Reads the capture in a core file.
pub(crate) fn read(store: Store, name: &str, options: &ReadOptions) -> Result<Capture, Error> {
    let headers = Headers::read(&store).map_err(|error| Error::io(name, &error))?;
    let mut buffers = BTreeMap::new();
    for section in &headers.sections {
        if let Some(file) = section.name.strip_prefix(PREFIX) {
            buffers.insert(file.to_owned(), vec![section.extent]);
        }
    }
    if !buffers.contains_key(package::ENTRY) {
        let what = format!("is an ELF core file without trace: it has no section {PREFIX}{}", package::ENTRY);
        return Err(Error::file(name, what));
    }
    // The whole file, for memory; a dump that was converted may be among the files of its package.
    let mut whole = "core".to_owned();
    while buffers.contains_key(&whole) {
        whole.push('_');
    }
    buffers.insert(whole.clone(), vec![Extent { position: 0, length: headers.length }]);
    let folder: Arc<dyn Folder> =
        Arc::new(ExtentFolder { store: store.clone(), name: name.to_owned(), buffers });
    let mut capture = package::read(folder.clone(), name, options)?;
    capture.format = Format::ElfCore;
    let notes = read_notes(&store, &headers).map_err(|error| Error::io(name, &error))?;
    take_memory(&mut capture, &headers.segments, &FileRef::new(&folder, &whole)?);
    take_notes(&mut capture, &headers.segments, notes);
    Ok(capture)
}

fn read_notes(store: &Store, headers: &Headers) -> io::Result<Notes> {
    let (mut notes, mut file, mut room) = (Notes::default(), store.open()?, LONGEST_NOTES);
    for segment in headers.segments.iter().filter(|segment| segment.kind == NOTE) {
        let extent = Extent { length: segment.extent.length.min(room), ..segment.extent };
        room -= extent.length;
        notes.take(headers.numbers, &read_at(&mut *file, extent)?);
    }
    Ok(notes)
}

/// Memory that can be executed, as far as it was dumped.
fn take_memory(capture: &mut Capture, segments: &[Segment], file: &FileRef) {
    let dumped =
        |segment: &&Segment| segment.kind == LOAD && segment.is_executable && segment.extent.length > 0;
    for segment in segments.iter().filter(dumped) {
        capture.memory.push(MemoryDump {
            file: file.clone(),
            offset: segment.extent.position,
            length: Some(segment.extent.length),
            address: Address(segment.address),
            space: AddressSpace::ANY,
            core: None,
            pid: None,
        });
    }
}

/// What the process was when it was dumped: a list of what there is, at the end of the log.
fn take_notes(capture: &mut Capture, segments: &[Segment], notes: Notes) {
    let Notes { pid, name, threads, files } = notes;
    let Some(pid) = pid.or(threads.first().copied()) else { return };
    if capture.description.is_none() {
        capture.description = name.map(|name| format!("process {pid}, {name}"));
    }
    let code: BTreeMap<u64, bool> = segments
        .iter()
        .filter(|segment| segment.kind == LOAD)
        .map(|segment| (segment.address, segment.is_executable))
        .collect();
    let of_process = Pid::Process(pid);
    let mapping = |file: notes::MappedFile| Mapping {
        main: false,
        pid: of_process,
        base: Address(file.start),
        image: Some(file.path.into()),
        build_id: None,
        size: Some(file.end - file.start),
        offset: file.offset,
        relocated: false,
        name: None,
        cpu: None,
    };
    // Where nothing says what can be executed, all may be.
    let runs = |file: &notes::MappedFile| code.get(&file.start).copied().unwrap_or(code.is_empty());
    let mapped =
        files.into_iter().filter(runs).map(|file| Item::Mapping(State::Current, Box::new(mapping(file))));
    let thread = |tid| Item::Thread { state: State::Current, tid, pid: of_process, name: None };
    let threads = threads.into_iter().filter(|&tid| tid != pid).map(thread);
    let items: Vec<Item> = mapped.chain(threads).collect();
    if items.is_empty() {
        return;
    }
    let all = [vec![Item::SnapshotBegin { complete: false }], items, vec![Item::SnapshotEnd]].concat();
    let mut log = capture.events.take().map_or_else(EventLog::default, |events| events.log().clone());
    let lines = log.records.len() as u32 + 1..;
    log.records.extend(lines.zip(all).map(|(line, item)| Record { line, time: None, item }));
    capture.events = Some(log.into());
}

impl Capture {
    /// Reads an ELF core file with trace in its sections, which is in memory; `name` is for messages.
    ///
    /// # Errors
    /// If it is none.
    pub fn from_core_file(bytes: impl Into<Arc<[u8]>>, name: &str) -> Result<Self, Error> {
        read(Store::Memory(bytes.into()), name, &ReadOptions::default())
    }
}

#[cfg(test)]
mod tests;
