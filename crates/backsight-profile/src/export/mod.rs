//! Profiles in the formats of others: a file for each, and one list.

mod addresses;
mod afl;
mod autofdo;
mod bolt;
mod bolt_names;
mod callgrind;
mod chrome;
mod cobertura;
mod collapsed;
mod coverage;
mod firefox;
mod lcov;
mod llvm;
mod loops;
pub(crate) mod names;
mod paths;
mod perfetto;
mod pprof;
mod protobuf;
mod speedscope;
mod stacks;
mod tables;

use std::fmt;
use std::io::{self, Write};

use crate::{CallNode, Profile};
pub use coverage::{BranchCoverage, Coverage, FileCoverage, FunctionCoverage};
pub(crate) use llvm::compiled_name;
pub use llvm::{discriminator_parts, sample_profile};

/// A format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What it is called in arguments.
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// Who reads it.
    pub readers: &'static str,
    /// What it needs beside counts.
    needs: &'static [Need],
    write: fn(&Profile, &ExportOptions, &mut dyn Write) -> Result<(), ExportError>,
}

/// What a format needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Names of functions.
    Symbols,
    /// Lines of source.
    Lines,
    /// Lines of source, or probes in the blocks.
    LinesOrProbes,
    /// Discriminators and lines of declarations.
    ProfilingInfo,
    /// One file: addresses have no other name.
    OneModule,
    /// Calls over time.
    Timeline,
    /// Outcomes of branches by path.
    Paths,
}

/// Every format.
pub const FORMATS: &[Format] = &[
    llvm::TEXT,
    llvm::BINARY,
    llvm::GCC,
    autofdo::PROFGEN,
    autofdo::AUTOFDO,
    bolt::PREAGGREGATED,
    bolt::FDATA,
    pprof::FORMAT,
    collapsed::FORMAT,
    callgrind::FORMAT,
    lcov::FORMAT,
    cobertura::FORMAT,
    chrome::FORMAT,
    perfetto::FORMAT,
    speedscope::FORMAT,
    firefox::FORMAT,
    afl::FORMAT,
    tables::FUNCTIONS,
    tables::BLOCKS,
    tables::EDGES,
    tables::BRANCHES,
    loops::FORMAT,
    paths::FORMAT,
    tables::JSON,
];

/// What the cost of a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Instructions, which every trace has.
    #[default]
    Instructions,
    /// Cycles, where the trace counts them.
    Cycles,
}

impl Weight {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Cycles => "cycles",
        }
    }

    /// The cost of a node of the tree of calls, without what it called.
    pub const fn of(self, node: &CallNode) -> u64 {
        match self {
            Self::Instructions => node.instructions,
            Self::Cycles => node.cycles,
        }
    }
}

/// How a profile is written.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// What the cost of a call is.
    pub weight: Weight,
    /// The file that is meant, by its name with or without the path, where a format has room for one.
    pub module: Option<String>,
    /// What was run, in words, where a format has room for a title.
    pub title: String,
}

/// Why a profile could not be written.
#[derive(Debug)]
pub enum ExportError {
    /// It could not be written to where it should go.
    Io(io::Error),
    /// What the format needs is not there.
    Missing(String),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Missing(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Format {
    /// The format of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Writes a profile.
    ///
    /// # Errors
    /// If it cannot be written, or what the format needs is not there.
    pub fn write(
        &self,
        profile: &Profile,
        options: &ExportOptions,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        (self.write)(profile, options, out)
    }

    /// Is it JSON?
    pub fn is_json(&self) -> bool {
        matches!(self.name, "chrome" | "speedscope" | "firefox" | "paths" | "json")
    }

    /// Does it show calls over time ([`CountOptions::timeline`](crate::CountOptions::timeline))?
    pub fn needs_timeline(&self) -> bool {
        self.needs.contains(&Need::Timeline)
    }

    /// Does it show outcomes of branches by path ([`CountOptions::paths`](crate::CountOptions::paths))?
    pub fn needs_paths(&self) -> bool {
        self.needs.contains(&Need::Paths)
    }

    /// Has it room for one file ([`ExportOptions::module`])?
    pub fn needs_one_module(&self) -> bool {
        self.needs.contains(&Need::OneModule)
    }

    /// What is missing for a good result, in words, and what to do about it.
    pub fn missing(&self, profile: &Profile, options: &ExportOptions) -> Vec<String> {
        let needs_lines = [Need::Lines, Need::LinesOrProbes, Need::ProfilingInfo];
        let problems =
            profile.modules.iter().filter(|_| self.needs.iter().any(|need| needs_lines.contains(need)));
        let problems = problems.filter_map(|module| module.debug_problem().map(str::to_owned));
        problems.chain(self.needs.iter().filter_map(|need| missing(*need, profile, options))).collect()
    }
}

fn has_probes(profile: &Profile) -> bool {
    profile.modules.iter().any(|module| !module.probes().is_empty())
}

fn missing(need: Need, profile: &Profile, options: &ExportOptions) -> Option<String> {
    let total = profile.totals.instructions.max(1);
    let share = |part: u64| 100.0 * part as f64 / total as f64;
    let sum = |wanted: &dyn Fn(&crate::Function) -> bool| -> u64 {
        profile.functions.iter().filter(|one| wanted(one)).map(|one| one.instructions).sum()
    };
    match need {
        Need::Symbols => {
            let unnamed = sum(&|function| function.start.is_none());
            (unnamed > 0).then(|| {
                format!(
                    "{:.1} % of the instructions are in code without symbols: give the file that has them with --image",
                    share(unnamed)
                )
            })
        }
        Need::Lines | Need::LinesOrProbes => {
            let by_probes = need == Need::LinesOrProbes && has_probes(profile);
            let without = sum(&|function| {
                profile.module_of(function).is_none_or(|module| match by_probes {
                    true => module.probes().is_empty(),
                    false => module.debug().is_empty(),
                })
            });
            let (what, option) = match by_probes {
                true => ("probes, which is left out", "-fpseudo-probe-for-profiling"),
                false => ("lines", "-g"),
            };
            (without > 0).then(|| {
                format!(
                    "{:.1} % of the instructions are in code without {what}: build it with {option}, or give the file with its debug information with --image",
                    share(without)
                )
            })
        }
        Need::ProfilingInfo if has_probes(profile) => None,
        Need::ProfilingInfo => {
            let bare = profile
                .modules
                .iter()
                .find(|module| !module.debug().is_empty() && !module.debug().has_discriminators())?;
            Some(format!(
                "{}: no line has a discriminator, so that blocks on one line are counted together: build it with -fdebug-info-for-profiling",
                bare.short_name()
            ))
        }
        Need::OneModule => {
            let module = addresses::chosen(profile, options).ok()?;
            let elsewhere = sum(&|function| function.module != module);
            let name = profile.modules.get(module as usize)?.name();
            (elsewhere > 0).then(|| {
                format!(
                    "only {name} is written, and {:.1} % of the instructions are in other files: --module names another",
                    share(elsewhere)
                )
            })
        }
        Need::Timeline => (profile.totals.short_slices > 0).then(|| {
            format!(
                "the {} shortest calls are left out: there are too many to show",
                profile.totals.short_slices
            )
        }),
        Need::Paths => {
            let left_out = profile.paths.as_ref()?.left_out;
            (left_out > 0).then(|| {
                format!("{left_out} outcomes of branches are left out: there are too many different paths")
            })
        }
    }
}

/// Text for JSON comes from programs: whatever they have in it must not end what is around it.
fn json_text(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}
