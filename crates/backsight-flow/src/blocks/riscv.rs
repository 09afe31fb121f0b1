//! RISC-V code in blocks.
//!
//! A block ends at the first instruction that may go elsewhere than to the next one, and is cut where it becomes long. An
//! upper immediate stays together with the jump that it resolves; an undefined instruction stands alone.

use backsight_core::Address;
use backsight_image::Code;
use backsight_isa::rv::{self, Decoded, JumpKind, Operation, Set};

use super::{Block, BlockReader, Blocks, Ending};
use crate::Range;
use crate::walk::{CodeReader, Start, Stop};

/// Half-words that a block spans at most: one bit of its map for each.
const HALF_WORDS: u64 = 64;

/// How RISC-V code is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RiscvReader {
    /// The instruction set.
    pub set: Set,
    /// The bits that an address has.
    pub mask: u64,
    /// A return counts as a jump that the instruction before may resolve.
    pub returns_are_jumps: bool,
}

/// Where the instructions of a block begin: bit n is set if one begins n half-words after the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InstructionMap(u64);

impl BlockReader for RiscvReader {
    fn read(&self, code: &impl Code, start: Start) -> (Block, InstructionMap) {
        let mut reader = CodeReader::new(code, start);
        let mut decode = |address: u64| {
            let opcode = reader.read(start.isa, Address(address), rv::opcode)?;
            Some(rv::decode(self.set, opcode, Address(address)))
        };
        let first = start.address.0;
        let Some(mut decoded) = decode(first).filter(|_| first & 1 == 0) else { return self.no_code(start) };
        let (mut last, mut map, mut before) = (first, 1u64, None);
        while ending(&decoded) == Ending::Plain {
            let next = last.wrapping_add(decoded.instruction.size.into()) & self.mask;
            let distance = next.wrapping_sub(first) / 2;
            if distance >= HALF_WORDS || next <= last {
                break;
            }
            let Some(following) = decode(next) else { break };
            let is_upper = matches!(following.operation, Operation::UpperImmediate { .. });
            if is_upper && distance + 2 >= HALF_WORDS || ending(&following) == Ending::Undefined {
                break;
            }
            before = Some((decoded, last));
            (last, decoded) = (next, following);
            map |= 1 << distance;
        }
        (self.block(start, last, map, &decoded, before), InstructionMap(map))
    }
}

impl RiscvReader {
    fn block(
        &self,
        start: Start,
        last: u64,
        map: u64,
        decoded: &Decoded,
        before: Option<(Decoded, u64)>,
    ) -> Block {
        let ending = ending(decoded);
        let is_jump = match ending {
            Ending::IndirectJump | Ending::IndirectCall | Ending::Swap => true,
            Ending::Return => self.returns_are_jumps,
            _ => false,
        };
        let sequential = before
            .filter(|_| is_jump)
            .and_then(|(before, at)| decoded.sequential_target(self.set, &before, Address(at)));
        let mut instruction = decoded.instruction;
        instruction.target = Address(sequential.unwrap_or(instruction.target).0 & self.mask);
        let range = Range {
            start: start.address,
            end: Address(last.wrapping_add(instruction.size.into()) & self.mask),
            instructions: map.count_ones(),
            isa: self.set.isa(),
            class: instruction.class,
            flags: instruction.flags,
            last_size: instruction.size,
            executed: true,
        };
        let mut block = Block::new(range, &instruction, ending, Stop::Reached, None);
        block.is_sequential = sequential.is_some();
        let is_stuck = ending == Ending::Jump && block.target == block.last();
        if is_stuck || matches!(ending, Ending::Environment | Ending::Undefined) {
            block.make_odd();
        }
        block
    }

    fn no_code(&self, start: Start) -> (Block, InstructionMap) {
        let range = Range {
            start: start.address,
            end: start.address,
            instructions: 0,
            isa: self.set.isa(),
            class: Default::default(),
            flags: Default::default(),
            last_size: 0,
            executed: true,
        };
        let nothing = backsight_isa::Instruction::plain(self.set.isa(), 0);
        let block = Block::new(range, &nothing, Ending::NoCode, Stop::NoMemory, None);
        (block, InstructionMap::default())
    }
}

fn ending(decoded: &Decoded) -> Ending {
    match decoded.operation {
        Operation::Branch => Ending::Branch,
        Operation::TrapReturn => Ending::ExceptionReturn,
        Operation::EnvironmentCall | Operation::Breakpoint => Ending::Environment,
        Operation::Jump { source: rv::Source::Opcode, kind: JumpKind::Call } => Ending::Call,
        Operation::Jump { source: rv::Source::Opcode, .. } => Ending::Jump,
        Operation::Jump { kind: JumpKind::Return, .. } => Ending::Return,
        Operation::Jump { kind: JumpKind::Call, .. } => Ending::IndirectCall,
        Operation::Jump { kind: JumpKind::CoroutineSwap, .. } => Ending::Swap,
        Operation::Jump { .. } => Ending::IndirectJump,
        Operation::Other if decoded.instruction.flags.undefined => Ending::Undefined,
        Operation::Other | Operation::UpperImmediate { .. } => Ending::Plain,
    }
}

impl InstructionMap {
    /// How many instructions the first `half_words` are, and the size of the last of them in bytes; `None` if that is
    /// inside an instruction, or after the last one has begun.
    pub fn first(self, half_words: u64) -> Option<(u32, u8)> {
        let begins = half_words < HALF_WORDS && self.0 >> half_words & 1 == 1;
        let before = self.0 & (1u64.checked_shl(half_words as u32)? - 1);
        let last = 63u32.checked_sub(before.leading_zeros()).map_or(half_words, u64::from);
        begins.then(|| (before.count_ones(), 2 * (half_words - last) as u8))
    }
}

/// Instructions inside a block. Addresses are those of its instructions, unless it is said otherwise.
impl Blocks {
    fn distance(&self, number: u32, address: u64) -> u64 {
        address.wrapping_sub(self.get(number).range.start.0) / 2
    }

    /// Does an instruction of the block begin at this address, whatever it is?
    pub fn has(&self, number: u32, address: u64) -> bool {
        let distance = self.distance(number, address);
        address & 1 == 0 && distance < HALF_WORDS && self.map(number).0 >> distance & 1 != 0
    }

    /// Number of instructions from `from` to `to`, both included.
    pub fn between(&self, number: u32, from: u64, to: u64) -> u32 {
        let (low, high) = (self.distance(number, from).min(63), self.distance(number, to).min(63));
        (self.map(number).0 >> low << low << (63 - high)).count_ones()
    }

    /// The instruction after the one at `address`; for the last one, the end.
    pub fn after(&self, number: u32, address: u64) -> u64 {
        let distance = self.distance(number, address) as u32;
        let later = self.map(number).0.checked_shr(distance + 1).unwrap_or(0);
        match later {
            0 => self.get(number).range.end.0,
            _ => address.wrapping_add(2 * (u64::from(later.trailing_zeros()) + 1)),
        }
    }

    /// The instruction before the one at `address`; `None` if that is the first.
    pub fn before(&self, number: u32, address: u64) -> Option<u64> {
        let distance = self.distance(number, address) as u32;
        let earlier = self.map(number).0 & !(u64::MAX.checked_shl(distance).unwrap_or(0));
        let last = 63u32.checked_sub(earlier.leading_zeros())?;
        Some(self.get(number).range.start.0.wrapping_add(2 * u64::from(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Origin;
    use backsight_core::AddressSpace;

    struct Bytes(Vec<u8>);

    impl Code for Bytes {
        fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
            self.0.get(usize::try_from(address.0).ok()?..).filter(|bytes| !bytes.is_empty())
        }
    }

    const READER: RiscvReader = RiscvReader { set: Set::RV64, mask: u64::MAX, returns_are_jumps: false };

    fn start(address: u64) -> Start {
        Start { address: Address(address), space: AddressSpace::ANY, isa: Set::RV64.isa(), it: 0 }
    }

    fn enter(blocks: &mut Blocks, code: &Bytes, address: u64) -> u32 {
        let mode = blocks.mode(AddressSpace::ANY, Set::RV64.isa());
        blocks.enter(Origin::UNKNOWN, Address(address), mode, &READER, code)
    }

    fn read(blocks: &mut Blocks, code: &Bytes, address: u64) -> (Range, Ending, InstructionMap) {
        let number = enter(blocks, code, address);
        (blocks.get(number).range, blocks.get(number).ending, blocks.map(number))
    }

    #[test]
    fn a_block_ends_at_a_jump_where_code_ends_and_at_its_longest() {
        // c.nop, nop, ret, c.nop
        let code = Bytes(vec![0x01, 0x00, 0x13, 0, 0, 0, 0x82, 0x80, 0x01, 0x00]);
        let mut blocks = Blocks::new(10);
        let (range, ending, map) = read(&mut blocks, &code, 0);
        assert_eq!((range.end.0, range.instructions, range.last_size, ending), (8, 3, 2, Ending::Return));
        let parts: Vec<_> = (0..6).map(|half_words| map.first(half_words)).collect();
        assert_eq!(parts, [Some((0, 0)), Some((1, 2)), None, Some((2, 4)), None, None]);
        let (range, ending, _) = read(&mut blocks, &code, 8);
        assert_eq!((range.end.0, range.instructions, ending), (10, 1, Ending::Plain));
        for nothing in [10, 3] {
            let (range, ending, _) = read(&mut blocks, &code, nothing);
            assert_eq!((range.instructions, ending), (0, Ending::NoCode));
        }
        let number = enter(&mut blocks, &code, 0);
        assert_eq!([0, 2, 4, 6, 8].map(|at| blocks.has(number, at)), [true, true, false, true, false]);
        assert_eq!([0, 2, 6].map(|at| blocks.after(number, at)), [2, 6, 8]);
        assert_eq!([0, 2, 6].map(|at| blocks.before(number, at)), [None, Some(0), Some(2)]);
        assert_eq!((blocks.between(number, 2, 6), blocks.between(number, 6, 6)), (2, 1));
        let nops = Bytes([1, 0].repeat(1000));
        let (range, ending, map) = read(&mut Blocks::new(10), &nops, 0);
        assert_eq!((range.end.0, range.instructions, ending), (128, 64, Ending::Plain));
        assert_eq!((map.first(63), map.first(64)), (Some((63, 2)), None));
    }

    #[test]
    fn an_undefined_instruction_stands_alone() {
        // c.nop, unimp, c.nop
        let code = Bytes(vec![0x01, 0x00, 0x73, 0x10, 0x00, 0xC0, 0x01, 0x00]);
        let blocks = &mut Blocks::new(10);
        let read = [0, 2, 6].map(|address| {
            let (range, ending, _) = read(blocks, &code, address);
            (range.instructions, ending)
        });
        assert_eq!(read, [(1, Ending::Plain), (1, Ending::Undefined), (1, Ending::Plain)]);
    }

    #[test]
    fn an_upper_immediate_stays_with_the_jump_that_it_resolves() {
        // auipc a5, 0x1; jr 8(a5), before and across the end of the longest block.
        let pair = [0x97, 0x17, 0, 0, 0x67, 0x80, 0x87, 0];
        for (nops, from) in [(3, 0), (61, 0), (62, 124)] {
            let code = Bytes([[1, 0].repeat(nops), pair.to_vec()].concat());
            let (block, _) = READER.read(&code, start(from));
            assert_eq!((block.ending, block.is_sequential), (Ending::IndirectJump, true), "{nops}");
            assert_eq!(block.target, Address(2 * nops as u64 + 0x1008));
        }
    }
}
