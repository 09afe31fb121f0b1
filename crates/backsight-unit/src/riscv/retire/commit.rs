//! The commit stage: which instructions retire together.

use std::vec::Vec;

use backsight_core::{Address, Context, Execution, Isa, Retired, Trap, TrapKind};
use backsight_isa::rv::{self, Decoded, Set};

use super::{Architecture, Retirement};
use backsight_riscv::ingress::connector::{CommitPort, ControlFlow, Cycle, Operation, Resolved, TrapSignal};
use backsight_riscv::ingress::{Ctype, Itype};

/// What the stage reports to the connector.
pub(super) enum Committed<'a> {
    /// A cycle in which something retires or traps.
    Cycle(Cycle<'a>),
    /// Privilege or context changes: no block goes on beyond.
    Boundary,
    /// Execution was not observed for a while.
    Gap,
}

/// Fills cycles with instructions, as many as ports and architecture allow.
#[derive(Clone, Debug)]
pub(super) struct CommitStage {
    retirement: Retirement,
    ctype: Ctype,
    /// The cycle under way.
    ports: Vec<CommitPort>,
    resolved: Vec<Resolved>,
    /// Branches among its instructions, and other instructions that end a block.
    branches: u8,
    others: u8,
    /// Time of the cycle under way: the hart's own, or where that is not known the number of the cycle.
    time: u64,
    cycles: u64,
    context: Context,
    context_changed: bool,
    before: Option<(Decoded, Address)>,
    /// Cycles that ended because the interface could not carry the next instruction's block.
    held: u64,
}

impl CommitStage {
    pub fn new(retirement: Retirement, ctype: Ctype) -> Self {
        Self {
            retirement,
            ctype,
            ports: Vec::new(),
            resolved: Vec::new(),
            branches: 0,
            others: 0,
            time: 0,
            cycles: 0,
            context: Context::default(),
            context_changed: false,
            before: None,
            held: 0,
        }
    }

    pub const fn held(&self) -> u64 {
        self.held
    }

    pub fn push(&mut self, execution: &Execution, sink: &mut impl FnMut(Committed<'_>)) {
        match execution {
            Execution::Instruction(retired) => self.retire(retired, sink),
            Execution::Trap(trap) => self.trap(trap, sink),
            Execution::Context(context) => {
                self.close(sink);
                sink(Committed::Boundary);
                self.context_changed |= context.context_id != self.context.context_id;
                self.context = *context;
            }
            Execution::Gap => {
                self.close(sink);
                self.before = None;
                sink(Committed::Gap);
            }
            Execution::Thread(_) | Execution::Access(_) | Execution::Input(_) => {}
        }
    }

    fn retire(&mut self, retired: &Retired, sink: &mut impl FnMut(Committed<'_>)) {
        let (operation, itype, sijump) = self.classify(retired);
        if self.ports.len() == usize::from(self.retirement.ports) {
            self.close(sink);
        } else if !self.carries(itype) {
            self.held += 1;
            self.close(sink);
        }
        if itype.is_branch() {
            self.branches += 1;
            let kind = ControlFlow::Branch;
            self.resolved.push(Resolved { pc: retired.address.0, taken: itype == Itype::Taken, kind });
        } else if itype != Itype::None {
            self.others += 1;
        }
        self.time = if retired.cycle > 0 { retired.cycle } else { self.cycles };
        let (pc, compressed) = (retired.address.0, retired.size == 2);
        self.ports.push(CommitPort { valid: true, pc, operation, compressed, sijump });
    }

    /// Can the interface carry an instruction of this type in the cycle under way?
    fn carries(&self, itype: Itype) -> bool {
        match self.retirement.architecture {
            // The other discontinuity is the last of its cycle.
            Architecture::Branches(_) if self.others > 0 => false,
            Architecture::Branches(most) => !itype.is_branch() || self.branches < most,
            Architecture::Blocks(most) => itype == Itype::None || self.branches + self.others < most,
        }
    }

    fn classify(&mut self, retired: &Retired) -> (Operation, Itype, bool) {
        let set = if retired.isa == Isa::Rv32 { Set::RV32 } else { Set::RV64 };
        if rv::is_plain(set, retired.opcode) {
            self.before = None;
            return (Operation::Other, Itype::None, false);
        }
        let decoded = rv::decode(set, retired.opcode, retired.address);
        let itype = Itype::of(&decoded, retired.taken);
        let sijump = self
            .before
            .is_some_and(|(before, at)| decoded.sequential_target(set, &before, at) == Some(retired.next));
        self.before = Some((decoded, retired.address));
        let operation = match itype {
            Itype::None => Operation::Other,
            Itype::Taken | Itype::NotTaken => Operation::Branch,
            Itype::TrapReturn => Operation::TrapReturn,
            jump => Operation::Jump(jump),
        };
        (operation, itype, sijump)
    }

    /// A trap has a cycle of its own: its signal reaches every port.
    fn trap(&mut self, trap: &Trap, sink: &mut impl FnMut(Committed<'_>)) {
        self.close(sink);
        self.before = None;
        self.time = if trap.cycle > 0 { trap.cycle } else { self.cycles };
        self.cycles += 1;
        let signal = TrapSignal {
            cause: trap.cause.into(),
            interrupt: trap.kind == TrapKind::Interrupt,
            tval: trap.value,
        };
        let port = CommitPort { pc: trap.return_address.0, ..CommitPort::default() };
        let ctype = self.take_ctype();
        sink(Committed::Cycle(Cycle { ports: &[port], trap: Some(signal), ctype, ..self.shared() }));
    }

    /// Ends the cycle under way, if anything retires in it.
    pub fn close(&mut self, sink: &mut impl FnMut(Committed<'_>)) {
        if self.ports.is_empty() {
            return;
        }
        self.cycles += 1;
        let ctype = self.take_ctype();
        let (ports, resolved) = (&self.ports, &self.resolved);
        sink(Committed::Cycle(Cycle { ports, resolved, ctype, ..self.shared() }));
        self.ports.clear();
        self.resolved.clear();
        (self.branches, self.others) = (0, 0);
    }

    fn take_ctype(&mut self) -> Ctype {
        if core::mem::take(&mut self.context_changed) { self.ctype } else { Ctype::Unreported }
    }

    fn shared(&self) -> Cycle<'static> {
        Cycle {
            privilege: self.context.level(),
            context: self.context.context_id.unwrap_or(0),
            time: self.time,
            ..Cycle::default()
        }
    }
}
