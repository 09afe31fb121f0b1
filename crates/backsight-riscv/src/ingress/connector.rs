//! The thesis's connector: blocks from the commit ports of a core.
//!
//! A core commits up to N instructions a cycle and resolves branches some cycles before. An *itype detector* for
//! each port gives every instruction its type; the entries of all ports are serialised; a state machine with two
//! states counts plain instructions and ends a block at each special one; the blocks of one cycle are presented
//! together.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Block, Itype};

/// Resolved branches that may wait for their commit. A real queue is shorter.
const MOST_RESOLVED: usize = 64;

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

/// Everything that the core shows in one cycle.
#[derive(Clone, Copy, Debug)]
pub struct Cycle<'a> {
    /// The commit ports, oldest instruction first.
    pub ports: &'a [CommitPort],
    /// A branch that was resolved.
    pub resolved: Option<Resolved>,
    /// A trap.
    pub trap: Option<TrapSignal>,
    /// Privilege.
    pub privilege: u8,
}

/// Makes blocks from commit ports.
#[derive(Clone, Debug)]
pub struct Connector {
    itype_width: u8,
    resolved: VecDeque<Resolved>,
    /// The block being counted; `iretire` is 0 in the state *idle*.
    block: Block,
    cycles: u32,
}

impl Connector {
    /// A connector for an encoder with `itype_width` (3 or 4) bits.
    pub fn new(itype_width: u8) -> Self {
        Self { itype_width, resolved: VecDeque::new(), block: Block::default(), cycles: 0 }
    }

    /// Takes one cycle and gives the blocks that end in it, oldest first, if there are any.
    pub fn cycle(&mut self, cycle: &Cycle<'_>, sink: &mut impl FnMut(&[Block])) {
        self.cycles = self.cycles.saturating_add(1);
        if let Some(resolved) = cycle.resolved {
            if self.resolved.len() == MOST_RESOLVED {
                self.resolved.pop_front();
            }
            self.resolved.push_back(resolved);
        }
        let mut blocks = Vec::new();
        if let Some(trap) = cycle.trap {
            // The signal reaches every port: only the first is looked at.
            let port = cycle.ports.first().copied().unwrap_or_default();
            blocks.push(self.end_in_trap(&port, trap, cycle.privilege));
        } else {
            for port in cycle.ports.iter().filter(|port| port.valid) {
                let itype = self.detect(port);
                blocks.extend(self.step(port, itype, cycle.privilege));
            }
        }
        if !blocks.is_empty() {
            sink(&blocks);
        }
    }

    /// Calls and returns are not told from other jumps.
    fn detect(&mut self, port: &CommitPort) -> Itype {
        let record = self.resolved.front().copied().filter(|record| record.pc == port.pc);
        let kind = record.map(|record| record.kind);
        let itype = match (port.operation, kind) {
            (Operation::TrapReturn, _) => Itype::TrapReturn,
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

    fn count(&mut self, port: &CommitPort) {
        if self.block.iretire == 0 {
            self.block.iaddr = port.pc;
        }
        self.block.iretire += if port.compressed { 1 } else { 2 };
        self.block.ilastsize = u8::from(!port.compressed);
    }

    /// The state machine: a plain instruction is counted, a special one ends its block.
    fn step(&mut self, port: &CommitPort, itype: Itype, privilege: u8) -> Option<Block> {
        self.count(port);
        (itype != Itype::None).then(|| self.emit(itype, privilege))
    }

    fn end_in_trap(&mut self, port: &CommitPort, trap: TrapSignal, privilege: u8) -> Block {
        if port.valid {
            self.count(port);
        } else if self.block.iretire == 0 {
            // Nothing retired: the place of the exception is all there is to say.
            self.block.iaddr = port.pc;
        }
        self.block.cause = trap.cause;
        let itype = if trap.interrupt { Itype::Interrupt } else { Itype::Exception };
        if !trap.interrupt {
            self.block.tval = trap.tval;
        }
        self.emit(itype, privilege)
    }

    fn emit(&mut self, itype: Itype, privilege: u8) -> Block {
        let ilastsize = self.block.ilastsize;
        let block = core::mem::replace(&mut self.block, Block { ilastsize, ..Block::default() });
        let cycles = core::mem::take(&mut self.cycles);
        // With three bits a jump that the opcode tells has no code of its own; it ends its block nonetheless.
        let itype = if self.itype_width == 3 { itype.narrow() } else { itype };
        Block { itype, privilege, cycles, ..block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(pc: u64, operation: Operation, compressed: bool) -> CommitPort {
        CommitPort { valid: true, pc, operation, compressed }
    }

    fn collect(connector: &mut Connector, cycle: Cycle<'_>) -> Vec<Block> {
        let mut all = Vec::new();
        connector.cycle(&cycle, &mut |blocks| all.extend_from_slice(blocks));
        all
    }

    fn plain<'a>(ports: &'a [CommitPort]) -> Cycle<'a> {
        Cycle { ports, resolved: None, trap: None, privilege: 3 }
    }

    #[test]
    fn a_block_spans_cycles_until_a_special_instruction() {
        let mut connector = Connector::new(4);
        let ports = [port(0x100, Operation::Other, false), port(0x104, Operation::Other, true)];
        assert!(collect(&mut connector, plain(&ports)).is_empty());
        let resolved = Some(Resolved { pc: 0x106, taken: true, kind: ControlFlow::Branch });
        assert!(collect(&mut connector, Cycle { resolved, ..plain(&[]) }).is_empty());
        let ports = [port(0x106, Operation::Branch, false), port(0x200, Operation::Jalr, true)];
        let blocks = collect(&mut connector, plain(&ports));
        let told: Vec<_> = blocks.iter().map(|b| (b.iaddr, b.iretire, b.ilastsize, b.itype)).collect();
        assert_eq!(told, [(0x100, 5, 1, Itype::Taken), (0x200, 1, 0, Itype::UninferableJump)]);
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
        let resolved = Some(Resolved { pc: 0x100, taken: true, kind: ControlFlow::Jump });
        let ports = [port(0x100, Operation::Other, false)];
        let blocks = collect(&mut connector, Cycle { resolved, ..plain(&ports) });
        assert_eq!(blocks[0].itype, Itype::InferableJump);
        let blocks = collect(&mut Connector::new(3), Cycle { resolved, ..plain(&ports) });
        assert_eq!((blocks.len(), blocks[0].itype), (1, Itype::None));
    }
}
