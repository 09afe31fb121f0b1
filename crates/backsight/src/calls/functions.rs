//! Functions, by number.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use backsight_core::{Address, AddressSpace, Isa};
use backsight_flow::Range;
use backsight_image::{Code as _, Image, Module, Naming, Symbol, Window};
use backsight_isa::Class;

use super::stack::{Departure, NameId, Place};
use crate::SourceCode;
use crate::recent::Recent;

/// Names that are remembered before those that nobody needs any more are forgotten.
const MOST_NAMES: usize = 1 << 17;

/// A function, as far as the image knows it.
#[derive(Clone, Copy, Debug)]
pub struct FunctionName<'i> {
    /// The first address of it that was executed.
    pub address: Address,
    /// The space that this was in.
    pub space: AddressSpace,
    /// Its name, and how far into it that address is; `None` where the image has none.
    pub symbol: Option<Symbol<'i>>,
    /// The file that it is in, and how far into that the address is.
    pub module: Option<(&'i Path, u64)>,
}

/// Its name; where the image has none, the file and the distance into it, or the address.
impl fmt::Display for FunctionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.symbol, self.module) {
            (Some(symbol), _) => f.write_str(symbol.name),
            (None, Some((file, distance))) => {
                let name = file.file_name().unwrap_or(file.as_os_str());
                write!(f, "{}+{distance:#x}", name.display())
            }
            (None, None) => write!(f, "{}", self.address),
        }
    }
}

/// A function that was executed. All the code of a file that has no name is one.
#[derive(Clone, Debug)]
pub struct FunctionRecord {
    /// The file, by its number in the image of all the code; `None` for code that is in none.
    pub module: Option<u32>,
    /// Where it begins in memory, if it has a name.
    pub start: Option<Address>,
    /// The space that it was met in, and where in it.
    pub space: AddressSpace,
    /// Where it was met in that.
    pub met: Address,
    /// The time at which it was met, where the code changes.
    pub window: Option<Window>,
}

/// The functions that a source came to. A file and an address in it have one number for ever. An address of a space has one
/// name until names are forgotten.
#[derive(Clone, Debug)]
pub struct Functions<'i> {
    found: Found<'i>,
    /// Those that were asked for last.
    recent: Recent<(AddressSpace, Place)>,
    naming: Naming,
    names: Vec<FunctionName<'i>>,
    ids: HashMap<(AddressSpace, Address), NameId>,
    /// How often names were forgotten.
    pub(crate) generation: u32,
}

/// What tells functions apart: the number of the file, and where it begins in memory if it has a name.
type Start = (Option<u32>, Option<Address>);

/// What is known of functions by number.
#[derive(Clone, Debug)]
struct Found<'i> {
    code: SourceCode<'i>,
    window: Option<Window>,
    list: Vec<FunctionRecord>,
    numbers: HashMap<Start, u32>,
    /// The file that was found last: most functions are in the same one.
    module: Option<(&'i Module, u32)>,
    /// The function that was found last: most ranges are in the one of the range before.
    last: Option<(Start, u32)>,
}

impl<'i> Functions<'i> {
    /// None is known. They are those of the code that a source ran.
    pub fn new(code: SourceCode<'i>) -> Self {
        let (list, numbers) = Default::default();
        Self {
            found: Found { code, window: None, list, numbers, module: None, last: None },
            recent: Recent::default(),
            naming: Naming::default(),
            names: Vec::new(),
            ids: HashMap::new(),
            generation: 0,
        }
    }

    /// How functions are named.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..Self::new(self.found.code) }
    }

    /// The code.
    #[inline]
    pub fn code(&self) -> SourceCode<'i> {
        self.found.code
    }

    /// Goes to another time. Is any code not what it was?
    pub fn enter(&mut self, window: Window) -> bool {
        self.found.window = Some(window);
        let is_changed = !self.found.code.enter(window).is_empty();
        if is_changed {
            self.name_again();
        }
        is_changed
    }

    /// The code is not what it was.
    pub(super) fn set_code(&mut self, code: SourceCode<'i>) {
        self.found.code = code;
        self.name_again();
    }

    /// Names are other ones from now on. Those of before keep their numbers.
    fn name_again(&mut self) {
        self.ids.clear();
        self.recent = Recent::default();
    }

    /// The time that it is.
    pub fn window(&self) -> Option<Window> {
        self.found.window
    }

    /// The code at a time.
    pub fn code_at(&self, window: Option<Window>) -> SourceCode<'i> {
        let mut code = self.found.code;
        window.into_iter().for_each(|window| drop(code.enter(window)));
        code
    }

    /// All of them, by number.
    pub fn list(&self) -> &[FunctionRecord] {
        &self.found.list
    }

    /// The function at an address.
    #[inline]
    pub fn at(&mut self, space: AddressSpace, address: Address) -> Place {
        let Self { found, recent, .. } = self;
        let is_it = |known: &(AddressSpace, Place)| (known.0, known.1.address) == (space, address);
        recent.get(address, is_it, || (space, found.at(space, address))).1
    }

    /// The number of the name that a place has.
    #[inline(always)]
    pub(super) fn name_of(&mut self, space: AddressSpace, place: &Place) -> NameId {
        match place.name {
            Some(name) => name,
            None => self.find_name(space, place.address),
        }
    }

    /// The number of the name that an address has.
    pub(super) fn name_at(&mut self, space: AddressSpace, address: Address) -> NameId {
        let place = self.at(space, address);
        self.name_of(space, &place)
    }

    #[inline(never)]
    fn find_name(&mut self, space: AddressSpace, address: Address) -> NameId {
        let mut place = self.at(space, address);
        let Self { found, naming, recent, names, ids, .. } = self;
        let name = *ids.entry((space, address)).or_insert_with(|| {
            names.push(found.name_of(*naming, space, address));
            NameId::MIN.saturating_add(names.len() as u32 - 1)
        });
        place.name = Some(name);
        recent.get(address, |_| false, || (space, place));
        name
    }

    /// A name by its number.
    #[inline]
    pub fn name(&self, name: NameId) -> Option<&FunctionName<'i>> {
        self.names.get(name.get() as usize - 1)
    }

    /// Are there so many names that most should be forgotten?
    #[inline]
    pub(super) fn has_many_names(&self) -> bool {
        self.names.len() >= MOST_NAMES
    }

    /// Forgets all names but these, and gives them other numbers.
    pub(super) fn forget_names<'f>(&mut self, needed: impl Iterator<Item = &'f mut NameId>) {
        let names = std::mem::take(&mut self.names);
        let mut numbers = HashMap::new();
        for number in needed {
            let Some(name) = names.get(number.get() as usize - 1) else { continue };
            *number = *numbers.entry(*number).or_insert_with(|| {
                self.names.push(*name);
                NameId::MIN.saturating_add(self.names.len() as u32 - 1)
            });
        }
        self.name_again();
        self.generation += 1;
    }

    /// How execution leaves a range, if nothing else happens.
    #[inline]
    pub fn departure(&self, range: &Range, space: AddressSpace) -> Departure {
        let (flags, is_indirect) = (range.flags, range.class == Class::IndirectBranch);
        if !range.executed || !range.ends_in_branch() {
            Departure::Sequence
        } else if flags.exception_return {
            Departure::ExceptionReturn
        } else if flags.returns {
            Departure::Return
        } else if flags.link && !self.is_stub(range, space) {
            Departure::Call { return_address: range.end }
        } else {
            Departure::Jump { is_indirect }
        }
    }

    /// Stubs of the procedure linkage table of RISC-V go to their function by `jalr t1`: that leaves an address in a
    /// register that nobody returns by.
    fn is_stub(&self, range: &Range, space: AddressSpace) -> bool {
        if !matches!(range.isa, Isa::Rv32 | Isa::Rv64) || range.last_size != 4 {
            return false;
        }
        let (bytes, length) = self.code().opcode_at(space, Address(range.end.0.wrapping_sub(4)));
        let destination = u32::from_le_bytes(bytes) >> 7 & 31;
        length == 4 && !matches!(destination, 1 | 5)
    }
}

impl<'i> Found<'i> {
    fn at(&mut self, space: AddressSpace, address: Address) -> Place {
        let image = self.code.names_at(space, address);
        let symbol = image.symbolise(space, address);
        let (module, start) = (self.module_at(image, space, address), symbol.map(|symbol| symbol.start));
        let function = match self.last {
            Some((last, function)) if last == (module, start) => function,
            _ => {
                let next = self.list.len() as u32;
                let function = *self.numbers.entry((module, start)).or_insert(next);
                if function == next {
                    let window = self.window;
                    self.list.push(FunctionRecord { module, start, space, met: address, window });
                }
                self.last = Some(((module, start), function));
                function
            }
        };
        Place { function, name: None, is_inside: symbol.is_some_and(|symbol| symbol.offset > 0), address }
    }

    fn module_at(&mut self, image: &'i Image, space: AddressSpace, address: Address) -> Option<u32> {
        let (module, _) = image.module_at(space, address)?;
        if let Some((last, number)) = self.module
            && std::ptr::eq(last, module)
        {
            return Some(number);
        }
        // All files that were ever mapped are in the image of all the code.
        let all = self.code.image().modules();
        let same = |one: &Module| {
            (one.name(), one.range(), one.bias()) == (module.name(), module.range(), module.bias())
        };
        let number = all.iter().position(|one| std::ptr::eq(one, module));
        let number = number.or_else(|| all.iter().position(same))? as u32;
        self.module = Some((module, number));
        Some(number)
    }

    fn name_of(&self, naming: Naming, space: AddressSpace, address: Address) -> FunctionName<'i> {
        let image = self.code.names_at(space, address);
        let symbol = image.symbolise(space, address).map(|symbol| match naming {
            Naming::Demangled => symbol,
            Naming::Mangled => Symbol { name: symbol.mangled, ..symbol },
        });
        let module = image.module_at(space, address).filter(|_| symbol.is_none());
        let module = module.map(|(module, distance)| (module.name(), distance));
        FunctionName { address, space, symbol, module }
    }
}
