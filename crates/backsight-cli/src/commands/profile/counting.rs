//! Captures, and windows of them, counted as the command line says.

use backsight::Capture;
use backsight_profile::{CountOptions, Profile};

use crate::args::{CaptureArgs, ImageArgs};
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{counted, say};
use crate::window::{WindowArgs, Windows};

/// How captures are counted.
pub struct Counting<'a> {
    /// Code besides what captures bring along.
    pub images: &'a ImageArgs,
    /// What to count.
    pub options: CountOptions,
    /// Cores to use.
    pub threads: usize,
    /// Nothing is said.
    pub quiet: bool,
}

/// What was counted.
pub struct Counted {
    /// The counts.
    pub profile: Profile,
    /// Where they are from.
    pub capture: Capture,
    /// What was decoded, and what became of it.
    pub facts: Facts,
    /// Something is missing from the trace.
    pub is_damaged: bool,
}

/// Names and values.
type Facts = Vec<(String, String)>;

impl Counting<'_> {
    /// Counts a capture, or windows of its sources. Says what it finds doubtful.
    pub fn count(&self, arguments: &CaptureArgs, window: &WindowArgs) -> Result<Counted> {
        let capture = arguments.open(self.images, self.quiet)?;
        arguments.check_buffers(&capture)?;
        self.options.filter.check(&capture)?;
        let (profile, facts, is_damaged) = match window.is_given() {
            true => self.windows(arguments, window, &capture)?,
            false => self.whole(arguments, &capture)?,
        };
        Ok(Counted { profile, capture, facts, is_damaged })
    }

    fn whole(&self, arguments: &CaptureArgs, capture: &Capture) -> Result<(Profile, Facts, bool)> {
        let decode = arguments.choose(capture.execution(), capture, self.quiet).threads(self.threads);
        let (profile, summary) = backsight_profile::count(capture, decode, &self.options)?;
        if profile.totals.instructions == 0 {
            check_protocols(capture)?;
        }
        self.say_problems(&profile, capture)?;
        if !self.quiet {
            say(&summary);
        }
        let sources = summary.sources().map(|one| ("Source".to_owned(), one.source.to_string()));
        let lines = summary.to_string();
        let lines = lines.lines().map(|line| ("Decoded".to_owned(), line.to_owned()));
        let facts = sources.chain(lines).collect();
        Ok((profile, facts, summary.is_damaged()))
    }

    fn windows(
        &self,
        arguments: &CaptureArgs,
        window: &WindowArgs,
        capture: &Capture,
    ) -> Result<(Profile, Facts, bool)> {
        let moments = index_file::moments(arguments, capture, self.quiet);
        let decode = arguments.choose(capture.execution(), capture, self.quiet);
        let windows = window.of_sources(&moments, &decode)?;
        let (profile, found) = backsight_profile::count_windows(
            capture,
            &moments,
            decode,
            windows,
            &self.options,
            self.threads,
        )?;
        self.say_problems(&profile, capture)?;
        let mut said = Windows::default();
        found.iter().for_each(|(source, found)| said.add(source, found, self.quiet));
        said.finish(window, capture)?;
        let facts = said.lines().iter().map(|line| ("Window".to_owned(), line.clone())).collect();
        Ok((profile, facts, said.is_damaged()))
    }

    fn say_problems(&self, profile: &Profile, capture: &Capture) -> Result {
        if !self.quiet {
            let code = capture.code()?;
            let problems = code.problems();
            for what in code.warnings().iter().chain(&problems).chain(&thread_problems(profile)) {
                say(format_args!("warning: {what}"));
            }
        }
        Ok(())
    }
}

/// What is doubtful about the calls of threads.
fn thread_problems(profile: &Profile) -> Vec<String> {
    let totals = &profile.totals;
    let mut problems = Vec::new();
    if totals.unordered_threads > 0 {
        problems.push(format!(
            "{} of the trace ran on several CPUs, and timestamps do not say in which order, or say that it was at the same \
             time: calls are kept by CPU",
            counted(totals.unordered_threads, "context ID")
        ));
    }
    if totals.unjoined_turns > 0 {
        problems.push(format!(
            "threads were interrupted too often: {} they were taken to go on on the same CPU",
            counted(totals.unjoined_turns, "time")
        ));
    }
    problems
}

/// Protocols of messages that programs write, and of samples.
const MESSAGES: [&str; 2] = ["itm", "stm"];

/// Refuses captures in which nothing traces execution.
fn check_protocols(capture: &Capture) -> Result {
    let sources = capture.buffers().iter().flat_map(|buffer| buffer.sources());
    let mut protocols: Vec<_> = sources.filter_map(|source| Some(source.protocol()?.name)).collect();
    protocols.dedup();
    if protocols.is_empty() || !protocols.iter().all(|name| MESSAGES.contains(name)) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: nothing in it traces execution, and there are no samples of the program counter; `backsight flow` shows the \
         messages of {}",
        capture.name(),
        protocols.join(" and ")
    )))
}
