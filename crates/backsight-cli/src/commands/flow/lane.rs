//! One source while it is being followed.
//!
//! A block of the capture is first taken apart into the bytes of each source; then the sources are followed, on as
//! many cores as are wanted, each into a buffer of its own; then the buffers are written in the order of the IDs.
//! So the result does not depend on the number of cores. A byte of trace may stand for thousands of lines: a
//! source whose buffer is full waits until it is written, which bounds memory.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use backsight_arm::frame::Run;
use backsight_core::TraceId;

use super::EventNames;
use super::engine::{Engine, Item};
use super::printer::Printer;
use crate::failure::Result;
use crate::output::Output;
use crate::trail::Trail;

/// Bytes that are followed before it is asked whether there is enough to be written.
const MOST_BYTES: usize = 1 << 12;

/// Text that is enough to be written.
const MOST_TEXT: usize = 1 << 22;

/// One source while it is being followed.
pub struct Lane<'i> {
    /// Decoder and follower.
    pub engine: Engine<'i>,
    printer: Printer<'i>,
    trail: Trail,
    bytes: Vec<u8>,
    /// How many of `bytes` were taken.
    taken: usize,
    steps: VecDeque<Step>,
    text: Vec<u8>,
    outcome: io::Result<()>,
}

/// What is to be done with the queued bytes.
enum Step {
    /// Take them up to here; the first is at this index of the capture.
    Feed { to: usize, index: u64 },
    /// The stream does not continue.
    Reset,
    /// The stream ends.
    Finish,
}

impl<'i> Lane<'i> {
    /// A source at its beginning.
    pub fn new(engine: Engine<'i>, printer: Printer<'i>) -> Self {
        Self {
            engine,
            printer,
            trail: Trail::default(),
            bytes: Vec::new(),
            taken: 0,
            steps: VecDeque::new(),
            text: Vec::new(),
            outcome: Ok(()),
        }
    }

    /// More bytes of the stream.
    pub fn queue(&mut self, bytes: &[u8], runs: &[Run]) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        for (number, run) in runs.iter().enumerate() {
            let end = runs.get(number + 1).map_or(bytes.len(), |next| next.at as usize);
            let (mut from, mut index) = (run.at as usize, run.index);
            while from < end {
                let to = end.min(from + MOST_BYTES);
                self.steps.push_back(Step::Feed { to: base + to, index });
                index += (to - from) as u64;
                from = to;
            }
        }
    }

    /// The stream does not continue here.
    pub fn queue_reset(&mut self) {
        self.steps.push_back(Step::Reset);
    }

    /// The stream ends here.
    pub fn queue_end(&mut self) {
        self.steps.push_back(Step::Finish);
    }

    /// Follows what is queued, until there is enough to be written.
    fn work(&mut self, names: &EventNames) {
        let Self { engine, printer, trail, bytes, taken, steps, text, outcome } = self;
        while text.len() < MOST_TEXT
            && let Some(step) = steps.pop_front()
        {
            if let Step::Feed { to, index } = step {
                trail.push(index, &bytes[*taken..to]);
            }
            let mut sink = |item: Item| {
                if outcome.is_ok() {
                    *outcome = match item {
                        Item::Event(event) => printer.event(text, trail.index_of(event.offset), &event),
                        Item::Record(record) => printer.record(text, &record, names),
                    };
                }
            };
            match step {
                Step::Feed { to, .. } => {
                    engine.feed(&bytes[*taken..to], &mut sink);
                    *taken = to;
                }
                Step::Reset => engine.reset(&mut sink),
                Step::Finish => {
                    engine.finish(&mut sink);
                    if outcome.is_ok() {
                        *outcome = printer.finish(text);
                    }
                }
            }
        }
        if steps.is_empty() {
            bytes.clear();
            *taken = 0;
        }
    }
}

/// Follows what is queued, on up to `threads` cores, and writes the result.
pub fn process(
    lanes: &mut BTreeMap<TraceId, Lane<'_>>,
    threads: usize,
    names: &EventNames,
    output: &mut Output,
) -> Result {
    let mut busy: Vec<_> = lanes.values_mut().filter(|lane| !lane.steps.is_empty()).collect();
    while !busy.is_empty() {
        if threads < 2 || busy.len() < 2 {
            busy.iter_mut().for_each(|lane| lane.work(names));
        } else {
            let share = busy.len().div_ceil(threads);
            std::thread::scope(|scope| {
                for some in busy.chunks_mut(share) {
                    scope.spawn(move || some.iter_mut().for_each(|lane| lane.work(names)));
                }
            });
        }
        for lane in &mut busy {
            std::mem::replace(&mut lane.outcome, Ok(())).map_err(|error| output.failure(&error))?;
            output.put(|out| out.write_all(&lane.text))?;
            lane.text.clear();
        }
        busy.retain(|lane| !lane.steps.is_empty());
    }
    Ok(())
}
