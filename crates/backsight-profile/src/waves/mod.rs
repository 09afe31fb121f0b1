//! Execution as waves, for viewers of simulations: function, program counter, opcode, depth of calls and exception of each hart
//! over time, and registers and memory where they are known.
//!
//! Each hart is read on a thread of its own (`lane`), and what changes is put together by time (`merge`) while it is written
//! (`vcd`, `fst`): memory does not grow with the length.

mod fst;
mod lane;
mod merge;
mod vcd;

use std::fmt;
use std::io::{self, Seek, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::decode::{Decode, Execution};
use backsight::moments::{Moments, Window};
use backsight::steps::{self, Note};
use backsight::{Capture, Source};

use crate::export::ExportError;

/// Most harts whose waves are written.
const MOST_LANES: usize = 256;

/// Instructions in which a trace that has times names one.
const MOST_WITHOUT_TIME: usize = 1 << 20;

/// A format of waves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaveFormat {
    /// Value change dump: text.
    Vcd,
    /// Fast signal trace: compressed.
    Fst,
}

impl WaveFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Vcd, Self::Fst];

    /// What it is called in arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vcd => "vcd",
            Self::Fst => "fst",
        }
    }

    /// What it is, in a few words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Vcd => "Waves of functions, instructions and registers over time, as text",
            Self::Fst => "The same, compressed, into a file",
        }
    }

    /// Who reads it.
    pub const fn readers(self) -> &'static str {
        "GTKWave, Surfer"
    }
}

/// What time is in waves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// That of the trace if all harts have one, else instructions.
    #[default]
    Any,
    /// That of the trace.
    Time,
    /// The number of the instruction, of each source by itself.
    Instructions,
}

/// Bytes of memory that are a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveMemory {
    /// The first.
    pub address: u64,
    /// How many, 1 to 16.
    pub size: u8,
}

/// What waves there are.
#[derive(Clone, Debug, Default)]
pub struct WaveOptions {
    /// Registers, by their names.
    pub registers: Vec<String>,
    /// Memory.
    pub memory: Vec<WaveMemory>,
    /// What time is.
    pub axis: Axis,
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Waves {
    /// Instructions.
    pub instructions: u64,
    /// Changes of values.
    pub changes: u64,
    /// Time is that of the trace.
    pub has_time: bool,
    /// Instructions for which there is no time: they stand where the last one before them is.
    pub untimed: u64,
    /// Registers that nothing wrote, in any hart.
    pub absent: Vec<String>,
    /// Bytes of trace were bad.
    pub is_damaged: bool,
}

/// A hart.
#[derive(Clone, Debug)]
struct Lane {
    source: Source,
    hart: Option<u16>,
    window: Window,
    name: String,
}

/// A wave of a hart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signal {
    name: String,
    /// Bits; `None` for text.
    bits: Option<u8>,
}

/// The waves of all harts: those of a hart stand together, in the order of [`Kind`].
#[derive(Clone, Debug)]
struct Head {
    lanes: Vec<(String, Vec<Signal>)>,
    comment: Vec<String>,
}

/// The waves that each hart has, before registers and memory.
#[derive(Clone, Copy)]
enum Kind {
    Function,
    Pc,
    Opcode,
    Depth,
    Exception,
}

/// The number of the first register.
const REGISTERS: usize = 5;

/// A value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Value {
    #[default]
    Unknown,
    /// A number, with the bits that are not known.
    Number(u128, u128),
    Text(Arc<str>),
}

/// A value that a wave has from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    time: u64,
    signal: u32,
    value: Value,
}

/// Takes the waves.
trait WaveWriter {
    /// A wave, numbered through all harts, has another value. Times never go back.
    fn change(&mut self, time: u64, signal: usize, value: &Value) -> io::Result<()>;

    /// That was all.
    fn finish(&mut self) -> io::Result<()>;
}

/// Where waves go: FST needs a place that can be gone back to.
pub enum WaveOutput<'o> {
    /// VCD.
    Vcd(&'o mut dyn Write),
    /// FST.
    Fst(&'o mut dyn WriteSeek),
}

impl fmt::Debug for WaveOutput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Vcd(_)) { "Vcd" } else { "Fst" })
    }
}

/// A place that can be gone back to.
pub trait WriteSeek: Write + Seek {}

impl<T: Write + Seek> WriteSeek for T {}

/// Writes the waves of windows of sources.
///
/// # Errors
/// If moments of windows are not known, bytes or code cannot be read, or the output cannot be written.
pub fn write_waves<'c>(
    capture: &'c Capture,
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    windows: Vec<(Source, Window)>,
    options: &WaveOptions,
    output: WaveOutput<'_>,
) -> Result<Waves, WaveError> {
    let lanes = lanes(moments, decode, windows)?;
    let has_time = match options.axis {
        Axis::Instructions => false,
        Axis::Time => true,
        Axis::Any => {
            let mut timed = lanes.iter().map(|lane| has_time(moments, decode, lane));
            timed.try_fold(true, |all, timed| Ok::<_, WaveError>(all && timed?))?
        }
    };
    let frequency = capture.description().timestamp_frequency.filter(|_| has_time);
    let signals = signals(options);
    let head = Head {
        lanes: lanes.iter().map(|lane| (lane.name.clone(), signals.clone())).collect(),
        comment: comment(capture, has_time, frequency),
    };
    let follow = lane::Following { options, has_time, frequency };
    let mut written = match output {
        WaveOutput::Vcd(out) => {
            let mut writer = vcd::Writer::new(out, &head)?;
            merge::run(capture, moments, decode, &lanes, (&follow, signals.len()), &mut writer)?
        }
        WaveOutput::Fst(out) => {
            let mut writer = fst::Writer::new(out, &head)?;
            merge::run(capture, moments, decode, &lanes, (&follow, signals.len()), &mut writer)?
        }
    };
    written.has_time = has_time;
    Ok(written)
}

/// Why waves could not be written.
#[derive(Debug)]
pub enum WaveError {
    /// The capture cannot be read, or has not what was asked for.
    Capture(backsight::Error),
    /// They could not be written to where they should go, or what is needed is not there.
    Export(ExportError),
}

impl From<backsight::Error> for WaveError {
    fn from(error: backsight::Error) -> Self {
        Self::Capture(error)
    }
}

impl From<io::Error> for WaveError {
    fn from(error: io::Error) -> Self {
        Self::Export(ExportError::Io(error))
    }
}

impl fmt::Display for WaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(error) => error.fmt(f),
            Self::Export(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WaveError {}

fn lanes<'c>(
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    windows: Vec<(Source, Window)>,
) -> Result<Vec<Lane>, WaveError> {
    let mut lanes = Vec::new();
    for (source, window) in windows {
        let is_execution = source.protocol().is_some_and(|names| !matches!(names.name, "itm" | "stm"));
        if !is_execution || !source.is_decoded() {
            continue;
        }
        let harts: Vec<_> = match source.numbers_harts() {
            true => steps::harts(moments, decode, &source)?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        for hart in harts {
            let name = source.hart_name(hart.unwrap_or(0));
            lanes.push(Lane { source: source.clone(), hart, window, name });
        }
    }
    match lanes.len() {
        1..=MOST_LANES => Ok(lanes),
        0 => Err(missing("nothing in it traces execution")),
        count => Err(missing(format!(
            "{count} harts are too many for one file of waves: --id and --buffer choose some"
        ))),
    }
}

fn missing(what: impl Into<String>) -> WaveError {
    WaveError::Export(ExportError::Missing(what.into()))
}

/// Does a hart name a time?
fn has_time<'c>(
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    lane: &Lane,
) -> Result<bool, WaveError> {
    let (mut found, mut seen) = (false, 0);
    let chosen = (&lane.source, lane.hart);
    steps::read(moments, decode, chosen, lane.window, false, &mut |batch| {
        found |= batch.notes.iter().any(|(_, note)| matches!(note, Note::Time(_)));
        seen += batch.steps.len();
        if found || seen > MOST_WITHOUT_TIME { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

fn signals(options: &WaveOptions) -> Vec<Signal> {
    let text = |name: &str| Signal { name: name.to_owned(), bits: None };
    let number = |name: &str, bits| Signal { name: name.to_owned(), bits: Some(bits) };
    let mut signals = vec![
        text("function"),
        number("pc", 64),
        number("opcode", 32),
        number("depth", 32),
        text("exception"),
    ];
    signals.extend(options.registers.iter().map(|name| number(name, lane::bits_of(name))));
    signals.extend(options.memory.iter().map(|memory| {
        let WaveMemory { address, size } = memory;
        number(&format!("memory_{address:x}_{size}"), size.saturating_mul(8))
    }));
    signals
}

fn comment(capture: &Capture, has_time: bool, frequency: Option<u64>) -> Vec<String> {
    let axis = match (has_time, frequency) {
        (false, _) => "Time counts the instructions of each source: one unit is one instruction.".to_owned(),
        (true, Some(_)) => "Time is that of the trace, in nanoseconds.".to_owned(),
        (true, None) => "Time is that of the trace: one unit is one tick of its timestamps.".to_owned(),
    };
    let mut lines = vec![format!("backsight, {}", capture.name()), axis];
    if has_time {
        lines.push(
            "Instructions between two times are spread evenly; of several at one time, the last one is seen."
                .to_owned(),
        );
    }
    lines
}

/// Names of scopes and waves: letters, digits and underscores, no two the same.
fn identifiers<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    const LONGEST: usize = 200;
    let mut given: Vec<String> = Vec::new();
    for name in names {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let clean: String = name.chars().take(LONGEST).map(plain).collect();
        let clean = if clean.is_empty() { "_".to_owned() } else { clean };
        let mut unique = clean.clone();
        let mut number = 2;
        while given.contains(&unique) {
            unique = format!("{clean}_{number}");
            number += 1;
        }
        given.push(unique);
    }
    given
}
