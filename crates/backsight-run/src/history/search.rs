//! Who touched memory: the last access before a moment, and the next one after it.

use super::History;
use super::chunk::{Chunk, Hit, effect};
use backsight_core::Execution;

/// Accesses that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub length: u64,
    /// Those that read.
    pub reads: bool,
    /// Those that write; what the system wrote counts.
    pub writes: bool,
    /// Those of this thread; `None`: of any.
    pub thread: Option<u32>,
}

impl Wanted {
    fn may_be_in(&self, chunk: &Chunk) -> bool {
        self.reads && chunk.reads.may_have(self.address, self.length)
            || self.writes && chunk.writes.may_have(self.address, self.length)
    }

    fn is_in(&self, address: u64, length: u64, store: bool) -> bool {
        let asked = if store { self.writes } else { self.reads };
        // Distances, so that ranges may reach around the end of the address space.
        asked
            && (address.wrapping_sub(self.address) < self.length
                || self.address.wrapping_sub(address) < length)
    }
}

/// Finds accesses in a chunk, in order.
fn hits<'a>(
    wanted: &'a Wanted,
    items: &'a [Execution],
    mut thread: u32,
    mut count: u64,
) -> impl Iterator<Item = Hit> + 'a {
    items.iter().filter_map(move |item| {
        match item {
            Execution::Thread(other) => thread = *other,
            Execution::Instruction(_) => count += 1,
            _ => {}
        }
        let (address, length, store, system) = effect(item)?;
        // What was there before the first instruction, nobody wrote.
        let instruction = count.checked_sub(1)?;
        let is_by_it = wanted.thread.is_none_or(|wanted| wanted == thread);
        (is_by_it && wanted.is_in(address.0, length, store)).then_some(Hit {
            instruction,
            thread,
            address,
            length,
            store,
            system,
        })
    })
}

impl History {
    /// The last access that an instruction before this moment made.
    pub fn last_access(&mut self, moment: u64, wanted: &Wanted) -> Option<Hit> {
        // What comes after the last instruction before the moment may be in the chunk of the next one.
        let end = self.chunks.partition_point(|chunk| chunk.first <= moment);
        (0..end).rev().find_map(|chunk| {
            self.hit_in(chunk, wanted, |hits| hits.take_while(|hit| hit.instruction < moment).last())
        })
    }

    /// The next access that an instruction makes which is executed from this moment on.
    pub fn next_access(&mut self, moment: u64, wanted: &Wanted) -> Option<Hit> {
        let start = self.chunks.partition_point(|chunk| chunk.first <= moment).saturating_sub(1);
        (start..self.chunks.len()).find_map(|chunk| {
            self.hit_in(chunk, wanted, |mut hits| Iterator::find(&mut hits, |hit| hit.instruction >= moment))
        })
    }

    /// The first access of an instruction, by its number among all threads.
    pub fn access_by(&mut self, instruction: u64, wanted: &Wanted) -> Option<Hit> {
        let start = self.chunks.partition_point(|chunk| chunk.first <= instruction).saturating_sub(1);
        // What belongs to it may be in the chunk of the next one.
        let end = self.chunks.partition_point(|chunk| chunk.first <= instruction.saturating_add(1));
        (start..end).find_map(|chunk| {
            self.hit_in(chunk, wanted, |hits| {
                let mut rest = hits.skip_while(|hit| hit.instruction < instruction);
                rest.next().filter(|hit| hit.instruction == instruction)
            })
        })
    }

    fn hit_in(
        &mut self,
        number: usize,
        wanted: &Wanted,
        choose: impl FnOnce(&mut dyn Iterator<Item = Hit>) -> Option<Hit>,
    ) -> Option<Hit> {
        let chunk = self.chunks.get(number).filter(|chunk| wanted.may_be_in(chunk))?;
        let (first, thread) = (chunk.first, chunk.thread);
        choose(&mut hits(wanted, &self.items(number).items, thread, first))
    }
}
