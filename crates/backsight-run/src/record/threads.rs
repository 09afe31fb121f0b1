//! One unit for each thread, and the streams of bytes that come from them.
//!
//! Where several threads are to be expected, the bytes of all travel in one stream of CoreSight frames, which tell them
//! apart. Else the bytes of a unit stand alone, in its own framing; should there be another thread after all, its bytes
//! are a stream of their own.

use backsight_arm::frame::{FormatterConfig, Framing};
use backsight_capture::events::Item;
use backsight_core::{Execution, RetiredBlocks, TraceId};
use backsight_unit::Funnel;

use crate::units::{EventCause, MessageUnit, TraceUnit, UnitDescription, UnitError, UnitFigures, UnitTemplate};

/// Bytes that the funnel takes from one source before the next has its turn.
const HOLD: usize = 8;
/// Bytes that a unit collects before they go to the funnel.
const PORTION: usize = 32;

/// A trace unit for each thread, made when the thread is first seen.
pub struct ThreadUnits {
    template: Box<dyn UnitTemplate>,
    threads: Vec<ThreadUnit>,
    /// The thread that executes.
    current: usize,
    framed: Option<Framed>,
    messages: Option<MessageUnit>,
}

struct ThreadUnit {
    thread: u32,
    id: TraceId,
    unit: Box<dyn TraceUnit>,
    /// Bytes that were not handed on yet.
    bytes: Vec<u8>,
    /// What its clock shows: cycles, or instructions where no cycles are known.
    now: u64,
}

/// The one stream that all units share.
struct Framed {
    funnel: Funnel,
    bytes: Vec<u8>,
}

/// A source of trace.
pub struct ThreadSource {
    /// The thread; `None` for messages.
    pub thread: Option<u32>,
    /// Its trace ID; where its bytes stand alone, only a label.
    pub id: TraceId,
    /// The stream that its bytes are in.
    pub stream: usize,
    /// How a capture describes it.
    pub description: UnitDescription,
}

impl ThreadUnits {
    /// Units for one thread, or for `several`; and a source of messages beside them.
    pub fn new(
        template: Box<dyn UnitTemplate>,
        several: bool,
        messages: Option<MessageUnit>,
    ) -> Result<Self, UnitError> {
        let framed = several || messages.is_some() || template.framing().is_none();
        let template = if framed { template.in_frames() } else { template };
        let funnel = || Funnel::new(FormatterConfig::new(Framing::Coresight), HOLD);
        let framed = framed.then(|| Framed { funnel: funnel(), bytes: Vec::new() });
        let mut units = Self { template, threads: Vec::new(), current: 0, framed, messages };
        if !several {
            units.switch_to(0)?;
        }
        Ok(units)
    }

    /// Steps of execution, of whichever threads.
    pub fn push(&mut self, mut items: &[Execution]) -> Result<(), UnitError> {
        loop {
            let change = items.iter().position(|item| matches!(item, Execution::Thread(_)));
            let (now, later) = items.split_at(change.unwrap_or(items.len()));
            if !now.is_empty() {
                let has_messages = self.has_messages();
                let Some(ThreadUnit { unit, bytes, now: time, .. }) = self.current()? else { return Ok(()) };
                if has_messages {
                    *time = now.iter().fold(*time, clock);
                }
                unit.push(now, bytes);
            }
            match later.split_first() {
                Some((&Execution::Thread(thread), rest)) => {
                    self.hand_on()?;
                    self.switch_to(thread)?;
                    items = rest;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Blocks that the current thread executed.
    pub fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>) -> Result<(), UnitError> {
        let has_messages = self.has_messages();
        let Some(ThreadUnit { unit, bytes, now, .. }) = self.current()? else { return Ok(()) };
        if has_messages {
            *now += blocks.count();
        }
        unit.push_blocks(blocks, bytes);
        Ok(())
    }

    /// The unit of the thread that executes.
    #[inline(always)]
    fn current(&mut self) -> Result<Option<&mut ThreadUnit>, UnitError> {
        if self.threads.is_empty() {
            self.switch_to(0)?;
        }
        Ok(self.threads.get_mut(self.current))
    }

    /// Do the bytes of all units travel in one stream? What they look like there depends on when they are handed on.
    pub const fn is_framed(&self) -> bool {
        self.framed.is_some()
    }

    /// Hands on what the unit of the current thread has written, if it is enough.
    pub fn hand_on(&mut self) -> Result<(), UnitError> {
        match (&mut self.framed, self.threads.get_mut(self.current)) {
            (Some(framed), Some(ThreadUnit { id, bytes, .. })) if bytes.len() >= PORTION => {
                framed.take(*id, bytes)
            }
            _ => Ok(()),
        }
    }

    /// Do the units count cycles by themselves?
    pub fn keep_time(&self) -> bool {
        self.template.keeps_time()
    }

    /// Is there a source of messages?
    pub const fn has_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// The current thread wrote to its standard output or error.
    pub fn output(&mut self, stream: u8, bytes: &[u8]) -> Result<(), UnitError> {
        let now = self.threads.get(self.current).map_or(0, |thread| thread.now);
        let (Some(messages), Some(framed)) = (&mut self.messages, &mut self.framed) else { return Ok(()) };
        let mut trace = Vec::new();
        messages.write(stream, bytes, now, &mut trace);
        framed.take(messages.id(), &mut trace)
    }

    /// The operating system did something at a time.
    pub fn event(&mut self, time: u64, item: &Item) -> Result<(), UnitError> {
        let (Some(messages), Some(framed)) = (&mut self.messages, &mut self.framed) else { return Ok(()) };
        let mut trace = Vec::new();
        messages.event(time, item, &mut trace);
        framed.take(messages.id(), &mut trace)
    }

    /// The unit of the current thread writes a timestamp.
    pub fn request_timestamp(&mut self, time: u64) -> Result<(), UnitError> {
        let Some(ThreadUnit { unit, bytes, .. }) = self.threads.get_mut(self.current) else { return Ok(()) };
        unit.request_timestamp(time, bytes);
        self.hand_on()
    }

    /// The next instruction of the current thread takes this cycle, those after it one each.
    pub fn set_time(&mut self, time: u64) {
        if let Some(ThreadUnit { unit, now, .. }) = self.threads.get_mut(self.current) {
            unit.set_time(time);
            *now = time.saturating_sub(1);
        }
    }

    /// The thread that executes from now on.
    fn switch_to(&mut self, thread: u32) -> Result<(), UnitError> {
        if let Some(known) = self.threads.iter().position(|other| other.thread == thread) {
            self.current = known;
            return Ok(());
        }
        let number = usize::from(self.template.first_id().get()) + self.threads.len();
        let id = TraceId::new(number.min(0x7F) as u8);
        let is_taken = self.messages.as_ref().is_some_and(|unit| unit.id() == id);
        if !id.is_source() || is_taken {
            return Err(UnitError::TooManyThreads(self.threads.len()));
        }
        let unit = self.template.build(id)?;
        self.current = self.threads.len();
        self.threads.push(ThreadUnit { thread, id, unit, bytes: Vec::new(), now: 0 });
        Ok(())
    }

    /// Execution ends.
    pub fn finish(&mut self) -> Result<(), UnitError> {
        for ThreadUnit { unit, bytes, id, .. } in &mut self.threads {
            unit.finish(bytes);
            if let Some(framed) = &mut self.framed {
                framed.take(*id, bytes)?;
            }
        }
        match &mut self.framed {
            Some(Framed { funnel, bytes }) => {
                let sink = &mut |frames: &[u8]| bytes.extend_from_slice(frames);
                funnel.finish(sink).map_err(UnitError::Frames)
            }
            None => Ok(()),
        }
    }

    /// The streams, each with the bytes that are ready: the caller takes and clears them.
    pub fn streams(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let alone = if self.framed.is_some() { &mut [] } else { &mut self.threads[..] };
        self.framed
            .iter_mut()
            .map(|framed| &mut framed.bytes)
            .chain(alone.iter_mut().map(|unit| &mut unit.bytes))
    }

    /// How many threads there were so far.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The threads so far.
    pub fn sources(&self) -> impl Iterator<Item = ThreadSource> {
        let messages = self.messages.iter().map(|unit| ThreadSource {
            thread: None,
            id: unit.id(),
            stream: 0,
            description: unit.describe(),
        });
        let threads = self.threads.iter().enumerate().map(|(number, unit)| ThreadSource {
            thread: Some(unit.thread),
            id: unit.id,
            stream: if self.framed.is_some() { 0 } else { number },
            description: self.template.describe(unit.id),
        });
        threads.chain(messages)
    }

    /// The instructions that caused events since the last call, each with its thread.
    pub fn take_causes(&mut self) -> impl Iterator<Item = (u32, EventCause)> + '_ {
        self.threads
            .iter_mut()
            .flat_map(|unit| unit.unit.take_causes().into_iter().map(|cause| (unit.thread, cause)))
    }

    /// What the unit of each thread counted.
    pub fn figures(&self) -> impl Iterator<Item = (u32, UnitFigures)> {
        self.threads.iter().map(|unit| (unit.thread, unit.unit.figures()))
    }

    /// How the bytes of a stream are framed: the word for it, and what carries them.
    pub fn framing(&self) -> (&'static str, Framing) {
        match (&self.framed, self.template.framing()) {
            (None, Some(word)) => (word, Framing::Raw),
            _ => ("coresight", Framing::Coresight),
        }
    }
}

/// What the clock of a unit shows after a step.
fn clock(now: u64, item: &Execution) -> u64 {
    match item {
        Execution::Instruction(retired) if retired.cycle != 0 => retired.cycle,
        Execution::Instruction(_) => now + 1,
        _ => now,
    }
}

impl Framed {
    fn take(&mut self, id: TraceId, bytes: &mut Vec<u8>) -> Result<(), UnitError> {
        let Self { funnel, bytes: frames } = self;
        let sink = &mut |part: &[u8]| frames.extend_from_slice(part);
        funnel.push(id, bytes, sink).map_err(UnitError::Frames)?;
        bytes.clear();
        Ok(())
    }
}
