//! `backsight flow`: lists what was executed.

mod messages;
mod time_axis;
mod truth;
mod windows;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use backsight::decode::{Summary, Written};
use backsight::image::Naming;
use backsight::listing::{
    BranchWriter, Detail, EventNames, ExecutionFormat, ExecutionWriter, Filter, FilterOptions, ListedCounts,
    MessageWriter, Printable, Style, ThreadCalls,
};
use backsight::{Capture, Source};
use backsight_profile::Profile;
use clap::{Args, ValueEnum};

use crate::args::{CaptureArgs, ImageArgs, OutputArgs, parse_number, parse_range};
use crate::failure::{Failure, Result};
use crate::output::{Output, listed, say};
use crate::window::{WindowArgs, Windows};

/// List what was executed
///
/// Follows the trace through the code: ranges of instructions, how each ended, exceptions, contexts, time, and
/// gaps where something is missing. The code comes from the capture and from --image.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Flow {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// How to list it
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// List what was really executed, which `record --truth` keeps in the capture, rather than what the trace says
    #[arg(long)]
    truth: bool,

    /// List calls, in text or JSON: function by function, indented by how deep they are, and at the end of each what it
    /// cost; or as a tree. A thread that goes from CPU to CPU
    /// is one, in the order of time
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "lines")]
    calls: Option<Calls>,

    /// List what all sources of all buffers report on one time axis, in the order of their timestamps: every line
    /// begins with the time, or with two that it lies between. In text or JSON
    #[arg(long, conflicts_with_all = ["calls", "truth", "messages"])]
    all: bool,

    /// List the messages that software wrote (ITM, STM, N-Trace), each channel's put together, as text or in
    /// hexadecimal; as JSON, both
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "text",
          conflicts_with_all = ["calls", "disasm", "truth"])]
    messages: Option<MessageText>,

    /// Only this hart, where several share a stream (N-Trace, E-Trace); may be given several times
    #[arg(long, value_name = "N", conflicts_with_all = ["truth", "messages"])]
    hart: Vec<u16>,

    /// In text or JSON: every instruction, below its range
    #[arg(long, conflicts_with = "calls")]
    disasm: bool,

    /// With --disasm: the line of source of every instruction
    #[arg(long, requires = "disasm")]
    source: bool,

    /// Show names of C++ and Rust functions as the files have them
    #[arg(long)]
    no_demangle: bool,

    /// Stop after N lines
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Name an event of the trace unit, as in 0=L1D_CACHE_REFILL; may be given several times
    #[arg(long, value_name = "N=NAME", value_parser = parse_event)]
    event: Vec<(u8, String)>,

    /// Stop following at strong evidence that the code is not what ran, until an address anchors the flow again
    #[arg(long)]
    strict_image: bool,

    /// Follow several sources, or pieces of a single one, on up to N cores; 0, the default, is as many as there are. Messages of ITM
    /// and STM, and execution through code that changes (event logs), take one core for each source
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    #[command(flatten)]
    window: WindowArgs,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight flow capture/ --calls            function by function, indented
  backsight flow capture/ --calls=tree       what each function cost, by who called it
  backsight flow capture/ --last 1000        how it ended
  backsight flow capture/ --around '#4000000' --disasm
  backsight flow capture/ --image program.elf --function main --disasm
  backsight flow capture/ --image lib.so@0x7f80000000 --format pcs | sort | uniq -c
  backsight flow trace.bin --protocol etm4 --config TRCCONFIGR=0x9 --format branches --event 0=L1D_REFILL";

/// How execution is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One line a range, to read
    #[default]
    Text,
    /// One JSON object a line
    Json,
    /// The listing that users of OpenCSD know
    Opencsd,
    /// One address a line: every instruction
    Pcs,
    /// A Tarmac log, as Arm's simulators write it: every instruction, and the accesses that are known
    Tarmac,
    /// Branch targets, events, exceptions and gaps with their cycle: of Arm from the packets alone, without code
    Branches,
}

/// How calls are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Calls {
    /// One line for each stay in a function
    Lines,
    /// At the end, what each function cost, by who called it
    Tree,
}

/// How messages are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MessageText {
    /// As text, where they are text
    Text,
    /// In hexadecimal
    Hex,
}

/// Which part of the execution to list.
#[derive(Args, Clone, Debug, Default)]
pub struct FilterArgs {
    /// Only instructions at these addresses; may be given several times
    #[arg(long, value_name = "FROM..TO", help_heading = "Filters", value_parser = parse_range)]
    range: Vec<std::ops::Range<u64>>,

    /// Only what happens inside calls of this function, in what it calls, too; may be given several times
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    function: Vec<String>,

    /// Only instructions of this file, by its name with or without the path; may be given several times
    #[arg(long, value_name = "FILE", help_heading = "Filters")]
    pub module: Vec<String>,

    /// Only what ran with this context ID; may be given several times
    #[arg(long, value_name = "ID", help_heading = "Filters", value_parser = parse_number)]
    context: Vec<u64>,

    /// Only what this thread did, by the number that the operating system gave to it; may be given several times
    #[arg(long, value_name = "NUMBER", help_heading = "Filters", value_parser = parse_number)]
    thread: Vec<u64>,

    /// What it was is a window now
    #[arg(long, hide = true, value_name = "FROM..TO", value_parser = parse_time)]
    time: Option<Infallible>,
}

impl FilterArgs {
    /// The same for the library.
    pub fn options(&self) -> FilterOptions {
        FilterOptions {
            ranges: self.range.clone(),
            functions: self.function.clone(),
            modules: self.module.clone(),
            contexts: self.context.clone(),
            threads: self.thread.clone(),
        }
    }

    /// Refuses a profile in which nothing is that they ask for.
    pub fn check_counted(&self, profile: &Profile) -> Result {
        match profile.totals.instructions == 0 && self.options().is_selective() {
            true => Err(Failure::new(format!("nothing that was executed is what {FILTERS} ask for"))),
            false => Ok(()),
        }
    }

    /// What they ask for, in words.
    pub fn words(&self) -> String {
        let range = self.range.iter().map(|range| format!("--range {:#x}..{:#x}", range.start, range.end));
        let function = self.function.iter().map(|name| format!("--function {name}"));
        let module = self.module.iter().map(|name| format!("--module {name}"));
        let context = self.context.iter().map(|id| format!("--context {id:#x}"));
        let thread = self.thread.iter().map(|number| format!("--thread {number}"));
        range.chain(function).chain(module).chain(context).chain(thread).collect::<Vec<_>>().join(" ")
    }
}

/// The filters, as messages name them.
pub const FILTERS: &str = "--range, --function, --module, --context and --thread";

/// What ran between two times is a window.
fn parse_time(text: &str) -> std::result::Result<Infallible, String> {
    let times = parse_range(text).map_err(|why| why.to_string())?;
    let to = if times.end < u64::MAX { format!(" --to t{:#x}", times.end) } else { String::new() };
    Err(format!("what ran between two times is a window: --from t{:#x}{to}", times.start))
}

impl Flow {
    /// How events are listed; a list of branches is another thing.
    fn style(&self, several_buffers: bool) -> Style {
        let format = match self.format {
            Format::Json => ExecutionFormat::Json,
            Format::Opencsd => ExecutionFormat::Opencsd,
            Format::Pcs => ExecutionFormat::Pcs,
            Format::Tarmac => ExecutionFormat::Tarmac,
            Format::Text | Format::Branches => ExecutionFormat::Text,
        };
        let detail = match self.calls {
            Some(Calls::Lines) => Detail::Calls,
            Some(Calls::Tree) => Detail::CallTree,
            None if self.disasm => Detail::Instructions,
            None => Detail::Ranges,
        };
        let naming = if self.no_demangle { Naming::Mangled } else { Naming::Demangled };
        let (name_buffers, source_lines) = (several_buffers, self.source);
        Style { format, detail, name_buffers, naming, source_lines, ..Style::default() }
    }

    /// Refuses a log of processors that have none.
    fn check_architecture(&self, capture: &Capture) -> Result {
        let mut sources = self.capture.chosen(capture).flat_map(|buffer| buffer.sources());
        match self.format == Format::Tarmac && sources.any(Source::is_riscv) {
            true => Err(Failure::usage("--format tarmac: such a log is of Arm processors")),
            false => Ok(()),
        }
    }

    /// Refuses what a format has no room for.
    fn check(&self) -> Result {
        match () {
            () if self.truth => self.window.refuse("--truth")?,
            () if self.all => time_axis::check(&self.window)?,
            () => {}
        }
        let asked = match () {
            () if self.calls.is_some() => "--calls",
            () if self.disasm => "--disasm",
            () if self.all => "--all",
            () if self.messages.is_some() => "--messages",
            () => return Ok(()),
        };
        match self.format {
            Format::Text | Format::Json => Ok(()),
            Format::Opencsd | Format::Pcs | Format::Tarmac | Format::Branches => {
                Err(Failure::usage(format!("{asked} is for --format text and json")))
            }
        }
    }
}

fn parse_event(text: &str) -> std::result::Result<(u8, String), String> {
    let (number, name) = text.split_once('=').ok_or_else(|| format!("`{text}`: N=NAME is expected"))?;
    let number = parse_number(number).map_err(|why| why.to_string())?;
    let number =
        u8::try_from(number).ok().filter(|&number| number < 4).ok_or("events are numbered 0 to 3")?;
    Ok((number, name.to_owned()))
}

/// Runs the command.
pub fn run(command: &Flow) -> Result {
    command.check()?;
    if command.truth {
        return truth::run(command);
    }
    let quiet = command.output.quiet;
    let capture = command.capture.open(&command.images, quiet)?;
    command.check_architecture(&capture)?;
    command.filter.options().check(&capture)?;
    let path = command.output.output.as_deref();
    let inputs = command.capture.inputs(&command.images);
    let output = match command.format {
        Format::Text => Output::for_people(path, &inputs)?,
        _ => Output::open(path, &inputs)?,
    };
    let mut output = output.limit(command.limit);
    let counts = Arc::new(ListedCounts::default());
    let outcome = match command.window.is_given() && !command.all {
        true => windows::list(command, &capture, &mut output, &counts).map(Listed::Windows),
        false => list(command, &capture, &mut output, &counts).map(Listed::Whole),
    };
    match outcome {
        Ok(_) | Err(Failure::Enough) => output.finish()?,
        Err(_) => drop(output),
    }
    if !quiet {
        // The event log, the files that it names, their names and lines are read while they are listed.
        let code = capture.code()?;
        let said = code.warnings().into_iter().chain(code.problems());
        said.for_each(|warning| say(format_args!("warning: {warning}")));
    }
    let listed = match outcome {
        Err(Failure::Enough) => {
            let limit = command.limit.unwrap_or(0);
            if !quiet {
                say(format_args!("{limit} lines listed, no more were asked for"));
            }
            return Ok(());
        }
        outcome => outcome?,
    };
    let is_damaged = match &listed {
        Listed::Whole(summary) => {
            if !quiet {
                say_what_was_listed(command, &counts, summary);
                say(summary);
            }
            summary.is_damaged()
        }
        Listed::Windows(windows) => {
            windows.finish(&command.window, &capture)?;
            windows.is_damaged()
        }
    };
    match command.output.strict && is_damaged {
        true => Err(Failure::new("the trace or the image is damaged (--strict)")),
        false => Ok(()),
    }
}

/// What was listed.
enum Listed {
    Whole(Summary),
    Windows(Windows),
}

/// Where filters left something out: how much of what was decoded is in the listing.
fn say_what_was_listed(command: &Flow, counts: &ListedCounts, summary: &Summary) {
    if command.format == Format::Branches {
        return;
    }
    if command.filter.options().is_selective() {
        let decoded = summary.statistics().instructions;
        say(format_args!("{} of {decoded} instructions listed; decoded:", counts.instructions()));
    }
}

fn list(
    command: &Flow,
    capture: &Capture,
    output: &mut Output,
    counts: &Arc<ListedCounts>,
) -> Result<Summary> {
    let arguments = &command.capture;
    // A bar on the line that is being written would help nobody.
    let quiet = command.output.quiet || output.is_terminal();
    let code = capture.code()?;
    if command.all {
        return time_axis::list(command, capture, output, counts);
    }
    let filter = command.filter.options();
    let several = arguments.chooses_several(capture);
    let named = several && matches!(command.format, Format::Text | Format::Opencsd);
    let mut put = |written: Written<'_>| match written {
        Written::Text(text) => output.put_lines(text),
        Written::Buffer(buffer) if named => {
            output.put(|out| writeln!(out, "# buffer {}", Printable(buffer.name())))
        }
        Written::Buffer(_) => Ok(()),
    };
    let execution = || {
        let decode = arguments.choose(capture.execution(), capture, quiet).threads(command.threads);
        decode.strict_image(command.strict_image)
    };
    if let Some(how) = command.messages {
        let make = |source: &Source| Ok(messages::writer(how, command.format, source, several));
        return listed(|put| MessageWriter::write(execution(), &make, put), &mut put);
    }
    let filter_of = |source: &Source| Filter::new(&filter, || code.of(source));
    if command.format == Format::Branches {
        let names = EventNames(command.event.iter().cloned().collect::<BTreeMap<_, _>>());
        let make = |source: &Source| {
            let filter = filter_of(source)?.following(code.seen_by(source));
            Ok(BranchWriter::new(filter, names.clone()))
        };
        if branches_need_code(command, capture)? {
            let decode = execution().positions(false);
            return listed(|put| BranchWriter::write(decode, &make, put), &mut put);
        }
        let decode = arguments.choose(capture.branches(), capture, quiet).threads(command.threads);
        let decode = decode.positions(false);
        return listed(|put| BranchWriter::write_from_packets(decode, &make, put), &mut put);
    }
    let style = command.style(several);
    let positions = matches!(style.format, ExecutionFormat::Json | ExecutionFormat::Opencsd);
    let decode = execution().as_opencsd(style.format == ExecutionFormat::Opencsd).positions(positions);
    if command.calls.is_some() && decode.threads_may_move(code)? {
        let calls = ThreadCalls { style, filter: &filter, harts: &command.hart, counts: Arc::clone(counts) };
        return listed(|put| calls.write(decode, code, put), &mut put);
    }
    let make = |source: &Source| {
        let filter = filter_of(source)?.harts(&command.hart);
        Ok(ExecutionWriter::new(style, source, code.seen_by(source), filter, Arc::clone(counts)))
    };
    listed(|put| ExecutionWriter::write(decode, &make, put), &mut put)
}

/// Are the targets of branches in the code, for the sources that are wanted? A list has them from one place only.
fn branches_need_code(command: &Flow, capture: &Capture) -> Result<bool> {
    let sources = command.capture.chosen(capture).flat_map(|buffer| buffer.sources());
    let ids = &command.capture.id;
    let wanted = sources.filter(|source| {
        source.is_decoded() && (ids.is_empty() || ids.contains(&u64::from(source.id().get())))
    });
    let (with, without): (Vec<&Source>, Vec<&Source>) =
        wanted.partition(|source| source.branches_need_code());
    match (with.first(), without.first()) {
        (Some(one), Some(other)) => Err(Failure::usage(format!(
            "--format branches: the branches of {} come from the code, those of {} from its packets: choose by --id",
            one.name(),
            other.name()
        ))),
        (with, _) => Ok(with.is_some()),
    }
}
