//! What was executed goes in; trace goes to one file, and the truth, if it is wanted, to another.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use backsight_arm::etm4::Config;
use backsight_arm::frame::{FormatterConfig, Framing};
use backsight_core::{Execution, Isa, TraceId};
use backsight_run::retired;
use backsight_unit::{Funnel, System};

use super::hart::{Hart, HartConfig};
use super::unit::Programmed;

/// Name of the trace in a capture.
pub const TRACE: &str = "trace.bin";
/// Name of the file of retired instructions in a capture.
pub const TRUTH: &str = "truth.retired";
/// Trace bytes that are written at a time.
const PIECE: usize = 1 << 16;
/// Trace ID of the first hart.
const FIRST_HART: u8 = 1;
/// Trace bytes that a hart collects before they go to the funnel.
const BATCH: usize = 32;

/// Where what was executed goes.
pub struct Tracer {
    units: Units,
    /// How harts are programmed.
    hart: Option<HartConfig>,
    bytes: Vec<u8>,
    trace: File,
    truth: Option<retired::RetiredWriter<BufWriter<File>>>,
    instructions: u64,
    trouble: Option<String>,
}

enum Units {
    /// Threads in frames.
    Etm4(Box<System>),
    /// One hart without frames.
    Hart(Hart),
    /// Harts in frames.
    Harts(Box<Harts>),
}

/// One unit for each thread, all in one formatted stream.
struct Harts {
    template: HartConfig,
    harts: Vec<(u32, Hart, Vec<u8>)>,
    current: usize,
    funnel: Funnel,
}

/// A source of the trace.
pub struct Traced {
    /// The thread.
    pub thread: u32,
    /// Its trace ID.
    pub id: TraceId,
    /// What is said of it.
    pub unit: TracedUnit,
}

/// How a source was programmed.
pub enum TracedUnit {
    /// ETMv4 or ETE.
    Etm4(Box<Config>),
    /// E-Trace or N-Trace.
    Hart(HartConfig),
}

impl Tracer {
    /// A tracer that writes into `folder`. `threads`: there may be several.
    pub fn new(
        folder: &Path,
        unit: &Programmed,
        threads: bool,
        truth: Option<Isa>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let create = |name: &str| {
            File::create(folder.join(name))
                .map_err(|error| format!("{}: {error}", folder.join(name).display()))
        };
        let frames = FormatterConfig::new(Framing::Coresight);
        let (units, hart) = match unit {
            Programmed::Etm4(unit) => (Units::Etm4(Box::new(System::new((**unit).clone(), frames)?)), None),
            Programmed::Hart(hart) if !threads => (Units::Hart(Hart::new(hart)?), Some(hart.clone())),
            Programmed::Hart(hart) => {
                let template = hart.in_frames();
                let funnel = Funnel::new(frames, 8);
                let harts = Harts { template: template.clone(), harts: Vec::new(), current: 0, funnel };
                (Units::Harts(Box::new(harts)), Some(template))
            }
        };
        let truth = match truth {
            Some(isa) => Some(retired::RetiredWriter::new(BufWriter::new(create(TRUTH)?), isa)?),
            None => None,
        };
        let trace = create(TRACE)?;
        let bytes = Vec::with_capacity(PIECE + 4096);
        Ok(Self { units, hart, bytes, trace, truth, instructions: 0, trouble: None })
    }

    /// One step of execution. False: nothing more can be written.
    #[inline]
    pub fn push(&mut self, item: Execution) -> bool {
        if self.trouble.is_some() {
            return false;
        }
        self.instructions += u64::from(matches!(item, Execution::Instruction(_)));
        if let Some(truth) = &mut self.truth
            && let Err(error) = truth.push(&item)
        {
            self.trouble = Some(format!("{TRUTH}: {error}"));
        }
        let bytes = &mut self.bytes;
        match &mut self.units {
            Units::Hart(hart) => {
                if let Err(error) = hart.push(item, bytes) {
                    self.trouble = Some(error);
                }
            }
            Units::Etm4(system) => {
                if let Err(error) = system.push(item, &mut |frames| bytes.extend_from_slice(frames)) {
                    self.trouble = Some(error.to_string());
                }
            }
            Units::Harts(harts) => {
                if let Err(error) = harts.push(item, bytes) {
                    self.trouble = Some(error);
                }
            }
        }
        if bytes.len() >= PIECE {
            self.write();
        }
        self.trouble.is_none()
    }

    fn write(&mut self) {
        if let Err(error) = self.trace.write_all(&self.bytes) {
            self.trouble.get_or_insert(format!("{TRACE}: {error}"));
        }
        self.bytes.clear();
    }

    /// Instructions seen so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Bytes of trace are written with what there is to say at the end. Gives what went wrong, now or before.
    pub fn finish(&mut self) -> Option<String> {
        let bytes = &mut self.bytes;
        let finished = match &mut self.units {
            Units::Hart(hart) => hart.finish(bytes),
            Units::Etm4(system) => system
                .finish(&mut |frames| bytes.extend_from_slice(frames))
                .map_err(|error| error.to_string()),
            Units::Harts(harts) => harts.finish(bytes),
        };
        if let Err(error) = finished {
            self.trouble.get_or_insert(error);
        }
        self.write();
        if let Some(truth) = self.truth.take()
            && let Err(error) = truth.finish().and_then(|file| file.into_inner().map_err(io::Error::from))
        {
            self.trouble.get_or_insert(format!("{TRUTH}: {error}"));
        }
        self.trouble.take()
    }

    /// What is to be said about the run of each hart; nothing if all is as usual.
    pub fn remarks(&self) -> Vec<String> {
        match &self.units {
            Units::Etm4(_) => Vec::new(),
            Units::Hart(hart) => hart.remarks(),
            Units::Harts(harts) => harts
                .harts
                .iter()
                .flat_map(|(thread, hart, _)| {
                    hart.remarks().into_iter().map(move |remark| format!("thread {thread}: {remark}"))
                })
                .collect(),
        }
    }

    /// The sources, in the order of their threads.
    pub fn sources(&self) -> Vec<Traced> {
        let traced = |thread, id, hart: &HartConfig| Traced {
            thread,
            id: TraceId::new(id),
            unit: TracedUnit::Hart(hart.clone()),
        };
        match (&self.units, &self.hart) {
            (Units::Etm4(system), _) => system
                .threads()
                .map(|(thread, config, _)| Traced {
                    thread,
                    id: TraceId::new(config.trace_id()),
                    unit: TracedUnit::Etm4(Box::new(config)),
                })
                .collect(),
            (Units::Hart(_), Some(hart)) => vec![traced(0, FIRST_HART, hart)],
            (Units::Harts(harts), Some(hart)) => {
                (FIRST_HART..).zip(&harts.harts).map(|(id, (thread, ..))| traced(*thread, id, hart)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The word for the framing of the trace, and whether it is CoreSight's.
    pub fn framing(&self) -> (&'static str, Framing) {
        match (&self.units, &self.hart) {
            (Units::Hart(_), Some(hart)) => (hart.framing(), Framing::Raw),
            _ => ("coresight", Framing::Coresight),
        }
    }
}

impl Harts {
    fn push(&mut self, item: Execution, out: &mut Vec<u8>) -> Result<(), String> {
        if let Execution::Thread(thread) = item {
            self.current = self.find(thread)?;
            return Ok(());
        }
        if self.harts.is_empty() {
            self.current = self.find(0)?;
        }
        let Some((_, unit, bytes)) = self.harts.get_mut(self.current) else { return Ok(()) };
        unit.push(item, bytes)?;
        if bytes.len() >= BATCH { self.hand_on(self.current, out) } else { Ok(()) }
    }

    fn hand_on(&mut self, number: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let Some((_, _, bytes)) = self.harts.get_mut(number) else { return Ok(()) };
        let id = TraceId::new(FIRST_HART + number.min(0x6E) as u8);
        let mut sink = |frames: &[u8]| out.extend_from_slice(frames);
        self.funnel.push(id, bytes, &mut sink).map_err(|error| error.to_string())?;
        bytes.clear();
        Ok(())
    }

    fn find(&mut self, thread: u32) -> Result<usize, String> {
        if let Some(known) = self.harts.iter().position(|(other, ..)| *other == thread) {
            return Ok(known);
        }
        if self.harts.len() == 0x6F {
            return Err("too many threads: there are 111 trace IDs".to_owned());
        }
        let unit = Hart::new(&self.template)?;
        self.harts.push((thread, unit, Vec::new()));
        Ok(self.harts.len() - 1)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        for number in 0..self.harts.len() {
            if let Some((_, unit, bytes)) = self.harts.get_mut(number) {
                unit.finish(bytes)?;
            }
            self.hand_on(number, out)?;
        }
        self.funnel.finish(&mut |frames| out.extend_from_slice(frames)).map_err(|error| error.to_string())
    }
}
