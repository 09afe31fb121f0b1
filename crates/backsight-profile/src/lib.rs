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
//!
//! # What is where
//!
//! Counting and what people do with it: `count/` one pass over the execution of a source, by dense numbers of blocks and
//! edges (`blocks`), whole paths that followers remember (`walked`), calls (`calls`, by the stack of `backsight::calls`),
//! cycles, paths, filters and samples (`selection`), parts of a source (`handover`), threads that go from core to core
//! (`stretches`, put together by `join`); `Profile`, a value that stands on its own, travels (`travel`) and can be merged;
//! `probes` the marks that clang puts into blocks; `loops/` Havlak's nesting, over code in pieces that do not overlap;
//! `export/` a file for each format, `names` what each makes of names, and one list; `report/` the page.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod branches;
mod count;
mod events;
pub mod export;
mod inclusive;
mod json;
mod loops;
mod merge;
mod module;
mod paths;
mod probes;
mod profile;
pub mod report;
mod travel;
mod wire;

use backsight::core::Context;
use backsight::decode::{Decode, Execution, Span, Summary};
use backsight::listing::Filter;
use backsight::{Capture, Error, Result, Source};

pub use backsight::image::{DebugInfo, DescribedFunction, InlineFrame, Line};
pub use branches::{Branch, entropy};
use count::ThreadNames;
pub use count::{BranchWindows, CountOptions, Counter, Handover};
pub use events::{EventChoice, EventProfile, EventShare};
pub use loops::Loop;
pub use module::{FunctionSymbol, Module};
pub use paths::{PathBranch, PathContext, PathElement, PathProfile};
pub use probes::{Probe, ProbeFrame, ProbeKind, ProbedFunction, Probes};
pub use profile::{Block, CallNode, Edge, EdgeKind, Function, Profile, Slice, Thread, Totals};

/// Bytes of a source that a thread counts at a time: where parts of a source are counted, each meets its code for the first time.
const PIECE: usize = 1 << 23;

/// The same where each part has all its calls over time.
const PIECE_OF_CALLS: usize = 1 << 19;

/// Counts what a decode gives, each source by itself, and adds it up. Several threads share a single source, too, unless
/// it is sampled, or harts share it.
///
/// # Errors
/// If what was asked for is not in the capture, or bytes or code cannot be read.
pub fn count(
    capture: &Capture,
    decode: Decode<'_, Execution>,
    options: &CountOptions,
) -> Result<(Profile, Summary)> {
    let code = capture.code()?;
    let sources = || capture.buffers().iter().flat_map(|buffer| buffer.sources());
    let harts_share = sources().any(|source| source.numbers_harts());
    let may_join = code.names_threads() && !options.by_core;
    let joins_threads = may_join && (harts_share || decode.sources_with_data()? > 1);
    let filter_of = |source: &Source| match options.filter.is_selective() {
        true => Filter::new(&options.filter, || code.of(source)).map(Some),
        false => Ok(None),
    };
    sources().filter(|source| source.is_decoded()).try_for_each(|source| filter_of(source).map(drop))?;
    let piece = if options.timeline > 0 { PIECE_OF_CALLS } else { PIECE };
    let decode = decode.any_order().positions(false).default_piece_size(piece);
    let counter = |source: &Source| {
        let counter = Counter::new(source, code.seen_by(source), options);
        counter.selecting(filter_of(source).unwrap_or_default())
    };
    let whole = |decode: Decode<'_, Execution>| {
        decode.consume(|source| counter(source).joining_threads(joins_threads))
    };
    let in_parts =
        Counter::counts_parts(options) && !joins_threads && !harts_share && decode.is_in_pieces()?;
    let (summary, counters) = match in_parts {
        false => whole(decode)?,
        true => {
            let (summary, parts) = decode.clone().consume(|source| counter(source).of_part())?;
            let joined = parts.into_iter().map(|(source, counter)| (source, counter.whole()));
            let joined: Vec<_> = joined.collect();
            let is_exact = joined.iter().all(|(_, counter)| counter.is_exact());
            if is_exact { (summary, joined) } else { whole(decode)? }
        }
    };
    let mut profile = Profile::default();
    let mut sources = Vec::new();
    for (number, (source, counter)) in counters.into_iter().enumerate() {
        let mut counted = counter.finish();
        counted.stretches.iter_mut().for_each(|stretch| stretch.source = number);
        profile.merge(counted);
        sources.push(source);
    }
    profile.join_threads(&ThreadNames {
        of_thread: &|number| code.thread_name(number),
        of_hart: &|source, hart| sources.get(source).map_or_else(String::new, |one| one.hart_name(hart)),
    });
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
    context_of: &(dyn Fn(u16) -> Option<Context> + Sync),
) -> Result<Profile> {
    let buffer = capture.buffer(&span.buffer);
    let source = buffer.and_then(|buffer| buffer.source_with_id(span.id));
    let source = &source
        .ok_or_else(|| Error::Misuse(format!("buffer {}: it has no source {}", span.buffer, span.id)))?;
    let code = capture.code()?.seen_by(source);
    let counter = || match handover {
        None => Some(Counter::new(source, code, &CountOptions::default())),
        Some(handover) => Counter::resume(source, code, handover, context_of),
    };
    let Some(empty) = counter() else {
        let why = "what is handed over to the part does not belong to this source, with this code";
        return Err(Error::Misuse(format!("source {}: {why}", source.name())));
    };
    let new = |_: &Source| counter().unwrap_or_else(|| Counter::new(source, code, &CountOptions::default()));
    let (_, counted) = decode.positions(false).span(span).consume(new)?;
    let counter = counted.into_iter().next().map_or(empty, |(_, counter)| counter);
    let mut profile = Profile::default();
    profile.merge(counter.finish_part(span.start.map_or(0, |cut| cut.offset), span.end.is_none()));
    profile.threads.iter_mut().for_each(|thread| name.clone_into(&mut thread.capture));
    Ok(profile)
}
