//! `backsight diff`: where two executions part.

mod json;
mod pairs;
mod text;
mod totals;

use std::ops::ControlFlow;
use std::path::PathBuf;

use backsight::Capture;
use backsight::diff::{Settings, Side, compare_sides};
use backsight::moments::{Moment, Window};
use clap::{Args, ValueEnum};

use self::pairs::{Pair, Pairs};
use self::totals::Totals;
use crate::args::{CaptureArgs, ImageArgs, OtherArgs};
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{Output, say};

/// Find where two executions part: logs, traces or recordings, or one of each
///
/// Compares instruction by instruction (address, opcode where both know it), and exceptions, loads, stores and registers where both
/// have them. Where the two part, it looks for where they are the same again: after an interrupt or exception that only one took, after a
/// loop that turned a different number of times, after anything else. Lists what each side has between, with moments, and
/// then how much is the same.
///
/// Exit status: 0 they are the same, 3 they differ, 1 could not be found out, 2 wrong use.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Diff {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    other: OtherArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// How to list it
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// What is compared besides the addresses of instructions
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT",
          default_values_t = [What::Opcodes, What::Exceptions, What::Accesses, What::Registers])]
    compare: Vec<What>,

    /// Instructions that are looked at after a difference for where the two are the same again; memory grows with them
    #[arg(long, value_name = "N", default_value_t = Settings::default().look as u32, value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    look: u32,

    /// Instructions one after the other that have to be the same for that
    #[arg(long, value_name = "N", default_value_t = Settings::default().resync as u32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    resync: u32,

    /// Instructions that are shown before, in and after each difference
    #[arg(long, value_name = "N", default_value_t = Settings::default().context as u32, value_parser = clap::value_parser!(u32).range(0..=1000))]
    context: u32,

    /// List so many differences, and count the others
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,

    /// Stop after the first difference
    #[arg(long)]
    first: bool,

    /// Only this hart or core, where several share a source
    #[arg(long, value_name = "N")]
    hart: Option<u16>,

    /// From this moment on: #INSTRUCTION, start, end-INSTRUCTIONS, tTIMESTAMP, a time after the first timestamp as in 3.2s or 15ms, or
    /// @POSITION in the buffer; of each source by itself
    #[arg(long, value_name = "MOMENT", help_heading = "Window")]
    from: Option<Moment>,

    /// Up to this moment
    #[arg(long, value_name = "MOMENT", help_heading = "Window")]
    to: Option<Moment>,

    /// From this moment on in the second capture, if that is another one
    #[arg(long, value_name = "MOMENT", help_heading = "Window")]
    other_from: Option<Moment>,

    /// Up to this moment in the second capture, if that is another one
    #[arg(long, value_name = "MOMENT", help_heading = "Window")]
    other_to: Option<Moment>,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// No warnings
    #[arg(long, short)]
    quiet: bool,

    /// Damage in a trace or log is a failure: exit status 1
    #[arg(long)]
    strict: bool,
}

const EXAMPLES: &str = "Examples:
  backsight diff model.tarmac chip/ --image program.elf     a model's log beside a chip's trace
  backsight diff good/ bad/ --first                         where two recordings part
  backsight diff good/ bad/ --format json | jq -r .kind | sort | uniq -c
  backsight diff one.tarmac two.tarmac --compare registers --context 10
  backsight diff run/ run/ --id 0x10 --other-id 0x12        two cores of one capture
  backsight diff model.tarmac trace.bin --other-protocol etm4 --other-config etm4.ini --from '#1200'";

/// How differences are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// To read
    #[default]
    Text,
    /// One JSON object a line, the summary last
    Json,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Nothing but addresses
    Addresses,
    /// Opcodes, where both know them
    Opcodes,
    /// Causes of exceptions
    Exceptions,
    /// Loads and stores
    Accesses,
    /// Registers that instructions wrote
    Registers,
}

impl Diff {
    fn settings(&self) -> Settings {
        let has = |what| self.compare.contains(&what);
        Settings {
            opcodes: has(What::Opcodes),
            exceptions: has(What::Exceptions),
            accesses: has(What::Accesses),
            registers: has(What::Registers),
            look: self.look as usize,
            resync: self.resync as usize,
            context: self.context as usize,
        }
    }

    fn windows(&self) -> [Window; 2] {
        let other = Window { from: self.other_from.or(self.from), to: self.other_to.or(self.to) };
        [Window { from: self.from, to: self.to }, other]
    }
}

/// Runs the command.
pub fn run(command: &Diff) -> Result {
    let arguments = [command.capture.clone(), command.capture.beside(&command.other)];
    if arguments.iter().all(CaptureArgs::is_standard_input) {
        return Err(Failure::usage("standard input can be read once: one of the captures has to be a file"));
    }
    check_ids(&command.capture.id, &command.other.other_id)?;
    let open = |arguments: &CaptureArgs| arguments.open(&command.images, command.quiet);
    let captures = [open(&arguments[0])?, open(&arguments[1])?];
    let inputs = arguments[0].inputs(&command.images).and([&arguments[1].capture]);
    let path = command.output.as_deref();
    let mut output = match command.format {
        Format::Json => Output::for_tables(path, &inputs, true)?,
        Format::Text => Output::for_people(path, &inputs)?,
    };
    let totals = compare(command, &arguments, &captures, &mut output)?;
    if totals.is_empty() {
        let why = "no instruction was compared: there is none in what was chosen, or the code that ran is not there (--image FILE[@ADDRESS])";
        return Err(Failure::new(why));
    }
    match command.format {
        Format::Json => output.put(|out| json::summary(&totals, out))?,
        Format::Text => output.put(|out| text::summary(&totals, out))?,
    }
    output.finish()?;
    if command.strict && totals.is_damaged {
        return Err(Failure::new("a trace or log is damaged (--strict)"));
    }
    if totals.are_same() { Ok(()) } else { Err(Failure::Found) }
}

/// Refuses IDs of which nobody knows what they are compared with.
fn check_ids(ids: &[u64], others: &[u64]) -> Result {
    match (ids.len(), others.len()) {
        (0, 1..) => Err(Failure::usage("--other-id belongs to --id")),
        (ids, others) if others > 0 && ids != others => {
            Err(Failure::usage("--id and --other-id name pairs: both are given equally often"))
        }
        _ => Ok(()),
    }
}

fn compare(
    command: &Diff,
    arguments: &[CaptureArgs; 2],
    captures: &[Capture; 2],
    output: &mut Output,
) -> Result<Totals> {
    let moments =
        [0, 1].map(|side: usize| index_file::moments(&arguments[side], &captures[side], command.quiet));
    let decodes =
        [0, 1].map(|side: usize| arguments[side].choose(captures[side].execution(), &captures[side], true));
    let Pairs { pairs, alone } = Pairs::of(command, &decodes, &moments)?;
    let (settings, windows) = (command.settings(), command.windows());
    let mut totals = Totals { alone: alone.len() as u64, ..Totals::default() };
    if !command.quiet {
        let code = [captures[0].code()?, captures[1].code()?];
        code.iter()
            .flat_map(|code| code.warnings())
            .for_each(|warning| say(format_args!("warning: {warning}")));
    }
    if command.format == Format::Text {
        let names = captures.each_ref().map(Capture::name);
        output.put(|out| text::head(names, out))?;
    }
    for line in &alone {
        say(format_args!("warning: {line}"));
    }
    let is_one = pairs.len() == 1;
    for pair in pairs {
        let Pair { sources, harts } = &pair;
        if command.format == Format::Text && !is_one {
            output.put(|out| text::pair(&pair, out))?;
        }
        let code = [captures[0].code()?.seen_by(&sources[0]), captures[1].code()?.seen_by(&sources[1])];
        let sides = [0, 1].map(|side: usize| Side {
            moments: &moments[side],
            decode: decodes[side].clone(),
            source: &sources[side],
            hart: harts[side],
            window: windows[side],
        });
        let mut failure = Ok(());
        let (summary, reads) = compare_sides(sides, &settings, &mut |difference| {
            let place = totals.place(difference, &code);
            if totals.differences < command.limit {
                let number = totals.differences + 1;
                failure = output.put(|out| match command.format {
                    Format::Json => json::difference(number, difference, &pair, &place, &code, out),
                    Format::Text => text::difference(number, difference, &place, &code, out),
                });
            }
            totals.add(difference, place);
            let goes_on = failure.is_ok() && !(command.first && totals.differences > 0);
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        failure?;
        totals.finish(&summary, &reads);
        if command.first && totals.differences > 0 {
            break;
        }
    }
    if !command.quiet && totals.differences > command.limit {
        let more = totals.differences - command.limit;
        say(format_args!("{more} more differences are not listed (--limit)"));
    }
    Ok(totals)
}
