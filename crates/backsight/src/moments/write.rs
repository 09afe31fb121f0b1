//! Windows on their way to text.

use backsight_flow::Event;

use super::moment::Window;
use super::place::Place;
use super::reach::{Found, Moments};
use super::windowed::InWindow;
use crate::calls::KnownCalls;
use crate::decode::{Consumer, Decode, Execution};
use crate::{Error, Item, Source};

/// Text that is enough to be handed on.
const ENOUGH: usize = 1 << 16;

impl<'c> Moments<'c> {
    /// Lets a writer put a window of a source into text, which comes to `output`, portion by portion. With `needs_all` it learns
    /// everything that comes before the window since the nearest point, and what it writes of that is dropped.
    ///
    /// # Errors
    /// As [`Moments::take`]; and what `output` says.
    pub fn write<W: Consumer<Event>, E: From<Error>>(
        &self,
        decode: Decode<'c, Execution>,
        source: &Source,
        window: Window,
        (writer, needs_all): (W, bool),
        output: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Found, E> {
        let mut state = Listed { writer, output, failure: None, needs_all };
        let found = self.take(decode, source, window, &mut state)?;
        state.writer.finish();
        state.flush();
        match state.failure {
            Some(failure) => Err(failure),
            None => Ok(found),
        }
    }
}

struct Listed<'o, W, E> {
    writer: W,
    output: &'o mut dyn FnMut(&[u8]) -> Result<(), E>,
    failure: Option<E>,
    needs_all: bool,
}

impl<W: Consumer<Event>, E> Listed<'_, W, E> {
    fn flush(&mut self) {
        let Some(text) = self.writer.text() else { return };
        if self.failure.is_none() && !text.is_empty() {
            self.failure = (self.output)(text).err();
        }
        text.clear();
    }
}

impl<W: Consumer<Event>, E> InWindow for Listed<'_, W, E> {
    fn has_enough(&self) -> bool {
        self.failure.is_some()
    }

    fn item(&mut self, item: Item<'_, Event>) {
        self.writer.item(item);
        if self.writer.text().is_some_and(|text| text.len() >= ENOUGH) {
            self.flush();
        }
    }

    fn before(&mut self, item: Item<'_, Event>) {
        self.writer.item(item);
        self.writer.text().into_iter().for_each(Vec::clear);
    }

    fn needs_all(&self) -> bool {
        self.needs_all
    }

    fn needs_calls(&self) -> bool {
        self.needs_all && self.writer.keeps_calls()
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        self.writer.resume(known);
    }

    fn begin(&mut self, _place: &Place) {
        self.writer.begin_window();
    }
}
