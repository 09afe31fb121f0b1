//! Decoded code: straight-line blocks, found by the address of their first instruction.

use crate::decode::{Op, decode};
use crate::environment::Environment;
use crate::fault::Cause;
use crate::hart::execute::BlockExit;
use crate::memory::PAGE;
use crate::observer::Observer;
use backsight_core::{Address, BlockCode, BlockStep, Retired, RetiredBlocks};
use std::collections::HashMap;

/// Entries of the table that most lookups are answered from.
const RECENT: usize = 1 << 14;
/// A longer block is cut.
const LONGEST: usize = 128;
/// Decoded instructions that are kept; beyond, all are forgotten (code that makes code without end).
const MOST_OPS: usize = 1 << 21;
/// Blocks that retire before they are reported.
const UNREPORTED: usize = 256;
/// An odd address: no block starts there.
const NOWHERE: u64 = u64::MAX;
/// The index of no block.
const NO_BLOCK: u32 = u32::MAX;

/// A block, as the hart takes it. Two of them fill a line of the cache.
#[repr(align(32))]
struct DecodedBlock {
    /// Address of the first instruction.
    start: u64,
    /// At least one.
    ops: Box<[Op]>,
    /// The blocks that came next when execution fell through, and when it went to the one target. They may have been
    /// forgotten: a caller that follows looks where they start.
    next: [u32; 2],
}

/// All blocks decoded so far, each with an index of its own as long as it is not forgotten.
pub struct Blocks {
    list: Vec<DecodedBlock>,
    /// The same blocks, as they are reported.
    codes: Vec<BlockCode>,
    /// The instructions of those and of forgotten ones: each taken, and followed by the one after it.
    instructions: Vec<Retired>,
    /// Blocks that retired and were not reported yet.
    retired: Box<[BlockStep; UNREPORTED]>,
    retired_count: usize,
    /// The number of the first block. No two blocks have the same.
    first_number: u64,
    /// The blocks by their starts.
    all: HashMap<u64, u32>,
    /// The blocks that have a part in a page, by their starts.
    pages: HashMap<u64, Vec<u64>>,
    recent: Box<[u32; RECENT]>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            codes: Vec::new(),
            instructions: Vec::new(),
            retired: Box::new([BlockStep::default(); UNREPORTED]),
            retired_count: 0,
            first_number: 0,
            all: HashMap::new(),
            pages: HashMap::new(),
            recent: Box::new([NO_BLOCK; RECENT]),
        }
    }
}

fn slot(pc: u64) -> usize {
    (pc / 2) as usize % RECENT
}

impl Blocks {
    fn clear(&mut self) {
        self.first_number += self.list.len() as u64;
        self.list.clear();
        self.codes.clear();
        self.instructions.clear();
        self.all.clear();
        self.pages.clear();
        self.recent.fill(NO_BLOCK);
    }

    /// Forgets the blocks that have a part in a page: code there changed.
    pub fn forget(&mut self, page: u64) {
        for start in self.pages.remove(&page).unwrap_or_default() {
            let Some(index) = self.all.remove(&start) else { continue };
            let block = &mut self.list[index as usize];
            block.start = NOWHERE;
            block.ops = Box::default();
        }
    }

    /// The block at `pc`; `None` if [`find`](Self::find) must be called first.
    #[inline(always)]
    pub fn at(&self, pc: u64) -> Option<u32> {
        self.if_at(self.recent[slot(pc)], pc)
    }

    /// The block of this index, if it starts at `pc`.
    #[inline(always)]
    fn if_at(&self, index: u32, pc: u64) -> Option<u32> {
        self.list.get(index as usize).is_some_and(|block| block.start == pc).then_some(index)
    }

    /// The instructions of the block of this index, at least one, but no more than there is room for.
    #[inline(always)]
    pub fn ops(&self, index: u32, room: u64) -> &[Op] {
        let ops = &self.list[index as usize].ops[..];
        if ops.len() as u64 > room { &ops[..room as usize] } else { ops }
    }

    /// The instructions of the block of this index, as they are reported.
    pub fn code(&self, index: u32) -> &[Retired] {
        let BlockCode { first, count } = self.codes[index as usize];
        &self.instructions[first as usize..][..count as usize]
    }

    /// The block of this index retired, and led to `next`. True: it is time to report that.
    #[inline(always)]
    pub fn retire(&mut self, index: u32, next: u64, taken: bool) -> bool {
        self.retired[self.retired_count % UNREPORTED] = BlockStep { next: Address(next), code: index, taken };
        self.retired_count += 1;
        self.retired_count == UNREPORTED
    }

    /// Reports the blocks that retired.
    #[cold]
    #[inline(never)]
    pub fn report(&mut self, observer: &mut impl Observer) {
        let steps = &self.retired[..std::mem::take(&mut self.retired_count)];
        if !steps.is_empty() {
            observer.blocks(&RetiredBlocks {
                steps,
                codes: &self.codes,
                first_number: self.first_number,
                instructions: &self.instructions,
            });
        }
    }

    /// The block at `pc`, where execution went from another block; `None` as for [`at`](Self::at).
    #[inline(always)]
    pub fn follow(&mut self, from: u32, exit: BlockExit, pc: u64) -> Option<u32> {
        let next = match exit {
            BlockExit::FallThrough => 0,
            BlockExit::Direct => 1,
            BlockExit::Indirect => return self.at(pc),
        };
        match self.if_at(self.list[from as usize].next[next], pc) {
            Some(index) => Some(index),
            None => self.connect(from, next, pc),
        }
    }

    #[cold]
    #[inline(never)]
    fn connect(&mut self, from: u32, next: usize, pc: u64) -> Option<u32> {
        let index = *self.all.get(&pc)?;
        self.list[from as usize].next[next] = index;
        Some(index)
    }

    /// Finds or decodes the block at `pc`.
    #[cold]
    #[inline(never)]
    pub fn find<E: Environment>(&mut self, pc: u64, environment: &mut E) -> Result<(), Cause> {
        let index = match self.all.get(&pc) {
            Some(&index) => index,
            None => self.translate(pc, environment)?,
        };
        self.recent[slot(pc)] = index;
        Ok(())
    }

    fn translate<E: Environment>(&mut self, pc: u64, environment: &mut E) -> Result<u32, Cause> {
        if self.instructions.len() + LONGEST > MOST_OPS {
            self.clear();
        }
        let first = self.instructions.len();
        let mut ops = Vec::new();
        let mut address = pc;
        while ops.len() < LONGEST {
            let op = match fetch(address, environment) {
                Ok(op) => op,
                // What comes before it can run; the fault comes when this address is reached.
                Err(_) if !ops.is_empty() => break,
                Err(cause) => return Err(cause),
            };
            let op = Op { offset: address.wrapping_sub(pc) as u16, ..op };
            address = op.end(pc);
            ops.push(op);
            self.instructions.push(op.retired(pc, address, true));
            if op.ends_block() {
                break;
            }
        }
        let index = self.list.len() as u32;
        self.codes.push(BlockCode { first: first as u32, count: ops.len() as u32 });
        self.list.push(DecodedBlock { start: pc, ops: ops.into(), next: [NO_BLOCK; 2] });
        self.all.insert(pc, index);
        environment.decoded(pc, address);
        let last = address.wrapping_sub(1) & !(PAGE - 1);
        self.pages.entry(pc & !(PAGE - 1)).or_default().push(pc);
        if last != pc & !(PAGE - 1) {
            self.pages.entry(last).or_default().push(pc);
        }
        Ok(index)
    }
}

/// Decodes the one instruction at an address, as the first of a block.
pub fn fetch<E: Environment>(address: u64, environment: &mut E) -> Result<Op, Cause> {
    let first = environment.fetch(address)?;
    let second = if first & 3 == 3 { environment.fetch(address.wrapping_add(2))? } else { 0 };
    Ok(decode(first, second))
}
