//! `backsight rtl etrace`: the encoder.

use backsight_core::Isa;
use backsight_rtl::etrace::{Comparators, Options, design};
use backsight_run::units::etrace_unit;
use clap::Args;

use super::Destination;
use crate::failure::{Failure, Result};

/// An encoder for RISC-V E-Trace, behind the commit ports of a core
///
/// Commit ports of a core like CVA6 go in; encapsulated packets come out, over a trace bus (ATB) or as a byte stream. The
/// bytes are those of the software's unit (`backsight record --unit etrace`) with the same configuration.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Etrace {
    #[command(flatten)]
    destination: Destination,

    /// Commit ports of the core, 1 to 4
    #[arg(long, value_name = "N", default_value_t = 2)]
    ports: u8,

    /// Bytes of a word of the trace bus: 1 (a byte stream), 2, 4 or 8
    #[arg(long, value_name = "BYTES", default_value_t = 1)]
    bus: u8,

    /// Packets that the buffer before the bus holds: a power of two from 4 to 256
    #[arg(long, value_name = "N", default_value_t = 16)]
    packets: u16,

    /// Wait for room in that buffer, and ask the core to wait; without it packets are lost, and the trace says so
    #[arg(long)]
    lossless: bool,

    /// Comparators of the filter, which is programmed at run time: iaddr, privilege, cause, tval, tvec
    #[arg(long, value_name = "INPUT", value_delimiter = ',', default_value = "iaddr,privilege")]
    filter: Vec<String>,

    /// Configuration of the encoder, as of the unit etrace: a parameter (iaddress_width=32), an option (full_address=1) or
    /// algorithm=cva6; may be given several times, a file of them is taken too
    #[arg(long, value_name = "FILE|KEY=VALUE")]
    config: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  backsight rtl etrace -o encoder
  backsight rtl etrace -o encoder --ports 1 --bus 4 --config iaddress_width=32 --config full_address=1
  backsight rtl etrace -o encoder --lossless --config algorithm=cva6-rtl
  make -C encoder lint";

/// Runs the command.
pub fn run(command: &Etrace) -> Result {
    let options = options(command)?;
    let files = design(&options).map_err(|error| Failure::usage(error.to_string()))?;
    command.destination.put(&files, &options.words())
}

fn options(command: &Etrace) -> Result<Options> {
    let mut settings = backsight_capture::settings(&command.config).map_err(Failure::usage)?;
    // Beats of 40 bytes are a file format of the thesis, not what its hardware would put on a bus.
    settings.insert(0, ("framing".to_owned(), "atb".to_owned()));
    let unit =
        etrace_unit(Isa::Rv64, &settings).map_err(|error| Failure::usage(format!("--config {error}")))?;
    let mut filter = Comparators::default();
    for name in command.filter.iter().filter(|name| !name.is_empty()) {
        let comparator = filter.named(name).ok_or_else(|| {
            Failure::usage(format!("--filter {name}: iaddr, privilege, cause, tval or tvec is expected"))
        })?;
        *comparator = true;
    }
    let Etrace { ports, bus, packets, .. } = *command;
    let lossless = command.lossless || unit.cva6.is_some();
    Ok(Options { unit, ports, bus, packets, lossless, filter })
}
