//! A piece of a capture, which can be read on its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use backsight::core::{AddressSpace, Context, TraceId};
use backsight::decode::{Cut, Span};
use backsight::image::Code as _;
use backsight::{Capture, OpenOptions, SourceCode};
use backsight_profile::{CountOptions, Handover, Profile};

use crate::identity::{Guard, Identity};
use crate::rows::Pending;
use crate::tracker::Now;
use crate::{Error, Result};

/// A piece of a capture: a source of a buffer, or the span of it between two cuts, or what there is to say of a buffer as a
/// whole. It says all that a reader has to know: pieces are read anywhere, in any order, and their rows put together are
/// those of the capture. [`Piece::to_json`] and [`Piece::from_json`] carry it elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Where the capture is.
    pub capture: PathBuf,
    /// What the capture is called, wherever it is: the column `capture`.
    pub name: String,
    /// What the capture was when the piece was planned.
    pub identity: Identity,
    /// The buffer.
    pub buffer: String,
    /// The trace ID of the source; `None`: the buffer as a whole.
    pub source: Option<u8>,
    /// Where it begins; `None`: where the source begins.
    pub start: Option<Cut>,
    /// Where in the stream of the source it ends; `None`: where the source ends.
    pub end: Option<u64>,
    /// The latest time before it.
    pub(crate) latest: Option<u64>,
    /// What held for each hart where it begins.
    pub(crate) carried: Vec<Carried>,
    /// Branches whose targets are in this piece.
    pub(crate) pending: Vec<Pending>,
    /// What the counter of the piece before it knows, where it was planned for profiles.
    pub(crate) counted: Option<Handover>,
}

/// What held for a hart where a piece begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Carried {
    pub hart: u16,
    pub time: Option<u64>,
    pub cycles: Option<u64>,
    pub context: Option<Context>,
}

impl Carried {
    pub fn of(now: &Now) -> Self {
        let Now { hart, time, cycles, context, space: _ } = *now;
        Self { hart, time, cycles, context }
    }

    pub fn now(&self, code: Option<&SourceCode<'_>>) -> Now {
        let Self { hart, time, cycles, context } = *self;
        let space = code.zip(context).map_or(AddressSpace::ANY, |(code, context)| code.space_of(&context));
        Now { hart, time, cycles, context, space }
    }
}

impl Piece {
    /// The capture is here: it was copied.
    #[must_use]
    pub fn at(mut self, capture: impl AsRef<Path>) -> Self {
        self.capture = capture.as_ref().to_owned();
        self
    }

    /// The capture is called this: what it is known by to all who ask, wherever it was copied to.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Counts what was executed in it. The profiles of all pieces of a capture, merged in whatever order, are the profile of the
    /// capture with calls [by core](CountOptions::by_core). `stop` ends the count early where it is set.
    ///
    /// # Errors
    /// If the capture is not what it was, or the piece was planned for something else than profiles.
    pub fn profile(&self, capture: &Capture, stop: Option<Arc<AtomicBool>>) -> Result<Profile> {
        let guard = self.guard()?;
        let execution =
            || stop.iter().fold(capture.execution(), |decode, stop| decode.stop_on(Arc::clone(stop)));
        let Some(source) = self.source else { return Ok(Profile::default()) };
        let mut profile = if self.is_cut() {
            if self.start.is_some() && self.counted.is_none() {
                return Err(Error::misuse(
                    "a profile cannot be counted from this piece: plan pieces for profiles",
                ));
            }
            let context_of = |hart: u16| self.carried.iter().find(|known| known.hart == hart)?.context;
            let span = self.span();
            backsight_profile::count_part(
                capture,
                execution(),
                &span,
                &self.name,
                self.counted.as_ref(),
                &context_of,
            )?
        } else {
            let decode = execution().buffer(&self.buffer).id(source.into());
            let options = CountOptions { by_core: true, ..CountOptions::default() };
            backsight_profile::count(capture, decode, &options)?.0
        };
        profile.threads.iter_mut().for_each(|thread| self.name.clone_into(&mut thread.capture));
        guard.check()?;
        Ok(profile)
    }

    /// Opens its capture, as it was opened when the piece was planned.
    ///
    /// # Errors
    /// If it cannot be opened, or is not what it was.
    pub fn open(&self, options: OpenOptions) -> Result<Capture> {
        self.identity.check(&self.capture)?;
        Ok(options.open(&self.capture)?)
    }

    /// Is it a part of a source only?
    pub fn is_cut(&self) -> bool {
        self.start.is_some() || self.end.is_some()
    }

    pub(crate) fn guard(&self) -> Result<Guard> {
        self.identity.check(&self.capture)?;
        Guard::new(&self.capture)
    }

    pub(crate) fn span(&self) -> Span {
        let id = TraceId::new(self.source.unwrap_or(0));
        Span { buffer: self.buffer.clone(), id, start: self.start, end: self.end }
    }

    /// What held where it begins.
    pub(crate) fn handed_over(&self, code: &SourceCode<'_>) -> (Vec<Now>, Vec<Pending>) {
        let renewed =
            |pending: &Pending| Pending { now: Carried::of(&pending.now).now(Some(code)), ..*pending };
        let harts = self.carried.iter().map(|carried| carried.now(Some(code))).collect();
        (harts, self.pending.iter().map(renewed).collect())
    }
}
