//! The calls under way at a moment.

use backsight_flow::Event;
use backsight_image::Window as TimeSpan;

use super::index::Index;
use super::moment::{Moment, Window};
use super::reach::Moments;
use super::thread_calls::calls_before;
use super::windowed::InWindow;
use crate::calls::saved::{CallSaver, HartCalls};
use crate::calls::{KnownCalls, ShadowStack, UnderWay};
use crate::decode::{Decode, Execution};
use crate::{Item, Result, Source, SourceCode};

/// The calls of a thread, or of a hart whose threads have no names.
#[derive(Clone, Debug)]
pub struct ThreadCalls<'c> {
    /// The hart.
    pub hart: u16,
    /// The thread, where the trace names it.
    pub thread: Option<u64>,
    /// Is it the one that the hart runs?
    pub is_running: bool,
    /// Does the next instruction of the source belong to it?
    pub is_next: bool,
    /// Calls around those that are kept: programs that go very deep have their oldest forgotten.
    pub forgotten: usize,
    /// The calls under way, the outermost first.
    pub calls: Vec<UnderWay<'c>>,
}

impl<'c> Moments<'c> {
    /// The calls under way at a moment of a source: those of the hart that executes the next instruction, in which that is, and those
    /// of other harts and threads as their last instruction left them. Calls are those of threads, wherever these ran before. Nothing, if the source does not come to that moment. They are
    /// those that the whole source gives; without an index, it is decoded from its beginning for that.
    ///
    /// ```
    /// use backsight::moments::Moment;
    /// let capture = backsight::Capture::open("captures/calls-riscv64")?;
    /// let source = &capture.execution().sources()?[0];
    /// let stacks = capture.moments().stack_at(&capture.execution(), source, Moment::Instruction(2_000))?;
    /// let next = stacks.iter().find(|stack| stack.is_next).expect("there are more instructions");
    /// for call in next.calls.iter().rev() {
    ///     println!("{} since #{}", call.function, call.entered);
    ///     assert!(call.entered <= 2_000);
    /// }
    /// # Ok::<(), backsight::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn stack_at(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        moment: Moment,
    ) -> Result<Vec<ThreadCalls<'c>>> {
        let code = self.capture().code()?.seen_by(source);
        let mut stacks = Stacks { harts: HartStacks::new(code), next: None, instructions: 0 };
        let window = Window { from: Some(moment), to: None };
        let decode = decode.clone().positions(false);
        let is_known = self.known_index().is_some_and(|index| index.source(source).is_some());
        let all = decode.clone();
        let found = match moment {
            // The end of the trace tells how long it is, and not which calls are under way.
            Moment::BeforeEnd(_) if !is_known => {
                let index = Index { sources: vec![self.index_source(&decode, source)?] };
                let moments = self.clone().with_index(index.into());
                moments.take(decode, source, window, &mut stacks)?
            }
            _ => self.take(decode, source, window, &mut stacks)?,
        };
        let Some((place, _)) = found.places else { return Ok(Vec::new()) };
        let running = stacks.harts.harts.iter().find(|(hart, _)| stacks.next == Some(*hart));
        let thread = running.and_then(|(_, stack)| stack.thread());
        if self.may_have_moved(thread, source) && all.threads_may_move(self.capture().code()?)? {
            return calls_before(all, self.capture().code()?, source, place.instructions);
        }
        Ok(stacks.calls())
    }
}

/// The calls of each hart of a source.
#[derive(Debug)]
pub(super) struct HartStacks<'c> {
    code: SourceCode<'c>,
    /// By number.
    harts: Vec<(u16, ShadowStack<'c>)>,
    current: usize,
}

impl<'c> HartStacks<'c> {
    pub const fn new(code: SourceCode<'c>) -> Self {
        Self { code, harts: Vec::new(), current: 0 }
    }

    /// That of a hart, on which execution goes on after so many instructions of all harts.
    #[inline(always)]
    pub fn of(&mut self, hart: u16, instructions: u64) -> Option<&mut ShadowStack<'c>> {
        if self.harts.get(self.current).is_none_or(|known| known.0 != hart) {
            self.turn_to(hart, instructions);
        }
        self.harts.get_mut(self.current).map(|known| &mut known.1)
    }

    #[cold]
    fn turn_to(&mut self, hart: u16, instructions: u64) {
        let place = self.harts.binary_search_by_key(&hart, |known| known.0);
        self.current = place.unwrap_or_else(|place| {
            self.harts.insert(place, (hart, ShadowStack::new(self.code)));
            place
        });
        if let Some((_, stack)) = self.harts.get_mut(self.current) {
            stack.elsewhere(instructions.saturating_sub(stack.instructions()));
        }
    }

    /// Calls around the one that goes on, on the hart that ran last, if it has executed anything.
    pub fn depth_of_stay(&self) -> Option<usize> {
        let (_, stack) = self.harts.get(self.current)?;
        stack.depth_of_stay()
    }

    /// Keeps what is known. `None`: there is no room for that now.
    pub fn save(&mut self, saver: &mut CallSaver) -> Option<Box<[HartCalls]>> {
        saver.spend(self.harts.len().saturating_sub(1))?;
        self.harts.iter_mut().map(|(hart, stack)| stack.save(*hart, saver)).collect()
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        for hart in known.harts() {
            self.turn_to(hart, 0);
            if let Some((_, stack)) = self.harts.get_mut(self.current) {
                known.resume(hart, stack);
            }
        }
        // Who comes next says how many instructions the others had.
        self.current = usize::MAX;
    }

    fn enter(&mut self, span: TimeSpan) {
        self.code.enter(span);
        self.harts.iter_mut().for_each(|(_, stack)| stack.set_code(self.code));
    }
}

/// Keeps the calls of all harts of a source up to the next instruction in a window.
struct Stacks<'c> {
    harts: HartStacks<'c>,
    /// The hart of the next instruction.
    next: Option<u16>,
    /// Instructions so far, of all harts.
    instructions: u64,
}

impl<'c> Stacks<'c> {
    fn push(&mut self, hart: u16, event: &Event) {
        if let Some(stack) = self.harts.of(hart, self.instructions) {
            stack.push(event, &mut |_| {});
        }
        if let Event::Range(range) = event {
            self.instructions += u64::from(range.instructions);
        }
    }

    fn calls(&self) -> Vec<ThreadCalls<'c>> {
        let mut all = Vec::new();
        for (hart, stack) in &self.harts.harts {
            let (hart, forgotten) = (*hart, stack.forgotten());
            let (thread, is_next) = (stack.thread(), self.next == Some(hart));
            let calls = stack.under_way().collect();
            all.push(ThreadCalls { hart, thread, is_running: true, is_next, forgotten, calls });
            let mut paused: Vec<_> = stack.paused().collect();
            paused.sort_unstable_by_key(|paused| paused.0);
            all.extend(paused.into_iter().map(|(thread, forgotten, calls)| {
                let (thread, calls) = (Some(thread), calls.collect());
                ThreadCalls { hart, thread, is_running: false, is_next: false, forgotten, calls }
            }));
        }
        all
    }
}

impl InWindow for Stacks<'_> {
    fn item(&mut self, item: Item<'_, Event>) {
        if self.has_enough() {
            return;
        }
        self.push(item.sub_source, &item.value);
        if let Event::Range(_) = item.value {
            self.next = Some(item.sub_source);
        }
    }

    fn before(&mut self, item: Item<'_, Event>) {
        self.push(item.sub_source, &item.value);
    }

    fn needs_all(&self) -> bool {
        true
    }

    fn needs_calls(&self) -> bool {
        true
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        self.instructions = known.instructions;
        self.harts.resume(known);
    }

    fn has_enough(&self) -> bool {
        self.next.is_some()
    }

    fn enter(&mut self, span: TimeSpan) {
        self.harts.enter(span);
    }
}
