//! How a tracer is set up beyond parameters and options.

use std::fmt;

use backsight_riscv::encap::FrameError;
use backsight_riscv::etrace::{DataOptions, ImplicitReturn, Options, Params, ParamsError};

use crate::riscv::Resync;

/// Which rules decide about packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// The clarified text, with the additions that make every stream decodable.
    #[default]
    Current,
    /// The flow chart before the clarification, packet for packet as the specification's reference model.
    Reference,
}

/// How a tracer is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The rules.
    pub algorithm: Algorithm,
    /// Resynchronisation.
    pub resync: Resync,
    /// Forget branches after every packet, also after those that do not report them: less to send, less precise.
    pub shallow: bool,
    /// Data trace runs beside, with these options: support packets say so.
    pub data: Option<DataOptions>,
}

/// A unit that there cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// The parameters are impossible.
    Params(ParamsError),
    /// The option needs a table, or an interface, that the parameters do not have.
    Missing {
        /// The option.
        option: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// Packets of these parameters do not fit the framing, or the number of the hart does not.
    Framing(FrameError),
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params(error) => error.fmt(f),
            Self::Missing { option, needs } => write!(f, "{option} needs {needs}"),
            Self::Framing(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UnitError {}

impl From<ParamsError> for UnitError {
    fn from(error: ParamsError) -> Self {
        Self::Params(error)
    }
}

pub(super) fn check(params: &Params, options: &Options) -> Result<(), UnitError> {
    params.validate()?;
    let stack = params.return_stack_size > 0 || params.call_counter_size > 0;
    let needs = [
        ("branch_prediction", options.branch_prediction, params.bpred_size > 0, "bpred_size above 0"),
        ("jump_target_cache", options.jump_target_cache, params.cache_size > 0, "cache_size above 0"),
        ("implicit_return", options.implicit_return, stack, "return_stack_size or call_counter_size above 0"),
        ("implicit_return", options.implicit_return, params.itype_width == 4, "itype_width 4"),
        (
            // Two returns at equal depth without a branch between them look alike in irdepth.
            "implicit_return",
            options.implicit_return,
            params.implicit_return == ImplicitReturn::Returns,
            "iret_ext 1: irdepth does not say enough to a decoder",
        ),
    ];
    match needs.into_iter().find(|&(_, on, met, _)| on && !met) {
        Some((option, _, _, needs)) => Err(UnitError::Missing { option, needs }),
        None => Ok(()),
    }
}
