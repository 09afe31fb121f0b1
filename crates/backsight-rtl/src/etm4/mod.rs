//! A decoder for ETMv4 and ETE instruction trace that takes several bytes in every clock cycle.
//!
//! ```text
//! frames ─► frame_demux ─► lane_serialiser ─► etm4_decoder ─► packets, records
//!
//! etm4_decoder:  etm4_header ─► etm4_stream_* ─► etm4_places ─► etm4_fields ─► etm4_state_chain ─► etm4_record
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

/// How packet boundaries are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The state of the stream goes through a step for each byte, all in one cycle: small, and slower with every lane.
    #[default]
    Chain,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::Chain];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
        }
    }

    /// The form of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes a cycle, 1 to 16.
    pub lanes: u8,
    /// How packet boundaries are found.
    pub form: Form,
    /// The trace unit whose stream is decoded.
    pub config: Config,
}

/// Why there is no such design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLanes {
    form: Form,
}

impl std::fmt::Display for BadLanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.form {
            Form::Chain => f.write_str("the chain takes 1 to 16 bytes a cycle"),
        }
    }
}

impl std::error::Error for BadLanes {}

/// Greatest number of bytes a cycle.
pub const MAX_LANES: u8 = 16;

/// The files of a decoder, its testbench, its Makefile and an example for a small board.
///
/// # Errors
/// If the form cannot take so many bytes a cycle.
pub fn design(options: &Options) -> Result<Vec<SourceFile>, BadLanes> {
    let Options { lanes, form, config } = *options;
    let can = match form {
        Form::Chain => (1..=MAX_LANES).contains(&lanes),
    };
    if !can {
        return Err(BadLanes { form });
    }
    let mut files = vec![
        file("etm4_pkg.sv", package::package(&config)),
        file("etm4_header.sv", header::module(&config)),
        file("etm4_meaning.sv", meaning::module(&config)),
    ];
    files.extend(modules(form).iter().map(|&(name, template)| file(name, instance(template, options))));
    let sources: Vec<&str> = files.iter().map(|file| file.name).collect();
    let makefile = include_str!("sv/Makefile.in").replace("@SOURCES@", &sources.join(" "));
    files.extend(AROUND.iter().map(|&(name, template)| file(name, instance(template, options))));
    files.push(file("Makefile", makefile));
    Ok(files)
}

/// The modules of the decoder, in the order in which tools need them.
fn modules(form: Form) -> &'static [(&'static str, &'static str)] {
    match form {
        Form::Chain => &[
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
        ],
    }
}

/// What is around the decoder: its testbench, and an example for a board.
const AROUND: [(&str, &str); 4] = [
    ("tb_etm4.sv", include_str!("sv/tb_etm4.sv")),
    ("frame_port.sv", include_str!("sv/frame_port.sv")),
    ("example_top.sv", include_str!("sv/example_top.sv")),
    ("example_top.lpf", include_str!("sv/example_top.lpf")),
];

/// A template with the choices of the user in it.
fn instance(template: &str, options: &Options) -> String {
    let (stream, fields, latency) = match options.form {
        Form::Chain => (include_str!("sv/stream_chain.inc"), include_str!("sv/fields_chain.inc"), "six"),
    };
    template
        .replace("@STREAM@\n", stream)
        .replace("@FIELDS@\n", fields)
        .replace("@PACKET_LATENCY@", latency)
        .replace("@LANES@", &options.lanes.to_string())
        .replace("@CONFIGURATION@", &options.config.words().to_string())
}

fn file(name: &'static str, text: String) -> SourceFile {
    SourceFile { name, text }
}
