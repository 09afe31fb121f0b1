//! What was read of code, as it goes from one follower to another.

use std::any::Any;
use std::fmt;

use super::Blocks;

/// What a follower has read of code, and the paths that it walked there. Another follower that reads the same code in the
/// same way can go on with it: sources that run the same program need it once, and not once each.
pub struct CodeCache(Box<dyn Any + Send>);

/// With how the code was read.
struct Contents<R, S> {
    reader: R,
    blocks: Blocks<S>,
}

impl CodeCache {
    /// Blocks, as they were cut by this reader.
    pub(crate) fn new<R: Send + 'static, S: Send + 'static>(reader: R, blocks: Blocks<S>) -> Self {
        Self(Box::new(Contents { reader, blocks }))
    }

    /// The blocks, if this reader cuts them in the same way.
    pub(crate) fn open<R: PartialEq + Send + 'static, S: Send + 'static>(
        self,
        reader: &R,
    ) -> Result<Blocks<S>, Self> {
        match self.0.downcast::<Contents<R, S>>() {
            Ok(contents) if contents.reader == *reader => Ok(contents.blocks),
            Ok(contents) => Err(Self(contents)),
            Err(other) => Err(Self(other)),
        }
    }
}

impl fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeCache").finish_non_exhaustive()
    }
}
