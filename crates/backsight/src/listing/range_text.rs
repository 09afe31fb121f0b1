//! The text of ranges that were listed before.
//!
//! A program executes the same ranges again and again, and what is listed of one says nothing of when that was: its text is
//! made once and then copied. Memory is bounded: a range takes the slot of another one that falls on it, and when
//! there is too much text, all of it is forgotten.

use std::io::{self, Write};

use backsight_core::AddressSpace;
use backsight_flow::Range;

use super::digits::Decimal;

/// Texts by range.
#[derive(Debug, Default)]
pub(super) struct RangeTexts {
    /// A power of two of slots, or none.
    slots: Vec<Option<Slot>>,
    filled: usize,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    range: Range,
    space: AddressSpace,
    first: u32,
    length: u32,
    gap: u32,
}

/// The text of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeText<'t> {
    /// Up to what changes: where in the capture it was reported, if the format says that.
    pub before: &'t [u8],
    /// After that.
    pub after: &'t [u8],
}

impl RangeText<'_> {
    /// Writes the text, with where it was reported if it says that.
    #[inline]
    pub fn write(self, out: &mut (impl Write + ?Sized), index: impl FnOnce() -> u64) -> io::Result<()> {
        out.write_all(self.before)?;
        if !self.after.is_empty() {
            out.write_all(Decimal::default().bytes_of(index()))?;
            out.write_all(self.after)?;
        }
        Ok(())
    }
}

/// Slots at first, and at most.
const SLOTS: (usize, usize) = (1 << 6, 1 << 15);
/// Bytes of text that are kept.
const MOST_TEXT: usize = 4 << 20;
/// So many listings have as much as they like; more of them share what these would have.
const FULL_SHARES: usize = 2;
/// The part of its room that one text may have.
const LARGEST_PART: usize = 16;

/// Slots and bytes of text, at most, where there are so many listings.
fn most(listings: usize) -> (usize, usize) {
    let shares = listings.max(1).next_power_of_two().div_ceil(FULL_SHARES);
    ((SLOTS.1 / shares).max(SLOTS.0), MOST_TEXT / shares)
}

impl RangeTexts {
    /// The text of a range, if it was listed before.
    #[inline]
    pub fn get(&self, range: &Range, space: AddressSpace) -> Option<RangeText<'_>> {
        let slot = self.slots.get(self.slot(range))?.as_ref()?;
        if slot.range != *range || slot.space != space {
            return None;
        }
        let text = self.text.get(slot.first as usize..)?.get(..slot.length as usize)?;
        let (before, after) = text.split_at_checked(slot.gap as usize)?;
        Some(RangeText { before, after })
    }

    /// Keeps the text of a range. There are so many listings that share the memory.
    pub fn insert(&mut self, range: &Range, space: AddressSpace, text: RangeText<'_>, listings: usize) {
        let length = text.before.len() + text.after.len();
        let (most_slots, most_text) = most(listings);
        if self.slots.len() > most_slots {
            // Others came, and get their share.
            *self = Self::default();
        }
        if length > most_text / LARGEST_PART {
            return;
        }
        if self.text.len() + length > most_text {
            self.clear();
        }
        if self.filled >= self.slots.len() && self.slots.len() < most_slots {
            let slots = (self.slots.len() * 8).clamp(SLOTS.0, most_slots);
            self.clear();
            self.slots = vec![None; slots];
        }
        let slot = self.slot(range);
        let (first, length, gap) = (self.text.len() as u32, length as u32, text.before.len() as u32);
        self.slots[slot] = Some(Slot { range: *range, space, first, length, gap });
        self.text.extend_from_slice(text.before);
        self.text.extend_from_slice(text.after);
        self.filled += 1;
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.slots.fill(None);
        self.text.clear();
        self.filled = 0;
    }

    #[inline]
    fn slot(&self, range: &Range) -> usize {
        let mixed = (range.start.0 ^ range.end.0.rotate_left(32) ^ u64::from(range.executed) << 16)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize & self.slots.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::{Address, Isa};
    use backsight_isa::{Class, Flags};

    fn range(start: u64, executed: bool) -> Range {
        Range {
            start: Address(start),
            end: Address(start + 8),
            instructions: 2,
            isa: Isa::A64,
            class: Class::DirectBranch,
            flags: Flags::NONE,
            last_size: 4,
            executed,
        }
    }

    fn text(before: &str) -> RangeText<'_> {
        RangeText { before: before.as_bytes(), after: b"." }
    }

    #[test]
    fn a_text_is_found_by_all_of_its_range_and_its_space() {
        let (mut texts, space) = (RangeTexts::default(), AddressSpace::ANY);
        assert_eq!(texts.get(&range(0, true), space), None);
        texts.insert(&range(0, true), space, text("taken"), 1);
        assert_eq!(texts.get(&range(0, true), space), Some(text("taken")));
        assert_eq!(texts.get(&range(0, false), space), None);
        assert_eq!(texts.get(&Range { instructions: 3, ..range(0, true) }, space), None);
    }

    #[test]
    fn memory_is_bounded_and_what_is_found_was_kept() {
        let mut texts = RangeTexts::default();
        // Of more and more listings, each gets less, what it has included.
        for (listings, share) in [(1, 1), (2, 1), (4, 2), (64, 32)] {
            check_memory(&mut texts, listings, share);
        }
    }

    fn check_memory(texts: &mut RangeTexts, listings: usize, share: usize) {
        let space = AddressSpace::ANY;
        for start in 0..200_000 {
            let words = format!("{start:#x}").repeat(1 + start as usize % 40);
            texts.insert(&range(start, true), space, text(&words), listings);
            assert_eq!(texts.get(&range(start, true), space), Some(text(&words)));
            let found = texts.get(&range(start / 2, true), space);
            let earlier = format!("{:#x}", start / 2).repeat(1 + start as usize / 2 % 40);
            assert!(found.is_none_or(|found| found == text(&earlier)));
        }
        assert!(texts.text.capacity() <= 2 * MOST_TEXT / share && texts.slots.len() == SLOTS.1 / share);
        let long = ".".repeat(MOST_TEXT / share / LARGEST_PART);
        texts.insert(&range(1, false), space, text(&long), listings);
        assert_eq!(texts.get(&range(1, false), space), None);
    }
}
