//! Straight code, read once and remembered.
//!
//! A block begins anywhere and ends at the first instruction that may go elsewhere than to the next one. It knows the
//! blocks behind it, so that following an outcome is one step. Memory is bounded: a full cache is emptied and filled
//! anew.

use backsight_core::{Address, AddressSpace};
use backsight_image::Code;
use backsight_isa::rv::{self, Decoded, JumpKind, Operation, Set};

use super::Fault;
use super::goal::Position;
use crate::statistics::Count;
use crate::{Event, Range};

/// Half-words that a block spans at most: one bit of its map for each.
const HALF_WORDS: u64 = 64;
/// Blocks that are remembered.
const MOST: usize = 1 << 16;
/// Slots of the index at first; there are always at least twice as many as blocks.
const SLOTS: usize = 1 << 12;
/// No block.
const NONE: u32 = u32::MAX;

/// What the last instruction of a block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing: the block is cut for its length.
    Plain,
    /// Goes to the target or on.
    Branch,
    /// Goes to the target.
    Jump,
    /// Goes where the program alone does not tell.
    Uninferable,
    /// Returns to where a call came from.
    Return,
    /// Returns from a trap.
    TrapReturn,
    /// `ecall`, `ebreak`: nothing retires behind them.
    Environment,
}

/// All that a walk through it needs. Its first cache line says where the walk goes on.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Block {
    /// Address of the first instruction.
    pub start: u64,
    /// Address of the last instruction.
    pub last: u64,
    /// Address behind it.
    pub end: u64,
    /// Target of a branch or jump, or of a sequentially inferable jump.
    pub target: u64,
    /// Bit n: an instruction begins n half-words behind the start.
    starts: u64,
    /// Blocks behind it: not taken, taken.
    next: [u32; 2],
    pub kind: End,
    pub call: bool,
    /// The instruction before the last one sets the register it jumps through: `target` is valid.
    pub sequential: bool,
    /// What it counts: left by its other exit, left by its taken exit.
    pub counts: [Count; 2],
    /// The block as it is told: left by its other exit, left by its taken exit. These are whole events, ready to copy:
    /// to put one together from its parts costs more than the step to the next block.
    pub told: [Event; 2],
}

impl Block {
    /// Is its first instruction a branch?
    #[inline]
    pub fn is_branch(&self) -> bool {
        self.kind == End::Branch && self.last == self.start
    }

    /// Does an instruction of the block begin at `address`?
    #[inline]
    pub fn has(&self, address: u64) -> bool {
        let distance = address.wrapping_sub(self.start);
        address & 1 == 0 && distance / 2 < HALF_WORDS && self.starts >> (distance / 2) & 1 != 0
    }

    /// Number of instructions from `from` to `to`, both inside.
    #[inline]
    pub fn between(&self, from: u64, to: u64) -> u32 {
        let (low, high) = (from.wrapping_sub(self.start) / 2, to.wrapping_sub(self.start) / 2);
        (self.starts >> low << low << (63 - high.min(63))).count_ones()
    }

    /// The instruction behind the one at `address`; for the last one, the end.
    pub fn behind(&self, address: u64) -> u64 {
        let n = address.wrapping_sub(self.start) / 2;
        let later = self.starts.checked_shr(n as u32 + 1).unwrap_or(0);
        if later == 0 { self.end } else { address.wrapping_add(2 * (u64::from(later.trailing_zeros()) + 1)) }
    }

    /// The instruction before the one at `address`; `None` if that is the first.
    pub fn before(&self, address: u64) -> Option<u64> {
        let n = address.wrapping_sub(self.start) / 2;
        let earlier = self.starts & !(u64::MAX.checked_shl(n as u32).unwrap_or(0));
        (earlier != 0).then(|| self.start.wrapping_add(2 * u64::from(63 - earlier.leading_zeros())))
    }
}

pub(super) struct Blocks<'c, C> {
    code: &'c C,
    set: Set,
    /// A return through x1 or x5 counts as a jump that the instruction before may resolve (3-bit itype).
    returns_are_jumps: bool,
    mask: u64,
    blocks: Vec<Block>,
    /// Address and number of blocks, each at the place that its address asks for or behind it.
    slots: Vec<(u64, u32)>,
}

impl<'c, C: Code> Blocks<'c, C> {
    pub fn new(code: &'c C, set: Set, mask: u64, returns_are_jumps: bool) -> Self {
        let slots = vec![(0, NONE); SLOTS];
        Self { code, set, returns_are_jumps, mask, blocks: Vec::new(), slots }
    }

    #[inline]
    pub fn get(&self, index: u32) -> &Block {
        &self.blocks[index as usize]
    }

    /// Does this block, if there is one, begin at `address`?
    #[inline]
    pub fn begins(&self, index: u32, address: u64) -> bool {
        self.blocks.get(index as usize).is_some_and(|block| block.start == address)
    }

    /// The block that begins at `address`, if it was read before.
    #[inline]
    pub fn known(&self, address: u64) -> Option<u32> {
        let mut slot = self.slot(address);
        loop {
            let (start, index) = self.slots[slot];
            if start == address && index != NONE {
                return Some(index);
            }
            if index == NONE {
                return None;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    #[inline]
    fn slot(&self, address: u64) -> usize {
        let hash = (address >> 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 40) as usize & (self.slots.len() - 1)
    }

    /// The block that begins at `address`.
    #[inline]
    pub fn at(&mut self, address: u64) -> Result<u32, Fault> {
        match self.known(address) {
            Some(index) => Ok(index),
            None => self.read(address),
        }
    }

    /// The block behind `from`, which goes there by its taken (or other) exit.
    #[inline]
    pub fn behind(&mut self, from: u32, taken: bool, address: u64) -> Result<u32, Fault> {
        let block = self.get(from);
        let (start, known) = (block.start, block.next[usize::from(taken)]);
        if self.begins(known, address) {
            return Ok(known);
        }
        let found = self.at(address)?;
        // The cache may have been emptied; then `from` is something else, or nothing.
        if self.begins(from, start) {
            self.blocks[from as usize].next[usize::from(taken)] = found;
        }
        Ok(found)
    }

    /// The block behind one that leaves by its taken (or other) exit, if it was read before. Not for ends whose
    /// target may differ.
    #[inline]
    pub fn exit(&self, from: &Block, taken: bool) -> Option<u32> {
        let known = from.next[usize::from(taken)];
        ((known as usize) < self.blocks.len()).then_some(known)
    }

    /// Empties a cache that is nearly full, so that reading one more block leaves `position` valid.
    #[inline]
    pub fn make_room(&mut self, position: &mut Option<Position>) {
        if self.blocks.len() + 4 < MOST {
            return;
        }
        let start = position.map(|position| self.get(position.block).start);
        self.clear();
        if let (Some(position), Some(start)) = (position, start) {
            position.block = self.at(start).unwrap_or(0);
        }
    }

    fn clear(&mut self) {
        self.blocks.clear();
        self.slots.fill((0, NONE));
    }

    #[cold]
    fn read(&mut self, address: u64) -> Result<u32, Fault> {
        let block = self.build(address)?;
        if self.blocks.len() == MOST {
            self.clear();
        }
        let index = self.blocks.len() as u32;
        self.blocks.push(block);
        if self.blocks.len() * 2 > self.slots.len() {
            self.slots = vec![(0, NONE); self.slots.len() * 2];
            (0..=index).for_each(|index| self.enter(index));
        } else {
            self.enter(index);
        }
        Ok(index)
    }

    /// Enters a block into the index.
    fn enter(&mut self, index: u32) {
        let address = self.get(index).start;
        let mut slot = self.slot(address);
        while self.slots[slot].1 != NONE {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (address, index);
    }

    fn decode(&self, address: u64) -> Option<Decoded> {
        let bytes = self.code.bytes_at(AddressSpace::ANY, Address(address))?;
        let opcode = match rv::opcode(bytes) {
            Some(opcode) => opcode,
            // The instruction may go on in another piece of memory.
            None => {
                let low = u32::from(u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?]));
                let rest = self.code.bytes_at(AddressSpace::ANY, Address(address).plus(2))?;
                low | u32::from(u16::from_le_bytes([*rest.first()?, *rest.get(1)?])) << 16
            }
        };
        Some(rv::decode(self.set, opcode, Address(address)))
    }

    fn build(&self, start: u64) -> Result<Block, Fault> {
        if start & 1 != 0 {
            return Err(Fault::NoCode);
        }
        let mut decoded = self.decode(start).ok_or(Fault::NoCode)?;
        let (mut last, mut starts, mut before) = (start, 1u64, None);
        loop {
            let kind = kind(&decoded);
            if kind != End::Plain {
                break;
            }
            let next = last.wrapping_add(decoded.instruction.size.into()) & self.mask;
            let distance = next.wrapping_sub(start) / 2;
            let Some(following) = self.decode(next).filter(|_| distance < HALF_WORDS && next > last) else {
                break;
            };
            // An upper immediate stays together with the jump that it resolves.
            let is_upper = matches!(following.operation, Operation::UpperImmediate { .. });
            if is_upper && distance + 2 >= HALF_WORDS {
                break;
            }
            before = Some((decoded, last));
            (last, decoded) = (next, following);
            starts |= 1 << distance;
        }
        Ok(self.block(start, last, starts, &decoded, before))
    }

    fn block(
        &self,
        start: u64,
        last: u64,
        starts: u64,
        decoded: &Decoded,
        before: Option<(Decoded, u64)>,
    ) -> Block {
        let kind = kind(decoded);
        let sequential = before
            .and_then(|(before, at)| decoded.sequential_target(self.set, &before, Address(at)))
            .filter(|_| kind == End::Uninferable || self.returns_are_jumps && kind == End::Return);
        let call = matches!(decoded.operation, Operation::Jump { kind: JumpKind::Call, .. });
        let end = last.wrapping_add(decoded.instruction.size.into()) & self.mask;
        let range = Range {
            start: Address(start),
            end: Address(end),
            instructions: starts.count_ones(),
            isa: self.set.isa(),
            class: decoded.instruction.class,
            flags: decoded.instruction.flags,
            last_size: decoded.instruction.size,
            executed: true,
        };
        let not_taken = Range { executed: kind != End::Branch, ..range };
        Block {
            start,
            last,
            end,
            target: sequential.unwrap_or(decoded.instruction.target).0 & self.mask,
            starts,
            next: [NONE; 2],
            kind,
            call,
            sequential: sequential.is_some(),
            counts: [Count::of(&not_taken), Count::of(&range)],
            told: [not_taken, range].map(Event::Range),
        }
    }
}

fn kind(decoded: &Decoded) -> End {
    match decoded.operation {
        Operation::Branch => End::Branch,
        Operation::TrapReturn => End::TrapReturn,
        Operation::EnvironmentCall | Operation::Breakpoint => End::Environment,
        Operation::Jump { source: rv::Source::Opcode, .. } => End::Jump,
        Operation::Jump { kind: JumpKind::Return, .. } => End::Return,
        Operation::Jump { .. } => End::Uninferable,
        Operation::Other | Operation::UpperImmediate { .. } => End::Plain,
    }
}
