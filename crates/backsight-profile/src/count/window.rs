//! Counting what lies between two moments.
//!
//! A window knows nothing of the calls that are under way where it begins, but for a filter: they are found out as far as it goes on. What decides how its
//! instructions are counted, context and time, is known from before. A step into the window is not one of its edges, as it does
//! not know what was left. Cycles belong to the window in which the trace reports them.

use backsight::Item;
use backsight::calls::KnownCalls;
use backsight::decode::Consumer;
use backsight::flow::{Event, PathId};
use backsight::image::Window;
use backsight::moments::InWindow;

use super::Counter;

impl InWindow for Counter<'_> {
    fn item(&mut self, item: Item<'_, Event>) {
        self.push(item.sub_source, &item.value);
    }

    fn before(&mut self, item: Item<'_, Event>) {
        let hart = item.sub_source;
        if let Some((filter, _)) = &mut self.filter
            && !matches!(item.value, Event::Context(..) | Event::Timestamp { .. })
        {
            filter.turn_to(hart);
            filter.wants(&item.value);
            filter.turn_to(self.hart.number);
        }
        match item.value {
            Event::Context(..) => self.push(item.sub_source, &item.value),
            Event::Timestamp { value, .. } => {
                self.push(item.sub_source, &Event::Timestamp { value, cycles: None });
            }
            _ => {}
        }
    }

    /// A filter wants what happens inside of calls that began before the window.
    fn needs_all(&self) -> bool {
        self.filter.as_ref().is_some_and(|(filter, _)| filter.follows_calls())
    }

    fn needs_calls(&self) -> bool {
        self.needs_all()
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        if let Some((filter, _)) = &mut self.filter {
            for hart in known.harts() {
                filter.turn_to(hart);
                filter.resume(known);
            }
            filter.turn_to(self.hart.number);
        }
    }

    fn enter(&mut self, span: Window) {
        Consumer::enter(self, span);
    }

    fn path(&mut self, path: PathId, hart: u16, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        Consumer::path(self, path, hart, items);
    }
}
