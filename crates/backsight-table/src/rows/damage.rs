//! `damage`: what is missing, and why.

use backsight::core::{Address, Describe as _};
use backsight::image::Window;
use backsight::{Event, Item, SourceCode};

use super::events::{address_of, is_damage};
use super::ranges::enter;
use super::{Follow, OfSource, Place, Rows, fill_names};
use crate::data::ColumnData;
use crate::names::Names;
use crate::table::Field;
use crate::texts::{TextId, Texts};
use crate::tracker::Tracker;

/// Something that is missing.
pub(crate) enum DamageRow {
    /// The decoder reported it.
    Event(Event, Place),
    /// It was found of all of a source, a buffer or a capture.
    Sum { event: &'static str, reason: String, bytes: Option<u64>, source: Option<u8>, buffer: TextId },
}

/// The damage of a source, a buffer or a capture.
pub(crate) struct Damage<'c> {
    of: OfSource,
    /// Of a source, its code.
    names: Option<Names<'c>>,
    tracker: Tracker,
}

impl<'c> Damage<'c> {
    /// Of a source.
    pub fn of_source(of: OfSource, code: SourceCode<'c>, fields: &[Field]) -> Self {
        Self { of, names: Some(Names::new(code, fields)), tracker: Tracker::new(Vec::new()) }
    }

    /// Of a buffer, or of a capture.
    pub fn of_buffer(of: OfSource) -> Self {
        Self { of, names: None, tracker: Tracker::new(Vec::new()) }
    }
}

impl DamageRow {
    fn event(&self) -> Option<&Event> {
        match self {
            Self::Event(event, _) => Some(event),
            Self::Sum { .. } => None,
        }
    }

    fn place(&self) -> Option<&Place> {
        match self {
            Self::Event(_, place) => Some(place),
            Self::Sum { .. } => None,
        }
    }

    fn address(&self) -> Option<Address> {
        address_of(self.event()?)
    }
}

impl Rows for Damage<'_> {
    type Row = DamageRow;

    fn fill(&mut self, field: Field, rows: &[DamageRow], out: &mut ColumnData, texts: &mut Texts) {
        let states = &self.tracker.states;
        let now = |row: &DamageRow| states.get(row.place()?.state as usize);
        match field {
            Field::EventKind => out.words(rows.iter().map(|row| match row {
                DamageRow::Event(event, _) => texts.id(event.name()),
                DamageRow::Sum { event, .. } => texts.id(event),
            })),
            Field::Reason => rows.iter().for_each(|row| match row {
                DamageRow::Event(event, _) => out.long(event.to_string().as_bytes()),
                DamageRow::Sum { reason, .. } => out.long(reason.as_bytes()),
            }),
            Field::Bytes => out.optional_numbers(rows.iter().map(|row| match row {
                DamageRow::Event(..) => None,
                DamageRow::Sum { bytes, .. } => *bytes,
            })),
            Field::Source => out.optional_numbers(rows.iter().map(|row| match row {
                DamageRow::Event(..) => self.of.source.map(u64::from),
                DamageRow::Sum { source, .. } => source.map(u64::from),
            })),
            Field::Buffer => out.words(rows.iter().map(|row| match row {
                DamageRow::Event(..) => self.of.buffer,
                DamageRow::Sum { buffer, .. } => *buffer,
            })),
            Field::Address => out.optional_numbers(rows.iter().map(|row| Some(row.address()?.0))),
            Field::Next => out.optional_numbers(rows.iter().map(|row| match row.event()? {
                Event::PathUnknown { next, .. } => Some(next.0),
                _ => None,
            })),
            Field::Instructions => out.optional_numbers(rows.iter().map(|row| match row.event()? {
                Event::PathUnknown { instructions, .. } => Some(u64::from(*instructions)).filter(|&n| n > 0),
                _ => None,
            })),
            Field::Position => out.optional_numbers(rows.iter().map(|row| Some(row.place()?.position))),
            Field::Offset => out.optional_numbers(rows.iter().map(|row| Some(row.place()?.offset))),
            Field::Hart => out.numbers(rows.iter().map(|row| now(row).map_or(0, |now| now.hart.into()))),
            Field::Time => out.optional_numbers(rows.iter().map(|row| now(row)?.time)),
            Field::Cycles => out.optional_numbers(rows.iter().map(|row| now(row)?.cycles)),
            _ if self.of.fill(field, rows.len(), out) => {}
            _ => match &mut self.names {
                Some(names) => {
                    let addresses = rows.iter().map(|row| Some((now(row)?.space, row.address()?)));
                    fill_names(field, addresses, names, out, texts);
                }
                None => out.nulls(rows.len()),
            },
        }
    }

    fn clear(&mut self) {
        self.tracker.clear();
    }
}

impl Follow for Damage<'_> {
    fn event(&mut self, item: &Item<'_, Event>, rows: &mut Vec<DamageRow>) {
        let Some(names) = &self.names else { return };
        if matches!(item.value, Event::Range(_)) {
            return;
        }
        self.tracker.turn_to(item.sub_source);
        self.tracker.event(&item.value, &names.code);
        if is_damage(&item.value) {
            let position = item.position().unwrap_or(item.offset);
            let place = Place { offset: item.offset, position, state: self.tracker.index() };
            rows.push(DamageRow::Event(item.value, place));
        }
    }

    fn enter(&mut self, window: Window) {
        if let Some(names) = &mut self.names {
            enter(names, &mut self.tracker, window);
        }
    }
}
