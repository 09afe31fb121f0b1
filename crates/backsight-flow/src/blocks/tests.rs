use super::*;
use crate::walk::{Policy, Waypoints};
use backsight_core::{Address, Isa};

/// A64 NOPs with a branch to itself every fourth instruction.
#[derive(Default)]
struct Loops {
    /// At this address there is a branch too.
    changed: Option<u64>,
}

const LOOPS: [u8; 16] =
    [0x1F, 0x20, 0x03, 0xD5, 0x1F, 0x20, 0x03, 0xD5, 0x1F, 0x20, 0x03, 0xD5, 0x00, 0x00, 0x00, 0x14];

impl Code for Loops {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let at = if self.changed == Some(address.0) { 12 } else { (address.0 & 0xF) as usize };
        Some(&LOOPS[at..at + 4])
    }
}

const POLICY: Policy = Policy {
    waypoints: Waypoints {
        isb: true,
        data_barrier: false,
        wait: false,
        transaction_start: false,
        load: false,
        store: false,
    },
    t32_only: false,
    limit: 100,
    marks_it: true,
};

fn enter_in(blocks: &mut Blocks, space: AddressSpace, origin: Origin, address: u64, code: &impl Code) -> u32 {
    let mode = blocks.mode(space, Isa::A64);
    blocks.enter(origin, Address(address), mode, &POLICY, code)
}

fn enter(blocks: &mut Blocks, origin: Origin, address: u64) -> u32 {
    enter_in(blocks, AddressSpace::EL1N, origin, address, &Loops::default())
}

#[test]
fn a_block_is_read_once_and_found_again() {
    let mut blocks = Blocks::new(100);
    let first = enter(&mut blocks, Origin::UNKNOWN, 0x1000);
    let other = enter(&mut blocks, Origin::UNKNOWN, 0x2004);
    assert_eq!(enter(&mut blocks, Origin::UNKNOWN, 0x1000), first);
    assert_eq!((blocks.get(first).range.instructions, blocks.get(other).range.instructions), (4, 3));
    assert_eq!(blocks.len(), 2);
}

#[test]
fn every_address_space_has_blocks_of_its_own() {
    let mut blocks = Blocks::new(1000);
    let spaces: Vec<_> = (0..300).map(|process| AddressSpace::EL1N.in_process(process)).collect();
    let mut enter_all = || -> Vec<u32> {
        let code = Loops::default();
        let enter = |&space| enter_in(&mut blocks, space, Origin::UNKNOWN, 0x1000, &code);
        spaces.iter().map(enter).collect()
    };
    let numbers = enter_all();
    assert!(numbers.iter().copied().eq(0..300));
    assert_eq!(enter_all(), numbers);
}

#[test]
fn more_address_spaces_than_can_be_told_apart_begin_again() {
    let mut blocks = Blocks::new(1 << 20);
    let code = Loops::default();
    for process in 0..70_000 {
        let space = AddressSpace::EL1N.in_process(process);
        let number = enter_in(&mut blocks, space, Origin::UNKNOWN, 0x1000, &code);
        assert_eq!(number, process % (1 << 16));
    }
}

#[test]
fn a_way_is_remembered_only_if_it_leads_there() {
    let mut blocks = Blocks::new(100);
    let block = enter(&mut blocks, Origin::UNKNOWN, 0x1000);
    // The branch at 0x100c goes to itself; an address in the trace may say otherwise.
    enter(&mut blocks, Origin::new(block, true), 0x2000);
    assert_eq!(blocks.get(block).next(true), None);
    let target = enter(&mut blocks, Origin::new(block, true), 0x100c);
    assert_eq!(blocks.get(block).next(true), Some(target));
}

#[test]
fn the_cache_stays_within_its_bounds() {
    let mut blocks = Blocks::new(10);
    for address in (0..1000).map(|n| n * 4) {
        let block = enter(&mut blocks, Origin::UNKNOWN, address);
        assert_eq!(blocks.get(block).range.start, Address(address));
        assert!(blocks.len() <= 10);
    }
}

#[test]
fn a_change_of_code_touches_only_what_lies_there() {
    let mut blocks = Blocks::new(100);
    let numbers: Vec<_> = [0x1000, 0x1010, 0x1020, 0x9000]
        .iter()
        .map(|&address| enter(&mut blocks, Origin::UNKNOWN, address))
        .collect();
    let is_stale = |blocks: &Blocks| -> Vec<bool> {
        numbers.iter().map(|&number| blocks.get(number).is_stale()).collect()
    };
    blocks.code_changed(AddressSpace::EL1N, 0x5000..0x6000);
    blocks.code_changed(AddressSpace::EL1N, 0x1010..0x1010);
    blocks.code_changed(AddressSpace::EL1S, 0x1000..0x2000);
    assert_eq!(is_stale(&blocks), [false; 4]);
    blocks.code_changed(AddressSpace::ANY, 0x1014..0x1018);
    assert_eq!(is_stale(&blocks), [false, true, false, false]);
    // The block after the change keeps the number of the one before.
    let code = Loops { changed: Some(0x1014) };
    let again = enter_in(&mut blocks, AddressSpace::EL1N, Origin::UNKNOWN, 0x1010, &code);
    assert_eq!((again, blocks.get(again).range.instructions), (numbers[1], 2));
    assert_eq!(is_stale(&blocks), [false; 4]);
}

#[test]
fn a_block_that_ends_where_code_is_missing_depends_on_what_comes_there() {
    struct Nothing;
    impl Code for Nothing {
        fn bytes_at(&self, _: AddressSpace, _: Address) -> Option<&[u8]> {
            None
        }
    }
    let mut blocks = Blocks::new(100);
    let block = enter_in(&mut blocks, AddressSpace::EL1N, Origin::UNKNOWN, 0x1000, &Nothing);
    assert_eq!(blocks.get(block).range.instructions, 0);
    blocks.code_changed(AddressSpace::ANY, 0x1000..0x2000);
    assert_eq!(enter(&mut blocks, Origin::UNKNOWN, 0x1000), block);
    assert_eq!(blocks.get(block).range.instructions, 4);
}
