//! What lies between two moments, for takers of events.

use backsight_core::AddressSpace;
use backsight_flow::{ByPath, Event, PathId, Range};
use backsight_image::{Code as _, Window as TimeSpan};
use backsight_isa::{Class, Flags};

use super::place::{Contexts, Place};
use crate::calls::KnownCalls;
use crate::decode::Consumer;
use crate::listing::steps;
use crate::{Item, SourceCode};

/// Takes what lies in a window.
pub trait InWindow {
    /// Takes an item of the window.
    fn item(&mut self, item: Item<'_, Event>);

    /// Takes note of what came before the window: contexts and timestamps, and everything since the nearest point if it
    /// [needs all](InWindow::needs_all).
    fn before(&mut self, _item: Item<'_, Event>) {}

    /// Takes note of what is in the window, and is not [wanted](super::Chosen).
    fn beside(&mut self, _item: Item<'_, Event>) {}

    /// Does it have to see everything that comes before the window since the nearest point?
    fn needs_all(&self) -> bool {
        false
    }

    /// Does it have to know the calls under way? Then decoding begins at a point at which they are known, or at the beginning
    /// of the source; but where the index is only of the end of the source, and they are not known.
    fn needs_calls(&self) -> bool {
        false
    }

    /// These are the calls under way where decoding begins, if that is not the beginning of the source.
    fn resume(&mut self, _known: &KnownCalls<'_>) {}

    /// The window begins here.
    fn begin(&mut self, _place: &Place) {}

    /// Has it enough?
    fn has_enough(&self) -> bool {
        false
    }

    /// What follows happened in this span of time, which decides what code there was.
    fn enter(&mut self, _span: TimeSpan) {}

    /// Takes the items of a path of execution that was walked before: `path` always stands for the same values.
    fn path(&mut self, _path: PathId, _hart: u16, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        items.for_each(|item| self.item(item));
    }
}

/// Takes nothing.
impl InWindow for () {
    fn item(&mut self, _item: Item<'_, Event>) {}
}

/// Where a window begins or ends, in terms of what is known while a source is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Instruction(u64),
    Time(u64),
    /// So many ticks after the first timestamp.
    Ticks(u64),
    Position(u64),
    /// The end of the source.
    End,
}

impl Edge {
    /// Is it at this place, or before it?
    #[inline]
    pub fn is_reached(self, place: &Place) -> bool {
        match self {
            Self::Instruction(number) => place.instructions >= number,
            Self::Time(time) => place.time >= Some(time),
            Self::Ticks(ticks) => {
                place.time.zip(place.first_time).is_some_and(|(now, first)| now - first.min(now) >= ticks)
            }
            Self::Position(position) => place.position >= Some(position),
            Self::End => false,
        }
    }

    /// How many of so many instructions come before it.
    fn before(self, place: &Place, instructions: u64) -> u64 {
        match self {
            Self::Instruction(number) => instructions.min(number.saturating_sub(place.instructions)),
            _ if self.is_reached(place) => 0,
            _ => instructions,
        }
    }

    pub const fn needs_positions(self) -> bool {
        matches!(self, Self::Position(_))
    }
}

/// Gives what is between two edges to something that takes it, and stops after that. It is one type for all that take it, so
/// that decoders are compiled for it once.
pub(super) struct Windowed<'w, 'c> {
    inner: &'w mut dyn InWindow,
    code: SourceCode<'c>,
    from: Edge,
    to: Edge,
    place: Place,
    /// The place where the window began.
    began: Option<Place>,
    has_ended: bool,
    needs_all: bool,
    /// How many instructions paths have that came before.
    sums: ByPath<u64>,
    /// The spaces of harts.
    spaces: Vec<(u16, AddressSpace)>,
}

impl<'w, 'c> Windowed<'w, 'c> {
    pub fn new(
        inner: &'w mut dyn InWindow,
        code: SourceCode<'c>,
        (from, to): (Edge, Edge),
        place: Place,
    ) -> Self {
        let needs_all = inner.needs_all();
        let (began, has_ended, sums, spaces) = Default::default();
        Self { inner, code, from, to, place, began, has_ended, needs_all, sums, spaces }
    }

    /// What is known of the contexts of harts.
    pub fn enter_contexts(&mut self, contexts: &Contexts) {
        let known = contexts.iter().map(|(hart, context, _)| (*hart, self.code.space_of(context)));
        self.spaces = known.collect();
    }

    /// Where the window began and where it has come to; `None` if it did not begin.
    pub fn given(&self) -> Option<(Place, Place)> {
        Some((self.began?, self.place))
    }

    /// Takes note of where it is. Gives whether that is in the window.
    #[inline]
    fn is_inside(&mut self) -> bool {
        if self.began.is_none() && self.from.is_reached(&self.place) {
            self.began = Some(self.place);
            self.inner.begin(&self.place);
        }
        self.has_ended |= self.began.is_some() && self.to.is_reached(&self.place);
        self.began.is_some() && !self.has_ended
    }

    fn space(&self, hart: u16) -> AddressSpace {
        let known = self.spaces.iter().find(|known| known.0 == hart);
        known.map_or(AddressSpace::ANY, |known| known.1)
    }

    fn event(&mut self, item: Item<'_, Event>) {
        let is_known_before = matches!(
            item.value,
            Event::Context(..) | Event::Timestamp { .. } | Event::SourceTime(_) | Event::CycleCount(_)
        );
        if let Event::Context(context, _) = &item.value {
            let space = self.code.space_of(context);
            self.spaces.retain(|known| known.0 != item.sub_source);
            self.spaces.push((item.sub_source, space));
        }
        self.place.pass(&item.value);
        match self.is_inside() {
            true => self.inner.item(item),
            false if !self.has_ended && (is_known_before || self.needs_all) => self.inner.before(item),
            false => {}
        }
    }

    fn range(&mut self, item: Item<'_, Event>, range: Range) {
        let mut rest = Some(range);
        if self.began.is_none() && !self.from.is_reached(&self.place) {
            let (before, after) = self.part(item, range, self.from);
            if let Some(before) = before
                && self.needs_all
            {
                self.inner.before(item.with(Event::Range(before)));
            }
            rest = after;
        }
        let Some(rest) = rest else { return };
        if !self.is_inside() {
            return;
        }
        let (given, after) = self.part(item, rest, self.to);
        if let Some(given) = given {
            self.inner.item(item.with(Event::Range(given)));
        }
        self.has_ended |= after.is_some();
    }

    /// The parts of a range before and after an edge. Goes to where the first one ends.
    fn part(&mut self, item: Item<'_, Event>, range: Range, edge: Edge) -> (Option<Range>, Option<Range>) {
        let count = edge.before(&self.place, range.instructions.into());
        self.place.instructions += count;
        if count == u64::from(range.instructions) {
            return (Some(range), None);
        }
        if count == 0 {
            return (None, Some(range));
        }
        let (one, other) = split(&range, count as u32, self.space(item.sub_source), &self.code);
        (Some(one), Some(other))
    }

    /// Can a path be passed over, or given, as a whole?
    #[inline(always)]
    fn whole(&mut self, instructions: u64) -> Option<bool> {
        if self.has_ended {
            return Some(false);
        }
        let is_whole = |edge: Edge, place: &Place| match edge {
            Edge::Instruction(number) => place.instructions + instructions <= number,
            Edge::Time(_) | Edge::Ticks(_) => !edge.is_reached(place),
            Edge::Position(_) => false,
            Edge::End => true,
        };
        match self.began {
            Some(_) if is_whole(self.to, &self.place) => Some(true),
            None if !self.needs_all && is_whole(self.from, &self.place) => Some(false),
            _ => None,
        }
    }
}

impl Consumer<Event> for Windowed<'_, '_> {
    #[inline(always)]
    fn has_enough(&self) -> bool {
        self.has_ended || self.inner.has_enough()
    }

    fn item(&mut self, item: Item<'_, Event>) {
        if self.from.needs_positions() || self.to.needs_positions() {
            self.place.position = self.place.position.max(item.position());
        }
        match item.value {
            Event::Range(range) => self.range(item, range),
            _ => self.event(item),
        }
    }

    fn enter(&mut self, window: TimeSpan) {
        self.code.enter(window);
        self.inner.enter(window);
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, hart: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        let known = self.sums.get(path).copied();
        match known.and_then(|sum| Some((sum, self.whole(sum)?))) {
            Some((sum, is_given)) => {
                self.place.instructions += if self.has_ended { 0 } else { sum };
                if is_given {
                    self.inner.path(path, hart, &mut { items });
                }
            }
            None => {
                let mut sum = 0;
                for item in items {
                    if let Event::Range(range) = &item.value {
                        sum += u64::from(range.instructions);
                    }
                    self.item(item);
                }
                if known.is_none() {
                    self.sums.insert(path, sum);
                }
            }
        }
    }
}

/// A range in two, the first of so many instructions. Only the last instruction of the whole may be a branch.
pub(super) fn split(
    range: &Range,
    instructions: u32,
    space: AddressSpace,
    code: &SourceCode<'_>,
) -> (Range, Range) {
    let (mut end, mut last_size, mut left) = (range.start, 0, instructions);
    steps(range, space, code, |step| {
        if left > 0 {
            left -= 1;
            last_size = step.size;
            end = step.address.plus(step.size.into());
        }
    });
    let first = Range {
        end,
        instructions,
        last_size,
        class: Class::Other,
        flags: Flags::NONE,
        executed: true,
        ..*range
    };
    (first, Range { start: end, instructions: range.instructions - instructions, ..*range })
}
