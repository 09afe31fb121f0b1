//! Loops of code that was put together by hand.

use backsight::core::{Address, Isa};
use backsight::isa::{Class, Flags};

use super::Loop;
use crate::{Block, Edge, EdgeKind, Function, Profile};

/// A function at 0x1000.
fn function() -> Function {
    Function {
        module: 0,
        start: Some(0x1000),
        size: 0x100,
        name: "looping".to_owned(),
        mangled: String::new(),
        entries: 0,
        instructions: 0,
        cycles: 0,
        certain_cycles: 0,
    }
}

fn block(function: u32, start: u64, end: u64, class: Class, flags: Flags) -> Block {
    Block {
        function,
        start,
        end,
        memory_start: Address(start),
        isa: Isa::A64,
        instructions: ((end - start) / 4) as u32,
        last_size: 4,
        class,
        flags,
        count: 0,
        entries: 0,
        cycles: 0,
        certain_cycles: 0,
        code: 0..0,
    }
}

const CONDITIONAL: Flags = Flags { conditional: true, ..Flags::NONE };
const CALL: Flags = Flags { link: true, ..Flags::NONE };

/// A profile of blocks and edges; blocks are executed as often as edges lead to them, and as they are entered.
fn profile(blocks: Vec<(Block, u64)>, edges: &[(u32, u32, EdgeKind, u64)]) -> Profile {
    let mut profile = Profile { functions: vec![function(), function()], ..Profile::default() };
    profile.functions[1].start = Some(0x9000);
    profile.blocks =
        blocks.into_iter().map(|(block, entries)| Block { entries, count: entries, ..block }).collect();
    for &(from, to, kind, count) in edges {
        profile.edges.push(Edge { from, to, kind, count });
        profile.blocks[to as usize].count += count;
    }
    profile
}

fn only(profile: &Profile) -> Loop {
    let mut loops = profile.loops();
    assert_eq!(loops.len(), 1, "{loops:?}");
    loops.remove(0)
}

/// The first time, the loop at 0x1008 is the end of the block at 0x1000.
fn falls_into() -> Vec<(Block, u64)> {
    vec![
        (block(0, 0x1000, 0x1018, Class::DirectBranch, CONDITIONAL), 1000),
        (block(0, 0x1008, 0x1018, Class::DirectBranch, CONDITIONAL), 0),
        (block(0, 0x1018, 0x101C, Class::IndirectBranch, Flags { returns: true, ..Flags::NONE }), 0),
    ]
}

#[test]
fn a_loop_that_is_fallen_into_has_its_first_iteration() {
    let profile = profile(
        falls_into(),
        &[(0, 1, EdgeKind::Taken, 1000), (1, 1, EdgeKind::Taken, 8000), (1, 2, EdgeKind::NotTaken, 1000)],
    );
    let found = only(&profile);
    assert_eq!((found.address, found.entries, found.iterations), (0x1008, 1000, 10_000));
    assert_eq!((found.header, found.is_irreducible), (1, false));
}

#[test]
fn a_loop_that_is_interrupted_and_goes_on_is_not_entered_again() {
    let mut blocks = falls_into();
    // Up to the interrupt, from there on, and the handler.
    blocks.push((block(0, 0x1008, 0x1010, Class::Other, Flags::NONE), 0));
    blocks.push((block(0, 0x1010, 0x1018, Class::DirectBranch, CONDITIONAL), 0));
    blocks.push((block(1, 0x9000, 0x9010, Class::IndirectBranch, Flags::NONE), 0));
    let profile = profile(
        blocks,
        &[
            (0, 1, EdgeKind::Taken, 1000),
            (1, 1, EdgeKind::Taken, 7900),
            (1, 3, EdgeKind::Taken, 100),
            (3, 5, EdgeKind::Exception, 100),
            (5, 4, EdgeKind::ExceptionReturn, 100),
            (4, 1, EdgeKind::Taken, 60),
            (4, 2, EdgeKind::NotTaken, 40),
            (1, 2, EdgeKind::NotTaken, 960),
        ],
    );
    let found = only(&profile);
    assert_eq!((found.entries, found.iterations), (1000, 1000 + 1000 + 7900 + 100 + 60));
}

#[test]
fn a_call_in_a_loop_returns_into_it_however_many_blocks_end_in_it() {
    // 0x1000..0x100C falls into the loop at 0x1008, which calls, and goes on at 0x100C.
    let blocks = vec![
        (block(0, 0x1000, 0x100C, Class::DirectBranch, CALL), 400),
        (block(0, 0x1008, 0x100C, Class::DirectBranch, CALL), 0),
        (block(0, 0x100C, 0x1014, Class::DirectBranch, CONDITIONAL), 0),
        (block(1, 0x9000, 0x9008, Class::IndirectBranch, Flags { returns: true, ..Flags::NONE }), 0),
        (block(0, 0x1014, 0x1018, Class::IndirectBranch, Flags { returns: true, ..Flags::NONE }), 0),
    ];
    let profile = profile(
        blocks,
        &[
            (0, 3, EdgeKind::Call, 400),
            (1, 3, EdgeKind::Call, 1600),
            (3, 2, EdgeKind::Return, 2000),
            (2, 1, EdgeKind::Taken, 1600),
            (2, 4, EdgeKind::NotTaken, 400),
        ],
    );
    let found = only(&profile);
    assert_eq!((found.address, found.entries, found.iterations), (0x1008, 400, 2000));
}

#[test]
fn where_something_is_missing_a_loop_is_not_entered() {
    let mut blocks = falls_into();
    blocks[1].1 = 7;
    let profile = profile(
        blocks,
        &[(0, 1, EdgeKind::Taken, 1000), (1, 1, EdgeKind::Taken, 8000), (1, 2, EdgeKind::NotTaken, 1000)],
    );
    let found = only(&profile);
    assert_eq!((found.entries, found.iterations, found.is_irreducible), (1000, 10_007, false));
}

#[test]
fn a_block_that_ends_before_it_begins_is_no_reason_to_panic() {
    let mut blocks = falls_into();
    blocks[1].0.end = 0;
    blocks[2].0.start = u64::MAX;
    blocks[2].0.end = 3;
    let profile =
        profile(blocks, &[(0, 1, EdgeKind::Taken, u64::MAX / 2), (1, 1, EdgeKind::Taken, u64::MAX / 2)]);
    assert!(profile.loops().len() <= 1);
}
