//! `branches`: every branch, with where it went.
//!
//! Where a branch went is known when execution goes on: the row of a branch that was taken waits for that.

use backsight::core::{Address, Isa};
use backsight::flow::Range;
use backsight::image::Window;
use backsight::isa::{Class, Flags};
use backsight::{Event, Item, SourceCode};

use super::ranges::{enter, fill_isa};
use super::{Follow, OfSource, Place, Rows, fill_names};
use crate::data::ColumnData;
use crate::names::Names;
use crate::table::Field;
use crate::texts::Texts;
use crate::tracker::{Now, Tracker};

/// A branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Branch {
    from: Address,
    isa: Isa,
    kind: &'static str,
    taken: bool,
    is_indirect: bool,
    is_conditional: bool,
}

impl Branch {
    fn of(range: &Range) -> Self {
        Self {
            from: Address(range.end.0.wrapping_sub(range.last_size.into())),
            isa: range.isa,
            kind: range.ending(),
            taken: range.executed,
            is_indirect: range.class == Class::IndirectBranch,
            is_conditional: range.flags.conditional,
        }
    }
}

/// A row.
pub(crate) struct BranchRow {
    branch: Branch,
    to: Option<Address>,
    place: Place,
}

/// A branch that was taken, of which nobody knows yet where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The range that it ends.
    pub range: Range,
    pub offset: u64,
    pub position: u64,
    /// What held when it was executed, with the number of the hart.
    pub now: Now,
}

impl Pending {
    /// The range of a branch, by what of it matters.
    pub fn range_of(from: Address, isa: Isa, class: Class, flags: Flags) -> Range {
        let (start, end) = (from, from);
        Range { start, end, instructions: 1, isa, class, flags, last_size: 0, executed: true }
    }
}

/// The branches of a source.
pub(crate) struct Branches<'c> {
    of: OfSource,
    names: Names<'c>,
    tracker: Tracker,
    positions: bool,
    pending: Vec<Pending>,
}

impl<'c> Branches<'c> {
    pub fn new(
        of: OfSource,
        code: SourceCode<'c>,
        fields: &[Field],
        harts: Vec<Now>,
        pending: Vec<Pending>,
    ) -> Self {
        let positions = fields.contains(&Field::Position);
        Self { of, names: Names::new(code, fields), tracker: Tracker::new(harts), positions, pending }
    }

    /// What another one has to know that goes on from here.
    pub fn hand_over(&self) -> (Vec<Now>, Vec<Pending>) {
        (self.tracker.harts().to_vec(), self.pending.clone())
    }

    /// A hart walked along a path whose last range was reported here. Nobody asks for the rows.
    pub fn walk(&mut self, hart: u16, last: &Range, offset: u64, position: u64) {
        self.tracker.turn_to(hart);
        if let Some(number) = self.pending.iter().position(|pending| pending.now.hart == hart) {
            self.pending.swap_remove(number);
        }
        if last.ends_in_branch() && last.executed {
            self.pending.push(Pending { range: *last, offset, position, now: *self.tracker.now() });
        }
    }

    /// Execution of the current hart goes on here, if that is known.
    fn arrive(&mut self, to: Option<Address>, rows: &mut Vec<BranchRow>) {
        let hart = self.tracker.now().hart;
        let Some(number) = self.pending.iter().position(|pending| pending.now.hart == hart) else { return };
        let Pending { range, offset, position, now } = self.pending.swap_remove(number);
        let place = Place { offset, position, state: self.tracker.index_of(now) };
        rows.push(BranchRow { branch: Branch::of(&range), to, place });
    }

    fn range(&mut self, range: Range, item: &Item<'_, Event>, rows: &mut Vec<BranchRow>) {
        if !self.pending.is_empty() {
            self.arrive(Some(range.start), rows);
        }
        if !range.ends_in_branch() {
            return;
        }
        let position = if self.positions { item.position().unwrap_or(item.offset) } else { 0 };
        let offset = item.offset;
        if range.executed {
            self.pending.push(Pending { range, offset, position, now: *self.tracker.now() });
        } else {
            let place = Place { offset, position, state: self.tracker.index() };
            rows.push(BranchRow { branch: Branch::of(&range), to: Some(range.end), place });
        }
    }
}

impl Rows for Branches<'_> {
    type Row = BranchRow;

    fn fill(&mut self, field: Field, rows: &[BranchRow], out: &mut ColumnData, texts: &mut Texts) {
        let states = &self.tracker.states;
        let space = |row: &BranchRow| states.get(row.place.state as usize).map(|now| now.space);
        match field {
            Field::From => out.numbers(rows.iter().map(|row| row.branch.from.0)),
            Field::To => out.optional_numbers(rows.iter().map(|row| Some(row.to?.0))),
            Field::Taken => out.flags(rows.iter().map(|row| row.branch.taken)),
            Field::Indirect => out.flags(rows.iter().map(|row| row.branch.is_indirect)),
            Field::Conditional => out.flags(rows.iter().map(|row| row.branch.is_conditional)),
            Field::Ending => out.words(rows.iter().map(|row| texts.id(row.branch.kind))),
            Field::Isa => fill_isa(rows.iter().map(|row| row.branch.isa), out, texts),
            Field::ToFunction => {
                let addresses = rows.iter().map(|row| Some((space(row)?, row.to?)));
                fill_names(Field::Function, addresses, &mut self.names, out, texts);
            }
            _ if self.of.fill(field, rows.len(), out) => {}
            _ if Place::fill(field, rows.iter().map(|row| row.place), states, out, texts) => {}
            _ => {
                let addresses = rows.iter().map(|row| Some((space(row)?, row.branch.from)));
                fill_names(field, addresses, &mut self.names, out, texts);
            }
        }
    }

    fn clear(&mut self) {
        self.tracker.clear();
    }
}

impl Follow for Branches<'_> {
    fn event(&mut self, item: &Item<'_, Event>, rows: &mut Vec<BranchRow>) {
        self.tracker.turn_to(item.sub_source);
        match item.value {
            Event::Range(range) => return self.range(range, item, rows),
            Event::Exception { return_address, is_branch_target, .. } => {
                self.arrive(return_address.filter(|_| is_branch_target), rows);
            }
            Event::PathUnknown { start, .. } => self.arrive(start, rows),
            Event::NoMemory { address, .. } => self.arrive(Some(address), rows),
            Event::StartOfTrace
            | Event::NoSync(_)
            | Event::TraceOn(_)
            | Event::AddressUnknown
            | Event::EndOfTrace { .. } => self.arrive(None, rows),
            _ => {}
        }
        self.tracker.event(&item.value, &self.names.code);
    }

    /// It says where a branch went that was wanted.
    fn beside(&mut self, item: &Item<'_, Event>, rows: &mut Vec<BranchRow>) {
        let Event::Range(range) = item.value else { return self.event(item, rows) };
        self.tracker.turn_to(item.sub_source);
        self.arrive(Some(range.start), rows);
    }

    fn enter(&mut self, window: Window) {
        enter(&mut self.names, &mut self.tracker, window);
    }

    fn finish(&mut self, rows: &mut Vec<BranchRow>) {
        while let Some(hart) = self.pending.first().map(|pending| pending.now.hart) {
            self.tracker.turn_to(hart);
            self.arrive(None, rows);
        }
    }
}
