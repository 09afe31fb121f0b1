//! `backsight encode`: turns a log of executed instructions into trace.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use backsight_capture::{Capture, FileRef, MemoryDump};
use backsight_core::{Address, Isa};
use backsight_image::ImageSpec;
use backsight_run::{CodePart, CommitLog, ExecutionSource, Recording, TarmacLog};
use clap::{Args, ValueEnum};

use crate::failure::{Failure, Result};
use crate::output::{Inputs, say};
use crate::recording::{CaptureFormat, Executed, UnitArgs, in_words};

/// Contents of a capture that are taken into memory.
const LONGEST_DUMP: u64 = 1 << 30;

/// Turn executed instructions into trace
///
/// INPUT is a file of retired instructions, a capture that holds one (`record --truth`: so the same run can be traced
/// again by a unit that is programmed differently), a Tarmac log of an Arm simulator, or a commit log of a RISC-V core or simulator
/// (Spike, RVFI, CSV). The code goes into the capture too: that of INPUT if it is a capture or a Tarmac log, and what --image names.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Encode {
    /// File of retired instructions, capture, Tarmac log, or commit log
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

    /// Replace a capture that is there already
    #[arg(long)]
    force: bool,

    /// No summary
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight record -o run --truth -- ./program && backsight encode run -o again --unit ntrace
  backsight encode spike.log -o trace --isa rv64 --image program.elf
  backsight encode run.tarmac -o trace --unit etmv4";

/// Instruction set of a commit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogIsa {
    Rv32,
    #[default]
    Rv64,
}

/// Runs the command.
pub fn run(command: &Encode) -> Result {
    let path = &command.input;
    let images = command.image.iter().map(|image| &image.file);
    Inputs::none().and([path]).and(images).refuse_folder(&command.output)?;
    if let Some(Executed { mut source, capture }) = Executed::open(path)? {
        return encode(command, &mut source, &|recording| of_capture(recording, capture.as_ref()));
    }
    if let Some(log) = tarmac(path)? {
        return log.encode(command);
    }
    let isa = if command.isa == LogIsa::Rv32 { Isa::Rv32 } else { Isa::Rv64 };
    let log = File::open(path).map_err(|error| Failure::file(path, &error))?;
    let mut log = CommitLog::new(&path.display().to_string(), BufReader::new(log), isa, command.hart);
    encode(command, &mut log, &Ok)
}

/// A Tarmac log.
struct Tarmac {
    source: TarmacLog<Box<dyn Read + Send>>,
    /// Addresses and opcodes of its instructions.
    code: Vec<(u64, Vec<u8>)>,
}

/// The Tarmac log in a file, plain or compressed; `None` if there is something else. A pipe can be read only once: it is not looked into.
fn tarmac(path: &Path) -> Result<Option<Tarmac>> {
    if !path.is_file() {
        return Ok(None);
    }
    let capture = match backsight::Capture::open(path) {
        Ok(capture) => capture,
        Err(backsight::Error::Undescribed(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some((config, buffer)) = capture.log_settings() else { return Ok(None) };
    let source = TarmacLog::open(&path.display().to_string(), &config, || {
        buffer.open().map_err(|error| std::io::Error::other(error.to_string()))
    })?;
    Ok(Some(Tarmac { source, code: capture.log_code() }))
}

impl Tarmac {
    fn encode(mut self, command: &Encode) -> Result {
        encode(command, &mut self.source, &|recording| {
            let (mut contents, mut parts) = (Vec::new(), Vec::new());
            // Of an image, the code is that of the image.
            let code = if command.image.is_empty() { &self.code[..] } else { &[] };
            for (address, bytes) in code {
                let (offset, length) = (contents.len() as u64, bytes.len() as u64);
                parts.push(CodePart { offset, length, address: Address(*address) });
                contents.extend_from_slice(bytes);
            }
            let is_any = !parts.is_empty();
            Ok(if is_any { recording.memory(Path::new("opcodes.bin"), contents, parts) } else { recording })
        })
    }
}

fn encode(command: &Encode, source: &mut dyn ExecutionSource, with_code: WithCode<'_>) -> Result {
    let isa = source.isa();
    let unit = command.unit.program(isa, &isa.to_string())?;
    if let Some(kind) = command.unit.messages()? {
        let name = kind.name();
        return Err(Failure::usage(format!(
            "--unit {name}: what the program wrote is not in its instructions"
        )));
    }
    let recording = Recording::new(unit)
        .title(format!("{}, encoded", command.input.display()))
        .format(command.format.written(&command.output)?)
        .truth(command.truth)
        .replace(command.force)
        .remove_on_signal(true);
    let recording = with_images(command, with_code(recording)?)?;
    let recorded = recording.record(source, &command.output, &mut |_| {})?;
    if !command.quiet {
        let (instructions, bytes) = (recorded.instructions, recorded.bytes);
        let bits = bytes as f64 * 8.0 / (instructions as f64).max(1.0);
        say(format_args!(
            "{instructions} instructions, {bytes} bytes of trace ({bits:.3} bits per instruction)"
        ));
        in_words(&recorded.figures).iter().for_each(say);
        say(format_args!("to see what it did: backsight flow {} --calls", command.output.display()));
    }
    match recorded.cut_short {
        Some(why) => Err(Failure::new(format!("{}: {why}", command.output.display()))),
        None => Ok(()),
    }
}

/// Gives a recording the code of what is encoded.
type WithCode<'w> = &'w dyn Fn(Recording) -> Result<Recording>;

/// The code of a capture.
fn of_capture(mut recording: Recording, capture: Option<&Capture>) -> Result<Recording> {
    let mut files: Vec<(&FileRef, Vec<&MemoryDump>)> = Vec::new();
    for dump in capture.iter().flat_map(|capture| &capture.memory) {
        match files.iter_mut().find(|(file, _)| file.path() == dump.file.path()) {
            Some((_, dumps)) => dumps.push(dump),
            None => files.push((&dump.file, vec![dump])),
        }
    }
    for (file, dumps) in files {
        let contents = file.read(LONGEST_DUMP).map_err(Failure::new)?;
        let part = |dump: &&MemoryDump| {
            let rest = (contents.len() as u64).saturating_sub(dump.offset);
            let length = dump.length.unwrap_or(rest).min(rest);
            CodePart { offset: dump.offset, length, address: dump.address }
        };
        let parts = dumps.iter().map(part).collect();
        recording = recording.memory(Path::new(file.path()), contents, parts);
    }
    Ok(recording)
}

/// The code that the user names.
fn with_images(command: &Encode, mut recording: Recording) -> Result<Recording> {
    for spec in &command.image {
        let contents = std::fs::read(&spec.file).map_err(|error| Failure::file(&spec.file, &error))?;
        recording = match spec.address {
            Some(Address(address)) if !backsight_image::Elf::is_elf(&contents) => {
                let length = contents.len() as u64;
                let part = CodePart { offset: 0, length, address: Address(address) };
                recording.memory(&spec.file, contents, vec![part])
            }
            _ => recording.program(&spec.file, contents),
        };
    }
    Ok(recording)
}
