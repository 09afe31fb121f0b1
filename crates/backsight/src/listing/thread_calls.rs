//! Calls of threads that go from hart to hart.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight_flow::Event;
use backsight_image::Window;

use super::call_lines::{CallLines, Page};
use super::execution::ListedCounts;
use super::filter::{Filter, FilterOptions};
use super::json::ObjectWriter;
use super::label::Label;
use super::style::Style;
use super::write::Put;
use crate::decode::{Decode, Execution, Summary, ThreadId, ThreadItem, Turn, Turns, Written};
use crate::{Code, Result, Source, SourceCode};

/// Text that is written together.
const ENOUGH: usize = 1 << 16;

/// Threads whose calls are kept. Where there are more, those that do not run are forgotten.
const MOST_THREADS: usize = 1 << 12;

/// Which calls are listed, and how.
#[derive(Clone, Debug)]
pub struct ThreadCalls<'o> {
    /// How they look: [`Detail::Calls`](super::Detail) or [`Detail::CallTree`](super::Detail).
    pub style: Style,
    /// Which part of the execution.
    pub filter: &'o FilterOptions,
    /// Of these harts only; none: all.
    pub harts: &'o [u16],
    /// What is listed is added to it.
    pub counts: Arc<ListedCounts>,
}

impl ThreadCalls<'_> {
    /// Lists the calls of all sources, those of each thread in the order in which it made them, wherever it ran. `None` if `put`
    /// wanted no more.
    ///
    /// # Errors
    /// If what was asked for is not in the code, or bytes or code cannot be read.
    pub fn write<'c>(
        &self,
        decode: Decode<'c, Execution>,
        code: &'c Code,
        put: Put<'_>,
    ) -> Result<Option<Summary>> {
        let mut is_refused = false;
        let mut put_text = |text: &[u8]| {
            let outcome = put(Written::Text(text));
            is_refused = outcome.is_break();
            outcome
        };
        let summary = self.list(decode, code, &mut put_text)?;
        Ok((!is_refused).then_some(summary))
    }

    fn list<'c>(
        &self,
        decode: Decode<'c, Execution>,
        code: &'c Code,
        put: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Summary> {
        for source in decode.sources()? {
            Filter::new(self.filter, || code.of(&source))?;
        }
        let (threads, object, text) = Default::default();
        let mut writer = ThreadWriter { chosen: self, code, threads, object, text, put };
        let summary = decode.run_by_thread(code, &mut writer)?;
        if !summary.stopped {
            writer.finish();
        }
        Ok(summary)
    }
}

/// The calls of one thread.
struct Thread<'c> {
    calls: CallLines<'c>,
    filter: Filter<'c>,
    label: Label,
    source: Source,
    hart: u16,
    code: SourceCode<'c>,
    window: Option<Window>,
    is_running: bool,
    /// The last thing of it was that something is missing.
    is_lost: bool,
}

struct ThreadWriter<'a, 'o, 'c> {
    chosen: &'a ThreadCalls<'o>,
    code: &'c Code,
    threads: BTreeMap<ThreadId, Thread<'c>>,
    object: ObjectWriter,
    text: Vec<u8>,
    put: &'a mut dyn FnMut(&[u8]) -> ControlFlow<()>,
}

impl<'c> Thread<'c> {
    fn new(chosen: &ThreadCalls<'_>, code: &'c Code, thread: ThreadId, turn: &Turn<'_>) -> Option<Self> {
        let (source, seen) = (turn.source, code.seen_by(turn.source));
        let filter = Filter::new(chosen.filter, || code.of(source)).ok()?.following(seen);
        let thread = match thread {
            ThreadId::Numbered(number) => Some(code.thread_name(number)),
            ThreadId::OfHart(_) => None,
        };
        Some(Self {
            calls: CallLines::new(chosen.style, seen, &filter)?,
            filter,
            label: Label { thread, ..Label::of(source, chosen.style.name_buffers) },
            source: source.clone(),
            hart: turn.hart,
            code: seen,
            window: None,
            is_running: false,
            is_lost: false,
        })
    }

    /// Takes an event.
    fn take(&mut self, object: &mut ObjectWriter, text: &mut Vec<u8>, index: u64, event: &Event) {
        let Self { calls, filter, label, hart, .. } = self;
        let is_wanted = filter.wants(event);
        let mut page = Page { label, hart: *hart, object, filter };
        // Memory takes everything.
        let _ = calls.event(&mut page, text, is_wanted, &|| index, event);
    }

    /// Goes on where a turn begins.
    fn turn_to(&mut self, turn: &Turn<'_>, style: Style, code: &'c Code) {
        if !self.source.is(turn.source) {
            self.label =
                Label { thread: self.label.thread.take(), ..Label::of(turn.source, style.name_buffers) };
            self.source = turn.source.clone();
            self.code = code.seen_by(turn.source);
            self.window.into_iter().for_each(|window| drop(self.code.enter(window)));
            self.calls.set_code(self.code);
            self.filter.set_code(self.code);
        }
        self.hart = turn.hart;
    }
}

impl ThreadWriter<'_, '_, '_> {
    fn finish(&mut self) {
        let Self { threads, object, text, put, .. } = self;
        for thread in threads.values_mut().filter(|thread| !thread.calls.is_empty()) {
            let Thread { calls, filter, label, hart, .. } = thread;
            let _ = calls.end(&mut Page { label, hart: *hart, object, filter }, text);
            if put(text).is_break() {
                return;
            }
            text.clear();
        }
    }
}

impl Turns for ThreadWriter<'_, '_, '_> {
    fn begin(&mut self, turn: &Turn<'_>) {
        let Self { chosen, code, threads, object, text, .. } = self;
        if !threads.contains_key(&turn.thread) {
            if threads.len() >= MOST_THREADS {
                threads.retain(|_, thread| thread.is_running);
            }
            let new = Thread::new(chosen, code, turn.thread, turn);
            new.into_iter().for_each(|new| drop(threads.insert(turn.thread, new)));
        }
        let Some(thread) = threads.get_mut(&turn.thread) else { return };
        thread.turn_to(turn, chosen.style, code);
        thread.is_running = true;
        if let Some((context, isa)) = turn.context {
            thread.take(object, text, 0, &Event::Context(context, isa));
        }
        thread.calls.go_on(turn.time);
    }

    fn item(&mut self, item: &ThreadItem<'_>) -> ControlFlow<()> {
        let Self { chosen, threads, object, text, put, .. } = self;
        let hart = item.item.sub_source;
        let Some(thread) = threads.get_mut(&item.thread) else { return ControlFlow::Continue(()) };
        if !chosen.harts.is_empty() && !chosen.harts.contains(&hart) {
            return ControlFlow::Continue(());
        }
        if let Some(window) = item.item.window.filter(|_| item.item.window != thread.window) {
            thread.window = Some(window);
            if !thread.code.enter(window).is_empty() {
                thread.calls.set_code(thread.code);
                thread.filter.set_code(thread.code);
            }
        }
        let index = item.item.position().unwrap_or(item.item.offset);
        thread.is_lost = item.item.value.is_edge();
        thread.take(object, text, index, &item.item.value);
        if text.len() < ENOUGH {
            return ControlFlow::Continue(());
        }
        let outcome = put(text);
        text.clear();
        outcome
    }

    fn end(&mut self, thread: ThreadId) {
        let Self { threads, object, text, .. } = self;
        let Some(thread) = threads.get_mut(&thread) else { return };
        let Thread { calls, filter, label, hart, is_running, is_lost, .. } = thread;
        filter.pause(*is_lost);
        calls.pause(&mut Page { label, hart: *hart, object, filter }, text, *is_lost);
        *is_running = false;
    }
}
