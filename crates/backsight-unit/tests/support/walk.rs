//! Random walks.

use super::{Flavour, Program};
use backsight_core::{
    Address, AddressSpace, Context, Execution, Isa, Privilege, Retired, Security, Trap, TrapKind,
};
use backsight_image::Code;
use backsight_isa::{Class, Instruction, classify};
use backsight_testing::Random;

/// How to walk.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    pub seed: u64,
    pub steps: u64,
    /// Handlers are part of the walk; else execution goes on at EL0 as if nothing had been.
    pub handlers: bool,
    /// One of so many instructions is followed by an interrupt; 0 never.
    pub interrupts: u64,
    /// One of so many instructions is followed by a change of context; 0 never.
    pub contexts: u64,
    /// One of so many instructions is followed by a gap; 0 never.
    pub gaps: u64,
    /// Cycles are told.
    pub cycles: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Self { seed: 1, steps: 2000, handlers: true, interrupts: 100, contexts: 0, gaps: 0, cycles: true }
    }
}

/// What an exception returns to.
struct Saved {
    address: Address,
    isa: Isa,
    context: Context,
    it: u8,
}

pub struct Walker<'a> {
    program: &'a Program,
    walk: Walk,
    random: Random,
    at: Address,
    isa: Isa,
    context: Context,
    calls: Vec<(Address, Isa)>,
    saved: Vec<Saved>,
    it: u8,
    cycle: u64,
    items: Vec<Execution>,
}

impl<'a> Walker<'a> {
    /// Walks through the program.
    pub fn run(program: &'a Program, walk: Walk) -> Vec<Execution> {
        let mut random = Random(walk.seed);
        let (at, isa) = program.functions[random.below(8) as usize];
        let wide = program.flavour == Flavour::A64;
        let context = Context {
            privilege: Privilege::Arm { level: 0, security: Security::NonSecure },
            wide,
            vmid: Some(3),
            context_id: Some(0x1234),
        };
        let (calls, saved, items) = (Vec::new(), Vec::new(), vec![Execution::Context(context)]);
        let cycle = 10;
        let mut walker = Self { program, walk, random, at, isa, context, calls, saved, it: 0, cycle, items };
        for _ in 0..walk.steps {
            walker.step();
        }
        walker.items
    }

    fn chance(&mut self, one_of: u64) -> bool {
        one_of > 0 && self.random.below(one_of) == 0
    }

    fn step(&mut self) {
        if self.chance(self.walk.interrupts) {
            let number = [0x0E, 0x0C, 0x0F, 0x03][self.random.below(4) as usize];
            self.trap(number);
        }
        if self.chance(self.walk.contexts) {
            self.context.context_id = Some(self.random.below(3));
            self.context.vmid = Some(self.random.below(2) as u32);
            self.items.push(Execution::Context(self.context));
        }
        if self.chance(self.walk.gaps) {
            self.items.push(Execution::Gap);
            let place = self.random.below(self.program.functions.len() as u64) as usize;
            (self.at, self.isa) = self.program.functions[place];
            self.it = 0;
        }
        self.instruction();
    }

    fn instruction(&mut self) {
        let bytes = self.program.bytes_at(AddressSpace::ANY, self.at).expect("walks stay in the code");
        let instruction = classify(self.isa, bytes, self.at).expect("whole instructions");
        let opcode = match (self.isa, instruction.size) {
            (Isa::T32, 2) => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            (Isa::T32, _) => {
                let half = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
                half(0) << 16 | half(2)
            }
            _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        };
        let conditional = instruction.flags.conditional || self.it > 0 || a32_condition(self.isa, opcode);
        let taken = !conditional || self.random.below(2) == 0;
        let size = instruction.size;
        self.it = if instruction.it_count > 0 { instruction.it_count } else { self.it.saturating_sub(1) };
        let address = self.at;
        let (isa, end) = (self.isa, address.plus(size.into()));
        self.at = end;
        if taken {
            self.branch(&instruction, end);
        }
        self.cycle += [0, 1, 1, 2, 9][self.random.below(5) as usize];
        let cycle = if self.walk.cycles { self.cycle } else { 0 };
        let next = self.at;
        self.items.push(Execution::Instruction(Retired { address, next, cycle, opcode, size, isa, taken }));
        if taken && instruction.flags.exception_return {
            self.items.push(Execution::Context(self.context));
        }
        if taken && is_system_call(isa, opcode) {
            self.trap(0x02);
        }
    }

    fn branch(&mut self, instruction: &Instruction, end: Address) {
        let caller = self.isa;
        match instruction.class {
            Class::DirectBranch => (self.at, self.isa) = (instruction.target, instruction.target_isa),
            Class::IndirectBranch if instruction.flags.exception_return => {
                let saved = self.saved.pop().expect("handlers are entered by exceptions");
                (self.at, self.isa, self.context, self.it) =
                    (saved.address, saved.isa, saved.context, saved.it);
                return;
            }
            Class::IndirectBranch => {
                let honest = instruction.flags.returns && self.random.below(8) != 0;
                let place = self.random.below(self.program.functions.len() as u64) as usize;
                let elsewhere = self.program.functions[place];
                (self.at, self.isa) = honest.then(|| self.calls.pop()).flatten().unwrap_or(elsewhere);
            }
            _ => return,
        }
        self.it = 0;
        if instruction.flags.link {
            self.calls.push((end, caller));
            if self.calls.len() > 40 {
                self.calls.remove(0);
            }
        }
    }

    fn trap(&mut self, cause: u32) {
        if self.saved.len() > 3 {
            return;
        }
        let place = self.random.below(self.program.handlers.len() as u64) as usize;
        let (handler, isa) = self.program.handlers[place];
        let return_address = self.at;
        let kind = if cause == 0x0E { TrapKind::Interrupt } else { TrapKind::Exception };
        let cycle = if self.walk.cycles { self.cycle } else { 0 };
        let handler = if self.walk.handlers { handler } else { return_address };
        self.items.push(Execution::Trap(Trap { kind, cause, value: 0, return_address, handler, cycle }));
        if self.walk.handlers {
            let saved = Saved { address: self.at, isa: self.isa, context: self.context, it: self.it };
            self.saved.push(saved);
            (self.at, self.isa, self.it) = (handler, isa, 0);
            self.context.privilege = Privilege::Arm { level: 1, security: Security::NonSecure };
            self.items.push(Execution::Context(self.context));
        }
    }
}

fn a32_condition(isa: Isa, opcode: u32) -> bool {
    isa == Isa::A32 && opcode >> 28 < 0xE
}

fn is_system_call(isa: Isa, opcode: u32) -> bool {
    match isa {
        Isa::A64 => opcode == 0xD400_0001,
        Isa::A32 => opcode == 0xEF00_0000,
        _ => opcode == 0xDF00,
    }
}
