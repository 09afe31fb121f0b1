//! What a block is found by: address space, instruction set, address and IT state.

use std::collections::BTreeMap;

use backsight_core::{Address, AddressSpace, Isa};

use crate::walk::Start;

/// ```text
///  31            16   15      14     13       8 7        0
/// ┌────────────────┬───────┬────────┬──────────┬──────────┐
/// │ address space  │ stale │ hidden │ IT state │ ISA      │
/// └────────────────┴───────┴────────┴──────────┴──────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub address: Address,
    pub state: u32,
}

const STALE: u32 = 1 << 15;
const HIDDEN: u32 = 1 << 14;

impl Key {
    #[inline]
    pub fn new(start: Start, space: u32) -> Self {
        let state = space << 16 | u32::from(start.it) << 8 | start.isa as u32;
        Self { address: start.address, state }
    }

    /// Another place in the same address space.
    pub fn elsewhere(self, address: Address, isa: Isa, it: u8) -> Self {
        Self { address, state: self.state & 0xFFFF_0000 | u32::from(it) << 8 | isa as u32 }
    }

    pub fn stale(self) -> Self {
        Self { state: self.state | STALE, ..self }
    }

    /// The key of a block that is not to be found any more.
    pub fn hidden(self) -> Self {
        Self { state: self.state | HIDDEN, ..self }
    }

    pub fn is_hidden(self) -> bool {
        self.state & HIDDEN != 0
    }

    /// The key that a block has when its code is not stale.
    pub fn fresh(self) -> Self {
        Self { state: self.state & !STALE, ..self }
    }

    pub fn space(self) -> u32 {
        self.state >> 16
    }

    #[inline]
    pub fn it(self) -> u8 {
        (self.state >> 8 & 0x3F) as u8
    }

    #[inline]
    pub fn hash(self) -> usize {
        // The same addresses occur in many spaces: both must reach the low bits of the result.
        let state = u64::from(self.state & !STALE).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        let mixed = (self.address.0 >> 1 ^ state).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize
    }
}

/// Address spaces by small numbers, so that a key has room for one.
#[derive(Clone, Debug)]
pub(super) struct Spaces {
    numbers: BTreeMap<AddressSpace, u32>,
    /// The space that was asked for last, and its number.
    recent: (AddressSpace, u32),
}

impl Default for Spaces {
    fn default() -> Self {
        Self { numbers: BTreeMap::from([(AddressSpace::ANY, 0)]), recent: (AddressSpace::ANY, 0) }
    }
}

impl Spaces {
    /// Most spaces that can be told apart.
    const MOST: usize = 1 << 16;

    /// The number of a space; `None` if there are too many.
    #[inline]
    pub fn number(&mut self, space: AddressSpace) -> Option<u32> {
        match self.recent {
            (recent, number) if recent == space => Some(number),
            _ => self.look_up(space),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, space: AddressSpace) -> Option<u32> {
        let next = self.numbers.len();
        if next == Self::MOST && !self.numbers.contains_key(&space) {
            return None;
        }
        let number = *self.numbers.entry(space).or_insert(next as u32);
        self.recent = (space, number);
        Some(number)
    }

    /// The numbers of all spaces that share something with this one, in order.
    pub fn that_meet(&self, space: AddressSpace) -> Vec<u32> {
        let meeting = self.numbers.iter().filter(|(other, _)| other.meets(space));
        let mut numbers: Vec<u32> = meeting.map(|(_, &number)| number).collect();
        numbers.sort_unstable();
        numbers
    }
}
