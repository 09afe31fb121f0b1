//! Rows of what lies between two moments, and of what a filter chooses.
//!
//! A window is given to the tables of what was executed as it is given to everybody else. Of what came before it, context and time
//! are known; cycles are counted from its beginning. Of what a filter does not want they take note in the same way, but for calls: these
//! are found out from everything.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use backsight::calls::KnownCalls;
use backsight::decode::{Consumer, Decode, Execution};
use backsight::flow::PathId;
use backsight::image::Window as Span;
use backsight::listing::FilterOptions;
use backsight::moments::{InWindow, Index, Moments, Window};
use backsight::{Capture, Event, Item, Packet, Source};

use crate::decode::take;
use crate::gather::Gathering;
use crate::output::Output;
use crate::rows::{Follow, Packets};

/// Says which window of a source is wanted; `None`: nothing of it.
pub type WindowOf = dyn for<'c> Fn(&Moments<'c>, &Decode<'c, Execution>, &Source) -> backsight::Result<Option<Window>>
    + Send
    + Sync;

/// Finds the index of a capture that was opened from a place.
pub type IndexOf = dyn Fn(&Path, &Capture) -> Option<Arc<Index>> + Send + Sync;

/// Which part of each source is wanted.
#[derive(Clone)]
pub struct Part {
    /// What it is, in words that are the same if and only if it is: what was exported of another part is not taken for it.
    pub words: String,
    /// The window of a source.
    pub window_of: Arc<WindowOf>,
    /// What is wanted of the window.
    pub filter: FilterOptions,
    /// The index of a capture. Nothing depends on it but time.
    pub index_of: Arc<IndexOf>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Part").field(&self.words).finish()
    }
}

/// What is known before a window begins, and does not count in it.
pub(crate) fn known_before(event: &Event) -> Option<Event> {
    match *event {
        Event::Timestamp { value, .. } => Some(Event::Timestamp { value, cycles: None }),
        Event::Context(..) | Event::SourceTime(_) => Some(*event),
        _ => None,
    }
}

/// A table of what was executed, on its way through a window.
pub(crate) struct Followed<'o, T: Follow> {
    pub table: T,
    pub rows: Vec<T::Row>,
    pub span: Option<Span>,
    pub output: &'o mut Output,
    pub outcome: ControlFlow<()>,
}

impl<T: Follow> InWindow for Followed<'_, T> {
    fn item(&mut self, item: Item<'_, Event>) {
        if self.outcome.is_continue() {
            self.outcome = take(&item, &mut self.table, &mut self.rows, &mut self.span, self.output);
        }
    }

    fn beside(&mut self, item: Item<'_, Event>) {
        if self.outcome.is_continue() {
            self.table.beside(&item, &mut self.rows);
        }
    }

    fn before(&mut self, item: Item<'_, Event>) {
        self.table.before(&item, &mut self.rows);
        self.rows.clear();
        self.table.clear();
    }

    fn needs_all(&self) -> bool {
        self.table.needs_calls()
    }

    fn needs_calls(&self) -> bool {
        self.table.needs_calls()
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        self.table.resume(known);
    }

    fn has_enough(&self) -> bool {
        self.outcome.is_break()
    }
}

impl InWindow for Gathering<'_, '_> {
    fn item(&mut self, item: Item<'_, Event>) {
        Consumer::item(self, item);
    }

    fn beside(&mut self, item: Item<'_, Event>) {
        if !matches!(item.value, Event::Range(_)) {
            Consumer::item(self, item);
        }
    }

    fn before(&mut self, item: Item<'_, Event>) {
        if let Some(event) = known_before(&item.value) {
            Consumer::item(self, item.with(event));
        }
    }

    fn has_enough(&self) -> bool {
        Consumer::has_enough(self)
    }

    fn enter(&mut self, span: Span) {
        Consumer::enter(self, span);
    }

    fn path(&mut self, path: PathId, hart: u16, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        Consumer::path(self, path, hart, items);
    }
}

/// Packets on their way into rows.
pub(crate) struct PacketRows<'o> {
    pub table: Packets,
    pub rows: Vec<<Packets as crate::rows::Rows>::Row>,
    pub output: &'o mut Output,
    pub outcome: ControlFlow<()>,
}

impl Consumer<Packet> for PacketRows<'_> {
    fn item(&mut self, item: Item<'_, Packet>) {
        self.table.packet(&item, &mut self.rows);
        if self.rows.len() >= <Packets as crate::rows::Rows>::CHUNK {
            self.outcome = self.output.take(&mut self.table, &mut self.rows);
        }
    }

    fn has_enough(&self) -> bool {
        self.outcome.is_break()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use backsight::Capture;
    use backsight::listing::FilterOptions;
    use backsight::moments::{Moment, Window};

    use super::Part;
    use crate::data::{FinishedValues, Layout, Values};
    use crate::{Query, Table};

    /// The numbers of the first column of what a query gives.
    fn read(query: &Query, capture: &Capture) -> Vec<u64> {
        let mut numbers = Vec::new();
        for batch in query.read(capture).unwrap() {
            let batch = batch.unwrap();
            let FinishedValues::Plain(Values::U64(values)) = &batch.columns[0].values else {
                panic!("numbers")
            };
            match batch.columns[0].layout {
                Layout::Rows => numbers.extend(values),
                _ => numbers.extend(batch.shape.blocks.iter().map(|&block| values[block as usize])),
            }
        }
        numbers
    }

    fn part(query: &Query, from: Option<u64>, to: Option<u64>) -> Query {
        let window = Window { from: from.map(Moment::Instruction), to: to.map(Moment::Instruction) };
        let part = Part {
            words: format!("{window:?}"),
            window_of: Arc::new(move |_, _, _| Ok(Some(window))),
            filter: FilterOptions::default(),
            index_of: Arc::new(|_, _| None),
        };
        query.clone().part(part).unwrap()
    }

    #[test]
    fn rows_of_windows_that_meet_are_all_rows() {
        for name in ["first", "calls-aarch64", "calls-riscv64", "interwork-arm"] {
            let capture = Capture::open(format!("../../testdata/captures/{name}")).unwrap();
            let of = |table: Table, column| Query::new(table).columns([column]).unwrap();
            let instructions = read(&of(Table::Ranges, "instructions"), &capture);
            // Where a range ends: no row is cut in two.
            let middle: u64 = instructions[..instructions.len() / 2].iter().sum();
            for (table, column) in
                [(Table::Ranges, "start"), (Table::Branches, "from_address"), (Table::Packets, "length")]
            {
                let query = of(table, column);
                let all = read(&query, &capture);
                let parts = [part(&query, None, Some(middle)), part(&query, Some(middle), None)];
                let parts = parts.map(|query| read(&query, &capture));
                assert!(parts.iter().all(|part| !part.is_empty()), "{name} {table}");
                assert_eq!(parts.concat(), all, "{name} {table}");
            }
            for (from, to) in [(1, 2), (100, 1234)] {
                let query = part(&of(Table::Ranges, "instructions"), Some(from), Some(to));
                assert_eq!(read(&query, &capture).iter().sum::<u64>(), to - from, "{name} {from}");
            }
        }
    }

    /// What a filter chooses between two moments.
    fn chosen(query: &Query, from: Option<u64>, to: Option<u64>, function: &str) -> Query {
        let window = Window { from: from.map(Moment::Instruction), to: to.map(Moment::Instruction) };
        let part = Part {
            words: format!("{window:?} {function}"),
            window_of: Arc::new(move |_, _, _| Ok(Some(window))),
            filter: FilterOptions { functions: vec![function.to_owned()], ..FilterOptions::default() },
            index_of: Arc::new(|_, _| None),
        };
        query.clone().part(part).unwrap()
    }

    #[test]
    fn rows_of_calls_of_a_function_are_the_same_in_every_table_and_window() {
        for name in ["calls-aarch64", "calls-riscv64"] {
            let capture = Capture::open(format!("../../testdata/captures/{name}")).unwrap();
            let of = |table: Table, column| Query::new(table).columns([column]).unwrap();
            let ranges = of(Table::Ranges, "instructions");
            let all: u64 = read(&ranges, &capture).iter().sum();
            for function in ["ackermann", "program"] {
                let sum = |query: &Query| read(query, &capture).iter().sum::<u64>();
                let whole = sum(&chosen(&ranges, None, None, function));
                assert!(0 < whole && whole < all, "{name} {function}: {whole} of {all}");
                let calls = of(Table::Calls, "own_instructions");
                assert_eq!(sum(&chosen(&calls, None, None, function)), whole, "{name} {function}: calls");
                for middle in [all / 3, all / 2] {
                    let parts = [
                        sum(&chosen(&ranges, None, Some(middle), function)),
                        sum(&chosen(&ranges, Some(middle), None, function)),
                    ];
                    assert_eq!(parts.iter().sum::<u64>(), whole, "{name} {function} {middle}");
                    let calls = [
                        sum(&chosen(&calls, None, Some(middle), function)),
                        sum(&chosen(&calls, Some(middle), None, function)),
                    ];
                    assert_eq!(calls, parts, "{name} {function} {middle}: calls");
                }
                let branches = of(Table::Branches, "from_address");
                let (some, every) =
                    (read(&chosen(&branches, None, None, function), &capture), read(&branches, &capture));
                assert!(!some.is_empty() && some.len() < every.len(), "{name} {function}");
            }
        }
    }

    #[test]
    fn sources_have_no_parts() {
        let part = Part {
            words: String::new(),
            window_of: Arc::new(|_, _, _| Ok(None)),
            filter: FilterOptions::default(),
            index_of: Arc::new(|_, _| None),
        };
        assert!(Query::new(Table::Sources).part(part).is_err());
    }
}
