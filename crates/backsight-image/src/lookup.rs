//! What an image knows about an address.

use std::path::Path;

use backsight_core::{Address, AddressSpace};

use crate::intervals::Intervals;
use crate::memory::Piece;
use crate::{DebugSource, Frame, Function, Image, Mapping, Module, SourceLine, SourceRow, Symbol};

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

/// How names are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// As programmers write them.
    #[default]
    Demangled,
    /// As the files have them.
    Mangled,
}

impl Image {
    /// The pieces of memory that `space` sees, by address.
    pub fn regions(&self, space: AddressSpace) -> impl Iterator<Item = Region<'_>> {
        let mut seen: Intervals<Piece> = Intervals::default();
        let layers: Vec<_> = self.memory.layers(space.in_process(0)).take(1).collect();
        let own = (space.process() != 0).then(|| self.memory.own_layer(space)).flatten();
        for layer in layers.into_iter().chain(own) {
            for (start, last, piece) in layer.pieces.iter() {
                seen.insert(start, last, piece.clone());
            }
        }
        let name = |piece: &Piece| {
            let module = piece.module.and_then(|number| self.modules.get(number as usize));
            module.map_or(Path::new(""), Module::name)
        };
        let regions: Vec<_> = seen
            .iter()
            .map(|(start, last, piece)| Region {
                start: Address(start),
                last: Address(last),
                file: name(piece),
            })
            .collect();
        regions.into_iter()
    }

    /// The files that may know more about an address: the one whose bytes are there, and the newest that reaches over
    /// it, since bytes that were patched in have no names.
    fn modules_at(&self, space: AddressSpace, address: Address) -> impl Iterator<Item = &Module> {
        self.memory
            .layers(space)
            .flat_map(move |layer| {
                let owner = layer.pieces.find(address.0).and_then(|(_, _, piece)| piece.module);
                let around = layer.modules.find(address.0).map(|(_, _, &module)| module);
                [owner, around.filter(|_| around != owner)]
            })
            .flatten()
            .filter_map(|number| self.modules.get(number as usize))
    }

    /// The function that an address lies in.
    pub fn symbolise(&self, space: AddressSpace, address: Address) -> Option<Symbol<'_>> {
        self.modules_at(space, address).find_map(|module| module.symbolise(&self.settings, address))
    }

    /// The file that an address lies in, and how far into it: from its first address in memory.
    pub fn module_at(&self, space: AddressSpace, address: Address) -> Option<(&Module, u64)> {
        let module = self.modules_at(space, address).next()?;
        Some((module, address.0.wrapping_sub(module.range().0.0)))
    }

    /// An address in words: `main+0x10`, `puts@plt`, `table+0x8` for data, or where no symbol is known
    /// `libc.so.6+0x1234`. `None` where nothing is.
    pub fn describe(&self, space: AddressSpace, address: Address, naming: Naming) -> Option<String> {
        let object =
            || self.modules_at(space, address).find_map(|module| module.object(&self.settings, address));
        let (name, offset) = match self.symbolise(space, address).or_else(object) {
            Some(symbol) => {
                let name = if naming == Naming::Mangled { symbol.mangled } else { symbol.name };
                (name.to_owned(), symbol.offset)
            }
            None => {
                let (module, offset) = self.module_at(space, address)?;
                let name = module.name().file_name().unwrap_or(module.name().as_os_str());
                return Some(format!("{}+{offset:#x}", name.to_string_lossy()));
            }
        };
        Some(if offset == 0 { name } else { format!("{name}+{offset:#x}") })
    }

    /// The line of source that the instruction at an address was made from.
    pub fn source_line(&self, space: AddressSpace, address: Address) -> Option<SourceLine> {
        self.modules_at(space, address).find_map(|module| module.source_line(&self.settings, address))
    }

    /// The code of one line that an instruction is in, as a debugger stops at it.
    pub fn source_row(&self, space: AddressSpace, address: Address) -> Option<SourceRow> {
        self.modules_at(space, address).find_map(|module| module.source_row(&self.settings, address))
    }

    /// The functions that the instruction at an address belongs to, the innermost first: those that the compiler put
    /// into another one, then that one. Empty where there is no debug information.
    pub fn frames(&self, space: AddressSpace, address: Address) -> Vec<Frame> {
        let mut modules = self.modules_at(space, address);
        modules.find_map(|module| module.frames(&self.settings, address)).unwrap_or_default()
    }

    /// What kind of code is at an address, where the assembler left a note.
    pub fn mapping(&self, space: AddressSpace, address: Address) -> Option<Mapping> {
        self.modules_at(space, address).find_map(|module| module.mapping(&self.settings, address))
    }

    /// The functions of one file, by address.
    pub fn functions_of<'a>(&'a self, module: &'a Module) -> impl Iterator<Item = Function<'a>> {
        module.functions(&self.settings)
    }

    /// The debug information of a module: in itself, or in the file that was taken from it.
    pub fn debug_source_of(&self, module: &Module) -> Option<DebugSource> {
        module.debug_source(&self.settings)
    }

    /// All functions, file by file, by address.
    pub fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        self.modules.iter().flat_map(|module| module.functions(&self.settings))
    }
}
