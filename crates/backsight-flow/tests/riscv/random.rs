//! Random programs and random ways through them.

use std::ops::Range;

use backsight_core::{Address, Context, Execution, Isa, Mode, Privilege, Retired, Trap, TrapKind};
use backsight_isa::rv::{self, JumpKind, Operation, Set, Source};
use backsight_testing::Random;

use crate::program::Program;

const BASE: u64 = 0x8000_0000;

/// Instructions of which no path goes round in a circle without a branch or an uninferable jump: such a program
/// would never end.
pub struct Code {
    pub program: Program,
    starts: Vec<u64>,
}

fn j_type(rd: u32, offset: i64) -> u32 {
    let o = offset as u32;
    (o >> 20 & 1) << 31
        | (o >> 1 & 0x3FF) << 21
        | (o >> 11 & 1) << 20
        | (o >> 12 & 0xFF) << 12
        | rd << 7
        | 0x6F
}

fn b_type(offset: i64) -> u32 {
    let o = offset as u32;
    (o >> 12 & 1) << 31 | (o >> 5 & 0x3F) << 25 | 5 << 15 | (o >> 1 & 0xF) << 8 | (o >> 11 & 1) << 7 | 0x63
}

fn jalr(rd: u32, rs1: u32, immediate: u32) -> u32 {
    immediate << 20 | rs1 << 15 | rd << 7 | 0x67
}

impl Code {
    pub fn new(random: &mut Random, instructions: usize) -> Self {
        // First sizes, then contents: targets must be known.
        let kinds: Vec<u64> = (0..instructions).map(|_| random.below(40)).collect();
        let (mut starts, mut at) = (Vec::new(), BASE);
        for &kind in &kinds {
            starts.push(at);
            at += if kind < 10 {
                2
            } else if kind == 39 {
                8
            } else {
                4
            };
        }
        let end = starts.len() - 1;
        let mut bytes = Vec::new();
        for (n, &kind) in kinds.iter().enumerate() {
            let here = starts[n];
            let forward = starts[(n + 1 + random.below(12) as usize).min(end)];
            let near = starts[(n as u64 + random.below(16)).saturating_sub(9).min(end as u64) as usize];
            let near = if near == here { starts[(n + 1).min(end)] } else { near };
            let offset = |target: u64| target.wrapping_sub(here) as i64;
            if n == end {
                bytes.extend(jalr(0, 6, 0).to_le_bytes());
                continue;
            }
            match kind {
                0..=4 => bytes.extend(0x0001u16.to_le_bytes()),
                5..=7 => bytes.extend(0x8082u16.to_le_bytes()),
                8 => bytes.extend(0x9302u16.to_le_bytes()),
                9 => bytes.extend(0x8302u16.to_le_bytes()),
                10..=16 => bytes.extend(0x0000_0013u32.to_le_bytes()),
                17..=26 => bytes.extend(b_type(offset(near)).to_le_bytes()),
                27 | 28 => bytes.extend(j_type(0, offset(forward)).to_le_bytes()),
                29..=31 => bytes.extend(j_type(1, offset(forward)).to_le_bytes()),
                32 => bytes.extend(j_type(7, offset(forward)).to_le_bytes()),
                33 => bytes.extend(jalr(1, 6, 0).to_le_bytes()),
                34 => bytes.extend(jalr(0, 6, 0).to_le_bytes()),
                35 => bytes.extend(jalr(5, 1, 0).to_le_bytes()),
                36 => bytes.extend(jalr(7, 8, 0).to_le_bytes()),
                37 => bytes.extend(0x3020_0073u32.to_le_bytes()),
                38 => bytes.extend(jalr(0, 1, 0).to_le_bytes()),
                _ => {
                    // auipc t1, 0; jalr rd, imm(t1): its start is two instructions, only the first is a target.
                    let distance = offset(forward) as u32 & 0xFFF;
                    let rd = [0, 1, 7][random.below(3) as usize];
                    bytes.extend((6 << 7 | 0x17u32).to_le_bytes());
                    bytes.extend(jalr(rd, 6, distance).to_le_bytes());
                }
            }
        }
        Self { program: Program(vec![(BASE, bytes)]), starts }
    }

    /// The same program with other instructions in one place, and where that is.
    pub fn patched(&self, random: &mut Random) -> (Program, Range<u64>) {
        let other = Self::new(random, self.starts.len());
        let (mut program, from) = (self.program.clone(), &other.program.0[0].1);
        let (base, bytes) = &mut program.0[0];
        let base = *base;
        let most = bytes.len().min(from.len());
        let at = 2 * random.below(most as u64 / 2) as usize;
        let end = most.min(at + [2, 4, 16][random.below(3) as usize]);
        bytes[at..end].copy_from_slice(&from[at..end]);
        (program, base + at as u64..base + end as u64)
    }

    /// Where the handler of a cause begins.
    pub fn handler(&self, cause: u64, interrupt: bool) -> u64 {
        self.starts[(cause as usize * 5 + usize::from(interrupt)) % self.starts.len()]
    }

    fn somewhere(&self, random: &mut Random) -> u64 {
        self.starts[random.below(self.starts.len() as u64) as usize]
    }
}

/// How wild a way is.
#[derive(Clone, Copy, Debug)]
pub struct Wildness {
    /// Returns go elsewhere now and then.
    pub returns: bool,
    /// Traps come in this many of a thousand steps.
    pub traps: u64,
    /// Contexts change in this many of a thousand steps.
    pub contexts: u64,
    /// Percentage of taken branches.
    pub taken: u64,
}

/// A random way through the code.
pub fn execute(code: &Code, random: &mut Random, steps: usize, wild: Wildness) -> Vec<Execution> {
    let mut way = Way {
        code,
        random,
        wild,
        out: Vec::new(),
        calls: Vec::new(),
        traps: Vec::new(),
        context: Context { context_id: Some(0), ..Context::riscv(3, true) },
        pc: BASE,
        cycle: 0,
    };
    way.out.push(Execution::Context(way.context));
    for _ in 0..steps {
        way.step();
    }
    way.out
}

struct Way<'a> {
    code: &'a Code,
    random: &'a mut Random,
    wild: Wildness,
    out: Vec<Execution>,
    calls: Vec<u64>,
    traps: Vec<(u64, u8)>,
    context: Context,
    pc: u64,
    cycle: u64,
}

impl Way<'_> {
    fn step(&mut self) {
        self.cycle += self.random.below(4);
        if self.random.below(1000) < self.wild.traps {
            return self.trap();
        }
        if self.random.below(1000) < self.wild.contexts {
            self.context.context_id = Some(self.random.below(1 << 20));
            self.out.push(Execution::Context(self.context));
        }
        let bytes = backsight_image::Code::bytes_at(
            &self.code.program,
            backsight_core::AddressSpace::ANY,
            Address(self.pc),
        );
        let opcode = rv::opcode(bytes.unwrap()).unwrap();
        let decoded = rv::decode(Set::RV64, opcode, Address(self.pc));
        let end = self.pc + u64::from(decoded.instruction.size);
        let before = match self.out.last() {
            Some(Execution::Instruction(before)) => {
                let was = rv::decode(Set::RV64, before.opcode, before.address);
                decoded.sequential_target(Set::RV64, &was, before.address)
            }
            // The register keeps its value through a context change or trap.
            _ => self.sequential(&decoded),
        };
        let mut taken = true;
        let next = match decoded.operation {
            Operation::Branch => {
                taken = self.random.below(100) < self.wild.taken;
                if taken { decoded.instruction.target.0 } else { end }
            }
            Operation::TrapReturn => self.leave_trap(),
            Operation::Jump { source: Source::Opcode, .. } => decoded.instruction.target.0,
            Operation::Jump { kind: JumpKind::Return, .. } => {
                let strays = self.wild.returns && self.random.below(8) == 0;
                match self.calls.pop() {
                    Some(target) if !strays => target,
                    _ => self.code.somewhere(self.random),
                }
            }
            Operation::Jump { .. } => match before {
                Some(target) => target.0,
                None => self.code.somewhere(self.random),
            },
            _ => end,
        };
        if matches!(decoded.operation, Operation::Jump { kind: JumpKind::Call, .. }) {
            self.calls.push(end);
        }
        self.out.push(Execution::Instruction(Retired {
            address: Address(self.pc),
            next: Address(next),
            cycle: self.cycle,
            opcode,
            size: decoded.instruction.size,
            isa: Isa::Rv64,
            taken,
        }));
        if decoded.operation == Operation::TrapReturn {
            self.out.push(Execution::Context(self.context));
        }
        self.pc = next;
    }

    fn sequential(&self, decoded: &rv::Decoded) -> Option<Address> {
        let at = Address(self.pc - 4);
        let bytes =
            backsight_image::Code::bytes_at(&self.code.program, backsight_core::AddressSpace::ANY, at)?;
        decoded.sequential_target(Set::RV64, &rv::decode(Set::RV64, rv::opcode(bytes)?, at), at)
    }

    fn trap(&mut self) {
        let exception = self.random.below(2) == 0;
        let cause = self.random.below(16);
        let handler = self.code.handler(cause, !exception);
        self.out.push(Execution::Trap(Trap {
            kind: if exception { TrapKind::Exception } else { TrapKind::Interrupt },
            cause: cause as u32,
            value: if exception { self.random.next() } else { 0 },
            return_address: Address(self.pc),
            handler: Address(handler),
            cycle: self.cycle,
        }));
        if self.traps.len() < 8 {
            self.traps.push((self.pc, self.context.level()));
        }
        self.context.privilege = Privilege::Riscv(Mode([1, 3][self.random.below(2) as usize]));
        self.out.push(Execution::Context(self.context));
        self.pc = handler;
    }

    fn leave_trap(&mut self) -> u64 {
        match self.traps.pop() {
            Some((address, level)) => {
                self.context.privilege = Privilege::Riscv(Mode(level));
                address
            }
            None => self.code.somewhere(self.random),
        }
    }
}
