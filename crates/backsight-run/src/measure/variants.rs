//! The encoders and sets of options that are compared.

use backsight_riscv::etrace::{Options, Params};
use backsight_riscv::ntrace::Mode;
use backsight_unit::etrace::{Settings, Tracer, UnitError};

/// An encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// E-Trace as the specification has it.
    Standard,
    /// E-Trace as the thesis's hardware has it.
    Thesis,
    /// N-Trace.
    Ntrace(Mode),
}

/// One encoder with one set of options.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What it is called.
    pub name: &'static str,
    /// The encoder.
    pub which: Which,
    /// Parameters of the encoder.
    pub params: Params,
    /// What is switched on.
    pub options: Options,
}

impl Variant {
    /// A new encoder of the specification's E-Trace.
    ///
    /// # Errors
    /// If parameters and options do not fit together.
    pub fn encoder(&self) -> Result<Tracer, UnitError> {
        Tracer::new(self.params, self.options, Settings::default())
    }
}

/// Where the baseline is.
pub const BASELINE: usize = 0;
/// What the encoder of Umberto Laghi's thesis is called, see [`backsight_unit::cva6`].
pub const CVA6: &str = "CVA6 encoder";

/// Every option alone, and all together, on top of `base`. Full addresses cost where the others save: all of them are
/// shown with differences and with full addresses. Beside them the thesis's own encoder, and the other ratified trace.
pub fn variants(params: Params, base: Options) -> Vec<Variant> {
    let savings = Options {
        implicit_return: true,
        implicit_exception: true,
        jump_target_cache: true,
        branch_prediction: true,
        sijump: true,
        ..base
    };
    let standard = [
        ("baseline", base),
        ("full address", Options { full_address: true, ..base }),
        ("implicit return", Options { implicit_return: true, ..base }),
        ("implicit exception", Options { implicit_exception: true, ..base }),
        ("branch prediction", Options { branch_prediction: true, ..base }),
        ("jump target cache", Options { jump_target_cache: true, ..base }),
        ("sijump", Options { sijump: true, ..base }),
        ("all", savings),
        ("all, full address", Options { full_address: true, ..savings }),
    ];
    let others = [
        (CVA6, Which::Thesis),
        ("N-Trace, histories", Which::Ntrace(Mode::History)),
        ("N-Trace, branches", Which::Ntrace(Mode::Branch)),
    ];
    let of_options = |(name, options)| Variant { name, which: Which::Standard, params, options };
    let of_encoder = |(name, which)| Variant {
        name,
        which,
        params: backsight_riscv::cva6::params(),
        options: Options::default(),
    };
    standard.into_iter().map(of_options).chain(others.into_iter().map(of_encoder)).collect()
}
