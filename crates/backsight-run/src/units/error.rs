//! Why units cannot trace what they are to trace.

use std::fmt;

use backsight_arm::frame::NotASource;
use backsight_core::Isa;
use backsight_unit::{etm4, etrace, ntrace};

/// Why units cannot trace what they are to trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnitError {
    /// There can be no such ETMv4 or ETE.
    Etm4(etm4::UnitError),
    /// There can be no such E-Trace encoder.
    Etrace(etrace::UnitError),
    /// There can be no such N-Trace encoder.
    Ntrace(ntrace::UnitError),
    /// There can be no such core.
    Model(&'static str),
    /// A trace ID that CoreSight frames cannot carry.
    Frames(NotASource),
    /// There are trace IDs for so many threads, and no more.
    TooManyThreads(usize),
    /// A program in an instruction set that the unit does not trace.
    Isa {
        /// The program.
        name: String,
        /// The unit.
        title: &'static str,
        /// The instruction set.
        isa: Isa,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etm4(error) => error.fmt(f),
            Self::Etrace(error) => error.fmt(f),
            Self::Ntrace(error) => error.fmt(f),
            Self::Model(why) => f.write_str(why),
            Self::Frames(error) => error.fmt(f),
            Self::TooManyThreads(most) => write!(f, "too many threads: there are trace IDs for {most}"),
            Self::Isa { name, title, isa } => write!(f, "{name}: {title} cannot trace {isa} code"),
        }
    }
}

impl std::error::Error for UnitError {}
