//! `backsight packets`: lists the packets of a capture.

mod count;

use std::collections::BTreeMap;

use backsight_arm::frame::{Chunk, Counts};
use backsight_core::{Accounting, Located, TraceId};
use clap::Args;

use crate::args::{CaptureArgs, OutputArgs};
use crate::decoder::Decoder;
use crate::failure::{Failure, Result};
use crate::listing::packet::{self, Format, Listed, Place};
use crate::output::{Output, tell};
use crate::plan::{Buffer, Plan, frame_damage};
use crate::trail::Trail;
use count::Kinds;

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

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight packets capture/ | head
  backsight packets capture/ --buffer ETB_0 --id 0x10 --format json
  backsight packets trace.bin --protocol etm4 --framing coresight --config TRCCONFIGR=0x1841
  nc board 5555 | backsight packets - --protocol ete --config registers.txt --format summary";

/// Runs the command.
pub fn run(command: &Packets) -> Result {
    let plan = Plan::new(&command.capture, command.output.quiet)?;
    let mut output = Output::open(command.output.output.as_deref())?;
    let mut totals = Totals { left: command.limit.unwrap_or(u64::MAX), ..Totals::default() };
    for buffer in &plan.buffers {
        if plan.buffers.len() > 1 && matches!(command.format, Format::Text | Format::Opencsd) {
            output.put(|out| writeln!(out, "# buffer {}", buffer.name))?;
        }
        let outcome = if command.format == Format::Summary && command.limit.is_none() {
            count::count(&command.capture, buffer, command.output.quiet, &mut totals)
        } else {
            list(command, buffer, &mut output, &mut totals)
        };
        match outcome {
            Err(Failure::Enough) => break,
            outcome => outcome?,
        }
    }
    if command.format == Format::Summary {
        totals.write(&mut output)?;
    }
    output.finish()?;
    if !command.output.quiet {
        tell(totals.words());
    }
    if command.output.strict && (totals.damaged || totals.bytes.bad > 0) {
        return Err(Failure::new("the trace is damaged (--strict)"));
    }
    Ok(())
}

/// One source while it is being listed.
struct Lane {
    decoder: Option<Decoder>,
    /// Where its bytes were; nobody asks if packets are only counted.
    trail: Option<Trail>,
    id: TraceId,
}

/// What happens to a stream.
enum Step<'a> {
    /// Bytes, with the index of the first.
    Feed(u64, &'a [u8]),
    /// It does not continue.
    Reset,
    /// It ends.
    Finish,
}

fn list(command: &Packets, buffer: &Buffer, output: &mut Output, totals: &mut Totals) -> Result {
    let mut lanes: BTreeMap<TraceId, Lane> = BTreeMap::new();
    let mut sink = |place: &Place<'_>, packet: &dyn Listed| totals.list(command, output, place, packet);
    let counts = buffer.chunks(command.output.quiet, |chunk| match chunk {
        Chunk::Data { id, index, bytes } => {
            if !command.capture.wants(id.get()) && !buffer.is_raw() {
                return Ok(());
            }
            let lane = lanes.entry(id).or_insert_with(|| Lane::new(buffer, id, command.format));
            lane.step(Step::Feed(index, bytes), &mut sink)
        }
        Chunk::Discontinuity { .. } => {
            lanes.values_mut().try_for_each(|lane| lane.step(Step::Reset, &mut sink))
        }
        Chunk::Trigger { .. } | Chunk::Flush { .. } => Ok(()),
    })?;
    lanes.values_mut().try_for_each(|lane| lane.step(Step::Finish, &mut sink))?;
    let mut undecoded = Vec::new();
    for (&id, lane) in &lanes {
        match &lane.decoder {
            Some(decoder) => totals.bytes += decoder.accounting(),
            None => undecoded.push((id, buffer.bytes_of(&counts, id))),
        }
    }
    totals.end(&command.capture, buffer, &counts, undecoded);
    Ok(())
}

impl Lane {
    fn new(buffer: &Buffer, id: TraceId, format: Format) -> Self {
        let decoder = buffer.source(id).and_then(|source| Decoder::new(&source.decoding));
        Self { decoder, trail: (format != Format::Summary).then(Trail::default), id }
    }

    fn step(&mut self, step: Step<'_>, sink: &mut impl FnMut(&Place<'_>, &dyn Listed) -> Result) -> Result {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        if let (Step::Feed(index, bytes), Some(trail)) = (&step, &mut self.trail) {
            trail.push(*index, bytes);
        }
        let (mut outcome, mut bytes) = (Ok(()), Vec::new());
        let mut each = |packet: Located<&dyn Listed>| {
            let index = match &mut self.trail {
                Some(trail) => trail.take(packet.offset, packet.length, &mut bytes),
                None => packet.offset,
            };
            if outcome.is_ok() {
                let place = Place { index, id: self.id, length: packet.length, bytes: &bytes };
                outcome = sink(&place, packet.value);
            }
        };
        match step {
            Step::Feed(_, bytes) => decoder.feed(bytes, &mut each),
            Step::Reset => decoder.reset(&mut each),
            Step::Finish => decoder.finish(&mut each),
        }
        outcome
    }
}

/// What was seen altogether.
#[derive(Default)]
struct Totals {
    /// Packets that may still be listed.
    left: u64,
    packets: u64,
    kinds: Kinds,
    bytes: Accounting,
    /// Frames were damaged.
    damaged: bool,
    notes: Vec<String>,
}

impl Totals {
    fn list(
        &mut self,
        command: &Packets,
        output: &mut Output,
        place: &Place<'_>,
        packet: &dyn Listed,
    ) -> Result {
        if self.left == 0 {
            return Err(Failure::Enough);
        }
        if command.format == Format::Summary {
            self.kinds.count(packet.name(), 1, place.length.into());
        }
        if !packet.is_unsynchronised() {
            self.packets += 1;
            self.left -= 1;
        }
        output.put(|out| packet::write(out, command.format, place, packet))?;
        // Not at the next packet: on a live stream that may be long in coming.
        if self.left == 0 { Err(Failure::Enough) } else { Ok(()) }
    }

    fn write(&self, output: &mut Output) -> Result {
        for (name, (packets, bytes)) in self.kinds.by_name() {
            output.put(|out| writeln!(out, "{name:<24}{packets:>14} packets{bytes:>16} bytes"))?;
        }
        Ok(())
    }

    /// Notes what was not decoded of a buffer, and why.
    fn end(
        &mut self,
        capture: &CaptureArgs,
        buffer: &Buffer,
        counts: &Counts,
        undecoded: Vec<(TraceId, u64)>,
    ) {
        self.notes.extend(buffer.why_undecoded(undecoded));
        self.notes.extend(buffer.absent_ids(&capture.id, counts));
        let damage = frame_damage(counts);
        self.damaged |= !damage.is_empty();
        self.notes.extend(damage.into_iter().map(|what| format!("buffer {}: {what}", buffer.name)));
    }

    fn words(&self) -> String {
        let Accounting { decoded, unsynchronised, bad } = self.bytes;
        let mut words = format!(
            "{} packets; {decoded} bytes decoded, {unsynchronised} skipped before synchronisation, {bad} bad",
            self.packets
        );
        for note in &self.notes {
            words.push('\n');
            words.push_str(note);
        }
        words
    }
}
