//! `backsight bench`: how fast is this machine?

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backsight_arm::etm4;
use backsight_arm::frame::{Batch, Demultiplexer};
use backsight_core::{Located, TraceId};
use backsight_flow as flow;
use backsight_image::Image;
use backsight_riscv::etrace;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::args::{CaptureArgs, OutputArgs};
use crate::commands::flow::{Engine, Harts, Item, Manner, harts};
use crate::decoder::Decoder;
use crate::failure::{Failure, Result};
use crate::images::{self, ImageArgs};
use crate::output::{Output, tell};
use crate::plan::{Buffer, Decoding, Plan};
use crate::queue::Queue;

/// Measure how fast a capture is decoded
///
/// Each stage includes those before it: frames are taken apart, packets are decoded, execution is followed. A
/// capture is held in memory and decoded again and again; standard input is read once, to its end. Each pass begins
/// anew, but the code that the one before walked through stays known: the longer it runs, the less the first meeting
/// with each piece of code counts, as in a long capture. Figures are over all passes; JSON also has those of the best
/// one, which are steadier on a busy machine. Bytes are those of the capture, MB are millions of them.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Bench {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// How far to go; several stages, with commas between them, are measured one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "packets")]
    stage: Vec<Stage>,

    /// Repeat each stage for S seconds, and at least once
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,

    /// Decode several sources on up to N cores
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// One JSON object a line for each stage
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  backsight bench capture/ --stage frames,packets,flow
  backsight bench capture/ --stage flow --threads 2 --seconds 10 --json
  cat trace.bin | backsight bench - --protocol etm4 --framing coresight";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// Frames are taken apart
    Frames,
    /// Packets are decoded
    Packets,
    /// Execution is followed
    Flow,
}

/// Buffers up to this size are held in memory; longer ones are read from the disk in each pass.
const MOST_IN_MEMORY: u64 = 1 << 28;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    bytes: u64,
    packets: u64,
    instructions: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.instructions += other.instructions;
    }
}

/// The pass that was interrupted least: what the machine can do when nothing else runs on it.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    bytes_per_second: f64,
    instructions_per_second: f64,
}

impl Best {
    fn offer(&mut self, work: Work, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        self.bytes_per_second = self.bytes_per_second.max(work.bytes as f64 / seconds);
        self.instructions_per_second = self.instructions_per_second.max(work.instructions as f64 / seconds);
    }
}

/// Runs the command.
pub fn run(command: &Bench) -> Result {
    let plan = Plan::new(&command.capture, command.output.quiet)?;
    let once = command.capture.capture.as_os_str() == "-";
    if once && command.stage.len() > 1 {
        return Err(Failure::usage("standard input can be read for one --stage only"));
    }
    let image = images::for_core(&command.images, &plan.capture, None, |_| {})?;
    let mut held = Vec::new();
    for buffer in &plan.buffers {
        let mut bytes = None;
        if !once && buffer.size.is_some_and(|size| size <= MOST_IN_MEMORY) {
            let mut contents = Vec::new();
            buffer.blocks(true, |block| {
                contents.extend_from_slice(block);
                Ok(())
            })?;
            bytes = Some(contents);
        }
        held.push(bytes);
    }
    let mut output = Output::open(command.output.output.as_deref())?;
    for &stage in &command.stage {
        let mut work = Work::default();
        let limit = Duration::from_secs_f64(command.seconds.clamp(0.0, 3600.0));
        let mut passes = 0;
        let mut benches: Vec<_> =
            plan.buffers.iter().map(|buffer| Passes::new(command, buffer, stage, &image)).collect();
        let mut best = Best::default();
        let start = Instant::now();
        loop {
            let mut pass = Work::default();
            let begin = Instant::now();
            for (bench, held) in benches.iter_mut().zip(&held) {
                pass += bench.pass(held.as_deref())?;
                if passes == 0 && !command.output.quiet {
                    bench.undecoded.iter().for_each(tell);
                }
            }
            best.offer(pass, begin.elapsed());
            work += pass;
            passes += 1;
            if once || start.elapsed() >= limit {
                break;
            }
        }
        report(command, stage, (work, start.elapsed()), passes, &best, &mut output)?;
    }
    output.finish()
}

/// Bytes that are taken apart at a time.
const BLOCK: usize = 1 << 18;

/// Passes over a buffer.
struct Passes<'a> {
    command: &'a Bench,
    buffer: &'a Buffer,
    stage: Stage,
    image: &'a Image,
    demultiplexer: Demultiplexer,
    lanes: BTreeMap<TraceId, Option<Lane<'a>>>,
    work: Work,
    /// Why some bytes are not decoded, in words.
    undecoded: Vec<String>,
}

impl<'a> Passes<'a> {
    fn new(command: &'a Bench, buffer: &'a Buffer, stage: Stage, image: &'a Image) -> Self {
        let demultiplexer = Demultiplexer::new(buffer.framing);
        let (lanes, work, undecoded) = (BTreeMap::new(), Work::default(), Vec::new());
        Self { command, buffer, stage, image, demultiplexer, lanes, work, undecoded }
    }

    fn pass(&mut self, held: Option<&[u8]>) -> Result<Work> {
        let (buffer, quiet) = (self.buffer, self.command.output.quiet);
        match held {
            Some(bytes) => bytes.chunks(BLOCK).for_each(|block| self.block(block)),
            None => buffer.blocks(quiet, |block| {
                self.block(block);
                Ok(())
            })?,
        }
        Ok(self.end())
    }

    fn block(&mut self, block: &[u8]) {
        self.work.bytes += block.len() as u64;
        let Self { command, buffer, stage, image, demultiplexer, lanes, .. } = self;
        let parallel = command.threads > 1;
        if *stage == Stage::Frames {
            let mut delivered = 0;
            demultiplexer.feed(block, &mut |batch| {
                if let Batch::Data { bytes, .. } = batch {
                    delivered += std::hint::black_box(bytes).len();
                }
            });
            std::hint::black_box(delivered);
            return;
        }
        demultiplexer.feed(block, &mut |batch| match batch {
            Batch::Data { id, bytes, .. } => {
                let wanted = buffer.is_raw() || command.capture.wants(id.get());
                let lane = lanes
                    .entry(id)
                    .or_insert_with(|| if wanted { Lane::new(buffer, id, *stage, image) } else { None });
                match lane {
                    Some(lane) if parallel => lane.queue.wait(bytes),
                    Some(lane) => lane.feed(bytes),
                    None => {}
                }
            }
            Batch::Discontinuity { .. } => {
                for lane in lanes.values_mut().flatten() {
                    lane.work_off();
                    lane.engine.end(&mut lane.work);
                }
            }
            Batch::Trigger { .. } | Batch::Flush { .. } => {}
        });
        if parallel {
            let mut busy: Vec<_> =
                lanes.values_mut().flatten().filter(|lane| !lane.queue.is_empty()).collect();
            let share = busy.len().div_ceil(command.threads).max(1);
            std::thread::scope(|scope| {
                for some in busy.chunks_mut(share) {
                    scope.spawn(|| some.iter_mut().for_each(|lane| lane.work_off()));
                }
            });
        }
    }

    /// Ends a pass: what was done. Why some of it was not is kept.
    fn end(&mut self) -> Work {
        self.demultiplexer.finish(&mut |_| {});
        let bytes_of = |id| self.buffer.bytes_of(self.demultiplexer.counts(), id);
        let left = self.lanes.iter().filter(|(id, lane)| lane.is_none() && self.wants(**id));
        self.undecoded = self.buffer.why_undecoded(left.map(|(&id, _)| (id, bytes_of(id))));
        self.demultiplexer.reset();
        for lane in self.lanes.values_mut().flatten() {
            lane.work_off();
            lane.engine.end(&mut lane.work);
            self.work += std::mem::take(&mut lane.work);
        }
        std::mem::take(&mut self.work)
    }

    fn wants(&self, id: TraceId) -> bool {
        self.buffer.is_raw() || self.command.capture.wants(id.get())
    }
}

/// One source.
struct Lane<'i> {
    engine: Measured<'i>,
    queue: Queue,
    work: Work,
}

impl<'i> Lane<'i> {
    fn new(buffer: &Buffer, id: TraceId, stage: Stage, image: &'i Image) -> Option<Self> {
        let source = buffer.source(id)?;
        let engine = match (&source.decoding, stage) {
            (Decoding::Etm4(config), Stage::Flow) => Measured::Etm4Flow(
                Box::new(etm4::Decoder::new(config)),
                Box::new(flow::etm4::Follower::new(config, image)),
            ),
            (Decoding::Etm4(config), _) => Measured::Etm4Packets(Box::new(etm4::Decoder::new(config))),
            (Decoding::Etrace(etrace), Stage::Flow) => Measured::EtraceFlow(Box::new(harts(etrace, image))),
            (Decoding::Etrace(etrace), _) => {
                Measured::EtracePackets(Box::new(etrace::Decoder::new(&etrace.config())))
            }
            (decoding, Stage::Flow) => Measured::Flow(Engine::new(decoding, image, Manner::default())?),
            (decoding, _) => Measured::Packets(Decoder::new(decoding)?),
        };
        Some(Self { engine, queue: Queue::default(), work: Work::default() })
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.queue.push(bytes, |bytes| self.engine.feed(bytes, &mut self.work));
    }

    fn work_off(&mut self) {
        self.queue.drain(|bytes| self.engine.feed(bytes, &mut self.work));
    }
}

/// What is measured. The common protocols compile into one loop each; the others go through their listings' doors.
enum Measured<'i> {
    Etm4Packets(Box<etm4::Decoder>),
    Etm4Flow(Box<etm4::Decoder>, Box<flow::etm4::Follower<&'i Image>>),
    EtracePackets(Box<etrace::Decoder>),
    EtraceFlow(Box<Harts<'i>>),
    Packets(Decoder),
    Flow(Engine<'i>),
}

impl Measured<'_> {
    fn feed(&mut self, bytes: &[u8], work: &mut Work) {
        match self {
            Self::Etm4Packets(decoder) => {
                decoder.feed_batches(bytes, &mut |batch| {
                    work.packets += std::hint::black_box(batch).len() as u64;
                });
            }
            Self::Etm4Flow(decoder, follower) => decoder.feed(bytes, &mut |packet| {
                work.packets += 1;
                follower.push(packet, &mut |event: Located<flow::Event>| {
                    if let flow::Event::Range(range) = &event.value {
                        work.instructions += u64::from(range.instructions);
                    }
                });
            }),
            Self::EtracePackets(decoder) => decoder.feed(bytes, &mut |packet| {
                std::hint::black_box(&packet);
                work.packets += 1;
            }),
            Self::EtraceFlow(harts) => {
                let before = harts.frames();
                harts.feed(bytes, &mut |event| {
                    if let flow::Event::Range(range) = &event.value {
                        work.instructions += u64::from(range.instructions);
                    }
                });
                work.packets += harts.frames() - before;
            }
            Self::Packets(decoder) => decoder.feed(bytes, &mut |_| work.packets += 1),
            Self::Flow(engine) => engine.feed(bytes, &mut |item| count(&item, work)),
        }
    }

    /// The stream ends, or does not continue.
    fn end(&mut self, work: &mut Work) {
        match self {
            Self::Etm4Packets(decoder) => decoder.reset(&mut |_| work.packets += 1),
            Self::Etm4Flow(decoder, follower) => {
                decoder.reset(&mut |packet| follower.push(packet, &mut |_: Located<flow::Event>| {}));
                follower.reset();
            }
            Self::EtracePackets(decoder) => decoder.finish(&mut |_| work.packets += 1),
            Self::EtraceFlow(harts) => harts.finish(&mut |event| {
                if let flow::Event::Range(range) = &event.value {
                    work.instructions += u64::from(range.instructions);
                }
            }),
            Self::Packets(decoder) => decoder.reset(&mut |_| work.packets += 1),
            Self::Flow(engine) => engine.reset(&mut |item| count(&item, work)),
        }
    }
}

fn count(item: &Item, work: &mut Work) {
    if let Item::Event(event) = item
        && let flow::Event::Range(range) = &event.value
    {
        work.instructions += u64::from(range.instructions);
    }
}

fn report(
    command: &Bench,
    stage: Stage,
    (work, elapsed): (Work, Duration),
    passes: u32,
    best: &Best,
    output: &mut Output,
) -> Result {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let name = stage.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let Work { bytes, packets, instructions } = work;
    let rate = bytes as f64 / seconds / 1e6;
    if command.json {
        let object = json!({
            "stage": name,
            "bytes": bytes,
            "packets": packets,
            "instructions": instructions,
            "passes": passes,
            "threads": command.threads,
            "seconds": seconds,
            "mb_per_second": rate,
            "packets_per_second": packets as f64 / seconds,
            "instructions_per_second": instructions as f64 / seconds,
            "best_pass_mb_per_second": best.bytes_per_second / 1e6,
            "best_pass_instructions_per_second": best.instructions_per_second,
        });
        return output.put(|out| writeln!(out, "{object}"));
    }
    let mut line = format!("{name:<8} {bytes} bytes in {seconds:.3} s: {rate:.0} MB/s");
    if packets > 0 {
        line.push_str(&format!(", {:.1} million packets/s", packets as f64 / seconds / 1e6));
    }
    if instructions > 0 {
        line.push_str(&format!(", {:.1} million instructions/s", instructions as f64 / seconds / 1e6));
    }
    output.put(|out| writeln!(out, "{line}"))
}
