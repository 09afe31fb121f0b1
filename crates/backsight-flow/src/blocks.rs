//! Code that has been walked before.
//!
//! A program spends its time in loops, so that the same blocks are walked again and again. Each is walked once
//! and remembered, and remembers in turn which block came behind it: following an atom is then one step from
//! block to block. Memory is bounded: a full cache is emptied and filled anew.

use backsight_core::{Address, Isa};
use backsight_image::Code;
use backsight_isa::{Class, Flags};

use crate::walk::{Policy, Start, Stop, Until};
use crate::{Range, Symptom};

/// More instructions than this without a waypoint are suspicious.
const ENDLESS: u32 = 1 << 16;

/// Straight code that ends at a waypoint.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    key: Key,
    /// Address behind the last instruction.
    pub end: Address,
    /// Target of a direct branch.
    pub target: Address,
    /// How many instructions.
    pub instructions: u32,
    /// The blocks that came behind it last time: not taken, taken.
    next: [u32; 2],
    /// The first undefined instruction, counted from the end in bytes; 0 if there is none.
    undefined: u32,
    /// Instruction set.
    pub isa: Isa,
    /// Instruction set at the target.
    pub target_isa: Isa,
    /// What the last instruction is.
    pub class: Class,
    /// More about the last instruction.
    pub flags: Flags,
    /// Size of the last instruction.
    pub last_size: u8,
    /// T32: how many instructions behind it are still inside an IT block.
    pub it: u8,
    /// Why it ends.
    pub stop: Stop,
    /// Something is wrong with it whatever its last instruction does.
    pub suspicious: bool,
    /// What it means that the last instruction was not taken.
    pub not_taken: Option<Symptom>,
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
            state: u32::from(start.space.0) | (start.isa as u32) << 8 | u32::from(start.it) << 16,
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
        Self {
            key: Key::new(start),
            end: stretch.end,
            target: last.target,
            instructions: stretch.instructions,
            next: [NONE; 2],
            undefined: u32::try_from(undefined).unwrap_or(u32::MAX),
            isa: start.isa,
            target_isa: last.target_isa,
            class: last.class,
            flags: last.flags,
            last_size: last.size,
            it: stretch.it,
            stop: stretch.stop,
            suspicious: undefined != 0 || stretch.instructions > ENDLESS || stretch.stop == Stop::Limit,
            not_taken: match last.class {
                _ if last.flags.conditional => None,
                // Some trace units report a branch to the next instruction as not taken.
                Class::DirectBranch if last.target == stretch.end => None,
                Class::DirectBranch => Some(Symptom::UnconditionalNotTaken),
                Class::IndirectBranch => Some(Symptom::IndirectNotTaken),
                _ => None,
            },
        }
    }

    /// Address of the first instruction.
    #[inline]
    pub fn start(&self) -> Address {
        self.key.address
    }

    /// Address of the last instruction.
    pub fn last(&self) -> Address {
        Address(self.end.0.wrapping_sub(u64::from(self.last_size)))
    }

    /// As it is reported; `executed` says what the last instruction did.
    #[inline]
    pub fn range(&self, executed: bool) -> Range {
        Range {
            start: self.key.address,
            end: self.end,
            instructions: self.instructions,
            isa: self.isa,
            class: self.class,
            flags: self.flags,
            last_size: self.last_size,
            executed,
        }
    }

    /// What is wrong with it, and where.
    pub fn symptom(&self, executed: bool) -> Option<(Symptom, Address)> {
        if self.undefined != 0 {
            let at = Address(self.end.0.wrapping_sub(u64::from(self.undefined)));
            return Some((Symptom::UndefinedInstruction, at));
        }
        if self.suspicious {
            return Some((Symptom::EndlessRange, self.start()));
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
    /// Trail nowhere known.
    pub const NOWHERE: Self = Self { block: NONE, taken: false };
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

    /// The block at `start`. `trail` is the block before, where that is known; it makes the search short, and
    /// is replaced by the block found: set its direction with [`Trail::leave`].
    #[inline]
    pub fn enter(&mut self, trail: &mut Trail, start: Start, policy: &Policy, code: &impl Code) -> &Block {
        let key = Key::new(start);
        let hint = match self.blocks.get(trail.block as usize) {
            Some(before) => before.next[usize::from(trail.taken)],
            None => NONE,
        };
        let index = match self.blocks.get(hint as usize) {
            Some(block) if block.key == key => hint,
            _ => self.find(*trail, key, start, policy, code),
        };
        trail.block = index;
        &self.blocks[index as usize]
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
            if self.blocks[index as usize].key == key {
                self.link(trail, index);
                return index;
            }
            slot = (slot + 1) & mask;
        }
        let block = Block::walk(start, policy, code);
        if self.blocks.len() >= self.capacity {
            self.clear();
            slot = key.hash() & mask;
        } else {
            self.link(trail, self.blocks.len() as u32);
        }
        let index = self.blocks.len() as u32;
        self.table[slot] = index;
        self.blocks.push(block);
        index
    }

    fn link(&mut self, trail: Trail, to: u32) {
        if let Some(before) = self.blocks.get_mut(trail.block as usize) {
            before.next[usize::from(trail.taken)] = to;
        }
    }

    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(64);
        self.table.clear();
        self.table.resize(size, NONE);
        for (index, block) in self.blocks.iter().enumerate() {
            let mut slot = block.key.hash() & (size - 1);
            while self.table[slot] != NONE {
                slot = (slot + 1) & (size - 1);
            }
            self.table[slot] = index as u32;
        }
    }
}

impl Trail {
    /// The block was left by its branch (`taken`) or at its end.
    #[inline]
    pub fn leave(&mut self, taken: bool) {
        self.taken = taken;
    }
}
