//! Two loops at the ends of what programs do to a trace unit.

use backsight_core::{Address, Execution, Isa, Retired};

use crate::{Ended, Ending, Error, ExecutionSource, Observation, Stop};

/// Where the loops are.
const START: u64 = 0x40_0000;
const NOP: u32 = 0xD503_201F;
/// `udiv x1, x1, x2`
const UDIV: u32 = 0x9AC2_0821;
/// `b` to itself less so many instructions.
const fn branch_back(instructions: u32) -> u32 {
    0x1400_0000 | instructions.wrapping_neg() & 0x03FF_FFFF
}

/// An endless loop of A64 code.
#[derive(Clone, Debug)]
pub struct Loop {
    body: Vec<(u32, u64)>,
    /// Cycles of each instruction are known.
    timed: bool,
    stop: Stop,
}

impl Loop {
    /// Nothing but branches, with a `nop` before each: as much trace as instructions can cause.
    pub fn simple() -> Self {
        Self { body: vec![(NOP, 1), (branch_back(1), 1)], timed: false, stop: Stop::new() }
    }

    /// Sixteen divisions of 20 cycles each before each branch: hardly any trace.
    pub fn complex() -> Self {
        let mut body = vec![(UDIV, 20); 16];
        body.push((branch_back(16), 1));
        Self { body, timed: true, stop: Stop::new() }
    }
}

impl ExecutionSource for Loop {
    fn isa(&self) -> Isa {
        Isa::A64
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }

    fn run(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        let mut cycle = 0;
        while !self.stop.is_requested() {
            for (address, &(opcode, cycles)) in (START..).step_by(4).zip(&self.body) {
                let taken = opcode != NOP && opcode != UDIV;
                cycle += cycles;
                sink(Observation::Execution(Execution::Instruction(Retired {
                    address: Address(address),
                    next: Address(if taken { START } else { address + 4 }),
                    cycle: if self.timed { cycle } else { 0 },
                    opcode,
                    size: 4,
                    isa: Isa::A64,
                    taken,
                })));
            }
        }
        Ok(Ended::Stopped.into())
    }
}
