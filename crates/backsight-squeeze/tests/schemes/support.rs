//! Random programs and random runs of them, for all tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use backsight_core::{Address, Execution, Isa, Retired, Trap, TrapKind};
use backsight_squeeze::{Code, DataScheme, Section};

/// Numbers that look random (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// An instruction of a random program.
#[derive(Clone, Copy)]
pub enum Made {
    Plain,
    Short,
    Branch(usize),
    Jump(usize),
    Call(usize),
    Indirect,
    IndirectCall,
    Return,
}

/// A random program.
pub struct Program {
    pub made: Vec<Made>,
    pub addresses: Vec<u64>,
    opcodes: Vec<(u32, u8)>,
}

fn branch(offset: i64) -> u32 {
    let o = offset as u32;
    0x63 | (o >> 11 & 1) << 7 | (o >> 1 & 15) << 8 | 1 << 12 | (o >> 5 & 63) << 25 | (o >> 12 & 1) << 31
}

fn jump(offset: i64, rd: u32) -> u32 {
    let o = offset as u32;
    0x6F | rd << 7 | (o >> 12 & 255) << 12 | (o >> 11 & 1) << 20 | (o >> 1 & 1023) << 21 | (o >> 20 & 1) << 31
}

impl Program {
    pub fn new(random: &mut Random, length: usize, base: u64) -> Self {
        let near = |random: &mut Random, at: usize| {
            let from = at.saturating_sub(40);
            from + random.below((length - from).min(80) as u64) as usize
        };
        let made: Vec<_> = (0..length)
            .map(|at| match random.below(16) {
                _ if at + 1 == length => Made::Jump(0),
                0..6 => Made::Plain,
                6..10 => Made::Short,
                10 | 11 => Made::Branch(near(random, at)),
                12 => Made::Jump(near(random, at)),
                13 => Made::Call(near(random, at)),
                14 => Made::Return,
                _ if random.one_in(2) => Made::Indirect,
                _ => Made::IndirectCall,
            })
            .collect();
        let size = |made: &Made| if matches!(made, Made::Short | Made::Return) { 2 } else { 4 };
        let mut at = base;
        let addresses: Vec<u64> = made
            .iter()
            .map(|made| {
                let address = at;
                at += size(made);
                address
            })
            .collect();
        let opcodes = made
            .iter()
            .enumerate()
            .map(|(at, made)| {
                let offset = |to: usize| addresses[to].wrapping_sub(addresses[at]) as i64;
                let opcode = match *made {
                    Made::Plain => 0x0015_0513,
                    Made::Short => 0x0505,
                    Made::Branch(to) => branch(offset(to)),
                    Made::Jump(to) => jump(offset(to), 0),
                    Made::Call(to) => jump(offset(to), 1),
                    Made::Indirect => 0x0005_0067,
                    Made::IndirectCall => 0x0005_00E7,
                    Made::Return => 0x8082,
                };
                (opcode, size(made) as u8)
            })
            .collect();
        Self { made, addresses, opcodes }
    }

    pub fn code(&self) -> Code {
        Code::new(Isa::Rv64, self.sections())
    }

    pub fn sections(&self) -> Vec<Section> {
        let mut bytes = Vec::new();
        for &(opcode, size) in &self.opcodes {
            bytes.extend(&opcode.to_le_bytes()[..usize::from(size)]);
        }
        vec![Section { address: self.addresses[0], bytes }]
    }

    pub fn retired(&self, at: usize, to: Option<usize>) -> Retired {
        let (opcode, size) = self.opcodes[at];
        let address = Address(self.addresses[at]);
        let end = address.plus(u64::from(size));
        let next = to.map_or(end, |to| Address(self.addresses[to]));
        let taken = to.is_some() || !matches!(self.made[at], Made::Branch(_));
        Retired { address, next, cycle: 0, opcode, size, isa: Isa::Rv64, taken }
    }

    /// A run with traps, gaps and threads in it. Branches have habits, so that predictors have something to learn.
    pub fn run(&self, random: &mut Random, instructions: usize, odd: u64) -> Vec<Execution> {
        let mut items = Vec::new();
        let mut at = random.below(self.made.len() as u64) as usize;
        let mut stack = Vec::new();
        let mut cycle = 0;
        let habits: Vec<u64> = self.made.iter().map(|_| 1 + random.below(7)).collect();
        let mut visits = vec![0u64; self.made.len()];
        for _ in 0..instructions {
            visits[at] += 1;
            let anywhere = |random: &mut Random| {
                let reach = if random.one_in(4) { self.made.len() as u64 } else { 8 };
                let far = random.below(reach);
                (at + far as usize) % self.made.len()
            };
            let to = match self.made[at] {
                Made::Plain | Made::Short => None,
                Made::Branch(to) => {
                    (!visits[at].is_multiple_of(habits[at] + 1) || random.one_in(50)).then_some(to)
                }
                Made::Jump(to) => Some(to),
                Made::Call(to) => {
                    stack.push(at + 1);
                    Some(to)
                }
                Made::Indirect => Some(anywhere(random)),
                Made::IndirectCall => {
                    stack.push(at + 1);
                    Some(anywhere(random))
                }
                Made::Return => Some(stack.pop().unwrap_or(0)),
            };
            stack.truncate(50);
            let mut retired = self.retired(at, to);
            if odd > 0 {
                cycle += if random.one_in(5) { random.below(100) } else { 1 };
                retired.cycle = cycle;
            }
            items.push(Execution::Instruction(retired));
            at = to.unwrap_or(at + 1);
            if odd > 0 && random.one_in(odd) {
                let elsewhere = random.below(self.made.len() as u64) as usize;
                match random.below(4) {
                    0 => items.push(Execution::Gap),
                    1 => items.push(Execution::Thread(random.below(3) as u32)),
                    2 => {}
                    _ => items.push(Execution::Trap(Trap {
                        kind: if random.one_in(2) { TrapKind::Interrupt } else { TrapKind::Exception },
                        cause: random.below(12) as u32,
                        value: random.next(),
                        return_address: Address(self.addresses[at]),
                        handler: Address(self.addresses[elsewhere]),
                        cycle,
                    })),
                }
                at = elsewhere;
            }
        }
        items
    }
}

/// What unpacking gives of what packing made; several chunks if `pieces` is more than one.
pub fn there_and_back(
    scheme: &backsight_squeeze::Scheme,
    items: &[Execution],
    code: &Code,
    pieces: usize,
) -> Vec<Execution> {
    let mut packer = backsight_squeeze::Packer::new(scheme, DataScheme::default(), code.clone());
    let mut unpacker = backsight_squeeze::Unpacker::new(scheme, DataScheme::default(), code.clone());
    let mut back = Vec::new();
    for piece in items.chunks(items.len().div_ceil(pieces).max(1)) {
        for item in piece {
            if let Some(chunk) = packer.push(item).unwrap() {
                unpacker.unpack(&chunk, &mut |item| back.push(item)).unwrap();
            }
        }
        let chunk = packer.flush();
        unpacker.unpack(&chunk, &mut |item| back.push(item)).unwrap();
    }
    back
}
