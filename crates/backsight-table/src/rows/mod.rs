//! The rows of each table.
//!
//! Rows are gathered as small values while a source is decoded, a few thousand at a time; then the columns that were asked
//! for are filled one after the other. So a column that nobody asked for costs nothing, and the others cost a loop.

mod blocks;
mod branches;
mod calls;
mod damage;
mod events;
mod packets;
mod ranges;
mod sources;

use backsight::calls::KnownCalls;
use backsight::core::{Address, AddressSpace};
use backsight::image::Window;
use backsight::{Event, Item, Source};

use crate::data::ColumnData;
use crate::table::Field;
use crate::texts::{TextId, Texts};
use crate::tracker::Now;
use crate::window::known_before;

pub(crate) use blocks::{Block, Blocks, Distances, MOST_BLOCKS};
pub(crate) use branches::{Branches, Pending};
pub(crate) use calls::Calls;
pub(crate) use damage::{Damage, DamageRow};
pub(crate) use events::Events;
pub(crate) use packets::Packets;
pub(crate) use ranges::{RangeRow, Ranges};
pub(crate) use sources::{SourceRow, Sources};

/// A table while its rows are gathered.
pub(crate) trait Rows {
    /// A row.
    type Row;

    /// Rows that are gathered before their columns are filled.
    const CHUNK: usize = 4096;

    /// Fills a column of some rows.
    fn fill(&mut self, field: Field, rows: &[Self::Row], out: &mut ColumnData, texts: &mut Texts);

    /// The rows that were gathered are gone.
    fn clear(&mut self) {}
}

/// A table that is made of what was executed.
pub(crate) trait Follow: Rows {
    /// Takes what happened next.
    fn event(&mut self, item: &Item<'_, Event>, rows: &mut Vec<Self::Row>);

    /// Takes note of what comes before a window. The rows are dropped.
    fn before(&mut self, item: &Item<'_, Event>, rows: &mut Vec<Self::Row>) {
        if let Some(event) = known_before(&item.value) {
            self.event(&item.with(event), rows);
        }
    }

    /// Takes note of what happened next, and is not wanted.
    fn beside(&mut self, item: &Item<'_, Event>, rows: &mut Vec<Self::Row>) {
        if !matches!(item.value, Event::Range(_)) {
            let before = rows.len();
            self.event(item, rows);
            rows.truncate(before);
        }
    }

    /// Does it have to know the calls under way where a window begins?
    fn needs_calls(&self) -> bool {
        false
    }

    /// These are under way there.
    fn resume(&mut self, _known: &KnownCalls<'_>) {}

    /// What follows happened in this span of time, and code is as it was then. No rows are gathered at the moment.
    fn enter(&mut self, window: Window);

    /// The source ends.
    fn finish(&mut self, _rows: &mut Vec<Self::Row>) {}
}

/// What is the same for all rows of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfSource {
    pub capture: TextId,
    pub buffer: TextId,
    pub source: Option<u8>,
    pub core: TextId,
    pub thread: Option<u64>,
}

impl OfSource {
    pub fn new(capture: TextId, source: &Source, texts: &mut Texts) -> Self {
        Self {
            capture,
            buffer: texts.id(source.buffer()),
            source: Some(source.id().get()),
            core: texts.optional(source.core()),
            thread: source.thread(),
        }
    }

    /// Fills a column, if it is one of these.
    pub fn fill(&self, field: Field, count: usize, out: &mut ColumnData) -> bool {
        let word = match field {
            Field::Capture => self.capture,
            Field::Buffer => self.buffer,
            Field::Core => self.core,
            Field::Source | Field::Thread => {
                let number = if field == Field::Source { self.source.map(u64::from) } else { self.thread };
                match number {
                    Some(number) => out.numbers(std::iter::repeat_n(number, count)),
                    None => out.nulls(count),
                }
                return true;
            }
            _ => return false,
        };
        out.words(std::iter::repeat_n(word, count));
        true
    }
}

/// Where something was reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub offset: u64,
    pub position: u64,
    /// The number of what held at the time.
    pub state: u32,
}

impl Place {
    /// Fills a column, if it is one of those that say where, when and in what context something was.
    fn fill(
        field: Field,
        places: impl Iterator<Item = Self>,
        states: &[Now],
        out: &mut ColumnData,
        texts: &mut Texts,
    ) -> bool {
        let now = |place: Self| states.get(place.state as usize);
        let context = |place: Self| now(place).and_then(|now| now.context);
        match field {
            Field::Offset => out.numbers(places.map(|place| place.offset)),
            Field::Position => out.numbers(places.map(|place| place.position)),
            Field::Hart => out.numbers(places.map(|place| now(place).map_or(0, |now| now.hart.into()))),
            Field::Time => out.optional_numbers(places.map(|place| now(place)?.time)),
            Field::Cycles => out.optional_numbers(places.map(|place| now(place)?.cycles)),
            Field::Level => out.optional_numbers(places.map(|place| {
                let privilege = context(place)?.privilege;
                (privilege != backsight::core::Privilege::Unknown).then(|| privilege.level().into())
            })),
            Field::Vmid => out.optional_numbers(places.map(|place| Some(context(place)?.vmid?.into()))),
            Field::Context => out.optional_numbers(places.map(|place| context(place)?.context_id)),
            Field::Privilege => {
                let mut last = (None, TextId::NONE);
                out.words(places.map(|place| {
                    let privilege = context(place).map(|context| context.privilege);
                    if last.0 != privilege {
                        let words = privilege.map(|privilege| privilege.to_string());
                        last = (privilege, texts.optional(words.as_deref()));
                    }
                    last.1
                }));
            }
            Field::Space => {
                out.words(places.map(|place| texts.optional(now(place).and_then(|now| now.space.name()))))
            }
            _ => return false,
        }
        true
    }
}

/// Fills a column that names what is at an address.
fn fill_names(
    field: Field,
    addresses: impl Iterator<Item = Option<(AddressSpace, Address)>>,
    names: &mut crate::names::Names<'_>,
    out: &mut ColumnData,
    texts: &mut Texts,
) -> bool {
    macro_rules! at {
        ($location:ident => $value:expr) => {
            addresses.map(|address| {
                let (space, address) = address?;
                let $location = names.at(space, address, texts);
                $value
            })
        };
    }
    match field {
        Field::Function => out.words(at!(location => Some(location.function)).map(or_none)),
        Field::Module => out.words(at!(location => Some(location.module)).map(or_none)),
        Field::File => out.words(at!(location => Some(location.file)).map(or_none)),
        Field::FunctionOffset => out.optional_numbers(at!(location => location.function_offset)),
        Field::ModuleOffset => out.optional_numbers(at!(location => location.module_offset)),
        Field::Line => out.optional_numbers(at!(location => location.line.map(u64::from))),
        _ => return false,
    }
    true
}

fn or_none(text: Option<TextId>) -> TextId {
    text.unwrap_or(TextId::NONE)
}
