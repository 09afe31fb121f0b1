//! Counts what a trace executed, and writes the profiles that compilers and people read.
//!
//! Sampling profilers guess from a few thousand looks at a program; a trace says every branch. [`count`] goes through the
//! execution of a capture once and gives a [`Profile`]: how often each block was executed, each edge taken, each function
//! called and by whom. [`export`] writes it in the formats of others.
//!
//! ```
//! let capture = backsight::Capture::open("captures/calls-riscv64")?;
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
mod travel;
mod wire;

use backsight::core::Context;
use backsight::decode::{Decode, Execution, Span, Summary};
use backsight::{Capture, Error, Result};

pub use branches::{Branch, entropy};
pub use count::{BranchWindows, CountOptions, Counter, Handover};
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

/// Counts a part of a source by itself: a span that begins where the source begins, or where somebody who counted what comes
/// before it has [handed over](Counter::hand_over). `name` is what the capture is called, the same for all of its parts;
/// `context_of` says which context a hart was in. All parts of a source, merged, are the profile of the source.
///
/// # Errors
/// If there is no such source, its trace cannot be cut, or this is no handover of it.
pub fn count_part(
    capture: &Capture,
    decode: Decode<'_, Execution>,
    span: &Span,
    name: &str,
    handover: Option<&Handover>,
    context_of: &dyn Fn(u16) -> Option<Context>,
) -> Result<Profile> {
    let buffer = capture.buffer(&span.buffer);
    let source = buffer.and_then(|buffer| buffer.source_with_id(span.id));
    let source = &source
        .ok_or_else(|| Error::Misuse(format!("buffer {}: it has no source {}", span.buffer, span.id)))?;
    let code = capture.code()?.seen_by(source);
    let mut counter = match handover {
        None => Counter::new(source, code, &CountOptions::default()),
        Some(handover) => Counter::resume(source, code, handover, context_of).ok_or_else(|| {
            let why = "what is handed over to the part does not belong to this source, with this code";
            Error::Misuse(format!("source {}: {why}", source.name()))
        })?,
    };
    decode.positions(false).accumulate_span(span, &mut counter)?;
    let mut profile = Profile::default();
    profile.merge(counter.finish_part(span.start.map_or(0, |cut| cut.offset), span.end.is_none()));
    profile.threads.iter_mut().for_each(|thread| name.clone_into(&mut thread.capture));
    Ok(profile)
}
