//! Windows on their way to text.

use backsight_flow::Event;

use super::moment::Window;
use super::reach::{Found, Moments};
use super::windowed::InWindow;
use crate::decode::{Decode, Execution, Writer};
use crate::{Error, Item, Source};

/// Text that is enough to be handed on.
const ENOUGH: usize = 1 << 16;

impl<'c> Moments<'c> {
    /// Lets a writer put a window of a source into text, which comes to `output`, portion by portion. With `needs_all` it learns
    /// everything that comes before the window since the nearest point, and what it writes of that is dropped.
    ///
    /// # Errors
    /// As [`Moments::take`]; and what `output` says.
    pub fn write<W: Writer<Event>, E: From<Error>>(
        &self,
        decode: Decode<'c, Execution>,
        source: &Source,
        window: Window,
        (writer, needs_all): (W, bool),
        output: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Found, E> {
        let (text, failure) = Default::default();
        let mut state = Listed { writer, text, output, failure, needs_all };
        let found = self.take(decode, source, window, &mut state)?;
        state.writer.finish(&mut state.text);
        state.flush();
        match state.failure {
            Some(failure) => Err(failure),
            None => Ok(found),
        }
    }
}

struct Listed<'o, W, E> {
    writer: W,
    text: Vec<u8>,
    output: &'o mut dyn FnMut(&[u8]) -> Result<(), E>,
    failure: Option<E>,
    needs_all: bool,
}

impl<W, E> Listed<'_, W, E> {
    fn flush(&mut self) {
        if self.failure.is_none() && !self.text.is_empty() {
            self.failure = (self.output)(&self.text).err();
        }
        self.text.clear();
    }
}

impl<W: Writer<Event>, E> InWindow for Listed<'_, W, E> {
    fn has_enough(&self) -> bool {
        self.failure.is_some()
    }

    fn item(&mut self, item: Item<'_, Event>) {
        self.writer.item(&item, &mut self.text);
        if self.text.len() >= ENOUGH {
            self.flush();
        }
    }

    fn before(&mut self, item: Item<'_, Event>) {
        self.writer.item(&item, &mut self.text);
        self.writer.take_count();
        self.text.clear();
    }

    fn needs_all(&self) -> bool {
        self.needs_all
    }
}
