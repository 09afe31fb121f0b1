//! What a hart runs in: memory, and a kernel to call.
//!
//! There are three: a [process](crate::Simulator) with real memory, the same with every value that enters written
//! down ([record](crate::Simulator::record)), and such values alone ([replay](crate::Replay)).

use crate::fault::{Cause, Fault};
use crate::hart::Hart;
use crate::observer::Observer;
use crate::simulator::Exit;

/// What happens after the kernel was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The program goes on.
    Continue,
    /// It does not.
    Exit(Exit),
}

/// What a hart runs in.
pub trait Environment {
    /// Loads `N` bytes, zero-extended.
    fn load<const N: usize>(&mut self, address: u64) -> Result<u64, Cause>;

    /// Stores the low `N` bytes of a value.
    fn store<const N: usize>(&mut self, address: u64, value: u64) -> Result<(), Cause>;

    /// Could a store of this many bytes succeed?
    fn check_store(&mut self, address: u64, size: u64) -> Result<(), Cause>;

    /// The halfword of code at an address.
    fn fetch(&mut self, address: u64) -> Result<u16, Cause>;

    /// The code at `start..end` was decoded: a store to it fails with [`Cause::CodeWritten`] from now on.
    fn decoded(&mut self, start: u64, end: u64) {
        let _ = (start, end);
    }

    /// The code around `address` is about to be written: the next store there succeeds.
    fn forget_decoded(&mut self, address: u64, size: u64) {
        let _ = (address, size);
    }

    /// A page whose decoded code is no longer valid; each is given once.
    fn next_stale_page(&mut self) -> Option<u64> {
        None
    }

    /// The `time` register.
    fn time(&mut self, hart: &Hart) -> Result<u64, Cause>;

    /// Before the first instruction: a thread may have been waiting when the last run returned.
    fn resume(&mut self, hart: &mut Hart) -> Result<After, Cause> {
        let _ = hart;
        Ok(After::Continue)
    }

    /// Does what ECALL asks for. `pc` is after the instruction already.
    fn system_call(&mut self, hart: &mut Hart) -> Result<After, Cause>;

    /// An instruction faulted.
    fn fault(&mut self, hart: &mut Hart, fault: Fault) -> After;

    /// Must a slice end after an exact number of instructions, because something may happen there?
    fn has_slices(&self) -> bool {
        false
    }

    /// The thread has used up its time: another may continue.
    fn end_of_slice(&mut self, hart: &mut Hart) -> After {
        let _ = hart;
        After::Continue
    }

    /// Reports what has accumulated.
    fn report(&mut self, observer: &mut impl Observer) {
        let _ = observer;
    }
}
