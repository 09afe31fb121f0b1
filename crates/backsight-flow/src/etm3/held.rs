//! The newest instruction, and what was reported since: an exception may still cancel it.

use backsight_core::{Address, Located};

use crate::etm::At;
use crate::{AccessKind, Event};

/// More than this is not held back.
const MOST: usize = 64;

/// Events that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Vec<Located<Event>>);

impl Held {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Has it held back as much as it can?
    pub fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    pub fn push(&mut self, at: At, event: Event) {
        self.0.push(at.map(|()| event));
    }

    /// All events, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Located<Event>> + '_ {
        self.0.drain(..)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The newest instruction never happened, nor its transfers, nor its return from an exception. Its address, if there
    /// is one.
    pub fn cancel(&mut self) -> Option<Address> {
        let cancelled = self.0.iter().find_map(|event| match event.value {
            Event::Range(range) => Some(range.start),
            _ => None,
        });
        self.0.retain(|event| match event.value {
            Event::Range(_) | Event::ExceptionReturn => false,
            // The value of an older transfer may have come since.
            Event::Access(access) => access.instruction() != cancelled,
            _ => true,
        });
        cancelled
    }

    /// Only the return from an exception never happened, if that is the last event. True if it was.
    pub fn cancel_return(&mut self) -> bool {
        let is_return = matches!(self.0.last(), Some(Located { value: Event::ExceptionReturn, .. }));
        if is_return {
            self.0.pop();
        }
        is_return
    }

    /// The last access is of an exclusive store that did not store. False if it is none.
    pub fn fail_store(&mut self) -> bool {
        let last = self.0.iter_mut().rev().find_map(|event| match &mut event.value {
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
