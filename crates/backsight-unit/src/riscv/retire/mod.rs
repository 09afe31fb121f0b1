//! Several instructions retire in one cycle: what the interface carries, and what it costs.
//!
//! Two shapes of encoder take more than one block a cycle. With *branches only* the core retires up to N branches a
//! cycle, of which none needs a packet by itself, and at most one other discontinuity, the last: one filter for each
//! block, a branch map that takes N outcomes at once, one packet a cycle. With *N blocks* any of them may be an
//! uninferable discontinuity: filter, priority and packet emitter are there N times, and so are packets.
//!
//! ```text
//!  core ──► commit ports ──► connector ──► groups of blocks ──► encoder ──► packets
//!           as many as       FIFOs, types,  what one cycle      takes a     one a cycle,
//!           fit a cycle      serialiser     may carry           group       or N
//! ```
//!
//! [`Pipeline`] runs a stream of executed instructions through these stages, cycle by cycle, and counts. Whatever the
//! shape, the blocks are the same and in the same order, so the packets are those of single retirement: only the cycles
//! differ, and what depends on them (time, and resyncs that are counted in cycles).

mod commit;
mod figures;
mod pipeline;
#[cfg(test)]
mod tests;

use core::fmt;
use core::str::FromStr;

use std::string::String;

pub use figures::Figures;
pub use pipeline::{Consumer, InOrder, Pipeline};

/// Most commit ports, and blocks a cycle.
pub const MOST_PORTS: u8 = 16;

/// What may retire in one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// Up to so many branches, and after them at most one other discontinuity.
    Branches(u8),
    /// Up to so many blocks, whatever they end in.
    Blocks(u8),
}

impl Architecture {
    /// Most blocks that one cycle carries.
    pub const fn most_blocks(self) -> u8 {
        match self {
            Self::Branches(branches) => branches.saturating_add(1),
            Self::Blocks(blocks) => blocks,
        }
    }

    /// Most packets that leave the encoder in one cycle: as many as it has emitters.
    pub const fn most_packets(self) -> u8 {
        match self {
            Self::Branches(_) => 1,
            Self::Blocks(blocks) => blocks,
        }
    }
}

/// How the connector hands instructions to the state machine that builds blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Serialiser {
    /// All ports in one cycle.
    #[default]
    Parallel,
    /// One port after the other, one a cycle, as in the thesis: its core commits less than one instruction a cycle on
    /// average, and FIFOs even out the rest.
    Serial,
}

/// How a hart retires, and how its blocks reach the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retirement {
    /// What may retire in one cycle.
    pub architecture: Architecture,
    /// Commit ports: instructions that may retire in one cycle.
    pub ports: u8,
    /// How the connector works.
    pub serialiser: Serialiser,
}

impl Retirement {
    /// One instruction a cycle.
    pub const SINGLE: Self =
        Self { architecture: Architecture::Blocks(1), ports: 1, serialiser: Serialiser::Parallel };

    /// As many ports as the architecture has branches or blocks.
    pub const fn new(architecture: Architecture) -> Self {
        let (Architecture::Branches(ports) | Architecture::Blocks(ports)) = architecture;
        Self { architecture, ports, serialiser: Serialiser::Parallel }
    }
}

/// What is expected of the text of a [`Retirement`].
const EXPECTED: &str = "expected single, branches:N or blocks:N, then /PORTS for another number of commit ports \
                        than N and +serial for a connector that takes one port a cycle; numbers are 1 to 16";

impl FromStr for Retirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || std::format!("`{text}`: {EXPECTED}");
        let (shape, serial) = match text.strip_suffix("+serial") {
            Some(shape) => (shape, true),
            None => (text, false),
        };
        let number =
            |text: &str| text.parse().ok().filter(|n| (1..=MOST_PORTS).contains(n)).ok_or_else(wrong);
        let (shape, ports) = match shape.split_once('/') {
            Some((shape, ports)) => (shape, Some(number(ports)?)),
            None => (shape, None),
        };
        let architecture = match shape.split_once(':') {
            None if shape == "single" => Architecture::Blocks(1),
            Some(("branches", branches)) => Architecture::Branches(number(branches)?),
            Some(("blocks", blocks)) => Architecture::Blocks(number(blocks)?),
            _ => return Err(wrong()),
        };
        let usual = Self::new(architecture);
        let serialiser = if serial { Serialiser::Serial } else { Serialiser::Parallel };
        Ok(Self { ports: ports.unwrap_or(usual.ports), serialiser, ..usual })
    }
}

impl fmt::Display for Retirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::new(self.architecture);
        match self.architecture {
            Architecture::Branches(branches) => write!(f, "branches:{branches}")?,
            Architecture::Blocks(1) => f.write_str("single")?,
            Architecture::Blocks(blocks) => write!(f, "blocks:{blocks}")?,
        }
        if self.ports != usual.ports {
            write!(f, "/{}", self.ports)?;
        }
        if self.serialiser == Serialiser::Serial { f.write_str("+serial") } else { Ok(()) }
    }
}
