//! `profile --format vcd` and `fst`: execution as waves.

use std::path::Path;

use backsight_profile::waves::{
    Axis, WaveError, WaveFormat, WaveMemory, WaveOptions, WaveOutput, Waves, write_waves,
};
use clap::{Args, ValueEnum};

use super::{ProfileCommand, strict};
use crate::args::parse_number;
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{Output, WholeOutput, counted, say};

/// What waves there are.
#[derive(Args, Clone, Debug, Default)]
pub struct WaveArgs {
    /// In waves: this register, where the trace says what was written to registers (Tarmac); may be given several times
    #[arg(long, value_name = "NAME", help_heading = "Waves", value_parser = parse_register)]
    register: Vec<String>,

    /// In waves: memory of 1 to 16 bytes, 8 if no size is given, where the trace has loads or stores with values; may be given several times
    #[arg(long, value_name = "ADDRESS[:SIZE]", help_heading = "Waves", value_parser = parse_memory)]
    memory: Vec<WaveMemory>,

    /// In waves: what time is; time of the trace if nothing is said and all of it has one
    #[arg(long, value_enum, help_heading = "Waves")]
    axis: Option<AxisName>,
}

/// What time is in waves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AxisName {
    /// The timestamps of the trace
    Time,
    /// Instructions, of each source by itself
    Instructions,
}

/// Names of registers are as short as those of logs.
fn parse_register(text: &str) -> std::result::Result<String, String> {
    let is_name = text.len() <= 24 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match is_name && !text.is_empty() {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}`: the name of a register is expected, as in x0 or r13_svc")),
    }
}

fn parse_memory(text: &str) -> std::result::Result<WaveMemory, String> {
    let (address, size) = text.split_once(':').unwrap_or((text, "8"));
    let number = |text| parse_number(text).map_err(|error| error.to_string());
    let (address, size) = (number(address)?, number(size)?);
    match u8::try_from(size) {
        Ok(size @ 1..=16) if address.checked_add(size.into()).is_some() => Ok(WaveMemory { address, size }),
        _ => Err(format!("`{text}`: ADDRESS or ADDRESS:SIZE is expected, SIZE from 1 to 16, as in 0x8000:4")),
    }
}

/// The format of waves, if one is asked for.
pub(super) fn format(command: &ProfileCommand) -> Result<Option<WaveFormat>> {
    let WaveArgs { register, memory, axis } = &command.waves;
    let name = command.format.as_deref().unwrap_or_default();
    let format = WaveFormat::ALL.into_iter().find(|format| format.name() == name);
    let has_waves = !register.is_empty() || !memory.is_empty() || axis.is_some();
    if format.is_none() && has_waves {
        return Err(Failure::usage(
            "--register, --memory and --axis belong to --format vcd and --format fst",
        ));
    }
    let other = [
        (command.filter.options().is_selective(), "--range, --function, --module and --context"),
        (!command.merge.is_empty(), "--merge"),
        (command.scale.is_some(), "--scale"),
        (command.sample.is_some(), "--sample"),
        (command.paths.is_some(), "--paths"),
        (!command.event.is_empty(), "--event"),
        (command.compare.is_given(), "--compare"),
    ];
    let refused = other.iter().find(|(is_given, _)| *is_given && format.is_some());
    match refused {
        Some((_, what)) => {
            Err(Failure::usage(format!("--format {name} shows what was executed: leave out {what}")))
        }
        None => Ok(format),
    }
}

/// Writes waves.
pub(super) fn run(command: &ProfileCommand, format: WaveFormat) -> Result {
    let arguments = &command.capture;
    let quiet = command.output.quiet;
    let capture = arguments.open(&command.images, quiet)?;
    let inputs = arguments.inputs(&command.images);
    let moments = index_file::moments(arguments, &capture, quiet);
    // Each hart is read for itself: bytes that are read say little of what is left.
    let decode = arguments.choose(capture.execution(), &capture, true);
    let windows = command.window.of_sources(&moments, &decode)?;
    let axis = match command.waves.axis {
        None => Axis::Any,
        Some(AxisName::Time) => Axis::Time,
        Some(AxisName::Instructions) => Axis::Instructions,
    };
    let WaveArgs { register, memory, .. } = &command.waves;
    let options = WaveOptions { registers: register.clone(), memory: memory.clone(), axis };
    let path = command.output.output.as_deref();
    let write =
        |output: WaveOutput<'_>| write_waves(&capture, &moments, &decode, windows.clone(), &options, output);
    let waves = match format {
        WaveFormat::Vcd => {
            let mut output = Output::open(path, &inputs)?;
            let waves = write(WaveOutput::Vcd(&mut output))
                .map_err(|error| failure(error, |io| output.failure(io)))?;
            check(&waves)?;
            output.finish()?;
            waves
        }
        WaveFormat::Fst => {
            let Some(path) = path.filter(|path| *path != Path::new("-")) else {
                return Err(Failure::usage("--format fst is written to a file: name it with -o FILE"));
            };
            let mut output = WholeOutput::create(path, &inputs)?;
            let waves = write(WaveOutput::Fst(output.file()))
                .map_err(|error| failure(error, |io| crate::output::not_written(path, io)))?;
            check(&waves)?;
            output.finish()?;
            waves
        }
    };
    if !quiet {
        for problem in capture.code()?.problems() {
            say(format_args!("warning: {problem}"));
        }
        for name in &waves.absent {
            say(format_args!("warning: --register {name}: nothing in the trace says what was written to it"));
        }
        if waves.untimed > 0 {
            let untimed = counted(waves.untimed, "instruction");
            say(format_args!(
                "warning: {untimed} came without a time for too long to be spread: --axis instructions shows them"
            ));
        }
        let axis = if waves.has_time { "the time of the trace" } else { "instructions" };
        say(format_args!(
            "{}, {} over {axis}",
            counted(waves.instructions, "instruction"),
            counted(waves.changes, "change")
        ));
    }
    strict(command.output.strict, waves.is_damaged)
}

/// Refuses waves of nothing.
fn check(waves: &Waves) -> Result {
    match waves.instructions {
        0 => Err(Failure::new(
            "no instruction could be followed: the code that ran is not there; give it with --image FILE[@ADDRESS], or there is none in the window",
        )),
        _ => Ok(()),
    }
}

fn failure(error: WaveError, io: impl FnOnce(&std::io::Error) -> Failure) -> Failure {
    use backsight_profile::export::ExportError;
    match error {
        WaveError::Capture(error) => error.into(),
        WaveError::Export(ExportError::Io(error)) => io(&error),
        WaveError::Export(ExportError::Missing(what)) => Failure::new(what),
    }
}
