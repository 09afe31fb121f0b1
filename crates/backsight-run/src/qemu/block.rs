//! TranslatedBlocks: code that QEMU translated in one piece.
//!
//! Only the last instruction of a block can go elsewhere than to the next, so a block is a list of
//! instructions ready to be handed out, and a description of how it ends.

use std::collections::BTreeMap;

use backsight_core::{Address, BlockCode, BlockStep, Isa, Retired, RetiredBlocks};
use backsight_isa::{Class, classify_retired};

use super::Damage;
use crate::Target;

/// More instructions than this (1 GiB of them) in distinct blocks are refused.
const MOST_INSTRUCTIONS: usize = 1 << 25;
const MOST_IN_BLOCK: usize = 512;
const WATCHED: u8 = 0x80;
const MAY_FAULT: u8 = 0x40;
const SIZE: u8 = 0x0F;

/// How a block ends, as its last instruction says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Execution goes on after it.
    Plain,
    /// A direct branch.
    Direct { target: u64, target_isa: Isa, conditional: bool },
    /// An indirect branch.
    Indirect { conditional: bool },
    /// QEMU's stand-in for a kernel helper: no instruction of the program.
    Helper,
}

/// A block.
#[derive(Clone, Copy, Debug)]
pub struct TranslatedBlock {
    /// Where it begins.
    pub address: u64,
    /// The address after its last instruction.
    pub end_address: u64,
    /// How it ends.
    pub end: End,
    /// The instruction set; `None` until it is known.
    pub isa: Option<Isa>,
    first: u32,
    /// Instructions.
    pub count: u32,
}

/// All blocks of a stream.
#[derive(Debug, Default)]
pub struct TranslatedBlocks {
    target: Option<Target>,
    blocks: Vec<TranslatedBlock>,
    /// The same, as they are handed out.
    codes: Vec<BlockCode>,
    instructions: Vec<Retired>,
    flags: Vec<u8>,
    /// 32-bit Arm: the instruction set at places that are known to be instructions.
    places: BTreeMap<u64, Isa>,
}

impl TranslatedBlocks {
    pub fn new(target: Target) -> Self {
        Self { target: Some(target), ..Self::default() }
    }

    #[inline]
    pub fn get(&self, number: u32) -> Result<&TranslatedBlock, Damage> {
        self.blocks.get(number as usize).ok_or(Damage::Block(number))
    }

    /// The instructions; those before the last are ready, the last does not yet say where it leads.
    #[inline]
    pub fn instructions(&self, block: &TranslatedBlock) -> &[Retired] {
        &self.instructions[block.first as usize..(block.first + block.count) as usize]
    }

    /// Blocks that ran to their end.
    pub fn retired<'a>(&'a self, steps: &'a [BlockStep]) -> RetiredBlocks<'a> {
        RetiredBlocks { steps, codes: &self.codes, first_number: 0, instructions: &self.instructions }
    }

    fn flags(&self, block: &TranslatedBlock) -> &[u8] {
        &self.flags[block.first as usize..(block.first + block.count) as usize]
    }

    /// May the last instruction access memory?
    pub fn last_may_fault(&self, block: &TranslatedBlock) -> bool {
        self.flags(block).last().is_some_and(|flags| flags & MAY_FAULT != 0)
    }

    /// Index of the watched instruction that was the `begun`-th to begin; of the first if none began.
    pub fn watched(&self, block: &TranslatedBlock, begun: u32) -> Option<usize> {
        let mut watched =
            self.flags(block).iter().enumerate().filter(|(_, flags)| *flags & WATCHED != 0).map(|(at, _)| at);
        watched.nth(begun.saturating_sub(1) as usize)
    }

    /// Reads one definition from the start of `bytes`; gives its length. `code` gets the instructions' bytes.
    pub fn define(&mut self, bytes: &[u8], code: impl FnOnce(Address, &[u8])) -> Result<usize, Damage> {
        let (number, rest) = bytes.split_first_chunk().ok_or(Damage::Definition)?;
        let (address, rest) = rest.split_first_chunk().ok_or(Damage::Definition)?;
        let (count, rest) = rest.split_first_chunk().ok_or(Damage::Definition)?;
        let (address, count) = (u64::from_le_bytes(*address), u32::from_le_bytes(*count) as usize);
        let in_order = u32::from_le_bytes(*number) as usize == self.blocks.len();
        if !in_order || !(1..=MOST_IN_BLOCK).contains(&count) {
            return Err(Damage::Definition);
        }
        if self.instructions.len() + count > MOST_INSTRUCTIONS {
            return Err(Damage::CodeSize);
        }
        let (flags, rest) = rest.split_at_checked(count).ok_or(Damage::Definition)?;
        if flags.iter().any(|flags| !matches!(flags & SIZE, 0 | 2 | 4)) {
            return Err(Damage::Definition);
        }
        let size = flags.iter().map(|flags| usize::from(flags & SIZE)).sum();
        let memory = rest.get(..size).ok_or(Damage::Definition)?;
        self.add(address, flags, memory);
        if !memory.is_empty() {
            code(Address(address), memory);
        }
        Ok(16 + count + size)
    }

    fn add(&mut self, address: u64, flags: &[u8], mut memory: &[u8]) {
        let narrow = flags.iter().any(|flags| flags & SIZE == 2) || address & 2 != 0;
        let isa = self.target.and_then(Target::isa).or(narrow.then_some(Isa::T32));
        let first = self.instructions.len() as u32;
        let mut at = address;
        let mut last_size = 0;
        for flags in flags {
            last_size = flags & SIZE;
            let (bytes, rest) = memory.split_at(usize::from(last_size));
            memory = rest;
            let opcode = bytes.iter().rev().fold(0, |opcode, &byte| opcode << 8 | u32::from(byte));
            let next = at.wrapping_add(u64::from(last_size));
            self.instructions.push(Retired {
                address: Address(at),
                next: Address(next),
                cycle: 0,
                opcode,
                size: last_size,
                isa: isa.unwrap_or(Isa::A32),
                taken: true,
            });
            at = next;
        }
        self.flags.extend_from_slice(flags);
        let end = if last_size == 0 { End::Helper } else { End::Plain };
        let number = self.blocks.len() as u32;
        let count = flags.len() as u32;
        self.codes.push(BlockCode { first, count });
        self.blocks.push(TranslatedBlock { address, end_address: at, end, isa: None, first, count });
        if let Some(isa) = isa {
            self.settle(number, isa);
        }
    }

    /// The instruction set of a block, once control has come to it: from a known place, or from what is there.
    pub fn settle_arrival(&mut self, number: u32, from_flow: Option<Isa>) {
        let Ok(&block) = self.get(number) else { return };
        let isa = from_flow
            .or_else(|| self.places.get(&block.address).copied())
            .unwrap_or_else(|| self.likely_isa(&block));
        self.settle(number, isa);
    }

    /// A32 or T32, for a block of 4-byte instructions that control came to without saying: what the bytes can be, else
    /// what the code around is. T32 code has the condition field AL of A32 by chance only.
    fn likely_isa(&self, block: &TranslatedBlock) -> Isa {
        let instructions = self.instructions(block);
        let looked_ahead =
            |retired: &Retired| retired.next.0 & 0xFFF == 0 && retired.next.0 == block.end_address;
        let can_be_t32 = |retired: &Retired| !is_narrow(Isa::T32, retired.opcode) || looked_ahead(retired);
        if !instructions.iter().all(can_be_t32) {
            return Isa::A32;
        }
        if !instructions.iter().all(|retired| retired.opcode >> 28 == 0xE) {
            return Isa::T32;
        }
        let before = self.places.range(..block.address).next_back();
        let after = self.places.range(block.address..).next();
        let nearest = before.into_iter().chain(after).min_by_key(|(place, _)| place.abs_diff(block.address));
        nearest.map_or(Isa::A32, |(_, &isa)| isa)
    }

    /// Fixes the instruction set and with it opcodes and end.
    fn settle(&mut self, number: u32, isa: Isa) {
        let Some(block) = self.blocks.get_mut(number as usize) else { return };
        block.isa = Some(isa);
        let range = block.first as usize..(block.first + block.count) as usize;
        let mut in_it = 0;
        let mut it_conditional = false;
        for instruction in &mut self.instructions[range] {
            instruction.isa = isa;
            if instruction.size == 4 && is_narrow(isa, instruction.opcode) {
                // QEMU looked ahead at the end of a page.
                instruction.size = 2;
                instruction.opcode &= 0xFFFF;
                instruction.next = instruction.end();
                block.end_address = instruction.next.0;
            }
            if isa == Isa::T32 {
                if instruction.size == 4 {
                    instruction.opcode = instruction.opcode.rotate_left(16);
                }
                it_conditional = in_it > 0;
                let count = classify_retired(instruction).it_count;
                in_it = if count > 0 { count } else { u8::saturating_sub(in_it, 1) };
            }
            if self.target == Some(Target::Arm) {
                self.places.insert(instruction.address.0, isa);
            }
        }
        let Some(last) = self.instructions.get((block.first + block.count) as usize - 1) else { return };
        if block.end == End::Helper {
            return;
        }
        let class = classify_retired(last);
        let conditional = class.flags.conditional || it_conditional;
        block.end = match class.class {
            Class::DirectBranch => {
                End::Direct { target: class.target.0, target_isa: class.target_isa, conditional }
            }
            Class::IndirectBranch => End::Indirect { conditional },
            _ => End::Plain,
        };
        let comes_back = class.flags.link || conditional || !class.is_branch();
        if self.target == Some(Target::Arm) && comes_back {
            self.places.entry(block.end_address).or_insert(isa);
        }
    }
}

/// Is the instruction at the start of a little-endian word a 2-byte one?
fn is_narrow(isa: Isa, word: u32) -> bool {
    match isa {
        Isa::A64 | Isa::A32 | Isa::Jazelle => false,
        Isa::T32 | Isa::ThumbEe => word & 0xFFFF < 0xE800,
        Isa::Rv32 | Isa::Rv64 => word & 3 != 3,
    }
}
