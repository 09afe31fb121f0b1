//! Decodes whose result is text, or other bytes, written source by source.

use std::ops::ControlFlow;

use backsight_core::TraceId;

use super::consumers::{Pool, Text, Writer};
use super::kind::Kind;
use super::pages::{Make, Output, Pages};
use super::session::{End, Order, Session, Setup};
use super::source_decoder::{ItemSink as _, Known};
use super::summary::{BufferSummary, Summary};
use super::{Decode, Spread, parallel, pieces};
use crate::{Buffer, Error, Source};

/// What [`Decode::write`] gives.
#[derive(Clone, Copy, Debug)]
pub enum Portion<'a> {
    /// A buffer begins.
    Buffer(&'a Buffer),
    /// More text.
    Text(&'a [u8]),
}

impl<'c, K: Kind> Decode<'c, K> {
    /// Decodes, and lets a writer of each source put what it gives into text (or other bytes), on the thread of that
    /// source. The text comes to `output` in order, portion by portion.
    ///
    /// # Errors
    /// As [`Decode::run`]; and what `make` and `output` say.
    pub fn write<W, E>(
        self,
        mut make: impl FnMut(&Source) -> Result<W, E>,
        mut output: impl FnMut(Portion<'_>) -> Result<(), E>,
    ) -> Result<Summary, E>
    where
        W: Writer<K::Value>,
        E: From<Error>,
    {
        let mut summary = self.empty_summary();
        for setup in self.setups()? {
            output(Portion::Buffer(setup.buffer))?;
            let mut text = |text: &[u8]| output(Portion::Text(text));
            let of_buffer = match self.spread(&setup) {
                Spread::Sources => self.write_threads(&setup, &mut make, &mut text)?,
                Spread::Pieces(id) => self.write_pieces(setup, id, &mut make, &mut text)?,
                Spread::None => self.write_here(setup, &mut make, &mut text)?,
            };
            summary.buffers.push(of_buffer);
        }
        Ok(summary)
    }

    fn write_here<W: Writer<K::Value>, E: From<Error>>(
        &self,
        setup: Setup<'c, K>,
        make: Make<'_, W, E>,
        output: Output<'_, E>,
    ) -> Result<BufferSummary, E> {
        let (buffer, fill) = (setup.buffer, setup.order == Order::Blocks);
        let mut session = Session::new(setup);
        let mut pages = Pages::new(make, output);
        self.blocks(buffer, fill, &mut |block| {
            session.feed_to(block, &mut pages)?;
            pages.flush()
        })?;
        if pages.failure.is_none() {
            let _ = session.finish_with(&mut |end| match end {
                End::Item(item) => pages.take(item, Known::Unasked),
                End::Source(source) => pages.end(source),
            });
            let _ = pages.flush();
        }
        match pages.failure {
            Some(failure) => Err(failure),
            None => Ok(session.buffer_summary()),
        }
    }

    fn write_threads<W: Writer<K::Value>, E: From<Error>>(
        &self,
        setup: &Setup<'c, K>,
        make: Make<'_, W, E>,
        output: Output<'_, E>,
    ) -> Result<BufferSummary, E> {
        let (pool, mut failure) = (&Pool::default(), None);
        let mut make = |source: &Source| {
            make(source).map(|writer| Text { writer, text: Vec::new(), pool, with_counts: false })
        };
        let mut each = |(text, _): (Vec<u8>, u64)| hand_on(text, pool, output, &mut failure);
        let (summary, _) =
            parallel::run(setup, self.settings.threads, &mut self.reader(setup), &mut make, &mut each)?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(summary),
        }
    }

    /// Where what is written depends on what was written before, one thread does it all: to hand items from thread to thread
    /// takes longer than to decode them.
    fn write_pieces<W: Writer<K::Value>, E: From<Error>>(
        &self,
        setup: Setup<'c, K>,
        id: TraceId,
        make: Make<'_, W, E>,
        output: Output<'_, E>,
    ) -> Result<BufferSummary, E> {
        let Some(source) = setup.decoder(id).map(|decoder| decoder.source) else {
            return Err(Error::misuse("the source cannot be decoded").into());
        };
        let mut counting = make(&source)?;
        if !counting.is_local() {
            drop(counting);
            return self.write_here(setup, make, output);
        }
        let (pool, mut failure) = (&Pool::default(), None);
        let mut make = |source: &Source| {
            make(source).map(|writer| Text { writer, text: Vec::new(), pool, with_counts: true })
        };
        let mut each = |(text, count): (Vec<u8>, u64)| {
            counting.add_count(count);
            hand_on(text, pool, output, &mut failure)
        };
        let (options, mut read) = (self.piece_options(), self.reader(&setup));
        let (summary, _) = pieces::run(&setup, id, options, &mut read, &mut make, &mut each)?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(summary),
        }
    }
}

/// Gives text to the output, and its memory back to the pool.
fn hand_on<E>(text: Vec<u8>, pool: &Pool, output: Output<'_, E>, failure: &mut Option<E>) -> ControlFlow<()> {
    let written = output(&text);
    pool.give_back(text);
    match written {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *failure = Some(error);
            ControlFlow::Break(())
        }
    }
}
