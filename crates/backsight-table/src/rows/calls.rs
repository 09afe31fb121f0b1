//! `calls`: stays in functions, and what calls cost.

use backsight::calls::{Cost, FunctionName, KnownCalls, ShadowStack, Visit};
use backsight::image::Window;
use backsight::listing::Filter;
use backsight::{Event, Item, SourceCode};

use super::{Follow, OfSource, Rows};
use crate::data::ColumnData;
use crate::names::file_name;
use crate::table::Field;
use crate::texts::{TextId, Texts};
use crate::window::known_before;

/// A stay in a function.
pub(crate) struct CallRow<'c> {
    hart: u16,
    visit: Visit<'c>,
}

/// The calls of a source.
pub(crate) struct Calls<'c> {
    of: OfSource,
    code: SourceCode<'c>,
    stacks: Vec<(u16, ShadowStack<'c>)>,
    /// Chooses stays.
    filter: Option<Filter<'c>>,
}

impl<'c> Calls<'c> {
    pub fn new(of: OfSource, code: SourceCode<'c>, filter: Option<Filter<'c>>) -> Self {
        let filter = filter.map(|filter| filter.following(code));
        Self { of, code, stacks: Vec::new(), filter }
    }

    /// The number of the stack of a hart.
    fn stack_of(&mut self, hart: u16) -> usize {
        let known = self.stacks.iter().position(|(known, _)| *known == hart);
        known.unwrap_or_else(|| {
            self.stacks.push((hart, ShadowStack::new(self.code)));
            self.stacks.len() - 1
        })
    }
}

/// Does a filter want a stay that ended? It was in that call of a function that it names, if there is one, and by its context.
fn wants(filter: Option<&Filter<'_>>, (was_inside, was_chosen): (bool, bool), visit: &Visit<'_>) -> bool {
    was_chosen && (was_inside || filter.is_none_or(|filter| filter.wants_address(visit.function.address)))
}

impl<'c> Rows for Calls<'c> {
    type Row = CallRow<'c>;

    fn fill(&mut self, field: Field, rows: &[CallRow<'c>], out: &mut ColumnData, texts: &mut Texts) {
        let function = |row: &CallRow<'c>| -> FunctionName<'c> { row.visit.function };
        let own = |row: &CallRow<'c>| row.visit.own;
        let call = |row: &CallRow<'c>| -> Option<Cost> { row.visit.call };
        match field {
            Field::Hart => out.numbers(rows.iter().map(|row| row.hart.into())),
            Field::Address => out.numbers(rows.iter().map(|row| function(row).address.0)),
            Field::Depth => out.numbers(rows.iter().map(|row| row.visit.depth as u64)),
            Field::Entry => out.flags(rows.iter().map(|row| row.visit.is_entry)),
            Field::Exit => out.flags(rows.iter().map(|row| row.visit.call.is_some())),
            Field::Time => out.optional_numbers(rows.iter().map(|row| row.visit.begin)),
            Field::OwnInstructions => out.numbers(rows.iter().map(|row| own(row).instructions)),
            Field::OwnCycles => out.optional_numbers(rows.iter().map(|row| own(row).cycles)),
            Field::OwnTime => out.optional_numbers(rows.iter().map(|row| own(row).time)),
            Field::CallInstructions => {
                out.optional_numbers(rows.iter().map(|row| Some(call(row)?.instructions)))
            }
            Field::CallCycles => out.optional_numbers(rows.iter().map(|row| call(row)?.cycles)),
            Field::CallTime => out.optional_numbers(rows.iter().map(|row| call(row)?.time)),
            Field::Function => out.words(rows.iter().map(|row| match function(row).symbol {
                Some(symbol) => texts.id(symbol.name),
                None => TextId::NONE,
            })),
            Field::FunctionOffset => {
                out.optional_numbers(rows.iter().map(|row| Some(function(row).symbol?.offset)))
            }
            Field::Module => out.words(rows.iter().map(|row| match function(row).module {
                Some((file, _)) => texts.id(&file_name(file)),
                None => TextId::NONE,
            })),
            Field::ModuleOffset => out.optional_numbers(rows.iter().map(|row| Some(function(row).module?.1))),
            _ => {
                self.of.fill(field, rows.len(), out);
            }
        }
    }
}

impl<'c> Follow for Calls<'c> {
    fn event(&mut self, item: &Item<'_, Event>, rows: &mut Vec<CallRow<'c>>) {
        let hart = item.sub_source;
        let mut was = (false, true);
        if let Some(filter) = &mut self.filter {
            filter.turn_to(hart);
            was = (filter.is_inside(), filter.wants_now());
            filter.wants(&item.value);
        }
        let number = self.stack_of(hart);
        let Self { stacks, filter, .. } = self;
        let stack = &mut stacks[number].1;
        let mut each = |visit| {
            if wants(filter.as_ref(), was, &visit) {
                rows.push(CallRow { hart, visit });
            }
        };
        stack.push(&item.value, &mut each);
        // A stay ends where something else is reported, as in the listing.
        let goes_on = matches!(
            item.value,
            Event::Range(_) | Event::CycleCount(_) | Event::Timestamp { .. } | Event::Context(..)
        );
        if !goes_on {
            stack.flush(&mut each);
        }
    }

    fn before(&mut self, item: &Item<'_, Event>, rows: &mut Vec<CallRow<'c>>) {
        if let Some(event) = known_before(&item.value) {
            return self.event(&item.with(event), rows);
        }
        if let Some(filter) = &mut self.filter {
            filter.turn_to(item.sub_source);
            filter.wants(&item.value);
        }
    }

    fn needs_calls(&self) -> bool {
        self.filter.as_ref().is_some_and(Filter::follows_calls)
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        for hart in known.harts() {
            if let Some(filter) = &mut self.filter {
                filter.turn_to(hart);
                filter.resume(known);
            }
        }
    }

    fn enter(&mut self, window: Window) {
        self.code.enter(window);
        self.filter.iter_mut().for_each(|filter| filter.set_code(self.code));
        for (_, stack) in &mut self.stacks {
            stack.set_code(self.code);
        }
    }

    fn finish(&mut self, rows: &mut Vec<CallRow<'c>>) {
        for (hart, stack) in &mut self.stacks {
            let mut was = (false, true);
            if let Some(filter) = &mut self.filter {
                filter.turn_to(*hart);
                was = (filter.is_inside(), filter.wants_now());
            }
            let filter = self.filter.as_ref();
            stack.finish(&mut |visit| {
                if wants(filter, was, &visit) {
                    rows.push(CallRow { hart: *hart, visit });
                }
            });
        }
    }
}
