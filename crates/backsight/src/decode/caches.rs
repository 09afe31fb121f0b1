//! What was read of code, shared by the sources that run it.
//!
//! Cores of one system run the same code. Who decodes a source takes what another has read of it, and puts it back when it
//! has no more bytes: there are as many caches as threads, and not as many as sources.

use std::sync::{Mutex, PoisonError};

use backsight_flow::CodeCache;

use crate::protocol::Stream;
use crate::{Code, Source};

/// Caches that nobody uses at the moment, each with which code it is of; the one that was used last is the last.
#[derive(Default)]
pub(super) struct CodeCaches(Mutex<Vec<(CodeKey, CodeCache)>>);

/// Which code a source runs: streams with the same key read the same bytes at the same addresses of the same spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeKey(usize);

impl CodeKey {
    /// `None` if nobody else need see the same: where code changes, or depends on the process that a CPU was on, each source
    /// has its own time.
    pub fn new(code: &Code, source: &Source) -> Option<Self> {
        code.seen_by(source).fixed_image().map(|image| Self(std::ptr::from_ref(image).addr()))
    }
}

impl CodeCaches {
    /// Gives a stream what was read of its code.
    pub fn lend(&self, key: CodeKey, stream: &mut impl Stream) {
        let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = caches.len();
        while let Some(last) = caches[..index].iter().rposition(|(known, _)| *known == key) {
            let (_, cache) = caches.remove(last);
            match stream.give_cache(cache) {
                Ok(()) => return,
                Err(cache) => caches.insert(last, (key, cache)),
            }
            index = last;
        }
    }

    /// Takes back what a stream has read of its code.
    pub fn take_back(&self, key: CodeKey, stream: &mut impl Stream) {
        if let Some(cache) = stream.take_cache() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((key, cache));
        }
    }
}
