//! Where captures are cut into pieces.

use std::path::Path;
use std::str::FromStr;

use backsight::decode::{Consumer, Cut, Stretch};
use backsight::flow::{ByPath, PathId, Range};
use backsight::{Capture, Event, Item, Source};
use backsight_profile::{CountOptions, Counter};

use crate::identity::Identity;
use crate::piece::{Carried, Piece};
use crate::rows::{Branches, Follow as _, OfSource};
use crate::table::{Field, Table};
use crate::texts::TextId;
use crate::tracker::time_of;
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

/// What is wanted of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The rows of a table: those of the pieces, one piece after the other, are the rows of the capture.
    Rows(Table),
    /// Profiles: each piece can be counted by itself ([`Piece::profile`]), and all profiles merged are that of the capture. Rows of
    /// `ranges`, `branches` and `events` can be read from such pieces, too.
    Profile,
}

impl Wanted {
    /// What profiles are called among the names of tables.
    const PROFILE: &str = "profile";

    fn is_cut(self) -> bool {
        match self {
            Self::Rows(table) => table.is_cut(),
            Self::Profile => true,
        }
    }
}

impl From<Table> for Wanted {
    fn from(table: Table) -> Self {
        Self::Rows(table)
    }
}

impl FromStr for Wanted {
    type Err = Error;

    /// The name of a table, or `profile`.
    fn from_str(name: &str) -> Result<Self> {
        if name == Self::PROFILE {
            return Ok(Self::Profile);
        }
        Table::named(name).map(Self::Rows).ok_or_else(|| Table::unknown(name, Some(Self::PROFILE)))
    }
}

/// Plans the pieces of a capture that was opened from `path`, for the rows of a table or for profiles.
///
/// Where a source can be cut is found by decoding it once: the decoder goes through all of it, and another one begins again at
/// synchronisations. Only where both come to know the same there is a cut. Sources that are short, and those whose protocol
/// cannot be taken up in the middle, are one piece, and are not decoded.
///
/// # Errors
/// If the capture cannot be read.
pub fn plan(
    wanted: impl Into<Wanted>,
    capture: &Capture,
    path: &Path,
    options: PlanOptions,
) -> Result<Vec<Piece>> {
    let wanted = wanted.into();
    if path == Path::new("-") {
        return Err(Error::misuse("standard input cannot be cut into pieces: it can be read once only"));
    }
    let identity = Identity::of(path)?;
    let mut pieces = Vec::new();
    for buffer in capture.buffers() {
        let contents = buffer.contents()?;
        let of = |source| Piece {
            capture: path.to_owned(),
            name: capture.name().to_owned(),
            identity,
            buffer: buffer.name().to_owned(),
            source,
            start: None,
            end: None,
            latest: None,
            carried: Vec::new(),
            pending: Vec::new(),
            counted: None,
        };
        for (source, bytes) in &contents.sources {
            let whole = of(Some(source.id().get()));
            let is_long = *bytes / 2 >= options.bytes as u64;
            match wanted.is_cut() && is_long && source.is_decoded() {
                true => pieces.extend(cut(whole, wanted, capture, source, options)?),
                false => pieces.push(whole),
            }
        }
        if wanted == Wanted::Rows(Table::Damage) {
            pieces.push(of(None));
        }
    }
    Ok(pieces)
}

/// The pieces of a source.
fn cut(
    whole: Piece,
    wanted: Wanted,
    capture: &Capture,
    source: &Source,
    options: PlanOptions,
) -> Result<Vec<Piece>> {
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
        whole: whole.clone(),
        branches: Branches::new(of, code, &fields, Vec::new(), Vec::new()),
        rows: Vec::new(),
        paths: ByPath::default(),
        stretch: Stretch::default(),
        counter: (wanted == Wanted::Profile).then(|| Counter::new(source, code, &CountOptions::default())),
        latest: None,
        found: Vec::new(),
    };
    capture.execution().find_cuts(source.buffer(), source.id(), options.bytes, &mut cuts)?;
    let mut pieces = vec![whole];
    for piece in cuts.found {
        // Each ends where the next one begins.
        if let (Some(last), Some(cut)) = (pieces.last_mut(), piece.start) {
            last.end = Some(cut.offset);
        }
        pieces.push(piece);
    }
    Ok(pieces)
}

/// Looks at what is executed before each cut.
struct Cuts<'c> {
    whole: Piece,
    branches: Branches<'c>,
    rows: Vec<<Branches<'c> as crate::rows::Rows>::Row>,
    /// How the paths end that the follower has named.
    paths: ByPath<PathEnd>,
    /// Bytes of the source around what was reported last.
    stretch: Stretch,
    counter: Option<Counter<'c>>,
    latest: Option<u64>,
    found: Vec<Piece>,
}

impl Consumer<Event> for Cuts<'_> {
    fn item(&mut self, item: Item<'_, Event>) {
        self.counter.iter_mut().for_each(|counter| counter.push(item.sub_source, &item.value));
        self.latest = self.latest.max(time_of(&item.value));
        self.follow(&item);
    }

    /// Of the ranges of a path, only the last one matters to what comes after it.
    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, hart: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        let mut items = items.peekable();
        let (Some(&PathEnd { range, distance }), Some(first)) = (self.paths.get(path), items.peek()) else {
            return self.learn(path, hart, &items.collect::<Vec<_>>());
        };
        let offset = first.offset + distance;
        if !self.stretch.contains(offset) {
            self.stretch = first.stretch_at(offset).unwrap_or_default();
        }
        self.branches.walk(hart, &range, offset, offset.wrapping_add(self.stretch.displacement));
        if let Some(counter) = &mut self.counter {
            counter.path(path, hart, items);
        }
    }

    fn cut(&mut self, cut: Cut) {
        let (harts, pending) = self.branches.hand_over();
        let carried = harts.iter().map(Carried::of).collect();
        let counted = self.counter.as_ref().map(Counter::hand_over);
        let (start, latest) = (Some(cut), self.latest);
        self.found.push(Piece { start, latest, carried, pending, counted, ..self.whole.clone() });
    }
}

impl Cuts<'_> {
    fn follow(&mut self, item: &Item<'_, Event>) {
        self.branches.event(item, &mut self.rows);
        if self.rows.len() >= 1 << 12 {
            self.rows.clear();
            crate::rows::Rows::clear(&mut self.branches);
        }
    }

    /// A path comes for the first time.
    #[inline(never)]
    fn learn(&mut self, path: PathId, hart: u16, items: &[Item<'_, Event>]) {
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return };
        if let Event::Range(range) = last.value {
            self.paths.insert(path, PathEnd { range, distance: last.offset.saturating_sub(first.offset) });
        }
        items.iter().for_each(|item| self.follow(item));
        if let Some(counter) = &mut self.counter {
            counter.path(path, hart, items.iter().copied());
        }
    }
}

/// How a path ends: its last range, and by how much the offset of that is larger than the offset of its first.
#[derive(Clone, Copy)]
struct PathEnd {
    range: Range,
    distance: u64,
}
