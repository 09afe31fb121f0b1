//! What is written of a buffer, source by source, on the calling thread.

use std::ops::ControlFlow;

use backsight_core::TraceId;
use backsight_flow::PathId;

use super::consumers::{ENOUGH_TEXT, Writer};
use super::item::{Executor, Item};
use super::source_decoder::{ItemSink, Known};
use crate::Source;

/// Makes the writer of a source.
pub(super) type Make<'a, W, E> = &'a mut (dyn FnMut(&Source) -> Result<W, E> + 'a);

/// Takes text.
pub(super) type Output<'a, E> = &'a mut (dyn FnMut(&[u8]) -> Result<(), E> + 'a);

/// The writers of a buffer's sources, on the calling thread. Decoders are compiled for each type of writer, and not for who
/// makes them and where text goes.
pub(super) struct Pages<'a, W, E> {
    /// There are few, and most items are of the same source as the one before.
    writers: Vec<(TraceId, W)>,
    current: usize,
    text: Vec<u8>,
    make: Make<'a, W, E>,
    output: Output<'a, E>,
    pub failure: Option<E>,
}

impl<'a, W, E> Pages<'a, W, E> {
    /// No writer yet: `make` makes one for each source that has items. Text goes to `output`.
    pub fn new(make: Make<'a, W, E>, output: Output<'a, E>) -> Self {
        Self { writers: Vec::new(), current: 0, text: Vec::new(), make, output, failure: None }
    }

    /// The writer of a source, and where it writes; `None` after a failure. Nothing is called back: what is handed to the
    /// writer can then stay in registers.
    #[inline(always)]
    fn page_of(&mut self, source: &Source) -> Option<(&mut W, &mut Vec<u8>)> {
        let id = source.frame_id();
        if self.writers.get(self.current).is_none_or(|(other, _)| *other != id) {
            self.turn_to(id, source);
        }
        self.writers.get_mut(self.current).map(|(_, writer)| (writer, &mut self.text))
    }

    /// Something was written: text goes on when there is enough of it.
    #[inline(always)]
    fn go_on(&mut self) -> ControlFlow<()> {
        if self.text.len() >= ENOUGH_TEXT { self.flush() } else { ControlFlow::Continue(()) }
    }

    /// A source ends.
    pub fn end<T>(&mut self, source: &Source) -> ControlFlow<()>
    where
        W: Writer<T>,
    {
        let id = source.frame_id();
        if let Some((_, writer)) = self.writers.iter_mut().find(|(other, _)| *other == id) {
            writer.finish(&mut self.text);
        }
        ControlFlow::Continue(())
    }

    /// The next items are of this source.
    #[cold]
    fn turn_to(&mut self, id: TraceId, source: &Source) {
        let known = self.writers.iter().position(|(other, _)| *other == id);
        self.current = known.unwrap_or(self.writers.len());
        if known.is_none() {
            match (self.make)(source) {
                Ok(writer) => self.writers.push((id, writer)),
                Err(error) => self.failure = Some(error),
            }
        }
    }

    /// Hands on what was written.
    pub fn flush(&mut self) -> ControlFlow<()> {
        let written = (self.output)(&self.text);
        self.text.clear();
        self.failure = self.failure.take().or(written.err());
        if self.failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl<T, W: Writer<T>, E> ItemSink<T> for Pages<'_, W, E> {
    type Says = ControlFlow<()>;

    const TAKES_PATHS: bool = W::TAKES_PATHS;

    fn take(&mut self, item: Item<'_, T>, _known: Known) -> ControlFlow<()> {
        let Some((writer, text)) = self.page_of(item.source) else { return ControlFlow::Break(()) };
        writer.item(&item, text);
        self.go_on()
    }

    #[inline(always)]
    fn take_path<'a>(
        &mut self,
        path: PathId,
        executor: Executor<'a>,
        items: impl Iterator<Item = Item<'a, T>>,
    ) -> ControlFlow<()>
    where
        T: 'a,
    {
        let Some((writer, text)) = self.page_of(executor.source) else { return ControlFlow::Break(()) };
        writer.path(path, executor, items, text);
        self.go_on()
    }
}
