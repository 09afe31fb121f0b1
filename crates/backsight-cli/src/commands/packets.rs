//! `backsight packets`: lists the packets of a capture.

use std::ops::ControlFlow;

use backsight::decode::{Portion, Sink, Summary};
use backsight::listing::{PacketFormat, PacketWriter, Printable};
use backsight::protocol::{Kinds, Landmark};
use backsight::{Buffer, Capture, Item, Packet};
use clap::{Args, ValueEnum};

use crate::args::{CaptureArgs, ImageArgs, OutputArgs};
use crate::failure::{Failure, Result};
use crate::output::{Output, say};

/// List packets
///
/// One line a packet: the index of its first byte in the buffer, the trace ID of its source, its bytes, its name
/// and what it says. Between several sources the order is that of the packets' last bytes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Packets {
    #[command(flatten)]
    capture: CaptureArgs,

    /// How to list them
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Stop after N packets
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Decode pieces of a single source on up to N cores, and several sources where packets are only counted; 0, the default, is
    /// as many as there are
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight packets capture/ | head
  backsight packets capture/ --buffer ETB_0 --id 0x10 --format json
  backsight packets trace.bin --protocol etm4 --framing coresight --config TRCCONFIGR=0x1841
  nc board 5555 | backsight packets - --protocol ete --config registers.txt --format summary";

/// How packets are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line a packet, to read
    #[default]
    Text,
    /// One JSON object a line
    Json,
    /// The listing that users of OpenCSD know
    Opencsd,
    /// How many packets of each kind
    Summary,
}

/// Runs the command.
pub fn run(command: &Packets) -> Result {
    let quiet = command.output.quiet;
    let capture = command.capture.open(&ImageArgs::default(), quiet)?;
    let path = command.output.output.as_deref();
    let inputs = command.capture.inputs(&ImageArgs::default());
    let mut output = match command.format {
        Format::Text => Output::for_people(path, &inputs)?,
        _ => Output::open(path, &inputs)?,
    };
    let summary = match (command.format, command.limit) {
        (Format::Summary, None) => {
            let decode = command.capture.choose(capture.packets(), &capture, quiet);
            let summary = decode.threads(command.threads).tally()?;
            write_kinds(&summary.kinds(), &mut output)?;
            summary
        }
        _ => list(command, &capture, &mut output)?,
    };
    output.finish()?;
    if !quiet {
        match command.limit {
            Some(limit) if summary.stopped => {
                say(format_args!("{limit} packets listed, no more were asked for"))
            }
            _ => say(&summary),
        }
    }
    match command.output.strict && summary.is_damaged() {
        true => Err(Failure::new("the trace is damaged (--strict)")),
        false => Ok(()),
    }
}

/// What is left to do, and what was counted.
struct Listing<'a> {
    output: &'a mut Output,
    /// Where packets are listed, and not only counted.
    writer: Option<PacketWriter>,
    left: u64,
    kinds: Kinds,
    /// There are several buffers, and each is named.
    named: bool,
    outcome: Result,
}

fn list(command: &Packets, capture: &Capture, output: &mut Output) -> Result<Summary> {
    let format = match command.format {
        Format::Text => Some(PacketFormat::Text),
        Format::Json => Some(PacketFormat::Json),
        Format::Opencsd => Some(PacketFormat::Opencsd),
        Format::Summary => None,
    };
    let left = command.limit.unwrap_or(u64::MAX);
    let several = command.capture.chooses_several(capture);
    let named = several && matches!(command.format, Format::Text | Format::Opencsd);
    let writer = format.map(|format| PacketWriter::new(format).name_buffers(several));
    // A bar on the line that is being written would help nobody.
    let quiet = command.output.quiet || output.is_terminal();
    let decode = command.capture.choose(capture.packets(), capture, quiet);
    if let (Some(writer), None) = (&writer, command.limit) {
        // A stream that somebody waits for is not gathered into pieces.
        let threads = if command.capture.is_standard_input() { 1 } else { command.threads };
        return decode.threads(threads).write(
            |_| Ok(writer.clone()),
            |portion| match portion {
                Portion::Text(text) => output.put(|out| out.write_all(text)),
                Portion::Buffer(buffer) if named => write_name(buffer, output),
                Portion::Buffer(_) => Ok(()),
            },
        );
    }
    let mut listing = Listing { output, writer, left, kinds: Kinds::default(), named, outcome: Ok(()) };
    let summary = decode.run_sink(&mut listing)?;
    listing.outcome?;
    if command.format == Format::Summary {
        write_kinds(&listing.kinds, listing.output)?;
    }
    Ok(summary)
}

impl Listing<'_> {
    fn write(&mut self, written: impl FnOnce(&mut Output) -> Result) -> ControlFlow<()> {
        self.outcome = written(self.output);
        self.go_on()
    }

    fn go_on(&self) -> ControlFlow<()> {
        if self.outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl Sink<Packet> for Listing<'_> {
    fn buffer(&mut self, buffer: &Buffer) -> ControlFlow<()> {
        match self.named {
            true => self.write(|output| write_name(buffer, output)),
            false => ControlFlow::Continue(()),
        }
    }

    fn item(&mut self, item: Item<'_, Packet>) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        match &mut self.writer {
            Some(writer) => {
                self.outcome = self.output.put(|out| writer.write(out, &item));
                self.go_on()?;
            }
            None => self.kinds.add(item.value.name(), 1, item.length.into()),
        }
        if item.value.landmark(None) != Landmark::Unsynchronised {
            self.left -= 1;
        }
        // Not at the next packet: on a live stream that may be long in coming.
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn write_name(buffer: &Buffer, output: &mut Output) -> Result {
    output.put(|out| writeln!(out, "# buffer {}", Printable(buffer.name())))
}

fn write_kinds(kinds: &Kinds, output: &mut Output) -> Result {
    for (name, (packets, bytes)) in kinds.by_name() {
        output.put(|out| writeln!(out, "{name:<24}{packets:>14} packets{bytes:>16} bytes"))?;
    }
    Ok(())
}
