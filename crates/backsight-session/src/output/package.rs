//! The metadata of a trace package for the capture that results.

use std::fmt::Write;

use backsight_arm::etm4::Config;

use crate::session::{Session, TracedUnit};
use crate::system::Kind;

/// The name of the contents file.
pub const CONTENTS: &str = "contents.ini";
/// The name of the metadata file.
pub const METADATA: &str = "trace.ini";
/// The name that the trace is to have beside them.
pub const BUFFER: &str = "trace.bin";

/// The registers that a decoder of ETMv4 or ETE reads.
const REGISTERS: [&str; 14] = [
    "TRCCONFIGR",
    "TRCTRACEIDR",
    "TRCCCCTLR",
    "TRCIDR0",
    "TRCIDR1",
    "TRCIDR2",
    "TRCIDR3",
    "TRCIDR8",
    "TRCIDR9",
    "TRCIDR10",
    "TRCIDR11",
    "TRCIDR12",
    "TRCIDR13",
    "TRCDEVARCH",
];

/// The contents file and the metadata file of a trace package, from what the registers hold after the start.
pub fn package(session: &Session) -> [(&'static str, String); 2] {
    let contents = format!(
        "; Trace package: put the trace beside this file as {BUFFER}\n[trace]\nmetadata={METADATA}\nbuffer0={BUFFER}\n"
    );
    // The port sends frames with synchronisation between them; buffers in memory need none.
    let format = if session.sink.kind == Kind::Tpiu { "tpiu" } else { "coresight" };
    let mut metadata = format!(
        "[buffer]\nvendor=ARM\ncomponent={}\nformat={format}\n",
        session.sink.kind.name().to_uppercase()
    );
    if let Some(address) = session.sink.address {
        let _ = writeln!(metadata, "id={address:#x}");
    }
    session.units.iter().for_each(|unit| source(unit, &mut metadata));
    [(CONTENTS, contents), (METADATA, metadata)]
}

fn source(unit: &TracedUnit, text: &mut String) {
    let TracedUnit { component, id, config } = unit;
    let _ = writeln!(text, "[trace_{id:#x}]\nformat={}\nsource={}", version(config), component.name);
    if !component.core.is_empty() {
        let _ = writeln!(text, "core={}", component.core);
    }
    if let Some(cpu) = component.cpu {
        let _ = writeln!(text, "cpu={cpu}");
    }
    for name in REGISTERS {
        let _ = writeln!(text, "{name}={:#010x}", config.register(name).unwrap_or(0));
    }
}

fn version(config: &Config) -> String {
    let version = config.version().0;
    if config.is_ete() { format!("ETE1.{}", version & 0xF) } else { format!("ETM4.{}", version & 0xF) }
}
