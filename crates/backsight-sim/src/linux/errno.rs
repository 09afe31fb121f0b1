//! Error numbers of Linux.

use crate::fault::Cause;
use std::io;

/// Why a system call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    pub const PERM: Self = Self(1);
    pub const NOENT: Self = Self(2);
    pub const SRCH: Self = Self(3);
    pub const INTR: Self = Self(4);
    pub const IO: Self = Self(5);
    pub const BADF: Self = Self(9);
    pub const CHILD: Self = Self(10);
    pub const AGAIN: Self = Self(11);
    pub const NOMEM: Self = Self(12);
    pub const ACCES: Self = Self(13);
    pub const FAULT: Self = Self(14);
    pub const EXIST: Self = Self(17);
    pub const NODEV: Self = Self(19);
    pub const NOTDIR: Self = Self(20);
    pub const ISDIR: Self = Self(21);
    pub const INVAL: Self = Self(22);
    pub const MFILE: Self = Self(24);
    pub const NOTTY: Self = Self(25);
    pub const SPIPE: Self = Self(29);
    pub const PIPE: Self = Self(32);
    pub const RANGE: Self = Self(34);
    pub const NOSYS: Self = Self(38);
    pub const TIMEDOUT: Self = Self(110);
    /// The call cannot complete yet. Programs never see it: the thread waits.
    pub const WAIT: Self = Self(512);
}

impl From<Cause> for Errno {
    fn from(_: Cause) -> Self {
        Self::FAULT
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or(Self::IO, Self)
    }
}

/// What a system call leaves in `a0`.
pub fn register(result: Result<u64, Errno>) -> u64 {
    match result {
        Ok(value) => value,
        Err(Errno(number)) => i64::from(-number) as u64,
    }
}
