//! A snapshot folder: the little of it that a decoder needs.

use super::{Flavour, Program};
use backsight_arm::etm4::Config;
use std::fmt::Write;
use std::path::Path;

/// One source: its configuration and, where the buffer is not shared, its bytes.
pub struct Source<'a> {
    pub config: &'a Config,
    pub name: &'a str,
}

/// Writes a snapshot of one buffer with frames (or with the bytes of a single source, where `framed` is not set) into
/// an empty folder.
pub fn write(folder: &Path, program: &Program, sources: &[Source<'_>], buffer: &[u8], framed: bool) {
    let put =
        |name: &str, contents: &[u8]| std::fs::write(folder.join(name), contents).expect("temporary file");
    let mut devices = String::new();
    let mut in_buffer = String::new();
    let mut of_core = String::new();
    let mut dumps = String::new();
    for (number, (base, code)) in program.segments.iter().enumerate() {
        let file = format!("code{number}.bin");
        // Some decoders read four bytes where two are left.
        let code = [code.as_slice(), &[0; 4]].concat();
        writeln!(dumps, "[dump{number}]\nfile={file}\naddress={base:#x}\nlength={:#x}\n", code.len())
            .unwrap();
        put(&file, &code);
    }
    for (number, source) in sources.iter().enumerate() {
        let registers = &source.config.registers;
        let core = if program.flavour == Flavour::A64 { "ARM-AA64" } else { "Cortex-A53" };
        let core = format!(
            "[device]\nname=cpu_{number}\nclass=core\ntype={core}\n\n[regs]\nPC(size:64)=0x0\n\n{dumps}"
        );
        put(&format!("cpu_{number}.ini"), core.as_bytes());
        let kind = if source.config.is_ete() { "ETE" } else { "ETM4" };
        let unit = format!(
            "[device]\nname={}\nclass=trace_source\ntype={kind}\n\n[regs]\n\
             TRCCONFIGR={:#x}\nTRCTRACEIDR={:#x}\nTRCIDR0={:#x}\nTRCIDR1={:#x}\nTRCIDR2={:#x}\nTRCIDR8={:#x}\n\
             TRCDEVARCH={:#x}\n",
            source.name,
            registers.configr,
            registers.traceidr,
            registers.idr0,
            registers.idr1,
            registers.idr2,
            registers.idr8,
            registers.devarch,
        );
        put(&format!("unit_{number}.ini"), unit.as_bytes());
        let _ = writeln!(
            devices,
            "device{}=cpu_{number}.ini\ndevice{}=unit_{number}.ini",
            2 * number,
            2 * number + 1
        );
        let _ = writeln!(in_buffer, "{}=ETB_0", source.name);
        let _ = writeln!(of_core, "cpu_{number}={}", source.name);
    }
    put(
        "snapshot.ini",
        format!("[snapshot]\nversion=1.0\ndescription=Random program\n\n[device_list]\n{devices}\n[trace]\nmetadata=trace.ini\n")
            .as_bytes(),
    );
    let format = if framed { "coresight" } else { "source_data" };
    put(
        "trace.ini",
        format!(
            "[trace_buffers]\nbuffers=buffer0\n\n[buffer0]\nname=ETB_0\nfile=trace.bin\nformat={format}\n\n\
             [source_buffers]\n{in_buffer}\n[core_trace_sources]\n{of_core}"
        )
        .as_bytes(),
    );
    put("trace.bin", buffer);
}
