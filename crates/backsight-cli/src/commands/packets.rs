//! `backsight packets`: lists the packets of a capture.

mod window;

use std::ops::ControlFlow;

use backsight::decode::{self, Summary, Written};
use backsight::listing::{PacketFormat, PacketWriter, Printable};
use backsight::protocol::{Kinds, Landmark};
use backsight::{Capture, Decode, Packet};
use clap::{Args, ValueEnum};

use super::flow::FilterArgs;
use crate::args::{CaptureArgs, ImageArgs, OutputArgs};
use crate::failure::{Failure, Result};
use crate::output::{Output, listed, say};
use crate::window::WindowArgs;

/// List packets
///
/// One line a packet: the index of its first byte in the buffer, the trace ID of its source, its bytes, its name
/// and what it says. Between several sources the order is that of the packets' last bytes; windows come one source after the other.
/// A window has the packets that begin where the first thing in it was reported, or after that, and before the packet of the first thing
/// after it. Filters choose the packets that report something of what they name, and those after such a packet that report nothing; they
/// are listed one source after the other, too. Moments by instructions and filters need the code, which the capture or --image has.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Packets {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

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
    window: WindowArgs,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight packets capture/ | head
  backsight packets capture/ --buffer ETB_0 --id 0x10 --format json
  backsight packets capture/ --around '#4000000'
  backsight packets capture/ --from @0x1f00 --to @0x2000
  backsight packets capture/ --function main
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
    let capture = command.capture.open(&command.images, quiet)?;
    let path = command.output.output.as_deref();
    let inputs = command.capture.inputs(&command.images);
    let output = match command.format {
        Format::Text => Output::for_people(path, &inputs)?,
        _ => Output::open(path, &inputs)?,
    };
    let filter = command.filter.options();
    filter.check(&capture)?;
    let is_damaged = match command.window.is_given() || filter.is_selective() {
        true => window::list(command, &capture, output)?,
        false => whole(command, &capture, output)?,
    };
    match command.output.strict && is_damaged {
        true => Err(Failure::new("the trace is damaged (--strict)")),
        false => Ok(()),
    }
}

/// Lists all packets. Gives whether the trace is damaged.
fn whole(command: &Packets, capture: &Capture, mut output: Output) -> Result<bool> {
    let quiet = command.output.quiet;
    let summary = match (command.format, command.limit) {
        (Format::Summary, None) => {
            let decode = command.capture.choose(capture.packets(), capture, quiet);
            let summary = decode.threads(command.threads).tally()?;
            write_kinds(&summary.kinds(), &mut output)?;
            summary
        }
        _ => list(command, capture, &mut output)?,
    };
    output.finish()?;
    if !quiet {
        match command.limit {
            Some(_) if summary.stopped => say_limit(command),
            _ => say(&summary),
        }
    }
    Ok(summary.is_damaged())
}

fn say_limit(command: &Packets) {
    say(format_args!("{} packets listed, no more were asked for", command.limit.unwrap_or(0)));
}

impl Packets {
    /// How packets are listed; `None` if they are only counted.
    fn format(&self) -> Option<PacketFormat> {
        match self.format {
            Format::Text => Some(PacketFormat::Text),
            Format::Json => Some(PacketFormat::Json),
            Format::Opencsd => Some(PacketFormat::Opencsd),
            Format::Summary => None,
        }
    }

    /// Do lines of their own say which buffer the packets are from?
    fn names_buffers(&self, several: bool) -> bool {
        several && matches!(self.format, Format::Text | Format::Opencsd)
    }
}

fn list(command: &Packets, capture: &Capture, output: &mut Output) -> Result<Summary> {
    let several = command.capture.chooses_several(capture);
    let named = command.names_buffers(several);
    // A bar on the line that is being written would help nobody.
    let quiet = command.output.quiet || output.is_terminal();
    let decode = command.capture.choose(capture.packets(), capture, quiet);
    let Some(format) = command.format() else {
        return first_kinds(decode, command.limit.unwrap_or(u64::MAX), output);
    };
    let writer = PacketWriter::new(format).name_buffers(several);
    let writer = command.limit.into_iter().fold(writer, PacketWriter::limit);
    // A stream that somebody waits for is not gathered into pieces, and the first packets are found on one thread.
    let waits = command.capture.is_standard_input() || command.limit.is_some();
    let decode = decode.threads(if waits { 1 } else { command.threads });
    listed(|put| writer.write(decode, put), &mut |written| match written {
        Written::Text(text) => output.put(|out| out.write_all(text)),
        Written::Buffer(buffer) if named => {
            output.put(|out| writeln!(out, "# buffer {}", Printable(buffer.name())))
        }
        Written::Buffer(_) => Ok(()),
    })
}

/// Counts the first so many packets by kind.
fn first_kinds(decode: Decode<'_, decode::Packets>, mut left: u64, output: &mut Output) -> Result<Summary> {
    let mut kinds = Kinds::default();
    let summary = decode.run(|item| {
        if left == 0 {
            return ControlFlow::Break(());
        }
        kinds.add(item.value.name(), 1, item.length.into());
        left -= u64::from(is_packet(&item.value));
        // Not at the next packet: on a live stream that may be long in coming.
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    write_kinds(&kinds, output)?;
    Ok(summary)
}

/// Bytes without synchronisation are none.
fn is_packet(packet: &Packet) -> bool {
    packet.landmark(None) != Landmark::Unsynchronised
}

fn write_kinds(kinds: &Kinds, output: &mut Output) -> Result {
    for (name, (packets, bytes)) in kinds.by_name() {
        output.put(|out| writeln!(out, "{name:<24}{packets:>14} packets{bytes:>16} bytes"))?;
    }
    Ok(())
}
