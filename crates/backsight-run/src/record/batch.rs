//! What a program did, collected until a unit takes all of it at once.
//!
//! A block of code goes into a batch by the number of its slot. The code itself goes along when the slot does not have
//! it already: both sides change their slots in the same order.

use backsight_core::{Address, Execution, Retired, RetiredBlock};

/// Blocks whose code is known on both sides at a time.
const SLOTS: usize = 1 << 13;
/// Steps of a full batch: as many as fit the nearest caches.
const MOST_STEPS: usize = 512;

/// Something that a program did, or that goes along.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The next so many items.
    Items(u32),
    /// The code of this slot.
    Block { slot: u16, next: Address, taken: bool },
    /// The next so many instructions are the code of a slot.
    Code { number: u64, count: u32 },
}

/// Steps of execution.
#[derive(Debug, Default)]
pub struct Batch {
    pub steps: Vec<Step>,
    pub items: Vec<Execution>,
    pub code: Vec<Retired>,
}

impl Batch {
    fn clear(&mut self) {
        self.steps.clear();
        self.items.clear();
        self.code.clear();
    }

    fn is_full(&self) -> bool {
        self.steps.len() >= MOST_STEPS || self.items.len() >= MOST_STEPS
    }
}

/// Fills batches.
#[derive(Debug)]
pub struct Collector {
    batch: Batch,
    /// The number of the code in each slot of those who take the batches.
    numbers: Box<[Option<u64>]>,
}

/// The slot of a block.
fn slot_of(number: u64) -> usize {
    number as usize % SLOTS
}

impl Collector {
    pub fn new() -> Self {
        Self { batch: Batch::default(), numbers: vec![None; SLOTS].into() }
    }

    /// One step of execution. True: the batch is full.
    #[inline(always)]
    pub fn push(&mut self, item: Execution) -> bool {
        match self.batch.steps.last_mut() {
            Some(Step::Items(count)) => *count += 1,
            _ => self.batch.steps.push(Step::Items(1)),
        }
        self.batch.items.push(item);
        self.batch.is_full()
    }

    /// Straight-line code that retired. True: the batch is full.
    #[inline(always)]
    pub fn push_block(&mut self, block: &RetiredBlock<'_>) -> bool {
        let slot = slot_of(block.number);
        if self.numbers[slot] != Some(block.number) {
            self.send_code(block);
        }
        self.batch.steps.push(Step::Block { slot: slot as u16, next: block.next, taken: block.taken });
        self.batch.is_full()
    }

    #[cold]
    #[inline(never)]
    fn send_code(&mut self, block: &RetiredBlock<'_>) {
        self.numbers[slot_of(block.number)] = Some(block.number);
        self.batch.steps.push(Step::Code { number: block.number, count: block.code.len() as u32 });
        self.batch.code.extend_from_slice(block.code);
    }

    /// Gives what was collected, to be taken in this order.
    pub fn take(&mut self, take: impl FnOnce(&Batch)) {
        take(&self.batch);
        self.batch.clear();
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
