//! One unit for each thread, and one stream of bytes from all of them.

use backsight_arm::frame::{FormatterConfig, Framing};
use backsight_core::{Execution, TraceId};
use backsight_unit::Funnel;

use crate::units::{TraceUnit, UnitDescription, UnitFigures, UnitTemplate};

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
    /// `None`: there is one thread, and its bytes stand alone.
    funnel: Option<Funnel>,
}

struct ThreadUnit {
    thread: u32,
    id: TraceId,
    unit: Box<dyn TraceUnit>,
    /// Bytes that the funnel does not have yet.
    bytes: Vec<u8>,
}

impl ThreadUnits {
    /// Units for one thread, or for as many as there are trace IDs.
    pub fn new(template: Box<dyn UnitTemplate>, several: bool) -> Result<Self, String> {
        let framed = several || template.framing().is_none();
        let template = if framed { template.in_frames() } else { template };
        let funnel = framed.then(|| Funnel::new(FormatterConfig::new(Framing::Coresight), HOLD));
        let mut units = Self { template, threads: Vec::new(), current: 0, funnel };
        if !several {
            units.switch_to(0)?;
        }
        Ok(units)
    }

    /// Steps of execution, of whichever threads; bytes go to the end of `out`.
    pub fn push(&mut self, mut items: &[Execution], out: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let change = items.iter().position(|item| matches!(item, Execution::Thread(_)));
            let (now, later) = items.split_at(change.unwrap_or(items.len()));
            if !now.is_empty() {
                self.push_current(now, out)?;
            }
            match later.split_first() {
                Some((&Execution::Thread(thread), rest)) => {
                    self.switch_to(thread)?;
                    items = rest;
                }
                _ => return Ok(()),
            }
        }
    }

    fn push_current(&mut self, items: &[Execution], out: &mut Vec<u8>) -> Result<(), String> {
        if self.threads.is_empty() {
            self.switch_to(0)?;
        }
        let Some(ThreadUnit { unit, bytes, .. }) = self.threads.get_mut(self.current) else { return Ok(()) };
        if self.funnel.is_none() {
            return unit.push(items, out);
        }
        unit.push(items, bytes)?;
        if bytes.len() >= PORTION { self.hand_on(self.current, out) } else { Ok(()) }
    }

    /// The thread that executes from now on.
    fn switch_to(&mut self, thread: u32) -> Result<(), String> {
        if let Some(known) = self.threads.iter().position(|other| other.thread == thread) {
            self.current = known;
            return Ok(());
        }
        let number = usize::from(self.template.first_id().get()) + self.threads.len();
        let id = TraceId::new(number.min(0x7F) as u8);
        if !id.is_source() || (self.funnel.is_none() && !self.threads.is_empty()) {
            return Err(format!("too many threads: there are trace IDs for {}", self.threads.len()));
        }
        let unit = self.template.build(id)?;
        self.current = self.threads.len();
        self.threads.push(ThreadUnit { thread, id, unit, bytes: Vec::new() });
        Ok(())
    }

    fn hand_on(&mut self, number: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let (Some(thread), Some(funnel)) = (self.threads.get_mut(number), &mut self.funnel) else {
            return Ok(());
        };
        let sink = &mut |frames: &[u8]| out.extend_from_slice(frames);
        funnel.push(thread.id, &thread.bytes, sink).map_err(|error| error.to_string())?;
        thread.bytes.clear();
        Ok(())
    }

    /// Execution ends.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let framed = self.funnel.is_some();
        for number in 0..self.threads.len() {
            if let Some(ThreadUnit { unit, bytes, .. }) = self.threads.get_mut(number) {
                unit.finish(if framed { bytes } else { out })?;
            }
            self.hand_on(number, out)?;
        }
        match &mut self.funnel {
            Some(funnel) => {
                let sink = &mut |frames: &[u8]| out.extend_from_slice(frames);
                funnel.finish(sink).map_err(|error| error.to_string())
            }
            None => Ok(()),
        }
    }

    /// The threads so far, each with its trace ID and how a capture describes its unit.
    pub fn sources(&self) -> impl Iterator<Item = (u32, TraceId, UnitDescription)> {
        self.threads.iter().map(|unit| (unit.thread, unit.id, self.template.describe(unit.id)))
    }

    /// What the unit of each thread counted.
    pub fn figures(&self) -> impl Iterator<Item = (u32, UnitFigures)> {
        self.threads.iter().map(|unit| (unit.thread, unit.unit.figures()))
    }

    /// How the bytes are framed: the word for it, and what carries them.
    pub fn framing(&self) -> (&'static str, Framing) {
        match (&self.funnel, self.template.framing()) {
            (None, Some(word)) => (word, Framing::Raw),
            _ => ("coresight", Framing::Coresight),
        }
    }
}
