//! The instructions that writer and reader both know.
//!
//! Most of them are *steady*: they have only ever continued with the instruction after them. A reader that found which
//! instructions a piece of code has, and which of them are steady, may rely on it until the [`Mark`] of that code changes:
//! slots lie in groups of neighbours, and a group counts how often an instruction in it gave way to another one or stopped
//! being steady.

use backsight_core::{Address, Isa, Retired};

use super::MOST_TABLE_BITS;

/// An instruction in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub address: u64,
    /// Where it went the last time.
    pub next: u64,
    /// Where it went the last time it was taken; after it, if it never was.
    pub target: u64,
    /// Cycles since the instruction before, the last time.
    pub cycles: u64,
    pub opcode: u32,
    /// 2 or 4; 0 in an empty entry.
    pub size: u8,
    pub isa: Isa,
    pub taken: bool,
    /// It has not always gone the same way.
    varies: bool,
}

impl Entry {
    const EMPTY: Self = Self {
        address: 0,
        next: 0,
        target: 0,
        cycles: 0,
        opcode: 0,
        size: 0,
        isa: Isa::A64,
        taken: false,
        varies: false,
    };

    pub fn new(retired: &Retired, cycles: u64) -> Self {
        Self {
            address: retired.address.0,
            next: retired.next.0,
            target: if retired.taken { retired.next.0 } else { retired.end().0 },
            cycles,
            opcode: retired.opcode,
            size: retired.size,
            isa: retired.isa,
            taken: retired.taken,
            varies: false,
        }
    }

    /// Remembers where it went.
    #[inline]
    pub fn went(&mut self, next: u64, taken: bool) {
        self.varies |= (next, taken) != (self.next, self.taken);
        self.next = next;
        self.taken = taken;
        if taken {
            self.target = next;
        }
    }

    /// Where it goes if it goes the other way.
    #[inline]
    pub fn flipped(&self) -> (u64, bool) {
        if self.taken { (self.end(), false) } else { (self.target, true) }
    }

    #[inline]
    fn end(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.size))
    }

    /// Is it in use, and has it only ever continued with the instruction after it, in the same cycle?
    pub fn is_steady(&self) -> bool {
        self.size != 0 && self.next == self.end() && self.cycles == 0 && !self.varies
    }

    /// Has it gone more than one way? Then it may go any way without a change of a [`Mark`].
    #[inline]
    pub fn varies(&self) -> bool {
        self.varies
    }

    /// Is it the same instruction, whichever way it went?
    fn is_same(&self, other: &Self) -> bool {
        let what = |entry: &Self| (entry.address, entry.opcode, entry.size, entry.isa, entry.cycles);
        what(self) == what(other)
    }

    /// As it is in a block: in cycle 0, followed by the instruction after it.
    pub fn straight(&self) -> Retired {
        Retired { next: Address(self.end()), taken: true, ..self.retired(0) }
    }

    #[inline]
    pub fn retired(&self, cycle: u64) -> Retired {
        Retired {
            address: Address(self.address),
            next: Address(self.next),
            cycle,
            opcode: self.opcode,
            size: self.size,
            isa: self.isa,
            taken: self.taken,
        }
    }
}

/// log2 of the slots in a group.
const GROUP_BITS: u32 = 8;
/// Bytes of code that lie in two groups at most.
const NEIGHBOURS: u64 = 2 << GROUP_BITS;

/// How often something changed in the two groups of a piece of code: their sum, because neither is ever less than it was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u64);

/// Code that was found in the table. What was seen of it there is right as long as it is [there](Self::is_there).
#[derive(Clone, Copy)]
pub(super) struct FoundCode {
    /// Address of its first instruction.
    pub start: u64,
    /// Where the table has its last one.
    pub last: Slot,
    mark: Mark,
    /// Changes of the whole table when the mark was looked at last.
    changes: u64,
}

impl FoundCode {
    /// Code from `start` to `last` (addresses of instructions), which [is short](Table::is_short).
    pub fn new(table: &Table, start: u64, last: u64) -> Self {
        let (mark, changes) = (table.mark(start, last), table.all_changes);
        Self { start, last: table.slot(last), mark, changes }
    }

    /// Is it there for certain, without a look at its mark?
    #[inline(always)]
    pub fn is_certain(&self, table: &Table) -> bool {
        self.changes == table.all_changes
    }

    /// Is it still there as it was?
    #[inline(always)]
    pub fn is_there(&mut self, table: &Table) -> bool {
        if self.is_certain(table) {
            return true;
        }
        let is_there = self.mark == table.mark_of(table.slot(self.start), self.last);
        if is_there {
            self.changes = table.all_changes;
        }
        is_there
    }
}

/// The place of an instruction in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    #[inline(always)]
    fn index(self) -> usize {
        self.0 as usize
    }

    #[inline(always)]
    fn group(self) -> usize {
        self.index() >> GROUP_BITS
    }
}

/// The instructions seen so far; a new one takes the slot of an older one.
pub(super) struct Table {
    entries: Box<[Entry]>,
    mask: u64,
    /// Of each group.
    changes: Box<[u64]>,
    /// Of all groups: as long as this does not change, no mark does.
    all_changes: u64,
}

impl Table {
    pub fn new(bits: u8) -> Self {
        let count = 1usize << bits.min(MOST_TABLE_BITS);
        let groups = count.div_ceil(1 << GROUP_BITS);
        Self {
            entries: vec![Entry::EMPTY; count].into(),
            mask: count as u64 - 1,
            changes: vec![0; groups].into(),
            all_changes: 0,
        }
    }

    /// The slot of this address.
    #[inline(always)]
    pub fn slot(&self, address: u64) -> Slot {
        Slot(((address >> 1 ^ address >> 18) & self.mask) as u32)
    }

    /// What is in the slot of this address.
    #[inline(always)]
    pub fn get(&self, address: u64) -> &Entry {
        &self.entries[self.slot(address).index()]
    }

    /// What is in this slot. Nothing of it may be changed but where an instruction went that [varies](Entry::varies).
    #[inline(always)]
    pub fn in_slot(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot.index()]
    }

    /// The instruction at this address, if it is known.
    #[inline(always)]
    pub fn find(&self, address: u64) -> Option<&Entry> {
        Some(self.get(address)).filter(|entry| entry.address == address && entry.size != 0)
    }

    /// The instruction at this address, if it is known and has gone both ways before: where it goes now changes nothing that
    /// was steady.
    #[inline(always)]
    pub fn find_varying(&mut self, address: u64) -> Option<&mut Entry> {
        let slot = self.slot(address);
        Some(self.in_slot(slot)).filter(|entry| entry.address == address && entry.size != 0 && entry.varies)
    }

    /// Puts an entry into the slot of its address.
    pub fn put(&mut self, entry: Entry) {
        let slot = self.slot(entry.address);
        let before = std::mem::replace(self.in_slot(slot), entry);
        let changes = !before.is_same(&entry) || before.is_steady() && before != entry;
        if before.size != 0 && changes {
            self.changes[slot.group()] += 1;
            self.all_changes += 1;
        }
    }

    /// The mark of code from `first` to `last` (addresses of instructions), which lies in two groups at most if it
    /// [is short](Self::is_short).
    fn mark(&self, first: u64, last: u64) -> Mark {
        self.mark_of(self.slot(first), self.slot(last))
    }

    /// The same, by slots.
    #[inline(always)]
    fn mark_of(&self, first: Slot, last: Slot) -> Mark {
        Mark(self.changes[first.group()].wrapping_add(self.changes[last.group()]))
    }

    /// Is code from `first` to `last` short enough for a mark?
    pub fn is_short(first: u64, last: u64) -> bool {
        last.wrapping_sub(first) < NEIGHBOURS
    }

    /// The steady instruction at this address.
    pub fn steady(&self, address: u64) -> Option<&Entry> {
        self.find(address).filter(|entry| entry.is_steady())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(address: u64) -> Retired {
        let (address, next) = (Address(address), Address(address + 4));
        Retired { address, next, cycle: 0, opcode: 7, size: 4, isa: Isa::A64, taken: true }
    }

    #[test]
    fn a_mark_changes_with_every_change_of_what_was_steady_and_with_no_other() {
        let mut table = Table::new(16);
        let mark = |table: &Table| table.mark(0x1000, 0x1008);
        let fresh = mark(&table);
        table.put(Entry::new(&plain(0x1004), 0));
        assert!(mark(&table) == fresh && table.steady(0x1004).is_some());
        let mut entry = *table.get(0x1004);
        table.put(entry);
        assert!(mark(&table) == fresh);
        entry.went(0x2000, true);
        table.put(entry);
        let turned = mark(&table);
        assert!(turned != fresh && table.steady(0x1004).is_none());
        entry.went(0x1008, true);
        table.put(entry);
        assert!(mark(&table) == turned && table.steady(0x1004).is_none());
    }

    #[test]
    fn an_instruction_that_takes_the_slot_of_another_changes_the_mark() {
        let mut table = Table::new(4);
        table.put(Entry::new(&plain(0x1000), 0));
        let before = table.mark(0x1000, 0x1000);
        table.put(Entry::new(&plain(0x1020), 0));
        assert!(table.find(0x1000).is_none() && table.mark(0x1000, 0x1000) != before);
    }

    #[test]
    fn short_code_lies_in_two_groups_at_most() {
        let table = Table::new(16);
        for first in (0x3_F000..0x4_1000).step_by(2) {
            let groups: std::collections::BTreeSet<_> =
                (first..first + NEIGHBOURS).step_by(2).map(|at| table.slot(at).group()).collect();
            let ends = [first, first + NEIGHBOURS - 2].map(|at| table.slot(at).group());
            assert!(groups.iter().all(|group| ends.contains(group)), "{first:#x}");
        }
    }
}
