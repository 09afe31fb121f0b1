//! Decoded code: straight-line blocks, found by the address of their first instruction.

use crate::decode::{Op, decode};
use crate::environment::Environment;
use crate::fault::Cause;
use crate::memory::PAGE;
use backsight_core::{Address, Isa, Retired};
use std::collections::HashMap;

/// Entries of the table that most lookups are answered from.
const RECENT: usize = 1 << 14;
/// A longer block is cut.
const LONGEST: usize = 128;
/// Decoded instructions that are kept; beyond, all are forgotten (code that makes code without end).
const MOST_OPS: usize = 1 << 21;

#[derive(Clone, Copy)]
struct Block {
    start: u64,
    first: u32,
    count: u32,
    number: u64,
}

/// The start of no block.
const NONE: Block = Block { start: u64::MAX, first: 0, count: 0, number: 0 };

/// A block: its instructions as the hart takes them, and as they are reported.
#[derive(Clone, Copy)]
pub struct DecodedBlock<'a> {
    pub ops: &'a [Op],
    /// Each taken, and followed by the one after it.
    pub code: &'a [Retired],
    /// No two blocks have the same.
    pub number: u64,
}

/// All blocks decoded so far.
pub struct Blocks {
    ops: Vec<Op>,
    /// The same instructions at the same indexes.
    code: Vec<Retired>,
    /// The number of the next block that is decoded.
    number: u64,
    all: HashMap<u64, Block>,
    /// The blocks that have a part in a page, by their starts.
    pages: HashMap<u64, Vec<u64>>,
    recent: Box<[Block]>,
}

impl Default for Blocks {
    fn default() -> Self {
        let recent = vec![NONE; RECENT].into();
        Self {
            ops: Vec::new(),
            code: Vec::new(),
            number: 0,
            all: HashMap::new(),
            pages: HashMap::new(),
            recent,
        }
    }
}

fn slot(pc: u64) -> usize {
    (pc / 2) as usize % RECENT
}

impl Blocks {
    fn clear(&mut self) {
        self.ops.clear();
        self.code.clear();
        self.all.clear();
        self.pages.clear();
        self.recent.fill(NONE);
    }

    /// Forgets the blocks that have a part in a page: code there changed.
    pub fn forget(&mut self, page: u64) {
        for start in self.pages.remove(&page).unwrap_or_default() {
            self.all.remove(&start);
            let recent = &mut self.recent[slot(start)];
            if recent.start == start {
                *recent = NONE;
            }
        }
    }

    /// The block at `pc`, at least one instruction; `None` if [`find`](Self::find) must be called first.
    #[inline(always)]
    pub fn at(&self, pc: u64) -> Option<DecodedBlock<'_>> {
        let block = self.recent[slot(pc)];
        if block.start != pc {
            return None;
        }
        let range = block.first as usize..block.first as usize + block.count as usize;
        let (ops, code) = (self.ops.get(range.clone())?, self.code.get(range)?);
        Some(DecodedBlock { ops, code, number: block.number })
    }

    /// Finds or decodes the block at `pc`.
    #[cold]
    #[inline(never)]
    pub fn find<E: Environment>(&mut self, pc: u64, environment: &mut E) -> Result<(), Cause> {
        let block = match self.all.get(&pc) {
            Some(&block) => block,
            None => self.translate(pc, environment)?,
        };
        self.recent[slot(pc)] = block;
        Ok(())
    }

    fn translate<E: Environment>(&mut self, pc: u64, environment: &mut E) -> Result<Block, Cause> {
        if self.ops.len() + LONGEST > MOST_OPS {
            self.clear();
        }
        let first = self.ops.len();
        let mut address = pc;
        while self.ops.len() - first < LONGEST {
            let op = match fetch(address, environment) {
                Ok(op) => op,
                // What comes before it can run; the fault comes when this address is reached.
                Err(_) if self.ops.len() > first => break,
                Err(cause) => return Err(cause),
            };
            self.ops.push(op);
            self.code.push(op.retired(address));
            address = address.wrapping_add(u64::from(op.size));
            if op.ends_block() {
                break;
            }
        }
        let count = (self.ops.len() - first) as u32;
        let block = Block { start: pc, first: first as u32, count, number: self.number };
        self.number += 1;
        self.all.insert(pc, block);
        environment.decoded(pc, address);
        let last = address.wrapping_sub(1) & !(PAGE - 1);
        self.pages.entry(pc & !(PAGE - 1)).or_default().push(pc);
        if last != pc & !(PAGE - 1) {
            self.pages.entry(last).or_default().push(pc);
        }
        Ok(block)
    }
}

impl Op {
    /// The instruction at an address, retired and followed by the one after it.
    fn retired(&self, address: u64) -> Retired {
        Retired {
            address: Address(address),
            next: Address(address.wrapping_add(u64::from(self.size))),
            cycle: 0,
            opcode: self.opcode,
            size: self.size,
            isa: Isa::Rv64,
            taken: true,
        }
    }
}

/// Decodes the one instruction at an address.
pub fn fetch<E: Environment>(address: u64, environment: &mut E) -> Result<Op, Cause> {
    let first = environment.fetch(address)?;
    let second = if first & 3 == 3 { environment.fetch(address.wrapping_add(2))? } else { 0 };
    Ok(decode(first, second))
}
