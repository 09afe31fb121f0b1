//! Who a line is about.

use std::io::{self, Write};

use backsight_core::TraceId;

use super::digits::hexadecimal;
use super::json::ObjectWriter;
use crate::Source;
use crate::decode::TimeBounds;

/// The source, and what else lines about it begin with.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub id: TraceId,
    /// Its trace says which hart it is about.
    pub numbers_harts: bool,
    /// Where JSON names it.
    pub buffer: Option<String>,
    /// When it happened, on the time axis of all sources.
    pub time: Option<TimeBounds>,
    /// The thread, where it may have been on another source before.
    pub thread: Option<String>,
}

impl Label {
    /// Of a source. JSON names its buffer where there are several.
    pub fn of(source: &Source, name_buffers: bool) -> Self {
        let (id, numbers_harts) = (source.id(), source.numbers_harts());
        let buffer = name_buffers.then(|| source.buffer().to_owned());
        Self { id, numbers_harts, buffer, time: None, thread: None }
    }

    /// What a line of text begins with.
    #[inline(always)]
    pub fn write(&self, out: &mut (impl Write + ?Sized), hart: u16) -> io::Result<()> {
        match self.short() {
            Some(text) => out.write_all(&text),
            None => self.write_long(out, hart),
        }
    }

    /// The same if it is nothing but an ID.
    #[inline(always)]
    pub fn short(&self) -> Option<[u8; 6]> {
        let [high, low] = hexadecimal(self.id.get());
        (!self.numbers_harts && self.time.is_none() && self.thread.is_none())
            .then_some([b'0', b'x', high, low, b' ', b' '])
    }

    /// The same with time, hart or thread.
    #[inline(never)]
    fn write_long(&self, out: &mut (impl Write + ?Sized), hart: u16) -> io::Result<()> {
        if let Some(time) = &self.time {
            write!(out, "{time:<28}  ")?;
        }
        write!(out, "{}", self.id)?;
        if self.numbers_harts {
            write!(out, ".{hart}")?;
        }
        if let Some(thread) = &self.thread {
            write!(out, "  {thread}")?;
        }
        out.write_all(b"  ")
    }

    /// What every JSON object has.
    pub fn members(&self, object: &mut ObjectWriter, hart: u16, index: u64) {
        object.number("index", index);
        object.number("id", self.id.get().into());
        if self.numbers_harts {
            object.number("hart", hart.into());
        }
        if let Some(thread) = &self.thread {
            object.text("thread", thread);
        }
        if let Some(buffer) = &self.buffer {
            object.text("buffer", buffer);
        }
        if let Some(TimeBounds { earliest, latest, estimate }) = self.time {
            let times = [("at.earliest", earliest), ("at.estimate", estimate), ("at.latest", latest)];
            times.iter().for_each(|(name, time)| object.optional_number(name, *time));
        }
    }
}
