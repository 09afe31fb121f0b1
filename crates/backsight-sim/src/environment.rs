//! What a hart runs in: memory, and a kernel to call.
//!
//! There are three: a [process](crate::Simulator) with real memory, the same with every value that enters noted
//! down ([record](crate::Simulator::record)), and such notes alone ([replay](crate::Replay)).

use crate::fault::Cause;
use crate::hart::Hart;
use crate::simulator::Exit;

/// What happens after a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The program goes on.
    Continue,
    /// It goes on, but code may have changed.
    CodeChanged,
    /// It ended.
    Exit(Exit),
}

/// What a hart runs in.
pub trait Environment {
    /// Loads `N` bytes.
    fn load<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Cause>;

    /// Stores `N` bytes.
    fn store<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), Cause>;

    /// Could a store to this address succeed?
    fn check_store(&mut self, address: u64) -> Result<(), Cause>;

    /// The halfword of code at an address.
    fn fetch(&mut self, address: u64) -> Result<u16, Cause>;

    /// The `time` register.
    fn time(&mut self, hart: &Hart) -> Result<u64, Cause>;

    /// Does what ECALL asks for. `pc` is behind the instruction already.
    fn system_call(&mut self, hart: &mut Hart) -> Result<After, Cause>;
}
