//! Listings of a decode, and of a window. They are compiled here, once: decoders are compiled again for each consumer that takes
//! whole paths, in the crate that names it.

use std::ops::ControlFlow;

use backsight_flow::Event;

use super::{BranchWriter, ExecutionWriter, MessageWriter, PacketWriter};
use crate::decode::{Branches, Consumer, Decode, Execution, Kind, Packets, Summary, Written};
use crate::moments::{Found, Moments, Window};
use crate::{Error, Result, Source};

/// Takes what is written, portion by portion. After a break there is no more.
pub type Put<'p> = &'p mut dyn FnMut(Written<'_>) -> ControlFlow<()>;

/// Makes the writer of a source.
pub type Make<'m, W> = &'m (dyn Fn(&Source) -> Result<W> + Sync);

impl PacketWriter {
    /// Lists packets, with clones of this writer. `None` if `put` wanted no more.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn write(&self, decode: Decode<'_, Packets>, put: Put<'_>) -> Result<Option<Summary>> {
        write(decode, &|_| Ok(self.clone()), put)
    }
}

impl ExecutionWriter<'_> {
    /// Lists execution, with a writer for each source. `None` if `put` wanted no more.
    ///
    /// # Errors
    /// As [`Decode::run`], and what `make` says.
    pub fn write<'i>(
        decode: Decode<'_, Execution>,
        make: Make<'_, ExecutionWriter<'i>>,
        put: Put<'_>,
    ) -> Result<Option<Summary>> {
        write(decode, make, put)
    }

    /// Lists a window of a source. `None` if `put` wanted no more.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn write_window<'c>(
        self,
        moments: &Moments<'c>,
        decode: Decode<'c, Execution>,
        (source, window): (&Source, Window),
        put: Put<'_>,
    ) -> Result<Option<Found>> {
        let needs_all = self.needs_all();
        write_window(moments, decode, (source, window), (self, needs_all), put)
    }
}

impl MessageWriter {
    /// Lists messages, with a writer for each source. `None` if `put` wanted no more.
    ///
    /// # Errors
    /// As [`Decode::run`], and what `make` says.
    pub fn write(
        decode: Decode<'_, Execution>,
        make: Make<'_, Self>,
        put: Put<'_>,
    ) -> Result<Option<Summary>> {
        write(decode, make, put)
    }

    /// Lists the messages in a window of a source. `None` if `put` wanted no more.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn write_window<'c>(
        self,
        moments: &Moments<'c>,
        decode: Decode<'c, Execution>,
        (source, window): (&Source, Window),
        put: Put<'_>,
    ) -> Result<Option<Found>> {
        write_window(moments, decode, (source, window), (self, false), put)
    }
}

impl BranchWriter<'_> {
    /// Lists branches of execution, with a writer for each source. `None` if `put` wanted no more.
    ///
    /// # Errors
    /// As [`Decode::run`], and what `make` says.
    pub fn write(
        decode: Decode<'_, Execution>,
        make: Make<'_, Self>,
        put: Put<'_>,
    ) -> Result<Option<Summary>> {
        write(decode, make, put)
    }

    /// The same where packets name the targets.
    ///
    /// # Errors
    /// As [`Decode::run`], and what `make` says.
    pub fn write_from_packets(
        decode: Decode<'_, Branches>,
        make: Make<'_, Self>,
        put: Put<'_>,
    ) -> Result<Option<Summary>> {
        write(decode, make, put)
    }

    /// Lists the branches in a window of a source. `None` if `put` wanted no more.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn write_window<'c>(
        self,
        moments: &Moments<'c>,
        decode: Decode<'c, Execution>,
        (source, window): (&Source, Window),
        put: Put<'_>,
    ) -> Result<Option<Found>> {
        write_window(moments, decode, (source, window), (self, true), put)
    }
}

/// Why a listing ends early.
enum Stop {
    Refused,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A listing that was refused has no result, and that is no error.
fn unless_refused<T>(outcome: Result<T, Stop>) -> Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(Stop::Refused) => Ok(None),
        Err(Stop::Failed(error)) => Err(error),
    }
}

fn write<K: Kind, W: Consumer<K::Value> + Send>(
    decode: Decode<'_, K>,
    make: Make<'_, W>,
    put: Put<'_>,
) -> Result<Option<Summary>> {
    let put = |written: Written<'_>| match put(written) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Stop::Refused),
    };
    unless_refused(decode.write(|source| make(source).map_err(Stop::Failed), put))
}

fn write_window<'c, W: Consumer<Event>>(
    moments: &Moments<'c>,
    decode: Decode<'c, Execution>,
    (source, window): (&Source, Window),
    writer: (W, bool),
    put: Put<'_>,
) -> Result<Option<Found>> {
    let mut put = |text: &[u8]| match put(Written::Text(text)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Stop::Refused),
    };
    unless_refused(moments.write(decode, source, window, writer, &mut put))
}
