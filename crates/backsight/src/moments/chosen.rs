//! What a filter chooses of a window.

use backsight_core::AddressSpace;
use backsight_flow::Event;
use backsight_image::{Code as _, Window as TimeSpan};

use super::place::Place;
use super::windowed::InWindow;
use crate::calls::KnownCalls;
use crate::listing::Filter;
use crate::{Item, SourceCode};

/// Gives what a filter wants of a window to something that takes it. It [takes note](InWindow::beside) of everything else.
pub struct Chosen<'w, 'c> {
    inner: &'w mut dyn InWindow,
    filter: Filter<'c>,
    code: SourceCode<'c>,
    /// The spaces of harts.
    spaces: Vec<(u16, AddressSpace)>,
}

impl<'w, 'c> Chosen<'w, 'c> {
    /// By a filter of a source with this code.
    pub fn new(inner: &'w mut dyn InWindow, filter: Filter<'c>, code: SourceCode<'c>) -> Self {
        Self { inner, filter: filter.following(code), code, spaces: Vec::new() }
    }

    fn space(&self, hart: u16) -> AddressSpace {
        let known = self.spaces.iter().find(|known| known.0 == hart);
        known.map_or(AddressSpace::ANY, |known| known.1)
    }

    /// Does the filter want it?
    fn wants(&mut self, item: &Item<'_, Event>) -> bool {
        let hart = item.sub_source;
        if !self.filter.wants_hart(hart) {
            return false;
        }
        if let Event::Context(context, _) = &item.value {
            let space = self.code.space_of(context);
            self.spaces.retain(|known| known.0 != hart);
            self.spaces.push((hart, space));
        }
        self.filter.turn_to(hart);
        self.filter.wants(&item.value)
    }
}

impl InWindow for Chosen<'_, '_> {
    fn item(&mut self, item: Item<'_, Event>) {
        if !self.wants(&item) {
            return self.inner.beside(item);
        }
        let Event::Range(range) = item.value else { return self.inner.item(item) };
        let space = self.space(item.sub_source);
        let Self { inner, filter, code, .. } = self;
        let mut next = Some(range.start);
        filter.parts(&range, space, code, |part| {
            // What comes first is not wanted, and is where execution came to.
            if next.take().is_some_and(|start| start != part.start) {
                inner.beside(item);
            }
            inner.item(item.with(Event::Range(*part)));
        });
        if next.is_some() {
            inner.beside(item);
        }
    }

    fn beside(&mut self, item: Item<'_, Event>) {
        self.wants(&item);
        self.inner.beside(item);
    }

    fn before(&mut self, item: Item<'_, Event>) {
        self.wants(&item);
        self.inner.before(item);
    }

    fn needs_all(&self) -> bool {
        self.filter.follows_calls() || self.inner.needs_all()
    }

    fn needs_calls(&self) -> bool {
        self.filter.follows_calls() || self.inner.needs_calls()
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        for hart in known.harts() {
            self.filter.turn_to(hart);
            self.filter.resume(known);
        }
        self.inner.resume(known);
    }

    fn begin(&mut self, place: &Place) {
        self.inner.begin(place);
    }

    fn has_enough(&self) -> bool {
        self.inner.has_enough()
    }

    fn enter(&mut self, span: TimeSpan) {
        if !self.code.enter(span).is_empty() {
            self.filter.set_code(self.code);
        }
        self.inner.enter(span);
    }
}
