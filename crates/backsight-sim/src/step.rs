//! One instruction at a time, for those who know what it loads.

use crate::decode::{Kind, Op};
use crate::environment::{After, Environment};
use crate::fault::{Cause, Fault};
use crate::hart::Hart;
use crate::hart::execute::{End, run_block};
use crate::observer::Items;
use crate::replay::Inputs;
use crate::simulator::Exit;

/// Loads and stores of one instruction.
struct Given<'a, I>(&'a mut I);

impl<I: Inputs> Environment for Given<'_, I> {
    fn load<const N: usize>(&mut self, address: u64) -> Result<u64, Cause> {
        self.0.load(address, N as u8).ok_or(Cause::EndOfRecording)
    }

    fn store<const N: usize>(&mut self, address: u64, value: u64) -> Result<(), Cause> {
        self.0.store(address, N as u8, value & (u64::MAX >> (64 - 8 * N)));
        Ok(())
    }

    fn check_store(&mut self, _address: u64, _size: u64) -> Result<(), Cause> {
        Ok(())
    }

    fn fetch(&mut self, _address: u64) -> Result<u16, Cause> {
        Err(Cause::InstructionPageFault)
    }

    fn time(&mut self, _hart: &Hart) -> Result<u64, Cause> {
        self.0.outside().ok_or(Cause::EndOfRecording)
    }

    fn system_call(&mut self, _hart: &mut Hart) -> Result<After, Cause> {
        Ok(After::Continue)
    }

    fn fault(&mut self, _hart: &mut Hart, fault: Fault) -> After {
        After::Exit(Exit::Fault(fault))
    }
}

/// Executes the instruction at [`Hart::pc`], which is known to have retired: what it loads comes from `inputs`, what it stores goes
/// there. ECALL does nothing. `stored`: it stored something, which decides whether SC succeeds.
///
/// # Errors
/// If it cannot retire: it is no instruction of this processor, or what it loads is not known. Registers may have changed.
pub fn step(hart: &mut Hart, op: &Op, stored: bool, inputs: &mut impl Inputs) -> Result<(), Cause> {
    if op.kind == Kind::Atomic {
        let size = if op.opcode >> 12 & 7 == 3 { 8 } else { 4 };
        hart.reservation = stored.then(|| (hart.x((op.opcode >> 15 & 0x1F) as u8), size));
    }
    let op = Op { offset: 0, ..*op };
    let ran = run_block::<false, false, _>(hart, &[op], &mut Given(inputs), &mut Items(&mut |_| {}));
    match ran.end {
        End::Fault(cause, _) => Err(cause),
        End::Next | End::SystemCall | End::TimeRead => Ok(()),
    }
}
