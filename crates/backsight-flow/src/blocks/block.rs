//! One block, and what can be said about its end.

use backsight_core::{Address, Isa};
use backsight_isa::{Class, Flags, Instruction};

use super::key::{CodeMode, Key};
use crate::walk::Stop;
use crate::{Range, Symptom};

/// More instructions than this without one that the trace speaks about are suspicious.
const ENDLESS: u32 = 1 << 16;

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// Instructions that follow one another; the last of them may go elsewhere. One block is one line of the processor's
/// cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Block {
    /// As it is reported when its last instruction was executed.
    pub range: Range,
    /// Target of a direct branch, or of an indirect jump that the instruction before resolves.
    pub target: Address,
    /// The blocks that came after it last time, as a [`Link`]: not taken, taken.
    next: [u32; 2],
    mode: CodeMode,
    /// The first undefined instruction, counted from the end in bytes; 0 if there is none.
    undefined: u32,
    /// How it is left: not taken, taken.
    ways: [Way; 2],
    /// What its last instruction does.
    pub ending: Ending,
    /// Instruction set at the target.
    pub target_isa: Isa,
    /// T32: how many instructions after it are still inside an IT block.
    pub it: u8,
    /// Why it ends.
    pub stop: Stop,
    /// It ends in a branch.
    is_branch: bool,
    /// RISC-V: the instruction before the last one sets the register that the last one jumps through, so that `target`
    /// is valid.
    pub is_sequential: bool,
}

const _: () = assert!(size_of::<Block>() == 64);

/// The way from a block to the one that always comes after it.
///
/// ```text
///      31         30    29         0
/// ┌────────────┬────────┬───────────┐
/// │ may change │ branch │ block     │
/// └────────────┴────────┴───────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(u32);

impl Link {
    const MAY_CHANGE: u32 = 1 << 31;
    const BRANCH: u32 = 1 << 30;
    const BLOCK: u32 = Self::BRANCH - 1;

    /// The block that it leads to.
    #[inline]
    pub const fn block(self) -> u32 {
        self.0 & Self::BLOCK
    }

    /// Does the block that it leads from end in a branch?
    #[inline]
    pub const fn is_branch(self) -> bool {
        self.0 & Self::BRANCH != 0
    }
}

/// How execution leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the next instruction, or to the target of a direct branch.
    Known,
    /// To the target of a direct call.
    Call,
    /// Somewhere else.
    Indirect,
    /// Something is wrong here or needs a look, or the block has to be read again.
    Odd,
}

impl Way {
    /// Does it lead to where the code says, always?
    #[inline]
    pub fn is_known(self) -> bool {
        matches!(self, Self::Known | Self::Call)
    }
}

/// What the last instruction of a block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing: execution goes on after it.
    Plain,
    /// Goes to the target or on.
    Branch,
    /// Goes to the target.
    Jump,
    /// Goes to the target, and will be returned from.
    Call,
    /// Goes somewhere.
    IndirectJump,
    /// Goes somewhere, and will be returned from.
    IndirectCall,
    /// Returns, and will be returned to: RISC-V's co-routine swap.
    Swap,
    /// Returns to where a call came from.
    Return,
    /// Returns from an exception.
    ExceptionReturn,
    /// Calls the environment (RISC-V `ecall`, `ebreak`): nothing retires after it.
    Environment,
    /// Nothing, but no program means to execute it.
    Undefined,
    /// There is no instruction: code is missing at the very start.
    NoCode,
    /// The code changed: the block has to be read again.
    Stale,
}

impl Ending {
    /// By the classification that all instruction sets share.
    pub fn of(instruction: &Instruction) -> Self {
        let flags = instruction.flags;
        match instruction.class {
            Class::DirectBranch if flags.conditional => Self::Branch,
            Class::DirectBranch if flags.link => Self::Call,
            Class::DirectBranch => Self::Jump,
            Class::IndirectBranch if flags.exception_return => Self::ExceptionReturn,
            Class::IndirectBranch if flags.link => Self::IndirectCall,
            Class::IndirectBranch if flags.returns => Self::Return,
            Class::IndirectBranch => Self::IndirectJump,
            _ => Self::Plain,
        }
    }
}

impl Block {
    /// A block as it was read. `undefined` is the first undefined instruction in it.
    pub fn new(
        range: Range,
        last: &Instruction,
        ending: Ending,
        stop: Stop,
        undefined: Option<Address>,
    ) -> Self {
        let undefined = undefined.map_or(0, |at| range.end.0.wrapping_sub(at.0));
        let taken = match last.class {
            Class::DirectBranch if last.flags.link => Way::Call,
            Class::IndirectBranch => Way::Indirect,
            _ => Way::Known,
        };
        let mut block = Self {
            range,
            target: last.target,
            next: [NONE; 2],
            mode: CodeMode::new(0),
            undefined: u32::try_from(undefined).unwrap_or(u32::MAX),
            ways: [Way::Known, taken],
            ending,
            target_isa: last.target_isa,
            it: 0,
            stop,
            is_branch: range.ends_in_branch(),
            is_sequential: false,
        };
        if block.undefined != 0 || range.instructions > ENDLESS || stop != Stop::Reached {
            block.ways = [Way::Odd; 2];
        } else if block.impossible_if_not_taken().is_some() {
            block.ways[0] = Way::Odd;
        }
        block
    }

    /// What it means that its last instruction was not taken.
    fn impossible_if_not_taken(&self) -> Option<Symptom> {
        match self.range.class {
            _ if self.range.flags.conditional => None,
            // Some trace units report a branch to the next instruction as not taken.
            Class::DirectBranch if self.target == self.range.end => None,
            Class::DirectBranch => Some(Symptom::UnconditionalNotTaken),
            Class::IndirectBranch => Some(Symptom::IndirectNotTaken),
            _ => None,
        }
    }

    /// Only a look at it decides how it is left.
    pub(super) fn make_odd(&mut self) {
        self.ways = [Way::Odd; 2];
    }

    #[inline]
    pub(super) fn key(&self) -> Key {
        Key { address: self.range.start, mode: self.mode }
    }

    pub(super) fn set_key(&mut self, key: Key) {
        self.mode = key.mode;
    }

    /// The code is not what it was: it must be read again before it is walked.
    pub(super) fn make_stale(&mut self) {
        self.next = [NONE; 2];
        self.mode = self.key().stale().mode;
        self.range.flags = Flags::NONE;
        self.make_odd();
        self.ending = Ending::Stale;
    }

    /// Was it read from the same instructions as another one that begins at the same address?
    pub(super) fn is_same_code(&self, other: &Self) -> bool {
        let what = |block: &Self| {
            (
                block.range,
                block.target,
                block.ending,
                block.undefined,
                block.ways,
                block.stop,
                block.is_sequential,
            )
        };
        what(self) == what(other)
    }

    /// Other blocks have other numbers now.
    pub(super) fn forget_ways(&mut self) {
        self.next = [NONE; 2];
    }

    /// Must it be read again?
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.ending == Ending::Stale
    }

    /// Where execution goes from here, if that is in the code.
    pub(super) fn leads_to(&self, taken: bool) -> Option<Key> {
        let (address, isa, it) = match (self.way(taken), self.range.class) {
            (Way::Indirect | Way::Odd, _) => return None,
            (_, Class::DirectBranch) if taken => (self.target, self.target_isa, 0),
            _ => (self.range.end, self.range.isa, self.it),
        };
        Some(Key { address, mode: self.mode.with(isa, it) })
    }

    /// T32: how many of its first instructions are inside an IT block.
    #[inline]
    pub fn it_before(&self) -> u8 {
        self.mode.it()
    }

    /// How it is left.
    #[inline]
    pub fn way(&self, taken: bool) -> Way {
        self.ways[usize::from(taken)]
    }

    /// The block that came after it last time. Where the way is known it is always the same.
    #[inline]
    pub fn next(&self, taken: bool) -> Option<u32> {
        let next = self.next[usize::from(taken)];
        (next != NONE).then_some(next & Link::BLOCK)
    }

    /// Where a way leads that the code decides, once it was gone.
    #[inline]
    pub fn link(&self, taken: bool) -> Option<Link> {
        let link = Link(self.next[usize::from(taken)]);
        (link.0 & Link::MAY_CHANGE == 0).then_some(link)
    }

    pub(super) fn set_next(&mut self, taken: bool, next: u32) {
        let may_change = if self.way(taken).is_known() { 0 } else { Link::MAY_CHANGE };
        let branch = if self.is_branch { Link::BRANCH } else { 0 };
        self.next[usize::from(taken)] = next & Link::BLOCK | may_change | branch;
    }

    /// Does it end in a branch?
    #[inline]
    pub fn is_branch(&self) -> bool {
        self.is_branch
    }

    /// Address of the last instruction.
    #[inline]
    pub fn last(&self) -> Address {
        Address(self.range.end.0.wrapping_sub(u64::from(self.range.last_size)))
    }

    /// Is a branch all that is in it?
    #[inline]
    pub fn is_only_a_branch(&self) -> bool {
        self.ending == Ending::Branch && self.range.instructions == 1
    }

    /// Does it end in a jump back into itself? Then nothing but a trap ends it.
    #[inline]
    pub fn is_endless_loop(&self) -> bool {
        self.ending == Ending::Jump && self.target.0.wrapping_sub(self.range.start.0) < self.bytes()
    }

    fn bytes(&self) -> u64 {
        self.range.end.0.wrapping_sub(self.range.start.0)
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
        self.impossible_if_not_taken().filter(|_| !executed).map(|symptom| (symptom, self.last()))
    }
}
