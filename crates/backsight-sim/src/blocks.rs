//! Decoded code: straight-line blocks, found by the address of their first instruction.

use crate::decode::{Op, decode};
use crate::environment::Environment;
use crate::fault::Cause;
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
}

/// The start of no block.
const NONE: Block = Block { start: u64::MAX, first: 0, count: 0 };

/// All blocks decoded so far.
pub struct Blocks {
    ops: Vec<Op>,
    all: HashMap<u64, Block>,
    recent: Box<[Block]>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { ops: Vec::new(), all: HashMap::new(), recent: vec![NONE; RECENT].into() }
    }
}

impl Blocks {
    /// Forgets everything: code changed.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.all.clear();
        self.recent.fill(NONE);
    }

    /// The block at `pc`: at least one instruction.
    #[inline(always)]
    pub fn at<E: Environment>(&mut self, pc: u64, environment: &mut E) -> Result<&[Op], Cause> {
        let mut block = self.recent[(pc / 2) as usize % RECENT];
        if block.start != pc {
            block = self.find(pc, environment)?;
        }
        let first = block.first as usize;
        Ok(self.ops.get(first..first + block.count as usize).unwrap_or(&[]))
    }

    #[cold]
    #[inline(never)]
    fn find<E: Environment>(&mut self, pc: u64, environment: &mut E) -> Result<Block, Cause> {
        let block = match self.all.get(&pc) {
            Some(&block) => block,
            None => self.translate(pc, environment)?,
        };
        self.recent[(pc / 2) as usize % RECENT] = block;
        Ok(block)
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
            address = address.wrapping_add(u64::from(op.size));
            if op.ends_block() {
                break;
            }
        }
        let block = Block { start: pc, first: first as u32, count: (self.ops.len() - first) as u32 };
        self.all.insert(pc, block);
        Ok(block)
    }
}

fn fetch<E: Environment>(address: u64, environment: &mut E) -> Result<Op, Cause> {
    let first = environment.fetch(address)?;
    let second = if first & 3 == 3 { environment.fetch(address.wrapping_add(2))? } else { 0 };
    Ok(decode(first, second))
}
