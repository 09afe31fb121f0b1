//! The text of ranges that were listed before.
//!
//! A program executes the same ranges again and again, and what is listed of one says nothing of when that was: its text is
//! made once and then copied. Memory is bounded: when there are too many ranges or there is too much text, all is forgotten.

use std::io::{self, Write};

use backsight_core::AddressSpace;
use backsight_flow::{Range, RangeNumbers};

use super::digits::Decimal;

/// Texts by range.
#[derive(Debug, Default)]
pub(super) struct RangeTexts {
    numbers: RangeNumbers,
    /// By their numbers.
    ranges: Vec<KnownRange>,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct KnownRange {
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

/// Ranges whose text is kept, and bytes of text.
const MOST_RANGES: usize = 1 << 15;
const MOST_TEXT: usize = 4 << 20;
/// So many listings have as much as they like; more of them share what these would have.
const FULL_SHARES: usize = 2;
/// The part of its room that one text may have.
const LARGEST_PART: usize = 16;

/// Ranges and bytes of text, at most, where there are so many listings.
fn most(listings: usize) -> (usize, usize) {
    let shares = listings.max(1).next_power_of_two().div_ceil(FULL_SHARES);
    ((MOST_RANGES / shares).max(1), MOST_TEXT / shares)
}

impl RangeTexts {
    /// The text of a range, if it was listed before.
    #[inline]
    pub fn get(&self, range: &Range, space: AddressSpace) -> Option<RangeText<'_>> {
        let number = self.numbers.find(range, space, |number| self.is(number, range, space))?;
        let known = self.ranges.get(number as usize)?;
        let text = self.text.get(known.first as usize..)?.get(..known.length as usize)?;
        let (before, after) = text.split_at_checked(known.gap as usize)?;
        Some(RangeText { before, after })
    }

    #[inline]
    fn is(&self, number: u32, range: &Range, space: AddressSpace) -> bool {
        self.ranges.get(number as usize).is_some_and(|known| known.range == *range && known.space == space)
    }

    /// Keeps the text of a range that has none. There are so many listings that share the memory.
    pub fn insert(&mut self, range: &Range, space: AddressSpace, text: RangeText<'_>, listings: usize) {
        let length = text.before.len() + text.after.len();
        let (most_ranges, most_text) = most(listings);
        if self.ranges.len() >= most_ranges || self.text.len() + length > most_text {
            self.clear();
        }
        if length > most_text / LARGEST_PART {
            return;
        }
        let (first, length, gap) = (self.text.len() as u32, length as u32, text.before.len() as u32);
        self.numbers.insert(range, space, self.ranges.len() as u32);
        self.ranges.push(KnownRange { range: *range, space, first, length, gap });
        self.text.extend_from_slice(text.before);
        self.text.extend_from_slice(text.after);
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Self::default();
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
        assert!(texts.text.len() <= MOST_TEXT / share && texts.ranges.len() <= MOST_RANGES / share);
        let long = ".".repeat(MOST_TEXT / share / LARGEST_PART);
        texts.insert(&range(1, false), space, text(&long), listings);
        assert_eq!(texts.get(&range(1, false), space), None);
    }
}
