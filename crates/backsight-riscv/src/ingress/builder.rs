//! Blocks from executed instructions.

use backsight_core::{Address, Execution, Isa, Retired, RetiredBlock, RetiredBlocks, Trap, TrapKind};
use backsight_isa::rv::{self, Decoded, Operation, QuickLook, Set};

use super::block::is_single;
use super::known_code::KnownCode;
use super::{Block, Ctype, Itype};
use crate::ByNumber;

/// What an encoder gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingress {
    /// A block.
    Block(Block),
    /// Execution was not observed for a while.
    Gap,
}

/// Where blocks go: to an encoder, or to a closure `|ingress: Ingress| …`.
pub trait Port {
    /// Takes a block.
    fn block(&mut self, block: &Block);

    /// Takes a block that goes on where the one before it led. False: it was not taken, and goes to
    /// [`block`](Self::block).
    #[inline]
    fn continuation(&mut self, _block: &Continuation) -> bool {
        false
    }

    /// Execution was not observed for a while.
    fn gap(&mut self);
}

impl<F: FnMut(Ingress)> Port for F {
    #[inline]
    fn block(&mut self, block: &Block) {
        self(Ingress::Block(*block));
    }

    #[inline]
    fn gap(&mut self) {
        self(Ingress::Gap);
    }
}

/// A block with the privilege and context of the one before. Neither has a time, a trap or a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// As in [`Block::iaddr`].
    pub iaddr: u64,
    /// As in [`Block::iretire`]; not 0.
    pub iretire: u32,
    /// As in [`Block::ilastsize`].
    pub ilastsize: u8,
    /// As in [`Block::itype`].
    pub itype: Itype,
    /// As in [`Block::sijump`].
    pub sijump: bool,
}

impl Continuation {
    /// Takes the place of the block before.
    #[inline(always)]
    pub const fn replace(&self, block: &mut Block) {
        block.iaddr = self.iaddr;
        block.iretire = self.iretire;
        block.ilastsize = self.ilastsize;
        block.itype = self.itype;
        block.sijump = self.sijump;
    }

    /// As [`Block::is_single`].
    #[inline]
    pub const fn is_single(&self) -> bool {
        is_single(self.iretire, self.ilastsize)
    }
}

/// Collects executed instructions of one hart into blocks.
#[derive(Clone, Debug)]
pub struct Builder {
    itype_width: u8,
    ctype: Ctype,
    /// Most bytes of a block.
    longest: u64,
    /// Where the block under way begins, ends so far, and must end at the latest.
    iaddr: u64,
    end: u64,
    limit: u64,
    last_size: u8,
    /// Of the first block after a change of context.
    next_ctype: Ctype,
    privilege: u8,
    context_id: Option<u64>,
    context: u64,
    /// Cycle of the latest instruction or trap.
    time: u64,
    /// Cycle at the end of the block before.
    time_before: u64,
    /// The latest instruction, if it sets an upper immediate.
    upper: Option<(Decoded, Address)>,
    /// The block before has no time and no trap, and the next one has its privilege and context.
    is_continued: bool,
    /// What is known of code that came as a block.
    known: ByNumber<KnownCode>,
}

impl Builder {
    /// For an encoder with `itype_width` (3 or 4) bits; changes of context are reported by `ctype`.
    pub fn new(itype_width: u8, ctype: Ctype) -> Self {
        Self {
            itype_width,
            ctype,
            longest: 2 << 16,
            iaddr: 0,
            end: 0,
            limit: 0,
            last_size: 0,
            next_ctype: Ctype::Unreported,
            privilege: 0,
            context_id: None,
            context: 0,
            time: 0,
            time_before: 0,
            upper: None,
            is_continued: false,
            known: ByNumber::default(),
        }
    }

    /// Ends blocks at `half_words`, as a narrow `iretire` would; with 1 every instruction is a block.
    pub fn longest_block(mut self, half_words: u32) -> Self {
        self.longest = 2 * u64::from(half_words);
        self
    }

    /// Takes one step of execution. Threads and memory accesses are not looked at.
    #[inline]
    pub fn push(&mut self, execution: &Execution, port: &mut impl Port) {
        if let Execution::Instruction(retired) = execution {
            self.retire(retired, port);
        } else {
            self.push_other(execution, port);
        }
    }

    /// Takes blocks that retired one after the other.
    pub fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>, port: &mut impl Port) {
        let mut rest = *blocks;
        loop {
            let taken = self.push_continuations(&rest, port);
            let Some((block, others)) = rest.split_at(taken).1.split_first() else { return };
            self.push_block(&block, port);
            rest = others;
        }
    }

    /// Takes blocks as long as each is whole, known, where the one before it led, and nothing else has to be said of it.
    /// Gives how many it took.
    #[inline(always)]
    fn push_continuations(&mut self, blocks: &RetiredBlocks<'_>, port: &mut impl Port) -> usize {
        // Where nothing is under way, the instruction before sets no upper immediate.
        if !self.is_continued || self.iaddr != self.end {
            return 0;
        }
        let mut iaddr = self.iaddr;
        let taken = blocks.steps.iter().take_while(|step| {
            let Some(known) = self.known.get(blocks.number(step)) else { return false };
            if known.start != iaddr || !known.is_whole || u64::from(known.length) > self.longest {
                return false;
            }
            let itype = known.itypes[usize::from(step.taken)];
            let block = Continuation {
                iaddr,
                iretire: known.length / 2,
                ilastsize: u8::from(known.last_size == 4),
                itype: if self.itype_width == 3 { itype.narrow() } else { itype },
                sijump: known.sequential_target == Some(step.next),
            };
            let is_taken = port.continuation(&block);
            if is_taken {
                iaddr = step.next.0;
            }
            is_taken
        });
        let taken = taken.count();
        self.begin(iaddr);
        taken
    }

    /// Takes straight-line code that retired: the same as its instructions one by one.
    #[inline]
    pub fn push_block(&mut self, block: &RetiredBlock<'_>, port: &mut impl Port) {
        let Some(first) = block.code.first() else { return };
        let Some(known) = self.known.get_or_find(block.number, || Some(KnownCode::new(block))) else {
            return;
        };
        let (start, end) = (first.address.0, first.address.0.wrapping_add(known.length.into()));
        let (last_size, itype) = (known.last_size, known.itypes[usize::from(block.taken)]);
        let sijump = known.sequential_target == Some(block.next);
        if !known.is_straight || known.is_alone && self.upper.is_some() {
            return self.push_one_by_one(block, port);
        }
        if start != self.end {
            self.begin_elsewhere(start, port);
        }
        if end > self.limit {
            return self.push_one_by_one(block, port);
        }
        self.end = end;
        self.last_size = last_size;
        self.time = 0;
        self.upper = None;
        if itype != Itype::None {
            self.emit(itype, sijump, (0, 0), block.next.0, port);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_one_by_one(&mut self, block: &RetiredBlock<'_>, port: &mut impl Port) {
        block.instructions().for_each(|retired| self.retire(&retired, port));
    }

    #[inline(never)]
    fn push_other(&mut self, execution: &Execution, port: &mut impl Port) {
        match execution {
            Execution::Trap(trap) => self.trap(trap, port),
            Execution::Context(context) => {
                self.finish(port);
                self.is_continued = false;
                if context.context_id != self.context_id {
                    self.next_ctype = self.ctype;
                }
                self.context_id = context.context_id;
                self.context = context.context_id.unwrap_or(0);
                self.privilege = context.level();
            }
            Execution::Gap => {
                self.finish(port);
                self.upper = None;
                port.gap();
            }
            Execution::Instruction(_) | Execution::Thread(_) | Execution::Access(_) | Execution::Input(_) => {
            }
        }
    }

    /// Gives the block that has no end yet.
    #[inline(never)]
    pub fn finish(&mut self, port: &mut impl Port) {
        if self.end != self.iaddr {
            self.emit_rarely(Itype::None, (0, 0), port);
        }
    }

    /// Always part of the caller's loop: a plain instruction only counts.
    #[inline(always)]
    fn retire(&mut self, retired: &Retired, port: &mut impl Port) {
        let (address, end) = (retired.address.0, retired.end().0);
        if address != self.end || end > self.limit {
            self.begin_elsewhere(address, port);
        }
        self.end = end;
        self.last_size = retired.size;
        self.time = retired.cycle;
        if rv::is_plain(set_of(retired), retired.opcode) {
            self.upper = None;
        } else {
            self.retire_special(retired, port);
        }
    }

    /// Neither does the block go on with this instruction, nor was this foreseen at the end of the block before.
    #[cold]
    #[inline(never)]
    fn begin_elsewhere(&mut self, address: u64, port: &mut impl Port) {
        self.finish(port);
        self.begin(address);
    }

    #[inline]
    fn begin(&mut self, address: u64) {
        self.iaddr = address;
        self.end = address;
        self.limit = address.saturating_add(self.longest);
    }

    #[inline(never)]
    fn retire_special(&mut self, retired: &Retired, port: &mut impl Port) {
        let (itype, sijump) = match rv::look_at_special(set_of(retired), retired.opcode) {
            QuickLook::Branch => (if retired.taken { Itype::Taken } else { Itype::NotTaken }, false),
            QuickLook::Jump { kind, direct } if self.upper.is_none() => (Itype::of_jump(kind, direct), false),
            _ => self.look(retired),
        };
        if itype != Itype::None {
            self.upper = None;
            self.emit(itype, sijump, (0, 0), retired.next.0, port);
        }
    }

    /// The type of an instruction that may go elsewhere, or determine where the next one goes, and whether the one before
    /// determined where this one goes.
    #[inline(never)]
    fn look(&mut self, retired: &Retired) -> (Itype, bool) {
        let set = set_of(retired);
        let decoded = rv::decode(set, retired.opcode, retired.address);
        let sijump = self
            .upper
            .is_some_and(|(before, at)| decoded.sequential_target(set, &before, at) == Some(retired.next));
        let upper = matches!(decoded.operation, Operation::UpperImmediate { .. });
        self.upper = upper.then_some((decoded, retired.address));
        (Itype::of(&decoded, retired.taken), sijump)
    }

    fn trap(&mut self, trap: &Trap, port: &mut impl Port) {
        // A trap after plain instructions ends their block; its position is then the end of the block.
        if self.end != trap.return_address.0 {
            self.finish(port);
            self.begin(trap.return_address.0);
        }
        self.time = trap.cycle;
        self.upper = None;
        let (itype, tval) = match trap.kind {
            TrapKind::Exception => (Itype::Exception, trap.value),
            TrapKind::Interrupt => (Itype::Interrupt, 0),
        };
        self.emit_rarely(itype, (trap.cause.into(), tval), port);
    }

    /// Not where it is often, so that there is room for what takes the block.
    #[inline(never)]
    fn emit_rarely(&mut self, itype: Itype, trap: (u64, u64), port: &mut impl Port) {
        self.emit(itype, false, trap, self.end, port);
    }

    /// Gives the block under way, with cause and value of a trap. The next one may be foreseen to begin at `next`.
    #[inline(always)]
    fn emit(
        &mut self,
        itype: Itype,
        sijump: bool,
        (cause, tval): (u64, u64),
        next: u64,
        port: &mut impl Port,
    ) {
        let iretire = (self.end.wrapping_sub(self.iaddr) / 2) as u32;
        let ilastsize = u8::from(self.last_size == 4 && iretire > 0);
        let itype = if self.itype_width == 3 { itype.narrow() } else { itype };
        if self.is_continued && self.time == 0 && iretire > 0 && !itype.is_trap() {
            let block = Continuation { iaddr: self.iaddr, iretire, ilastsize, itype, sijump };
            if port.continuation(&block) {
                return self.begin(next);
            }
        }
        let block =
            Block { iaddr: self.iaddr, iretire, ilastsize, itype, cause, tval, sijump, ..Block::default() };
        self.emit_block(block, next, port);
    }

    #[inline(never)]
    fn emit_block(&mut self, block: Block, next: u64, port: &mut impl Port) {
        let cycles = self.time.saturating_sub(self.time_before);
        let block = Block {
            privilege: self.privilege,
            context: self.context,
            ctype: self.next_ctype,
            time: self.time,
            cycles: cycles.min(u32::MAX.into()) as u32,
            ..block
        };
        self.is_continued = block.time == 0 && block.cycles == 0 && !block.itype.is_trap();
        self.begin(next);
        self.next_ctype = Ctype::Unreported;
        self.time_before = self.time_before.max(self.time);
        port.block(&block);
    }
}

#[inline]
pub(super) fn set_of(retired: &Retired) -> Set {
    if retired.isa == Isa::Rv32 { Set::RV32 } else { Set::RV64 }
}
