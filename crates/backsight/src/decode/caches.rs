//! What was read of code, shared by the sources that run it.
//!
//! Cores of one system run the same code. Who decodes a source takes what another has read of it, and puts it back when it
//! has no more bytes: there are as many caches as threads, and not as many as sources.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backsight_flow::CodeCache;

use crate::protocol::Stream;
use crate::{Code, Source};

/// Caches of all sources.
#[derive(Default)]
pub(super) struct CodeCaches(Mutex<Pool>);

#[derive(Default)]
struct Pool {
    /// Those that nobody uses at the moment; the one that was used last is the last.
    idle: Vec<IdleCache>,
    /// How many there are.
    made: u64,
}

struct IdleCache {
    key: CodeKey,
    number: u64,
    cache: CodeCache,
}

/// What a source needs to share caches with others.
pub(super) struct SharedCode {
    caches: Arc<CodeCaches>,
    key: CodeKey,
    /// The cache that it had last. Its processor still has that at hand, and paths keep their names in it.
    last: Option<u64>,
}

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

impl SharedCode {
    /// A source that runs some code.
    pub fn new(caches: &Arc<CodeCaches>, key: CodeKey) -> Self {
        Self { caches: Arc::clone(caches), key, last: None }
    }

    /// Gives the stream of the source what was read of its code: the cache that it had last, if nobody uses it.
    pub fn lend(&mut self, stream: &mut impl Stream) {
        let mut pool = self.caches.lock();
        let is_own = |idle: &IdleCache| Some(idle.number) == self.last;
        let own = pool.idle.iter().position(is_own);
        let others = (0..pool.idle.len()).rev().filter(|&index| Some(index) != own);
        for index in own.into_iter().chain(others).collect::<Vec<_>>() {
            if pool.idle[index].key != self.key {
                continue;
            }
            let IdleCache { key, number, cache } = pool.idle.remove(index);
            match stream.give_cache(cache) {
                Ok(()) => return self.last = Some(number),
                Err(cache) => pool.idle.insert(index, IdleCache { key, number, cache }),
            }
        }
        self.last = None;
    }

    /// Takes back what the stream has read of its code.
    pub fn take_back(&mut self, stream: &mut impl Stream) {
        let Some(cache) = stream.take_cache() else { return };
        let mut pool = self.caches.lock();
        let number = self.last.unwrap_or(pool.made);
        pool.made = pool.made.max(number + 1);
        pool.idle.push(IdleCache { key: self.key, number, cache });
        self.last = Some(number);
    }
}

impl CodeCaches {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
