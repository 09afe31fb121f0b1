//! Memory of which some bytes are known, cheap to copy: copies share what does not differ.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a block.
const BLOCK: usize = 256;
/// Blocks of a region.
const BLOCKS: usize = 64;
/// Bytes of a region.
const REGION: u64 = (BLOCK * BLOCKS) as u64;
/// Ranges of cleared memory that are kept apart; with more, what was there at the beginning no longer counts anywhere.
const MOST_RANGES: usize = 4096;

/// One bit for each byte of a block.
type Bits = [u64; BLOCK / 64];

#[derive(Clone)]
struct Block {
    /// Its value is in `bytes`.
    known: Bits,
    /// It was written, but nobody knows with what.
    lost: Bits,
    bytes: [u8; BLOCK],
}

const EMPTY: Block = Block { known: [0; BLOCK / 64], lost: [0; BLOCK / 64], bytes: [0; BLOCK] };

type Region = [Option<Arc<Block>>; BLOCKS];

/// What is known of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Byte {
    /// It is this.
    Known(u8),
    /// Something changed it.
    Lost,
    /// Nothing happened to it yet.
    Untouched,
}

/// The memory of a program, as far as it is known.
#[derive(Clone, Default)]
pub(super) struct Memory {
    regions: BTreeMap<u64, Arc<Region>>,
    /// Ranges that became zero, or are gone: first and last address.
    cleared: Arc<BTreeMap<u64, u64>>,
    /// What was there at the beginning counts no longer.
    forgotten: bool,
    /// Blocks and regions that were made, in bytes.
    made: u64,
}

fn place(address: u64) -> (u64, usize, usize) {
    let within = (address % REGION) as usize;
    (address / REGION, within / BLOCK, within % BLOCK)
}

fn has(bits: &Bits, at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 != 0
}

fn set(bits: &mut Bits, at: usize, value: bool) {
    bits[at / 64] = bits[at / 64] & !(1 << (at % 64)) | u64::from(value) << (at % 64);
}

impl Memory {
    fn block(&self, address: u64) -> Option<&Block> {
        let (region, block, _) = place(address);
        self.regions.get(&region)?[block].as_deref()
    }

    /// The block of an address, made if it is not there, for this memory alone.
    fn block_mut(&mut self, address: u64) -> &mut Block {
        let (region, block, _) = place(address);
        let made = &mut self.made;
        let region = self.regions.entry(region).or_insert_with(|| {
            *made += size_of::<Region>() as u64;
            Arc::new([const { None }; BLOCKS])
        });
        let block = Arc::make_mut(region)[block].get_or_insert_with(|| {
            *made += size_of::<Block>() as u64;
            Arc::new(EMPTY)
        });
        Arc::make_mut(block)
    }

    /// Bytes that blocks and regions take, those that are gone counted, too.
    pub fn made(&self) -> u64 {
        self.made
    }

    pub fn get(&self, address: u64) -> Byte {
        let (_, _, at) = place(address);
        match self.block(address) {
            Some(block) if has(&block.known, at) => Byte::Known(block.bytes[at]),
            Some(block) if has(&block.lost, at) => Byte::Lost,
            _ if self.is_cleared(address) => Byte::Lost,
            _ => Byte::Untouched,
        }
    }

    fn is_cleared(&self, address: u64) -> bool {
        self.forgotten || self.cleared.range(..=address).next_back().is_some_and(|(_, &last)| address <= last)
    }

    /// The value of so many bytes, at most 8, if all of them are known and in one block.
    #[inline]
    pub fn number(&self, address: u64, size: u8) -> Option<u64> {
        let (_, _, at) = place(address);
        let block = self.block(address)?;
        let bytes = block.bytes.get(at..at + usize::from(size))?;
        let mut value = [0; 8];
        value.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (at..at + usize::from(size)).all(|at| has(&block.known, at)).then(|| u64::from_le_bytes(value))
    }

    pub fn put(&mut self, address: u64, value: u8) {
        let (_, _, at) = place(address);
        let block = self.block_mut(address);
        block.bytes[at] = value;
        set(&mut block.known, at, true);
    }

    /// These bytes are in memory from now on.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let (_, _, at) = place(address);
        if at + bytes.len() > BLOCK {
            return bytes
                .iter()
                .enumerate()
                .for_each(|(n, &byte)| self.put(address.wrapping_add(n as u64), byte));
        }
        let block = self.block_mut(address);
        block.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        (at..at + bytes.len()).for_each(|at| set(&mut block.known, at, true));
    }

    /// Something was written there.
    pub fn lose(&mut self, address: u64, size: u8) {
        for address in (0..u64::from(size)).map(|n| address.wrapping_add(n)) {
            let (_, _, at) = place(address);
            let block = self.block_mut(address);
            set(&mut block.known, at, false);
            set(&mut block.lost, at, true);
        }
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        *self = Self { forgotten: true, made: self.made, ..Self::default() };
    }

    /// The range is zero now, or gone.
    pub fn clear(&mut self, address: u64, length: u64) {
        let Some(more) = length.checked_sub(1) else { return };
        let last = address.saturating_add(more);
        let (first_region, last_region) = (address / REGION, last / REGION);
        let touched: Vec<u64> =
            self.regions.range(first_region..=last_region).map(|(&region, _)| region).collect();
        for region in touched {
            let start = region * REGION;
            if address <= start && start + (REGION - 1) <= last {
                self.regions.remove(&region);
            } else if let Some(region) = self.regions.get_mut(&region) {
                clear_part(Arc::make_mut(region), start, address, last);
            }
        }
        self.add_cleared(address, last);
    }

    fn add_cleared(&mut self, mut first: u64, mut last: u64) {
        if self.forgotten {
            return;
        }
        let cleared = Arc::make_mut(&mut self.cleared);
        // Those that it touches become one with it.
        while let Some((&start, &end)) = cleared.range(..=last.saturating_add(1)).next_back()
            && end.saturating_add(1) >= first
        {
            cleared.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        cleared.insert(first, last);
        if cleared.len() > MOST_RANGES {
            cleared.clear();
            self.forgotten = true;
        }
    }

    /// Bytes that this memory does not share with another one.
    pub fn unshared(&self, other: &Self) -> u64 {
        let mut bytes = 0;
        for (number, region) in &self.regions {
            let before = other.regions.get(number);
            bytes += size_of::<u64>() as u64 * 4;
            if before.is_some_and(|before| Arc::ptr_eq(region, before)) {
                continue;
            }
            bytes += size_of::<Region>() as u64;
            for (index, block) in region.iter().enumerate() {
                let Some(block) = block else { continue };
                let same = before.and_then(|before| before[index].as_ref());
                if !same.is_some_and(|same| Arc::ptr_eq(block, same)) {
                    bytes += size_of::<Block>() as u64;
                }
            }
        }
        let same = Arc::ptr_eq(&self.cleared, &other.cleared);
        bytes + if same { 0 } else { 32 * self.cleared.len() as u64 }
    }
}

/// Forgets the bytes of a region that begins at `start` from `first` to `last`.
fn clear_part(region: &mut Region, start: u64, first: u64, last: u64) {
    for (index, slot) in region.iter_mut().enumerate() {
        let begin = start + (index * BLOCK) as u64;
        let end = begin + (BLOCK as u64 - 1);
        if end < first || last < begin {
            continue;
        }
        if first <= begin && end <= last {
            *slot = None;
        } else if let Some(block) = slot {
            let block = Arc::make_mut(block);
            for at in (first.max(begin) - begin)..=(last.min(end) - begin) {
                set(&mut block.known, at as usize, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Byte::*;

    #[test]
    fn a_byte_is_known_from_the_first_write_until_it_is_cleared_or_overwritten_with_nobody_knows_what() {
        let mut memory = Memory::default();
        assert_eq!(memory.get(0x1000), Untouched);
        memory.write(0x10FE, &[1, 2, 3, 4]);
        assert_eq!(
            (memory.get(0x10FD), memory.get(0x10FE), memory.get(0x1101)),
            (Untouched, Known(1), Known(4))
        );
        assert_eq!((memory.number(0x1100, 2), memory.number(0x1100, 4)), (Some(0x0403), None));
        memory.lose(0x1100, 1);
        assert_eq!((memory.get(0x10FF), memory.get(0x1100), memory.get(0x1101)), (Known(2), Lost, Known(4)));
        let before = memory.clone();
        memory.clear(0x1100, 0x1_0000);
        assert_eq!((memory.get(0x10FF), memory.get(0x1101), memory.get(0x9000)), (Known(2), Lost, Lost));
        memory.put(0x9000, 9);
        assert_eq!(
            (memory.get(0x9000), memory.get(0x1_10FF), memory.get(0x1_1100)),
            (Known(9), Lost, Untouched)
        );
        assert_eq!((before.get(0x1101), before.get(0x9000)), (Known(4), Untouched), "a copy stays as it was");
        memory.forget();
        assert_eq!((memory.get(0x9000), memory.get(u64::MAX)), (Lost, Lost));
    }

    #[test]
    fn the_ends_of_the_address_space_are_memory_too() {
        let mut memory = Memory::default();
        memory.write(u64::MAX - 1, &[1, 2, 3, 4]);
        assert_eq!((memory.get(u64::MAX), memory.get(0), memory.get(1)), (Known(2), Known(3), Known(4)));
        memory.clear(u64::MAX - 7, u64::MAX);
        assert_eq!((memory.get(u64::MAX), memory.get(0)), (Lost, Known(3)));
        memory.clear(0, u64::MAX);
        assert_eq!(memory.get(5), Lost);
    }

    #[test]
    fn too_many_cleared_ranges_forget_the_beginning_and_nothing_else() {
        let mut memory = Memory::default();
        memory.put(1, 7);
        (0..=MOST_RANGES as u64).for_each(|n| memory.clear(0x1000 + 2 * n, 1));
        assert_eq!((memory.get(1), memory.get(0x10_0000)), (Known(7), Lost));
    }

    #[test]
    fn what_copies_share_is_counted_once() {
        let mut memory = Memory::default();
        (0..100).for_each(|n| memory.put(n * 0x400, 1));
        let before = memory.clone();
        let shared = memory.unshared(&before);
        memory.put(0, 2);
        let one = memory.unshared(&before) - shared;
        assert_eq!(one, (size_of::<Region>() + size_of::<Block>()) as u64);
    }
}
