//! The loop that runs a program: block by block, with the kernel called in between.

use super::Hart;
use super::execute::{BlockExit, End, Ran, run_block};
use crate::blocks::{Blocks, fetch};
use crate::environment::{After, Environment};
use crate::fault::{Cause, Fault};
use crate::observer::Observer;
use crate::simulator::Exit;
use backsight_core::Execution;
use std::sync::atomic::{AtomicBool, Ordering};

/// Instructions after which another thread continues, and between two looks at the interrupt.
pub const SLICE: u64 = 10_000;

/// When to stop although the program goes on.
pub struct Bounds<'a> {
    /// Instructions that may retire, counted from the start of the program.
    pub instructions: u64,
    /// Set from outside, to stop soon.
    pub interrupt: &'a AtomicBool,
}

/// Executes until the program ends or a bound is reached. Every instruction that retires is reported,
/// followed by its accesses if `ACCESSES`; without accesses, in blocks to an observer of blocks.
pub fn run<const ACCESSES: bool, E: Environment>(
    hart: &mut Hart,
    blocks: &mut Blocks,
    environment: &mut E,
    bounds: &Bounds<'_>,
    observer: &mut impl Observer,
) -> Exit {
    let mut after = environment.resume(hart);
    loop {
        while let Some(page) = environment.next_stale_page() {
            blocks.forget(page);
        }
        environment.report(observer);
        match after {
            Ok(After::Continue) => {}
            Ok(After::Exit(exit)) => return exit,
            Err(_) => return Exit::EndOfRecording,
        }
        if hart.retired >= bounds.instructions {
            return Exit::Limit;
        }
        if bounds.interrupt.load(Ordering::Relaxed) {
            return Exit::Interrupted;
        }
        // Slices end at multiples of their length, so that a run in pieces has the same slices as one without a break.
        let shared = environment.has_slices();
        let slice_end =
            ((hart.retired / SLICE).saturating_add(1).saturating_mul(SLICE)).min(bounds.instructions);
        let exact = if shared { slice_end } else { bounds.instructions };
        after = match run_slice::<ACCESSES, E>(hart, blocks, environment, slice_end, exact, observer) {
            None if shared && hart.retired.is_multiple_of(SLICE) => Ok(environment.end_of_slice(hart)),
            None => Ok(After::Continue),
            Some(End::Next | End::TimeRead) => Ok(After::Continue),
            Some(End::SystemCall) => environment.system_call(hart),
            Some(End::Fault(Cause::EndOfRecording, _)) => return Exit::EndOfRecording,
            Some(End::Fault(cause, value)) => {
                Ok(environment.fault(hart, Fault { cause, pc: hart.pc, value }))
            }
        };
    }
}

/// Executes blocks until the slice has ended (`None`), or until one ends with something that is not execution. The last
/// block of a slice runs to its end, but never beyond `exact` instructions, which is not before `slice_end`.
#[inline(always)]
fn run_slice<const ACCESSES: bool, E: Environment>(
    hart: &mut Hart,
    blocks: &mut Blocks,
    environment: &mut E,
    slice_end: u64,
    exact: u64,
    observer: &mut impl Observer,
) -> Option<End> {
    let end = loop {
        if hart.retired >= slice_end {
            break None;
        }
        let Some(first) = blocks.at(hart.pc) else {
            match find(hart, blocks, environment, observer) {
                Ok(()) => continue,
                Err(cause) => break Some(End::Fault(cause, hart.pc)),
            }
        };
        let end = run_chain::<ACCESSES, E>(hart, blocks, first, environment, slice_end, exact, observer);
        match end {
            End::Next => {}
            End::Fault(Cause::CodeWritten, address) => {
                match write_code::<ACCESSES, E>(hart, blocks, environment, address, observer) {
                    End::Next => {}
                    end => break Some(end),
                }
            }
            end => break Some(end),
        }
    };
    blocks.report(observer);
    end
}

/// Executes blocks from the `first` on, as long as each leads to one that is known and the slice has not ended.
#[inline(always)]
fn run_chain<const ACCESSES: bool, E: Environment>(
    hart: &mut Hart,
    blocks: &mut Blocks,
    first: u32,
    environment: &mut E,
    slice_end: u64,
    exact: u64,
    observer: &mut impl Observer,
) -> End {
    let mut index = first;
    loop {
        let room = exact - hart.retired;
        let (end, exit) = run_decoded::<ACCESSES, E, _>(hart, blocks, index, room, environment, observer);
        if !matches!(end, End::Next) || hart.retired >= slice_end {
            return end;
        }
        match blocks.follow(index, exit, hart.pc) {
            Some(next) => index = next,
            None => return End::Next,
        }
    }
}

/// Executes a block, or as many of its instructions as there is room for. Gives how it ended, and how execution left it.
#[inline(always)]
fn run_decoded<const ACCESSES: bool, E: Environment, O: Observer>(
    hart: &mut Hart,
    blocks: &mut Blocks,
    index: u32,
    room: u64,
    environment: &mut E,
    observer: &mut O,
) -> (End, BlockExit) {
    let ops = blocks.ops(index, room);
    if ACCESSES || !O::BLOCKS {
        let Ran { end, exit, .. } = run_block::<true, ACCESSES, E>(hart, ops, environment, observer);
        return (end, exit);
    }
    let Ran { end, exit, retired, taken } = run_block::<false, false, E>(hart, ops, environment, observer);
    if retired < ops.len() || retired as u64 == room {
        report_partly(blocks, index, retired, hart.pc, taken, observer);
    } else if blocks.retire(index, hart.pc, taken) {
        blocks.report(observer);
    }
    (end, exit)
}

/// A block broke off, or may have been cut.
#[cold]
#[inline(never)]
fn report_partly(
    blocks: &mut Blocks,
    index: u32,
    retired: usize,
    pc: u64,
    taken: bool,
    observer: &mut impl Observer,
) {
    if retired == blocks.code(index).len() {
        blocks.retire(index, pc, taken);
        return blocks.report(observer);
    }
    blocks.report(observer);
    // What retired of it is all straight.
    let code = blocks.code(index).iter().take(retired);
    code.for_each(|&each| observer.execution(Execution::Instruction(each)));
}

#[cold]
#[inline(never)]
fn find<E: Environment>(
    hart: &Hart,
    blocks: &mut Blocks,
    environment: &mut E,
    observer: &mut impl Observer,
) -> Result<(), Cause> {
    blocks.report(observer);
    let found = blocks.find(hart.pc, environment);
    environment.report(observer);
    found
}

/// Executes the instruction at `pc`, which writes to code that was decoded, alone: the code after it may be new. What ran
/// before it was reported when its block broke off.
#[cold]
#[inline(never)]
fn write_code<const ACCESSES: bool, E: Environment>(
    hart: &mut Hart,
    blocks: &mut Blocks,
    environment: &mut E,
    address: u64,
    observer: &mut impl Observer,
) -> End {
    // The instruction itself may be among what it overwrites.
    let op = match fetch(hart.pc, environment) {
        Ok(op) => op,
        Err(cause) => return End::Fault(cause, hart.pc),
    };
    environment.forget_decoded(address, 8);
    while let Some(page) = environment.next_stale_page() {
        blocks.forget(page);
    }
    run_block::<true, ACCESSES, E>(hart, &[op], environment, observer).end
}
