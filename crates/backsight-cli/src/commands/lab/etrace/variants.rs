//! The sets of options that are compared.

use backsight_riscv::etrace::{Encoder, EncoderError, Options, Params, Settings};

/// One set of options.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What it is called.
    pub name: &'static str,
    /// Parameters of the encoder.
    pub params: Params,
    /// What is switched on.
    pub options: Options,
}

impl Variant {
    /// A new encoder.
    pub fn encoder(&self) -> Result<Encoder, EncoderError> {
        Encoder::new(self.params, self.options, Settings::default())
    }
}

/// Where the baseline is.
pub const BASELINE: usize = 0;

/// Every option alone, and all together, on top of `base`. Full addresses cost where the others save: all of them are
/// shown with differences and with full addresses.
pub fn all(params: Params, base: Options) -> Vec<Variant> {
    let savings = Options {
        implicit_return: true,
        implicit_exception: true,
        jump_target_cache: true,
        branch_prediction: true,
        sijump: true,
        ..base
    };
    [
        ("baseline", base),
        ("full address", Options { full_address: true, ..base }),
        ("implicit return", Options { implicit_return: true, ..base }),
        ("implicit exception", Options { implicit_exception: true, ..base }),
        ("branch prediction", Options { branch_prediction: true, ..base }),
        ("jump target cache", Options { jump_target_cache: true, ..base }),
        ("sijump", Options { sijump: true, ..base }),
        ("all", savings),
        ("all, full address", Options { full_address: true, ..savings }),
    ]
    .into_iter()
    .map(|(name, options)| Variant { name, params, options })
    .collect()
}
