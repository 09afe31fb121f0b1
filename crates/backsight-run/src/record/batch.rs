//! What a program did, collected until the units take all of it at once, perhaps on another thread.
//!
//! Straight-line code goes along with the first block of it, and gets a number; after that the number is enough. Both sides
//! forget all code at the same step, when there is much of it.

use backsight_capture::events::Item;
use backsight_core::{BlockCode, BlockStep, Execution, Retired, RetiredBlock, RetiredBlocks};
use backsight_riscv::ByNumber;

/// Numbers of a source that are found again at a time.
const SLOTS: usize = 1 << 13;

/// Instructions of code that is kept before all is forgotten.
const MOST_CODE: usize = 1 << 20;

/// Bytes of output in a full batch.
const MOST_OUTPUT: usize = 1 << 16;

/// Something that a program did, or that goes along.
#[derive(Clone, Copy, Debug)]
enum BatchEntry {
    /// The next so many items.
    Items(u32),
    /// The next so many blocks.
    Blocks(u32),
    /// The next so many instructions are code, which gets the next number.
    Code { count: u32 },
    /// All code is forgotten.
    ForgetCode,
    /// The program wrote the next so many bytes to its standard output (1) or error (2).
    Output { stream: u8, count: u32 },
    /// The operating system did the next thing at a time.
    Event { time: u64 },
    /// The unit that watches what was executed last writes a timestamp.
    Timestamp { time: u64 },
    /// The next instruction of that unit takes this cycle, those after it one each.
    Time { time: u64 },
}

/// What happened, in order; and what the steps need of each kind.
#[derive(Debug, Default)]
pub struct Batch {
    steps: Vec<BatchEntry>,
    items: Vec<Execution>,
    blocks: Vec<BlockStep>,
    code: Vec<Retired>,
    output: Vec<u8>,
    events: Vec<Item>,
}

/// What happened, with all that belongs to it.
#[derive(Debug)]
pub enum Happened<'a> {
    Items(&'a [Execution]),
    Blocks(RetiredBlocks<'a>),
    Output { stream: u8, bytes: &'a [u8] },
    Event { time: u64, item: &'a Item },
    Timestamp { time: u64 },
    Time { time: u64 },
}

impl Batch {
    /// Gives all of it in order. `known` is the code that came with the batches before, and with this one then.
    pub fn give(&self, known: &mut KnownCode, mut sink: impl FnMut(Happened<'_>)) {
        let (mut items, mut blocks) = (&self.items[..], &self.blocks[..]);
        let (mut code, mut output) = (&self.code[..], &self.output[..]);
        let mut events = self.events.iter();
        for step in &self.steps {
            match *step {
                BatchEntry::Items(count) => sink(Happened::Items(first(&mut items, count))),
                BatchEntry::Blocks(count) => sink(Happened::Blocks(known.blocks(first(&mut blocks, count)))),
                BatchEntry::Code { count } => known.put(first(&mut code, count)),
                BatchEntry::ForgetCode => known.forget(),
                BatchEntry::Output { stream, count } => {
                    sink(Happened::Output { stream, bytes: first(&mut output, count) });
                }
                BatchEntry::Event { time } => {
                    events.next().into_iter().for_each(|item| sink(Happened::Event { time, item }));
                }
                BatchEntry::Timestamp { time } => sink(Happened::Timestamp { time }),
                BatchEntry::Time { time } => sink(Happened::Time { time }),
            }
        }
    }

    pub fn clear(&mut self) {
        self.steps.clear();
        self.items.clear();
        self.blocks.clear();
        self.code.clear();
        self.output.clear();
        self.events.clear();
    }
}

/// Takes the next so many.
fn first<'a, T>(rest: &mut &'a [T], count: u32) -> &'a [T] {
    let (now, later) = rest.split_at(count as usize);
    *rest = later;
    now
}

/// Fills batches.
#[derive(Debug)]
pub struct Collector {
    batch: Batch,
    /// Items, blocks or other steps of a full batch.
    most: usize,
    /// Numbers of the source, each with the index of its code for those who take the batches.
    sent: ByNumber<u32, SLOTS>,
    /// Pieces of code that they have, and the instructions of these.
    codes: u32,
    instructions: usize,
}

impl Collector {
    /// A batch is full with so many steps.
    pub fn new(most: usize) -> Self {
        Self { batch: Batch::default(), most, sent: ByNumber::default(), codes: 0, instructions: 0 }
    }

    /// Was nothing collected?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.batch.steps.is_empty()
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        let Batch { steps, items, blocks, .. } = &self.batch;
        steps.len().max(items.len()).max(blocks.len()) >= self.most
    }

    /// One step of execution. True: the batch is full.
    #[inline(always)]
    pub fn push(&mut self, item: Execution) -> bool {
        match self.batch.steps.last_mut() {
            Some(BatchEntry::Items(count)) => *count += 1,
            _ => self.batch.steps.push(BatchEntry::Items(1)),
        }
        self.batch.items.push(item);
        self.is_full()
    }

    /// Blocks that retired. True: the batch is full.
    pub fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>) -> bool {
        let mut begun = self.batch.blocks.len();
        for (step, position) in blocks.steps.iter().zip(0..) {
            let number = blocks.number(step);
            let index = match self.sent.get(number) {
                Some(&index) => index,
                None => {
                    self.end_blocks(begun);
                    begun = self.batch.blocks.len();
                    let Some((block, _)) = blocks.split_at(position).1.split_first() else { continue };
                    self.send_code(&block)
                }
            };
            self.batch.blocks.push(BlockStep { code: index, ..*step });
        }
        self.end_blocks(begun);
        self.is_full()
    }

    /// The blocks since `begun` are all that come one after the other.
    fn end_blocks(&mut self, begun: usize) {
        let count = (self.batch.blocks.len() - begun) as u32;
        match self.batch.steps.last_mut() {
            _ if count == 0 => {}
            Some(BatchEntry::Blocks(before)) => *before += count,
            _ => self.batch.steps.push(BatchEntry::Blocks(count)),
        }
    }

    /// The program wrote to its standard output or error. True: the batch is full.
    pub fn output(&mut self, stream: u8, bytes: &[u8]) -> bool {
        self.batch.steps.push(BatchEntry::Output { stream, count: bytes.len() as u32 });
        self.batch.output.extend_from_slice(bytes);
        self.is_full() || self.batch.output.len() >= MOST_OUTPUT
    }

    /// The operating system did something. True: the batch is full.
    pub fn event(&mut self, time: u64, item: &Item) -> bool {
        self.batch.steps.push(BatchEntry::Event { time });
        self.batch.events.push(item.clone());
        self.is_full()
    }

    /// A timestamp is wanted. True: the batch is full.
    pub fn request_timestamp(&mut self, time: u64) -> bool {
        self.batch.steps.push(BatchEntry::Timestamp { time });
        self.is_full()
    }

    /// What time it is. True: the batch is full.
    pub fn set_time(&mut self, time: u64) -> bool {
        self.batch.steps.push(BatchEntry::Time { time });
        self.is_full()
    }

    /// Sends code; gives its index.
    #[cold]
    #[inline(never)]
    fn send_code(&mut self, block: &RetiredBlock<'_>) -> u32 {
        if self.instructions + block.code.len() > MOST_CODE {
            self.batch.steps.push(BatchEntry::ForgetCode);
            self.sent = ByNumber::default();
            (self.codes, self.instructions) = (0, 0);
        }
        self.batch.steps.push(BatchEntry::Code { count: block.code.len() as u32 });
        self.batch.code.extend_from_slice(block.code);
        let (number, index) = (block.number, self.codes);
        self.sent.put(number, index);
        self.codes += 1;
        self.instructions += block.code.len();
        index
    }

    /// Gives what was collected, to be taken in this order, for an empty batch.
    pub fn take(&mut self, empty: Batch) -> Batch {
        std::mem::replace(&mut self.batch, empty)
    }
}

/// The code of the blocks in batches.
#[derive(Debug, Default)]
pub struct KnownCode {
    /// The number of the first code: none comes twice, although code is forgotten.
    first_number: u64,
    codes: Vec<BlockCode>,
    instructions: Vec<Retired>,
}

impl KnownCode {
    /// Code came with a batch.
    fn put(&mut self, code: &[Retired]) {
        self.codes.push(BlockCode { first: self.instructions.len() as u32, count: code.len() as u32 });
        self.instructions.extend_from_slice(code);
    }

    /// All code is forgotten.
    fn forget(&mut self) {
        self.first_number += self.codes.len() as u64;
        self.codes.clear();
        self.instructions.clear();
    }

    /// Blocks of that code.
    fn blocks<'a>(&'a self, steps: &'a [BlockStep]) -> RetiredBlocks<'a> {
        let Self { first_number, codes, instructions } = self;
        RetiredBlocks { steps, codes, first_number: *first_number, instructions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::{Address, Isa};
    use backsight_testing::Random;

    fn retired(address: u64) -> Retired {
        let (next, isa) = (Address(address + 4), Isa::Rv64);
        Retired { address: Address(address), next, cycle: 0, opcode: 0x13, size: 4, isa, taken: true }
    }

    /// What those who take batches see.
    fn seen(batch: &Batch, known: &mut KnownCode) -> Vec<Retired> {
        let mut seen = Vec::new();
        batch.give(known, |happened| match happened {
            Happened::Blocks(blocks) => seen.extend(blocks.iter().flat_map(|block| block.instructions())),
            other => panic!("only blocks were collected: {other:?}"),
        });
        seen
    }

    #[test]
    fn blocks_come_as_they_were_although_code_is_forgotten() {
        const LENGTH: usize = 400;
        // More code than is kept, and numbers that share their slots.
        let count = MOST_CODE / LENGTH + 200;
        let instructions: Vec<Retired> = (0..(count * LENGTH) as u64).map(|at| retired(4 * at)).collect();
        let places = (0..count).map(|code| (code * LENGTH) as u32);
        let codes: Vec<BlockCode> = places.map(|first| BlockCode { first, count: LENGTH as u32 }).collect();
        let (mut collector, mut known) = (Collector::new(64), KnownCode::default());
        let (mut random, mut numbers) = (Random(1), std::collections::HashSet::new());
        for round in 0..600 {
            let step = |_| {
                let code = if random.below(2) == 0 { random.below(20) } else { random.below(count as u64) };
                BlockStep {
                    next: Address(random.below(1 << 20)),
                    code: code as u32,
                    taken: random.below(2) == 0,
                }
            };
            let steps: Vec<BlockStep> = (0..1 + round % 30).map(step).collect();
            let first_number = [0, 5 << 32 | 1][round % 2];
            let blocks =
                RetiredBlocks { steps: &steps, codes: &codes, first_number, instructions: &instructions };
            collector.push_blocks(&blocks);
            let batch = collector.take(Batch::default());
            let expected: Vec<Retired> = blocks.iter().flat_map(|block| block.instructions()).collect();
            assert!(seen(&batch, &mut known) == expected, "round {round}");
            numbers.insert(known.first_number);
        }
        assert!(numbers.len() > 1, "nothing was forgotten");
    }
}
