//! Block by block, a program does what it does instruction by instruction.

use crate::support::{assembled, program, quiet};
use backsight_core::{Execution, Retired, RetiredBlocks};
use backsight_sim::{Event, Exit, Observer, Options, Simulator, Watch};
use std::collections::HashMap;

const PROGRAMS: [&str; 8] = ["calls", "isa", "jit", "pack", "signals", "sort", "threads", "vm"];

/// Everything in order; events as text.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Execution(Execution),
    Event(String),
}

/// Sees single instructions, or blocks.
#[derive(Default)]
struct Witness<const BLOCKS: bool> {
    seen: Vec<Seen>,
    blocks: u64,
    code: HashMap<u64, Vec<Retired>>,
}

impl<const BLOCKS: bool> Observer for Witness<BLOCKS> {
    const BLOCKS: bool = BLOCKS;

    fn execution(&mut self, item: Execution) {
        self.seen.push(Seen::Execution(item));
    }

    fn blocks(&mut self, blocks: &RetiredBlocks<'_>) {
        assert!(BLOCKS, "nobody asked for blocks");
        for block in blocks.iter() {
            self.blocks += 1;
            let known = self.code.entry(block.number).or_insert_with(|| block.code.to_vec());
            assert_eq!(known[..], *block.code, "block {} has other code than before", block.number);
            block.instructions().for_each(|retired| self.execution(Execution::Instruction(retired)));
        }
    }

    fn event(&mut self, event: Event<'_>) {
        self.seen.push(Seen::Event(format!("{event:?}")));
    }
}

/// What a program does, in pieces of so many instructions.
fn observed<const BLOCKS: bool>(file: &[u8], piece: u64, most: u64) -> (Exit, Witness<BLOCKS>) {
    let options = Options { instructions: 0, ..quiet().0 };
    let mut simulator = Simulator::load(file, options).unwrap();
    let mut witness = Witness::default();
    let mut limit = 0;
    loop {
        limit = (limit + piece).min(most);
        simulator.set_limit(limit);
        let exit = simulator.observe(Watch::default(), &mut witness);
        if exit != Exit::Limit || limit == most {
            return (exit, witness);
        }
    }
}

fn compare(file: &[u8], piece: u64, most: u64, what: &str) -> u64 {
    let (single_exit, single) = observed::<false>(file, piece, most);
    let (exit, by_blocks) = observed::<true>(file, piece, most);
    assert_eq!(exit, single_exit, "{what}");
    let differs = by_blocks.seen.iter().zip(&single.seen).position(|(a, b)| a != b);
    if let Some(at) = differs {
        panic!("{what}, step {at}: {:x?}, one by one {:x?}", by_blocks.seen[at], single.seen[at]);
    }
    assert_eq!(by_blocks.seen.len(), single.seen.len(), "{what}");
    by_blocks.blocks
}

#[test]
fn every_program_does_the_same_block_by_block() {
    for name in PROGRAMS {
        let file = program(name);
        assert!(compare(&file, u64::MAX, 400_000, name) > 100, "{name}: hardly a block");
    }
}

#[test]
fn limits_in_the_middle_of_blocks_change_nothing() {
    for name in PROGRAMS {
        let file = program(name);
        for piece in [1, 7, 1001] {
            compare(&file, piece, 20_000, &format!("{name}, {piece} at a time"));
        }
    }
}

#[test]
fn what_retired_before_a_fault_is_reported() {
    // addi x5, x0, 1; addi x5, x5, 1; ld x6, 0(x0); addi x5, x5, 1
    let file = assembled(&[0x0010_0293, 0x0012_8293, 0x0000_3303, 0x0012_8293]);
    compare(&file, u64::MAX, 100, "a fault in a block");
    let (exit, witness) = observed::<true>(&file, u64::MAX, 100);
    assert!(matches!(exit, Exit::Fault(_)), "{exit}");
    let retired =
        witness.seen.iter().filter(|seen| matches!(seen, Seen::Execution(Execution::Instruction(_))));
    assert_eq!((retired.count(), witness.blocks), (2, 0));
}
