//! `backsight state`: registers and memory at a moment.

use std::fmt::Write as _;
use std::path::PathBuf;

use backsight::core::{Address, AddressSpace};
use backsight::image::Naming;
use backsight::listing::Printable;
use backsight::moments::Moment;
use backsight::states::{self, State as Known, Writer};
use backsight::{Capture, Source};
use clap::Args;

use crate::args::{CaptureArgs, ImageArgs, parse_number};
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{Output, say};

/// Most bytes of memory that are shown at once.
const MOST_BYTES: u64 = 1 << 20;

/// Show registers and memory at a moment of a Tarmac log, and who wrote them
///
/// A moment is before an instruction. Each register has the instruction and the position of the line that wrote it last: that position is
/// a moment, too. What the log has not told is not shown, or shown as `..`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct State {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// The moment: #INSTRUCTION, start, end, end-INSTRUCTIONS, tTIMESTAMP, or @POSITION
    #[arg(long, value_name = "MOMENT", default_value = "end")]
    at: Moment,

    /// Memory from this address on, 64 bytes if no length is given; may be given several times
    #[arg(long, value_name = "ADDRESS[+LENGTH]", value_parser = memory)]
    memory: Vec<(u64, u64)>,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// No warnings
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight state run.tarmac --at '#1000' --memory 0xfff0+32
  backsight state run.tarmac --at @0x5e210
  backsight state run.tarmac --image program.elf --at \"$(backsight find run.tarmac --image program.elf --function main --quiet | cut -d' ' -f1)\"";

fn memory(text: &str) -> std::result::Result<(u64, u64), String> {
    let (address, length) = text.split_once('+').unwrap_or((text, "64"));
    let number = |text| parse_number(text).map_err(|error| error.to_string());
    let (address, length) = (number(address)?, number(length)?);
    match length {
        1..=MOST_BYTES if address.checked_add(length).is_some() => Ok((address, length)),
        _ => Err(format!("1 to {MOST_BYTES} bytes can be shown")),
    }
}

/// Runs the command.
pub fn run(command: &State) -> Result {
    let arguments = &command.capture;
    let capture = arguments.open(&command.images, command.quiet)?;
    let inputs = arguments.inputs(&command.images);
    let moments = index_file::moments(arguments, &capture, command.quiet);
    let decode = arguments.choose(capture.execution(), &capture, true);
    let mut output = Output::for_tables(command.output.as_deref(), &inputs, false)?;
    for source in decode.sources()? {
        let budget = arguments.most_bytes();
        let known = states::state_at(&moments, &decode, &source, command.at, budget)?;
        if known.place.is_none() && command.at != Moment::END {
            return Err(Failure::new(format!("{}: the log does not come to {}", capture.name(), command.at)));
        }
        let text = words(command, &capture, &source, &known)?;
        output.put_lines(text.as_bytes())?;
        if known.machine.is_full() && !command.quiet {
            say("warning: more memory was used than is kept: some of it is not known; --budget allows more");
        }
        let contradictions = known.machine.contradictions();
        if contradictions > 0 && !command.quiet {
            say(format_args!("{contradictions} reads found what no line of the log had written"));
        }
    }
    output.finish()
}

fn words(command: &State, capture: &Capture, source: &Source, known: &Known) -> Result<String> {
    let code = capture.code()?;
    let name_of = |address: Address| {
        let image = code.of(source);
        let name = image.describe(AddressSpace::ANY, address, Naming::default());
        name.map_or_else(String::new, |name| format!(" {}", Printable(&name.to_string())))
    };
    let since = |writer: &Writer| {
        let offset = Moment::Position(writer.offset);
        match writer.instruction {
            Some(address) => format!("{}{}, {offset}", Address(address), name_of(Address(address))),
            None => format!("the beginning, {offset}"),
        }
    };
    let mut text = String::new();
    let moment = known.place.map_or(Moment::END, |place| Moment::Instruction(place.instructions));
    let time = known.place.and_then(|place| place.time).map(|time| format!(" {}", Moment::Time(time)));
    let core = source.hart_name(known.core);
    let next = known.next.map(|next| format!(" at {next}{}", name_of(next))).unwrap_or_default();
    let _ = writeln!(text, "{moment}{} {}{next}", time.unwrap_or_default(), Printable(&core));
    for (name, contents) in known.machine.registers(known.core) {
        if contents.bytes.iter().all(Option::is_none) {
            continue;
        }
        let digits: String = contents.bytes.iter().rev().map(|byte| digits(*byte)).collect();
        let _ = writeln!(text, "{:<18} {digits:<32}  {}", name.as_str(), since(&contents.writer));
    }
    for &(start, length) in &command.memory {
        let mut at = start;
        while at < start + length {
            let end = (at + 16 - at % 16).min(start + length);
            let bytes: Vec<_> = (at..end).map(|address| known.machine.byte(address)).collect();
            let digits: Vec<String> = bytes.iter().map(|byte| digits(byte.map(|(byte, _)| byte))).collect();
            let writer =
                bytes.iter().flatten().filter_map(|(_, writer)| *writer).max_by_key(|one| one.offset);
            let writer = writer.map(|writer| since(&writer)).unwrap_or_default();
            let line = format!("{at:#018x} {:<47}  {writer}", digits.join(" "));
            let _ = writeln!(text, "{}", line.trim_end());
            at = end;
        }
    }
    Ok(text)
}

/// A byte as two digits.
fn digits(byte: Option<u8>) -> String {
    byte.map_or_else(|| "..".to_owned(), |byte| format!("{byte:02x}"))
}
