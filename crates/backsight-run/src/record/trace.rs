//! What was executed goes in, is collected, and goes on to the units: here, or on a thread of their own.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use backsight_capture::events::Item;
use backsight_core::{Execution, RetiredBlock};

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
    output: Arc<Mutex<KnownOutput>>,
    /// The thread of the units, if they have one.
    thread: Option<UnitThread>,
    /// An empty batch.
    spare: Batch,
    has_messages: bool,
    instructions: u64,
}

/// Where batches go, and the code that came with them.
pub struct KnownOutput {
    output: TraceOutput,
    known: KnownCode,
}

/// The output, for as long as nobody else uses it.
pub fn lock(output: &Mutex<KnownOutput>) -> MutexGuard<'_, KnownOutput> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TraceWriter {
    /// With units that work here, or `elsewhere`: on a thread of their own.
    pub fn new(output: TraceOutput, elsewhere: bool) -> Self {
        let has_messages = output.units().has_messages();
        let output = Arc::new(Mutex::new(KnownOutput { output, known: KnownCode::new() }));
        let thread = elsewhere.then(|| UnitThread::new(Arc::clone(&output)));
        let collector = Collector::new(if elsewhere { MANY } else { FEW });
        Self { collector, output, thread, spare: Batch::default(), has_messages, instructions: 0 }
    }

    /// One step of execution. False: nothing more can be written.
    #[inline(always)]
    pub fn push(&mut self, item: Execution) -> bool {
        self.instructions += u64::from(matches!(item, Execution::Instruction(_)));
        if self.collector.push(item) { self.hand_on() } else { true }
    }

    /// Straight-line code that was executed. False: nothing more can be written.
    #[inline(always)]
    pub fn push_block(&mut self, block: &RetiredBlock<'_>) -> bool {
        self.instructions += block.code.len() as u64;
        if self.collector.push_block(block) { self.hand_on() } else { true }
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

    #[inline(never)]
    fn hand_on(&mut self) -> bool {
        if let Some(thread) = &mut self.thread {
            return thread.take(&mut self.collector);
        }
        self.spare = self.collector.take(mem::take(&mut self.spare));
        lock(&self.output).take(&mut self.spare)
    }

    /// Instructions seen so far.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Everything was executed: the units take the rest. Gives what they wrote to.
    pub fn finish(&mut self) -> Arc<Mutex<KnownOutput>> {
        self.hand_on();
        self.thread = None;
        Arc::clone(&self.output)
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

impl Deref for KnownOutput {
    type Target = TraceOutput;

    fn deref(&self) -> &TraceOutput {
        &self.output
    }
}

impl DerefMut for KnownOutput {
    fn deref_mut(&mut self) -> &mut TraceOutput {
        &mut self.output
    }
}

/// A thread on which units work. It ends when this is dropped and everything was taken.
struct UnitThread {
    /// `None`: nothing more comes.
    sender: Option<SyncSender<Batch>>,
    /// Batches that were taken, empty.
    empty: Receiver<Batch>,
    failed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl UnitThread {
    fn new(output: Arc<Mutex<KnownOutput>>) -> Self {
        let (sender, batches) = sync_channel::<Batch>(WAITING);
        let (give_back, empty) = sync_channel(WAITING + 2);
        let failed = Arc::new(AtomicBool::new(false));
        let has_failed = Arc::clone(&failed);
        let work = move || {
            for mut batch in batches {
                let goes_on = lock(&output).take(&mut batch);
                has_failed.store(!goes_on, Ordering::Relaxed);
                // Nobody needs it back if it is the last.
                let _ = give_back.try_send(batch);
            }
        };
        Self { sender: Some(sender), empty, failed, thread: Some(thread::spawn(work)) }
    }

    /// Sends what was collected. False: nothing more can be written.
    fn take(&mut self, collector: &mut Collector) -> bool {
        let batch = collector.take(self.empty.try_recv().unwrap_or_default());
        let is_sent = self.sender.as_ref().is_some_and(|sender| sender.send(batch).is_ok());
        is_sent && !self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for UnitThread {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
