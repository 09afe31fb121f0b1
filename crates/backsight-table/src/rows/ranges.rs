//! `ranges`: what was executed.

use backsight::core::Isa;
use backsight::flow::Range;
use backsight::image::Window;
use backsight::{Event, Item, SourceCode};

use super::{Follow, OfSource, Place, Rows, fill_names};
use crate::data::ColumnData;
use crate::names::Names;
use crate::table::Field;
use crate::texts::{TextId, Texts};
use crate::tracker::{Now, Tracker};

/// A range.
pub(crate) struct RangeRow {
    range: Range,
    place: Place,
}

/// The ranges of a source.
pub(crate) struct Ranges<'c> {
    of: OfSource,
    names: Names<'c>,
    tracker: Tracker,
    /// Somebody asks where in the buffer they were reported.
    positions: bool,
}

impl<'c> Ranges<'c> {
    pub fn new(of: OfSource, code: SourceCode<'c>, fields: &[Field], harts: Vec<Now>) -> Self {
        let positions = fields.contains(&Field::Position);
        Self { of, names: Names::new(code, fields), tracker: Tracker::new(harts), positions }
    }
}

impl Rows for Ranges<'_> {
    type Row = RangeRow;

    fn fill(&mut self, field: Field, rows: &[RangeRow], out: &mut ColumnData, texts: &mut Texts) {
        match field {
            Field::Start => out.numbers(rows.iter().map(|row| row.range.start.0)),
            Field::End => out.numbers(rows.iter().map(|row| row.range.end.0)),
            Field::Instructions => out.numbers(rows.iter().map(|row| row.range.instructions.into())),
            Field::Taken => out.flags(rows.iter().map(|row| row.range.executed)),
            Field::Conditional => out.flags(rows.iter().map(|row| row.range.flags.conditional)),
            Field::Isa => fill_isa(rows.iter().map(|row| row.range.isa), out, texts),
            Field::Ending => out.words(
                rows.iter()
                    .map(|row| texts.optional(Some(row.range.ending()).filter(|ending| !ending.is_empty()))),
            ),
            _ if self.of.fill(field, rows.len(), out) => {}
            _ if Place::fill(field, rows.iter().map(|row| &row.place), &self.tracker.states, out, texts) => {}
            _ => {
                let states = &self.tracker.states;
                let space = |row: &RangeRow| states.get(row.place.state as usize).map(|now| now.space);
                let addresses = rows.iter().map(|row| Some((space(row)?, row.range.start)));
                fill_names(field, addresses, &mut self.names, out, texts);
            }
        }
    }

    fn clear(&mut self) {
        self.tracker.clear();
    }
}

/// Instruction sets by name.
pub(super) fn fill_isa(all: impl Iterator<Item = Isa>, out: &mut ColumnData, texts: &mut Texts) {
    let mut last = (None, TextId::NONE);
    out.words(all.map(|isa| {
        if last.0 != Some(isa) {
            last = (Some(isa), texts.id(isa.name()));
        }
        last.1
    }));
}

impl Follow for Ranges<'_> {
    #[inline(always)]
    fn event(&mut self, item: &Item<'_, Event>, rows: &mut Vec<RangeRow>) {
        self.tracker.turn_to(item.sub_source);
        let Event::Range(range) = item.value else {
            return self.tracker.event(&item.value, &self.names.code);
        };
        let position = if self.positions { item.position().unwrap_or(item.offset) } else { 0 };
        let place = Place { offset: item.offset, position, state: self.tracker.index() };
        rows.push(RangeRow { range, place });
    }

    fn enter(&mut self, window: Window) {
        enter(&mut self.names, &mut self.tracker, window);
    }
}

/// Goes to another time.
pub(super) fn enter(names: &mut Names<'_>, tracker: &mut Tracker, window: Window) {
    if !names.code.enter(window).is_empty() {
        names.forget();
    }
    let code = names.code;
    tracker.renew_spaces(&code);
}
