//! Counting what lies between two moments.
//!
//! A window knows nothing of the calls that are under way where it begins: they are found out as far as it goes on. What decides how its
//! instructions are counted, context and time, is known from before. A step into the window is not one of its edges, as it does
//! not know what was left. Cycles belong to the window in which the trace reports them.

use backsight::Item;
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
        match item.value {
            Event::Context(..) => self.push(item.sub_source, &item.value),
            Event::Timestamp { value, .. } => {
                self.push(item.sub_source, &Event::Timestamp { value, cycles: None });
            }
            _ => {}
        }
    }

    fn enter(&mut self, span: Window) {
        Consumer::enter(self, span);
    }

    fn path(&mut self, path: PathId, hart: u16, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        Consumer::path(self, path, hart, items);
    }
}
