//! What takes items.

use backsight_flow::PathId;
use backsight_image::Window;

use super::item::{Cut, Item, Outcome};
use super::source_decoder::{Items, Place};
use crate::Source;
use crate::calls::KnownCalls;
use crate::protocol::{AnySink, SavedState};

/// Takes packets, execution, or whatever a decode gives. Every closure that takes an item is one.
///
/// A consumer that is made for each source ([`Decode::consume`](super::Decode::consume), [`Decode::write`](super::Decode::write))
/// takes what that source gives, on the thread that decodes it. Where it says that it can be joined, there are several for one
/// source, each of which takes a part of it.
pub trait Consumer<T> {
    /// Takes an item.
    fn item(&mut self, item: Item<'_, T>);

    /// Takes the items of a path of execution that was walked before. `path` always stands for the same values, and for the
    /// same distances between their offsets: a consumer that counts need look at them only when it comes for the first time.
    #[inline(always)]
    fn path<'a>(&mut self, _path: PathId, _sub_source: u16, items: impl Iterator<Item = Item<'a, T>>)
    where
        T: 'a,
    {
        for item in items {
            self.item(item);
            if self.has_enough() {
                return;
            }
        }
    }

    /// The same where cycle counts are between the items: each with the count right before it, if there is one.
    #[inline(always)]
    fn counted_path<'a>(
        &mut self,
        _path: PathId,
        _sub_source: u16,
        items: impl Iterator<Item = (Option<Item<'a, T>>, Item<'a, T>)> + Clone,
    ) where
        T: 'a,
    {
        for (count, item) in items {
            if let Some(count) = count {
                self.item(count);
                if self.has_enough() {
                    return;
                }
            }
            self.item(item);
            if self.has_enough() {
                return;
            }
        }
    }

    /// What follows is of this source, in this span of time, if that decides what code there is. Both may be the same as before.
    fn source(&mut self, _source: &Source, _window: Option<Window>) {}

    /// What follows happened in this span of time, which decides what code there was: [`Item::window`].
    fn enter(&mut self, _window: Window) {}

    /// Has it enough? This is asked after each item and each path. Then the decode ends, if it is on one thread; else that of the
    /// source ends.
    #[inline(always)]
    fn has_enough(&self) -> bool {
        false
    }

    /// Are items of no use to it? Then none are made.
    #[inline(always)]
    fn ignores_items(&self) -> bool {
        false
    }

    /// The source ends.
    fn finish(&mut self) {}

    /// Nothing more is known for now: the next bytes may be long in coming.
    fn pause(&mut self) {}

    /// The text, or other bytes, that it has written so far, if it writes: they are taken out, and go to
    /// [`Decode::write`](super::Decode::write) in the order of the source.
    #[inline(always)]
    fn text(&mut self) -> Option<&mut Vec<u8>> {
        None
    }

    /// Can parts of a source have a consumer each? Text of parts is put together as it is, unless a consumer
    /// [joins it](Consumer::joins_text); all other consumers are joined.
    fn can_join(&self) -> bool {
        false
    }

    /// Is what is written of parts not the text itself, but what a consumer that takes no items makes the text of?
    fn joins_text(&self) -> bool {
        false
    }

    /// Takes what was written of the next part, or of some of it.
    fn join_text(&mut self, _text: &[u8]) {}

    /// What decides what it makes of the items that follow, where parts of a source are joined and that is more than the items:
    /// two consumers that know the same make the same of them. Each part ends with one.
    fn boundary(&mut self) -> Option<SavedState> {
        None
    }

    /// Begins a part of a source: where another consumer has come to a boundary, or anywhere. One that writes begins
    /// again and again.
    fn begin_at(&mut self, _boundary: Option<&SavedState>) {}

    /// Does it keep the calls under way?
    fn keeps_calls(&self) -> bool {
        false
    }

    /// These are under way where it begins, if that is not the beginning of the source.
    fn resume(&mut self, _known: &KnownCalls<'_>) {}

    /// What it takes from now on is of a window: what came before was given so that this can be understood.
    fn begin_window(&mut self) {}

    /// Joins what the consumer of the next part has made.
    fn join(&mut self, _later: Self)
    where
        Self: Sized,
    {
    }

    /// The source can be cut here: the next item belongs to the next span. See
    /// [`Decode::find_cuts`](super::Decode::find_cuts).
    fn cut(&mut self, _cut: Cut) {}
}

/// A consumer of any type, as what decodes sees it: that is compiled once for all of them.
#[doc(hidden)]
pub trait AnyConsumer<T> {
    /// Lets `give` have a sink that makes items of what a stream at this place gives, and hands them to the consumer.
    fn take_from(&mut self, place: Place<'_>, give: &mut dyn FnMut(&mut dyn AnySink<T>));

    /// [`Consumer::item`].
    fn item(&mut self, item: Item<'_, T>);

    /// [`Consumer::source`].
    fn source(&mut self, source: &Source, window: Option<Window>);

    /// [`Consumer::enter`].
    fn enter(&mut self, window: Window);

    /// [`Consumer::has_enough`].
    fn has_enough(&self) -> bool;

    /// [`Consumer::finish`].
    fn finish(&mut self);

    /// [`Consumer::pause`].
    fn pause(&mut self);

    /// [`Consumer::cut`].
    fn cut(&mut self, cut: Cut);
}

impl<T, C: Consumer<T>> AnyConsumer<T> for C {
    fn take_from(&mut self, place: Place<'_>, give: &mut dyn FnMut(&mut dyn AnySink<T>)) {
        give(&mut Items::new(place, self));
    }

    fn item(&mut self, item: Item<'_, T>) {
        Consumer::item(self, item);
    }

    fn source(&mut self, source: &Source, window: Option<Window>) {
        Consumer::source(self, source, window);
    }

    fn enter(&mut self, window: Window) {
        Consumer::enter(self, window);
    }

    fn has_enough(&self) -> bool {
        Consumer::has_enough(self)
    }

    fn finish(&mut self) {
        Consumer::finish(self);
    }

    fn pause(&mut self) {
        Consumer::pause(self);
    }

    fn cut(&mut self, cut: Cut) {
        Consumer::cut(self, cut);
    }
}

/// Every closure is a consumer that never has enough.
impl<T, F: FnMut(Item<'_, T>)> Consumer<T> for F {
    #[inline]
    fn item(&mut self, item: Item<'_, T>) {
        self(item);
    }
}

/// Takes no notice of anything: for a decode of which only the summary is wanted.
impl<T> Consumer<T> for () {
    fn item(&mut self, _item: Item<'_, T>) {}

    fn ignores_items(&self) -> bool {
        true
    }

    fn can_join(&self) -> bool {
        true
    }
}

/// A closure that may say that it wants no more.
pub(super) struct Each<F> {
    each: F,
    has_enough: bool,
}

impl<F> Each<F> {
    pub fn new(each: F) -> Self {
        Self { each, has_enough: false }
    }
}

impl<T, R: Outcome, F: FnMut(Item<'_, T>) -> R> Consumer<T> for Each<F> {
    #[inline]
    fn item(&mut self, item: Item<'_, T>) {
        self.has_enough = (self.each)(item).control().is_break();
    }

    #[inline]
    fn has_enough(&self) -> bool {
        self.has_enough
    }
}

/// A state that a closure gives items to.
pub(super) struct Folded<'e, S, E, J> {
    pub state: S,
    pub each: &'e E,
    /// Puts the states of parts together.
    pub join: Option<&'e J>,
}

impl<T, S, E: Fn(&mut S, Item<'_, T>), J: Fn(&mut S, S)> Consumer<T> for Folded<'_, S, E, J> {
    fn item(&mut self, item: Item<'_, T>) {
        (self.each)(&mut self.state, item);
    }

    fn can_join(&self) -> bool {
        self.join.is_some()
    }

    fn join(&mut self, later: Self) {
        if let Some(join) = self.join {
            join(&mut self.state, later.state);
        }
    }
}
