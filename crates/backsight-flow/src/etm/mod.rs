//! What following ETMv3 and PTM has in common: the shell of the follower, where execution is, in which state, and how a
//! trace begins and breaks off.

mod follower;
mod tracker;

pub use follower::{Follower, FollowerState, Protocol};
pub(crate) use tracker::{At, Position, Reading};

use backsight_arm::ptm::Reason;

use crate::TraceOn;

/// How to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Stop at strong evidence that the code is not what was executed; go on at the next address in the trace.
    pub strict_image: bool,
    /// How many blocks of code to remember.
    pub cached_blocks: usize,
    /// Longest walk without a waypoint, in instructions.
    pub walk_limit: u32,
    /// ETMv3: keep an instruction that was cancelled, if its P-header had several atoms. OpenCSD's listing does so.
    pub keeps_cancelled: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { strict_image: false, cached_blocks: 1 << 20, walk_limit: 1 << 22, keeps_cancelled: false }
    }
}

/// Why tracing began, by the reason of an I-sync.
pub(crate) const fn trace_on(reason: Reason) -> TraceOn {
    match reason {
        Reason::Periodic | Reason::TraceEnabled => TraceOn::Begin,
        Reason::AfterOverflow => TraceOn::Overflow,
        Reason::LeftDebugState => TraceOn::DebugRestart,
    }
}
