//! Trace units: the accesses that program them for a request, as far as their ID registers allow it, and what a
//! decoder has to know of them then.

pub mod etm;
mod etm4;

use std::fmt;

use backsight_arm::{etm3, etm4 as etm4_protocol, ptm};

use crate::Error;
use crate::register::Register;
use crate::request::Request;
use crate::sequence::Steps;
use crate::system::{Component, Kind};

/// What a decoder has to know of a trace unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitConfig {
    /// ETMv4 or ETE.
    Etm4(etm4_protocol::Config),
    /// ETMv3.
    Etm3(etm3::Config),
    /// PTM.
    Ptm(ptm::Config),
}

/// The registers that a decoder of ETMv4 or ETE reads.
const ETM4_REGISTERS: [&str; 14] = [
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

impl UnitConfig {
    /// The format of its trace, with its version, in the words of trace packages.
    pub fn format(&self) -> String {
        match self {
            Self::Etm4(config) => {
                let name = if config.is_ete() { "ETE1" } else { "ETM4" };
                format!("{name}.{}", config.version().0 & 0xF)
            }
            Self::Etm3(config) => format!("ETM3.{}", config.minor()),
            Self::Ptm(config) => format!("PFT1.{}", config.minor()),
        }
    }

    /// The registers that a decoder reads, with their values.
    pub fn registers(&self) -> Vec<(&'static str, u32)> {
        let names: &[&'static str] = match self {
            Self::Etm4(_) => &ETM4_REGISTERS,
            Self::Etm3(_) | Self::Ptm(_) => &ptm::Registers::NAMES,
        };
        names.iter().map(|name| (*name, self.register(name).unwrap_or(0))).collect()
    }

    /// A register by name.
    pub fn register(&self, name: &str) -> Option<u32> {
        match self {
            Self::Etm4(config) => config.register(name),
            Self::Etm3(config) => config.registers.get(name),
            Self::Ptm(config) => config.registers.get(name),
        }
    }
}

impl fmt::Display for UnitConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etm4(config) => config.words().fmt(f),
            Self::Etm3(config) => config.words().fmt(f),
            Self::Ptm(config) => config.words().fmt(f),
        }
    }
}

/// The decoder's view of a unit with these registers.
pub fn config(unit: &Component, settings: impl Fn(Register) -> u32) -> UnitConfig {
    match unit.kind {
        Kind::Etm3 => UnitConfig::Etm3(etm::etm3_config(unit, settings)),
        Kind::Ptm => UnitConfig::Ptm(etm::ptm_config(unit, settings)),
        _ => UnitConfig::Etm4(etm4::config(unit, settings)),
    }
}

/// The accesses that program a unit and switch it on.
///
/// # Errors
/// If the unit cannot do what is asked for.
pub fn start(unit: &Component, request: &Request, id: u8, steps: &mut Steps) -> Result<(), Error> {
    if !unit.is_identified() {
        let names = unit.kind.id_registers();
        let what = format!("the system gives none of its ID registers ({}, {} …)", names[0], names[1]);
        return Err(Error::of(&unit.name, what));
    }
    for range in &request.ranges {
        if range.is_empty() {
            return Err(Error::new(format!("range {:#x}..{:#x} is empty", range.start, range.end)));
        }
    }
    match unit.kind {
        Kind::Etm3 | Kind::Ptm => etm::start(unit, request, id, steps),
        _ => etm4::start(unit, request, id, steps),
    }
}

/// The accesses that switch a unit off, when all of its trace is out.
pub fn stop(unit: &Component, steps: &mut Steps) {
    match unit.kind {
        Kind::Etm3 | Kind::Ptm => etm::stop(unit, steps),
        _ => etm4::stop(steps),
    }
}

/// Refuses what a unit does not have; `field` is what says so.
fn need(unit: &Component, has: bool, wanted: &str, field: &str) -> Result<(), Error> {
    if has {
        return Ok(());
    }
    Err(Error::of(&unit.name, format!("{wanted}: the trace unit cannot, says {field}")))
}
