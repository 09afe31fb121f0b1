//! `backsight compress`: squeezes executed instructions into a small file.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use backsight_capture::{Capture, FileRef};
use backsight_image::ImageSpec;
use backsight_run::retired::RetiredReader;
use backsight_squeeze::container::{Header, Writer};
use backsight_squeeze::{DataScheme, Program, Scheme};
use clap::Args;

use crate::failure::{Failure, Result};
use crate::output::say;
use backsight_run::TRUTH;

/// Compress executed instructions
///
/// INPUT is a file of retired instructions, or a capture that holds one (`record --truth`). What `decompress` restores is
/// the same to the last item. With the program's file, the result holds no code, and can be read only with the same file.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Compress {
    /// File of retired instructions, or capture; `-` is standard input
    input: PathBuf,

    /// The file to write; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Scheme, and parameters that differ from the preset's: `btmbp`, `esdc:sets=64,ways=2`, …
    #[arg(long, value_name = "SCHEME[:NAME=VALUE,…]", default_value = "mix1m", value_parser = scheme)]
    scheme: Scheme,

    /// Caches for loads and stores, where INPUT has them: sets of the cache of addresses, bytes of the cache of values
    #[arg(long, value_name = "NAME=VALUE,…", default_value_t = DataScheme::default(), value_parser = data)]
    data: DataScheme,

    /// The program that was executed; where it was loaded, if it is relocatable
    #[arg(long, value_name = "FILE[@ADDRESS]")]
    program: Option<ImageSpec>,

    /// No summary
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight record -o run --truth -- ./program && backsight compress run -o run.small
  backsight compress run -o run.small --scheme btmbp --program program";

/// A scheme by its description.
pub fn scheme(text: &str) -> std::result::Result<Scheme, String> {
    Scheme::parse(text).map_err(|bad| bad.to_string())
}

fn data(text: &str) -> std::result::Result<DataScheme, String> {
    DataScheme::parse(text).map_err(str::to_owned)
}

/// Reads the program's file.
pub fn program(spec: &ImageSpec) -> Result<Program> {
    let file = std::fs::read(&spec.file).map_err(|error| Failure::file(&spec.file, &error))?;
    let address = spec.address.map_or(0, |address| address.0);
    Program::read(&file, address).map_err(|why| Failure::new(format!("{}: {why}", spec.file.display())))
}

/// Opens what is to be read: a file, or standard input.
pub fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(File::open(path).map_err(|error| Failure::file(path, &error))?))
}

/// Opens what is to be written: a file, or standard output.
pub fn create(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    Ok(Box::new(BufWriter::new(File::create(path).map_err(|error| Failure::file(path, &error))?)))
}

fn input(path: &Path) -> Result<Box<dyn Read + Send>> {
    let is_archive = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
    if !path.is_dir() && !is_archive {
        return open(path);
    }
    let capture = Capture::open(path).map_err(Failure::new)?;
    let file = FileRef::new(&capture.folder, TRUTH).map_err(Failure::new)?;
    if !file.exists() {
        let why = format!("{}: the capture has no {TRUTH}; record it with --truth", capture.name);
        return Err(Failure::new(why));
    }
    file.open().map_err(Failure::new)
}

/// Runs the command.
pub fn run(command: &Compress) -> Result {
    let named = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", command.input.display()));
    let mut reader = RetiredReader::new(input(&command.input)?).map_err(|error| named(&error))?;
    let program = command.program.as_ref().map(program).transpose()?;
    let name = command.program.as_ref().map(|spec| spec.file.display().to_string());
    let header = Header {
        scheme: command.scheme,
        data: command.data,
        isa: reader.isa(),
        program: name.unwrap_or_default(),
        identity: program.as_ref().map_or(0, |program| program.identity),
    };
    let sections = program.map(|program| program.sections).unwrap_or_default();
    let mut writer =
        Writer::new(create(&command.output)?, &header, sections).map_err(|error| named(&error))?;
    let mut written = Ok(());
    let read = reader.read(&mut |item| {
        if written.is_ok() {
            written = writer.push(&item);
        }
    });
    read.map_err(|error| named(&error))?;
    written.map_err(|error| named(&error))?;
    let (_, instructions, bytes) = writer.finish().map_err(|error| named(&error))?;
    if !command.quiet {
        let bits = if instructions > 0 { bytes as f64 * 8.0 / instructions as f64 } else { 0.0 };
        say(format_args!("{instructions} instructions in {bytes} bytes: {bits:.5} bits an instruction"));
    }
    Ok(())
}
