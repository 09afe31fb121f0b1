//! `backsight flow`: lists what was executed.

mod engine;
mod filter;
mod harts;
mod lane;
mod printer;
mod truth;

use std::collections::BTreeMap;

use backsight_arm::frame::{Batch, Demultiplexer};
use backsight_core::{Accounting, TraceId};
use backsight_flow::{Statistics, Symptom};
use backsight_image::Image;
use clap::{Args, ValueEnum};

use crate::args::{CaptureArgs, OutputArgs, parse_number};
use crate::failure::{Failure, Result};
use crate::images::{self, ImageArgs};
use crate::output::{Output, tell};
use crate::plan::{Buffer, Plan, frame_damage};

pub use engine::{Engine, Item, Manner, harts};
use filter::{Filter, FilterArgs};
pub use harts::Harts;
use lane::Lane;
use printer::Style;

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

    /// List what was really executed, which `record --truth` keeps in the capture, rather than what the trace tells
    #[arg(long)]
    truth: bool,

    /// In text: function by function, indented by call depth
    #[arg(long)]
    calls: bool,

    /// In text: every instruction, below its range
    #[arg(long, conflicts_with = "calls")]
    disasm: bool,

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

/// Names of the trace unit's events.
pub struct EventNames(BTreeMap<u8, String>);

impl EventNames {
    /// The name of an event, else its number.
    pub fn name(&self, number: u8) -> String {
        self.0.get(&number).cloned().unwrap_or_else(|| number.to_string())
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
    let plan = Plan::new(&command.capture, command.output.quiet)?;
    let mut output = Output::open(command.output.output.as_deref())?;
    let mut totals = Totals::default();
    for buffer in &plan.buffers {
        if plan.buffers.len() > 1 && matches!(command.format, Format::Text | Format::Opencsd) {
            output.put(|out| writeln!(out, "# buffer {}", buffer.name))?;
        }
        follow(command, &plan, buffer, &mut output, &mut totals)?;
    }
    output.finish()?;
    if !command.output.quiet {
        totals.show();
    }
    let damaged = totals.damaged || totals.bytes.bad > 0 || totals.statistics.gaps.total() > 0;
    if command.output.strict && damaged {
        return Err(Failure::new("the trace or the image is damaged (--strict)"));
    }
    Ok(())
}

/// The code for each core of a buffer's sources.
fn code(command: &Flow, plan: &Plan, buffer: &Buffer) -> Result<BTreeMap<Option<String>, Image>> {
    let mut code = BTreeMap::new();
    let cores = buffer.sources.values().map(|source| source.core.clone()).chain([None]);
    for core in cores {
        if code.contains_key(&core) {
            continue;
        }
        let quiet = command.output.quiet || !code.is_empty();
        let image = images::for_core(&command.images, &plan.capture, core.as_deref(), |warning| {
            if !quiet {
                tell(format_args!("warning: {warning}"));
            }
        })?;
        code.insert(core, image);
    }
    Ok(code)
}

fn follow(command: &Flow, plan: &Plan, buffer: &Buffer, output: &mut Output, totals: &mut Totals) -> Result {
    let code = code(command, plan, buffer)?;
    let names = EventNames(command.event.iter().cloned().collect());
    let threads = match command.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let mut lanes: BTreeMap<TraceId, Lane<'_>> = BTreeMap::new();
    let mut demultiplexer = Demultiplexer::new(buffer.framing);
    let mut undecoded: BTreeMap<TraceId, u64> = BTreeMap::new();
    buffer.blocks(command.output.quiet, |block| {
        let mut outcome = Ok(());
        demultiplexer.feed(block, &mut |batch| match batch {
            Batch::Data { id, bytes, runs } => {
                if let Some(count) = undecoded.get_mut(&id) {
                    *count += bytes.len() as u64;
                } else if let Some(lane) = lanes.get_mut(&id) {
                    lane.queue(bytes, runs);
                } else if wanted(command, buffer, id) {
                    match new_lane(command, buffer, id, &code) {
                        Ok(Some(mut lane)) => {
                            lane.queue(bytes, runs);
                            lanes.insert(id, lane);
                        }
                        Ok(None) => {
                            undecoded.insert(id, bytes.len() as u64);
                        }
                        Err(failure) => outcome = Err(failure),
                    }
                }
            }
            Batch::Discontinuity { .. } => lanes.values_mut().for_each(Lane::queue_reset),
            Batch::Trigger { .. } | Batch::Flush { .. } => {}
        });
        outcome?;
        lane::process(&mut lanes, threads, &names, output)
    })?;
    demultiplexer.finish(&mut |_| {});
    lanes.values_mut().for_each(Lane::queue_end);
    lane::process(&mut lanes, threads, &names, output)?;
    for lane in lanes.values() {
        totals.bytes += lane.engine.accounting();
        totals.statistics += lane.engine.statistics();
        totals.notes.extend(lane.engine.notes());
    }
    totals.notes.extend(buffer.why_undecoded(undecoded));
    totals.notes.extend(buffer.absent_ids(&command.capture.id, demultiplexer.counts()));
    let damage = frame_damage(demultiplexer.counts());
    totals.damaged |= !damage.is_empty();
    totals.notes.extend(damage.into_iter().map(|what| format!("buffer {}: {what}", buffer.name)));
    Ok(())
}

fn wanted(command: &Flow, buffer: &Buffer, id: TraceId) -> bool {
    buffer.is_raw() || command.capture.wants(id.get())
}

fn new_lane<'i>(
    command: &Flow,
    buffer: &Buffer,
    id: TraceId,
    code: &'i BTreeMap<Option<String>, Image>,
) -> Result<Option<Lane<'i>>> {
    let Some(source) = buffer.source(id) else { return Ok(None) };
    let Some(image) = code.get(&source.core).or_else(|| code.get(&None)) else { return Ok(None) };
    let manner = Manner { strict_image: command.strict_image, branches: command.format == Format::Branches };
    let Some(engine) = Engine::new(&source.decoding, image, manner) else { return Ok(None) };
    let style = Style {
        format: command.format,
        calls: command.calls,
        disasm: command.disasm,
        cycle_counts: source.counts_cycles(),
    };
    let filter = Filter::new(&command.filter, image)?;
    Ok(Some(Lane::new(engine, printer::Printer::new(style, source.id, image, filter))))
}

/// What was seen altogether.
#[derive(Default)]
struct Totals {
    bytes: Accounting,
    statistics: Statistics,
    damaged: bool,
    notes: Vec<String>,
}

impl Totals {
    fn show(&self) {
        let Statistics { instructions, branches, taken, exceptions, skipped, .. } = self.statistics;
        tell(format_args!(
            "{instructions} instructions, {branches} branches ({taken} taken), {exceptions} exceptions"
        ));
        let gaps = &self.statistics.gaps;
        if gaps.total() > 0 {
            let reasons: Vec<_> =
                gaps.by_reason().iter().filter(|(_, count)| *count > 0).map(shown).collect();
            tell(format_args!("{} gaps: {}", gaps.total(), reasons.join(", ")));
        }
        if skipped > 0 {
            tell(format_args!("{skipped} elements could not be followed for want of a place or a context"));
        }
        for symptom in Symptom::ALL {
            let count = self.statistics.symptom(symptom);
            if count > 0 {
                tell(format_args!("image may not fit: {} ({count} times)", symptom.text()));
            }
        }
        let Accounting { decoded, unsynchronised, bad } = self.bytes;
        tell(format_args!(
            "{decoded} bytes decoded, {unsynchronised} skipped before synchronisation, {bad} bad"
        ));
        self.notes.iter().for_each(tell);
    }
}

fn shown((reason, count): &(&'static str, u64)) -> String {
    format!("{count} {reason}")
}
