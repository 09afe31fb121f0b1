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

    /// Lets the writer of a source write. Text goes on when there is enough of it.
    #[inline(always)]
    fn write(&mut self, source: &Source, write: impl FnOnce(&mut W, &mut Vec<u8>)) -> ControlFlow<()> {
        let id = source.frame_id();
        if self.writers.get(self.current).is_none_or(|(other, _)| *other != id)
            && let Err(error) = self.turn_to(id, source)
        {
            return self.fail(error);
        }
        if let Some((_, writer)) = self.writers.get_mut(self.current) {
            write(writer, &mut self.text);
        }
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
    fn turn_to(&mut self, id: TraceId, source: &Source) -> Result<(), E> {
        let known = self.writers.iter().position(|(other, _)| *other == id);
        self.current = known.unwrap_or(self.writers.len());
        if known.is_none() {
            self.writers.push((id, (self.make)(source)?));
        }
        Ok(())
    }

    /// Hands on what was written.
    pub fn flush(&mut self) -> ControlFlow<()> {
        let written = (self.output)(&self.text);
        self.text.clear();
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: E) -> ControlFlow<()> {
        self.failure = Some(error);
        ControlFlow::Break(())
    }
}

impl<T, W: Writer<T>, E> ItemSink<T> for Pages<'_, W, E> {
    type Says = ControlFlow<()>;

    fn take(&mut self, item: Item<'_, T>, _known: Known) -> ControlFlow<()> {
        self.write(item.source, |writer, text| writer.item(&item, text))
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
        self.write(executor.source, |writer, text| writer.path(path, executor, items, text))
    }
}
