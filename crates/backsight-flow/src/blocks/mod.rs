//! Code that has been read before.
//!
//! A program spends its time in loops, so that the same blocks are walked again and again. Each is read once and
//! remembered, and remembers in turn which block came after it: following an outcome is then one step from block to
//! block. Every follower walks through this cache, whatever its protocol; how code is cut into blocks is the business
//! of a [`BlockReader`]. Memory is bounded: a full cache is emptied and filled again. Where code changes, only the blocks
//! that it touches are read again, and they keep their numbers.

mod block;
mod cache;
mod kept;
mod key;
mod paths;
mod riscv;

use std::ops;

use backsight_core::{Address, AddressSpace, Isa};
use backsight_image::Code;

use self::block::NONE;
pub(crate) use self::block::{Block, Ending, Way};
pub use self::cache::CodeCache;
pub(crate) use self::kept::KeptBlock;
pub(crate) use self::key::CodeMode;
use self::key::{Key, Spaces};
pub use self::paths::PathId;
pub(crate) use self::paths::{FirstWalk, LONGEST_PATH, Path, PathEnd, PathKey, Paths, WalkedPath};
pub(crate) use self::riscv::{InstructionMap, RiscvReader};
use crate::Range;
use crate::walk::Start;

/// Cuts code into blocks.
pub(crate) trait BlockReader {
    /// Reads the block that begins at `start`. Where there is no code it has no instructions.
    fn read(&self, code: &impl Code, start: Start) -> (Block, InstructionMap);
}

/// Where execution came from: a block, and whether its last instruction was taken.
///
/// ```text
///  31                          1    0
/// ┌─────────────────────────────┬───────┐
/// │ block                       │ taken │
/// └─────────────────────────────┴───────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(u32);

impl Default for Origin {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl Origin {
    /// From nowhere known.
    pub const UNKNOWN: Self = Self(NONE);

    /// From a block, by its branch (`taken`) or at its end.
    #[inline]
    pub fn new(block: u32, taken: bool) -> Self {
        Self(block << 1 | u32::from(taken))
    }

    /// The number of the block; one that no block has if it is not known.
    #[inline]
    const fn block(self) -> usize {
        (self.0 >> 1) as usize
    }

    #[inline]
    const fn is_taken(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Blocks by where they begin, and paths through them, which have steps of some kind.
#[derive(Clone, Debug)]
pub(crate) struct Blocks<S = Range> {
    blocks: Vec<Block>,
    /// Where the instructions of each block begin. Only walks that end inside a block look here.
    maps: Vec<InstructionMap>,
    /// Open addressing: indexes into `blocks`, at most half of them used.
    table: Vec<u32>,
    spaces: Spaces,
    pages: Pages,
    capacity: usize,
    /// What followers walked through them before.
    pub paths: Paths<S>,
}

impl<S: Copy> Blocks<S> {
    /// A cache of at most `capacity` blocks (at least one; 0 counts as one).
    pub fn new(capacity: usize) -> Self {
        Self {
            blocks: Vec::new(),
            maps: Vec::new(),
            table: Vec::new(),
            spaces: Spaces::default(),
            pages: Pages::default(),
            capacity: capacity.clamp(1, 1 << 28),
            paths: Paths::default(),
        }
    }

    /// What there is, in exchange for an empty one of the same capacity. Numbers, modes and an [`Origin`] of before must not
    /// be used any more.
    pub fn take(&mut self) -> Self {
        let capacity = self.capacity;
        std::mem::replace(self, Self::new(capacity))
    }

    /// Forgets all blocks. Numbers and an [`Origin`] of before must not be used any more.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.maps.clear();
        self.table.fill(NONE);
        self.pages.clear();
        self.paths.clear();
    }

    /// How code of an address space is read. It holds until another space is asked for.
    pub fn mode(&mut self, space: AddressSpace, isa: Isa) -> CodeMode {
        let number = self.spaces.number(space).unwrap_or_else(|| {
            // There are more spaces than can be told apart: begin again with this one.
            self.clear();
            self.spaces = Spaces::default();
            self.spaces.number(space).unwrap_or(0)
        });
        CodeMode::new(number).with(isa, 0)
    }

    /// The code in a range of addresses changed, as seen from `space`: blocks that it touches will be read again.
    pub fn code_changed(&mut self, space: AddressSpace, changed: ops::Range<u64>) {
        if changed.is_empty() || !self.pages.may_hold(&changed) {
            return;
        }
        let spaces = self.spaces.that_meet(space);
        for block in &mut self.blocks {
            // A block that ends where code is missing depends on the bytes after it.
            let Range { start, end, .. } = block.range;
            let end = if end < start { u64::MAX } else { end.0.saturating_add(LONGEST_INSTRUCTION) };
            let touches = start.0 < changed.end && changed.start < end;
            let key = block.key();
            if touches && !key.is_hidden() && spaces.binary_search(&key.mode.space()).is_ok() {
                block.make_stale();
                self.paths.clear();
            }
        }
    }

    /// The code changed, and nobody says where: all blocks will be read again.
    pub fn all_code_changed(&mut self) {
        self.paths.clear();
        self.blocks.iter_mut().filter(|block| !block.key().is_hidden()).for_each(Block::make_stale);
    }

    /// Takes a copy of a block out of reach of changes, and gives its number: execution is inside it, and went there
    /// before the code changed.
    pub fn keep_as_it_is(&mut self, number: u32) -> u32 {
        match self.get(number).key().is_hidden() {
            true => number,
            false => self.add_hidden(*self.get(number), self.map(number)),
        }
    }

    /// The same with the block that execution came from.
    pub fn keep_origin_as_it_is(&mut self, origin: Origin) -> Origin {
        match self.came_by(origin) {
            Some((_, taken)) => Origin::new(self.keep_as_it_is(origin.block() as u32), taken),
            None => origin,
        }
    }

    /// Adds a block that is not to be found, and gives its number.
    fn add_hidden(&mut self, mut block: Block, map: InstructionMap) -> u32 {
        block.set_key(block.key().hidden());
        self.blocks.push(block);
        self.maps.push(map);
        self.blocks.len() as u32 - 1
    }

    /// Is there so little room that the next blocks may not find any, and all is forgotten?
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.blocks.len() + 4 >= self.capacity
    }

    /// Does a block of this number begin at the address?
    #[inline]
    pub fn begins(&self, number: u32, address: u64) -> bool {
        self.blocks.get(number as usize).is_some_and(|block| block.range.start.0 == address)
    }

    /// The block that execution came from, and whether its last instruction was taken.
    pub fn came_by(&self, origin: Origin) -> Option<(&Block, bool)> {
        self.blocks.get(origin.block()).map(|block| (block, origin.is_taken()))
    }

    /// The number of blocks in it.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// All blocks, by their numbers.
    #[inline]
    pub fn all(&self) -> &[Block] {
        &self.blocks
    }

    /// A block by its number.
    #[inline]
    pub fn get(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    /// Where the instructions of a block begin.
    #[inline]
    pub fn map(&self, block: u32) -> InstructionMap {
        self.maps[block as usize]
    }

    /// The number of the block at `address`, which is not stale. Numbers of before may be void afterwards. `origin` is
    /// where execution came from, if that is known; it makes the search short.
    #[inline]
    pub fn enter(
        &mut self,
        origin: Origin,
        address: Address,
        mode: CodeMode,
        reader: &impl BlockReader,
        code: &impl Code,
    ) -> u32 {
        let key = Key { address, mode };
        let hint = self.blocks.get(origin.block()).and_then(|before| before.next(origin.is_taken()));
        match hint {
            Some(hint) if self.blocks.get(hint as usize).is_some_and(|block| block.key() == key) => hint,
            _ => self.find(origin, key, reader, code),
        }
    }

    #[inline]
    fn find(&mut self, origin: Origin, key: Key, reader: &impl BlockReader, code: &impl Code) -> u32 {
        match self.look_up(key) {
            Ok(found) if self.blocks[found as usize].key() == key => {
                self.link(origin, key, found);
                found
            }
            slot => self.read(origin, key, slot, reader, code),
        }
    }

    /// The number of a block, which may be stale, or the slot where its number belongs.
    #[inline]
    fn look_up(&self, key: Key) -> Result<u32, usize> {
        let mask = self.table.len().wrapping_sub(1);
        let mut slot = key.hash() & mask;
        loop {
            let Some(&number) = self.table.get(slot) else { return Err(slot) };
            let Some(block) = self.blocks.get(number as usize) else { return Err(slot) };
            if block.key().fresh() == key {
                return Ok(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Reads a block and remembers it.
    #[cold]
    #[inline(never)]
    fn read(
        &mut self,
        origin: Origin,
        key: Key,
        slot: Result<u32, usize>,
        reader: &impl BlockReader,
        code: &impl Code,
    ) -> u32 {
        let space = self.spaces.get(key.mode.space());
        let read =
            reader.read(code, Start { address: key.address, space, isa: key.mode.isa(), it: key.mode.it() });
        if let Ok(stale) = slot {
            self.put(stale, key, read);
            self.link(origin, key, stale);
            return stale;
        }
        if self.blocks.len() >= self.capacity {
            self.clear();
        } else if self.blocks.len() * 2 >= self.table.len() {
            self.grow();
        }
        let number = self.blocks.len() as u32;
        if let Err(slot) = self.look_up(key) {
            self.table[slot] = number;
        }
        self.link(origin, key, number);
        self.put(number, key, read);
        number
    }

    /// Stores a block under its number, which may be the next one.
    fn put(&mut self, index: u32, key: Key, (mut block, map): (Block, InstructionMap)) {
        block.set_key(key);
        self.pages.add(block.range.start.0..block.range.end.0.saturating_add(LONGEST_INSTRUCTION));
        match self.blocks.get_mut(index as usize) {
            Some(stale) => {
                *stale = block;
                self.maps[index as usize] = map;
            }
            None => {
                self.blocks.push(block);
                self.maps.push(map);
            }
        }
    }

    /// Remembers where a way led to, unless something else happened on it.
    #[inline]
    fn link(&mut self, origin: Origin, key: Key, to: u32) {
        if let Some(before) = self.blocks.get_mut(origin.block())
            && !before.is_stale()
            && before.leads_to(origin.is_taken()).is_none_or(|known| known == key)
        {
            before.set_next(origin.is_taken(), to);
        }
    }

    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(64);
        self.table.clear();
        self.table.resize(size, NONE);
        for (index, block) in self.blocks.iter().enumerate().filter(|(_, block)| !block.key().is_hidden()) {
            let mut slot = block.key().hash() & (size - 1);
            while self.table[slot] != NONE {
                slot = (slot + 1) & (size - 1);
            }
            self.table[slot] = index as u32;
        }
    }
}

/// No instruction has more bytes.
const LONGEST_INSTRUCTION: u64 = 4;

/// Which pages hold code that was read, as far as a small table can say: pages that fall on the same bit are not told
/// apart. Most changes of code are to pages that never ran before, and need no search. There is no table before there is
/// code: where followers share a cache, all but one have an empty one.
#[derive(Clone, Debug, Default)]
struct Pages(Vec<u64>);

impl Pages {
    const PAGE: u32 = 12;
    const COUNT: u64 = 1 << 16;

    fn pages(addresses: &ops::Range<u64>) -> impl Iterator<Item = usize> {
        let first = addresses.start >> Self::PAGE;
        let last = (addresses.end.max(addresses.start.saturating_add(1)) - 1) >> Self::PAGE;
        (first..=last.min(first + Self::COUNT - 1)).map(|page| (page % Self::COUNT) as usize)
    }

    fn add(&mut self, addresses: ops::Range<u64>) {
        self.0.resize((Self::COUNT / 64) as usize, 0);
        for page in Self::pages(&addresses) {
            self.0[page / 64] |= 1 << (page % 64);
        }
    }

    fn may_hold(&self, addresses: &ops::Range<u64>) -> bool {
        !self.0.is_empty() && Self::pages(addresses).any(|page| self.0[page / 64] >> (page % 64) & 1 == 1)
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }
}

#[cfg(test)]
mod tests;
