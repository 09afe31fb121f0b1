//! ADAC: a cache of recent data addresses that learns how many of their low bits change.
//!
//! Each entry has an address and a shift: an address that agrees with it above the shift is sent as its low bits only.
//! The shift goes down while that works, and up when more bits differ. Entries have no tags: the set is chosen by the
//! instruction's address, the way is sent.
//!
//! ```text
//! in the way used last           1 low bits
//! in another way                 0 way low bits
//! with j more bits               0 way-used-last way j low bits
//! in none                        0 way-used-last 00…0 00…0 address
//! ```

use crate::Damage;
use crate::bits::{BitReader, BitWriter};

/// How the cache is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adac {
    /// Sets, a power of two.
    pub sets: u32,
    /// Entries of a set, a power of two.
    pub ways: u32,
    /// How many shifts, from an entry's own on, are tried; a power of two. 1 with a fixed shift.
    pub window: u32,
    /// The largest shift, which new entries have.
    pub most: u32,
    /// The smallest shift.
    pub least: u32,
    /// Hits after which a shift goes down.
    pub patience: u32,
    /// What the counter has after a shift went up: 0 as printed, or the patience.
    pub after_increase: u32,
    /// Bits of an address.
    pub address_bits: u32,
}

impl Adac {
    /// The best overall of the text, with so many sets.
    pub const fn adaptive(sets: u32) -> Self {
        Self {
            sets,
            ways: 4,
            window: 4,
            most: 12,
            least: 0,
            patience: 8,
            after_increase: 0,
            address_bits: 64,
        }
    }

    /// A fixed shift.
    pub const fn fixed(sets: u32, shift: u32) -> Self {
        Self { window: 1, most: shift, least: shift, ..Self::adaptive(sets) }
    }

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        let power = |value: u32| value.is_power_of_two();
        if !power(self.sets)
            || !power(self.ways)
            || !power(self.window)
            || self.sets > 1 << 16
            || self.ways > 64
        {
            return Err("sets, ways and shifts to try are powers of two, up to 65536, 64 and 16");
        }
        if self.window > 16 || self.least > self.most || self.most + self.window > self.address_bits {
            return Err("shifts fit in an address");
        }
        crate::check_address_bits(self.address_bits)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    shift: u32,
    counter: u32,
}

/// The cache, the same on both sides.
#[derive(Clone, Debug)]
pub struct AddressCache {
    build: Adac,
    entries: Vec<Entry>,
    recent: Vec<u32>,
    /// Addresses, and those that were found.
    pub looked_up: u64,
    /// Found in some way.
    pub hits: u64,
}

impl AddressCache {
    /// An empty cache; the build must pass its check.
    pub fn new(build: Adac) -> Self {
        let entry = Entry { address: 0, shift: build.most, counter: build.patience };
        let sets = build.sets as usize;
        Self {
            build,
            entries: vec![entry; sets * build.ways as usize],
            recent: vec![0; sets],
            looked_up: 0,
            hits: 0,
        }
    }

    fn set(&self, pc: u64) -> usize {
        (pc >> 1) as usize & (self.build.sets as usize - 1)
    }

    fn find(&self, set: usize, address: u64) -> Option<(u32, u32)> {
        (0..self.build.ways).find_map(|way| {
            let entry = &self.entries[set * self.build.ways as usize + way as usize];
            let same = |j: &u32| (address ^ entry.address) >> (entry.shift + j) == 0;
            (0..self.build.window).find(same).map(|j| (way, j))
        })
    }

    /// Writes the address that the instruction at `pc` refers to.
    pub fn put(&mut self, out: &mut BitWriter, pc: u64, address: u64) {
        let set = self.set(pc);
        let (way_bits, window_bits) = (self.build.ways.trailing_zeros(), self.build.window.trailing_zeros());
        let recent = self.recent[set];
        let found = self.find(set, address);
        self.looked_up += 1;
        match found {
            None => {
                out.put(0, 1);
                out.put(u64::from(recent), way_bits);
                out.put(0, way_bits + window_bits);
                out.put(address, self.build.address_bits);
            }
            Some((way, j)) => {
                self.hits += 1;
                let shift = self.entries[set * self.build.ways as usize + way as usize].shift;
                if j > 0 {
                    out.put(0, 1);
                    out.put(u64::from(recent), way_bits);
                    out.put(u64::from(way), way_bits);
                    out.put(u64::from(j), window_bits);
                } else if way == recent {
                    out.put(1, 1);
                } else {
                    out.put(0, 1);
                    out.put(u64::from(way), way_bits);
                }
                out.put(address, shift + j);
            }
        }
        self.update(set, address, found);
    }

    /// Reads the address that the instruction at `pc` refers to.
    pub fn take(&mut self, bits: &mut BitReader<'_>, pc: u64) -> Result<u64, Damage> {
        let set = self.set(pc);
        let (way_bits, window_bits) = (self.build.ways.trailing_zeros(), self.build.window.trailing_zeros());
        let recent = self.recent[set];
        let found = if bits.take(1)? == 1 {
            Some((recent, 0))
        } else {
            match bits.take(way_bits)? as u32 {
                way if way != recent => Some((way, 0)),
                _ => {
                    let way = bits.take(way_bits)? as u32;
                    let j = bits.take(window_bits)? as u32;
                    (j > 0).then_some((way, j))
                }
            }
        };
        let address = match found {
            None => bits.take(self.build.address_bits)?,
            Some((way, j)) => {
                let entry = &self.entries[set * self.build.ways as usize + way as usize];
                let low = entry.shift + j;
                entry.address >> low << low | bits.take(low)?
            }
        };
        self.update(set, address, found);
        Ok(address)
    }

    fn update(&mut self, set: usize, address: u64, found: Option<(u32, u32)>) {
        let build = self.build;
        let way = found.map_or((self.recent[set] + 1) % build.ways, |(way, _)| way);
        let entry = &mut self.entries[set * build.ways as usize + way as usize];
        match found {
            None => (entry.shift, entry.counter) = (build.most, build.patience),
            Some((_, 0)) => {
                entry.counter = entry.counter.saturating_sub(1);
                if entry.counter == 0 {
                    entry.shift = entry.shift.saturating_sub(1).max(build.least);
                    entry.counter = build.patience;
                }
            }
            Some(_) => {
                // One miss is as much as all the hits: the counter goes to its top at once.
                entry.shift = (entry.shift + 1).min(build.most);
                entry.counter = build.after_increase;
            }
        }
        entry.address = address;
        self.recent[set] = way;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_and_streams_of_them_become_short() {
        for build in [
            Adac { address_bits: 32, ..Adac::adaptive(16) },
            Adac { address_bits: 32, after_increase: 8, ..Adac::adaptive(2) },
            Adac { address_bits: 32, ..Adac::fixed(16, 8) },
            Adac { ways: 1, address_bits: 32, ..Adac::adaptive(1) },
        ] {
            assert_eq!(build.check(), Ok(()));
            let mut state = 99u64;
            let addresses: Vec<(u64, u64)> = (0..20_000u64)
                .map(|n| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let pc = 0x1000 + n % 7 * 2;
                    let far = if state >> 60 == 0 { state >> 34 & 0xFFFF_FFF8 } else { 0 };
                    (pc, (0x2000_0000 + (n % 7) * 0x10_0000 + n / 7 * 8) ^ far)
                })
                .collect();
            let mut out = BitWriter::default();
            let mut cache = AddressCache::new(build);
            addresses.iter().for_each(|&(pc, address)| cache.put(&mut out, pc, address));
            let (bytes, bits) = out.take();
            let mut reader = BitReader::new(&bytes, bits);
            let mut cache = AddressCache::new(build);
            for &(pc, address) in &addresses {
                assert_eq!(cache.take(&mut reader, pc), Ok(address), "{build:?}");
            }
            assert!(reader.is_empty());
            // Seven instructions in one entry have nothing in common.
            let few = build.sets == 1 || bits < 20 * addresses.len() as u64;
            assert!(few, "{bits} bits, {build:?}");
        }
    }
}
