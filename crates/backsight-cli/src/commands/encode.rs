//! `backsight encode`: turns a log of executed instructions into trace.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use backsight_capture::{Capture, ContextIdLayout, FileRef};
use backsight_core::{Address, Execution, Isa};
use backsight_image::ImageSpec;
use backsight_riscv::ingress::LogReader;
use backsight_run::Target;
use backsight_run::retired::RetiredReader;
use clap::{Args, ValueEnum};

use super::record::{CaptureFormat, Code, Facts, Place, TRUTH, Tracer, UnitArgs, UnitKind, describe};
use crate::failure::{Failure, Result};

/// A file of retired instructions, wherever it is.
type Stream = RetiredReader<Box<dyn Read + Send>>;

/// Turn executed instructions into trace
///
/// INPUT is a file of retired instructions, a capture that holds one (`record --truth`: so the same run can be traced
/// again by a unit that is programmed differently), or a commit log of a RISC-V core or simulator (Spike, RVFI, CSV).
/// The code goes into the capture too: that of INPUT if it is a capture, and what --image names.
#[derive(Args, Debug)]
pub struct Encode {
    /// File of retired instructions, capture, or commit log
    input: PathBuf,

    /// The capture to write: a folder, or an archive if the name ends in .zip
    #[arg(long, short, value_name = "CAPTURE")]
    output: PathBuf,

    #[command(flatten)]
    unit: UnitArgs,

    /// Also keep every executed instruction in the capture: `flow --truth` lists them
    #[arg(long)]
    truth: bool,

    /// Format of the capture
    #[arg(long, value_enum, default_value_t)]
    format: CaptureFormat,

    /// Code: an ELF file, or a raw dump with its address. May be given several times
    #[arg(long, value_name = "FILE[@ADDRESS]")]
    image: Vec<ImageSpec>,

    /// Instruction set of a commit log
    #[arg(long, value_enum, default_value_t)]
    isa: LogIsa,

    /// The hart of a commit log to take
    #[arg(long, value_name = "N", default_value_t = 0)]
    hart: u32,

    /// No summary
    #[arg(long, short)]
    quiet: bool,
}

/// Instruction set of a commit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogIsa {
    Rv32,
    #[default]
    Rv64,
}

/// What a file of retired instructions begins with.
const MAGIC: &[u8] = b"BSRETIRE";

/// Where the instructions come from.
enum Input {
    /// A file of retired instructions.
    Retired(PathBuf),
    /// One in a capture.
    Captured(Box<Capture>),
    /// A commit log.
    Log(PathBuf),
}

type Items<'a> = &'a mut dyn FnMut(Execution) -> bool;

impl Input {
    fn open(path: &Path) -> Result<Self> {
        let is_archive = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        if path.is_dir() || is_archive {
            return Ok(Self::Captured(Box::new(Capture::open(path).map_err(Failure::new)?)));
        }
        let mut begin = Vec::new();
        let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
        file.take(MAGIC.len() as u64).read_to_end(&mut begin).map_err(|error| Failure::file(path, &error))?;
        Ok(if begin == MAGIC { Self::Retired(path.to_owned()) } else { Self::Log(path.to_owned()) })
    }

    /// The file of retired instructions, opened.
    fn retired(&self) -> Result<Option<(String, Stream)>> {
        let (name, stream): (String, Box<dyn Read + Send>) = match self {
            Self::Log(_) => return Ok(None),
            Self::Retired(path) => {
                let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
                (path.display().to_string(), Box::new(file))
            }
            Self::Captured(capture) => {
                let file = FileRef::new(&capture.folder, TRUTH).map_err(Failure::new)?;
                if !file.exists() {
                    let why = format!("{}: the capture has no {TRUTH}; record it with --truth", capture.name);
                    return Err(Failure::new(why));
                }
                (file.to_string(), file.open().map_err(Failure::new)?)
            }
        };
        let reader = RetiredReader::new(stream).map_err(|error| Failure::new(format!("{name}: {error}")))?;
        Ok(Some((name, reader)))
    }

    /// Hands out the instructions until there are no more, or `sink` wants none.
    fn read(&self, command: &Encode, sink: Items<'_>) -> Result {
        if let Some((name, reader)) = self.retired()? {
            for item in reader {
                let item = item.map_err(|error| Failure::new(format!("{name}: {error}")))?;
                if !sink(item) {
                    break;
                }
            }
            return Ok(());
        }
        let Self::Log(path) = self else { return Ok(()) };
        let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
        let isa = if command.isa == LogIsa::Rv32 { Isa::Rv32 } else { Isa::Rv64 };
        let mut log = LogReader::new(isa, command.hart);
        let mut wanted = true;
        let mut each = |item| wanted = wanted && sink(item);
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|error| Failure::file(path, &error))?;
            log.line(&line, &mut each)
                .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        }
        log.finish(&mut each);
        Ok(())
    }
}

/// Runs the command.
pub fn run(command: &Encode) -> Result {
    let input = Input::open(&command.input)?;
    let isa = match input.retired()? {
        Some((_, reader)) => reader.isa(),
        None if command.isa == LogIsa::Rv32 => Isa::Rv32,
        None => Isa::Rv64,
    };
    let (target, core) = match isa {
        Isa::A64 => (Target::Aarch64, "ARM-AA64"),
        Isa::A32 | Isa::T32 => (Target::Arm, "Cortex-A53"),
        Isa::Rv32 | Isa::Rv64 => (Target::Riscv64, ""),
    };
    let mut unit = command.unit.clone();
    if isa == Isa::Rv32 && unit.unit != Some(UnitKind::Ntrace) {
        unit.config.insert(0, "iaddress_width=32".to_owned());
    }
    let unit = unit.program(target)?;
    let mut threads = false;
    input.read(command, &mut |item| {
        threads |= matches!(item, Execution::Thread(1..));
        !threads
    })?;
    let place = command.format.place(&command.output)?;
    let made = Tracer::new(&place.folder, &unit, threads, command.truth.then_some(isa));
    let made = made.map_err(Failure::new).and_then(|mut tracer| {
        let mut code = Code::new(&place.folder);
        collect(command, &input, &mut code)?;
        input.read(command, &mut |item| tracer.push(item))?;
        Ok((tracer, code))
    });
    match made {
        Ok((tracer, code)) => finish(command, place, tracer, code, core),
        Err(failure) => {
            place.abandon();
            Err(failure)
        }
    }
}

/// The code that the capture will hold.
fn collect(command: &Encode, input: &Input, code: &mut Code) -> Result {
    if let Input::Captured(capture) = input {
        for dump in &capture.memory {
            let contents = dump.file.read(1 << 30).map_err(Failure::new)?;
            let rest = (contents.len() as u64).saturating_sub(dump.offset);
            let length = dump.length.unwrap_or(rest).min(rest);
            code.add_dump(Path::new(dump.file.path()), &contents, dump.offset, length, dump.address)?;
        }
    }
    for spec in &command.image {
        let contents = std::fs::read(&spec.file).map_err(|error| Failure::file(&spec.file, &error))?;
        match spec.address {
            Some(Address(address)) if !backsight_image::Elf::is_elf(&contents) => {
                code.add_dump(&spec.file, &contents, 0, contents.len() as u64, Address(address))?;
            }
            _ => code.add_program(&spec.file, &contents)?,
        }
    }
    Ok(())
}

fn finish(command: &Encode, place: Place, mut tracer: Tracer, mut code: Code, core: &str) -> Result {
    let trouble = tracer.finish();
    let dumps = code.finish()?;
    let facts = Facts {
        folder: &place.folder,
        format: command.format.written(),
        title: format!("{}, encoded", command.input.display()),
        core,
        events: None,
        contextidr: ContextIdLayout::None,
        truth: command.truth,
    };
    let capture = describe(facts, &tracer, &code, &dumps)?;
    let bytes = capture.buffers.first().and_then(backsight_capture::Buffer::length).unwrap_or(0);
    place.finish(&capture)?;
    let instructions = tracer.instructions();
    if !command.quiet {
        let bits = bytes as f64 * 8.0 / (instructions as f64).max(1.0);
        eprintln!("{instructions} instructions, {bytes} bytes of trace ({bits:.3} bits per instruction)");
        tracer.remarks().iter().for_each(|line| eprintln!("{line}"));
    }
    match trouble {
        Some(trouble) => Err(Failure::new(format!("{}: {trouble}", command.output.display()))),
        None => Ok(()),
    }
}
