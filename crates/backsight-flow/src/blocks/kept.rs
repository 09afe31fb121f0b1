//! A block that a follower keeps while another follower has the cache.

use backsight_image::Code;

use super::{Block, BlockReader, Blocks, CodeMode, InstructionMap, Origin};

/// A block as it was when the cache went elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptBlock {
    block: Block,
    map: InstructionMap,
}

/// Equal if they are the same code: what came after them is no matter.
impl PartialEq for KeptBlock {
    fn eq(&self, other: &Self) -> bool {
        self.block.is_same_code(&other.block) && self.map == other.map
    }
}

impl<S: Copy> Blocks<S> {
    /// A block, to be found again in whatever cache comes next.
    pub fn keep(&self, number: u32) -> KeptBlock {
        KeptBlock { block: *self.get(number), map: self.map(number) }
    }

    /// The block that execution came from, and whether its last instruction was taken.
    pub fn keep_origin(&self, origin: Origin) -> Option<(KeptBlock, bool)> {
        self.came_by(origin).map(|(_, taken)| (self.keep(origin.block() as u32), taken))
    }

    /// The number that a block has here; numbers of before may be void afterwards. Where the code has changed since it was
    /// kept, the block is not read again: execution went there before.
    pub fn find_kept(
        &mut self,
        kept: &KeptBlock,
        mode: CodeMode,
        reader: &impl BlockReader,
        code: &impl Code,
    ) -> u32 {
        if self.is_nearly_full() {
            self.clear();
        }
        let number = self.enter(Origin::UNKNOWN, kept.block.range.start, mode, reader, code);
        if self.get(number).is_same_code(&kept.block) && self.map(number) == kept.map {
            return number;
        }
        let mut block = kept.block;
        block.forget_ways();
        self.add_hidden(block, kept.map)
    }
}
