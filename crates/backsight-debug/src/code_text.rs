//! Code as text, as it was at a time.

use backsight::SourceCode;
use backsight::core::{Address, AddressSpace, Isa, Printable};
use backsight::image::{Code as _, Disassembler, Image, Mapping, Naming};
use backsight::isa::classify;

/// Bytes of a function that are looked at for where its instructions begin.
const MOST_BEFORE: u64 = 1 << 16;

/// Instructions that are shown of code without a name.
const UNNAMED: usize = 64;

/// Code at some time.
#[derive(Clone, Copy, Debug)]
pub struct CodeText<'c> {
    /// The code.
    pub code: SourceCode<'c>,
    /// The space that it is seen from.
    pub space: AddressSpace,
    /// The instruction set where nobody says otherwise.
    pub isa: Isa,
}

impl<'c> CodeText<'c> {
    /// The image that names what is at an address.
    pub fn names(&self, address: u64) -> &'c Image {
        self.code.names_at(self.space, Address(address))
    }

    /// The instruction set at an address: A32 and T32 may stand side by side.
    pub fn isa_at(&self, address: u64) -> Isa {
        match self.isa {
            Isa::A32 | Isa::T32 => match self.names(address).mapping(self.space, Address(address)) {
                Some(Mapping::Code(isa)) => isa,
                _ => self.isa,
            },
            isa => isa,
        }
    }

    /// The size of the instruction at an address.
    pub fn size(&self, address: u64) -> u64 {
        let isa = self.isa_at(address);
        let (opcode, length) = self.code.opcode_at(self.space, Address(address));
        let known = classify(isa, &opcode[..length], Address(address)).map(|found| u64::from(found.size));
        let least = if matches!(isa, Isa::A64 | Isa::A32) { 4 } else { 2 };
        known.filter(|size| *size > 0).unwrap_or(least)
    }

    /// The function at an address: where it begins.
    pub fn function(&self, address: u64) -> Option<u64> {
        Some(self.names(address).symbolise(self.space, Address(address))?.start.0)
    }

    /// Where so many instructions before an address begin, the nearest last; fewer where nobody says where they begin.
    pub fn before(&self, address: u64, count: usize) -> Vec<u64> {
        if let Isa::A64 = self.isa {
            let all = (1..=count as u64).rev().filter_map(|back| address.checked_sub(4 * back));
            return all.collect();
        }
        // Sizes vary: from the beginning of each function on.
        let (mut starts, mut to) = (Vec::new(), address);
        while starts.len() < count
            && let Some(last) = to.checked_sub(1)
            && let Some(first) = self.function(last)
        {
            let first = first.max(to.saturating_sub(MOST_BEFORE));
            let (mut piece, mut at) = (Vec::new(), first);
            while at < to {
                piece.push(at);
                at = at.saturating_add(self.size(at));
            }
            piece.append(&mut starts);
            (starts, to) = (piece, first);
        }
        starts.split_off(starts.len().saturating_sub(count))
    }

    /// Where the instructions of the function that an address is in begin, and where the last one ends; where no name says where it
    /// begins, from the address on. No more than so many.
    pub fn addresses(&self, address: u64, most: usize) -> Vec<u64> {
        let start = self.function(address);
        let is_same = |one: u64| start.is_none_or(|start| self.function(one) == Some(start));
        let list = |from: u64, most: usize| {
            let (mut addresses, mut next) = (Vec::new(), from);
            while addresses.len() < most
                && self.code.opcode_at(self.space, Address(next)).1 > 0
                && is_same(next)
            {
                addresses.push(next);
                next = next.saturating_add(self.size(next));
            }
            addresses.push(next);
            addresses
        };
        // Of what is longer, and of what has no name, what follows.
        let addresses = start.map(|start| list(start, most)).unwrap_or_default();
        match line_in(&addresses, address) {
            Some(_) => addresses,
            None => list(address, most.min(UNNAMED)),
        }
    }

    /// What an instruction is, in words, and how many bytes it has.
    pub fn text(&self, disassembler: &mut Disassembler, address: u64) -> Option<(String, u64)> {
        let (isa, names) = (self.isa_at(address), self.names(address));
        let found = disassembler.disassemble_at(isa, &self.code, names, self.space, Address(address))?;
        let name =
            |target| self.code.names_at(self.space, target).describe(self.space, target, Naming::Demangled);
        let text = found.with_name(|target| name(target).map(|name| Printable(&name).to_string()));
        Some((text, u64::from(found.size).max(1)))
    }
}

/// The line of the instruction that an address is in: it may be in the midst of one.
pub fn line_in(addresses: &[u64], address: u64) -> Option<u32> {
    let line = addresses.partition_point(|start| *start <= address);
    (1..addresses.len()).contains(&line).then_some(line as u32)
}
