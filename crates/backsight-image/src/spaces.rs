//! Address spaces: the memory of several processes, as it changes.
//!
//! A system event log tells which files are mapped where in which process, and what code was patched or made at run
//! time. What is told later hides what it overlaps. A mapping that ends shows again what it hid; a patch lasts until
//! something is mapped over it or its process ends.

use std::collections::BTreeMap;
use std::path::Path;

use backsight_core::{Address, AddressSpace};

use crate::image::Module;
use crate::segments::{Segment, Segments};
use crate::{Code, Contents, Elf, ElfKind, Image, ImageError, SourceLine, Symbol};

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    /// In every address space: a kernel and its modules.
    Every,
    /// The process with this number.
    Number(u64),
}

/// The memory of all processes at one time.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    /// Dumps of memory, seen where nothing else is known.
    memory: Image,
    layers: BTreeMap<Process, Layers>,
    modules: Vec<Module>,
    threads: BTreeMap<u64, u64>,
    asids: BTreeMap<u64, u64>,
    generation: u64,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Layers {
    /// Oldest first.
    mappings: Vec<Mapped>,
    /// The mappings, flattened.
    mapped: Segments,
    patches: Segments,
}

#[derive(Debug)]
struct Mapped {
    base: Address,
    segments: Vec<Segment>,
}

impl AddressSpaces {
    /// No process yet; `memory` is seen from all of them where nothing else is known.
    pub fn new(memory: Image) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Changes whenever memory does: what was remembered about code is then doubtful.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Maps an ELF image. A relocatable one lies `base` above its own addresses; a fixed one lies where it was linked
    /// to, unless it was `relocated`, which is a kernel that moved as a whole.
    ///
    /// # Errors
    /// If it is no linked ELF file, is cut off, or does not fit into memory.
    pub fn map_image(
        &mut self,
        process: Process,
        base: Address,
        name: &Path,
        contents: impl Into<Contents>,
        relocated: bool,
    ) -> Result<(), ImageError> {
        let contents = contents.into();
        let elf = Elf::parse(name, &contents)?;
        let bias = if relocated || elf.kind == ElfKind::Relocatable { base.0 } else { 0 };
        let segments = elf.place(name, &contents, bias, self.modules.len() as u32)?;
        self.modules.push(Module::new(name, Some((elf, contents)), bias));
        self.map(process, base, segments);
        Ok(())
    }

    /// Maps a part of a file: `size` bytes from `offset` on, or what there is of them, at `base`.
    ///
    /// # Errors
    /// If the file has no bytes there, or they do not fit into memory.
    pub fn map_part(
        &mut self,
        process: Process,
        base: Address,
        name: &Path,
        contents: impl Into<Contents>,
        offset: u64,
        size: u64,
    ) -> Result<(), ImageError> {
        let contents = contents.into();
        let length = (contents.len() as u64).saturating_sub(offset).min(size);
        let source = self.modules.len() as u32;
        let segment = Segment::new(base.0, contents.clone(), offset as usize, length as usize, source);
        let Some(segment) = segment else {
            let why = format!("cannot be mapped at {base}: {length:#x} bytes from offset {offset:#x}");
            return Err(ImageError::other(name, why));
        };
        self.modules.push(Module::of_part(name, contents, offset, base));
        self.map(process, base, vec![segment]);
        Ok(())
    }

    fn map(&mut self, process: Process, base: Address, segments: Vec<Segment>) {
        let layers = self.layers.entry(process).or_default();
        for segment in &segments {
            layers.patches.clear(segment.start, segment.last);
            layers.mapped.insert(segment.clone());
        }
        layers.mappings.push(Mapped { base, segments });
        self.generation += 1;
    }

    /// Ends the newest mapping at `base`; false if there is none.
    pub fn unmap(&mut self, process: Process, base: Address) -> bool {
        let Some(layers) = self.layers.get_mut(&process) else { return false };
        let Some(place) = layers.mappings.iter().rposition(|mapped| mapped.base == base) else {
            return false;
        };
        layers.mappings.remove(place);
        layers.mapped = Segments::default();
        for segment in layers.mappings.iter().flat_map(|mapped| &mapped.segments) {
            layers.mapped.insert(segment.clone());
        }
        self.generation += 1;
        true
    }

    /// Lays new code over what is at `address`; false if it goes beyond the top of memory or is empty.
    pub fn patch(&mut self, process: Process, address: Address, code: impl Into<Contents>) -> bool {
        let contents = code.into();
        let length = contents.len();
        let Some(segment) = Segment::new(address.0, contents, 0, length, u32::MAX) else { return false };
        self.layers.entry(process).or_default().patches.insert(segment);
        self.generation += 1;
        true
    }

    /// Lays over what is at `address` what the memory dump has there: code that was made there and stayed.
    pub fn patch_from_memory(&mut self, process: Process, address: Address, length: u64) {
        let end = address.0.saturating_add(length);
        let mut at = address.0;
        while at < end {
            let Some(bytes) = self.memory.bytes_at(AddressSpace::ANY, Address(at)) else { break };
            let take = bytes.len().min((end - at) as usize);
            let code = bytes[..take].to_vec();
            self.patch(process, Address(at), code);
            at += take as u64;
        }
    }

    /// Forgets a process: its mappings, patches, threads and address space identifiers.
    pub fn end_process(&mut self, process: Process) {
        self.layers.remove(&process);
        if let Process::Number(number) = process {
            self.threads.retain(|_, owner| *owner != number);
            self.asids.retain(|_, owner| *owner != number);
        }
        self.generation += 1;
    }

    /// Says which process a thread belongs to; `None` ends it.
    pub fn set_thread(&mut self, thread: u64, process: Option<u64>) {
        set(&mut self.threads, thread, process);
    }

    /// Says which process an address space identifier stands for; `None` frees it.
    pub fn set_asid(&mut self, asid: u64, process: Option<u64>) {
        set(&mut self.asids, asid, process);
    }

    /// The process of a thread; a thread that was never declared is the main thread of the process of its number.
    pub fn process_of_thread(&self, thread: u64) -> u64 {
        self.threads.get(&thread).copied().unwrap_or(thread)
    }

    /// The process of an address space identifier, where it is known.
    pub fn process_of_asid(&self, asid: u64) -> Option<u64> {
        self.asids.get(&asid).copied()
    }

    /// Memory as one process sees it; without a process only what every one sees.
    pub fn view(&self, process: Option<u64>) -> View<'_> {
        View { spaces: self, process }
    }
}

fn set(map: &mut BTreeMap<u64, u64>, key: u64, value: Option<u64>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

/// Memory as one process sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    spaces: &'a AddressSpaces,
    process: Option<u64>,
}

impl<'a> View<'a> {
    /// What hides what: patches and mappings of the process, then those of every process.
    fn layers(self) -> impl Iterator<Item = &'a Segments> {
        let own = self.process.and_then(|number| self.spaces.layers.get(&Process::Number(number)));
        let every = self.spaces.layers.get(&Process::Every);
        own.into_iter().chain(every).flat_map(|layers| [&layers.patches, &layers.mapped])
    }

    fn module(self, address: Address) -> Option<&'a Module> {
        let segment = self.layers().find_map(|layer| layer.find(address.0))?;
        self.spaces.modules.get(segment.source as usize)
    }

    /// The function that an address lies in.
    pub fn symbolise(self, space: AddressSpace, address: Address) -> Option<Symbol<'a>> {
        let mapped = self.module(address).and_then(|module| module.symbolise(address));
        mapped.or_else(|| self.spaces.memory.symbolise(space, address))
    }

    /// The line of source that the instruction at an address was made from.
    pub fn source_line(self, space: AddressSpace, address: Address) -> Option<SourceLine> {
        let mapped = self.module(address).and_then(|module| module.source_line(address));
        mapped.or_else(|| self.spaces.memory.source_line(space, address))
    }
}

impl Code for View<'_> {
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        // Bytes end where a layer above them begins.
        let mut room = u64::MAX;
        for layer in self.layers() {
            if let Some(bytes) = layer.bytes_at(address.0) {
                return Some(cut(bytes, room));
            }
            room = room.min(layer.next_start(address.0).map_or(u64::MAX, |start| start - address.0));
        }
        self.spaces.memory.bytes_at(space, address).map(|bytes| cut(bytes, room))
    }
}

fn cut(bytes: &[u8], room: u64) -> &[u8] {
    &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: AddressSpace = AddressSpace::ANY;
    const FILE: &str = "file";

    fn spaces() -> AddressSpaces {
        let mut memory = Image::new();
        memory.add_bytes(vec![9; 0x100], Address(0x1000), ANY).unwrap();
        AddressSpaces::new(memory)
    }

    fn map(spaces: &mut AddressSpaces, process: Process, base: u64, byte: u8, size: u64) {
        spaces.map_part(process, Address(base), Path::new(FILE), vec![byte; 0x40], 0, size).unwrap();
    }

    fn seen(spaces: &AddressSpaces, process: Option<u64>, address: u64) -> (u8, usize) {
        let view = spaces.view(process);
        view.bytes_at(ANY, Address(address)).map_or((0, 0), |bytes| (bytes[0], bytes.len()))
    }

    #[test]
    fn each_process_sees_its_own_then_what_all_see_then_the_dump() {
        let mut spaces = spaces();
        map(&mut spaces, Process::Number(1), 0x1000, 1, 0x10);
        map(&mut spaces, Process::Every, 0x1008, 5, 0x10);
        assert_eq!(seen(&spaces, Some(1), 0x1000), (1, 0x10));
        assert_eq!(seen(&spaces, Some(1), 0x1010), (5, 8));
        assert_eq!(seen(&spaces, Some(2), 0x1000), (9, 8), "the dump, up to the kernel");
        assert_eq!(seen(&spaces, None, 0x1008), (5, 0x10));
        assert_eq!(seen(&spaces, None, 0x1018), (9, 0xE8));
        assert_eq!(seen(&spaces, None, 0x2000), (0, 0));
    }

    #[test]
    fn a_mapping_that_ends_shows_what_it_hid() {
        let mut spaces = spaces();
        map(&mut spaces, Process::Number(1), 0x2000, 1, 0x20);
        map(&mut spaces, Process::Number(1), 0x2008, 2, 0x8);
        assert_eq!(seen(&spaces, Some(1), 0x2008), (2, 8));
        assert!(spaces.unmap(Process::Number(1), Address(0x2008)));
        assert_eq!(seen(&spaces, Some(1), 0x2008), (1, 0x18));
        assert!(!spaces.unmap(Process::Number(1), Address(0x2008)));
        assert!(!spaces.unmap(Process::Number(3), Address(0x2000)));
    }

    #[test]
    fn a_patch_lasts_until_something_is_mapped_over_it() {
        let mut spaces = spaces();
        let process = Process::Number(1);
        map(&mut spaces, process, 0x2000, 1, 0x20);
        let before = spaces.generation();
        assert!(spaces.patch(process, Address(0x2004), vec![7; 4]));
        assert_ne!(spaces.generation(), before);
        assert_eq!(seen(&spaces, Some(1), 0x2000), (1, 4));
        assert_eq!(seen(&spaces, Some(1), 0x2004), (7, 4));
        map(&mut spaces, process, 0x2006, 3, 0x10);
        assert_eq!(seen(&spaces, Some(1), 0x2004), (7, 2));
        assert!(spaces.unmap(process, Address(0x2006)));
        assert_eq!(seen(&spaces, Some(1), 0x2006), (1, 0x1A), "the patch is gone for good");
    }

    #[test]
    fn code_that_stayed_is_in_the_dump() {
        let mut spaces = spaces();
        map(&mut spaces, Process::Number(1), 0x1000, 1, 0x20);
        spaces.patch_from_memory(Process::Number(1), Address(0x1004), 4);
        assert_eq!(seen(&spaces, Some(1), 0x1004), (9, 4));
        spaces.patch_from_memory(Process::Number(1), Address(0x10FC), u64::MAX);
        assert_eq!(seen(&spaces, Some(1), 0x10FC), (9, 4));
    }

    #[test]
    fn a_process_that_ends_takes_its_threads_along() {
        let mut spaces = spaces();
        map(&mut spaces, Process::Number(1), 0x2000, 1, 0x20);
        spaces.set_thread(11, Some(1));
        spaces.set_asid(3, Some(1));
        assert_eq!((spaces.process_of_thread(11), spaces.process_of_asid(3)), (1, Some(1)));
        spaces.end_process(Process::Number(1));
        assert_eq!((spaces.process_of_thread(11), spaces.process_of_asid(3)), (11, None));
        assert_eq!(seen(&spaces, Some(1), 0x2000), (0, 0));
    }

    #[test]
    fn a_part_beyond_the_end_of_its_file_is_refused() {
        let mut spaces = spaces();
        let part = spaces.map_part(Process::Every, Address(0), Path::new(FILE), vec![0; 4], 4, 4);
        assert!(part.unwrap_err().to_string().starts_with("file: cannot be mapped at 0x0"));
    }

    #[test]
    fn names_follow_the_mapping() {
        let file = backsight_testing::repository().join("testdata/programs/aarch64/calls");
        let bytes = std::fs::read(&file).unwrap();
        let mut spaces = spaces();
        spaces.map_image(Process::Number(1), Address(0), &file, bytes.clone(), false).unwrap();
        spaces.map_part(Process::Number(2), Address(0x7000_0000), &file, bytes, 0, 0x1000).unwrap();
        let name =
            |process, address| spaces.view(Some(process)).symbolise(ANY, Address(address)).map(|s| s.name);
        assert_eq!(name(1, 0x40_0144), Some("hanoi"));
        assert_eq!(name(2, 0x7000_0144), Some("hanoi"));
        assert_eq!(name(2, 0x40_0144), None);
    }
}
