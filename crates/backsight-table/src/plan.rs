//! Where captures are cut into pieces.

use std::path::Path;

use backsight::decode::{Cut, CutSink};
use backsight::{Capture, Event, Item, Source};

use crate::identity::Identity;
use crate::piece::{Carried, Piece};
use crate::rows::{Branches, Follow as _, OfSource, Pending};
use crate::table::{Field, Table};
use crate::texts::TextId;
use crate::tracker::Now;
use crate::{Error, Result};

/// How captures are cut.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Bytes of trace of a piece, about.
    pub bytes: usize,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { bytes: 8 << 20 }
    }
}

/// Plans the pieces of a capture that was opened from `path`, for a table. Rows of the pieces, one piece after the other, are
/// the rows of the capture.
///
/// Where a source can be cut is found by decoding it once: the decoder goes through all of it, and another one begins anew at
/// synchronisations. Only where both come to know the same there is a cut. Sources that are short, and those whose protocol
/// cannot be taken up in the middle, are one piece, and are not decoded.
///
/// # Errors
/// If the capture cannot be read.
pub fn plan(table: Table, capture: &Capture, path: &Path, options: PlanOptions) -> Result<Vec<Piece>> {
    if path == Path::new("-") {
        return Err(Error::misuse("standard input cannot be cut into pieces: it can be read once only"));
    }
    let identity = Identity::of(path)?;
    let mut pieces = Vec::new();
    for buffer in capture.buffers() {
        let contents = buffer.contents()?;
        let of = |source| Piece {
            capture: path.to_owned(),
            identity,
            buffer: buffer.name().to_owned(),
            source,
            start: None,
            end: None,
            carried: Vec::new(),
            pending: Vec::new(),
        };
        for (source, bytes) in &contents.sources {
            let whole = of(Some(source.id().get()));
            let is_long = *bytes / 2 >= options.bytes as u64;
            match table.is_cut() && is_long && source.is_decoded() {
                true => pieces.extend(cut(whole, capture, source, options)?),
                false => pieces.push(whole),
            }
        }
        if table == Table::Damage {
            pieces.push(of(None));
        }
    }
    Ok(pieces)
}

/// The pieces of a source.
fn cut(whole: Piece, capture: &Capture, source: &Source, options: PlanOptions) -> Result<Vec<Piece>> {
    let of = OfSource {
        capture: TextId::NONE,
        buffer: TextId::NONE,
        source: None,
        core: TextId::NONE,
        thread: source.thread(),
    };
    let code = capture.code()?.seen_by(source);
    // Positions of branches that wait are handed over.
    let fields = [Field::Position];
    let mut cuts = Cuts {
        branches: Branches::new(of, code, &fields, Vec::new(), Vec::new()),
        rows: Vec::new(),
        found: Vec::new(),
    };
    capture.execution().find_cuts(source.buffer(), source.id(), options.bytes, &mut cuts)?;
    let ends: Vec<_> = cuts.found.iter().map(|(cut, ..)| Some(cut.offset)).chain([None]).collect();
    let mut pieces = vec![Piece { end: ends.first().copied().flatten(), ..whole.clone() }];
    for ((cut, harts, pending), end) in cuts.found.into_iter().zip(ends.into_iter().skip(1)) {
        let carried = harts.iter().map(Carried::of).collect();
        pieces.push(Piece { start: Some(cut), end, carried, pending, ..whole.clone() });
    }
    Ok(pieces)
}

/// Looks at what is executed before each cut.
struct Cuts<'c> {
    branches: Branches<'c>,
    rows: Vec<<Branches<'c> as crate::rows::Rows>::Row>,
    found: Vec<(Cut, Vec<Now>, Vec<Pending>)>,
}

impl CutSink<Event> for Cuts<'_> {
    fn item(&mut self, item: Item<'_, Event>) {
        self.branches.event(&item, &mut self.rows);
        if self.rows.len() >= 1 << 12 {
            self.rows.clear();
            crate::rows::Rows::clear(&mut self.branches);
        }
    }

    fn cut(&mut self, cut: Cut) {
        let (harts, pending) = self.branches.hand_over();
        self.found.push((cut, harts, pending));
    }
}
