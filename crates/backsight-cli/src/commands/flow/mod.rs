//! `backsight flow`: lists what was executed.

mod truth;

use std::collections::BTreeMap;

use backsight::Capture;
use backsight::decode::{Portion, Summary};
use backsight::image::Naming;
use backsight::listing::{
    BranchWriter, EventNames, ExecutionFormat, ExecutionWriter, Filter, FilterOptions, Printable, Style,
};
use clap::{Args, ValueEnum};

use crate::args::{CaptureArgs, ImageArgs, OutputArgs, parse_number, parse_range};
use crate::failure::{Failure, Result};
use crate::output::{Output, say};

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

    /// In text: function by function, indented by call depth
    #[arg(long)]
    calls: bool,

    /// In text: every instruction, below its range
    #[arg(long, conflicts_with = "calls")]
    disasm: bool,

    /// With --disasm: the line of source of every instruction
    #[arg(long, requires = "disasm")]
    source: bool,

    /// Show names of C++ and Rust functions as the files have them
    #[arg(long)]
    no_demangle: bool,

    /// Name an event of the trace unit, as in 0=L1D_CACHE_REFILL; may be given several times
    #[arg(long, value_name = "N=NAME", value_parser = parse_event)]
    event: Vec<(u8, String)>,

    /// Stop following at strong evidence that the code is not what ran, until an address anchors the flow again
    #[arg(long)]
    strict_image: bool,

    /// Follow several sources on up to N cores; 0, the default, is as many as there are
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight flow capture/ --calls            function by function, indented
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
    /// Branch targets, events, exceptions and gaps with their cycle, from the packets alone: needs no code
    Branches,
}

/// Which part of the execution to list.
#[derive(Args, Clone, Debug, Default)]
struct FilterArgs {
    /// Only instructions at these addresses; may be given several times
    #[arg(long, value_name = "FROM..TO", help_heading = "Filters", value_parser = parse_range)]
    range: Vec<std::ops::Range<u64>>,

    /// Only instructions of this function; may be given several times
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    function: Vec<String>,

    /// Only what ran with this context ID; may be given several times
    #[arg(long, value_name = "ID", help_heading = "Filters", value_parser = parse_number)]
    context: Vec<u64>,

    /// Only what ran between these timestamps
    #[arg(long, value_name = "FROM..TO", help_heading = "Filters", value_parser = parse_range)]
    time: Option<std::ops::Range<u64>>,
}

impl FilterArgs {
    fn options(&self) -> FilterOptions {
        FilterOptions {
            ranges: self.range.clone(),
            functions: self.function.clone(),
            contexts: self.context.clone(),
            time: self.time.clone(),
        }
    }
}

impl Flow {
    /// The format of a listing of events; a list of branches is none.
    fn style(&self) -> Style {
        let format = match self.format {
            Format::Json => ExecutionFormat::Json,
            Format::Opencsd => ExecutionFormat::Opencsd,
            Format::Pcs => ExecutionFormat::Pcs,
            Format::Text | Format::Branches if self.calls => ExecutionFormat::Calls,
            Format::Text | Format::Branches if self.disasm => ExecutionFormat::Disassembly,
            Format::Text | Format::Branches => ExecutionFormat::Text,
        };
        let naming = if self.no_demangle { Naming::Mangled } else { Naming::Demangled };
        Style { format, cycle_counts: false, naming, source_lines: self.source }
    }
}

fn parse_event(text: &str) -> std::result::Result<(u8, String), String> {
    let (number, name) = text.split_once('=').ok_or_else(|| format!("`{text}`: N=NAME is expected"))?;
    let number = parse_number(number)?;
    let number =
        u8::try_from(number).ok().filter(|&number| number < 4).ok_or("events are numbered 0 to 3")?;
    Ok((number, name.to_owned()))
}

/// Runs the command.
pub fn run(command: &Flow) -> Result {
    if command.truth {
        return truth::run(command);
    }
    let capture = command.capture.open(&command.images, command.output.quiet)?;
    let path = command.output.output.as_deref();
    let mut output = match command.format {
        Format::Text => Output::for_people(path)?,
        _ => Output::open(path)?,
    };
    let summary = list(command, &capture, &mut output)?;
    output.finish()?;
    if !command.output.quiet {
        // Names and lines are read while they are listed.
        let problems = capture.code()?.image().problems();
        problems.iter().for_each(|problem| say(format_args!("warning: {problem}")));
        say(&summary);
    }
    match command.output.strict && summary.is_damaged() {
        true => Err(Failure::new("the trace or the image is damaged (--strict)")),
        false => Ok(()),
    }
}

fn list(command: &Flow, capture: &Capture, output: &mut Output) -> Result<Summary> {
    let (arguments, quiet) = (&command.capture, command.output.quiet);
    let code = capture.code()?;
    if !quiet {
        code.warnings().iter().for_each(|warning| say(format_args!("warning: {warning}")));
    }
    let filter = command.filter.options();
    let named =
        arguments.chooses_several(capture) && matches!(command.format, Format::Text | Format::Opencsd);
    let write = |portion: Portion<'_>| match portion {
        Portion::Text(text) => output.put(|out| out.write_all(text)),
        Portion::Buffer(buffer) if named => {
            output.put(|out| writeln!(out, "# buffer {}", Printable(buffer.name())))
        }
        Portion::Buffer(_) => Ok(()),
    };
    if command.format == Format::Branches {
        let names = EventNames(command.event.iter().cloned().collect::<BTreeMap<_, _>>());
        let decode = arguments.choose(capture.branches(), capture, quiet).threads(command.threads);
        return decode.positions(false).write(
            |source| Ok(BranchWriter::new(Filter::new(&filter, code.of(source))?, names.clone())),
            write,
        );
    }
    let style = command.style();
    let positions = matches!(style.format, ExecutionFormat::Json | ExecutionFormat::Opencsd);
    let decode = arguments.choose(capture.execution(), capture, quiet);
    decode.threads(command.threads).strict_image(command.strict_image).positions(positions).write(
        |source| {
            let image = code.of(source);
            Ok(ExecutionWriter::new(style, source, image, Filter::new(&filter, image)?))
        },
        write,
    )
}
