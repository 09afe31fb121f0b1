//! `ranges`: what was executed.

use backsight::SourceCode;
use backsight::core::Isa;

use super::blocks::Block;
use super::{OfSource, Place, Rows, fill_names};
use crate::data::{ColumnData, Layout};
use crate::names::Names;
use crate::table::Field;
use crate::texts::{TextId, Texts};
use crate::tracker::{Now, Tracker};

/// A range, and where it was reported.
pub(crate) struct RangeRow {
    pub block: Block,
    pub place: Place,
}

/// The ranges of a source.
pub(crate) struct Ranges<'c> {
    of: OfSource,
    pub names: Names<'c>,
    pub tracker: Tracker,
}

impl<'c> Ranges<'c> {
    pub fn new(of: OfSource, code: SourceCode<'c>, fields: &[Field], harts: Vec<Now>) -> Self {
        Self { of, names: Names::new(code, fields), tracker: Tracker::new(harts) }
    }

    /// What decides the values of a column.
    pub fn layout(field: Field) -> Layout {
        match field {
            Field::Capture | Field::Buffer | Field::Source | Field::Core | Field::Thread => Layout::Once,
            Field::Position | Field::Offset => Layout::Rows,
            Field::Hart
            | Field::Space
            | Field::Level
            | Field::Privilege
            | Field::Vmid
            | Field::Context
            | Field::Time
            | Field::Cycles => Layout::States,
            _ => Layout::Blocks,
        }
    }

    /// Fills a column of which all rows have the same value.
    pub fn fill_once(&self, field: Field, rows: usize, out: &mut ColumnData) {
        self.of.fill(field, rows, out);
    }

    /// Fills a column that depends on where and when something was reported.
    pub fn fill_places(
        &self,
        field: Field,
        places: impl Iterator<Item = Place>,
        out: &mut ColumnData,
        texts: &mut Texts,
    ) {
        Place::fill(field, places, &self.tracker.states, out, texts);
    }

    /// Fills a column that depends on nothing but what was executed.
    pub fn fill_blocks<'b>(
        &mut self,
        field: Field,
        blocks: impl Iterator<Item = &'b Block>,
        out: &mut ColumnData,
        texts: &mut Texts,
    ) {
        match field {
            Field::Start => out.numbers(blocks.map(|block| block.range.start.0)),
            Field::End => out.numbers(blocks.map(|block| block.range.end.0)),
            Field::Instructions => out.numbers(blocks.map(|block| block.range.instructions.into())),
            Field::Taken => out.flags(blocks.map(|block| block.range.executed)),
            Field::Conditional => out.flags(blocks.map(|block| block.range.flags.conditional)),
            Field::Isa => fill_isa(blocks.map(|block| block.range.isa), out, texts),
            Field::Ending => out.words(blocks.map(|block| {
                let ending = block.range.ending();
                texts.optional(Some(ending).filter(|ending| !ending.is_empty()))
            })),
            _ => {
                let addresses = blocks.map(|block| Some((block.space, block.range.start)));
                fill_names(field, addresses, &mut self.names, out, texts);
            }
        }
    }
}

/// Row by row: for the few rows that are not worth a batch of their own.
impl Rows for Ranges<'_> {
    type Row = RangeRow;

    fn fill(&mut self, field: Field, rows: &[RangeRow], out: &mut ColumnData, texts: &mut Texts) {
        match Self::layout(field) {
            Layout::Once => self.fill_once(field, rows.len(), out),
            Layout::Rows | Layout::States => {
                self.fill_places(field, rows.iter().map(|row| row.place), out, texts)
            }
            Layout::Blocks => self.fill_blocks(field, rows.iter().map(|row| &row.block), out, texts),
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

/// Goes to another time.
pub(super) fn enter(names: &mut Names<'_>, tracker: &mut Tracker, window: backsight::image::Window) {
    if !names.code.enter(window).is_empty() {
        names.forget();
    }
    let code = names.code;
    tracker.renew_spaces(&code);
}
