//! Running a program again without its memory.
//!
//! What a program does follows from its code, its first state, and the values that enter it: what each load
//! reads, what each system call returns, what the time register shows. Given those, nothing has to be stored or
//! looked up, and no system call is made.

use crate::blocks::Blocks;
use crate::elf::Elf;
use crate::environment::{After, Environment};
use crate::fault::{Cause, Fault};
use crate::hart::Hart;
use crate::hart::run::{Bounds, run};
use crate::observer::{Items, Observer};
use crate::simulator::{Exit, USER};
use backsight_core::Execution;
use std::sync::atomic::AtomicBool;

const A0: u8 = 10;

/// The values that enter a program, in the order in which it asks for them. `None`: there are no more.
///
/// An iterator over all of them is one; so is whatever works them out from less, as long as it sees every access.
pub trait Inputs {
    /// What a load of `size` bytes at `address` reads, zero-extended.
    fn load(&mut self, address: u64, size: u8) -> Option<u64>;

    /// The program stored the low `size` bytes of `value` at `address`.
    fn store(&mut self, address: u64, size: u8, value: u64);

    /// The result of a system call, or what the time register shows.
    fn outside(&mut self) -> Option<u64>;
}

impl<I: Iterator<Item = u64>> Inputs for I {
    fn load(&mut self, _address: u64, _size: u8) -> Option<u64> {
        self.next()
    }

    fn store(&mut self, _address: u64, _size: u8, _value: u64) {}

    fn outside(&mut self) -> Option<u64> {
        self.next()
    }
}

/// Code from the file, values from a recording.
struct Recorded<'a, I> {
    elf: &'a Elf<'a>,
    values: I,
    /// The fault that ended the program.
    fault: Option<Fault>,
}

/// A mask of the low bytes of a value: 1 to 8 of them.
const fn low_bytes(count: usize) -> u64 {
    u64::MAX >> (64 - 8 * count)
}

impl<I: Inputs> Environment for Recorded<'_, I> {
    fn load<const N: usize>(&mut self, address: u64) -> Result<u64, Cause> {
        let value = self.values.load(address, N as u8).ok_or(Cause::EndOfRecording)?;
        Ok(value & low_bytes(N))
    }

    fn store<const N: usize>(&mut self, address: u64, value: u64) -> Result<(), Cause> {
        self.values.store(address, N as u8, value & low_bytes(N));
        Ok(())
    }

    fn check_store(&mut self, _address: u64, _size: u64) -> Result<(), Cause> {
        Ok(())
    }

    fn fetch(&mut self, address: u64) -> Result<u16, Cause> {
        let segment =
            self.elf.segments.iter().find(|segment| {
                segment.flags & 1 != 0 && address.wrapping_sub(segment.address) < segment.size
            });
        let segment = segment.ok_or(Cause::InstructionPageFault)?;
        let at = usize::try_from(address - segment.address).unwrap_or(usize::MAX);
        let bytes = segment.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        // After what the file gives there are zeros.
        Ok(bytes.map_or(0, |&bytes| u16::from_le_bytes(bytes)))
    }

    fn time(&mut self, _hart: &Hart) -> Result<u64, Cause> {
        self.values.outside().ok_or(Cause::EndOfRecording)
    }

    fn system_call(&mut self, hart: &mut Hart) -> Result<After, Cause> {
        let result = self.values.outside().ok_or(Cause::EndOfRecording)?;
        hart.set_x(A0, result);
        Ok(After::Continue)
    }

    fn fault(&mut self, _hart: &mut Hart, fault: Fault) -> After {
        self.fault = Some(fault);
        After::Exit(Exit::Fault(fault))
    }

    fn report(&mut self, observer: &mut impl Observer) {
        if let Some(fault) = self.fault.take() {
            observer.execution(Execution::Trap(fault.trap(0)));
        }
    }
}

/// A program that runs again from a recording.
///
/// A recording is
/// - the file of the program, and the registers it began with ([`Simulator::hart`](crate::Simulator::hart)
///   before the first run);
/// - in the order in which they happened: the value of each load (zero-extended; an atomic instruction that
///   reads and writes has one, SC has none), what each system call left in a0, and each value read from the
///   `time` register;
/// - the number of instructions, because a program that ended in the middle of a store left no other mark.
///
/// That is enough for a program of one thread without signal handlers whose code is all in its file
/// ([`Simulator::is_replayable`](crate::Simulator::is_replayable)). Others can be repeated from what
/// [`Watch::external`](crate::Watch::external) reports.
pub struct Replay<'a, I> {
    environment: Recorded<'a, I>,
    hart: Hart,
    blocks: Blocks,
    instructions: u64,
    started: bool,
}

impl<'a, I: Inputs> Replay<'a, I> {
    /// Begins again at `hart`, for this many instructions.
    pub fn new(elf: &'a Elf<'a>, hart: Hart, values: I, instructions: u64) -> Self {
        let environment = Recorded { elf, values, fault: None };
        let instructions = hart.retired.saturating_add(instructions);
        Self { environment, hart, blocks: Blocks::default(), instructions, started: false }
    }

    /// Runs to the end of the recording: [`Exit::Limit`] if all its instructions were executed.
    pub fn run(&mut self, sink: &mut impl FnMut(Execution)) -> Exit {
        self.run_reporting::<false>(sink)
    }

    /// Like [`run`](Self::run), and the loads and stores of each instruction follow it.
    pub fn run_with_accesses(&mut self, sink: &mut impl FnMut(Execution)) -> Exit {
        self.run_reporting::<true>(sink)
    }

    fn run_reporting<const ACCESSES: bool>(&mut self, sink: &mut impl FnMut(Execution)) -> Exit {
        if !self.started {
            self.started = true;
            sink(Execution::Context(USER));
        }
        let bounds = Bounds { instructions: self.instructions, interrupt: &AtomicBool::new(false) };
        run::<ACCESSES, _>(&mut self.hart, &mut self.blocks, &mut self.environment, &bounds, &mut Items(sink))
    }

    /// The registers.
    pub fn hart(&self) -> &Hart {
        &self.hart
    }
}
