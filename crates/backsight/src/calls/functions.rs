//! Functions, by number.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use backsight_core::{Address, AddressSpace};
use backsight_image::Symbol;

use crate::recent::Recent;

/// Functions that are remembered before those that nobody needs any more are forgotten.
const MOST_FUNCTIONS: usize = 1 << 17;

/// A function, as far as the image knows it.
#[derive(Clone, Copy, Debug)]
pub struct FunctionName<'i> {
    /// The first address of it that was executed.
    pub address: Address,
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

/// A function that execution came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    /// [`NO_NUMBER`] if nobody has asked for it: most of what is executed only shows that a call goes on.
    pub number: u32,
    /// Execution came into it, and not to its beginning.
    pub is_inside: bool,
    /// Where it came to.
    pub address: Address,
    /// Where the function begins; [`NO_NAME`] if it has no name.
    start: u64,
}

/// Instead of the beginning of a function: no function begins at the last address.
const NO_NAME: u64 = u64::MAX;

/// Instead of a number: there are never so many.
const NO_NUMBER: u32 = u32::MAX;

impl Function {
    fn new(address: Address, symbol: Option<Symbol<'_>>) -> Self {
        let is_inside = symbol.is_some_and(|symbol| symbol.offset > 0);
        let start = symbol.map_or(NO_NAME, |symbol| symbol.start.0);
        Self { number: NO_NUMBER, is_inside, address, start }
    }

    #[inline]
    pub fn has_number(self) -> bool {
        self.number != NO_NUMBER
    }

    /// Are both the same? Two addresses without a name may be of one function: nobody knows better.
    #[inline]
    pub fn is(self, other: Self) -> bool {
        self.start == other.start
    }
}

type RecentFunctions = Recent<(AddressSpace, Function)>;

/// The function at an address of a space, if it was asked for lately; else what `find` finds.
fn known(
    recent: &mut RecentFunctions,
    space: AddressSpace,
    address: Address,
    find: impl FnOnce() -> Function,
) -> &mut Function {
    let is_it = |known: &(AddressSpace, Function)| (known.0, known.1.address) == (space, address);
    &mut recent.get(address, is_it, || (space, find())).1
}

/// The functions that a hart came to. An address of a space has one number, and a number one name, until the functions are
/// [renumbered](Functions::renumber).
#[derive(Clone, Debug, Default)]
pub(crate) struct Functions<'i> {
    names: Vec<FunctionName<'i>>,
    numbers: HashMap<(AddressSpace, Address), u32>,
    /// Those that were asked for last.
    recent: RecentFunctions,
    /// How often they were renumbered.
    pub generation: u32,
}

impl<'i> Functions<'i> {
    /// The function at an address of a space, by its `symbol` if it is not known.
    pub(super) fn at(
        &mut self,
        space: AddressSpace,
        address: Address,
        symbol: impl FnOnce() -> Option<Symbol<'i>>,
    ) -> Function {
        *known(&mut self.recent, space, address, || Function::new(address, symbol()))
    }

    /// The same function with a number, and a `name` if it has none yet.
    pub(super) fn numbered(
        &mut self,
        space: AddressSpace,
        function: Function,
        name: impl FnOnce() -> FunctionName<'i>,
    ) -> Function {
        let Self { names, numbers, recent, .. } = self;
        let known = known(recent, space, function.address, || function);
        if !known.has_number() {
            known.number = *numbers.entry((space, function.address)).or_insert_with(|| {
                names.push(name());
                names.len() as u32 - 1
            });
        }
        *known
    }

    /// The name of a number.
    #[inline]
    pub fn name(&self, number: u32) -> Option<&FunctionName<'i>> {
        self.names.get(number as usize)
    }

    /// Names are other ones from now on. Numbers of before keep theirs.
    pub(super) fn name_anew(&mut self) {
        self.numbers.clear();
        self.recent = Recent::default();
    }

    /// Are there so many that they should be renumbered?
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.names.len() >= MOST_FUNCTIONS
    }

    /// Forgets all functions but these, and gives them other numbers.
    pub(super) fn renumber<'f>(&mut self, needed: impl Iterator<Item = &'f mut Function>) {
        let names = std::mem::take(&mut self.names);
        let mut numbers = HashMap::new();
        for function in needed {
            let Some(name) = names.get(function.number as usize) else { continue };
            function.number = *numbers.entry(function.number).or_insert_with(|| {
                self.names.push(*name);
                self.names.len() as u32 - 1
            });
        }
        self.name_anew();
        self.generation += 1;
    }
}
