//! A decoder for ETMv4 and ETE instruction trace that takes several bytes in every clock cycle.
//!
//! ```text
//! frames ─► frame_demux ─► lane_serialiser ─► etm4_decoder ─► packets, records
//!
//! etm4_decoder:  etm4_header ─► etm4_stream_chain ─► etm4_places ─► etm4_fields ─► etm4_state_chain ─► etm4_record
//!                byte alone     boundaries       register       fields         addresses, time     branch, event …
//! ```
//!
//! [`design`] gives its files. `etm4_header` and `etm4_meaning` are the header map of [`backsight_arm::etm4::ROWS`];
//! `etm4_pkg` holds the configuration of the trace unit.

mod header;
mod meaning;
mod package;
mod text;

use backsight_arm::etm4::Config;

use crate::SourceFile;

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes a cycle, 1 to 16.
    pub lanes: u8,
    /// The trace unit whose stream is decoded.
    pub config: Config,
}

/// There is no decoder of so many bytes a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLanes;

impl std::fmt::Display for BadLanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a decoder takes 1 to {MAX_LANES} bytes a cycle")
    }
}

impl std::error::Error for BadLanes {}

/// Greatest number of bytes a cycle.
pub const MAX_LANES: u8 = 16;

/// The files of a decoder, its testbench, its Makefile and an example for a small board.
///
/// # Errors
/// If it cannot take so many bytes a cycle.
pub fn design(options: &Options) -> Result<Vec<SourceFile>, BadLanes> {
    let config = options.config;
    if !(1..=MAX_LANES).contains(&options.lanes) {
        return Err(BadLanes);
    }
    let mut files = vec![
        file("etm4_pkg.sv", package::package(&config)),
        file("etm4_header.sv", header::module(&config)),
        file("etm4_meaning.sv", meaning::module(&config)),
    ];
    files.extend(MODULES.iter().map(|&(name, template)| file(name, instance(template, options))));
    let sources: Vec<&str> = files.iter().map(|file| file.name).collect();
    let makefile = include_str!("sv/Makefile.in").replace("@SOURCES@", &sources.join(" "));
    files.extend(AROUND.iter().map(|&(name, template)| file(name, instance(template, options))));
    files.push(file("Makefile", makefile));
    Ok(files)
}

/// The modules of the decoder, in the order in which tools need them.
const MODULES: [(&str, &str); 10] = [
    ("etm4_stream_chain.sv", include_str!("sv/etm4_stream_chain.sv")),
    ("etm4_places.sv", include_str!("sv/etm4_places.sv")),
    ("etm4_fields.sv", include_str!("sv/etm4_fields.sv")),
    ("etm4_state_chain.sv", include_str!("sv/etm4_state_chain.sv")),
    ("etm4_record.sv", include_str!("sv/etm4_record.sv")),
    ("delay.sv", include_str!("sv/delay.sv")),
    ("etm4_decoder.sv", include_str!("sv/etm4_decoder.sv")),
    ("frame_demux.sv", include_str!("sv/frame_demux.sv")),
    ("lane_serialiser.sv", include_str!("sv/lane_serialiser.sv")),
    ("coresight_etm4.sv", include_str!("sv/coresight_etm4.sv")),
];

/// What is around the decoder: its testbench, and an example for a board.
const AROUND: [(&str, &str); 4] = [
    ("tb_etm4.sv", include_str!("sv/tb_etm4.sv")),
    ("frame_port.sv", include_str!("sv/frame_port.sv")),
    ("example_top.sv", include_str!("sv/example_top.sv")),
    ("example_top.lpf", include_str!("sv/example_top.lpf")),
];

/// A template with the choices of the user in it.
fn instance(template: &str, options: &Options) -> String {
    template.replace("@LANES@", &options.lanes.to_string())
}

fn file(name: &'static str, text: String) -> SourceFile {
    SourceFile { name, text }
}
