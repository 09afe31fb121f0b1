//! The code that a trace is followed through: what the capture brings along, and what the user names.

mod processes;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use backsight_capture::events::{Item, Mapping, Pid, State};
use backsight_capture::{Capture, MemoryDump};
use backsight_core::{Address, AddressSpace, Context};
use backsight_image::{Elf, Image, ImageSpec};
use processes::Processes;
use search::{Located, Search, name_of};

use crate::{Error, Result, Source};

/// What a kernel that places itself at random moves by: the symbol that a mapping names may be a little above its start.
const KERNEL_ALIGNMENT: u64 = 2 << 20;

/// The code of a capture, as each of its cores sees it.
#[derive(Debug)]
pub struct Code {
    shared: Image,
    /// Of cores that have memory of their own.
    own: BTreeMap<String, Image>,
    /// The number of each core.
    cores: BTreeMap<String, u32>,
    processes: Processes,
    warnings: Vec<String>,
}

/// The code that a source ran, seen as it ran it: in each context, that of its process.
#[derive(Clone, Copy, Debug)]
pub struct SourceCode<'c> {
    image: &'c Image,
    processes: &'c Processes,
    cpu: Option<u32>,
    /// The thread that all of its trace belongs to.
    thread: Option<u64>,
}

impl<'c> SourceCode<'c> {
    /// All of the code.
    pub fn image(&self) -> &'c Image {
        self.image
    }
}

impl backsight_image::Code for SourceCode<'_> {
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        self.image.bytes_at(space, address)
    }

    fn opcode_at(&self, space: AddressSpace, address: Address) -> ([u8; 4], usize) {
        self.image.opcode_at(space, address)
    }

    fn space_of(&self, context: &Context) -> AddressSpace {
        self.processes.space_of(context, self.cpu, self.thread)
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
        let warnings = reader.search.into_warnings();
        Ok(Self { shared, own, cores, processes: reader.processes, warnings })
    }

    /// The code that a source ran, as its follower sees it.
    pub fn seen_by(&self, source: &Source) -> SourceCode<'_> {
        let cpu = source.core().and_then(|core| self.cores.get(core)).copied();
        SourceCode { image: self.of(source), processes: &self.processes, cpu, thread: source.thread() }
    }

    /// The code as nobody in particular sees it, by what contexts say of processes.
    pub fn seen_by_all(&self) -> SourceCode<'_> {
        SourceCode { image: &self.shared, processes: &self.processes, cpu: None, thread: None }
    }

    /// The code that a source ran: memory of other cores, hidden by that of its own, hidden by what the user named.
    pub fn of(&self, source: &Source) -> &Image {
        source.core().and_then(|core| self.own.get(core)).unwrap_or(&self.shared)
    }

    /// The code as nobody in particular sees it.
    pub fn image(&self) -> &Image {
        &self.shared
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
        let own = |dump: &&MemoryDump| dump.core.is_none() || dump.core == core;
        // What is not there was reported when the capture was opened.
        let there = self.capture.memory.iter().filter(|dump| dump.file.exists());
        let (mine, others): (Vec<_>, Vec<_>) = there.partition(own);
        for dump in others.into_iter().chain(mine) {
            // A process has a space of its own.
            let space = dump.pid.map_or(dump.space, |pid| self.processes.add(dump.space, pid));
            let added = self.search.contents(&dump.file).and_then(|contents| {
                let name = name_of(&dump.file);
                let added =
                    image.add_dump_contents(&name, contents, dump.offset, dump.length, dump.address, space);
                added.map_err(Error::from)
            });
            if let Err(error) = added {
                self.search.warnings.insert(error.to_string());
            }
        }
        for spec in self.named {
            image.add(spec, AddressSpace::ANY)?;
        }
        Ok(image)
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
        let Located { name, contents } = file;
        let space = match mapping.pid {
            Pid::All => AddressSpace::ANY,
            Pid::Process(pid) => self.processes.add(AddressSpace::ANY, pid),
        };
        let base = mapping.base;
        match mapping.size {
            Some(_) if mapping.relocated => {
                let first =
                    Elf::parse(&name, &contents)?.segments.first().map_or(0, |segment| segment.address);
                let shift = base.0.wrapping_sub(first) & !(KERNEL_ALIGNMENT - 1);
                image.add_elf_shifted(&name, shift, space).map(drop)?;
            }
            Some(size) => {
                let there = (contents.len() as u64).saturating_sub(mapping.offset).min(size);
                image
                    .add_dump_contents(&name, contents, mapping.offset, Some(there), base, space)
                    .map(drop)?;
            }
            None if Elf::is_elf(&contents) => {
                image.add_elf_contents(&name, contents, Some(base), space).map(drop)?;
            }
            None => {}
        }
        Ok(())
    }
}

/// The number of a CPU in its name, as in `cpu_3`.
fn number_in(name: &str) -> Option<u32> {
    name.strip_prefix("cpu")?.trim_start_matches('_').parse().ok()
}
