//! The trace unit of one RISC-V hart, of either protocol.

use backsight_core::Execution;
use backsight_riscv::encap::Framing;
use backsight_unit::{etrace, ntrace};

use super::cycles;

/// How harts are programmed.
#[derive(Clone, Debug)]
pub enum HartConfig {
    /// E-Trace, and the word for its framing.
    Etrace(Box<etrace::UnitConfig>, &'static str),
    /// N-Trace.
    Ntrace(Box<ntrace::UnitConfig>),
}

impl HartConfig {
    /// The same for harts whose bytes travel in frames: these tell harts apart, so packets need no more than a header.
    pub fn in_frames(&self) -> Self {
        match self {
            Self::Etrace(unit, _) => {
                let unit = etrace::UnitConfig { framing: Framing::REFERENCE, ..**unit };
                Self::Etrace(Box::new(unit), "coresight")
            }
            Self::Ntrace(unit) => Self::Ntrace(unit.clone()),
        }
    }

    /// The word for the framing of a hart alone.
    pub fn framing(&self) -> &'static str {
        match self {
            Self::Etrace(_, word) => word,
            Self::Ntrace(_) => "raw",
        }
    }
}

/// A unit.
pub enum Hart {
    /// E-Trace.
    Etrace(Box<etrace::Unit>),
    /// N-Trace.
    Ntrace(Box<ntrace::Unit>),
}

impl Hart {
    /// A unit that has seen nothing yet.
    pub fn new(config: &HartConfig) -> Result<Self, String> {
        Ok(match config {
            HartConfig::Etrace(unit, _) => {
                Self::Etrace(Box::new(etrace::Unit::new(**unit).map_err(|error| error.to_string())?))
            }
            HartConfig::Ntrace(unit) => {
                Self::Ntrace(Box::new(ntrace::Unit::new(**unit).map_err(|error| error.to_string())?))
            }
        })
    }

    /// One step of execution; bytes of trace go to the end of `out`.
    #[inline]
    pub fn push(&mut self, item: Execution, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Etrace(unit) => unit.push(item, out).map_err(|error| error.to_string()),
            Self::Ntrace(unit) => {
                unit.push(item, out);
                Ok(())
            }
        }
    }

    /// Execution ends here.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Etrace(unit) => unit.finish(out).map_err(|error| error.to_string()),
            Self::Ntrace(unit) => {
                unit.finish(out);
                Ok(())
            }
        }
    }

    /// What is to be said about the run: what the cycles of the hart cost, and a buffer that was too small.
    pub fn remarks(&self) -> Vec<String> {
        let (figures, losses) = match self {
            Self::Etrace(unit) => (unit.cycles(), unit.losses()),
            Self::Ntrace(unit) => (unit.cycles(), None),
        };
        figures.iter().map(cycles::in_words).chain(losses.iter().map(cycles::losses_in_words)).collect()
    }
}
