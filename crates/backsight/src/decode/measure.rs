//! Decodes of which only the speed is of interest. They are compiled here, as those of commands are, and not where they are asked
//! for.

use backsight_arm::frame::{Batch, Demultiplexer};
use backsight_flow::{Event, PathId};

use super::{Consumer, Counts, Decode, Execution, Kind, Number, Session, Summary};
use crate::{Item, Result};

/// Gives blocks of bytes to what it is called with.
pub type Blocks<'b> = &'b mut dyn FnMut(&mut dyn FnMut(&[u8]));

/// Takes frames apart, and gives the bytes of data in them.
pub fn demultiplex(demultiplexer: &mut Demultiplexer, blocks: Blocks<'_>) -> u64 {
    let mut data = 0;
    let mut each = |batch: Batch<'_>| {
        if let Batch::Data { bytes, .. } = batch {
            data += std::hint::black_box(bytes).len() as u64;
        }
    };
    blocks(&mut |block| demultiplexer.feed(block, &mut each));
    demultiplexer.finish(&mut each);
    demultiplexer.reset();
    data
}

impl Session<'_, Counts<Number>> {
    /// Counts the packets of a whole buffer.
    pub fn count(&mut self, blocks: Blocks<'_>) -> u64 {
        self.pass(blocks, &mut ())
    }
}

impl Session<'_, Execution> {
    /// Follows a whole buffer. Gives its packets and the instructions of its ranges.
    pub fn sum_instructions(&mut self, blocks: Blocks<'_>) -> (u64, u64) {
        let mut sum = Instructions::default();
        (self.pass(blocks, &mut sum), sum.0)
    }
}

impl<K: Kind> Session<'_, K> {
    /// Decodes a whole buffer, for a consumer that never has enough. Gives the number of its packets.
    fn pass(&mut self, blocks: Blocks<'_>, consumer: &mut impl Consumer<K::Value>) -> u64 {
        let before = self.summary().packets();
        blocks(&mut |block| {
            let _ = self.feed(block, consumer);
        });
        let _ = self.finish(consumer);
        self.summary().packets() - before
    }
}

impl Decode<'_, Execution> {
    /// Adds up the instructions of all ranges.
    ///
    /// # Errors
    /// As [`Decode::run`].
    pub fn sum_instructions(self) -> Result<(Summary, u64)> {
        let (summary, sums) = self.consume(|_| Instructions::default())?;
        Ok((summary, sums.into_iter().map(|(_, sum)| sum.0).sum()))
    }
}

/// The instructions of all ranges that came.
#[derive(Default)]
struct Instructions(u64);

impl Consumer<Event> for Instructions {
    #[inline(always)]
    fn item(&mut self, item: Item<'_, Event>) {
        self.0 += instructions_of(&item.value);
    }

    #[inline(always)]
    fn path<'a>(&mut self, _: PathId, _: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        self.0 += items.map(|item| instructions_of(&item.value)).sum::<u64>();
    }

    fn can_join(&self) -> bool {
        true
    }

    fn join(&mut self, later: Self) {
        self.0 += later.0;
    }
}

#[inline(always)]
fn instructions_of(event: &Event) -> u64 {
    match event {
        Event::Range(range) => range.instructions.into(),
        _ => 0,
    }
}
