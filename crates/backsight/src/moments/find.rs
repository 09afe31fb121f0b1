//! What is looked for, and what it looks like when it happens.

use std::ops::{ControlFlow, Range as Addresses};

use backsight_core::AddressSpace;
use backsight_flow::{Event, PathId, Range};
use backsight_image::{Code as _, Function, Image, Window as TimeSpan};

use super::entries::{RangeEnd, interrupts, is_entered};
use super::known_paths::{KnownPath, KnownPaths};
use super::place::Place;
use super::windowed::InWindow;
use crate::listing::steps;
use crate::messages::Messages;
use crate::near_names::no_function;
use crate::{Error, Item, Result, SourceCode};

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Execution comes to the first instruction of one of these functions, by a call or from outside of it.
    Functions {
        /// Where they are.
        places: Vec<Addresses<u64>>,
        /// Are they functions of the image, and as long as the longest that begins there? An index knows only these.
        are_all_named: bool,
    },
    /// An instruction at one of these addresses is executed.
    Addresses(Vec<Addresses<u64>>),
    /// An exception or interrupt is taken.
    Exceptions,
    /// A message with this text in it.
    Messages(String),
    /// Something is missing.
    Gaps,
    /// Execution comes to a context with this ID.
    Context(u64),
}

impl Wanted {
    /// An instruction at this address.
    pub fn at(address: u64) -> Self {
        Self::Addresses(std::iter::once(address..address.saturating_add(1)).collect())
    }

    /// The functions of a name; of an address, as in `0x4006f0`, the one that begins there or has it.
    ///
    /// # Errors
    /// If there is none.
    pub fn function(name: &str, image: &Image) -> Result<Self> {
        let is_it = |function: &Function<'_>| function.name == name || function.mangled == name;
        let address = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let has = |function: &Function<'_>, address: u64| {
            function.start.0 <= address && address - function.start.0 < function.size.max(1)
        };
        let around = address.and_then(|address| image.functions().find(|function| has(function, address)));
        let are_all_named = address.is_none() || around.is_some();
        let mut places: Vec<Addresses<u64>> = Vec::new();
        for function in image.functions().filter(is_it).chain(around) {
            if places.iter().all(|place| place.start != function.start.0) {
                places.push(function.start.0..function.start.0);
            }
        }
        // Of several that begin at one address, the longest counts.
        for function in image.functions() {
            if let Some(place) = places.iter_mut().find(|place| place.start == function.start.0) {
                place.end = place.end.max(place.start.saturating_add(function.size.max(1)));
            }
        }
        if !are_all_named {
            places.extend(address.map(|address| address..address.saturating_add(1)));
        }
        match places.is_empty() {
            false => Ok(Self::Functions { places, are_all_named }),
            true => Err(no_function(name, image)),
        }
    }

    /// The addresses of a line of source: `FILE:N`, where the file is named with or without its folders.
    ///
    /// # Errors
    /// If no code has it.
    pub fn line(text: &str, image: &Image) -> Result<Self> {
        let wrong = || Error::misuse(format!("`{text}`: FILE:LINE is expected, as in main.c:17"));
        let (file, line) = text.rsplit_once(':').ok_or_else(wrong)?;
        let line: u32 = line.parse().map_err(|_| wrong())?;
        let is_file = |name: &str| {
            name == file || name.strip_suffix(file).is_some_and(|folders| folders.ends_with('/'))
        };
        let mut found = Vec::new();
        for module in image.modules() {
            let Some(Ok(debug)) = image.debug_source_of(module).map(|source| source.read()) else { continue };
            for (start, end, at) in debug.lines() {
                if at.line == line && is_file(debug.file(at.file)) {
                    let moved = |address: u64| address.wrapping_add(module.bias());
                    found.push(moved(start)..moved(end));
                }
            }
        }
        match found.is_empty() {
            false => Ok(Self::Addresses(found)),
            true => Err(Error::Absent(format!("{text}: no code of the image is from that line"))),
        }
    }
}

/// A moment at which it held.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Where that is.
    pub place: Place,
    /// The hart.
    pub hart: u16,
    /// What was reported: of a range, from where it held.
    pub event: Event,
    /// The message that ended there, put together.
    pub message: Option<String>,
}

/// What has to be known of a hart.
struct Hart {
    number: u16,
    /// How the last range ended, where nothing came after it.
    last: Option<RangeEnd>,
    context: Option<u64>,
    space: AddressSpace,
}

/// Looks at everything that happens.
pub(super) struct Finder<'f, 'c> {
    wanted: &'f Wanted,
    code: SourceCode<'c>,
    place: Place,
    /// The window has begun.
    is_inside: bool,
    harts: Vec<Hart>,
    paths: KnownPaths,
    messages: Messages,
    each: &'f mut dyn FnMut(&Hit) -> ControlFlow<()>,
    outcome: ControlFlow<()>,
}

impl<'f, 'c> Finder<'f, 'c> {
    /// Gives what it finds to a closure, until that has enough.
    pub fn new(
        wanted: &'f Wanted,
        code: SourceCode<'c>,
        each: &'f mut dyn FnMut(&Hit) -> ControlFlow<()>,
    ) -> Self {
        let (place, harts, paths) = Default::default();
        let (messages, outcome) = (Messages::new(), ControlFlow::Continue(()));
        Self { wanted, code, place, is_inside: false, harts, paths, messages, each, outcome }
    }
}

fn has(addresses: &[Addresses<u64>], address: u64) -> bool {
    addresses.iter().any(|range| range.contains(&address))
}

impl Finder<'_, '_> {
    fn hart(&mut self, number: u16) -> &mut Hart {
        let found = self.harts.iter().position(|known| known.number == number).unwrap_or_else(|| {
            self.harts.push(Hart { number, last: None, context: None, space: AddressSpace::ANY });
            self.harts.len() - 1
        });
        &mut self.harts[found]
    }

    fn hit(&mut self, hart: u16, instructions: u64, event: Event) {
        if self.outcome.is_continue() {
            let place = Place { instructions, ..self.place };
            self.outcome = (self.each)(&Hit { place, hart, event, message: None });
        }
    }

    /// May something in a range be what is looked for?
    fn may_hold(&self, range: &Range) -> bool {
        match self.wanted {
            Wanted::Functions { places, .. } => places.iter().any(|one| one.start == range.start.0),
            Wanted::Addresses(all) => {
                all.iter().any(|one| one.start < range.end.0 && range.start.0 < one.end)
            }
            _ => false,
        }
    }

    fn range(&mut self, hart: u16, range: Range) {
        let before = self.hart(hart).last.replace(RangeEnd::of(&range));
        if range.instructions > 0 && self.is_inside && self.may_hold(&range) {
            match self.wanted {
                Wanted::Functions { places, .. } => {
                    let function = places.iter().find(|one| one.start == range.start.0);
                    if function.is_some_and(|function| is_entered(function, before)) {
                        self.hit(hart, self.place.instructions, Event::Range(range));
                    }
                }
                Wanted::Addresses(all) => {
                    let (mut found, mut number) = (Vec::new(), 0);
                    // Where instructions differ in size, it is the code that says where they are.
                    let space = self.hart(hart).space;
                    steps(&range, space, &self.code, |step| {
                        if has(all, step.address.0) {
                            found.push((number, step.address));
                        }
                        number += 1;
                    });
                    for (number, address) in found {
                        let instructions = range.instructions - number as u32;
                        let event = Event::Range(Range { start: address, instructions, ..range });
                        self.hit(hart, self.place.instructions + number, event);
                    }
                }
                _ => {}
            }
        }
        self.place.instructions += u64::from(range.instructions);
    }

    fn event(&mut self, hart: u16, event: Event) {
        self.place.pass(&event);
        if let Event::Context(context, _) = &event {
            self.hart(hart).space = self.code.space_of(context);
        }
        if interrupts(&event) {
            self.hart(hart).last = None;
        }
        let holds = match (self.wanted, &event) {
            (Wanted::Exceptions, Event::Exception { .. }) => true,
            (Wanted::Gaps, event) => event.is_loss(),
            (Wanted::Messages(text), Event::Software(written)) => {
                let (place, each, outcome) = (self.place, &mut *self.each, &mut self.outcome);
                self.messages.push(hart, written, place.time, 0, &mut |message| {
                    let words = message.text().map(str::to_owned);
                    if outcome.is_continue()
                        && let Some(words) = words.filter(|words| words.contains(text.as_str()))
                    {
                        *outcome = each(&Hit { place, hart, event, message: Some(words) });
                    }
                });
                false
            }
            (&Wanted::Context(id), Event::Context(context, _)) => {
                let now = self.code.context_id(context);
                let before = std::mem::replace(&mut self.hart(hart).context, now);
                now == Some(id) && before != Some(id)
            }
            _ => false,
        };
        if holds && self.is_inside {
            self.hit(hart, self.place.instructions, event);
        }
    }
}

impl InWindow for Finder<'_, '_> {
    fn has_enough(&self) -> bool {
        self.outcome.is_break()
    }

    fn item(&mut self, item: Item<'_, Event>) {
        match item.value {
            Event::Range(range) => self.range(item.sub_source, range),
            event => self.event(item.sub_source, event),
        }
    }

    fn before(&mut self, item: Item<'_, Event>) {
        self.item(item);
    }

    /// What comes first may go on from what came before.
    fn needs_all(&self) -> bool {
        matches!(self.wanted, Wanted::Functions { .. } | Wanted::Context(_))
    }

    fn begin(&mut self, place: &Place) {
        self.place = *place;
        self.is_inside = true;
    }

    fn enter(&mut self, span: TimeSpan) {
        self.code.enter(span);
    }

    fn path(&mut self, path: PathId, hart: u16, items: &mut dyn Iterator<Item = Item<'_, Event>>) {
        if let Some(known) = self.paths.without(path) {
            self.place.instructions += known.instructions;
            self.hart(hart).last = known.last;
            return;
        }
        let mut known = KnownPath::default();
        for item in items {
            let may_hold = matches!(&item.value, Event::Range(range) if self.may_hold(range));
            known.add(&item.value, may_hold);
            self.item(item);
        }
        self.paths.insert(path, known);
    }
}
