//! The metadata of a trace package for the capture that results.

use std::fmt::Write;

use crate::session::{Session, TracedUnit};
use crate::system::Kind;

/// The name of the contents file.
pub const CONTENTS: &str = "contents.ini";
/// The name of the metadata file.
pub const METADATA: &str = "trace.ini";
/// The name that the trace is to have beside them.
pub const BUFFER: &str = "trace.bin";

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
    let _ = writeln!(text, "[trace_{id:#x}]\nformat={}\nsource={}", config.format(), component.name);
    if !component.core.is_empty() {
        let _ = writeln!(text, "core={}", component.core);
    }
    if let Some(cpu) = component.cpu {
        let _ = writeln!(text, "cpu={cpu}");
    }
    for (name, value) in config.registers() {
        let _ = writeln!(text, "{name}={value:#010x}");
    }
}
