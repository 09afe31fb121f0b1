//! What a program did, collected until the units take all of it at once, perhaps on another thread.
//!
//! A block of code goes into a batch by the number of its slot. The code itself goes along when the slot does not have
//! it already: both sides change their slots in the same order.

use backsight_capture::events::Item;
use backsight_core::{Address, Execution, Retired, RetiredBlock};

/// Blocks whose code is known on both sides at a time.
const SLOTS: usize = 1 << 13;

/// Bytes of output in a full batch.
const MOST_OUTPUT: usize = 1 << 16;

/// Something that a program did, or that goes along.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The next so many items.
    Items(u32),
    /// The code of this slot.
    Block { slot: u16, next: Address, taken: bool },
    /// The next so many instructions are the code of a slot.
    Code { number: u64, count: u32 },
    /// The program wrote the next so many bytes to its standard output (1) or error (2).
    Output { stream: u8, count: u32 },
    /// The operating system did the next thing at a time.
    Event { time: u64 },
    /// The unit that watches what was executed last writes a timestamp.
    Timestamp { time: u64 },
}

/// What happened, in order; and what the steps need of each kind.
#[derive(Debug, Default)]
pub struct Batch {
    pub steps: Vec<Step>,
    pub items: Vec<Execution>,
    pub code: Vec<Retired>,
    pub output: Vec<u8>,
    pub events: Vec<Item>,
}

impl Batch {
    pub fn clear(&mut self) {
        self.steps.clear();
        self.items.clear();
        self.code.clear();
        self.output.clear();
        self.events.clear();
    }
}

/// Fills batches.
#[derive(Debug)]
pub struct Collector {
    batch: Batch,
    /// Steps, or items, of a full batch.
    most: usize,
    /// The number of the code in each slot of those who take the batches.
    numbers: Box<[Option<u64>]>,
}

/// The slot of a block.
fn slot_of(number: u64) -> usize {
    number as usize % SLOTS
}

impl Collector {
    /// A batch is full with so many steps.
    pub fn new(most: usize) -> Self {
        Self { batch: Batch::default(), most, numbers: vec![None; SLOTS].into() }
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.batch.steps.len() >= self.most || self.batch.items.len() >= self.most
    }

    /// One step of execution. True: the batch is full.
    #[inline(always)]
    pub fn push(&mut self, item: Execution) -> bool {
        match self.batch.steps.last_mut() {
            Some(Step::Items(count)) => *count += 1,
            _ => self.batch.steps.push(Step::Items(1)),
        }
        self.batch.items.push(item);
        self.is_full()
    }

    /// Straight-line code that retired. True: the batch is full.
    #[inline(always)]
    pub fn push_block(&mut self, block: &RetiredBlock<'_>) -> bool {
        let slot = slot_of(block.number);
        if self.numbers[slot] != Some(block.number) {
            self.send_code(block);
        }
        self.batch.steps.push(Step::Block { slot: slot as u16, next: block.next, taken: block.taken });
        self.is_full()
    }

    /// The program wrote to its standard output or error. True: the batch is full.
    pub fn output(&mut self, stream: u8, bytes: &[u8]) -> bool {
        self.batch.steps.push(Step::Output { stream, count: bytes.len() as u32 });
        self.batch.output.extend_from_slice(bytes);
        self.is_full() || self.batch.output.len() >= MOST_OUTPUT
    }

    /// The operating system did something. True: the batch is full.
    pub fn event(&mut self, time: u64, item: &Item) -> bool {
        self.batch.steps.push(Step::Event { time });
        self.batch.events.push(item.clone());
        self.is_full()
    }

    /// A timestamp is wanted. True: the batch is full.
    pub fn request_timestamp(&mut self, time: u64) -> bool {
        self.batch.steps.push(Step::Timestamp { time });
        self.is_full()
    }

    #[cold]
    #[inline(never)]
    fn send_code(&mut self, block: &RetiredBlock<'_>) {
        self.numbers[slot_of(block.number)] = Some(block.number);
        self.batch.steps.push(Step::Code { number: block.number, count: block.code.len() as u32 });
        self.batch.code.extend_from_slice(block.code);
    }

    /// Gives what was collected, to be taken in this order, for an empty batch.
    pub fn take(&mut self, empty: Batch) -> Batch {
        std::mem::replace(&mut self.batch, empty)
    }
}

/// The code of the blocks in batches.
#[derive(Debug)]
pub struct KnownCode {
    slots: Box<[Slot]>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    number: u64,
    code: Vec<Retired>,
}

impl KnownCode {
    pub fn new() -> Self {
        Self { slots: vec![Slot::default(); SLOTS].into() }
    }

    /// Code came with a batch.
    pub fn put(&mut self, number: u64, code: &[Retired]) {
        let slot = &mut self.slots[slot_of(number)];
        slot.number = number;
        slot.code.clear();
        slot.code.extend_from_slice(code);
    }

    /// The block of a slot that led to `next`.
    #[inline(always)]
    pub fn block(&self, slot: u16, next: Address, taken: bool) -> RetiredBlock<'_> {
        let Slot { number, code } = &self.slots[usize::from(slot) % SLOTS];
        RetiredBlock { number: *number, code, next, taken }
    }
}
