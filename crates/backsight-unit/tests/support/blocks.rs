//! Execution cut into blocks.

use backsight_core::{BlockCode, BlockStep, Execution, Retired, RetiredBlock, RetiredBlocks};
use backsight_testing::Random;
use std::collections::HashMap;

/// A step of execution with blocks.
#[derive(Clone, Debug)]
pub enum Step {
    Item(Execution),
    /// Straight-line code of a number, and its last instruction as it retired.
    Block {
        number: u64,
        last: Retired,
    },
}

/// Code by number.
#[derive(Default)]
pub struct Codes {
    numbers: HashMap<Vec<(u64, u32)>, u64>,
    pub codes: Vec<Vec<Retired>>,
}

impl Codes {
    /// Cuts execution into blocks, at branches and now and then before, and leaves some instructions as they are.
    pub fn cut(&mut self, items: &[Execution], random: &mut Random) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut code: Vec<Retired> = Vec::new();
        for item in items {
            let Execution::Instruction(retired) = item else {
                self.end(&mut code, &mut steps);
                steps.push(Step::Item(*item));
                continue;
            };
            let follows = code.last().is_some_and(|last| {
                last.taken
                    && last.next == last.end()
                    && last.next == retired.address
                    && last.isa == retired.isa
            });
            if !follows || random.below(40) == 0 {
                self.end(&mut code, &mut steps);
            }
            if retired.cycle != 0 || random.below(100) == 0 {
                self.end(&mut code, &mut steps);
                steps.push(Step::Item(*item));
            } else {
                code.push(*retired);
            }
        }
        self.end(&mut code, &mut steps);
        steps
    }

    fn end(&mut self, code: &mut Vec<Retired>, steps: &mut Vec<Step>) {
        let Some(&last) = code.last() else { return };
        let key = code.iter().map(|retired| (retired.address.0, retired.opcode)).collect();
        let codes = &mut self.codes;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            let straight =
                code.iter().map(|retired| Retired { next: retired.end(), taken: true, ..*retired });
            codes.push(straight.collect());
            codes.len() as u64 - 1
        });
        steps.push(Step::Block { number, last });
        code.clear();
    }

    /// The block of a step.
    pub fn block(&self, number: u64, last: &Retired) -> RetiredBlock<'_> {
        let code = &self.codes[number as usize];
        // Some numbers share what units remember of blocks.
        RetiredBlock { number: number << (number % 3 * 6), code, next: last.next, taken: last.taken }
    }

    /// All code together, with numbers so far apart.
    pub fn together(&self, apart: usize) -> Together {
        let mut together = Together { codes: Vec::new(), instructions: Vec::new(), apart };
        for code in &self.codes {
            let place = BlockCode { first: together.instructions.len() as u32, count: code.len() as u32 };
            together.codes.extend(std::iter::repeat_n(place, apart));
            together.instructions.extend_from_slice(code);
        }
        together
    }
}

/// Code of which several blocks can be given at once.
pub struct Together {
    codes: Vec<BlockCode>,
    instructions: Vec<Retired>,
    apart: usize,
}

impl Together {
    /// A step of a block.
    pub fn step(&self, number: u64, last: &Retired) -> BlockStep {
        BlockStep { next: last.next, code: number as u32 * self.apart as u32, taken: last.taken }
    }

    /// Several blocks.
    pub fn blocks<'a>(&'a self, steps: &'a [BlockStep]) -> RetiredBlocks<'a> {
        let first_number = 1 << 40 | 77;
        RetiredBlocks { steps, codes: &self.codes, first_number, instructions: &self.instructions }
    }
}
