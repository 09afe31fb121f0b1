//! Bytes of memory, and who wrote them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::Writer;
use crate::packet::Memory as Access;

/// Bytes of memory that are kept together.
pub const LINE: u64 = 64;
/// Bytes of memory whose writer is kept together.
pub(super) const GRANULE: usize = 8;
/// Granules of a line.
pub(super) const GRANULES: usize = LINE as usize / GRANULE;
/// The number of the last line.
const LAST: u64 = u64::MAX / LINE;
/// Lines that are looked up fast.
const RECENT: usize = 256;
/// Most lines that are made unknown one by one: where more are, everything is.
const MOST_FORGOTTEN: u64 = 1 << 14;

/// Who wrote a granule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wrote {
    /// Who did before.
    #[default]
    AsBefore,
    /// Nobody who was seen: it was found to be something else than what was written.
    Nobody,
    /// This one.
    By(Writer),
}

/// What is said of 64 bytes that lie together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLine {
    pub(super) bytes: Bytes,
    /// Of these bytes something is said: others are what they were before.
    pub(super) touched: u64,
    /// These of them are known.
    pub(super) known: u64,
    pub(super) writers: [Wrote; GRANULES],
    /// Granules of which something else is known than when they were [taken](Memory::take_changes) last, and those that were read.
    pub(super) changed: u8,
    pub(super) read: u8,
}

/// The bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bytes(pub [u8; LINE as usize]);

impl Default for Bytes {
    fn default() -> Self {
        Self([0; LINE as usize])
    }
}

impl MemoryLine {
    /// Adds what was known before.
    pub fn add_older(&mut self, older: &Self) {
        for (granule, (own, before)) in self.writers.iter_mut().zip(&older.writers).enumerate() {
            if *own != Wrote::AsBefore {
                continue;
            }
            let both = self.known & older.known & granule_mask(granule);
            let differs = ones(both).any(|at| self.bytes.0[at] != older.bytes.0[at]);
            *own = if differs { Wrote::Nobody } else { *before };
        }
        let new = older.touched & !self.touched;
        ones(new).for_each(|at| self.bytes.0[at] = older.bytes.0[at]);
        self.touched |= new;
        self.known |= older.known & new;
    }

    /// Is nothing left that may be told by what was before?
    pub fn is_whole(&self) -> bool {
        self.touched == u64::MAX && self.writers.iter().all(|writer| *writer != Wrote::AsBefore)
    }

    /// A byte if it is known, and who wrote it if that was seen.
    pub fn byte(&self, at: usize) -> Option<(u8, Option<Writer>)> {
        if self.known >> at & 1 == 0 {
            return None;
        }
        let writer = match self.writers[at / GRANULE] {
            Wrote::By(writer) => Some(writer),
            Wrote::AsBefore | Wrote::Nobody => None,
        };
        Some((self.bytes.0[at], writer))
    }

    fn note(&mut self, mask: u64, is_change: bool) {
        let granules = granules_of(mask);
        match is_change {
            true => self.changed |= granules,
            false => self.read |= granules,
        }
    }
}

/// The bits that are set.
pub(super) fn ones(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros();
        (at < 64).then(|| {
            mask &= mask - 1;
            at as usize
        })
    })
}

pub(super) const fn granule_mask(granule: usize) -> u64 {
    0xFF << (GRANULE * granule)
}

/// The granules that have one of these bytes.
fn granules_of(mask: u64) -> u8 {
    (0..GRANULES).filter(|&granule| mask & granule_mask(granule) != 0).fold(0, |sum, one| sum | 1 << one)
}

/// What memory was before the lines that a machine has seen.
pub trait Earlier: std::fmt::Debug + Send + Sync {
    /// What was known of a line of memory, by its address divided by [`LINE`].
    fn line(&self, number: u64) -> MemoryLine;
}

/// All lines of memory of which something was said.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    numbers: HashMap<u64, u32>,
    lines: Vec<(u64, MemoryLine)>,
    recent: Box<[(u64, u32); RECENT]>,
    most: usize,
    /// Lines whose `changed` or `read` is not zero.
    dirty: Vec<u32>,
    /// What was known of other lines; `None` if nothing was.
    pub earlier: Option<Arc<dyn Earlier>>,
    /// Lines were left to somebody who keeps them, and are not here.
    has_left: bool,
    /// What was known before is not known any more.
    pub is_cleared: bool,
    pub contradictions: u64,
    pub is_full: bool,
}

impl Memory {
    pub fn new(most: usize) -> Self {
        Self {
            numbers: HashMap::new(),
            lines: Vec::new(),
            recent: Box::new([(u64::MAX, 0); RECENT]),
            most,
            dirty: Vec::new(),
            earlier: None,
            has_left: false,
            is_cleared: false,
            contradictions: 0,
            is_full: false,
        }
    }

    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// What is known of a line.
    pub fn line(&self, number: u64) -> MemoryLine {
        let mut line = self.own(number).cloned().unwrap_or_default();
        if let Some(earlier) = self.earlier.as_ref().filter(|_| !self.is_cleared && !line.is_whole()) {
            line.add_older(&earlier.line(number));
        }
        line
    }

    pub fn own(&self, number: u64) -> Option<&MemoryLine> {
        let place = self.numbers.get(&number)?;
        self.lines.get(*place as usize).map(|(_, line)| line)
    }

    /// The lines of which something was said here, in no order.
    pub fn own_numbers(&self) -> impl Iterator<Item = u64> {
        self.lines.iter().map(|(number, _)| *number)
    }

    pub fn byte(&self, address: u64) -> Option<(u8, Option<Writer>)> {
        let at = (address % LINE) as usize;
        match self.own(address / LINE) {
            Some(line) if line.touched >> at & 1 == 1 && line.writers[at / GRANULE] != Wrote::AsBefore => {
                line.byte(at)
            }
            None if self.earlier.is_none() => None,
            _ => self.line(address / LINE).byte(at),
        }
    }

    #[inline]
    fn place(&mut self, number: u64) -> Option<u32> {
        let slot = number as usize % RECENT;
        let (known, place) = self.recent[slot];
        if known == number {
            return Some(place);
        }
        let place = match self.numbers.entry(number) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) if self.lines.len() >= self.most => {
                self.is_full = true;
                return None;
            }
            Entry::Vacant(free) => {
                self.lines.push((number, MemoryLine::default()));
                *free.insert(self.lines.len() as u32 - 1)
            }
        };
        self.recent[slot] = (number, place);
        Some(place)
    }

    #[inline]
    pub fn access(&mut self, access: &Access, writer: Writer) {
        let shift = (access.address % LINE) as u32;
        let touched = u128::from(access.data.touched) << shift;
        let known = u128::from(access.data.known) << shift;
        let number = access.address / LINE;
        let mut contradicts = false;
        for (number, half) in [(number, 0), (number.wrapping_add(1) & LAST, 64)] {
            let (touched, known) = ((touched >> half) as u64, (known >> half) as u64);
            let touched = if access.write { touched } else { touched & known };
            if touched == 0 {
                continue;
            }
            let Some(place) = self.place(number) else { continue };
            let Some((_, line)) = self.lines.get_mut(place as usize) else { continue };
            let was_clean = line.changed | line.read == 0;
            // Where the bytes of the access are, counted from those of this line.
            let from = |at: usize| (at + half).wrapping_sub(shift as usize);
            let mut granules = [false; GRANULES];
            let mut is_change = access.write || touched & !line.known != 0;
            for at in ones(touched) {
                let byte = access.data.bytes.get(from(at)).copied().unwrap_or(0);
                let differs = line.bytes.0[at] != byte;
                if access.write {
                    line.writers[at / GRANULE] = Wrote::By(writer);
                } else if differs && line.known >> at & 1 == 1 {
                    // Somebody else wrote it.
                    granules[at / GRANULE] = true;
                }
                line.bytes.0[at] = byte;
            }
            if granules.contains(&true) {
                (contradicts, is_change) = (true, true);
                for (writer, _) in line.writers.iter_mut().zip(granules).filter(|(_, differs)| *differs) {
                    *writer = Wrote::Nobody;
                }
            }
            line.touched |= touched;
            line.known = line.known & !touched | known & touched;
            line.note(touched, is_change);
            if was_clean {
                self.dirty.push(place);
            }
        }
        self.contradictions += u64::from(contradicts);
    }

    /// Nothing is known of these bytes any more.
    pub fn forget(&mut self, start: u64, length: u64) {
        let Some(last) = length.checked_sub(1).and_then(|length| start.checked_add(length)) else {
            return if length > 0 {
                self.clear()
            };
        };
        if last / LINE - start / LINE > MOST_FORGOTTEN {
            return self.clear();
        }
        for number in start / LINE..=last / LINE {
            if !self.numbers.contains_key(&number) && self.earlier.is_none() && !self.has_left {
                continue;
            }
            let Some(place) = self.place(number) else { continue };
            let Some((_, line)) = self.lines.get_mut(place as usize) else { continue };
            if line.changed | line.read == 0 {
                self.dirty.push(place);
            }
            let first = start.max(number * LINE) % LINE;
            let end = last.min(number * LINE + (LINE - 1)) % LINE;
            let mask = u64::MAX >> (63 - (end - first)) << first;
            line.touched |= mask;
            line.known &= !mask;
            line.note(mask, true);
        }
    }

    /// Nothing is known of memory any more.
    pub fn clear(&mut self) {
        self.leave();
        self.has_left = false;
        self.is_cleared = true;
    }

    /// Leaves all lines to somebody who has taken their changes.
    pub fn leave(&mut self) {
        self.numbers.clear();
        self.lines.clear();
        self.recent.fill((u64::MAX, 0));
        self.dirty.clear();
        self.has_left = true;
    }

    /// The lines that changed or were read since this was asked last, in the order of their addresses.
    pub fn take_changes(&mut self, mut each: impl FnMut(u64, &MemoryLine)) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable_by_key(|&place| self.lines.get(place as usize).map(|(number, _)| *number));
        for place in dirty {
            if let Some((number, line)) = self.lines.get_mut(place as usize) {
                each(*number, line);
                (line.changed, line.read) = (0, 0);
            }
        }
        self.is_cleared = false;
    }
}
