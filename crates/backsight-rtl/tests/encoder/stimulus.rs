//! Blocks and cycles for the testbench, and the same for the software.

use std::fmt::Write;

use backsight_core::{Execution, Retired, TrapKind};
use backsight_isa::rv::{self, Decoded, Set};
use backsight_riscv::etrace::Params;
use backsight_riscv::ingress::connector::{
    CommitPort, Connector, ControlFlow, Cycle, Operation, Resolved, TrapSignal,
};
use backsight_riscv::ingress::{Block, Ctype, Itype};
use backsight_testing::Random;

use crate::habits::{Habits, levels};
use crate::software::Input;

fn below(random: &mut Random, bits: u8) -> u64 {
    if bits >= 64 { random.next() } else { random.next() & ((1 << bits) - 1) }
}

/// Blocks of every kind, some of them continuing the one before; gaps and ends.
pub fn random_blocks(random: &mut Random, params: &Params, count: usize) -> Vec<Input> {
    let often =
        [Itype::None, Itype::Taken, Itype::NotTaken, Itype::Taken, Itype::InferableCall, Itype::Return];
    let mut before = Block::default();
    let mut inputs = Vec::new();
    // Runs of nothing but branches fill maps.
    let mut only_branches = 0;
    let mut habits = Habits::new(params, count);
    for _ in 0..count {
        match random.below(200) {
            _ if habits.is_busy() => {}
            0 => inputs.push(Input::Gap),
            1 => inputs.push(Input::End),
            2..=4 => only_branches = 40,
            _ => {}
        }
        let branches_only = only_branches > 0;
        only_branches = u32::saturating_sub(only_branches, 1);
        let itype = match random.below(4) {
            _ if branches_only => [Itype::Taken, Itype::NotTaken][random.below(2) as usize],
            0 => Itype::from_code(random.below(16) as u8).unwrap_or_default(),
            _ => often[random.below(6) as usize],
        };
        let itype = if params.itype_width == 3 { itype.narrow() } else { itype };
        let half_words = 1 + random.below(6) as u32;
        let busy = habits.is_busy();
        let (habit, habitual) = habits.next(random, &before, half_words);
        let itype = habit.unwrap_or(itype);
        let branches_only = branches_only || busy;
        let iretire = if itype.is_trap() { random.below(3) as u32 } else { half_words };
        // More often after a return that leads elsewhere than predicted: that has no encoding.
        let astray = levels(params) > 0 && before.itype == Itype::Return && habitual.is_none();
        let rarely = !branches_only && random.below(if astray { 2 } else { 30 }) == 0;
        let context = if rarely { below(random, params.context_width.min(3)) } else { before.context };
        let ctypes = [Ctype::Precise, Ctype::Imprecise, Ctype::AsynchronousDiscontinuity];
        let far = below(random, params.iaddress_width) & !1;
        let block = Block {
            iaddr: match random.below(12) {
                _ if habitual.is_some() => habitual.unwrap_or_default(),
                0 => far,
                1..=4 => params.wrap(before.end()),
                _ => 0x1000 + 2 * random.below(64),
            },
            iretire,
            ilastsize: u8::from(iretire > 1 && random.below(2) == 0),
            itype,
            cause: if itype.is_trap() { below(random, params.ecause_width) } else { 0 },
            tval: if itype == Itype::Exception { params.wrap(random.next() >> random.below(64)) } else { 0 },
            context,
            ctype: if rarely { ctypes[random.below(3) as usize] } else { Ctype::Unreported },
            privilege: if !branches_only && random.below(40) == 0 {
                random.below(4) as u8
            } else {
                before.privilege
            },
            sijump: random.below(4) == 0,
            notify: !branches_only && random.below(30) == 0,
            cycles: random.below(5) as u32,
            time: (before.time + random.below(9)) & (u64::MAX >> (64 - params.time_width.max(1))),
            ..Block::default()
        };
        inputs.push(Input::Block(block));
        habits.note(&block);
        before = block;
    }
    inputs.push(Input::End);
    inputs
}

/// Lines for te_encoder.
pub fn block_lines(inputs: &[Input]) -> String {
    let mut lines = String::new();
    for input in inputs {
        match input {
            Input::Gap => lines += "G\n",
            Input::End => lines += "E\n",
            Input::Block(b) => writeln!(
                lines,
                "B {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x}",
                b.iaddr,
                b.iretire,
                b.ilastsize,
                b.itype as u8,
                u8::from(b.sijump),
                u8::from(b.notify),
                b.ctype as u8,
                b.cycles,
                b.privilege,
                b.context,
                b.time,
                b.cause,
                b.tval
            )
            .expect("a line"),
        }
    }
    lines
}

/// One cycle of a core.
#[derive(Clone, Debug, Default)]
pub struct CoreCycle {
    pub ports: Vec<CommitPort>,
    pub resolved: Option<Resolved>,
    pub trap: Option<TrapSignal>,
    pub privilege: u8,
    pub context: u64,
    pub ctype: Ctype,
    pub time: u64,
}

/// Lines for te_top.
pub fn cycle_lines(cycles: &[CoreCycle], ports: usize, width: u8) -> String {
    let mut lines = String::new();
    for cycle in cycles {
        let [mut valid, mut op, mut itype, mut compressed, mut sijump] = [0u64; 5];
        let mut pc = String::new();
        for index in (0..ports).rev() {
            let port = cycle.ports.get(index).copied().unwrap_or_default();
            let (code, given) = match port.operation {
                Operation::Other => (0, 0),
                Operation::Branch => (1, 0),
                Operation::Jalr => (2, 0),
                Operation::TrapReturn => (3, 0),
                Operation::Jump(itype) => (4, itype as u64),
            };
            valid |= u64::from(port.valid) << index;
            op |= code << (3 * index);
            itype |= given << (4 * index);
            compressed |= u64::from(port.compressed) << index;
            sijump |= u64::from(port.sijump) << index;
            write!(pc, "{:0digits$x}", port.pc, digits = usize::from(width) / 4).expect("digits");
        }
        let resolved = cycle.resolved.map_or(0, |resolved| {
            let kind = match resolved.kind {
                ControlFlow::Branch => 0,
                ControlFlow::Jump => 1,
                ControlFlow::JumpRegister => 2,
                ControlFlow::Return => 3,
            };
            1 | u32::from(resolved.taken) << 1 | kind << 2
        });
        let trap = cycle.trap.unwrap_or(TrapSignal { cause: 0, interrupt: false, tval: 0 });
        let flags = resolved | u32::from(cycle.trap.is_some()) << 5 | u32::from(trap.interrupt) << 6;
        let at = cycle.resolved.map_or(0, |resolved| resolved.pc);
        writeln!(
            lines,
            "C {valid:x} {op:x} {itype:x} {compressed:x} {sijump:x} {pc} {flags:x} {at:x} {:x} {:x} {:x} {:x} {:x} {:x}",
            trap.cause, trap.tval, cycle.privilege, cycle.context, cycle.ctype as u8, cycle.time
        )
        .expect("a line");
    }
    lines += "E\n";
    lines
}

/// The blocks of each cycle, as the software's connector makes them; the last are those that the end leaves.
pub fn blocks_of(cycles: &[CoreCycle], itype_width: u8) -> Vec<Vec<Block>> {
    let mut connector = Connector::new(itype_width);
    let mut all = Vec::new();
    for cycle in cycles {
        let mut blocks = Vec::new();
        let counted = *connector.counted();
        let acts = cycle.trap.is_some() || cycle.ports.iter().any(|port| port.valid);
        let changed = cycle.privilege != counted.privilege || cycle.context != counted.context;
        let place = cycle.ports.first().map_or(0, |port| port.pc);
        if acts && (changed || cycle.trap.is_some() && place != counted.end()) {
            blocks.extend(connector.end_block());
        }
        let resolved = cycle.resolved.as_slice();
        let seen = Cycle {
            ports: &cycle.ports,
            resolved,
            trap: cycle.trap,
            privilege: cycle.privilege,
            context: cycle.context,
            ctype: cycle.ctype,
            time: cycle.time,
        };
        connector.cycle(&seen, &mut |group| blocks.extend_from_slice(group));
        all.push(blocks);
    }
    all.push(connector.end_block().into_iter().collect());
    all
}

/// A core with so many ports that runs straight on, for so many cycles.
pub fn plain_cycles(random: &mut Random, ports: usize, count: usize) -> Vec<CoreCycle> {
    let mut pc = 0x1000;
    let mut port = |random: &mut Random, valid| {
        let compressed = random.below(2) == 0;
        let at = pc;
        if valid {
            pc += if compressed { 2 } else { 4 };
        }
        CommitPort { valid, pc: at, compressed, ..CommitPort::default() }
    };
    (0..count)
        .map(|_| {
            let mut valid = random.below(8) != 0;
            let mut next = || {
                let now = valid;
                valid = valid && random.below(4) != 0;
                port(random, now)
            };
            let ports = (0..ports).map(|_| next()).collect();
            CoreCycle { ports, privilege: 3, ..CoreCycle::default() }
        })
        .collect()
}

/// A core that does whatever comes to mind: every operation, records that match and that do not, traps, changes.
pub fn random_cycles(random: &mut Random, params: &Params, ports: usize, count: usize) -> Vec<CoreCycle> {
    let mut cycles: Vec<CoreCycle> = Vec::new();
    let mut pc = 0x1000u64;
    let (mut privilege, mut context) = (3, 0);
    for n in 0..count as u64 {
        let mut cycle = CoreCycle {
            privilege,
            context,
            time: n & (u64::MAX >> (64 - params.time_width.max(1))),
            ..CoreCycle::default()
        };
        let busy = random.below(3) > 0;
        for _ in 0..if busy { random.below(1 + ports as u64) } else { 0 } {
            let operation = match random.below(12) {
                0 => Operation::Jalr,
                1 => Operation::TrapReturn,
                2 => Operation::Jump(Itype::from_code(8 + random.below(8) as u8).unwrap_or_default()),
                3..=5 => Operation::Branch,
                _ => Operation::Other,
            };
            let compressed = random.below(2) == 0;
            let sijump = random.below(4) == 0;
            cycle.ports.push(CommitPort { valid: true, pc, operation, compressed, sijump });
            // What is not a jump goes on after itself: where inside a block its last instruction is, both sides compute from that.
            let leaves = matches!(operation, Operation::Jalr | Operation::Jump(_) | Operation::TrapReturn);
            pc = if leaves { 0x1000 + 2 * random.below(200) } else { pc + if compressed { 2 } else { 4 } };
        }
        if random.below(40) == 0 {
            let interrupt = random.below(2) == 0;
            let cause = below(random, params.ecause_width);
            cycle.trap = Some(TrapSignal { cause, interrupt, tval: params.wrap(random.next()) });
            cycle.ports.truncate(1);
            if cycle.ports.is_empty() || random.below(2) == 0 {
                cycle.ports = vec![CommitPort { pc, ..CommitPort::default() }];
            }
            pc = 0x2000 + 2 * random.below(8);
        }
        if random.below(50) == 0 {
            privilege = random.below(4) as u8;
        }
        if random.below(50) == 0 {
            context = below(random, params.context_width.min(4));
            cycle.ctype = [Ctype::Precise, Ctype::Imprecise][random.below(2) as usize];
        }
        cycles.push(cycle);
    }
    resolve(random, cycles)
}

/// Gives each branch, and some jumps, a record before the cycle in which it commits.
fn resolve(random: &mut Random, cycles: Vec<CoreCycle>) -> Vec<CoreCycle> {
    let mut all = vec![CoreCycle { privilege: 3, ..CoreCycle::default() }];
    for cycle in cycles {
        for port in cycle.ports.iter().filter(|port| port.valid && cycle.trap.is_none()) {
            let kind = match port.operation {
                Operation::Branch => ControlFlow::Branch,
                Operation::Jalr => ControlFlow::JumpRegister,
                Operation::Other if random.below(12) == 0 => ControlFlow::Jump,
                _ => continue,
            };
            let resolved = Resolved { pc: port.pc, taken: random.below(2) == 0, kind };
            let last = all.last_mut().expect("one");
            // The hardware knows of a record in the cycle after it; the software at once.
            if last.resolved.is_none() && last.ports.iter().all(|port| port.pc != resolved.pc) {
                last.resolved = Some(resolved);
            } else {
                let idle =
                    CoreCycle { ports: Vec::new(), trap: None, ctype: Ctype::Unreported, ..last.clone() };
                all.push(CoreCycle { resolved: Some(resolved), ..idle });
            }
        }
        all.push(cycle);
    }
    all
}

/// Cycles in which recorded execution retires, up to `ports` instructions in each.
pub struct CommitStage {
    ports: usize,
    cycle: CoreCycle,
    before: Option<(Decoded, backsight_core::Address)>,
    pub cycles: Vec<CoreCycle>,
}

impl CommitStage {
    pub fn new(ports: usize) -> Self {
        Self { ports, cycle: CoreCycle::default(), before: None, cycles: vec![CoreCycle::default()] }
    }

    pub fn push(&mut self, execution: &Execution) {
        match execution {
            Execution::Instruction(retired) => self.retire(retired),
            Execution::Trap(trap) => {
                self.close();
                self.before = None;
                let interrupt = trap.kind == TrapKind::Interrupt;
                let signal = TrapSignal { cause: trap.cause.into(), interrupt, tval: trap.value };
                self.cycle.trap = Some(signal);
                self.cycle.ports.push(CommitPort { pc: trap.return_address.0, ..CommitPort::default() });
                self.close();
            }
            Execution::Context(context) => {
                self.close();
                self.cycle.privilege = context.level();
                self.cycle.context = context.context_id.unwrap_or(0);
            }
            other => panic!("{other:?} is not recorded"),
        }
    }

    fn retire(&mut self, retired: &Retired) {
        if self.cycle.ports.len() == self.ports {
            self.close();
        }
        let decoded = rv::decode(Set::RV64, retired.opcode, retired.address);
        let sijump = self.before.is_some_and(|(before, at)| {
            decoded.sequential_target(Set::RV64, &before, at) == Some(retired.next)
        });
        self.before = Some((decoded, retired.address));
        let pc = retired.address.0;
        let operation = match Itype::of(&decoded, retired.taken) {
            Itype::None => Operation::Other,
            Itype::TrapReturn => Operation::TrapReturn,
            itype @ (Itype::Taken | Itype::NotTaken) => {
                self.resolve(Resolved { pc, taken: itype == Itype::Taken, kind: ControlFlow::Branch });
                Operation::Branch
            }
            jump => Operation::Jump(jump),
        };
        self.cycle.ports.push(CommitPort {
            valid: true,
            pc,
            operation,
            compressed: retired.size == 2,
            sijump,
        });
    }

    fn resolve(&mut self, resolved: Resolved) {
        let last = self.cycles.last_mut().expect("one");
        // The hardware knows of a record in the cycle after it; the software at once.
        if last.resolved.is_none() && last.ports.iter().all(|port| port.pc != resolved.pc) {
            last.resolved = Some(resolved);
        } else {
            let idle = CoreCycle { ports: Vec::new(), trap: None, ..self.cycle.clone() };
            self.cycles.push(CoreCycle { resolved: Some(resolved), ..idle });
        }
    }

    pub fn close(&mut self) {
        if !self.cycle.ports.is_empty() {
            self.cycles.push(self.cycle.clone());
            self.cycle.ports.clear();
            self.cycle.trap = None;
        }
    }
}
