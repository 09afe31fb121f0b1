//! Memory, put together from files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight_core::{Address, AddressSpace, Isa};

use crate::debug_files::DebugFile;
use crate::memory::{Memory, Piece};
use crate::module::{ElfFile, Settings};
use crate::{
    AllowedFiles, Budget, Code, Contents, Elf, ElfKind, ImageError, ImageSpec, Mapping, Module, relocate,
};

/// The code of a traced system, as files and dumps describe it.
///
/// Each address space has its own view of memory. What is added later hides what was there before, in the spaces it
/// is added to; what is added to the space of one process is seen by that process only, and hides there what all
/// processes see. Where nothing was added there is a hole. The bytes stay where they are: in mapped files.
#[derive(Debug, Default)]
pub struct Image {
    pub(crate) memory: Memory,
    pub(crate) modules: Vec<Module>,
    pub(crate) settings: Settings,
    /// Files that were opened by their path: one map for all pieces of a file.
    opened: HashMap<PathBuf, Contents>,
    /// ELF files by their contents: one table of symbols for all pieces and places of a file.
    files: HashMap<(usize, usize), Arc<ElfFile>>,
    /// Files that only begin like an ELF file, as dumps do: they are not tried again.
    unusable: HashMap<(usize, usize), Contents>,
}

/// What a change of memory touched: what was remembered about code there is to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The spaces.
    pub space: AddressSpace,
    /// The first address.
    pub start: Address,
    /// The last address.
    pub last: Address,
}

impl Image {
    /// Memory with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory with nothing in it, whose names and lines take no more than a budget allows. Images may share it.
    pub fn within(budget: Budget) -> Self {
        let mut image = Self::new();
        image.settings.budget = budget;
        image
    }

    /// Bounds the memory for names and lines. Images may share a budget.
    pub fn set_budget(&mut self, budget: Budget) {
        for file in self.files.values() {
            budget.count_file(&file.contents);
        }
        self.settings.budget = budget;
    }

    /// Where debug information of programs is looked for, by build identifier (`.build-id/12/345678.debug`, also beneath
    /// `usr/lib/debug`) and by the path of the program, besides beside the program. Without this, nowhere.
    pub fn set_allowed_files(&mut self, allowed: AllowedFiles) {
        self.settings.allowed = allowed;
        self.forget_names(|_| true);
    }

    /// Adds a file as a user names it: an ELF file, a file that holds the debug information of another one, or a dump
    /// with the address it was taken from.
    ///
    /// # Errors
    /// If the file cannot be read or used, or a dump has no address.
    pub fn add(&mut self, spec: &ImageSpec, space: AddressSpace) -> Result<(), ImageError> {
        let contents = self.open(&spec.file)?;
        if Elf::is_elf(&contents) {
            if Elf::is_debug_only(&contents) {
                return self.add_debug_contents(&spec.file, contents);
            }
            return self.add_elf_contents(&spec.file, contents, spec.address, space).map(drop);
        }
        let Some(address) = spec.address else {
            let name = spec.file.display();
            let why = format!("is no ELF file: say where it was in memory, as {name}@ADDRESS");
            return Err(ImageError::other(&spec.file, why));
        };
        self.add_dump_contents(&spec.file, contents, 0, None, address, space).map(drop)
    }

    /// Adds files as a user names them. Those that are not linked come last: they are linked to the others.
    ///
    /// # Errors
    /// As [`Image::add`].
    pub fn add_all(&mut self, specs: &[ImageSpec], space: AddressSpace) -> Result<(), ImageError> {
        let mut objects = Vec::new();
        for spec in specs {
            match Elf::is_object(&self.open(&spec.file)?) {
                true => objects.push(spec),
                false => self.add(spec, space)?,
            }
        }
        objects.into_iter().try_for_each(|spec| self.add(spec, space))
    }

    /// Adds the loadable segments of an ELF file. A relocatable one (a position-independent program, a shared object)
    /// lies `load_address` above its own addresses; a fixed one lies where it was linked to, whatever `load_address`
    /// says. One that is not linked (a kernel module) has its code at `load_address`, and is linked to functions of
    /// files that were added before.
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
        let contents = self.open(path)?;
        self.add_elf_contents(path, contents, load_address, space)
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
        if Elf::is_object(&contents) {
            let functions = self.targets(space);
            return self.add_object(name, &contents, load_address, space, &functions);
        }
        let file = self.elf_file(name, contents)?;
        let bias = match file.elf.kind {
            ElfKind::Relocatable => load_address.map_or(0, |address| address.0),
            ElfKind::Fixed | ElfKind::Core => 0,
        };
        self.place_elf(name, file, bias, space)
    }

    /// Where functions are, by their names in files, for files that are to be linked to them; those in T32 code have bit 0
    /// set.
    pub fn targets(&self, space: AddressSpace) -> HashMap<String, u64> {
        let mut targets = HashMap::new();
        for function in self.functions() {
            let is_t32 = self.mapping(space, function.start) == Some(Mapping::Code(Isa::T32));
            targets.entry(function.mangled.to_owned()).or_insert(function.start.0 | u64::from(is_t32));
        }
        targets
    }

    /// Adds the code of a file that is not linked, at its load address, linked to these functions.
    ///
    /// # Errors
    /// If it is damaged, or has no code.
    pub fn add_object(
        &mut self,
        name: &Path,
        contents: &Contents,
        load_address: Option<Address>,
        space: AddressSpace,
        functions: &HashMap<String, u64>,
    ) -> Result<&Elf, ImageError> {
        let bias = load_address.map_or(0, |address| address.0);
        let linked = relocate::link(name, contents, bias, &|name| functions.get(name).copied())?;
        self.settings.report(name, linked.problem);
        let contents = Contents::made(linked.bytes)
            .ok_or_else(|| ImageError::other(name, "is not linked, and too many files are"))?;
        self.settings.budget.count_file(&contents);
        let identity = contents.identity();
        let file = Arc::new(ElfFile::new(linked.elf, contents));
        self.files.insert(identity, file.clone());
        self.place_elf(name, file, bias, space)
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
        let contents = self.open(path)?;
        let file = self.elf_file(path, contents)?;
        self.place_elf(path, file, shift, space)
    }

    /// [`Image::add_elf_shifted`] with a file that is in memory already; `name` is for messages.
    ///
    /// # Errors
    /// If it is no linked ELF file, or is cut off.
    pub fn add_elf_contents_shifted(
        &mut self,
        name: &Path,
        contents: impl Into<Contents>,
        shift: u64,
        space: AddressSpace,
    ) -> Result<&Elf, ImageError> {
        let file = self.elf_file(name, contents.into())?;
        self.place_elf(name, file, shift, space)
    }

    /// The first address above this one where a space has something.
    pub fn next_start(&self, space: AddressSpace, address: Address) -> Option<Address> {
        self.memory.layers(space).filter_map(|layer| layer.pieces.next_start(address.0)).min().map(Address)
    }

    fn place_elf(
        &mut self,
        name: &Path,
        file: Arc<ElfFile>,
        bias: u64,
        space: AddressSpace,
    ) -> Result<&Elf, ImageError> {
        let placed = file.elf.place(name, bias)?;
        let number = self.modules.len() as u32;
        let start = placed.iter().map(|segment| segment.address).min().unwrap_or(0);
        let last = placed.iter().map(|segment| segment.address + (segment.length - 1)).max().unwrap_or(0);
        self.memory.change(space, |layer| {
            for segment in &placed {
                let (contents, offset) = (file.contents.clone(), segment.offset as usize);
                let piece = Piece { contents, offset, module: Some(number) };
                layer.pieces.insert(segment.address, segment.address + (segment.length - 1), piece);
            }
            layer.modules.insert(start, last, number);
        });
        self.modules.push(Module::new(name, Some(file), bias, (Address(start), Address(last))));
        match self.modules.last().and_then(Module::elf) {
            Some(elf) => Ok(elf),
            None => unreachable!("the module was pushed just now"),
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
        let contents = self.open(path)?;
        self.add_dump_contents(path, contents, offset, length, address, space)
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
        let last = last_of(name, address, length)?;
        // If it is an ELF file, where its bytes are says how it was moved.
        let file = self.elf_file_of_dump(name, &contents);
        let moved = file.and_then(|file| Some((file.elf.bias_of(offset, length, address.0)?, file)));
        let number = self.modules.len() as u32;
        self.memory.change(space, |layer| {
            let piece = Piece { contents: contents.clone(), offset: offset as usize, module: Some(number) };
            layer.pieces.insert(address.0, last.0, piece);
            if moved.is_some() {
                layer.modules.insert(address.0, last.0, number);
            }
        });
        let (bias, file) = moved.map_or((0, None), |(bias, file)| (bias, Some(file)));
        self.modules.push(Module::new(name, file, bias, (address, last)));
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

    /// Adds a file that has the debug information of a program, not its code (`objcopy --only-keep-debug`): names and
    /// lines of the program that it was taken from come from it, whichever of the two is added first.
    ///
    /// # Errors
    /// If it has neither symbols nor debug information.
    pub fn add_debug_contents(
        &mut self,
        name: &Path,
        contents: impl Into<Contents>,
    ) -> Result<(), ImageError> {
        let contents = contents.into();
        let Some(file) = DebugFile::new(name, contents.clone()) else {
            return Err(ImageError::other(name, "has neither code nor symbols nor debug information"));
        };
        self.settings.budget.count_file(&contents);
        self.forget_names(|program| file.belongs_to(&program.elf, &program.contents));
        self.settings.debug_files.push(file);
        Ok(())
    }

    /// Lays new code over what is at `address`. Names stay those of the file that reaches over it.
    ///
    /// # Errors
    /// If it is empty, or goes beyond the top of memory.
    pub fn patch(
        &mut self,
        space: AddressSpace,
        address: Address,
        code: impl Into<Contents>,
    ) -> Result<Change, ImageError> {
        let contents = code.into();
        let name = Path::new("patch");
        if contents.is_empty() {
            return Err(ImageError::other(name, format!("is empty at {address}")));
        }
        let last = last_of(name, address, contents.len() as u64)?;
        self.memory.change(space, |layer| {
            let piece = Piece { contents: contents.clone(), offset: 0, module: None };
            layer.pieces.insert(address.0, last.0, piece);
        });
        Ok(Change { space, start: address, last })
    }

    /// Takes away `length` bytes of memory from `start` on, or up to the top of memory. In the space of one process
    /// that shows again what all processes see. `None` if there was nothing.
    pub fn unmap(&mut self, space: AddressSpace, start: Address, length: u64) -> Option<Change> {
        let last = Address(start.0.saturating_add(length.checked_sub(1)?));
        let mut any = false;
        self.memory.change(space, |layer| {
            any |= layer.pieces.clear(start.0, last.0);
            layer.modules.clear(start.0, last.0);
        });
        any.then_some(Change { space, start, last })
    }

    /// Forgets what a process has of its own; false if it had nothing.
    pub fn remove_process(&mut self, process: u32) -> bool {
        self.memory.remove_process(process)
    }

    /// Is there no memory at all?
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// The files, in the order in which they were added.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// What could not be used, in words: debug information that the budget does not allow, or whose program is not
    /// there. Files are read when names and lines are asked for: ask for this afterwards.
    pub fn problems(&self) -> Vec<String> {
        let mut all = self.settings.problems.all();
        for file in &self.settings.debug_files {
            if !self.files.values().any(|program| file.belongs_to(&program.elf, &program.contents)) {
                let name = file.name.display();
                all.push(format!("{name}: has debug information of a program that is not among the images"));
            }
        }
        all
    }

    fn open(&mut self, path: &Path) -> Result<Contents, ImageError> {
        if let Some(contents) = self.opened.get(path) {
            return Ok(contents.clone());
        }
        let contents = Contents::open(path)?;
        self.opened.insert(path.to_owned(), contents.clone());
        Ok(contents)
    }

    fn elf_file(&mut self, name: &Path, contents: Contents) -> Result<Arc<ElfFile>, ImageError> {
        if let Some(file) = self.files.get(&contents.identity()) {
            return Ok(file.clone());
        }
        let elf = Elf::parse(name, &contents)?;
        self.settings.budget.count_file(&contents);
        let identity = contents.identity();
        let file = Arc::new(ElfFile::new(elf, contents));
        self.files.insert(identity, file.clone());
        Ok(file)
    }

    /// The ELF file that a dump is taken from, if it is one.
    fn elf_file_of_dump(&mut self, name: &Path, contents: &Contents) -> Option<Arc<ElfFile>> {
        if !Elf::is_elf(contents) || self.unusable.contains_key(&contents.identity()) {
            return None;
        }
        let file = self.elf_file(name, contents.clone()).ok();
        if file.is_none() {
            self.unusable.insert(contents.identity(), contents.clone());
        }
        file
    }

    /// Makes files read their names again.
    fn forget_names(&mut self, which: impl Fn(&ElfFile) -> bool) {
        for file in self.files.values_mut().filter(|file| which(file)) {
            *file = Arc::new(ElfFile::new(file.elf.clone(), file.contents.clone()));
        }
        for module in &mut self.modules {
            module.take_file_from(&self.files);
        }
    }
}

fn last_of(name: &Path, start: Address, length: u64) -> Result<Address, ImageError> {
    start.0.checked_add(length - 1).map(Address).ok_or_else(|| {
        ImageError::other(name, format!("does not fit into memory with {length:#x} bytes at {start}"))
    })
}

impl Code for Image {
    #[inline]
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        self.memory.bytes_at(space, address.0)
    }
}
