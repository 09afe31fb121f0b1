//! An E-Trace encoder behind a connector for the commit ports of a core.
//!
//! ```text
//! commit ports ─► te_commit ─► te_connector ─► te_block_queue ─► te_encoder ─► trace bus
//!
//! te_encoder:  te_filter ─► te_items ─► te_priority ─► te_payload ─► te_packet_fifo ─► te_encap
//!              what is      current,     which         fields,       packets,          header, source,
//!              traced       next         packet        bytes         losses            sync
//! ```
//!
//! [`design`] gives its files. It is built from the same [`UnitConfig`] as the software's unit, and sends the same bytes;
//! what the unit can do and the hardware cannot is refused. `te_pkg` holds the configuration: widths, options, the bits of
//! support packets and the framing are those that the software encodes with.

mod package;

use std::fmt;

use backsight_riscv::encap::Framing;
use backsight_unit::cva6::Fidelity;
use backsight_unit::etrace::{Algorithm, UnitConfig, UnitError};
use backsight_unit::riscv::ResyncMode;

use crate::SourceFile;
use crate::ecp5::Flow;

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The encoder.
    pub unit: UnitConfig,
    /// Commit ports of the core, 1 to 4.
    pub ports: u8,
    /// Bytes of a word of the trace bus: 1, 2, 4 or 8.
    pub bus: u8,
    /// Packets that the buffer before the trace bus holds: a power of two from 4 to 256.
    pub packets: u16,
    /// The encoder waits for room in that buffer, and asks the core to wait; else packets are lost.
    pub lossless: bool,
    /// The comparators of the filter, which is programmed at run time.
    pub filter: Comparators,
}

/// Which comparators a filter has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparators {
    /// Addresses of blocks.
    pub iaddr: bool,
    /// Privilege.
    pub privilege: bool,
    /// Causes of traps.
    pub cause: bool,
    /// Values of exceptions.
    pub tval: bool,
    /// Where the latest trap led to.
    pub tvec: bool,
}

impl Comparators {
    /// All of them.
    pub const ALL: Self = Self { iaddr: true, privilege: true, cause: true, tval: true, tvec: true };

    /// The comparator of that name.
    pub fn named(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "iaddr" => &mut self.iaddr,
            "privilege" => &mut self.privilege,
            "cause" => &mut self.cause,
            "tval" => &mut self.tval,
            "tvec" => &mut self.tvec,
            _ => return None,
        })
    }
}

impl Options {
    /// Two commit ports, a byte stream, room for 16 packets, a filter of addresses and privilege.
    pub fn new(unit: UnitConfig) -> Self {
        let filter = Comparators { iaddr: true, privilege: true, ..Comparators::default() };
        Self { unit, ports: 2, bus: 1, packets: 16, lossless: unit.cva6.is_some(), filter }
    }

    /// The encoder in a line for people.
    pub fn words(&self) -> String {
        package::words(self)
    }

    /// The algorithm for CVA6, if that is the one.
    const fn cva6(&self) -> Option<Fidelity> {
        self.unit.cva6
    }
}

/// An encoder that the hardware cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The software cannot be it either.
    Unit(UnitError),
    /// A number is out of its range.
    Range {
        /// What it is.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// The hardware does not have this.
    Missing(&'static str),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(error) => error.fmt(f),
            Self::Range { name, expected } => write!(f, "{name}: {expected} is expected"),
            Self::Missing(what) => write!(f, "the hardware has no {what}"),
        }
    }
}

impl std::error::Error for Unsupported {}

/// The files of an encoder, its testbench, its Makefile and an example for a small board.
///
/// # Errors
/// If the hardware cannot be that encoder.
pub fn design(options: &Options) -> Result<Vec<SourceFile>, Unsupported> {
    check(options)?;
    let mut files = vec![file("te_pkg.sv", package::package(options))];
    files.extend(CONNECTOR.iter().map(plain));
    let tracer: &[Template] = if options.cva6().is_some() { &CVA6 } else { &STANDARD };
    files.extend(tracer.iter().map(plain));
    files.extend(TRANSPORT.iter().map(plain));
    let sources: Vec<&str> = files.iter().map(|file| file.name).collect();
    let makefile = include_str!("sv/Makefile.in")
        .replace("@SOURCES@", &sources.join(" "))
        .replace("@SYNTHESIS@", &FLOW.synthesis_in_makefile("te_top"))
        .replace("@ROUTING@", &FLOW.routing("te_top.json"));
    files.extend(AROUND.iter().map(plain));
    files.push(file("Makefile", makefile));
    Ok(files)
}

/// Is there hardware for this?
fn check(options: &Options) -> Result<(), Unsupported> {
    let unit = &options.unit;
    backsight_unit::etrace::Unit::new(UnitConfig { fifo: None, ..*unit }).map_err(Unsupported::Unit)?;
    let range =
        |holds: bool, name, expected| if holds { Ok(()) } else { Err(Unsupported::Range { name, expected }) };
    range((1..=4).contains(&options.ports), "commit ports", "1 to 4")?;
    range(matches!(options.bus, 1 | 2 | 4 | 8), "bytes of the trace bus", "1, 2, 4 or 8")?;
    let depth = options.packets;
    range(depth.is_power_of_two() && (4..=256).contains(&depth), "packets", "a power of two from 4 to 256")?;
    let resync = unit.settings.resync;
    let limited = resync.mode == ResyncMode::Off || (1..1 << 24).contains(&resync.limit);
    range(limited, "resync", "a limit from 1 to 16777215")?;
    range(unit.sync_period < 1 << 24, "bytes between synchronisation sequences", "less than 16777216")?;
    range((32..=64).contains(&unit.params.iaddress_width), "iaddress_width", "32 to 64")?;
    range(unit.params.privilege_width >= 2, "privilege_width", "2 or 3")?;
    let params = &unit.params;
    let tables = [
        ("return_stack_size", params.return_stack_size),
        ("call_counter_size", params.call_counter_size),
        ("bpred_size", params.bpred_size),
        ("cache_size", params.cache_size),
    ];
    let has_tables =
        unit.options.implicit_return || unit.options.branch_prediction || unit.options.jump_target_cache;
    tables.into_iter().try_for_each(|(name, size)| range(size <= 10, name, "0 to 10"))?;
    let framing = match unit.framing {
        Framing::Reference { .. } => true,
        Framing::Standard(e) => matches!(e.source_bits % 8 + e.type_bits, 0 | 8),
        Framing::Esp32 | Framing::Pulp => false,
    };
    let missing = [
        (
            options.cva6().is_some() && has_tables,
            "implicit_return, branch_prediction and jump_target_cache with the algorithm for CVA6",
        ),
        (
            options.cva6().is_none() && unit.settings.algorithm == Algorithm::Reference,
            "algorithm=reference: current, cva6 and cva6-rtl are there",
        ),
        (unit.settings.data.is_some(), "data trace"),
        (unit.fifo.is_some(), "buffer of bytes: its size is a number of packets"),
        (unit.filter.is_some(), "filter that is fixed: it has comparators, which are programmed at run time"),
        (!framing, "framing like that: reference, atb, or encap with whole bytes before the payload"),
        (options.cva6().is_some() && !options.lossless, "way to lose packets with the algorithm for CVA6"),
    ];
    match missing.into_iter().find(|&(asked, _)| asked) {
        Some((_, what)) => Err(Unsupported::Missing(what)),
        None => Ok(()),
    }
}

/// How it comes to an ECP5.
pub(crate) const FLOW: Flow = Flow::Narrow;

type Template = (&'static str, &'static str);

/// From commit ports to blocks, in the order in which tools need them.
const CONNECTOR: [Template; 6] = [
    ("te_resolved.sv", include_str!("sv/te_resolved.sv")),
    ("te_commit.sv", include_str!("sv/te_commit.sv")),
    ("te_connector.sv", include_str!("sv/te_connector.sv")),
    ("te_block_queue.sv", include_str!("sv/te_block_queue.sv")),
    ("te_filter.sv", include_str!("sv/te_filter.sv")),
    ("te_stage.sv", include_str!("sv/te_stage.sv")),
];

/// From blocks to payloads, as the standard has it.
const STANDARD: [Template; 14] = [
    ("te_items.sv", include_str!("sv/te_items.sv")),
    ("te_branch_map.sv", include_str!("sv/te_branch_map.sv")),
    ("te_known.sv", include_str!("sv/te_known.sv")),
    ("te_predictor.sv", include_str!("sv/te_predictor.sv")),
    ("te_branches.sv", include_str!("sv/te_branches.sv")),
    ("te_return_stack.sv", include_str!("sv/te_return_stack.sv")),
    ("te_returns.sv", include_str!("sv/te_returns.sv")),
    ("te_jump_cache.sv", include_str!("sv/te_jump_cache.sv")),
    ("te_resync.sv", include_str!("sv/te_resync.sv")),
    ("te_priority.sv", include_str!("sv/te_priority.sv")),
    ("te_payload_length.sv", include_str!("sv/te_payload_length.sv")),
    ("te_payload_index.sv", include_str!("sv/te_payload_index.sv")),
    ("te_payload.sv", include_str!("sv/te_payload.sv")),
    ("te_encoder.sv", include_str!("sv/te_encoder.sv")),
];

/// From blocks to payloads, as the thesis's encoder for CVA6 has it.
const CVA6: [Template; 4] = [
    ("te_branch_map_cva6.sv", include_str!("sv/te_branch_map_cva6.sv")),
    ("te_priority_cva6.sv", include_str!("sv/te_priority_cva6.sv")),
    ("te_payload_cva6.sv", include_str!("sv/te_payload_cva6.sv")),
    ("te_encoder.sv", include_str!("sv/te_encoder_cva6.sv")),
];

/// From payloads to the trace bus, and all of it.
const TRANSPORT: [Template; 3] = [
    ("te_packet_fifo.sv", include_str!("sv/te_packet_fifo.sv")),
    ("te_encap.sv", include_str!("sv/te_encap.sv")),
    ("te_top.sv", include_str!("sv/te_top.sv")),
];

/// What is around the encoder: its testbench, and an example for a board.
const AROUND: [Template; 3] = [
    ("tb_te.sv", include_str!("sv/tb_te.sv")),
    ("example_top.sv", include_str!("sv/example_top.sv")),
    ("example_top.lpf", include_str!("sv/example_top.lpf")),
];

fn plain(&(name, text): &Template) -> SourceFile {
    file(name, text.to_owned())
}

fn file(name: &'static str, text: String) -> SourceFile {
    SourceFile { name, text }
}
