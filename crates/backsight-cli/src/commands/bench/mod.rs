//! `backsight bench`: how fast is this machine?

mod listing;

use std::time::{Duration, Instant};

use backsight::decode::{Counts, Execution, Number, Session, demultiplex};
use backsight::frame::Demultiplexer;
use backsight::{Buffer, Capture};
use clap::{Args, ValueEnum};
use serde_json::json;

use self::listing::{List, Listing};
use crate::args::{CaptureArgs, ImageArgs, OutputArgs};
use crate::failure::{Failure, Result};
use crate::output::{Output, say};

/// Measure how fast a capture is decoded
///
/// Frames are taken apart, packets are decoded, execution is followed: each of these stages includes those before it. A
/// capture is held in memory and decoded again and again; standard input is read once, to its end. Each pass begins
/// again, but the code that the one before walked through stays known: the longer it runs, the less the first meeting
/// with each piece of code counts, as in a long capture.
///
/// The other stages are what commands do with execution, but for writing it to a file: counts, calls, text, PCs. They read
/// the capture from where it is, and meet the code for the first time in each pass.
///
/// Figures are over all passes; JSON also has those of the best one, which are steadier on a busy machine. Bytes are those
/// of the capture, MB are millions of them.
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
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = parse_seconds)]
    seconds: f64,

    /// Decode on up to N cores, as commands do: the capture is read from where it is stored in each pass, and a single source
    /// is decoded in pieces, its code met for the first time; with 1, too, which is what to compare 2 with
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// One JSON object a line for each stage
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Bench {
    fn cores(&self) -> usize {
        self.threads.unwrap_or(1).max(1)
    }
}

fn parse_seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| format!("`{text}`: a number of seconds from 0 to 86400 is expected"))
}

const EXAMPLES: &str = "Examples:
  backsight bench capture/ --stage frames,packets,flow
  backsight bench capture/ --stage flow --threads 2 --seconds 10 --json
  backsight bench capture/ --stage count,calls,text,pcs
  cat trace.bin | backsight bench - --protocol etm4 --framing coresight";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// Frames are taken apart
    Frames,
    /// Packets are decoded
    Packets,
    /// Execution is followed, and each range looked at
    Flow,
    /// Execution is counted, as for `profile`
    Count,
    /// Calls are listed, as by `flow --calls`
    Calls,
    /// Execution is listed, as by `flow`
    Text,
    /// The address of each instruction is listed, as by `flow --format pcs`
    Pcs,
}

/// Buffers up to this size are held in memory; longer ones are read from the disk in each pass.
const MOST_IN_MEMORY: u64 = 1 << 28;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    bytes: u64,
    packets: u64,
    instructions: u64,
    /// Bytes of text that came of it.
    text: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.instructions += other.instructions;
        self.text += other.text;
    }
}

/// The pass that was interrupted least: what the machine can do when nothing else runs on it.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    bytes_per_second: f64,
    instructions_per_second: f64,
    text_per_second: f64,
}

impl Best {
    fn offer(&mut self, work: Work, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        self.bytes_per_second = self.bytes_per_second.max(work.bytes as f64 / seconds);
        self.instructions_per_second = self.instructions_per_second.max(work.instructions as f64 / seconds);
        self.text_per_second = self.text_per_second.max(work.text as f64 / seconds);
    }
}

/// Runs the command.
pub fn run(command: &Bench) -> Result {
    let once = command.capture.is_standard_input();
    if once && command.stage.len() > 1 {
        return Err(Failure::usage("standard input can be read for one --stage only"));
    }
    if once && !matches!(command.stage[..], [Stage::Frames | Stage::Packets | Stage::Flow]) {
        return Err(Failure::usage("standard input is for --stage frames, packets and flow"));
    }
    let capture = command.capture.open(&command.images, command.output.quiet)?;
    command.capture.check_buffers(&capture)?;
    let mut contents = Vec::new();
    for buffer in command.capture.chosen(&capture) {
        contents.push(Contents::new(buffer, !once && command.threads.is_none())?);
    }
    let (path, inputs) = (command.output.output.as_deref(), command.capture.inputs(&command.images));
    let mut output = Output::for_tables(path, &inputs, command.json)?;
    for &stage in &command.stage {
        let mut work = Work::default();
        let limit = Duration::from_secs_f64(command.seconds);
        let mut passes = 0;
        let mut benches = Vec::new();
        if let (Stage::Frames, Some(raw)) = (stage, contents.iter().find(|one| one.buffer.is_raw())) {
            let name = raw.buffer.name();
            return Err(Failure::usage(format!(
                "--stage frames: buffer {name} has no frames to take apart; measure --stage packets"
            )));
        }
        for contents in &contents {
            benches.push(Measured::new(command, &capture, contents.buffer, stage)?);
        }
        let mut best = Best::default();
        let start = Instant::now();
        loop {
            let mut pass = Work::default();
            let begin = Instant::now();
            for (bench, contents) in benches.iter_mut().zip(&contents) {
                pass += bench.pass(contents, command.cores())?;
                if passes == 0 && !command.output.quiet {
                    bench.undecoded().iter().for_each(say);
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

/// The bytes of a buffer.
struct Contents<'c> {
    buffer: &'c Buffer,
    /// Where they fit into memory.
    bytes: Option<Vec<u8>>,
}

impl<'c> Contents<'c> {
    fn new(buffer: &'c Buffer, is_held: bool) -> Result<Self> {
        let mut bytes = None;
        if is_held && buffer.size().is_some_and(|size| size <= MOST_IN_MEMORY) {
            let mut all = Vec::new();
            read(buffer, &mut |block| all.extend_from_slice(block))?;
            bytes = Some(all);
        }
        Ok(Self { buffer, bytes })
    }

    fn blocks(&self, each: &mut dyn FnMut(&[u8])) -> Result {
        match &self.bytes {
            Some(bytes) => bytes.chunks(BLOCK).for_each(each),
            None => read(self.buffer, each)?,
        }
        Ok(())
    }
}

fn read(buffer: &Buffer, each: &mut dyn FnMut(&[u8])) -> Result {
    let mut reader = buffer.open()?;
    let mut block = vec![0; BLOCK];
    loop {
        match reader.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) => each(&block[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::new(format!("{}: {error}", buffer.name()))),
        }
    }
}

/// What is measured: a stage of the library, for one buffer.
enum Measured<'c> {
    Frames(Box<Demultiplexer>),
    Packets(Session<'c, Counts<Number>>),
    Flow(Session<'c, Execution>),
    /// The same as commands do it, on so many threads.
    Threads(Threads<'c>),
    /// What a command does.
    Listing(Listing<'c>),
}

/// A buffer that is decoded on several threads.
struct Threads<'c> {
    capture: &'c Capture,
    arguments: &'c CaptureArgs,
    buffer: String,
    threads: usize,
    /// Packets are counted; else execution is followed.
    of_packets: bool,
}

impl Threads<'_> {
    fn pass(&self, bytes: u64) -> Result<Work> {
        if self.of_packets {
            let decode = self.arguments.choose(self.capture.packets(), self.capture, true);
            let summary = decode.only(&self.buffer).any_order().threads(self.threads).count()?;
            return Ok(Work { bytes, packets: summary.packets(), ..Work::default() });
        }
        let decode = self.arguments.choose(self.capture.execution(), self.capture, true);
        let decode = decode.only(&self.buffer).any_order().positions(false).threads(self.threads);
        let (summary, instructions) = decode.sum_instructions()?;
        Ok(Work { bytes, packets: summary.packets(), instructions, text: 0 })
    }
}

impl<'c> Measured<'c> {
    fn new(command: &'c Bench, capture: &'c Capture, buffer: &Buffer, stage: Stage) -> Result<Self> {
        let listing = |list| Ok(Self::Listing(Listing::new(command, capture, buffer, list)));
        Ok(match stage {
            Stage::Count => return listing(List::Counts),
            Stage::Calls => return listing(List::Calls),
            Stage::Text => return listing(List::Text),
            Stage::Pcs => return listing(List::Pcs),
            Stage::Frames => Self::Frames(Box::new(Demultiplexer::new(buffer.framing()))),
            Stage::Packets | Stage::Flow if command.threads.is_some() => {
                let (arguments, buffer) = (&command.capture, buffer.name().to_owned());
                let of_packets = stage == Stage::Packets;
                Self::Threads(Threads { capture, arguments, buffer, threads: command.cores(), of_packets })
            }
            Stage::Packets => {
                let decode = command.capture.choose(capture.packets(), capture, true);
                Self::Packets(decode.counter().only(buffer.name()).any_order().session()?)
            }
            Stage::Flow => {
                let decode = command.capture.choose(capture.execution(), capture, true);
                Self::Flow(decode.only(buffer.name()).any_order().positions(false).session()?)
            }
        })
    }

    fn pass(&mut self, contents: &Contents<'_>, threads: usize) -> Result<Work> {
        let (mut bytes, mut outcome) = (0, Ok(()));
        let mut blocks = |each: &mut dyn FnMut(&[u8])| {
            outcome = contents.blocks(&mut |block| {
                bytes += block.len() as u64;
                each(block);
            });
        };
        let (packets, instructions) = match self {
            Self::Frames(demultiplexer) => {
                demultiplex(demultiplexer, &mut blocks);
                (0, 0)
            }
            Self::Packets(session) => (session.count(&mut blocks), 0),
            Self::Flow(session) => session.sum_instructions(&mut blocks),
            Self::Listing(listing) => {
                return listing.pass(contents.buffer.size().unwrap_or_default(), threads);
            }
            Self::Threads(threads) => return threads.pass(contents.buffer.size().unwrap_or_default()),
        };
        outcome.map(|()| Work { bytes, packets, instructions, text: 0 })
    }

    /// Why some bytes are not decoded, in words.
    fn undecoded(&mut self) -> Vec<String> {
        let summary = match self {
            Self::Frames(_) | Self::Threads(_) | Self::Listing(_) => return Vec::new(),
            Self::Packets(session) => session.summary(),
            Self::Flow(session) => session.summary(),
        };
        summary.buffers.iter().flat_map(|buffer| buffer.why_undecoded()).collect()
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
    let Work { bytes, packets, instructions, text } = work;
    let rate = bytes as f64 / seconds / 1e6;
    if command.json {
        let object = json!({
            "stage": name,
            "bytes": bytes,
            "packets": packets,
            "instructions": instructions,
            "text_bytes": text,
            "passes": passes,
            "threads": command.cores(),
            "seconds": seconds,
            "mb_per_second": rate,
            "packets_per_second": packets as f64 / seconds,
            "instructions_per_second": instructions as f64 / seconds,
            "best_pass_mb_per_second": best.bytes_per_second / 1e6,
            "best_pass_instructions_per_second": best.instructions_per_second,
            "best_pass_text_mb_per_second": best.text_per_second / 1e6,
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
    if text > 0 {
        line.push_str(&format!(", {:.0} MB/s of text", text as f64 / seconds / 1e6));
    }
    output.put(|out| writeln!(out, "{line}"))
}
