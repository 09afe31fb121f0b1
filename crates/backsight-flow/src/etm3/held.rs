//! The newest instruction, and what was reported since: an exception may still cancel it.

use backsight_core::{Address, Located};

use crate::etm::At;
use crate::{AccessKind, Event, Range};

/// More than this is not held back.
const MOST: usize = 64;

/// Events that wait.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    /// Where the newest instruction is in the trace.
    at: At,
    /// The cycles before the newest instruction.
    cycles: Option<u32>,
    /// The newest instruction.
    instruction: Option<Range>,
    /// What was reported since.
    after: Vec<Located<Event>>,
}

impl Default for Held {
    fn default() -> Self {
        let at = Located { offset: 0, length: 0, value: () };
        Self { at, cycles: None, instruction: None, after: Vec::new() }
    }
}

impl Held {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cycles.is_none() && self.instruction.is_none() && self.after.is_empty()
    }

    /// Has it held back as much as it can?
    #[inline]
    pub fn is_full(&self) -> bool {
        let newest = usize::from(self.cycles.is_some()) + usize::from(self.instruction.is_some());
        self.after.len() + newest >= MOST
    }

    /// Nothing is held back: the newest instruction, and the cycles before it, are from now on.
    #[inline]
    pub fn hold(&mut self, at: At, cycles: Option<u32>, instruction: Range) {
        (self.at, self.cycles, self.instruction) = (at, cycles, Some(instruction));
    }

    /// Something else was reported.
    #[inline]
    pub fn push(&mut self, at: At, event: Event) {
        self.after.push(at.map(|()| event));
    }

    /// Gives all events, oldest first.
    #[inline]
    pub fn drain(&mut self, mut each: impl FnMut(Located<Event>)) {
        let at = self.at;
        if let Some(cycles) = self.cycles.take() {
            each(at.map(|()| Event::CycleCount(Some(cycles))));
        }
        if let Some(instruction) = self.instruction.take() {
            each(at.map(|()| Event::Range(instruction)));
        }
        if !self.after.is_empty() {
            self.after.iter().for_each(|&event| each(event));
            self.after.clear();
        }
    }

    pub fn clear(&mut self) {
        self.drain(|_| {});
    }

    /// The newest instruction never happened, nor its transfers, nor its return from an exception. Its address, if there
    /// is one.
    pub fn cancel(&mut self) -> Option<Address> {
        let cancelled = self.instruction.take().map(|range| range.start);
        self.after.retain(|event| match event.value {
            Event::ExceptionReturn => false,
            // The value of an older transfer may have come since.
            Event::Access(access) => access.instruction() != cancelled,
            _ => true,
        });
        cancelled
    }

    /// Only the return from an exception never happened, if that is the last event. True if it was.
    pub fn cancel_return(&mut self) -> bool {
        let is_return = matches!(self.after.last(), Some(Located { value: Event::ExceptionReturn, .. }));
        if is_return {
            self.after.pop();
        }
        is_return
    }

    /// The last access is of an exclusive store that did not store. False if it is none.
    pub fn fail_store(&mut self) -> bool {
        let last = self.after.iter_mut().rev().find_map(|event| match &mut event.value {
            Event::Access(access) => Some(access),
            _ => None,
        });
        let store = last.filter(|access| access.kind() == AccessKind::Store);
        let is_store = store.is_some();
        if let Some(access) = store {
            *access = access.as_kind(AccessKind::ConditionalStoreFailure);
        }
        is_store
    }
}
