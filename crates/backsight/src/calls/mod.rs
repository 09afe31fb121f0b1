//! Calls: which functions were under way when, and what they cost.
//!
//! Trace says which instructions ran, not who called whom. [`Stack`] finds that out: it keeps the calls
//! beside the execution, by what ends each range of instructions and where the next one begins. Trace has gaps, programs
//! jump out of functions, and filters leave out callers: the stack finds its way back by return addresses and by the
//! functions that are on it, so that its depth never drifts. What is made of calls is for others to say ([`Ledger`]):
//! [`ShadowStack`] gives the stays in functions, which [`CallTree`] adds up; profiles count.
//!
//! ```
//! use backsight::calls::ShadowStack;
//! let capture = backsight::Capture::open("captures/calls-riscv64")?;
//! let mut stack = ShadowStack::new(capture.code()?.seen_by_all());
//! let mut deepest = 0;
//! capture.execution().run(|item| stack.push(&item.value, &mut |visit| deepest = deepest.max(visit.depth)))?;
//! stack.finish(&mut |_| {});
//! assert!(deepest > 3);
//! # Ok::<(), backsight::Error>(())
//! ```

mod clock;
mod functions;
mod joined;
mod records;
pub(crate) mod saved;
mod segments;
mod shadow;
mod stack;
mod tree;
mod walked;

#[cfg(test)]
mod joined_tests;
#[cfg(test)]
mod tests;

pub(crate) use clock::Clock;
pub use clock::Cost;
pub use functions::{FunctionName, FunctionRecord, Functions};
pub(crate) use joined::{CallsBoundary, Joined, Joining};
pub(crate) use records::{Kind as RecordKind, Recorder, Records};
pub use saved::{KnownCalls, KnownStacks};
pub use segments::{Segment, Walk};
pub(crate) use shadow::{CountedRange, Stay, Stays};
pub use shadow::{ShadowStack, UnderWay, Visit};
pub use stack::{Arrival, Departure, Frame, Ledger, MOST_FRAMES, NameId, Place, Stack, UNKNOWN_FUNCTION};
pub use tree::{CallTree, Node};
