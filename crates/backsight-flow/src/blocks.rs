//! Code that has been walked before.
//!
//! A program spends its time in loops, so that the same blocks are walked again and again. Each is walked once
//! and remembered, and remembers in turn which block came behind it: following an atom is then one step from
//! block to block. Memory is bounded: a full cache is emptied and filled anew.

use backsight_core::{Address, AddressSpace, Isa};
use backsight_image::Code;
use backsight_isa::Class;

use crate::walk::{Policy, Start, Stop, Until};
use crate::{Range, Symptom};

/// More instructions than this without a waypoint are suspicious.
const ENDLESS: u32 = 1 << 16;

/// Straight code that ends at a waypoint. One block is one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Block {
    /// As it is reported when its last instruction was executed.
    pub range: Range,
    /// Target of a direct branch.
    pub target: Address,
    /// The blocks that came behind it last time: not taken, taken.
    next: [u32; 2],
    state: u32,
    /// The first undefined instruction, counted from the end in bytes; 0 if there is none.
    undefined: u32,
    /// How it is left: not taken, taken.
    ways: [Way; 2],
    /// Instruction set at the target.
    pub target_isa: Isa,
    /// T32: how many instructions behind it are still inside an IT block.
    pub it: u8,
    /// Why it ends.
    pub stop: Stop,
    /// What it means that the last instruction was not taken.
    not_taken: Option<Symptom>,
    /// It ends in a branch.
    is_branch: bool,
}

const _: () = assert!(size_of::<Block>() == 64);

/// How execution leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the next instruction, or to the target of a direct branch.
    Known,
    /// To the target of a direct call.
    Call,
    /// Somewhere else.
    Indirect,
    /// Something is wrong here.
    Odd,
}

/// What a block is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    address: Address,
    state: u32,
}

impl Key {
    #[inline]
    fn new(start: Start) -> Self {
        Self {
            address: start.address,
            state: u32::from(start.space.view()) | (start.isa as u32) << 8 | u32::from(start.it) << 16,
        }
    }

    #[inline]
    fn hash(self) -> usize {
        let mixed = (self.address.0 >> 1 ^ u64::from(self.state) << 48).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize
    }
}

impl Block {
    fn walk(start: Start, policy: &Policy, code: &impl Code) -> Self {
        let stretch = policy.walk(code, start, Until::Waypoint);
        let last = stretch.last;
        let undefined = stretch.undefined.map_or(0, |at| stretch.end.0.wrapping_sub(at.0));
        let not_taken = match last.class {
            _ if last.flags.conditional => None,
            // Some trace units report a branch to the next instruction as not taken.
            Class::DirectBranch if last.target == stretch.end => None,
            Class::DirectBranch => Some(Symptom::UnconditionalNotTaken),
            Class::IndirectBranch => Some(Symptom::IndirectNotTaken),
            _ => None,
        };
        let odd = undefined != 0 || stretch.instructions > ENDLESS || stretch.stop != Stop::Reached;
        let taken = match last.class {
            Class::DirectBranch if last.flags.link => Way::Call,
            Class::IndirectBranch => Way::Indirect,
            _ => Way::Known,
        };
        Self {
            range: stretch.range(true),
            target: last.target,
            next: [NONE; 2],
            state: Key::new(start).state,
            undefined: u32::try_from(undefined).unwrap_or(u32::MAX),
            ways: match (odd, not_taken) {
                (true, _) => [Way::Odd; 2],
                (false, Some(_)) => [Way::Odd, taken],
                (false, None) => [Way::Known, taken],
            },
            target_isa: last.target_isa,
            it: stretch.it,
            stop: stretch.stop,
            not_taken,
            is_branch: matches!(last.class, Class::DirectBranch | Class::IndirectBranch),
        }
    }

    #[inline]
    fn key(&self) -> Key {
        Key { address: self.range.start, state: self.state }
    }

    /// Where execution goes from here, if that is in the code.
    fn leads_to(&self, taken: bool) -> Option<Key> {
        let (address, isa, it) = match (self.way(taken), self.range.class) {
            (Way::Indirect | Way::Odd, _) => return None,
            (_, Class::DirectBranch) if taken => (self.target, self.target_isa, 0),
            _ => (self.range.end, self.range.isa, self.it),
        };
        Some(Key::new(Start { address, space: AddressSpace::from_view(self.state as u8), isa, it }))
    }

    /// T32: how many of its first instructions are inside an IT block.
    #[inline]
    pub fn it_before(&self) -> u8 {
        (self.state >> 16) as u8
    }

    /// How it is left.
    #[inline]
    pub fn way(&self, taken: bool) -> Way {
        self.ways[usize::from(taken)]
    }

    /// The block that came behind it last time. Where the way is known it is always the same.
    #[inline]
    pub fn next(&self, taken: bool) -> Option<u32> {
        let next = self.next[usize::from(taken)];
        (next != NONE).then_some(next)
    }

    /// Does it end in a branch?
    #[inline]
    pub fn is_branch(&self) -> bool {
        self.is_branch
    }

    /// Address of the last instruction.
    pub fn last(&self) -> Address {
        Address(self.range.end.0.wrapping_sub(u64::from(self.range.last_size)))
    }

    /// What is wrong with it, and where.
    pub fn symptom(&self, executed: bool) -> Option<(Symptom, Address)> {
        if self.undefined != 0 {
            let at = Address(self.range.end.0.wrapping_sub(u64::from(self.undefined)));
            return Some((Symptom::UndefinedInstruction, at));
        }
        if self.range.instructions > ENDLESS || self.stop == Stop::Limit {
            return Some((Symptom::EndlessRange, self.range.start));
        }
        self.not_taken.filter(|_| !executed).map(|symptom| (symptom, self.last()))
    }
}

/// No block.
const NONE: u32 = u32::MAX;

/// Where execution came from: a block, and whether its branch was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trail {
    block: u32,
    taken: bool,
}

impl Trail {
    /// From nowhere known.
    pub const NOWHERE: Self = Self { block: NONE, taken: false };

    /// From a block, by its branch (`taken`) or at its end.
    #[inline]
    pub fn new(block: u32, taken: bool) -> Self {
        Self { block, taken }
    }
}

/// Blocks by where they begin.
#[derive(Clone, Debug)]
pub struct Blocks {
    blocks: Vec<Block>,
    /// Open addressing: indexes into `blocks`, at most half of them used.
    table: Vec<u32>,
    capacity: usize,
}

impl Blocks {
    /// A cache of at most `capacity` blocks (at least one; 0 counts as one).
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 28);
        Self { blocks: Vec::new(), table: Vec::new(), capacity }
    }

    /// Forgets all blocks. A [`Trail`] of before must not be used any more.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.table.fill(NONE);
    }

    /// The number of blocks in it.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// A block by its number.
    #[inline]
    pub fn get(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    /// The number of the block at `start`. Numbers of before may be void afterwards. `trail` is the way that led
    /// here, if it is known; it makes the search short.
    #[inline]
    pub fn enter(&mut self, trail: Trail, start: Start, policy: &Policy, code: &impl Code) -> u32 {
        let key = Key::new(start);
        let hint = self.blocks.get(trail.block as usize).and_then(|before| before.next(trail.taken));
        match hint {
            Some(hint) if self.blocks.get(hint as usize).is_some_and(|block| block.key() == key) => hint,
            _ => self.find(trail, key, start, policy, code),
        }
    }

    #[inline(never)]
    fn find(&mut self, trail: Trail, key: Key, start: Start, policy: &Policy, code: &impl Code) -> u32 {
        if self.blocks.len() * 2 >= self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut slot = key.hash() & mask;
        while self.table[slot] != NONE {
            let index = self.table[slot];
            if self.blocks[index as usize].key() == key {
                self.link(trail, key, index);
                return index;
            }
            slot = (slot + 1) & mask;
        }
        let block = Block::walk(start, policy, code);
        if self.blocks.len() >= self.capacity {
            self.clear();
            slot = key.hash() & mask;
        } else {
            self.link(trail, key, self.blocks.len() as u32);
        }
        let index = self.blocks.len() as u32;
        self.table[slot] = index;
        self.blocks.push(block);
        index
    }

    /// Remembers where a way led to, unless something else happened on it.
    fn link(&mut self, trail: Trail, key: Key, to: u32) {
        if let Some(before) = self.blocks.get_mut(trail.block as usize)
            && before.leads_to(trail.taken).is_none_or(|known| known == key)
        {
            before.next[usize::from(trail.taken)] = to;
        }
    }

    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(64);
        self.table.clear();
        self.table.resize(size, NONE);
        for (index, block) in self.blocks.iter().enumerate() {
            let mut slot = block.key().hash() & (size - 1);
            while self.table[slot] != NONE {
                slot = (slot + 1) & (size - 1);
            }
            self.table[slot] = index as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::Waypoints;

    /// A64 NOPs with a branch to itself every fourth instruction.
    struct Loops;

    const LOOPS: [u8; 16] =
        [0x1F, 0x20, 0x03, 0xD5, 0x1F, 0x20, 0x03, 0xD5, 0x1F, 0x20, 0x03, 0xD5, 0x00, 0x00, 0x00, 0x14];

    impl Code for Loops {
        fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
            Some(&LOOPS[(address.0 & 0xF) as usize..])
        }
    }

    const POLICY: Policy = Policy {
        waypoints: Waypoints {
            isb: true,
            data_barrier: false,
            wait: false,
            transaction_start: false,
            load: false,
            store: false,
        },
        t32_only: false,
        limit: 100,
    };

    fn at(address: u64) -> Start {
        Start { address: Address(address), space: AddressSpace::EL1N, isa: Isa::A64, it: 0 }
    }

    #[test]
    fn a_block_is_walked_once_and_found_again() {
        let mut blocks = Blocks::new(100);
        let first = blocks.enter(Trail::NOWHERE, at(0x1000), &POLICY, &Loops);
        let other = blocks.enter(Trail::NOWHERE, at(0x2004), &POLICY, &Loops);
        assert_eq!(blocks.enter(Trail::NOWHERE, at(0x1000), &POLICY, &Loops), first);
        assert_eq!((blocks.get(first).range.instructions, blocks.get(other).range.instructions), (4, 3));
        assert_eq!(blocks.len(), 2);
    }

    #[test]
    fn a_way_is_remembered_only_if_it_leads_there() {
        let mut blocks = Blocks::new(100);
        let block = blocks.enter(Trail::NOWHERE, at(0x1000), &POLICY, &Loops);
        // The branch at 0x100c goes to itself; an address in the trace may say otherwise.
        blocks.enter(Trail::new(block, true), at(0x2000), &POLICY, &Loops);
        assert_eq!(blocks.get(block).next(true), None);
        let target = blocks.enter(Trail::new(block, true), at(0x100c), &POLICY, &Loops);
        assert_eq!(blocks.get(block).next(true), Some(target));
    }

    #[test]
    fn the_cache_stays_within_its_bounds() {
        let mut blocks = Blocks::new(10);
        for address in (0..1000).map(|n| n * 4) {
            let block = blocks.enter(Trail::NOWHERE, at(address), &POLICY, &Loops);
            assert_eq!(blocks.get(block).range.start, Address(address));
            assert!(blocks.len() <= 10);
        }
    }
}
