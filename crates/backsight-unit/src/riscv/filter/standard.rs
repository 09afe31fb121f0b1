//! The specification's filters.

use super::Comparator;
use backsight_riscv::ingress::{Block, Itype};

/// Conditions that must all hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterUnit {
    /// The filter takes part.
    pub enabled: bool,
    /// Privileges that match, bit n for privilege n.
    pub privileges: Option<u8>,
    /// Causes that match, bit n for cause n: from such a trap to the return from it.
    pub causes: Option<u64>,
    /// Interrupts (true) or exceptions (false) match: from such a trap to the return from it.
    pub interrupt: Option<bool>,
    /// Comparators that must match.
    pub comparators: [Option<u8>; 3],
    /// Value and mask of impdef.
    pub impdef: Option<(u64, u64)>,
    /// Traps under way since the first matching one; 0 outside.
    nesting: u32,
}

/// What becomes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It is traced.
    pub qualified: bool,
    /// Its last instruction is to be reported.
    pub notify: bool,
}

/// Filters and comparators of one encoder. Several enabled filters are alternatives; without any, everything is
/// traced.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    filters: [FilterUnit; 16],
    comparators: [Comparator; 8],
    /// trTeInstFilters: bit n selects filter n.
    selected: u16,
    most_nested: u32,
}

impl Standard {
    /// Filters that accept everything. Nested traps are counted up to `2^filter_excint`.
    pub fn new(filter_excint: u8) -> Self {
        Self {
            filters: [FilterUnit::default(); 16],
            comparators: [Comparator::default(); 8],
            selected: 0,
            most_nested: 1 << filter_excint.min(16),
        }
    }

    /// A filter.
    pub fn filter_mut(&mut self, index: usize) -> Option<&mut FilterUnit> {
        self.filters.get_mut(index)
    }

    /// A comparator.
    pub fn comparator_mut(&mut self, index: usize) -> Option<&mut Comparator> {
        self.comparators.get_mut(index)
    }

    /// Selects filters: bit n for filter n.
    pub fn select(&mut self, filters: u16) {
        self.selected = filters;
    }

    /// Writes a register of the encoder by its offset. False: it is none of the filters' registers.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            0x00C => self.selected = value as u16,
            0x400..0x600 => return self.write_filter((offset - 0x400) / 0x20, offset % 0x20, value),
            0x600..0x700 => return self.write_comparator((offset - 0x600) / 0x20, offset % 0x20, value),
            _ => return false,
        }
        true
    }

    fn write_filter(&mut self, index: u32, register: u32, value: u32) -> bool {
        let Some(filter) = self.filters.get_mut(index as usize) else { return false };
        match register {
            0x00 => {
                let used = |bit: u32| value >> bit & 1 != 0;
                let comparator = |at: u32| used(at).then_some((value >> (at + 1) & 7) as u8);
                filter.enabled = used(0);
                filter.privileges = used(1).then(|| filter.privileges.unwrap_or(0));
                filter.causes = used(2).then(|| filter.causes.unwrap_or(0));
                filter.interrupt = used(3).then(|| filter.interrupt.unwrap_or(false));
                filter.comparators = [comparator(4), comparator(8), comparator(12)];
                filter.impdef = used(16).then(|| filter.impdef.unwrap_or((0, 0)));
            }
            0x04 => {
                filter.privileges = filter.privileges.map(|_| value as u8);
                filter.interrupt = filter.interrupt.map(|_| value >> 8 & 1 != 0);
            }
            0x08 => filter.causes = filter.causes.map(|causes| causes >> 32 << 32 | u64::from(value)),
            0x0C => filter.causes = filter.causes.map(|causes| causes & 0xFFFF_FFFF | u64::from(value) << 32),
            0x10 => filter.impdef = filter.impdef.map(|(_, mask)| (value.into(), mask)),
            0x14 => filter.impdef = filter.impdef.map(|(wanted, _)| (wanted, value.into())),
            _ => return false,
        }
        true
    }

    fn write_comparator(&mut self, index: u32, register: u32, value: u32) -> bool {
        let Some(comparator) = self.comparators.get_mut(index as usize) else { return false };
        let low = |word: u64| word >> 32 << 32 | u64::from(value);
        let high = |word: u64| word & 0xFFFF_FFFF | u64::from(value) << 32;
        match register {
            0x00 => comparator.set_control(value),
            0x10 => comparator.primary_value = low(comparator.primary_value),
            0x14 => comparator.primary_value = high(comparator.primary_value),
            0x18 => comparator.secondary_value = low(comparator.secondary_value),
            0x1C => comparator.secondary_value = high(comparator.secondary_value),
            _ => return false,
        }
        true
    }

    /// Judges the next block.
    pub fn judge(&mut self, block: &Block) -> Verdict {
        let mut results = [false; 8];
        let mut notify = false;
        for (result, comparator) in results.iter_mut().zip(&mut self.comparators) {
            let (matched, notified) = comparator.compare(block);
            *result = matched;
            notify |= notified;
        }
        let (mut any, mut qualified) = (false, false);
        let most_nested = self.most_nested;
        for (index, filter) in self.filters.iter_mut().enumerate() {
            if self.selected >> index & 1 != 0 && filter.enabled {
                any = true;
                qualified |= filter.accepts(block, &results, most_nested);
            }
        }
        Verdict { qualified: qualified || !any, notify }
    }
}

impl FilterUnit {
    fn accepts(&mut self, block: &Block, comparators: &[bool; 8], most_nested: u32) -> bool {
        let inside = self.follow_traps(block, most_nested);
        let privilege = self.privileges.is_none_or(|privileges| privileges >> (block.privilege & 7) & 1 != 0);
        let impdef = self.impdef.is_none_or(|(wanted, mask)| block.impdef & mask == wanted & mask);
        let matched = |index: &u8| comparators.get(usize::from(*index)).copied().unwrap_or(false);
        inside && privilege && impdef && self.comparators.iter().flatten().all(matched)
    }

    /// Is the block inside a trap that matches, its first and last block included?
    fn follow_traps(&mut self, block: &Block, most_nested: u32) -> bool {
        if self.causes.is_none() && self.interrupt.is_none() {
            return true;
        }
        let inside = self.nesting > 0;
        match block.itype {
            Itype::Exception | Itype::Interrupt => {
                let cause =
                    self.causes.is_none_or(|causes| block.cause < 64 && causes >> block.cause & 1 != 0);
                let interrupt =
                    self.interrupt.is_none_or(|wanted| wanted == (block.itype == Itype::Interrupt));
                if inside || cause && interrupt {
                    self.nesting = (self.nesting + 1).min(most_nested);
                }
            }
            Itype::TrapReturn => self.nesting = self.nesting.saturating_sub(1),
            _ => {}
        }
        inside || self.nesting > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(iaddr: u64, iretire: u32) -> Block {
        Block { iaddr, iretire, ilastsize: 0, privilege: 3, ..Block::default() }
    }

    fn traced(filter: &mut Standard, block: &Block) -> bool {
        filter.judge(block).qualified
    }

    #[test]
    fn without_a_filter_everything_is_traced() {
        let mut filter = Standard::new(1);
        assert!(traced(&mut filter, &block(0, 1)));
        filter.select(1);
        assert!(traced(&mut filter, &block(0, 1)), "a filter that is not enabled takes no part");
    }

    #[test]
    fn an_address_range_takes_every_block_that_touches_it() {
        let mut filter = Standard::new(1);
        // Comparator 2: iaddr >= 0x100 and iaddr < 0x200.
        assert!(filter.write(0x640, 5 << 4 | 2 << 8 | 1 << 12));
        assert!(filter.write(0x650, 0x100) && filter.write(0x658, 0x200));
        assert!(filter.write(0x400, 1 | 1 << 4 | 2 << 5) && filter.write(0x00C, 1));
        assert!(!traced(&mut filter, &block(0xF0, 8)));
        assert!(traced(&mut filter, &block(0xF0, 9)));
        assert!(traced(&mut filter, &block(0x1FE, 4)));
        assert!(!traced(&mut filter, &block(0x200, 4)));
        assert!(!filter.write(0x004, 0));
    }

    #[test]
    fn a_trap_filter_lasts_until_the_return_from_the_first_trap() {
        let mut filter = Standard::new(4);
        filter.select(1);
        *filter.filter_mut(0).unwrap() = FilterUnit {
            enabled: true,
            causes: Some(1 << 7),
            interrupt: Some(true),
            ..FilterUnit::default()
        };
        let trap = |cause, itype| Block { itype, cause, ..block(0, 2) };
        let xret = Block { itype: Itype::TrapReturn, ..block(0, 2) };
        let steps = [
            (block(0, 2), false),
            (trap(7, Itype::Exception), false),
            (xret, false),
            (trap(7, Itype::Interrupt), true),
            (block(0, 2), true),
            (trap(2, Itype::Exception), true),
            (xret, true),
            (block(0, 2), true),
            (xret, true),
            (block(0, 2), false),
        ];
        for (n, (block, expected)) in steps.into_iter().enumerate() {
            assert_eq!(traced(&mut filter, &block), expected, "step {n}");
        }
    }

    #[test]
    fn a_latch_holds_until_the_instruction_after_the_second_address() {
        let mut filter = Standard::new(1);
        filter.select(1);
        *filter.filter_mut(0).unwrap() =
            FilterUnit { enabled: true, comparators: [Some(0), None, None], ..FilterUnit::default() };
        let comparator = filter.comparator_mut(0).unwrap();
        comparator.set_control(3 << 12 | 1 << 14);
        (comparator.primary_value, comparator.secondary_value) = (0x10, 0x20);
        let verdicts: [Verdict; 5] =
            [0x8, 0x10, 0x18, 0x20, 0x28].map(|address| filter.judge(&block(address, 1)));
        assert_eq!(verdicts.map(|verdict| verdict.qualified), [false, true, true, true, false]);
        assert_eq!(verdicts.map(|verdict| verdict.notify), [false, true, false, false, false]);
    }

    #[test]
    fn a_mask_leaves_bits_out_of_the_comparison() {
        let mut filter = Standard::new(1);
        filter.select(1);
        *filter.filter_mut(0).unwrap() =
            FilterUnit { enabled: true, comparators: [Some(1), None, None], ..FilterUnit::default() };
        let comparator = filter.comparator_mut(1).unwrap();
        comparator.set_control(1 | 1 << 2 | 6 << 8);
        (comparator.primary_value, comparator.secondary_value) = (0x1200, 0xFF00);
        let context = |context| Block { context, ..block(0, 1) };
        assert!(traced(&mut filter, &context(0x1234)));
        assert!(!traced(&mut filter, &context(0x1334)));
    }
}
