//! `backsight session`: the register accesses that start and stop a trace.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use backsight_run::settings::{parse_number, parse_range};
use backsight_session::{Data, Request, Session, System, Timestamps, output};
use clap::{Args, ValueEnum};

use crate::failure::{Failure, Result};
use crate::output::{Inputs, Output, put_files, say};

/// Write the register accesses that start and stop a trace
///
/// SYSTEM is a file that describes trace units (ETMv4, ETE, ETMv3, PTM), funnels, replicators, ETF, ETB, ETR and TPIU and how they are
/// connected, or the folder /sys/bus/coresight/devices of a Linux system. What is asked for is checked against the ID
/// registers of every trace unit, and both sequences against a model of the registers. `--as package` writes the metadata
/// by which the capture is decoded; put the trace beside it as trace.bin.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SessionCommand {
    /// The system: a file, or a folder like /sys/bus/coresight/devices
    system: PathBuf,

    /// A trace unit, and its trace ID if it matters; without any, all of them. Several with commas
    #[arg(long, value_name = "UNIT[=ID]", value_delimiter = ',')]
    trace: Vec<String>,

    /// Where the trace goes; not needed where there is only one such place
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,

    /// Memory for an ETR, where SYSTEM does not say
    #[arg(long, value_name = "ADDRESS:BYTES", value_parser = memory)]
    memory: Option<(u64, u64)>,

    /// Trace only instructions at these addresses; may be given several times
    #[arg(long, value_name = "FROM..TO", value_parser = parse_range)]
    range: Vec<Range<u64>>,

    /// Trace only while CONTEXTIDR has this value
    #[arg(long, value_name = "ID", value_parser = narrow)]
    only_context: Option<u32>,

    /// Context IDs in the trace
    #[arg(long)]
    context_id: bool,

    /// VMIDs in the trace
    #[arg(long)]
    vmid: bool,

    /// Cycle counts, from so many cycles on; ETMv3 and PTM count all: 1
    #[arg(long, value_name = "THRESHOLD", value_parser = narrow)]
    cycle_counts: Option<u32>,

    /// Timestamps: where the trace is synchronised, and every so many cycles
    #[arg(long, value_name = "CYCLES", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    timestamps: Option<u16>,

    /// The targets of direct branches too, so that the trace can be followed without the code
    #[arg(long)]
    branch_broadcast: bool,

    /// No targets of returns that the decoder can know
    #[arg(long)]
    return_stack: bool,

    /// Data transfers in the trace of an ETMv3
    #[arg(long, value_enum, value_name = "WHAT")]
    data: Option<DataWord>,

    /// An external input of the trace unit whose events are in the trace (for ETE the number of a PMU event); may be
    /// given several times
    #[arg(long, value_name = "INPUT")]
    event: Vec<u16>,

    /// Bytes between synchronisations: a power of two from 256 to 1048576, for ETMv3 and PTM to 2048
    #[arg(long, value_name = "BYTES")]
    sync_period: Option<u64>,

    /// What to write
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t)]
    form: Form,

    /// Write to this file, or for a package to this folder; `-` is standard output
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,

    /// A package may go to a folder that has something in it: files of the same names are replaced, others stay
    #[arg(long)]
    force: bool,

    /// No summary
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight session testdata/systems/four-cores.ini --trace etm0 --sink etr --return-stack --timestamps
  backsight session four-cores.ini --trace etm0=0x20,etm1=0x21 --sink tpiu --cycle-counts 16 --as openocd -o trace.tcl
  backsight session four-cores.ini --sink etr --range 0x400000..0x500000 --as package -o capture
  backsight session testdata/systems/armv7.ini --trace ptm0 --sink tpiu --cycle-counts 1 --return-stack
  backsight session /sys/bus/coresight/devices --sink tmc_etr0 --memory 0x70000000:0x100000 --as c";

/// The forms of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One access a line
    #[default]
    Words,
    /// A script for OpenOCD with start_trace and stop_trace
    Openocd,
    /// Tables in C
    C,
    /// The metadata of a trace package for the capture
    Package,
}

/// What is traced of data transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DataWord {
    /// Their addresses
    Address,
    /// Their values
    Value,
    /// Addresses and values
    Both,
}

/// Runs the command.
pub fn run(command: &SessionCommand) -> Result {
    let system = System::open(&command.system).map_err(Failure::new)?;
    let session = Session::new(&system, &request(command)?).map_err(Failure::new)?;
    match command.form {
        Form::Words => write(command, &output::words(&session))?,
        Form::Openocd => write(command, &output::openocd(&session))?,
        Form::C => write(command, &output::c_table(&session))?,
        Form::Package => write_package(command, &session)?,
    }
    if !command.quiet {
        for unit in &session.units {
            say(format_args!("{}: trace ID {:#x}, {}", unit.component.name, unit.id, unit.config));
        }
        let (start, stop) = (session.start.len(), session.stop.len());
        say(format_args!(
            "{start} accesses to start, {stop} to stop; the trace goes to {}",
            session.sink.name
        ));
    }
    Ok(())
}

fn request(command: &SessionCommand) -> Result<Request> {
    let units = command.trace.iter().map(|text| traced(text)).collect::<Result<_>>()?;
    let timestamps = command.timestamps.map(|cycles| match cycles {
        0 => Timestamps::AtSynchronisation,
        cycles => Timestamps::EveryCycles(cycles),
    });
    let sync_period = command.sync_period.map(sync_period).transpose()?;
    Ok(Request {
        units,
        sink: command.sink.clone(),
        memory: command.memory,
        ranges: command.range.clone(),
        only_context: command.only_context,
        context_id: command.context_id,
        vmid: command.vmid,
        cycle_counts: command.cycle_counts,
        timestamps,
        branch_broadcast: command.branch_broadcast,
        return_stack: command.return_stack,
        data: command.data.map(|word| match word {
            DataWord::Address => Data::Addresses,
            DataWord::Value => Data::Values,
            DataWord::Both => Data::Both,
        }),
        events: command.event.clone(),
        sync_period,
    })
}

fn traced(text: &str) -> Result<(String, Option<u8>)> {
    let Some((name, id)) = text.split_once('=') else { return Ok((text.to_owned(), None)) };
    let wrong = |why: &dyn fmt::Display| Failure::usage(format!("--trace {text}: {why}"));
    let id = parse_number(id).map_err(|why| wrong(&why))?;
    let id = u8::try_from(id).map_err(|_| wrong(&"a trace ID has seven bits"))?;
    Ok((name.to_owned(), Some(id)))
}

fn sync_period(bytes: u64) -> Result<u8> {
    match bytes.is_power_of_two() {
        true => Ok(bytes.trailing_zeros() as u8),
        false => Err(Failure::usage(format!("--sync-period {bytes}: a power of two is expected"))),
    }
}

fn memory(text: &str) -> std::result::Result<(u64, u64), String> {
    let (address, bytes) = text.split_once(':').ok_or("ADDRESS:BYTES is expected")?;
    let number = |text| parse_number(text).map_err(|why| why.to_string());
    Ok((number(address)?, number(bytes)?))
}

fn narrow(text: &str) -> std::result::Result<u32, String> {
    let number = parse_number(text).map_err(|why| why.to_string())?;
    u32::try_from(number).map_err(|_| "a number of 32 bits is expected".to_owned())
}

fn write(command: &SessionCommand, text: &str) -> Result {
    let mut output = Output::open(command.output.as_deref(), &inputs(command))?;
    output.put(|out| out.write_all(text.as_bytes()))?;
    output.finish()
}

fn write_package(command: &SessionCommand, session: &Session) -> Result {
    let folder = command.output.as_ref().filter(|path| path.as_os_str() != "-").ok_or_else(|| {
        Failure::usage("--as package: two files are written, so --output with a folder is needed")
    })?;
    let files = output::package(session);
    let files = files.iter().map(|(name, text)| (AsRef::as_ref(name), text.as_bytes()));
    put_files(folder, command.force, &inputs(command), files)
}

fn inputs(command: &SessionCommand) -> Inputs {
    Inputs::none().and([&command.system])
}

#[cfg(test)]
mod tests {
    use backsight_capture::Capture;
    use backsight_testing::repository;
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: SessionCommand,
    }

    fn session(words: &[&str]) -> Result {
        let system = repository().join("testdata/systems/four-cores.ini");
        let line = ["session", system.to_str().unwrap(), "--quiet"];
        run(&Line::try_parse_from(line.iter().chain(words)).map_err(Failure::usage)?.command)
    }

    #[test]
    fn a_package_is_one_that_captures_are_opened_by() {
        let folder = std::env::temp_dir().join(format!("backsight-session-command-{}", std::process::id()));
        let path = folder.to_str().unwrap();
        session(&[
            "--sink",
            "etr",
            "--trace",
            "etm1=0x21",
            "--cycle-counts",
            "16",
            "--as",
            "package",
            "-o",
            path,
        ])
        .unwrap();
        std::fs::write(folder.join(output::BUFFER), []).unwrap();
        let capture = Capture::open(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(capture.sources[0].id.unwrap().get(), 0x21);
        assert_eq!(capture.sources[0].register("TRCCONFIGR").unwrap().value, Some(0x11));
    }

    #[test]
    fn mistakes_are_wrong_use_and_impossible_wishes_are_failures() {
        for (words, status) in [
            (&["--sink", "etr", "--trace", "etm0=x"][..], 2),
            (&["--sink", "etr", "--sync-period", "300"], 2),
            (&["--sink", "etr", "--memory", "5"], 2),
            (&["--sink", "etr", "--as", "package"], 2),
            (&[], 1),
            (&["--sink", "etr", "--cycle-counts", "2"], 1),
            (&["--sink", "etr", "--trace", "etm0=5,etm1=5"], 1),
        ] {
            assert_eq!(session(words).unwrap_err().exit_status(), status, "{words:?}");
        }
    }
}
