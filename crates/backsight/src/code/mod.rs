//! The code that a trace is followed through: what the capture brings along, and what the user names.

mod names;
mod over_time;
mod processes;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use backsight_capture::events::{Item, Mapping, Pid, State};
use backsight_capture::{Capture, EventClock, MemoryDump};
use backsight_core::{Address, AddressSpace, Context};
use backsight_image::{Elf, ElfKind, Image, ImageSpec, Window};
use over_time::{LogReader, OverTime};
use processes::{OWN, Processes, Seen};
use search::{Located, Search, name_of};

use crate::{Error, Result, Source};

/// What a kernel that places itself at random moves by: the symbol that a mapping names may be a little above its start.
const KERNEL_ALIGNMENT: u64 = 2 << 20;

/// Changes that are looked at one by one: for more, all that was remembered is forgotten.
const MOST_CHANGES: usize = 64;

/// All addresses of all processes.
const EVERYTHING: (AddressSpace, Range<u64>) = (AddressSpace::ANY, 0..u64::MAX);

/// How an ELF file was moved: by `base`, or, a kernel whose mapping is given, by where it begins.
fn bias_of(elf: &Elf, mapping: &Mapping, is_kernel: bool) -> u64 {
    match elf.kind {
        _ if is_kernel => {
            let first = elf.segments.first().map_or(0, |segment| segment.address);
            mapping.base.0.wrapping_sub(first) & !(KERNEL_ALIGNMENT - 1)
        }
        ElfKind::Relocatable => mapping.base.0,
        ElfKind::Fixed | ElfKind::Core if mapping.relocated => mapping.base.0,
        ElfKind::Fixed | ElfKind::Core => 0,
    }
}

/// The code of a capture, as each of its cores sees it.
#[derive(Debug)]
pub struct Code {
    shared: Image,
    /// Of cores that have memory of their own.
    own: BTreeMap<String, Image>,
    /// The number of each core.
    cores: BTreeMap<String, u32>,
    processes: Processes,
    /// Where the code changed, and what says when.
    over_time: Option<OverTime>,
    event_clock: EventClock,
    /// Files outside the capture that the log names, by the names that find them again.
    outside: Vec<(String, PathBuf)>,
    warnings: Vec<String>,
}

/// The code that a source ran, seen as it ran it: in each context, that of its process.
#[derive(Clone, Copy, Debug)]
pub struct SourceCode<'c> {
    image: &'c Image,
    processes: &'c Processes,
    over_time: Option<&'c OverTime>,
    seen: Seen,
}

impl<'c> SourceCode<'c> {
    /// All of the code.
    pub fn image(&self) -> &'c Image {
        self.image
    }

    /// The image that names what is at an address: where code changes, that of what was there at the time.
    pub fn names_at(&self, space: AddressSpace, address: Address) -> &'c Image {
        match (self.over_time, self.seen.window) {
            (Some(over_time), Some(window)) => over_time.names_at(self.seen_space(space), address, window),
            _ => self.image,
        }
    }

    /// The image that all code comes from; `None` if it depends on the time, or on the process that the CPU was on.
    pub(crate) fn fixed_image(&self) -> Option<&'c Image> {
        let is_fixed = self.over_time.is_none() && self.processes.is_empty();
        is_fixed.then_some(self.image)
    }

    /// The space that is meant: where it is that of the process that the CPU is on, the one of that process.
    fn seen_space(&self, space: AddressSpace) -> AddressSpace {
        if space.process() == OWN { self.processes.own_space(space, &self.seen) } else { space }
    }

    /// Goes to another time. Gives what is not as it was.
    pub fn enter(&mut self, window: Window) -> Vec<(AddressSpace, Range<u64>)> {
        let before = self.seen.window.replace(window);
        let (Some(over_time), Some(before)) = (self.over_time, before) else { return vec![EVERYTHING] };
        if window.from < before.from || window.to < before.to {
            return vec![EVERYTHING];
        }
        let changes = over_time.changes();
        let first = changes.partition_point(|change| change.time <= before.from);
        let count = changes[first..].partition_point(|change| change.time <= window.to);
        if count > MOST_CHANGES {
            return vec![EVERYTHING];
        }
        let mut changed: Vec<_> = changes[first..first + count]
            .iter()
            .map(|change| {
                let space = AddressSpace::ANY.in_process(change.process);
                (space, change.start..change.last.saturating_add(1))
            })
            .collect();
        if self.processes.has_switched(self.seen.cpu, before.from, window.from) {
            changed.push((AddressSpace::ANY.in_process(OWN), 0..u64::MAX));
        } else if count > 0 {
            // What a CPU's own process sees may be any of these.
            let own =
                |(_, addresses): &(_, Range<u64>)| (AddressSpace::ANY.in_process(OWN), addresses.clone());
            changed.extend(changed.iter().map(own).collect::<Vec<_>>());
        }
        changed
    }
}

impl backsight_image::Code for SourceCode<'_> {
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        let space = self.seen_space(space);
        match (self.over_time, self.seen.window) {
            (Some(over_time), Some(window)) => over_time.bytes_at(space, address, window),
            _ => self.image.bytes_at(space, address),
        }
    }

    fn space_of(&self, context: &Context) -> AddressSpace {
        self.processes.space_of(context, &self.seen)
    }
}

impl Code {
    /// Reads the code. Files of the capture that are missing are reported, and left out.
    pub(crate) fn read(capture: &Capture, named: &[ImageSpec], roots: &[PathBuf]) -> Result<Self> {
        let search = Search::new(capture, roots);
        let mut reader = CodeReader { capture, named, search, processes: Processes::of(capture) };
        let shared = reader.image(None)?;
        let mut own = BTreeMap::new();
        let cores: BTreeSet<usize> = capture.memory.iter().filter_map(|dump| dump.core).collect();
        // If the memory of one core is all there is, everyone sees it.
        if cores.len() > 1 {
            for (number, core) in cores.iter().filter_map(|&core| Some((core, capture.cores.get(core)?))) {
                own.insert(core.name.clone(), reader.image(Some(number))?);
            }
        }
        let numbered = capture.cores.iter().zip(0..);
        let cores = numbered
            .map(|(core, index)| (core.name.clone(), number_in(&core.name).unwrap_or(index)))
            .collect();
        let over_time = reader.over_time()?;
        let event_clock = capture.event_clock;
        let outside = reader.search.files_outside();
        let warnings = reader.search.into_warnings();
        Ok(Self {
            shared,
            own,
            cores,
            processes: reader.processes,
            over_time,
            event_clock,
            outside,
            warnings,
        })
    }

    /// The code that a source ran, as its follower sees it.
    pub fn seen_by(&self, source: &Source) -> SourceCode<'_> {
        let cpu = source.core().and_then(|core| self.cores.get(core)).copied();
        let seen = Seen { cpu, thread: source.thread(), window: None };
        SourceCode { seen, ..self.code(self.of(source)) }
    }

    /// The code as nobody in particular sees it, by what contexts say of processes.
    pub fn seen_by_all(&self) -> SourceCode<'_> {
        self.code(&self.shared)
    }

    fn code<'c>(&'c self, image: &'c Image) -> SourceCode<'c> {
        let (processes, over_time, seen) = (&self.processes, self.over_time.as_ref(), Seen::default());
        SourceCode { image, processes, over_time, seen }
    }

    /// What says when the code changes; `None` if it does not.
    pub(crate) fn event_clock(&self) -> Option<EventClock> {
        self.over_time.as_ref().map(|_| self.event_clock)
    }

    /// The code that a source ran: memory of other cores, hidden by that of its own, hidden by what the user named.
    pub fn of(&self, source: &Source) -> &Image {
        source.core().and_then(|core| self.own.get(core)).unwrap_or(&self.shared)
    }

    /// The code as nobody in particular sees it.
    pub fn image(&self) -> &Image {
        &self.shared
    }

    /// Files outside the capture that its event log names, by the names that find them again in a package.
    pub(crate) fn files_outside(&self) -> &[(String, PathBuf)] {
        &self.outside
    }

    /// What could not be read, in words.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

struct CodeReader<'a> {
    capture: &'a Capture,
    named: &'a [ImageSpec],
    search: Search<'a>,
    processes: Processes,
}

impl CodeReader<'_> {
    /// The code that a core sees.
    fn image(&mut self, core: Option<usize>) -> Result<Image> {
        let mut image = Image::new();
        self.add_mappings(&mut image);
        self.add_dumps(&mut image, core);
        self.add_named(&mut image)?;
        Ok(image)
    }

    /// Code over time, if it changed.
    fn over_time(&mut self) -> Result<Option<OverTime>> {
        let Some(log) = self.capture.events.as_ref().filter(|log| over_time::changes(log)) else {
            return Ok(None);
        };
        let (mut named, mut dumps) = (Image::new(), Image::new());
        self.add_named(&mut named)?;
        self.add_dumps(&mut dumps, None);
        let timeline = LogReader::new(self.capture, &mut self.search, &mut self.processes).read(log);
        Ok(Some(OverTime::new(timeline, named, dumps)))
    }

    fn add_named(&mut self, image: &mut Image) -> Result {
        for spec in self.named {
            image.add(spec, AddressSpace::ANY)?;
        }
        Ok(())
    }

    /// Adds memory contents: those of a core hide those of others.
    fn add_dumps(&mut self, image: &mut Image, core: Option<usize>) {
        let own = |dump: &&MemoryDump| dump.core.is_none() || dump.core == core;
        // What is not there was reported when the capture was opened.
        let there = self.capture.memory.iter().filter(|dump| dump.file.exists());
        let (mine, others): (Vec<_>, Vec<_>) = there.partition(own);
        for dump in others.into_iter().chain(mine) {
            // A process has a space of its own.
            let space = dump.pid.map_or(dump.space, |pid| self.processes.add(dump.space, pid));
            let added = self.search.contents(&dump.file).and_then(|contents| {
                let (name, MemoryDump { offset, length, address, .. }) = (name_of(&dump.file), dump);
                let added = image.add_dump_contents(&name, contents, *offset, *length, *address, space);
                added.map_err(Error::from)
            });
            if let Err(error) = added {
                self.search.warnings.insert(error.to_string());
            }
        }
    }

    /// The images that the event log says were mapped, each where it was. What was mapped over what, and when, is not
    /// asked: the last counts.
    fn add_mappings(&mut self, image: &mut Image) {
        let log = self.capture.events.iter().flat_map(|log| &log.records);
        let mappings = log.filter_map(|record| match &record.item {
            Item::Mapping(State::Start | State::Current, mapping) => Some(mapping.as_ref()),
            _ => None,
        });
        for mapping in mappings {
            if let Some(Err(error)) =
                self.search.mapped(mapping).map(|file| self.add_mapping(image, mapping, file))
            {
                self.search.warnings.insert(error.to_string());
            }
        }
    }

    fn add_mapping(&mut self, image: &mut Image, mapping: &Mapping, file: Located) -> Result {
        let space = match mapping.pid {
            Pid::All => AddressSpace::ANY,
            Pid::Process(pid) => self.processes.add(AddressSpace::ANY, pid),
        };
        add_mapping(image, mapping, file, space)
    }
}

/// Adds a file where it was mapped.
fn add_mapping(image: &mut Image, mapping: &Mapping, file: Located, space: AddressSpace) -> Result {
    let Located { name, contents, .. } = file;
    let base = mapping.base;
    match mapping.size {
        size if mapping.relocated => {
            let shift = bias_of(&Elf::parse(&name, &contents)?, mapping, size.is_some());
            image.add_elf_contents_shifted(&name, contents, shift, space).map(drop)?;
        }
        Some(size) => {
            let there = (contents.len() as u64).saturating_sub(mapping.offset).min(size);
            image.add_dump_contents(&name, contents, mapping.offset, Some(there), base, space).map(drop)?;
        }
        None if Elf::is_elf(&contents) => {
            image.add_elf_contents(&name, contents, Some(base), space).map(drop)?;
        }
        None => {}
    }
    Ok(())
}

/// The number of a CPU in its name, as in `cpu_3`.
fn number_in(name: &str) -> Option<u32> {
    name.strip_prefix("cpu")?.trim_start_matches('_').parse().ok()
}
