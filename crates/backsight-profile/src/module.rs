//! A file that code is in, and what it knows of that code.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use backsight::image::{Contents, DebugInfo, DebugSource, ElfKind, Image, Module as ImageModule};

use crate::probes::Probes;
use crate::wire::{Reader, Writer};

/// A file that code is in.
#[derive(Clone, Debug)]
pub struct Module {
    name: String,
    build_id: Option<String>,
    is_relocatable: bool,
    functions: Arc<Vec<FunctionSymbol>>,
    contents: Option<Contents>,
    debug_source: Option<DebugSource>,
    debug: Arc<OnceLock<(DebugInfo, Option<String>)>>,
    probes: Arc<OnceLock<Probes>>,
    /// It came from elsewhere, without what is in it.
    is_bare: bool,
}

/// A function of a file, executed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Where it begins in the file's own numbering.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its name, as the programmer wrote it.
    pub name: String,
    /// Its name in the file.
    pub mangled: String,
}

impl Module {
    /// A file of an image.
    pub(crate) fn of_image(image: &Image, module: &ImageModule) -> Self {
        let elf = module.elf();
        let mut functions: Vec<FunctionSymbol> = match elf {
            Some(_) => image
                .functions_of(module)
                .map(|function| FunctionSymbol {
                    start: module.file_address(function.start),
                    size: function.size,
                    name: function.name.to_owned(),
                    mangled: function.mangled.to_owned(),
                })
                .collect(),
            None => Vec::new(),
        };
        functions.sort_by_key(|function| function.start);
        Self {
            functions: Arc::new(functions),
            contents: module.contents().cloned(),
            debug_source: image.debug_source_of(module),
            ..Self::named(module)
        }
    }

    /// The same without its functions and contents, which take time to gather.
    pub(crate) fn named(module: &ImageModule) -> Self {
        let elf = module.elf();
        let build_id = elf.and_then(|elf| elf.build_id.as_ref());
        Self {
            name: module.name().display().to_string(),
            build_id: build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()),
            is_relocatable: elf.is_some_and(|elf| elf.kind == ElfKind::Relocatable),
            functions: Arc::default(),
            contents: None,
            debug_source: None,
            debug: Arc::default(),
            probes: Arc::default(),
            is_bare: false,
        }
    }

    /// Code that is in no file: made at run time, or patched in.
    pub(crate) fn unknown() -> Self {
        Self {
            name: "no file".to_owned(),
            build_id: None,
            is_relocatable: false,
            functions: Arc::default(),
            contents: None,
            debug_source: None,
            debug: Arc::default(),
            probes: Arc::default(),
            is_bare: false,
        }
    }

    /// The same with other names.
    pub(crate) fn renamed(&self, rename: &mut dyn FnMut(&str) -> String) -> Self {
        let functions = self.functions.iter().map(|function| FunctionSymbol {
            name: rename(&function.name),
            mangled: rename(&function.mangled),
            ..function.clone()
        });
        let functions = Arc::new(functions.collect());
        let problem = self.debug_problem().map(str::to_owned);
        let debug = Arc::new(OnceLock::from((self.debug().renamed(rename), problem)));
        // Its contents have the old names.
        Self { name: rename(&self.name), functions, debug, contents: None, ..self.clone() }
    }

    /// Writes what it is known by.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.text(&self.name);
        out.flag(self.build_id.is_some());
        self.build_id.iter().for_each(|id| out.text(id));
        out.flag(self.is_relocatable);
    }

    /// A file that is known by its name.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (name, build_id) = (reader.text()?, reader.optional(Reader::text)?);
        let is_relocatable = reader.flag()?;
        let is_bare = name != Self::unknown().name;
        Some(Self { name, build_id, is_relocatable, is_bare, ..Self::unknown() })
    }

    /// Did it come from elsewhere, without what is in it?
    pub(crate) fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Is it the same file?
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_file = || Path::new(&self.name).file_name() == Path::new(&other.name).file_name();
        match (&self.build_id, &other.build_id) {
            (Some(one), Some(other)) => one == other && same_file(),
            (None, None) => self.name == other.name,
            _ => false,
        }
    }

    /// Its name, with the path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name without the path.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// Its GNU build identifier, in hexadecimal.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// May it be loaded at any address?
    pub fn is_relocatable(&self) -> bool {
        self.is_relocatable
    }

    /// Its functions, by address.
    pub fn functions(&self) -> &[FunctionSymbol] {
        &self.functions
    }

    /// Its bytes, if it is an ELF file.
    pub fn contents(&self) -> Option<&[u8]> {
        self.contents.as_deref()
    }

    /// The function that begins at an address.
    pub fn function_at(&self, start: u64) -> Option<&FunctionSymbol> {
        let index = self.functions.binary_search_by_key(&start, |function| function.start).ok()?;
        self.functions.get(index)
    }

    pub(crate) fn size_of_function(&self, start: u64) -> Option<u64> {
        self.function_at(start).map(|function| function.size)
    }

    /// Its lines and functions as the compiler described them: empty where it did not. Read when it is asked for first.
    pub fn debug(&self) -> &DebugInfo {
        &self.read_debug().0
    }

    /// Why its lines and functions were left out, in words, if they were.
    pub fn debug_problem(&self) -> Option<&str> {
        self.read_debug().1.as_deref()
    }

    fn read_debug(&self) -> &(DebugInfo, Option<String>) {
        self.debug.get_or_init(|| match self.debug_source.as_ref().map(DebugSource::read) {
            Some(Ok(info)) => (info, None),
            Some(Err(problem)) => (DebugInfo::default(), Some(problem.to_string())),
            None => (DebugInfo::default(), None),
        })
    }

    /// The probes that the compiler put into its blocks: none where it was not asked to. Read when they are asked for first.
    pub fn probes(&self) -> &Probes {
        self.probes.get_or_init(|| {
            let functions = || self.functions.iter().map(|one| (one.mangled.as_str(), one.start, one.size));
            let files = [self.contents.as_ref(), self.debug_source.as_ref().map(DebugSource::contents)]
                .into_iter()
                .flatten();
            let mut read = files.map(|contents| Probes::read(contents, functions()));
            read.find(|probes| !probes.is_empty()).unwrap_or_default()
        })
    }
}
