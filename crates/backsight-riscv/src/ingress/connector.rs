//! The thesis's connector: blocks from the commit ports of a core.
//!
//! A core commits up to N instructions a cycle and resolves branches some cycles before. An *itype detector* for
//! each port gives every instruction its type; the entries of all ports are serialised; a state machine with two
//! states counts plain instructions and ends a block at each special one; the blocks of one cycle are presented
//! together.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Block, Ctype, Itype};

/// Resolved branches that may wait for their commit. A real queue is shorter.
const MOST_RESOLVED: usize = 64;
/// Half-words of the longest block: plain code that never ends one is cut there.
const LONGEST: u32 = 1 << 16;

/// What a committed instruction does, as the core's decoder has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Nothing that ends a block by itself.
    #[default]
    Other,
    /// Compares and branches.
    Branch,
    /// `jalr`.
    Jalr,
    /// A jump or call of which the core's decoder knows the type.
    Jump(Itype),
    /// `mret`, `sret`, `dret`.
    TrapReturn,
}

/// One commit port in one cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitPort {
    /// An instruction commits.
    pub valid: bool,
    /// Its address.
    pub pc: u64,
    /// What it does.
    pub operation: Operation,
    /// It has two bytes.
    pub compressed: bool,
    /// A jump that goes where the instruction before it says.
    pub sijump: bool,
}

/// What a branch unit found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlFlow {
    /// A conditional branch.
    Branch,
    /// A jump with its target in the opcode.
    Jump,
    /// A jump through a register.
    JumpRegister,
    /// A return.
    Return,
}

/// A resolved branch or jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Of the branch.
    pub pc: u64,
    /// It was taken.
    pub taken: bool,
    /// What it is.
    pub kind: ControlFlow,
}

/// An exception or interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapSignal {
    /// Cause, without the interrupt bit.
    pub cause: u64,
    /// The interrupt bit.
    pub interrupt: bool,
    /// Trap value.
    pub tval: u64,
}

/// Everything that the core shows in one cycle. What is there once holds for all ports: a core changes it between
/// cycles only, after [`Connector::end_block`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycle<'a> {
    /// The commit ports, oldest instruction first.
    pub ports: &'a [CommitPort],
    /// Branches that were resolved, in program order.
    pub resolved: &'a [Resolved],
    /// A trap.
    pub trap: Option<TrapSignal>,
    /// Privilege.
    pub privilege: u8,
    /// Context.
    pub context: u64,
    /// What to do with the context.
    pub ctype: Ctype,
    /// Time.
    pub time: u64,
}

/// Makes blocks from commit ports.
#[derive(Clone, Debug)]
pub struct Connector {
    itype_width: u8,
    resolved: VecDeque<Resolved>,
    /// The block being counted; `iretire` is 0 in the state *idle*.
    block: Block,
    cycles: u32,
    /// Those that end in the cycle under way.
    blocks: Vec<Block>,
}

impl Connector {
    /// A connector for an encoder with `itype_width` (3 or 4) bits.
    pub fn new(itype_width: u8) -> Self {
        Self {
            itype_width,
            resolved: VecDeque::new(),
            block: Block::default(),
            cycles: 0,
            blocks: Vec::new(),
        }
    }

    /// Takes one cycle and gives the blocks that end in it, oldest first, if there are any.
    pub fn cycle(&mut self, cycle: &Cycle<'_>, sink: &mut impl FnMut(&[Block])) {
        self.cycles = self.cycles.saturating_add(1);
        for &resolved in cycle.resolved {
            if self.resolved.len() == MOST_RESOLVED {
                self.resolved.pop_front();
            }
            self.resolved.push_back(resolved);
        }
        self.blocks.clear();
        if let Some(trap) = cycle.trap {
            // The signal reaches every port: only the first is looked at.
            let port = cycle.ports.first().copied().unwrap_or_default();
            self.end_in_trap(&port, trap, cycle);
        } else {
            for port in cycle.ports.iter().filter(|port| port.valid) {
                let itype = self.detect(port);
                self.step(port, itype, cycle);
            }
        }
        if !self.blocks.is_empty() {
            sink(&self.blocks);
        }
    }

    /// Ends the block being counted, where there is one: what the cycles share changes, or nothing more comes.
    pub fn end_block(&mut self) -> Option<Block> {
        (self.block.iretire > 0).then(|| self.take(Itype::None))
    }

    /// The block being counted; `iretire` is 0 if there is none.
    pub const fn counted(&self) -> &Block {
        &self.block
    }

    /// Without the core's help calls and returns are not distinguished from other jumps.
    fn detect(&mut self, port: &CommitPort) -> Itype {
        let record = self.resolved.front().copied().filter(|record| record.pc == port.pc);
        let kind = record.map(|record| record.kind);
        let itype = match (port.operation, kind) {
            (Operation::TrapReturn, _) => Itype::TrapReturn,
            (Operation::Jump(itype), _) => itype,
            (Operation::Branch, _) => match record.is_some_and(|record| record.taken) {
                true => Itype::Taken,
                false => Itype::NotTaken,
            },
            (Operation::Jalr, _) | (_, Some(ControlFlow::JumpRegister)) => Itype::UninferableJump,
            (_, Some(ControlFlow::Jump)) => Itype::InferableJump,
            _ => Itype::None,
        };
        if record.is_some() {
            self.resolved.pop_front();
        }
        itype
    }

    fn count(&mut self, port: &CommitPort, cycle: &Cycle<'_>) {
        let half_words = if port.compressed { 1 } else { 2 };
        if self.block.iretire + half_words > LONGEST {
            let block = self.take(Itype::None);
            self.blocks.push(block);
        }
        if self.block.iretire == 0 {
            self.block.iaddr = port.pc;
        }
        self.block.iretire += half_words;
        self.block.ilastsize = u8::from(!port.compressed);
        self.block.sijump = port.sijump;
        self.share(cycle);
    }

    fn share(&mut self, cycle: &Cycle<'_>) {
        let Block { privilege, context, ctype, time, .. } = &mut self.block;
        (*privilege, *context, *time) = (cycle.privilege, cycle.context, cycle.time);
        // The first block after a change reports it.
        if cycle.ctype != Ctype::Unreported && self.blocks.is_empty() {
            *ctype = cycle.ctype;
        }
    }

    /// The state machine: a plain instruction is counted, a special one ends its block.
    fn step(&mut self, port: &CommitPort, itype: Itype, cycle: &Cycle<'_>) {
        self.count(port, cycle);
        if itype != Itype::None {
            let block = self.take(itype);
            self.blocks.push(block);
        }
    }

    fn end_in_trap(&mut self, port: &CommitPort, trap: TrapSignal, cycle: &Cycle<'_>) {
        if port.valid {
            self.count(port, cycle);
        } else if self.block.iretire == 0 {
            // Nothing retired: the place of the exception is all there is to say.
            self.block.iaddr = port.pc;
        }
        self.share(cycle);
        self.block.cause = trap.cause;
        let itype = if trap.interrupt { Itype::Interrupt } else { Itype::Exception };
        if !trap.interrupt {
            self.block.tval = trap.tval;
        }
        let block = self.take(itype);
        self.blocks.push(block);
    }

    fn take(&mut self, itype: Itype) -> Block {
        let ilastsize = self.block.ilastsize;
        let block = core::mem::replace(&mut self.block, Block { ilastsize, ..Block::default() });
        let cycles = core::mem::take(&mut self.cycles);
        // With three bits a jump whose target is in the opcode has no code of its own; it ends its block nonetheless.
        let itype = if self.itype_width == 3 { itype.narrow() } else { itype };
        Block { itype, cycles, ..block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(pc: u64, operation: Operation, compressed: bool) -> CommitPort {
        CommitPort { valid: true, pc, operation, compressed, sijump: false }
    }

    fn collect(connector: &mut Connector, cycle: Cycle<'_>) -> Vec<Block> {
        let mut all = Vec::new();
        connector.cycle(&cycle, &mut |blocks| all.extend_from_slice(blocks));
        all
    }

    fn plain<'a>(ports: &'a [CommitPort]) -> Cycle<'a> {
        Cycle { ports, privilege: 3, ..Cycle::default() }
    }

    #[test]
    fn a_block_spans_cycles_until_a_special_instruction() {
        let mut connector = Connector::new(4);
        let ports = [port(0x100, Operation::Other, false), port(0x104, Operation::Other, true)];
        assert!(collect(&mut connector, plain(&ports)).is_empty());
        let resolved = [Resolved { pc: 0x106, taken: true, kind: ControlFlow::Branch }];
        assert!(collect(&mut connector, Cycle { resolved: &resolved, ..plain(&[]) }).is_empty());
        let ports = [port(0x106, Operation::Branch, false), port(0x200, Operation::Jalr, true)];
        let blocks = collect(&mut connector, plain(&ports));
        let found: Vec<_> = blocks.iter().map(|b| (b.iaddr, b.iretire, b.ilastsize, b.itype)).collect();
        assert_eq!(found, [(0x100, 5, 1, Itype::Taken), (0x200, 1, 0, Itype::UninferableJump)]);
        assert_eq!((blocks[0].cycles, blocks[1].cycles), (3, 0));
    }

    #[test]
    fn a_trap_ends_the_block_once_whatever_the_number_of_ports() {
        let mut connector = Connector::new(4);
        let ports = [port(0x100, Operation::Other, false), port(0x104, Operation::Other, false)];
        collect(&mut connector, plain(&ports));
        let trap = Some(TrapSignal { cause: 2, interrupt: false, tval: 9 });
        let idle = [CommitPort::default(); 2];
        let blocks = collect(&mut connector, Cycle { trap, ..plain(&idle) });
        assert_eq!(blocks.len(), 1);
        let block = blocks[0];
        assert_eq!((block.iaddr, block.iretire, block.itype), (0x100, 4, Itype::Exception));
        assert_eq!((block.cause, block.tval, block.end()), (2, 9, 0x108));
    }

    #[test]
    fn a_trap_without_instructions_names_its_place() {
        let mut connector = Connector::new(4);
        let ports = [CommitPort { pc: 0x300, ..CommitPort::default() }];
        let trap = Some(TrapSignal { cause: 7, interrupt: true, tval: 1 });
        let blocks = collect(&mut connector, Cycle { trap, ..plain(&ports) });
        assert_eq!((blocks[0].iaddr, blocks[0].iretire, blocks[0].tval), (0x300, 0, 0));
        assert_eq!(blocks[0].itype, Itype::Interrupt);
    }

    #[test]
    fn a_direct_jump_ends_its_block_and_is_inferable() {
        let mut connector = Connector::new(4);
        let resolved = &[Resolved { pc: 0x100, taken: true, kind: ControlFlow::Jump }];
        let ports = [port(0x100, Operation::Other, false)];
        let blocks = collect(&mut connector, Cycle { resolved, ..plain(&ports) });
        assert_eq!(blocks[0].itype, Itype::InferableJump);
        let blocks = collect(&mut Connector::new(3), Cycle { resolved, ..plain(&ports) });
        assert_eq!((blocks.len(), blocks[0].itype), (1, Itype::None));
    }

    #[test]
    fn the_type_of_a_jump_may_come_from_the_core_and_a_block_may_be_cut() {
        let mut connector = Connector::new(4);
        let plain_code: Vec<_> =
            (0..LONGEST / 2 + 1).map(|n| port(u64::from(4 * n), Operation::Other, false)).collect();
        let cut = collect(&mut connector, plain(&plain_code));
        assert_eq!((cut.len(), cut[0].iretire, cut[0].itype), (1, LONGEST, Itype::None));
        let at = u64::from(2 * LONGEST + 4);
        let blocks = collect(&mut connector, plain(&[port(at, Operation::Jump(Itype::Return), true)]));
        assert_eq!((blocks[0].iaddr, blocks[0].itype), (at - 4, Itype::Return));
        assert_eq!(connector.end_block(), None);
    }
}
