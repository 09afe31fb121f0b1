//! How an encoder is set up beyond parameters and options.

use core::fmt;

use super::super::{DataOptions, ImplicitReturn, Options, Params, ParamsError};

/// Which rules decide about packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// The clarified text, with the additions that make every stream decodable.
    #[default]
    Current,
    /// The flow chart before the clarification, packet for packet as the specification's reference model.
    Reference,
}

/// What is counted towards the next resynchronisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResyncMode {
    /// Nothing: there is none.
    #[default]
    Off,
    /// Packets.
    Packets,
    /// Cycles of the hart.
    Cycles,
    /// Half-words retired.
    HalfWords,
}

/// Periodic resynchronisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resync {
    /// What is counted.
    pub mode: ResyncMode,
    /// When to resynchronise. Control registers offer 2^4 to 2^19.
    pub limit: u64,
}

/// How an encoder is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The rules.
    pub algorithm: Algorithm,
    /// Resynchronisation.
    pub resync: Resync,
    /// Forget branches after every packet, also after those that do not tell them: less to send, less precise.
    pub shallow: bool,
    /// Data trace runs beside, with these options: support packets say so.
    pub data: Option<DataOptions>,
}

/// A combination that cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncoderError {
    /// The parameters are impossible.
    Params(ParamsError),
    /// The option needs a table, or an interface, that the parameters do not have.
    Missing {
        /// The option.
        option: &'static str,
        /// What it needs.
        needs: &'static str,
    },
}

impl fmt::Display for EncoderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params(error) => error.fmt(f),
            Self::Missing { option, needs } => write!(f, "{option} needs {needs}"),
        }
    }
}

impl core::error::Error for EncoderError {}

impl From<ParamsError> for EncoderError {
    fn from(error: ParamsError) -> Self {
        Self::Params(error)
    }
}

pub(super) fn check(params: &Params, options: &Options) -> Result<(), EncoderError> {
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
            "iret_ext 1: irdepth does not tell a decoder enough",
        ),
    ];
    match needs.into_iter().find(|&(_, on, met, _)| on && !met) {
        Some((option, _, _, needs)) => Err(EncoderError::Missing { option, needs }),
        None => Ok(()),
    }
}
