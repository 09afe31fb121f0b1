//! The calls under way at a moment, of threads that go from hart to hart.
//!
//! What a thread called on one hart goes on on another. So all sources are decoded by thread, from their beginning to the moment; but where an
//! index says that a thread ran on one source only, that source alone says what it called.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use backsight_flow::Event;
use backsight_image::Window as TimeSpan;

use super::calls::ThreadCalls;
use super::find::Wanted;
use super::index::SourceIndex;
use super::reach::Moments;
use super::windowed::split;
use crate::calls::{Functions, ShadowStack, Stay};
use crate::decode::{Decode, Execution, ThreadId, ThreadItem, Turn, Turns};
use crate::{Code, Result, Source, SourceCode};

/// The calls of a thread.
struct Thread<'c> {
    stack: ShadowStack<'c>,
    source: Source,
    hart: u16,
    code: SourceCode<'c>,
    span: Option<TimeSpan>,
    is_running: bool,
    is_lost: bool,
}

/// Keeps the calls of all threads up to an instruction of a source.
struct Threads<'c, 's> {
    code: &'c Code,
    source: &'s Source,
    /// Instructions of the source before that.
    number: u64,
    threads: BTreeMap<ThreadId, Thread<'c>>,
    /// The thread of the instruction.
    next: Option<ThreadId>,
}

impl Moments<'_> {
    /// May a thread of a source have been executed by others, too?
    pub(super) fn may_have_moved(&self, thread: Option<u64>, source: &Source) -> bool {
        let Some(thread) = thread.filter(|&thread| thread != 0) else { return false };
        let wanted = Wanted::Context(thread);
        let was_on = |one: &SourceIndex| {
            let count = one.sums.counter(&wanted)?;
            Some(one.sums.parts.iter().any(|part| count(&part.counts) > 0))
        };
        let Some(index) = self.known_index() else { return true };
        let is_it = |one: &SourceIndex| one.id == source.id() && one.buffer == source.buffer();
        let is_elsewhere = |one: &SourceIndex| match (is_it(one), one.is_absent) {
            (true, _) => was_on(one) != Some(true),
            (false, true) => false,
            (false, false) => was_on(one) != Some(false),
        };
        index.sources.iter().any(is_elsewhere)
    }
}

/// The calls under way before an instruction of a source, of all threads wherever they ran.
pub(super) fn calls_before<'c>(
    decode: Decode<'c, Execution>,
    code: &'c Code,
    source: &Source,
    number: u64,
) -> Result<Vec<ThreadCalls<'c>>> {
    let mut threads = Threads { code, source, number, threads: BTreeMap::new(), next: None };
    decode.run_by_thread(code, &mut threads)?;
    Ok(threads.calls())
}

impl<'c> Threads<'c, '_> {
    /// Those of the threads that ran on the source last.
    fn calls(&self) -> Vec<ThreadCalls<'c>> {
        let is_here = |thread: &Thread<'_>| thread.stack.instructions() > 0 && thread.source.is(self.source);
        let threads = self.threads.iter().filter(|(_, thread)| is_here(thread));
        let calls = threads.map(|(&id, thread)| {
            let Thread { ref stack, hart, is_running, .. } = *thread;
            let named = match id {
                ThreadId::Numbered(number) => Some(number),
                ThreadId::OfHart(_) => None,
            };
            let (is_next, forgotten) = (self.next == Some(id), stack.forgotten());
            let (is_running, calls) = (is_running || is_next, stack.under_way().collect());
            ThreadCalls { hart, thread: named, is_running, is_next, forgotten, calls }
        });
        calls.collect()
    }
}

impl Turns for Threads<'_, '_> {
    fn begin(&mut self, turn: &Turn<'_>) {
        let thread = self.threads.entry(turn.thread).or_insert_with(|| {
            let code = self.code.seen_by(turn.source);
            let (source, hart, stack) = (turn.source.clone(), turn.hart, ShadowStack::new(code));
            Thread { stack, source, hart, code, span: None, is_running: true, is_lost: false }
        });
        if !thread.source.is(turn.source) {
            (thread.source, thread.code) = (turn.source.clone(), self.code.seen_by(turn.source));
            thread.span.into_iter().for_each(|span| drop(thread.code.enter(span)));
            thread.stack.set_code(thread.code);
        }
        (thread.hart, thread.is_running) = (turn.hart, true);
        if let Some((context, isa)) = turn.context {
            thread.stack.push(&Event::Context(context, isa), &mut |_| {});
        }
    }

    fn item(&mut self, item: &ThreadItem<'_>) -> ControlFlow<()> {
        let Some(thread) = self.threads.get_mut(&item.thread) else { return ControlFlow::Continue(()) };
        let Event::Range(range) = item.item.value else {
            thread.is_lost = item.item.value.is_edge();
            thread.stack.push(&item.item.value, &mut |_| {});
            return ControlFlow::Continue(());
        };
        if let Some(span) = item.item.window.filter(|_| item.item.window != thread.span) {
            thread.span = Some(span);
            if !thread.code.enter(span).is_empty() {
                thread.stack.set_code(thread.code);
            }
        }
        thread.is_lost = false;
        thread.stack.elsewhere(item.number.saturating_sub(thread.stack.instructions()));
        let is_of_source = item.item.source.is(self.source);
        if is_of_source && item.number > self.number {
            // Turns of other threads may be given before those that end earlier.
            return ControlFlow::Continue(());
        }
        let before = self.number.saturating_sub(item.number);
        match is_of_source && before < u64::from(range.instructions) {
            false => thread.stack.push(&item.item.value, &mut |_| {}),
            true => {
                // The stack is that in which the next instruction is: it has come to that, and has not executed it.
                let space = thread.stack.space();
                let mut push = |range| thread.stack.push(&Event::Range(range), &mut |_| {});
                match before {
                    0 => push(range),
                    count => {
                        let (given, rest) = split(&range, count as u32, space, &thread.code);
                        push(given);
                        push(rest);
                    }
                }
                self.next = Some(item.thread);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn end(&mut self, thread: ThreadId) {
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.stack.pause(thread.is_lost, &mut |_: &Functions<'_>, _: &Stay| {});
            thread.is_running = false;
        }
    }
}
