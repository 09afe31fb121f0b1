//! Functions and files by dense numbers: names are looked up once for each block, not each time that it is executed.

use backsight::SourceCode;
use backsight::core::{Address, AddressSpace, Isa};
use backsight::flow::Range;
use backsight::image::{Code as _, Module, Window};
use backsight::isa::{Class, classify};

use super::blocks::{Departure, NONE};
use super::events::BlockOrigins;
use super::hash::NumberMap;

/// Are they the same file in the same place?
fn is_same(one: &Module, other: &Module) -> bool {
    one.name() == other.name() && one.range() == other.range() && one.bias() == other.bias()
}

/// A function that was executed.
#[derive(Clone, Debug)]
pub(crate) struct FunctionRecord {
    /// The file, by its number in the image; [`NONE`] for code that is in none.
    pub module: u32,
    /// Where it begins in memory; `None` for all the code of a file that has no name.
    pub start: Option<Address>,
    /// The space that it was met in, and where in it.
    pub space: AddressSpace,
    pub met: Address,
    /// The time at which it was met, where the code changes.
    pub window: Option<Window>,
}

/// The functions of a source.
#[derive(Debug)]
pub(crate) struct Functions<'c> {
    code: SourceCode<'c>,
    pub list: Vec<FunctionRecord>,
    /// The time of the code.
    pub window: Option<Window>,
    known: NumberMap<(u32, u64, u8), u32>,
}

impl<'c> Functions<'c> {
    pub fn new(code: SourceCode<'c>) -> Self {
        Self { code, list: Vec::new(), window: None, known: NumberMap::default() }
    }

    pub fn code(&self) -> SourceCode<'c> {
        self.code
    }

    /// Goes to another time. Is any code not what it was?
    pub fn enter(&mut self, window: Window) -> bool {
        self.window = Some(window);
        !self.code.enter(window).is_empty()
    }

    /// The code at a time.
    pub fn code_at(&self, window: Option<Window>) -> SourceCode<'c> {
        let mut code = self.code;
        window.into_iter().for_each(|window| drop(code.enter(window)));
        code
    }

    /// The function at an address.
    pub fn at(&mut self, space: AddressSpace, address: Address) -> u32 {
        let (names, image) = (self.code.names_at(space, address), self.code.image());
        let start = names.symbolise(space, address).map(|symbol| symbol.start);
        // All files that were ever mapped are in the image of all the code.
        let module = names.module_at(space, address).map_or(NONE, |(module, _)| {
            let number = match std::ptr::eq(names, image) {
                true => image.modules().iter().position(|one| std::ptr::eq(one, module)),
                false => image.modules().iter().position(|one| is_same(one, module)),
            };
            number.map_or(NONE, |number| number as u32)
        });
        let key = (module, start.map_or(0, |start| start.0), u8::from(start.is_some()));
        let next = self.list.len() as u32;
        let number = *self.known.entry(key).or_insert(next);
        if number == next {
            self.list.push(FunctionRecord { module, start, space, met: address, window: self.window });
        }
        number
    }

    /// Does a function begin elsewhere than at this address?
    pub fn is_inside(&self, function: u32, address: Address) -> bool {
        let record = self.list.get(function as usize);
        record.and_then(|record| record.start).is_some_and(|start| start != address)
    }

    /// What the last instruction of a range does to the calls under way, where it is taken.
    pub fn departure(&self, range: &Range, space: AddressSpace) -> Departure {
        let flags = range.flags;
        if flags.exception_return {
            Departure::ExceptionReturn
        } else if flags.returns {
            Departure::Return
        } else if flags.link && !self.is_stub(range, space) {
            Departure::Call
        } else {
            Departure::Jump { is_indirect: range.class == Class::IndirectBranch }
        }
    }

    /// Which events the instructions of a range can cause.
    pub fn origins(&self, range: &Range, space: AddressSpace) -> BlockOrigins {
        let (mut accesses, mut address) = (Vec::new(), range.start);
        for position in 0..range.instructions {
            let (bytes, length) = self.code.opcode_at(space, address);
            let Some(instruction) = classify(range.isa, &bytes[..length], address) else {
                break;
            };
            if instruction.flags.load || instruction.flags.store {
                accesses.push(position);
            }
            address = address.plus(instruction.size.into());
        }
        let is_branch = matches!(range.class, Class::DirectBranch | Class::IndirectBranch);
        BlockOrigins { accesses: accesses.into(), is_branch, instructions: range.instructions }
    }

    /// Stubs of the procedure linkage table of RISC-V go to their function by `jalr t1`: that leaves an address in a
    /// register that nobody returns by.
    fn is_stub(&self, range: &Range, space: AddressSpace) -> bool {
        if !matches!(range.isa, Isa::Rv32 | Isa::Rv64) || range.last_size != 4 {
            return false;
        }
        let (bytes, length) = self.code.opcode_at(space, Address(range.end.0.wrapping_sub(4)));
        let destination = u32::from_le_bytes(bytes) >> 7 & 31;
        length == 4 && !matches!(destination, 1 | 5)
    }
}
