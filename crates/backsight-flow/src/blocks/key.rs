//! What a block is found by: address space, instruction set, address and IT state.

use std::collections::BTreeMap;

use backsight_core::{Address, AddressSpace, Isa};

/// How code is read beside its address: in which address space, as which instruction set, in which IT state. The address
/// space is a number that a cache gave it.
///
/// ```text
///  31            16   15      14     13       8 7        0
/// ┌────────────────┬───────┬────────┬──────────┬──────────┐
/// │ address space  │ stale │ hidden │ IT state │ ISA      │
/// └────────────────┴───────┴────────┴──────────┴──────────┘
/// ```
///
/// Two bits say what a block is to the cache: its code changed and must be read again, or it is not to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeMode(u32);

const STALE: u32 = 1 << 15;
const HIDDEN: u32 = 1 << 14;

impl CodeMode {
    #[inline]
    pub(super) const fn new(space: u32) -> Self {
        Self(space << 16)
    }

    /// In the same address space as this instruction set, with so many instructions still inside an IT block.
    #[inline]
    pub const fn with(self, isa: Isa, it: u8) -> Self {
        Self(self.0 & 0xFFFF_0000 | (it as u32) << 8 | isa as u32)
    }

    /// As a number.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    pub(super) fn space(self) -> u32 {
        self.0 >> 16
    }

    pub(super) const fn isa(self) -> Isa {
        const ALL: [Isa; 7] =
            [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64, Isa::ThumbEe, Isa::Jazelle];
        let mut n = 0;
        while n < ALL.len() {
            if ALL[n] as u32 == self.0 & 0xFF {
                return ALL[n];
            }
            n += 1;
        }
        Isa::A64
    }

    /// T32: how many instructions are still inside an IT block.
    #[inline]
    pub const fn it(self) -> u8 {
        (self.0 >> 8 & 0x3F) as u8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub address: Address,
    pub mode: CodeMode,
}

impl Key {
    pub fn stale(self) -> Self {
        Self { mode: CodeMode(self.mode.0 | STALE), ..self }
    }

    /// The key of a block that is not to be found any more.
    pub fn hidden(self) -> Self {
        Self { mode: CodeMode(self.mode.0 | HIDDEN), ..self }
    }

    pub fn is_hidden(self) -> bool {
        self.mode.0 & HIDDEN != 0
    }

    /// The key that a block has when its code is not stale.
    #[inline]
    pub fn fresh(self) -> Self {
        Self { mode: CodeMode(self.mode.0 & !STALE), ..self }
    }

    #[inline]
    pub fn hash(self) -> usize {
        // The same addresses occur in many spaces: both must reach the low bits of the result.
        let mode = u64::from(self.mode.0 & !STALE) << 16;
        let mixed = (self.address.0 >> 1 ^ mode).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize
    }
}

/// Address spaces by small numbers, so that a mode has room for one.
#[derive(Clone, Debug, Default)]
pub(super) struct Spaces {
    spaces: Vec<AddressSpace>,
    numbers: BTreeMap<AddressSpace, u32>,
}

impl Spaces {
    /// Most spaces that can be told apart.
    const MOST: usize = 1 << 16;

    /// The number of a space; `None` if there are too many.
    pub fn number(&mut self, space: AddressSpace) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&space) {
            return Some(number);
        }
        let number = u32::try_from(self.spaces.len()).ok().filter(|_| self.spaces.len() < Self::MOST)?;
        self.numbers.insert(space, number);
        self.spaces.push(space);
        Some(number)
    }

    /// The space of a number.
    pub fn get(&self, number: u32) -> AddressSpace {
        self.spaces.get(number as usize).copied().unwrap_or(AddressSpace::ANY)
    }

    /// The numbers of all spaces that share something with this one, in order.
    pub fn that_meet(&self, space: AddressSpace) -> Vec<u32> {
        (0..).zip(&self.spaces).filter(|(_, other)| other.meets(space)).map(|(number, _)| number).collect()
    }
}
