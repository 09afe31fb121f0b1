//! Blocks from executed instructions.

use backsight_core::{Address, Context, Execution, Isa, Retired, Trap, TrapKind};
use backsight_isa::rv::{self, Decoded, Set};

use super::{Block, Ctype, Itype};

/// What an encoder is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingress {
    /// A block.
    Block(Block),
    /// Execution was not observed for a while.
    Gap,
}

/// Collects executed instructions of one hart into blocks.
#[derive(Clone, Debug)]
pub struct Builder {
    itype_width: u8,
    ctype: Ctype,
    longest: u32,
    block: Block,
    /// Applies to the first block behind a change of context.
    context_changed: bool,
    context: Context,
    cycle: u64,
    before: Option<(Decoded, Address)>,
}

impl Builder {
    /// For an encoder with `itype_width` (3 or 4) bits; changes of context are reported by `ctype`.
    pub fn new(itype_width: u8, ctype: Ctype) -> Self {
        Self {
            itype_width,
            ctype,
            longest: 1 << 16,
            block: Block::default(),
            context_changed: false,
            context: Context::default(),
            cycle: 0,
            before: None,
        }
    }

    /// Ends blocks at `half_words`, as a narrow `iretire` would; with 1 every instruction is a block.
    pub fn longest_block(mut self, half_words: u32) -> Self {
        self.longest = half_words;
        self
    }

    /// Takes one step of execution. Threads and memory accesses are not looked at.
    #[inline]
    pub fn push(&mut self, execution: &Execution, sink: &mut impl FnMut(Ingress)) {
        match execution {
            Execution::Instruction(retired) => self.retire(retired, sink),
            Execution::Trap(trap) => self.trap(trap, sink),
            Execution::Context(context) => {
                self.finish(sink);
                self.context_changed |= context.context_id != self.context.context_id;
                self.context = *context;
            }
            Execution::Gap => {
                self.finish(sink);
                self.before = None;
                sink(Ingress::Gap);
            }
            Execution::Thread(_) | Execution::Access(_) => {}
        }
    }

    /// Gives the block that has no end yet.
    pub fn finish(&mut self, sink: &mut impl FnMut(Ingress)) {
        if self.block.iretire > 0 {
            self.emit(Itype::None, sink);
        }
    }

    #[inline]
    fn retire(&mut self, retired: &Retired, sink: &mut impl FnMut(Ingress)) {
        let half_words = u32::from(retired.size / 2);
        if self.block.iretire > 0 && self.block.iretire + half_words > self.longest {
            self.finish(sink);
        }
        if self.block.iretire == 0 {
            self.block.iaddr = retired.address.0;
        }
        self.block.iretire += half_words;
        self.block.ilastsize = u8::from(retired.size == 4);
        self.advance_to(retired.cycle);
        if rv::is_plain(retired.opcode) {
            self.block.sijump = false;
            self.before = None;
        } else {
            self.retire_other(retired, sink);
        }
    }

    /// An instruction that may go elsewhere, or tell where the next one goes.
    fn retire_other(&mut self, retired: &Retired, sink: &mut impl FnMut(Ingress)) {
        let set = if retired.isa == Isa::Rv32 { Set::RV32 } else { Set::RV64 };
        let decoded = rv::decode(set, retired.opcode, retired.address);
        let itype = Itype::of(&decoded, retired.taken);
        self.block.sijump = self
            .before
            .is_some_and(|(before, at)| decoded.sequential_target(set, &before, at) == Some(retired.next));
        self.before = Some((decoded, retired.address));
        if itype != Itype::None {
            self.emit(itype, sink);
        }
    }

    fn trap(&mut self, trap: &Trap, sink: &mut impl FnMut(Ingress)) {
        // A trap after plain instructions ends their block; its position is then the end of the block.
        if self.block.iretire == 0 || self.block.end() != trap.return_address.0 {
            self.finish(sink);
            self.block.iaddr = trap.return_address.0;
        }
        self.block.cause = trap.cause.into();
        self.advance_to(trap.cycle);
        self.before = None;
        let itype = match trap.kind {
            TrapKind::Exception => {
                self.block.tval = trap.value;
                Itype::Exception
            }
            TrapKind::Interrupt => Itype::Interrupt,
        };
        self.emit(itype, sink);
    }

    #[inline]
    fn advance_to(&mut self, cycle: u64) {
        let passed = cycle.saturating_sub(self.cycle);
        self.block.cycles = self.block.cycles.saturating_add(passed.min(u64::from(u32::MAX)) as u32);
        self.block.time = cycle;
        self.cycle = self.cycle.max(cycle);
    }

    fn emit(&mut self, itype: Itype, sink: &mut impl FnMut(Ingress)) {
        let mut block = core::mem::take(&mut self.block);
        block.itype = if self.itype_width == 3 { itype.narrow() } else { itype };
        block.privilege = self.context.level;
        block.context = self.context.context_id.unwrap_or(0).into();
        if core::mem::take(&mut self.context_changed) {
            block.ctype = self.ctype;
        }
        sink(Ingress::Block(block));
    }
}
