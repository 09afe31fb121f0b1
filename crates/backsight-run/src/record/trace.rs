//! What was executed goes in, is collected, and goes on to the units: here, or on a thread of their own.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use backsight_capture::events::Item;
use backsight_core::{Execution, RetiredBlocks};

use super::batch::{Batch, Collector, KnownCode};
use super::output::TraceOutput;

/// Steps that the units take at a time on this thread: as many as fit the nearest caches.
const FEW: usize = 512;
/// Steps that they take at a time on another thread: enough for the change to cost little.
const MANY: usize = 8192;
/// Batches that wait for the units.
const WAITING: usize = 2;

/// Collects what is executed for the units.
pub struct TraceWriter {
    collector: Collector,
    units: Units,
    /// Blocks that the units took since what they wrote was written to files.
    blocks: usize,
    has_messages: bool,
    instructions: u64,
}

/// Where the units work.
enum Units {
    /// On this thread: blocks go to them at once.
    Here { output: Box<KnownOutput>, spare: Batch },
    /// On a thread of their own.
    Elsewhere(UnitThread),
}

/// Where batches go, and the code that came with them.
struct KnownOutput {
    output: TraceOutput,
    known: KnownCode,
}

impl TraceWriter {
    /// With units that work here, or `elsewhere`: on a thread of their own.
    pub fn new(output: TraceOutput, elsewhere: bool) -> Self {
        let has_messages = output.units().has_messages();
        let output = Box::new(KnownOutput { output, known: KnownCode::default() });
        let (size, units) = match elsewhere {
            true => (MANY, Units::Elsewhere(UnitThread::new(output))),
            false => (FEW, Units::Here { output, spare: Batch::default() }),
        };
        Self { collector: Collector::new(size), units, blocks: 0, has_messages, instructions: 0 }
    }

    /// One step of execution. False: nothing more can be written.
    #[inline(always)]
    pub fn push(&mut self, item: Execution) -> bool {
        self.instructions += u64::from(matches!(item, Execution::Instruction(_)));
        if self.collector.push(item) { self.hand_on() } else { true }
    }

    /// Blocks of so many instructions that were executed. False: nothing more can be written.
    pub fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>, instructions: u64) -> bool {
        self.instructions += instructions;
        if let Units::Here { .. } = self.units {
            return self.push_blocks_here(blocks);
        }
        if self.collector.push_blocks(blocks) { self.hand_on() } else { true }
    }

    /// The code of blocks that go to the units at once need not be copied.
    fn push_blocks_here(&mut self, blocks: &RetiredBlocks<'_>) -> bool {
        let goes_on = self.collector.is_empty() || self.hand_on();
        let Units::Here { output, .. } = &mut self.units else { return false };
        output.output.take_blocks(blocks);
        self.blocks += blocks.steps.len();
        if self.blocks < FEW {
            return goes_on;
        }
        self.blocks = 0;
        output.output.write_ready()
    }

    /// The program wrote to its standard output or error, after what it executed so far. False: nothing more can be
    /// written.
    pub fn output(&mut self, stream: u8, bytes: &[u8]) -> bool {
        if self.has_messages && self.collector.output(stream, bytes) { self.hand_on() } else { true }
    }

    /// The operating system did something at a time, after what was executed so far. False: nothing more can be written.
    pub fn event(&mut self, time: u64, item: &Item) -> bool {
        if self.collector.event(time, item) { self.hand_on() } else { true }
    }

    /// The unit that watches what was executed last writes a timestamp. False: nothing more can be written.
    pub fn request_timestamp(&mut self, time: u64) -> bool {
        if self.collector.request_timestamp(time) { self.hand_on() } else { true }
    }

    /// The next instruction of the unit that watches what was executed last takes this cycle. False: nothing more can be
    /// written.
    pub fn set_time(&mut self, time: u64) -> bool {
        if self.collector.set_time(time) { self.hand_on() } else { true }
    }

    #[inline(never)]
    fn hand_on(&mut self) -> bool {
        match &mut self.units {
            Units::Here { output, spare } => {
                *spare = self.collector.take(mem::take(spare));
                output.take(spare)
            }
            Units::Elsewhere(thread) => thread.take(&mut self.collector),
        }
    }

    /// Instructions seen so far.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Everything was executed: the units take the rest. Gives what they wrote to.
    pub fn finish(mut self) -> TraceOutput {
        self.hand_on();
        match self.units {
            Units::Here { output, .. } => output.output,
            Units::Elsewhere(thread) => thread.finish(),
        }
    }
}

impl KnownOutput {
    /// Takes a batch, which is empty then. False: nothing more can be written.
    fn take(&mut self, batch: &mut Batch) -> bool {
        let Self { output, known } = self;
        output.take(batch, known);
        batch.clear();
        !output.has_failed()
    }
}

/// A thread on which units work.
struct UnitThread {
    sender: SyncSender<Batch>,
    /// Batches that were taken, empty.
    empty: Receiver<Batch>,
    failed: Arc<AtomicBool>,
    thread: JoinHandle<Box<KnownOutput>>,
}

impl UnitThread {
    fn new(mut output: Box<KnownOutput>) -> Self {
        let (sender, batches) = sync_channel::<Batch>(WAITING);
        let (give_back, empty) = sync_channel(WAITING + 2);
        let failed = Arc::new(AtomicBool::new(false));
        let has_failed = Arc::clone(&failed);
        let work = move || {
            for mut batch in batches {
                let goes_on = output.take(&mut batch);
                has_failed.store(!goes_on, Ordering::Relaxed);
                // Nobody needs it back if it is the last.
                let _ = give_back.try_send(batch);
            }
            output
        };
        Self { sender, empty, failed, thread: thread::spawn(work) }
    }

    /// Sends what was collected. False: nothing more can be written.
    fn take(&mut self, collector: &mut Collector) -> bool {
        let batch = collector.take(self.empty.try_recv().unwrap_or_default());
        self.sender.send(batch).is_ok() && !self.failed.load(Ordering::Relaxed)
    }

    /// Waits until everything was taken.
    fn finish(self) -> TraceOutput {
        drop(self.sender);
        match self.thread.join() {
            Ok(output) => output.output,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
