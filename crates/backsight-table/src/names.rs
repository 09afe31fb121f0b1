//! What is at an address: function, file, line; looked up once for addresses that come again and again.

use backsight::SourceCode;
use backsight::core::{Address, AddressSpace};
use backsight::recent::Recent;

use crate::table::Field;
use crate::texts::{TextId, Texts};

/// Addresses that are remembered.
const SLOTS: usize = 1 << 14;

/// What is at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub function: TextId,
    pub function_offset: Option<u64>,
    pub module: TextId,
    pub module_offset: Option<u64>,
    pub file: TextId,
    pub line: Option<u32>,
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    functions: bool,
    modules: bool,
    lines: bool,
}

/// Names of the code that a source ran.
pub(crate) struct Names<'c> {
    pub code: SourceCode<'c>,
    wanted: Wanted,
    recent: Recent<(Address, AddressSpace, Location), SLOTS>,
}

impl<'c> Names<'c> {
    /// Names for some columns.
    pub fn new(code: SourceCode<'c>, fields: &[Field]) -> Self {
        let wants = |some: &[Field]| fields.iter().any(|field| some.contains(field));
        let wanted = Wanted {
            functions: wants(&[Field::Function, Field::FunctionOffset, Field::ToFunction]),
            modules: wants(&[Field::Module, Field::ModuleOffset]),
            lines: wants(&[Field::File, Field::Line]),
        };
        Self { code, wanted, recent: Recent::default() }
    }

    /// The code is not what it was.
    pub fn forget(&mut self) {
        self.recent.clear();
    }

    /// What is at an address.
    #[inline]
    pub fn at(&mut self, space: AddressSpace, address: Address, texts: &mut Texts) -> Location {
        let Self { code, wanted, recent } = self;
        let is_it = |&(known, in_space, _): &_| (known, in_space) == (address, space);
        recent.get(address, is_it, || (address, space, wanted.find(code, space, address, texts))).2
    }
}

impl Wanted {
    #[cold]
    fn find(
        self,
        code: &SourceCode<'_>,
        space: AddressSpace,
        address: Address,
        texts: &mut Texts,
    ) -> Location {
        let image = code.names_at(space, address);
        let symbol = if self.functions { image.symbolise(space, address) } else { None };
        let module = if self.modules { image.module_at(space, address) } else { None };
        let line = if self.lines { image.source_line(space, address) } else { None };
        Location {
            function: texts.optional(symbol.as_ref().map(|symbol| symbol.name)),
            function_offset: symbol.map(|symbol| symbol.offset),
            module: module.map_or(TextId::NONE, |(module, _)| texts.id(&file_name(module.name()))),
            module_offset: module.map(|(_, offset)| offset),
            file: texts.optional(line.as_ref().map(|line| line.file.as_str())),
            line: line.map(|line| line.line).filter(|&line| line > 0),
        }
    }
}

/// The name of a file without its folders.
pub(crate) fn file_name(file: &std::path::Path) -> std::borrow::Cow<'_, str> {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy()
}
