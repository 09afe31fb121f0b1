//! Calls: which functions were under way when, and what they cost.
//!
//! Trace says which instructions ran, not who called whom. [`ShadowStack`] finds that out: it keeps the stack of calls
//! beside the execution, by what ends each range of instructions and where the next one begins. Trace has gaps, programs
//! jump out of functions, and filters leave out callers: the stack finds its way back by return addresses and by the
//! functions that are on it, so that its depth never drifts. [`CallTree`] adds up what comes out.
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
mod stack;
mod tree;

#[cfg(test)]
mod tests;

pub use clock::Cost;
pub use functions::FunctionName;
pub(crate) use functions::Functions;
pub use stack::{ShadowStack, Visit};
pub(crate) use stack::{Stay, Stays};
pub use tree::{CallTree, Node};
