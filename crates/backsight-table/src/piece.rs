//! A piece of a capture, which can be read on its own.

use std::path::{Path, PathBuf};

use backsight::core::{AddressSpace, Context, TraceId};
use backsight::decode::{Cut, Span};
use backsight::image::Code as _;
use backsight::{Capture, OpenOptions, SourceCode};

use crate::Result;
use crate::identity::{Guard, Identity};
use crate::rows::Pending;
use crate::tracker::Now;

/// A piece of a capture: a source of a buffer, or the span of it between two cuts, or what there is to say of a buffer as a
/// whole. It says all that a reader has to know: pieces are read anywhere, in any order, and their rows put together are
/// those of the capture. [`Piece::to_json`] and [`Piece::from_json`] carry it elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Where the capture is.
    pub capture: PathBuf,
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
    /// What held for each hart where it begins.
    pub(crate) carried: Vec<Carried>,
    /// Branches whose targets are in this piece.
    pub(crate) pending: Vec<Pending>,
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
