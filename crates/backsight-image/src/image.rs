//! Memory, put together from files.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use backsight_core::{Address, AddressSpace};

use crate::lines::Lines;
use crate::segments::{Segment, Segments};
use crate::symbols::Symbols;
use crate::{Code, Contents, Elf, ElfKind, Function, ImageError, ImageSpec, Mapping, SourceLine, Symbol};

/// The code of a traced system, as files and dumps tell it.
///
/// Each memory space has its own view of memory. What is added later hides what was there before, in the spaces it
/// is added to; where nothing was added there is a hole. The bytes stay where they are: in mapped files.
#[derive(Debug, Default)]
pub struct Image {
    /// One view for each bit of [`AddressSpace`].
    views: [Segments; 8],
    modules: Vec<Module>,
}

/// A file that memory was made from.
pub struct Module {
    name: PathBuf,
    elf: Option<(Elf, Contents)>,
    /// What was added to the file's own addresses.
    bias: u64,
    symbols: OnceLock<Symbols>,
    lines: OnceLock<Option<Mutex<Lines>>>,
}

/// A piece of memory that holds bytes of one file, as one space sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// Its first address.
    pub start: Address,
    /// Its last address.
    pub last: Address,
    /// The file.
    pub file: &'a Path,
}

impl Image {
    /// Memory with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file as a user names it: an ELF file, or a dump with the address it was taken from.
    ///
    /// # Errors
    /// If the file cannot be read or used, or a dump has no address.
    pub fn add(&mut self, spec: &ImageSpec, space: AddressSpace) -> Result<(), ImageError> {
        let contents = Contents::open(&spec.file)?;
        if Elf::is_elf(&contents) {
            return self.add_elf_contents(&spec.file, contents, spec.address, space).map(drop);
        }
        let Some(address) = spec.address else {
            let name = spec.file.display();
            let why = format!("is no ELF file: say where it was in memory, as {name}@ADDRESS");
            return Err(ImageError::other(&spec.file, why));
        };
        self.add_dump_contents(&spec.file, contents, 0, None, address, space).map(drop)
    }

    /// Adds the loadable segments of an ELF file. A relocatable one (a position-independent program, a shared object)
    /// lies `load_address` above its own addresses; a fixed one lies where it was linked to, whatever `load_address`
    /// says.
    ///
    /// # Errors
    /// If the file cannot be read, is no linked ELF file, or is cut off.
    pub fn add_elf(
        &mut self,
        path: impl AsRef<Path>,
        load_address: Option<Address>,
        space: AddressSpace,
    ) -> Result<&Elf, ImageError> {
        let path = path.as_ref();
        self.add_elf_contents(path, Contents::open(path)?, load_address, space)
    }

    /// [`Image::add_elf`] with a file that is in memory already; `name` is for messages.
    ///
    /// # Errors
    /// If it is no linked ELF file, or is cut off.
    pub fn add_elf_contents(
        &mut self,
        name: &Path,
        contents: impl Into<Contents>,
        load_address: Option<Address>,
        space: AddressSpace,
    ) -> Result<&Elf, ImageError> {
        let contents = contents.into();
        let elf = Elf::parse(name, &contents)?;
        let bias = match elf.kind {
            ElfKind::Relocatable => load_address.map_or(0, |address| address.0),
            ElfKind::Fixed | ElfKind::Core => 0,
        };
        self.place_elf(name, contents, elf, bias, space)
    }

    /// Adds the loadable segments of an ELF file, fixed or not, moved by `shift`: a kernel that placed itself at
    /// random. `shift` is added with wrap-around, so that 2⁶⁴ - n moves it down by n.
    ///
    /// # Errors
    /// If the file cannot be read, is no linked ELF file, or is cut off.
    pub fn add_elf_shifted(
        &mut self,
        path: impl AsRef<Path>,
        shift: u64,
        space: AddressSpace,
    ) -> Result<&Elf, ImageError> {
        let path = path.as_ref();
        let contents = Contents::open(path)?;
        let elf = Elf::parse(path, &contents)?;
        self.place_elf(path, contents, elf, shift, space)
    }

    fn place_elf(
        &mut self,
        name: &Path,
        contents: Contents,
        elf: Elf,
        bias: u64,
        space: AddressSpace,
    ) -> Result<&Elf, ImageError> {
        let source = self.modules.len() as u32;
        let placed = elf.place(name, &contents, bias, source)?;
        for segment in placed {
            self.insert(segment, space);
        }
        self.modules.push(Module::new(name, Some((elf, contents)), bias));
        match self.modules.last() {
            Some(Module { elf: Some((elf, _)), .. }) => Ok(elf),
            _ => unreachable!("the module was pushed just now"),
        }
    }

    /// Adds a piece of a file as it is: `length` bytes from `offset` on (all there are without a length) were in
    /// memory at `address`. Where the file is an ELF file, its symbols are used too. Gives the number of bytes.
    ///
    /// # Errors
    /// If the file cannot be read, or is shorter than that.
    pub fn add_dump(
        &mut self,
        path: impl AsRef<Path>,
        offset: u64,
        length: Option<u64>,
        address: Address,
        space: AddressSpace,
    ) -> Result<u64, ImageError> {
        let path = path.as_ref();
        self.add_dump_contents(path, Contents::open(path)?, offset, length, address, space)
    }

    /// [`Image::add_dump`] with a file that is in memory already; `name` is for messages.
    ///
    /// # Errors
    /// If it is shorter than that.
    pub fn add_dump_contents(
        &mut self,
        name: &Path,
        contents: impl Into<Contents>,
        offset: u64,
        length: Option<u64>,
        address: Address,
        space: AddressSpace,
    ) -> Result<u64, ImageError> {
        let contents = contents.into();
        let size = contents.len() as u64;
        let rest = size.saturating_sub(offset);
        let length = length.unwrap_or(rest);
        if length > rest {
            let why = format!("has {size:#x} bytes, too few for {length:#x} at offset {offset:#x}");
            return Err(ImageError::other(name, why));
        }
        if length == 0 {
            return Ok(0);
        }
        let source = self.modules.len() as u32;
        let placed = Segment::new(address.0, contents.clone(), offset as usize, length as usize, source);
        let Some(segment) = placed else {
            let why = format!("does not fit into memory with {length:#x} bytes at {address}");
            return Err(ImageError::other(name, why));
        };
        self.insert(segment, space);
        self.modules.push(Module::of_part(name, contents, offset, address));
        Ok(length)
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// If they go beyond the top of memory.
    pub fn add_bytes(
        &mut self,
        bytes: impl Into<Contents>,
        address: Address,
        space: AddressSpace,
    ) -> Result<u64, ImageError> {
        self.add_dump_contents(Path::new("bytes"), bytes, 0, None, address, space)
    }

    fn insert(&mut self, segment: Segment, space: AddressSpace) {
        for (bit, view) in self.views.iter_mut().enumerate() {
            if space.view() & 1 << bit != 0 {
                view.insert(segment.clone());
            }
        }
    }

    /// The views that `space` names, in order.
    fn views(&self, space: AddressSpace) -> impl Iterator<Item = &Segments> {
        self.views
            .iter()
            .enumerate()
            .filter(move |(bit, _)| space.view() & 1 << bit != 0)
            .map(|(_, view)| view)
    }

    /// The pieces of memory that `space` sees, by address.
    pub fn regions(&self, space: AddressSpace) -> impl Iterator<Item = Region<'_>> {
        self.views(space).take(1).flat_map(Segments::iter).map(|segment| Region {
            start: Address(segment.start),
            last: Address(segment.last),
            file: self.modules.get(segment.source as usize).map_or(Path::new(""), |module| &module.name),
        })
    }

    /// Is there no memory at all?
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// The files, in the order in which they were added.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The files that may know more about an address: the one whose bytes are there; then, since a dump knows no
    /// names, those whose segments cover it, newest first.
    fn modules_at(&self, space: AddressSpace, address: Address) -> impl Iterator<Item = &Module> {
        let there = self.views(space).find_map(|view| view.find(address.0));
        let owner = there.and_then(|segment| self.modules.get(segment.source as usize));
        let covers = move |module: &&Module| module.covers(address);
        owner.into_iter().chain(self.modules.iter().rev().filter(covers))
    }

    /// The function that an address lies in.
    pub fn symbolise(&self, space: AddressSpace, address: Address) -> Option<Symbol<'_>> {
        self.modules_at(space, address).find_map(|module| module.symbolise(address))
    }

    /// The line of source that the instruction at an address was made from.
    pub fn source_line(&self, space: AddressSpace, address: Address) -> Option<SourceLine> {
        self.modules_at(space, address).find_map(|module| module.source_line(address))
    }

    /// What kind of code is at an address, where the assembler left a note.
    pub fn mapping(&self, space: AddressSpace, address: Address) -> Option<Mapping> {
        self.modules_at(space, address).find_map(|module| module.symbols().mapping(module.unmoved(address)))
    }

    /// All functions, file by file, by address.
    pub fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        self.modules.iter().flat_map(Module::functions)
    }
}

impl Code for Image {
    #[inline]
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        if space.view().is_power_of_two() {
            return self.views[space.view().trailing_zeros() as usize].bytes_at(address.0);
        }
        self.views(space).find_map(|view| view.bytes_at(address.0))
    }
}

impl Module {
    pub(crate) fn new(name: &Path, elf: Option<(Elf, Contents)>, bias: u64) -> Self {
        Self { name: name.to_owned(), elf, bias, symbols: OnceLock::new(), lines: OnceLock::new() }
    }

    /// A file whose bytes from `offset` on are at `address`. If it is an ELF file, that tells how it was moved.
    pub(crate) fn of_part(name: &Path, contents: Contents, offset: u64, address: Address) -> Self {
        let elf = if Elf::is_elf(&contents) { Elf::parse(name, &contents).ok() } else { None };
        let bias = elf.as_ref().and_then(|elf| elf.bias_of(offset, address.0));
        Self::new(name, elf.filter(|_| bias.is_some()).map(|elf| (elf, contents)), bias.unwrap_or(0))
    }

    /// Its name.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Its headers, if it is an ELF file.
    pub fn elf(&self) -> Option<&Elf> {
        self.elf.as_ref().map(|(elf, _)| elf)
    }

    /// What was added to the file's own addresses.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    fn covers(&self, address: Address) -> bool {
        self.elf().is_some_and(|elf| {
            let (start, last) = elf.range();
            (start..=last).contains(&self.unmoved(address))
        })
    }

    /// The address in the file's own numbering.
    fn unmoved(&self, address: Address) -> u64 {
        self.elf().map_or(address.0, |elf| elf.moved(address.0, self.bias.wrapping_neg()))
    }

    fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| match &self.elf {
            Some((elf, contents)) => Symbols::read(elf, contents),
            None => Symbols::default(),
        })
    }

    pub(crate) fn symbolise(&self, address: Address) -> Option<Symbol<'_>> {
        let entry = self.symbols().find(self.unmoved(address))?;
        let offset = self.unmoved(address) - entry.start;
        let start = Address(address.0.wrapping_sub(offset));
        Some(Symbol { name: entry.name(), mangled: &entry.mangled, start, offset })
    }

    fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        self.symbols().functions().iter().map(|entry| Function {
            name: entry.name(),
            mangled: &entry.mangled,
            start: Address(self.elf().map_or(entry.start, |elf| elf.moved(entry.start, self.bias))),
            size: entry.size,
        })
    }

    pub(crate) fn source_line(&self, address: Address) -> Option<SourceLine> {
        let read = || self.elf.as_ref().and_then(|(_, contents)| Lines::read(contents)).map(Mutex::new);
        let lines = self.lines.get_or_init(read).as_ref()?;
        // A panic while the lock was held cannot have left the tables half made: they are only read.
        let lines = lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        lines.find(self.unmoved(address))
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").field("name", &self.name).field("bias", &self.bias).finish_non_exhaustive()
    }
}
