//! What the hardware costs: synthesis, and place and route, of its variants.
//!
//! Every variant has a folder of its own with its files and what the tools wrote. A step that was done there with the same
//! sources, the same command and the same tool is not done again, so that a run can be stopped and taken up.

mod netlist;
mod steps;
mod tools;

use backsight_arm::etm4::Config;
use backsight_unit::etrace::UnitConfig;

pub use netlist::Netlist;
pub use steps::{MeasurementStep, measure};
pub use tools::{Error, Tool, Tools};

use crate::ecp5::Flow;
use crate::etm4::{Form, Options};
use crate::{SourceFile, etm4, etrace};

/// A design that is measured.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What it is called: `chain-4`, `prefix-16`, `encoder`, `encoder-returns`.
    pub name: String,
    /// Which family it belongs to.
    pub family: Family,
    /// Bytes a cycle of a decoder.
    pub lanes: Option<u8>,
    /// Its top module.
    pub top: &'static str,
    /// How it comes to an ECP5.
    flow: Flow,
    /// Its files.
    pub files: Vec<SourceFile>,
}

/// Variants that differ in their width only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The decoder as a chain.
    Chain,
    /// The decoder in parallel-prefix form.
    Prefix,
    /// The E-Trace encoder with its connector.
    Encoder,
}

impl Family {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Prefix => "prefix",
            Self::Encoder => "encoder",
        }
    }
}

impl Variant {
    /// A decoder of which only records are used, or every output. Nothing if there is none so wide.
    pub fn decoder(form: Form, lanes: u8, config: Config, all_outputs: bool) -> Option<Self> {
        let family = match form {
            Form::Chain => Family::Chain,
            Form::Prefix => Family::Prefix,
        };
        let files = etm4::design(&Options { lanes, form, config }).ok()?;
        let top = if all_outputs { "etm4_decoder" } else { "etm4_records" };
        let name = format!("{}-{lanes}{}", family.name(), if all_outputs { "-all" } else { "" });
        Some(Self { name, family, lanes: Some(lanes), top, flow: form.flow(), files })
    }

    /// The usual encoder: two commit ports, a byte stream, room for 16 packets. `with` is for its name: what it has besides.
    /// Nothing if the unit cannot be hardware.
    pub fn encoder(unit: UnitConfig, with: Option<&str>) -> Option<Self> {
        let files = etrace::design(&etrace::Options::new(unit)).ok()?;
        let (family, flow) = (Family::Encoder, etrace::FLOW);
        let name = with.map_or(family.name().to_owned(), |with| format!("{}-{with}", family.name()));
        Some(Self { name, family, lanes: None, top: "te_top", flow, files })
    }
}

/// What a variant takes, as far as it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Mapped to LUTs of six inputs, whatever the device; without carry chains, memories apart.
    pub generic: Option<Netlist>,
    /// Mapped to UltraScale+.
    pub xilinx: Option<Netlist>,
    /// Placed and routed on an ECP5.
    pub routed: Option<Routed>,
}

/// What place and route says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Routed {
    /// The fastest clock, in MHz.
    pub clock: f64,
    /// LUTs of four inputs, carry chains and memories included.
    pub luts: u64,
    /// Flip-flops.
    pub flip_flops: u64,
    /// Block RAMs of 18 Kbit.
    pub block_rams: u64,
}
