//! `events`: what the trace reports besides ranges.

use backsight::core::{Address, Describe as _, Value};
use backsight::flow::{Channel, HardwareEvent, SystemEventKind};
use backsight::image::Window;
use backsight::{Event, Item, SourceCode};

use super::ranges::enter;
use super::{Follow, OfSource, Place, Rows, fill_names};
use crate::data::ColumnData;
use crate::names::Names;
use crate::table::Field;
use crate::texts::Texts;
use crate::tracker::{Now, Tracker};

/// Is it about something that is missing? Then it is in the table of damage.
pub(super) fn is_damage(event: &Event) -> bool {
    match event {
        Event::NoSync(_)
        | Event::AddressUnknown
        | Event::PathUnknown { .. }
        | Event::UncountedLoop { .. }
        | Event::NoMemory { .. }
        | Event::AccessesLost
        | Event::Mismatch { .. } => true,
        Event::Hardware(HardwareEvent::System(event)) => {
            matches!(event.kind, SystemEventKind::MasterError | SystemEventKind::GlobalError)
        }
        _ => false,
    }
}

/// An event.
pub(crate) struct EventRow {
    event: Event,
    place: Place,
}

/// The events of a source.
pub(crate) struct Events<'c> {
    of: OfSource,
    names: Names<'c>,
    tracker: Tracker,
}

impl<'c> Events<'c> {
    pub fn new(of: OfSource, code: SourceCode<'c>, fields: &[Field], harts: Vec<Now>) -> Self {
        Self { of, names: Names::new(code, fields), tracker: Tracker::new(harts) }
    }
}

/// The value of a field of an event, as a number.
fn number(event: &Event, name: &str) -> Option<u64> {
    let mut found = None;
    event.fields(&mut |field| {
        if field.name == name {
            found = match field.value {
                Value::Decimal(number)
                | Value::Hexadecimal(number)
                | Value::Padded(number, _)
                | Value::Bits(number, _)
                | Value::Characters(number, _) => Some(number),
                Value::Address(address) => Some(address.0),
                _ => None,
            };
        }
    });
    found
}

/// The address that an event is about.
pub(super) fn address_of(event: &Event) -> Option<Address> {
    match event {
        Event::Access(access) => access.address(),
        Event::UncountedLoop { address }
        | Event::NoMemory { address, .. }
        | Event::Mismatch { address, .. } => Some(*address),
        Event::PathUnknown { start, .. } => *start,
        Event::Hardware(HardwareEvent::InCircuit(event)) => event.address(),
        Event::Hardware(_) => number(event, "address").or_else(|| number(event, "pc")).map(Address),
        _ => None,
    }
}

/// The instruction that an event happened at, or before.
fn instruction_of(event: &Event) -> Option<Address> {
    match event {
        Event::Exception { return_address, .. } => *return_address,
        Event::Access(access) => access.instruction(),
        _ => address_of(event),
    }
}

fn channel_of(event: &Event) -> Option<(Option<u16>, u16)> {
    let channel = match event {
        Event::Software(message) => message.channel,
        Event::Hardware(HardwareEvent::System(event)) => event.channel,
        _ => return None,
    };
    match channel {
        Channel::ExceptionLevel(level) => Some((None, level.into())),
        Channel::Port(port) => Some((None, port)),
        Channel::Master { master, channel } => Some((Some(master), channel)),
        Channel::Unknown => None,
    }
}

fn value_of(event: &Event) -> Option<u64> {
    match event {
        Event::Access(access) => access.value(),
        Event::Software(message) => Some(message.value).filter(|_| message.size > 0),
        Event::Timestamp { value, .. } => Some(*value),
        Event::CycleCount(cycles) => cycles.map(u64::from),
        Event::UnitEvents(events) => Some((*events).into()),
        Event::Exception { value, .. } => Some(*value),
        Event::Hardware(HardwareEvent::Dwt(event)) => Some(event.value.into()),
        Event::Hardware(HardwareEvent::System(event)) => Some(event.value),
        Event::SourceTime(_) => number(event, "timestamp"),
        _ => None,
    }
}

fn number_of(event: &Event) -> Option<u64> {
    match event {
        Event::Exception { cause, .. } => Some(cause.number().into()),
        Event::Context(context, _) => context.context_id,
        Event::Condition { key, .. } => Some((*key).into()),
        Event::Hardware(HardwareEvent::InCircuit(event)) => event.number(),
        Event::Hardware(HardwareEvent::Dwt(event)) => Some(event.id.into()),
        _ => None,
    }
}

fn size_of(event: &Event) -> Option<u64> {
    match event {
        Event::Access(access) => Some(access.size().into()).filter(|&size| size > 0),
        Event::Software(message) => Some(message.size.into()),
        Event::Hardware(HardwareEvent::Dwt(event)) => Some(event.size.into()),
        _ => None,
    }
}

impl Rows for Events<'_> {
    type Row = EventRow;

    fn fill(&mut self, field: Field, rows: &[EventRow], out: &mut ColumnData, texts: &mut Texts) {
        let events = rows.iter().map(|row| &row.event);
        match field {
            Field::EventKind => out.words(events.map(|event| texts.id(event.name()))),
            Field::Detail => events.for_each(|event| out.long(event.to_string().as_bytes())),
            Field::Address => out.optional_numbers(events.map(|event| Some(address_of(event)?.0))),
            Field::ReturnAddress => out.optional_numbers(events.map(|event| match event {
                Event::Exception { return_address, .. } => Some((*return_address)?.0),
                _ => None,
            })),
            Field::Number => out.optional_numbers(events.map(number_of)),
            Field::Access => out.words(events.map(|event| match event {
                Event::Access(access) => texts.id(access.kind().text()),
                _ => texts.optional(None),
            })),
            Field::Size => out.optional_numbers(events.map(size_of)),
            Field::Value => out.optional_numbers(events.map(value_of)),
            Field::Master => out.optional_numbers(events.map(|event| Some(channel_of(event)?.0?.into()))),
            Field::Channel => out.optional_numbers(events.map(|event| Some(channel_of(event)?.1.into()))),
            _ if self.of.fill(field, rows.len(), out) => {}
            _ if Place::fill(field, rows.iter().map(|row| row.place), &self.tracker.states, out, texts) => {}
            _ => {
                let states = &self.tracker.states;
                let space = |row: &EventRow| states.get(row.place.state as usize).map(|now| now.space);
                let addresses = rows.iter().map(|row| Some((space(row)?, instruction_of(&row.event)?)));
                fill_names(field, addresses, &mut self.names, out, texts);
            }
        }
    }

    fn clear(&mut self) {
        self.tracker.clear();
    }
}

impl Follow for Events<'_> {
    fn event(&mut self, item: &Item<'_, Event>, rows: &mut Vec<EventRow>) {
        if matches!(item.value, Event::Range(_)) {
            return;
        }
        self.tracker.turn_to(item.sub_source);
        self.tracker.event(&item.value, &self.names.code);
        if is_damage(&item.value) {
            return;
        }
        let position = item.position().unwrap_or(item.offset);
        let place = Place { offset: item.offset, position, state: self.tracker.index() };
        rows.push(EventRow { event: item.value, place });
    }

    fn enter(&mut self, window: Window) {
        enter(&mut self.names, &mut self.tracker, window);
    }
}
