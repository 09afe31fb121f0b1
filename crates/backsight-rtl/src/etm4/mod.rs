//! A decoder for ETMv4 and ETE instruction trace that takes several bytes in every clock cycle.
//!
//! ```text
//! frames ─► frame_demux ─► lane_serialiser ─► etm4_decoder ─► packets, records
//!
//! chain:   etm4_header ─► etm4_stream_chain ─► etm4_places ─► etm4_fields ─► etm4_state_chain ─► etm4_record
//!          byte alone     boundaries           register       fields         addresses, time     branch, event …
//! prefix:  lane_packer ─► etm4_lengths ─► etm4_stream_prefix ─► etm4_packets_prefix ─► etm4_state_prefix ─► etm4_record_prefix
//!          full words     of all lanes    boundaries            kinds, fields          addresses, time      branch, event …
//! ```
//!
//! The chain takes one byte after the other within a cycle, so that its clock falls with every lane. In the
//! parallel-prefix form no path goes through all lanes; it is larger, and gives packets at the lanes of their headers.
//!
//! [`design`] gives its files. `etm4_header` and `etm4_meaning` are the header map of [`backsight_arm::etm4::ROWS`];
//! `etm4_pkg` holds the configuration of the trace unit.

mod header;
mod meaning;
mod package;
mod text;

use backsight_arm::etm4::Config;

use crate::SourceFile;
use crate::ecp5::Flow;

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes a cycle: 1 to 16 for a chain, 8 or 16 for the parallel-prefix form.
    pub lanes: u8,
    /// How lanes depend on each other.
    pub form: Form,
    /// The trace unit whose stream is decoded.
    pub config: Config,
}

/// How the lanes of a decoder depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One byte after the other within a cycle: small, and slower with every lane.
    Chain,
    /// Parallel prefix: what each byte could be first, then a tree over the lanes.
    Prefix,
}

impl Form {
    /// Is there a decoder of this form for so many bytes a cycle?
    pub const fn takes(self, lanes: u8) -> bool {
        match self {
            Self::Chain => 1 <= lanes && lanes <= MAX_LANES,
            Self::Prefix => matches!(lanes, 8 | 16),
        }
    }

    /// How it comes to an ECP5.
    pub(crate) const fn flow(self) -> Flow {
        match self {
            Self::Chain => Flow::Narrow,
            Self::Prefix => Flow::Wide,
        }
    }

    /// The mark of lines in templates that are for this form alone.
    const fn mark(self) -> &'static str {
        match self {
            Self::Chain => "//@chain",
            Self::Prefix => "//@prefix",
        }
    }

    /// The modules of this form, in the order in which tools need them.
    const fn modules(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Chain => &CHAIN,
            Self::Prefix => &PREFIX,
        }
    }
}

/// There is no decoder of this form for so many bytes a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLanes(Form);

impl std::fmt::Display for BadLanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Form::Chain => write!(f, "a chain takes 1 to {MAX_LANES} bytes a cycle"),
            Form::Prefix => write!(f, "the parallel-prefix form takes 8 or 16 bytes a cycle"),
        }
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
    if !options.form.takes(options.lanes) {
        return Err(BadLanes(options.form));
    }
    let mut files = vec![
        file("etm4_pkg.sv", package::package(&config)),
        // Rows of the map exclude each other: the parallel-prefix form says so to tools, for fewer levels. The chain is smaller without.
        file("etm4_header.sv", instance(&header::module(&config), options)),
        file("etm4_meaning.sv", instance(&meaning::module(&config), options)),
    ];
    for (name, template) in options.form.modules().iter().chain(&FRAMES) {
        files.push(file(name, instance(template, options)));
    }
    let sources: Vec<&str> = files.iter().map(|file| file.name).collect();
    let flow = options.form.flow();
    let makefile = include_str!("sv/Makefile.in")
        .replace("@SOURCES@", &sources.join(" "))
        .replace("@SYNTHESIS@", &flow.synthesis_in_makefile("$(TOP)"))
        .replace("@ROUTING@", &flow.routing("timing.json"));
    files.extend(AROUND.iter().map(|&(name, template)| file(name, instance(template, options))));
    files.push(file("Makefile", makefile));
    Ok(files)
}

const CHAIN: [(&str, &str); 7] = [
    ("etm4_stream_chain.sv", include_str!("sv/etm4_stream_chain.sv")),
    ("etm4_places.sv", include_str!("sv/etm4_places.sv")),
    ("etm4_fields.sv", include_str!("sv/etm4_fields.sv")),
    ("etm4_state_chain.sv", include_str!("sv/etm4_state_chain.sv")),
    ("etm4_record.sv", include_str!("sv/etm4_record.sv")),
    ("delay.sv", include_str!("sv/delay.sv")),
    ("etm4_decoder.sv", include_str!("sv/etm4_decoder.sv")),
];

const PREFIX: [(&str, &str); 22] = [
    ("etm4_prefix_pkg.sv", include_str!("sv/etm4_prefix_pkg.sv")),
    ("word_delay.sv", include_str!("sv/word_delay.sv")),
    ("word_window.sv", include_str!("sv/word_window.sv")),
    ("word_queue.sv", include_str!("sv/word_queue.sv")),
    ("steps.sv", include_str!("sv/steps.sv")),
    ("delay.sv", include_str!("sv/delay.sv")),
    ("block_delay.sv", include_str!("sv/block_delay.sv")),
    ("lane_packer.sv", include_str!("sv/lane_packer.sv")),
    ("etm4_sections.sv", include_str!("sv/etm4_sections.sv")),
    ("etm4_lengths.sv", include_str!("sv/etm4_lengths.sv")),
    ("etm4_search.sv", include_str!("sv/etm4_search.sv")),
    ("etm4_room.sv", include_str!("sv/etm4_room.sv")),
    ("etm4_stream_prefix.sv", include_str!("sv/etm4_stream_prefix.sv")),
    ("etm4_packets_prefix.sv", include_str!("sv/etm4_packets_prefix.sv")),
    ("lane_scan.sv", include_str!("sv/lane_scan.sv")),
    ("register_walk.sv", include_str!("sv/register_walk.sv")),
    ("etm4_threshold_prefix.sv", include_str!("sv/etm4_threshold_prefix.sv")),
    ("etm4_history_step.sv", include_str!("sv/etm4_history_step.sv")),
    ("etm4_history_prefix.sv", include_str!("sv/etm4_history_prefix.sv")),
    ("etm4_state_prefix.sv", include_str!("sv/etm4_state_prefix.sv")),
    ("etm4_record_prefix.sv", include_str!("sv/etm4_record_prefix.sv")),
    ("etm4_decoder.sv", include_str!("sv/etm4_decoder_prefix.sv")),
];

/// The modules around the decoder: records alone, and frames taken apart.
const FRAMES: [(&str, &str); 4] = [
    ("etm4_records.sv", include_str!("sv/etm4_records.sv")),
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

/// A template with the choices of the user in it. Lines that end with the mark of a form are for that form alone.
fn instance(template: &str, options: &Options) -> String {
    let mut text = String::with_capacity(template.len());
    for line in template.lines() {
        let line = match (line.strip_suffix(options.form.mark()), line.contains("//@")) {
            (Some(line), _) => line.trim_end(),
            (None, true) => continue,
            (None, false) => line,
        };
        text += line;
        text.push('\n');
    }
    text.replace("@LANES@", &options.lanes.to_string())
}

fn file(name: &'static str, text: String) -> SourceFile {
    SourceFile { name, text }
}
