//! What was executed, on its way to a listing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use backsight_core::{AddressSpace, Context, TraceId};
use backsight_flow::{Event, PathId, Range, opencsd};
use backsight_image::{Code as _, Window};

use super::call_lines::{CallLines, Page};
use super::event_line::{EventLine, write_lines};
use super::filter::Filter;
use super::instruction_text::InstructionText;
use super::json::ObjectWriter;
use super::label::Label;
use super::range_text::RangeTexts;
use super::style::{Detail, ExecutionFormat, Style};
use super::tarmac::TarmacLines;
use crate::calls::{CallsBoundary, KnownCalls, RecordKind, Recorder, Records};
use crate::decode::{Consumer, SavedState, TimeBounds};
use crate::{Item, Source, SourceCode};

/// What listings of several sources have come to, whatever threads they are written on.
#[derive(Debug, Default)]
pub struct ListedCounts {
    instructions: AtomicU64,
    /// Listings that there are.
    listings: AtomicUsize,
}

impl ListedCounts {
    /// Instructions that were listed, where a filter leaves some out.
    pub fn instructions(&self) -> u64 {
        self.instructions.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, instructions: u64) {
        self.instructions.fetch_add(instructions, Ordering::Relaxed);
    }
}

/// Lists the execution of one source.
pub struct ExecutionWriter<'i> {
    style: Style,
    label: Label,
    code: SourceCode<'i>,
    filter: Filter<'i>,
    counts: Arc<ListedCounts>,
    /// By number.
    harts: Vec<Hart<'i>>,
    /// The one whose event came last.
    current: usize,
    /// The time of the code that is listed.
    window: Option<Window>,
    /// Ranges are listed as they are, with nothing but themselves in their text.
    is_plain: bool,
    /// It lists the calls of a part of the source: what is written are records.
    is_part: bool,
    /// Instructions that were listed and are in no count yet.
    listed: u64,
    object: ObjectWriter,
    /// The familiar lines of a hart before its first event.
    lines: opencsd::Lines,
    text: Vec<u8>,
}

/// What a listing has to know of one hart.
struct Hart<'i> {
    number: u16,
    filter: Filter<'i>,
    context: Option<Context>,
    space: AddressSpace,
    instruction_text: InstructionText,
    lines: opencsd::Lines,
    texts: RangeTexts,
    /// Where calls are listed.
    calls: Option<CallLines<'i>>,
    /// Where a log is written.
    tarmac: Option<TarmacLines>,
}

impl Consumer<Event> for ExecutionWriter<'_> {
    fn item(&mut self, item: Item<'_, Event>) {
        let index = || item.position().unwrap_or(item.offset);
        if let Event::Range(range) = &item.value
            && self.is_plain
            && let Some(hart) = self.harts.get(self.current)
            && hart.number == item.sub_source
            && let Some(known) = hart.texts.get(range, hart.space)
        {
            // Memory takes everything.
            let _ = known.write(&mut self.text, index);
            return;
        }
        if let Event::Range(_) | Event::CycleCount(_) = &item.value
            && let Some((calls, label, text)) = self.calls_by_path(item.sub_source)
        {
            return calls.take(label, item.sub_source, text, &item.value);
        }
        self.event(item.sub_source, &index, &item.value);
    }

    #[inline(always)]
    fn path<'a>(&mut self, path: PathId, hart: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        if let Some((calls, label, text)) = self.calls_by_path(hart) {
            return calls.path(label, hart, text, path, items.filter_map(|item| range_of(&item)));
        }
        items.for_each(|item| self.item(item));
    }

    #[inline(always)]
    fn counted_path<'a>(
        &mut self,
        path: PathId,
        hart: u16,
        items: impl Iterator<Item = (Option<Item<'a, Event>>, Item<'a, Event>)> + Clone,
    ) {
        if let Some((calls, label, text)) = self.calls_by_path(hart) {
            let cycles = |count: Option<Item<'_, Event>>| match count?.value {
                Event::CycleCount(cycles) => cycles,
                _ => None,
            };
            let counts = items.clone().map(|(count, _)| cycles(count));
            let ranges = items.filter_map(|(count, item)| Some((cycles(count), range_of(&item)?)));
            return calls.counted_path(label, hart, text, path, counts, ranges);
        }
        for (count, item) in items {
            count.into_iter().for_each(|count| self.item(count));
            self.item(item);
        }
    }

    fn enter(&mut self, window: Window) {
        self.change_code(window);
    }

    /// Writes what is left at the end.
    fn finish(&mut self) {
        if self.is_part {
            self.end_part();
            let mut recorder = Recorder::default();
            recorder.done();
            return self.text.append(&mut recorder.bytes);
        }
        let Self { label, harts, object, text, .. } = self;
        for state in harts {
            state.tarmac.iter_mut().for_each(|lines| lines.finish(text));
            let _ = write_lines(text, label, |each| state.lines.finish(each));
            if let Some(calls) = &mut state.calls {
                let hart = state.number;
                let _ = calls.end(&mut Page { label, hart, object, filter: &state.filter }, text);
            }
        }
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.text)
    }

    fn keeps_calls(&self) -> bool {
        self.lists_calls() || self.filter.follows_calls()
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        for hart in known.harts() {
            if self.turn_to(hart)
                && let Some(state) = self.harts.get_mut(self.current)
            {
                state.calls.iter_mut().for_each(|calls| calls.resume(hart, known));
                state.filter.resume(known);
            }
        }
    }

    fn begin_window(&mut self) {
        self.listed = 0;
        self.harts.iter_mut().filter_map(|hart| hart.calls.as_mut()).for_each(CallLines::begin_window);
    }

    /// What is written of a range depends on nothing but the last context; calls are recorded, and joined. What a filter wants
    /// depends on all that came before.
    fn can_join(&self) -> bool {
        let is_of_parts = !matches!(self.style.format, ExecutionFormat::Opencsd | ExecutionFormat::Tarmac);
        is_of_parts && self.filter.takes_all()
    }

    fn joins_text(&self) -> bool {
        self.lists_calls()
    }

    fn join_text(&mut self, records: &[u8]) {
        self.join_records(&mut Records::new(records));
    }

    fn begin_at(&mut self, boundary: Option<&SavedState>) {
        if self.lists_calls() {
            self.begin_part(boundary.and_then(SavedState::get));
        }
    }

    fn boundary(&mut self) -> Option<SavedState> {
        self.is_part.then(|| SavedState::new(self.end_part()))
    }
}

#[inline(always)]
fn range_of(item: &Item<'_, Event>) -> Option<Range> {
    match item.value {
        Event::Range(range) => Some(range),
        _ => None,
    }
}

/// What decides how a part of a source is listed, but for the calls that are under way.
#[derive(Debug, PartialEq)]
struct Boundary(Vec<(u16, CallsBoundary)>);

/// The number of no hart.
const NO_HART: usize = usize::MAX;

impl<'i> ExecutionWriter<'i> {
    /// A writer for one source. What it lists is added to `counts`.
    pub fn new(
        style: Style,
        source: &Source,
        code: SourceCode<'i>,
        filter: Filter<'i>,
        counts: Arc<ListedCounts>,
    ) -> Self {
        let mut writer = Self::labelled(style, source.id(), code, filter, counts);
        writer.lines.cycle_counts |= source.counts_cycles();
        writer.lines.hides_return_addresses = !source.lists_return_addresses();
        writer.label = Label::of(source, style.name_buffers);
        writer
    }

    /// A writer for what is shown with an ID.
    pub fn labelled(
        style: Style,
        id: TraceId,
        code: SourceCode<'i>,
        filter: Filter<'i>,
        counts: Arc<ListedCounts>,
    ) -> Self {
        let label = Label { id, numbers_harts: false, buffer: None, time: None, thread: None };
        let (harts, object, text) = Default::default();
        let lines = opencsd::Lines::new(style.cycle_counts);
        let is_plain = !matches!(style.format, ExecutionFormat::Opencsd | ExecutionFormat::Tarmac)
            && style.detail == Detail::Ranges
            && filter.takes_all();
        let (current, listed, window, is_part) = (0, 0, None, false);
        let filter = filter.following(code);
        Self {
            style,
            label,
            code,
            filter,
            counts,
            harts,
            current,
            window,
            is_plain,
            is_part,
            listed,
            object,
            lines,
            text,
        }
    }

    /// The calls of a hart, with the label and the text of their lines, if it is the one whose event came last, and if its calls
    /// are listed by whole paths.
    #[inline(always)]
    fn calls_by_path(&mut self, hart: u16) -> Option<(&mut CallLines<'i>, &Label, &mut Vec<u8>)> {
        let state = self.harts.get_mut(self.current).filter(|state| state.number == hart)?;
        let calls = state.calls.as_mut().filter(|calls| calls.takes_paths())?;
        Some((calls, &self.label, &mut self.text))
    }

    /// What a log calls a hart: nothing, where there is no other.
    fn core(&self, hart: u16) -> Option<u16> {
        let Label { id, numbers_harts, .. } = self.label;
        if numbers_harts { Some(hart) } else { Some(id.get().into()).filter(|id| *id != 0) }
    }

    const fn lists_calls(&self) -> bool {
        matches!(self.style.detail, Detail::Calls | Detail::CallTree)
    }

    fn begin_part(&mut self, boundary: Option<&Boundary>) {
        self.is_part = true;
        self.calls().for_each(|(_, calls)| calls.begin_part(None));
        for (hart, known) in boundary.iter().flat_map(|boundary| &boundary.0) {
            self.find_hart(*hart);
            self.current_calls().into_iter().for_each(|calls| calls.begin_part(Some(known)));
        }
        self.current = NO_HART;
    }

    /// A part ends, and the next one begins.
    fn end_part(&mut self) -> Boundary {
        let mut text = std::mem::take(&mut self.text);
        let ended = self.calls().filter_map(|(hart, calls)| Some((hart, calls.end_part(hart, &mut text)?)));
        let boundary = Boundary(ended.collect());
        (self.text, self.current) = (text, NO_HART);
        boundary
    }

    /// The calls of each hart.
    fn calls(&mut self) -> impl Iterator<Item = (u16, &mut CallLines<'i>)> {
        self.harts.iter_mut().filter_map(|hart| Some((hart.number, hart.calls.as_mut()?)))
    }

    /// Those of the hart whose event came last.
    fn current_calls(&mut self) -> Option<&mut CallLines<'i>> {
        self.harts.get_mut(self.current)?.calls.as_mut()
    }

    /// Lists what parts have recorded.
    fn join_records(&mut self, records: &mut Records<'_>) {
        loop {
            let Self { label, harts, current, object, text, filter, .. } = self;
            if let Some(Hart { number, calls: Some(calls), .. }) = harts.get_mut(*current) {
                calls.join(&mut Page { label, hart: *number, object, filter }, text, records);
            }
            match records.next_but(&[]) {
                Some((RecordKind::Hart, head)) => {
                    self.find_hart(head.number() as u16);
                    let calls = self.current_calls().filter(|_| head.has_one());
                    calls.into_iter().for_each(CallLines::begin_joining);
                }
                Some((RecordKind::Done, _)) => return self.finish(),
                _ => return,
            }
        }
    }

    /// What is written next happened then, on the time axis of all sources, and code is shown as it was in this span of time.
    pub fn at(&mut self, time: TimeBounds, window: Option<Window>) {
        self.label.time = Some(time);
        self.is_plain = false;
        if window != self.window {
            self.window = window;
            window.into_iter().for_each(|window| self.change_code(window));
        }
    }

    #[cold]
    fn change_code(&mut self, window: Window) {
        let is_changed = !self.code.enter(window).is_empty();
        let code = self.code;
        for hart in &mut self.harts {
            // A context may belong to another process now.
            hart.space = hart.context.map_or(hart.space, |context| code.space_of(&context));
            if is_changed {
                hart.texts.clear();
                hart.filter.set_code(code);
            }
            if let Some(calls) = &mut hart.calls {
                calls.set_code(code);
            }
        }
    }

    /// Does what is listed of a window depend on what came before it?
    pub(super) fn needs_all(&self) -> bool {
        !matches!(self.style.detail, Detail::Ranges | Detail::Instructions)
            || matches!(self.style.format, ExecutionFormat::Opencsd | ExecutionFormat::Tarmac)
            || self.filter.follows_calls()
    }

    /// Writes one event of a hart; `index` finds where in the capture it was reported.
    pub fn event(&mut self, hart: u16, index: &dyn Fn() -> u64, event: &Event) {
        if self.harts.get(self.current).is_none_or(|known| known.number != hart) && !self.turn_to(hart) {
            return;
        }
        let Self { style, label, code, counts, harts, current, listed, object, text, .. } = self;
        let Some(state) = harts.get_mut(*current) else { return };
        if let Event::Context(context, _) = event {
            (state.context, state.space) = (Some(*context), code.space_of(context));
        }
        let is_wanted = state.filter.wants(event);
        if let Some(calls) = &mut state.calls {
            let mut page = Page { label, hart, object, filter: &state.filter };
            // Memory takes everything.
            let _ = calls.event(&mut page, text, is_wanted, index, event);
            return;
        }
        if !is_wanted {
            return;
        }
        let Hart { filter, space, instruction_text, lines, texts, tarmac, .. } = state;
        if let Some(tarmac) = tarmac {
            let Event::Range(range) = event else { return tarmac.event(event, code, *space, text) };
            return filter.parts(range, *space, code, |part| {
                *listed += u64::from(part.instructions);
                tarmac.event(&Event::Range(*part), code, *space, text);
            });
        }
        let (style, space, listings) = (*style, *space, counts.listings.load(Ordering::Relaxed));
        let mut line = EventLine {
            style,
            label,
            hart,
            code,
            space,
            instruction_text,
            object,
            index,
            lines,
            texts,
            listings,
        };
        let Event::Range(range) = event else {
            let _ = line.event(text, event);
            return;
        };
        filter.parts(range, space, code, |part| {
            *listed += u64::from(part.instructions);
            let _ = line.range(text, part);
        });
    }

    /// The next events are of this hart. False: nothing of it is wanted.
    #[cold]
    fn turn_to(&mut self, hart: u16) -> bool {
        let is_wanted = self.find_hart(hart);
        if let Some(Hart { calls: Some(calls), .. }) = self.harts.get_mut(self.current)
            && is_wanted
        {
            calls.turn_to(hart, &mut self.text);
        }
        is_wanted
    }

    fn find_hart(&mut self, hart: u16) -> bool {
        if !self.filter.wants_hart(hart) {
            return false;
        }
        let place = self.harts.binary_search_by_key(&hart, |known| known.number);
        self.current = place.unwrap_or_else(|place| place);
        if place.is_err() {
            self.counts.listings.fetch_add(1, Ordering::Relaxed);
            let state = Hart {
                number: hart,
                filter: self.filter.of_hart(hart),
                context: None,
                space: AddressSpace::ANY,
                instruction_text: InstructionText::default(),
                lines: self.lines.clone(),
                texts: RangeTexts::default(),
                calls: CallLines::new(self.style, self.code, &self.filter),
                tarmac: (self.style.format == ExecutionFormat::Tarmac)
                    .then(|| TarmacLines::new(self.core(hart))),
            };
            self.harts.insert(self.current, state);
            if self.is_part {
                self.current_calls().into_iter().for_each(|calls| calls.begin_part(None));
            }
        }
        true
    }
}

/// What was listed is counted, however the listing ends.
impl Drop for ExecutionWriter<'_> {
    fn drop(&mut self) {
        if self.filter.takes_all() {
            return;
        }
        let by_calls = self.harts.iter().filter_map(|hart| hart.calls.as_ref()).map(CallLines::listed);
        self.counts.add(self.listed + by_calls.sum::<u64>());
    }
}
