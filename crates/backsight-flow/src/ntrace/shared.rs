//! One cache of code for several followers.

use backsight_image::Code;

use super::Follower;
use crate::CodeCache;
use crate::blocks::{KeptBlock, Origin, RiscvReader};

/// How code is read and paths are remembered: only followers that do it alike share a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading(RiscvReader);

/// The cache may be another one: the block that execution came from, as it was, and whether its last instruction was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Away(Option<(KeptBlock, bool)>);

impl<C: Code> Follower<C> {
    /// What it has read of the code, for another follower of the same code. It reads again what it needs afterwards.
    pub fn take_cache(&mut self) -> CodeCache {
        self.leave_cache();
        CodeCache::new(Reading(self.reader), self.blocks.take())
    }

    /// Goes on with what another follower of the same code has read. What follows is the same.
    ///
    /// # Errors
    /// Gives it back if it is of no use here: code was read in another way.
    pub fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        let blocks = cache.open(&Reading(self.reader))?;
        self.leave_cache();
        self.blocks = blocks;
        Ok(())
    }

    /// Exchanges what both have read of the same code, if each can go on with that of the other.
    pub fn exchange_caches(&mut self, other: &mut Self) {
        if self.reader == other.reader {
            self.leave_cache();
            other.leave_cache();
            std::mem::swap(&mut self.blocks, &mut other.blocks);
        }
    }

    /// Keeps what it needs of its cache.
    fn leave_cache(&mut self) {
        if self.away.is_none() {
            self.away = Some(self.kept());
            self.origin = Origin::UNKNOWN;
        }
    }

    /// What it needs of its cache.
    pub(super) fn kept(&self) -> Away {
        self.away.unwrap_or_else(|| Away(self.blocks.keep_origin(self.origin)))
    }

    /// Finds its place in the cache that it has.
    #[cold]
    pub(super) fn come_back(&mut self) {
        let Some(Away(kept)) = self.away.take() else { return };
        self.renew_space();
        if let Some((block, taken)) = kept {
            let number = self.blocks.find_kept(&block, self.code_mode, &self.reader, &self.code);
            self.origin = Origin::new(number, taken);
        }
    }
}
