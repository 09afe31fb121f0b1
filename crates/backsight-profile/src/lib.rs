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
//! `export/` a file for each format, `names` what each makes of names, and one list; `waves/` what changes over time, for viewers of simulations; `report/` the page.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod branches;
pub mod compare;
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
pub mod waves;
mod wire;

use backsight::core::Context;
use backsight::decode::{Decode, Execution, Span, Summary};
use backsight::listing::Filter;
use backsight::moments::{Found, Moments, Taken, Window};
use backsight::{Capture, Code, Error, Result, Source};

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
    let harts_share = harts_share(capture);
    let may_join = code.names_threads() && !options.by_core;
    let joins_threads = may_join && (harts_share || decode.sources_with_data()? > 1);
    check_filter(capture, options)?;
    let piece = if options.timeline > 0 { PIECE_OF_CALLS } else { PIECE };
    let decode = decode.any_order().positions(false).default_piece_size(piece);
    let counter = |source: &Source| selecting_counter(code, source, options);
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
    Ok((put_together(capture, code, counters), summary))
}

/// Counts windows of sources, and adds them up, on up to so many threads; 0 is as many as the machine has cores. No more is decoded than
/// they need. Windows that meet have the instructions, the functions entered and the exceptions of what they make up together; the calls
/// under way where one begins, and the step that leads into it, are not known in it.
///
/// # Errors
/// As [`count`]; and if moments of windows are not known in the capture.
pub fn count_windows<'c>(
    capture: &'c Capture,
    moments: &Moments<'c>,
    decode: Decode<'c, Execution>,
    windows: Vec<(Source, Window)>,
    options: &CountOptions,
    threads: usize,
) -> Result<(Profile, Vec<(Source, Found)>)> {
    let code = capture.code()?;
    let is_shared = windows.len() > 1 || harts_share(capture);
    let joins_threads = code.names_threads() && !options.by_core && is_shared;
    check_filter(capture, options)?;
    let counter = |source: &Source| selecting_counter(code, source, options).joining_threads(joins_threads);
    let taken = moments.take_each(&decode.positions(false), windows, threads, counter)?;
    let (counters, found) = taken
        .into_iter()
        .map(|Taken { source, state, found }| ((source.clone(), state), (source, found)))
        .unzip::<_, _, Vec<_>, Vec<_>>();
    Ok((put_together(capture, code, counters), found))
}

/// Do several harts share the stream of some source?
fn harts_share(capture: &Capture) -> bool {
    capture.buffers().iter().flat_map(|buffer| buffer.sources()).any(|source| source.numbers_harts())
}

fn filter_of<'c>(code: &'c Code, source: &Source, options: &CountOptions) -> Result<Option<Filter<'c>>> {
    match options.filter.is_selective() {
        true => Filter::new(&options.filter, || code.of(source))
            .map(|filter| Some(filter.following(code.seen_by(source)))),
        false => Ok(None),
    }
}

/// Refuses names that the code of no source has.
fn check_filter(capture: &Capture, options: &CountOptions) -> Result<()> {
    let code = capture.code()?;
    let mut sources = capture.buffers().iter().flat_map(|buffer| buffer.sources());
    sources.try_for_each(|source| match source.is_decoded() {
        true => filter_of(code, source, options).map(drop),
        false => Ok(()),
    })
}

/// A counter of what a filter wants.
fn selecting_counter<'c>(code: &'c Code, source: &Source, options: &CountOptions) -> Counter<'c> {
    let counter = Counter::new(source, code.seen_by(source), options);
    counter.selecting(filter_of(code, source, options).unwrap_or_default())
}

/// What counters have counted, added up.
fn put_together(capture: &Capture, code: &Code, counters: Vec<(Source, Counter<'_>)>) -> Profile {
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
    profile
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
