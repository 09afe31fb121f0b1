//! One cache of code for several followers.
//!
//! A follower stands in a block of its cache. While another one has the cache, it keeps that block, and finds it again in
//! the cache that it has when it goes on.

use backsight_image::Code;

use super::Follower;
use super::destination::{Destination, Position};
use super::walk::Paused;
use crate::CodeCache;
use crate::blocks::{KeptBlock, RiscvReader};

/// How code is read and paths are remembered: only followers that do it alike share a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    reader: RiscvReader,
    /// Decides where paths end.
    sijump: bool,
}

/// The cache may be another one: the block of the position, as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Away(Option<KeptBlock>);

impl<C: Code> Follower<C> {
    /// What it has read of the code, for another follower of the same code. It reads again what it needs afterwards.
    pub fn take_cache(&mut self) -> CodeCache {
        self.leave_cache();
        CodeCache::new(self.reading(), self.blocks.take())
    }

    /// Goes on with what another follower of the same code has read. What follows is the same.
    ///
    /// # Errors
    /// Gives it back if it is of no use here: code was read in another way.
    pub fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        let blocks = cache.open(&self.reading())?;
        self.leave_cache();
        self.blocks = blocks;
        Ok(())
    }

    /// Exchanges what both have read of the same code, if each can go on with that of the other.
    pub fn exchange_caches(&mut self, other: &mut Self) {
        if self.reading() == other.reading() {
            self.leave_cache();
            other.leave_cache();
            std::mem::swap(&mut self.blocks, &mut other.blocks);
        }
    }

    fn reading(&self) -> Reading {
        Reading { reader: self.reader, sijump: self.options().sijump }
    }

    /// Keeps what it needs of its cache.
    fn leave_cache(&mut self) {
        if self.away.is_none() {
            self.away = Some(self.kept());
            self.inferred = self.inferred.map(Destination::without_block);
            self.paused = self.paused.map(Paused::without_blocks);
        }
    }

    /// What it needs of its cache.
    pub(super) fn kept(&self) -> Away {
        let keep = |position: Position| self.blocks.keep(position.block);
        self.away.unwrap_or_else(|| Away(self.position.map(keep)))
    }

    /// Finds its place in the cache that it has.
    pub(super) fn come_back(&mut self) {
        let Some(Away(kept)) = self.away.take() else { return };
        self.renew_space();
        if let (Some(kept), Some(position)) = (kept, &mut self.position) {
            position.block = self.blocks.find_kept(&kept, self.code_mode, &self.reader, &self.code);
        }
        if let (Some(position), Some(paused)) = (self.position, &mut self.paused) {
            paused.stand_at(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use backsight_core::{Address, AddressSpace, Located};
    use backsight_riscv::etrace::{BranchMap, Options, Packet, Params, Start};

    use super::super::Settings;
    use super::*;

    /// Loops of two instructions, one after the other, from 0x1000 on.
    #[derive(Clone)]
    struct Loops(Vec<u8>);

    impl Code for Loops {
        fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
            self.0
                .get(usize::try_from(address.0.checked_sub(0x1000)?).ok()?..)
                .filter(|rest| !rest.is_empty())
        }
    }

    fn push(follower: &mut Follower<Loops>, value: Packet) {
        follower.push(Located { offset: 0, length: 1, value }, &mut |_| {});
    }

    #[test]
    fn harts_that_share_code_take_the_memory_of_one() {
        // c.nop; beq t0, x0, .-2
        let code = Loops([0x01, 0x00, 0xE3, 0x8F, 0x02, 0xFE].repeat(1000));
        let mut harts: Vec<_> = (0..64)
            .map(|_| Follower::new(Settings::new(Params::default(), Options::default()), code.clone()))
            .collect();
        let start = Packet::Start(Start { branch: true, address: 0x1000 >> 1, ..Start::default() });
        // Every loop has two turns.
        let turns = Packet::Branches { map: BranchMap::new(31, 0x2AAA_AAAA), address: None };
        let mut holder = 0;
        for round in 0..60 {
            for hart in 0..64 {
                if hart != holder
                    && let Ok([before, now]) = harts.get_disjoint_mut([holder, hart])
                {
                    now.exchange_caches(before);
                }
                holder = hart;
                push(&mut harts[hart], if round == 0 { start } else { turns });
            }
        }
        let blocks: Vec<_> = harts.iter().map(|hart| hart.blocks.len()).collect();
        assert!(blocks[holder] > 500, "{blocks:?}");
        assert_eq!(blocks.iter().sum::<usize>(), blocks[holder], "{blocks:?}");
        assert!(harts.iter().all(|hart| hart.faults().total() == 0 && hart.statistics().ranges > 1500));
    }
}
