//! `backsight report`: one HTML file to look at.

use std::path::{Path, PathBuf};

use backsight::Capture;
use backsight::image::SourceFolders;
use backsight_profile::CountOptions;
use backsight_profile::report::{self, Compared, ReportOptions};
use clap::Args;

use super::flow::FilterArgs;
use super::profile::{CompareArgs, Counted, Counting, WeightName, check, name_of, strict};
use crate::args::{CaptureArgs, ImageArgs, OutputArgs};
use crate::failure::{Failure, Result};
use crate::output::{Output, say};
use crate::window::WindowArgs;

/// Write one HTML file to look at
///
/// Counts what was executed, as `profile` does, and writes a page with a flame graph, the hottest functions with source and
/// disassembly, the branches that are hardest to predict, loops, calls over time, and how good the trace was. With --compare, it
/// also has the difference to another capture, or to another window: as a flame graph, by function and by line. The page needs
/// nothing else and works offline. Calls over time are left out where filters choose some of the execution.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// Show lines of source out of this folder: debug information names files, and files elsewhere are not read. May be
    /// given several times
    #[arg(long, value_name = "FOLDER", help_heading = "Code")]
    source: Vec<PathBuf>,

    /// What calls are weighed by
    #[arg(long, value_enum, default_value_t)]
    weight: WeightName,

    /// Calls over time that are kept; where there are more, the shortest are left out
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    slices: usize,

    /// Follow several sources on up to N cores; or pieces of a single one, unless
    /// threads go from one CPU to another, or code changes (event logs).
    /// 0, the default, is as many as there are
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    #[command(flatten)]
    compare: CompareArgs,

    #[command(flatten)]
    window: WindowArgs,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight report capture/ --source src/ -o report.html
  backsight report capture/ --image program.elf --weight cycles -o report.html
  backsight report capture/ --from 3s --to 4s -o spike.html
  backsight report capture/ --function parse -o parse.html
  backsight report good/ --compare bad/ -o difference.html";

/// What was recorded, where the capture says it; else its name without the folders around it.
fn title_of(path: &Path, capture: &Capture) -> String {
    let described = capture.description().description.clone().filter(|text| !text.trim().is_empty());
    let name = || path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    described.unwrap_or_else(name)
}

/// Runs the command.
pub fn run(command: &Report) -> Result {
    let quiet = command.output.quiet;
    let path = command.output.output.as_deref();
    if let Some(folder) = command.source.iter().find(|folder| !folder.is_dir()) {
        return Err(Failure::new(format!("--source {}: there is no such folder", folder.display())));
    }
    command.compare.check(&command.capture)?;
    let inputs = command.capture.inputs(&command.images).and(&command.compare.compare);
    let mut output = Output::open(path, &inputs)?;
    let filter = command.filter.options();
    let is_filtered = filter.is_selective();
    // Calls over time are those of the whole execution.
    let timeline = if is_filtered { 0 } else { command.slices };
    let options = CountOptions { timeline, filter, ..CountOptions::default() };
    let counting = Counting { images: &command.images, options, threads: command.threads, quiet };
    let Counted { profile, capture, facts: decoded, is_damaged } =
        counting.count(&command.capture, &command.window)?;
    command.filter.check_counted(&profile)?;
    check(&profile, command.weight)?;
    let other = command.compare.other(&command.capture, &command.window);
    let other = other.map(|(arguments, window)| Other::count(counting, &arguments, &window)).transpose()?;
    let mut facts = vec![
        ("Capture".to_owned(), capture.name().to_owned()),
        ("Made by".to_owned(), format!("backsight {}", env!("BACKSIGHT_VERSION"))),
    ];
    facts.extend(is_filtered.then(|| ("Chosen".to_owned(), command.filter.words())));
    facts.extend(decoded);
    facts.extend(profile.modules.iter().map(|module| {
        let id = module.build_id().map_or(String::new(), |id| format!(", build identifier {id}"));
        ("Code".to_owned(), format!("{}{id}", module.name()))
    }));
    let exceptions = profile.exceptions.iter();
    facts.extend(exceptions.map(|(cause, count)| ("Exceptions".to_owned(), format!("{count} × {cause}"))));
    let mut warnings: Vec<String> = capture.warnings().to_vec();
    warnings.extend(capture.code()?.warnings());
    if is_damaged {
        warnings.push("Something is missing from the trace: counts are those of what is left.".to_owned());
    }
    let problems = profile.modules.iter().filter_map(|module| module.debug_problem().map(str::to_owned));
    warnings.extend(problems);
    if profile.modules.iter().all(|module| module.debug().is_empty()) {
        warnings.push(
            "No code has lines of source: give the file with its debug information with --image.".to_owned(),
        );
    } else if command.source.is_empty() {
        warnings.push("Lines of source are not shown: --source FOLDER says where they are.".to_owned());
        if !quiet {
            say("lines of source are not shown: --source FOLDER says where they are");
        }
    }
    let name = name_of(&command.capture.capture, &command.window);
    if let Some(other) = &other {
        check(&other.counted.profile, command.weight)?;
        facts.push(("Compared with".to_owned(), other.name.clone()));
        let decoded = other.counted.facts.iter().cloned();
        facts.extend(decoded.map(|(what, value)| (format!("{what} of the other"), value)));
        if other.counted.is_damaged {
            warnings.push("Something is missing from the trace of the other.".to_owned());
        }
    }
    let options = ReportOptions {
        title: title_of(&command.capture.capture, &capture),
        weight: command.weight.into(),
        facts,
        warnings,
        sources: SourceFolders::new(&command.source).into(),
        compared: other
            .as_ref()
            .map(|other| Compared { names: [name, other.name.clone()], profile: &other.counted.profile }),
    };
    output.put(|out| report::write(&profile, &options, out))?;
    output.finish()?;
    if let Some(path) = path.filter(|_| !quiet) {
        say(format_args!("to see it: open {} in a browser", path.display()));
    }
    strict(command.output.strict, is_damaged || other.is_some_and(|other| other.counted.is_damaged))
}

/// What a report compares with.
struct Other {
    name: String,
    counted: Counted,
}

impl Other {
    fn count(counting: Counting<'_>, arguments: &CaptureArgs, window: &WindowArgs) -> Result<Self> {
        // Calls over time are those of one side.
        let options = CountOptions { timeline: 0, ..counting.options };
        let counted = Counting { options, ..counting }.count(arguments, window)?;
        Ok(Self { name: name_of(&arguments.capture, window), counted })
    }
}
