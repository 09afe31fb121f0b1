//! Paths that came before, for those who look for something.

use backsight_flow::{ByPath, Event, PathId};

use super::entries::RangeEnd;

/// What is known of a path: how many instructions it has, how it ends, and whether something in it may be what is looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownPath {
    /// Instructions.
    pub instructions: u64,
    /// Something in it may be what is looked for.
    pub may_hold: bool,
    pub(super) last: Option<RangeEnd>,
}

impl KnownPath {
    /// Adds what comes next in the path. `may_hold`: it may be what is looked for.
    pub fn add(&mut self, event: &Event, may_hold: bool) {
        self.may_hold |= may_hold;
        if let Event::Range(range) = event {
            self.instructions += u64::from(range.instructions);
            self.last = Some(RangeEnd::of(range));
        }
    }
}

/// What is known of paths.
#[derive(Debug, Default)]
pub struct KnownPaths(ByPath<KnownPath>);

impl KnownPaths {
    /// A path in which nothing can be what is looked for: it may be passed over.
    #[inline]
    pub fn without(&self, path: PathId) -> Option<KnownPath> {
        self.0.get(path).copied().filter(|known| !known.may_hold)
    }

    /// Remembers a path.
    pub fn insert(&mut self, path: PathId, known: KnownPath) {
        self.0.insert(path, known);
    }
}
