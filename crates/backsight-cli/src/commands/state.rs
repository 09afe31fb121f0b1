//! `backsight state`: registers and memory at a moment.

use std::fmt::Write as _;
use std::path::PathBuf;

use backsight::core::{Address, AddressSpace};
use backsight::image::Naming;
use backsight::listing::Printable;
use backsight::moments::{Moment, Place};
use backsight::states::{LogPlace, States, Touch, Watched, Writer, register_named};
use backsight::{Buffer, Capture, Source};
use backsight_core::{Budget, Door};
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
/// a moment, too. What the log has not told is not shown, or shown as `..`. `backsight index` makes any moment of a long log come at once.
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

    /// Who wrote this register, or any of these bytes (8 if no length is given), last before the moment and first after it; may be given
    /// several times. Registers are not listed then
    #[arg(long, value_name = "REGISTER|ADDRESS[+LENGTH]")]
    writer: Vec<String>,

    /// The bytes of memory that are not the same at this moment, too. Registers are not listed then
    #[arg(long, value_name = "MOMENT")]
    since: Option<Moment>,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// No warnings
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight state run.tarmac --at '#1000' --memory 0xfff0+32
  backsight state run.tarmac --at '#1000' --writer x19 --writer 0xfff0+8
  backsight state run.tarmac --since '#1000' --at '#2000'
  backsight state run.tarmac --at @0x5e210
  backsight state run.tarmac --image program.elf --at \"$(backsight find run.tarmac --image program.elf --function main --quiet | cut -d' ' -f1)\"";

fn memory(text: &str) -> std::result::Result<(u64, u64), String> {
    range(text, "64")
}

fn range(text: &str, otherwise: &str) -> std::result::Result<(u64, u64), String> {
    let (address, length) = text.split_once('+').unwrap_or((text, otherwise));
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
    let index = index_file::states(arguments, &capture, true);
    let decode = arguments.choose(capture.execution(), &capture, true);
    let mut output = Output::for_tables(command.output.as_deref(), &inputs, false)?;
    for source in decode.sources()? {
        let size = capture.buffer(source.buffer()).and_then(Buffer::size).unwrap_or(0);
        let budget = Budget::of(Door::History, arguments.most_bytes(), size);
        let mut states = States::new(&capture, &source, index.clone())?.most_memory(budget.limit());
        let find = |states: &States<'_>, moment: Moment| {
            let found = states.find(&moments, &decode, &source, moment)?;
            match found.place {
                None if moment != Moment::END => {
                    Err(Failure::new(format!("{}: the log does not come to {moment}", capture.name())))
                }
                _ => Ok(found),
            }
        };
        let at = find(&states, command.at)?;
        let since = command.since.map(|since| find(&states, since)).transpose()?;
        let mut told = Told { capture: &capture, source: &source, states: &mut states, text: String::new() };
        told.state(command, &at)?;
        if let Some(since) = since {
            told.changes(&since, &at)?;
        }
        output.put_lines(told.text.as_bytes())?;
        let machine = states.before(at.offset)?;
        if machine.is_full() && !command.quiet {
            say("warning: more memory was used than is kept: some of it is not known; --budget allows more");
        }
        if states.index().is_damaged() && !command.quiet {
            say(
                "warning: the index of states is damaged: some of memory is not known; `backsight index` makes it again",
            );
        }
        let contradictions = states.contradictions();
        if contradictions > 0 && !command.quiet {
            say(format_args!("{contradictions} reads found what no line of the log had written"));
        }
    }
    output.finish()
}

/// What is told of a source.
struct Told<'t, 'c> {
    capture: &'c Capture,
    source: &'t Source,
    states: &'t mut States<'c>,
    text: String,
}

impl Told<'_, '_> {
    fn name_of(&self, address: Address) -> Result<String> {
        let image = self.capture.code()?.of(self.source);
        let name = image.describe(AddressSpace::ANY, address, Naming::default());
        Ok(name.map_or_else(String::new, |name| format!(" {}", Printable(&name.to_string()))))
    }

    fn since(&self, writer: &Writer) -> Result<String> {
        let offset = Moment::Position(writer.offset);
        // An index has lines, and not instructions.
        let instruction = match writer.instruction {
            None => self.states.instruction_of(writer.offset)?,
            known => known,
        };
        Ok(match instruction {
            Some(address) => format!("{}{}, {offset}", Address(address), self.name_of(Address(address))?),
            None => format!("the beginning, {offset}"),
        })
    }

    fn state(&mut self, command: &State, at: &LogPlace) -> Result {
        let moment = at.place.map_or(Moment::END, |place: Place| Moment::Instruction(place.instructions));
        let time = at.place.and_then(|place| place.time).map(|time| format!(" {}", Moment::Time(time)));
        let next = match at.instruction {
            Some(it) => format!(" at {}{}", Address(it.address), self.name_of(Address(it.address))?),
            None => String::new(),
        };
        self.states.before(at.offset)?;
        let core = if at.instruction.is_some() { at.core } else { self.states.last_core() };
        let name = self.source.hart_name(core);
        let _ = writeln!(self.text, "{moment}{} {}{next}", time.unwrap_or_default(), Printable(&name));
        if command.writer.is_empty() && command.since.is_none() {
            let machine = self.states.before(at.offset)?;
            let all: Vec<_> =
                machine.registers(core).map(|(name, contents)| (name, contents.clone())).collect();
            for (name, contents) in all {
                if contents.bytes.iter().all(Option::is_none) {
                    continue;
                }
                let digits: String = contents.bytes.iter().rev().map(|byte| digits(*byte)).collect();
                let since = self.since(&contents.writer)?;
                let _ = writeln!(self.text, "{:<18} {digits:<32}  {since}", name.as_str());
            }
        }
        for &(start, length) in &command.memory {
            self.memory(at.offset, start, length)?;
        }
        for watched in &command.writer {
            self.writers(at.offset, core, watched)?;
        }
        Ok(())
    }

    fn memory(&mut self, offset: u64, start: u64, length: u64) -> Result {
        let mut at = start;
        while at < start + length {
            let end = (at + 16 - at % 16).min(start + length);
            let machine = self.states.before(offset)?;
            let bytes: Vec<_> = (at..end).map(|address| machine.byte(address)).collect();
            let digits: Vec<String> = bytes.iter().map(|byte| digits(byte.map(|(byte, _)| byte))).collect();
            let writer =
                bytes.iter().flatten().filter_map(|(_, writer)| *writer).max_by_key(|one| one.offset);
            let writer = writer.map(|writer| self.since(&writer)).transpose()?.unwrap_or_default();
            let line = format!("{at:#018x} {:<47}  {writer}", digits.join(" "));
            let _ = writeln!(self.text, "{}", line.trim_end());
            at = end;
        }
        Ok(())
    }

    /// Who wrote something last, and who does next.
    fn writers(&mut self, offset: u64, core: u16, text: &str) -> Result {
        let watched = match register_named(text) {
            Some(register) => Watched::Register(core, register),
            None => {
                let (start, length) = range(text, "8").map_err(|why| {
                    Failure::usage(format!("--writer {text}: no register, and no address: {why}"))
                })?;
                Watched::Memory { addresses: start..start + length, reads: false, writes: true }
            }
        };
        let last = self.states.last_before(offset, &watched)?;
        let next = self.states.next_from(offset, &watched)?;
        for (word, touch) in [("last", last), ("next", next)] {
            let who = match &touch {
                Some(touch) => self.since(&touch.writer)?,
                None => "nobody".to_owned(),
            };
            let bytes = match touch {
                Some(Touch { address, length, .. }) if length > 0 => format!(" {address:#x}+{length}"),
                _ => String::new(),
            };
            let _ = writeln!(self.text, "{text:<18} {word}{bytes}  {who}");
        }
        Ok(())
    }

    fn changes(&mut self, from: &LogPlace, to: &LogPlace) -> Result {
        let (changes, is_more) = self.states.memory_changes(from.offset, to.offset)?;
        let mut rest = &changes[..];
        while let Some(first) = rest.first() {
            // Bytes that lie together, in lines of sixteen.
            let same = rest.iter().zip(first.address..).take_while(|(change, address)| {
                change.address == *address && address / 16 == first.address / 16
            });
            let (line, after) = rest.split_at(same.count().max(1));
            let column = |side: fn(&backsight::states::MemoryChange) -> Option<u8>| {
                line.iter().map(|change| digits(side(change))).collect::<Vec<_>>().join(" ")
            };
            let (old, new) = (column(|change| change.old), column(|change| change.new));
            let _ = writeln!(self.text, "{:#018x} {old} -> {new}", first.address);
            rest = after;
        }
        if is_more {
            say("warning: more memory than is listed has changed");
        }
        Ok(())
    }
}

/// A byte as two digits.
fn digits(byte: Option<u8>) -> String {
    byte.map_or_else(|| "..".to_owned(), |byte| format!("{byte:02x}"))
}
