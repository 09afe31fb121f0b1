//! Counts what a trace executed, and writes the profiles that compilers and people read.
//!
//! Sampling profilers guess from a few thousand looks at a program; a trace says every branch. [`count`] goes through the
//! execution of a capture once and gives a [`Profile`]: how often each block was executed, each edge taken, each function
//! called and by whom. [`export`] writes it in the formats of others.
//!
//! ```
//! let capture = backsight::Capture::open("../../testdata/captures/calls-riscv64")?;
//! let (profile, _) = backsight_profile::count(&capture, capture.execution(), &Default::default())?;
//! assert_eq!(profile.totals.instructions, 40_000);
//! let hottest = profile.functions.iter().max_by_key(|function| function.instructions);
//! println!("{:?}", hottest);
//! # Ok::<(), backsight::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod branches;
mod count;
mod debug;
mod events;
pub mod export;
mod json;
mod loops;
mod merge;
mod module;
mod paths;
mod profile;
pub mod report;

use backsight::decode::{Decode, Execution, Summary};
use backsight::{Capture, Result};

pub use branches::{Branch, entropy};
pub use count::{BranchWindows, CountOptions, Counter};
pub use debug::{
    DebugInfo, DescribedFunction, InlineFrame, Line, Probe, ProbeFrame, ProbeKind, ProbedFunction, Probes,
};
pub use events::{EventChoice, EventProfile, EventShare};
pub use loops::Loop;
pub use module::{FunctionSymbol, Module};
pub use paths::{PathBranch, PathContext, PathElement, PathProfile};
pub use profile::{Block, CallNode, Edge, EdgeKind, Function, Profile, Slice, Thread, Totals};

/// Counts what a decode gives, each source by itself, and adds it up.
///
/// # Errors
/// If what was asked for is not in the capture, or bytes or code cannot be read.
pub fn count(
    capture: &Capture,
    decode: Decode<'_, Execution>,
    options: &CountOptions,
) -> Result<(Profile, Summary)> {
    let code = capture.code()?;
    let (summary, counters) = decode
        .any_order()
        .positions(false)
        .accumulate(|source| Counter::new(source, code.seen_by(source), options))?;
    let mut profile = Profile::default();
    for (_, counter) in counters {
        profile.merge(counter.finish());
    }
    profile.threads.iter_mut().for_each(|thread| capture.name().clone_into(&mut thread.capture));
    Ok((profile, summary))
}
