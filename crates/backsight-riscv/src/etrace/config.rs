//! Parameters and options from text: `.scf` files and `KEY=VALUE` arguments.
//!
//! One `name_p=value` a line; `#` starts a comment, `[headings]` are skipped, white space does not matter.

use alloc::string::{String, ToString};
use core::fmt;

use crate::encap::Framing;

use super::{Dialect, ImplicitReturn, Options, Params, ParamsError, SupportLayout};

/// What a decoder must know of a stream, for it does not travel with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Parameters of the encoders.
    pub params: Params,
    /// Options in force until a support packet says otherwise.
    pub options: Options,
    /// How packets are framed.
    pub framing: Framing,
}

/// A line that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Line number, from 1; 0 if the fault is not in one line.
    pub line: u32,
    /// What is wrong, and what was expected.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.reason),
            line => write!(f, "line {line}: {}", self.reason),
        }
    }
}

impl core::error::Error for ConfigError {}

impl From<ParamsError> for ConfigError {
    fn from(error: ParamsError) -> Self {
        Self { line: 0, reason: error.to_string() }
    }
}

impl Params {
    /// Reads a parameter file. Options that an encoder was started with may stand in it too.
    pub fn parse(text: &str) -> Result<(Self, Options), ConfigError> {
        let (mut params, mut options) = (Self::default(), Options::default());
        for (line, number) in text.lines().zip(1u32..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('[') {
                continue;
            }
            set(&mut params, &mut options, line).map_err(|error| ConfigError { line: number, ..error })?;
        }
        params.validate()?;
        Ok((params, options))
    }
}

/// Applies one `KEY=VALUE`. The parameters are not checked against each other: see [`Params::validate`].
pub fn set(params: &mut Params, options: &mut Options, setting: &str) -> Result<(), ConfigError> {
    let Some((key, value)) = setting.split_once('=') else {
        return Err(wrong(alloc::format!("expected NAME=VALUE, found `{setting}`")));
    };
    let (key, value) = (key.trim(), value.trim());
    let name = key.strip_suffix("_p").unwrap_or(key).replace('-', "_").to_ascii_lowercase();
    match name.as_str() {
        "layout" | "support_layout" => params.layout = layout(value)?,
        "dialect" => params.dialect = dialect(value)?,
        "iret_ext" => {
            params.implicit_return =
                if flag(key, value)? { ImplicitReturn::Returns } else { ImplicitReturn::Depth };
        }
        "implicit_return" => options.implicit_return = flag(key, value)?,
        "implicit_exception" | "implicit_except" => options.implicit_exception = flag(key, value)?,
        "full_address" | "full_iaddress" => options.full_address = flag(key, value)?,
        "jump_target_cache" => options.jump_target_cache = flag(key, value)?,
        "branch_prediction" | "branch_predictor" => options.branch_prediction = flag(key, value)?,
        "sijump_enable" | "sequential_jump" => options.sijump = flag(key, value)?,
        "resync_disabled" => options.resync_disabled = flag(key, value)?,
        _ => {
            let Some((field, low, high)) = params.field(&name) else {
                return Err(wrong(alloc::format!("unknown parameter `{key}`")));
            };
            match number(value) {
                Some(number) if (u64::from(low)..=u64::from(high)).contains(&number) => *field = number as u8,
                _ => return Err(wrong(alloc::format!("{key} is `{value}`, expected {low} to {high}"))),
            }
        }
    }
    Ok(())
}

/// The fault of one setting.
const fn wrong(reason: String) -> ConfigError {
    ConfigError { line: 0, reason }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn flag(key: &str, value: &str) -> Result<bool, ConfigError> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(wrong(alloc::format!("{key} is `{value}`, expected 0 or 1"))),
    }
}

fn layout(value: &str) -> Result<SupportLayout, ConfigError> {
    match value {
        "reference" => Ok(SupportLayout::Reference),
        "cva6" | "seed" => Ok(SupportLayout::Cva6),
        "standard" => Ok(SupportLayout::Standard),
        _ => Err(wrong(alloc::format!("layout is `{value}`, expected reference, cva6 or standard"))),
    }
}

fn dialect(value: &str) -> Result<Dialect, ConfigError> {
    match value {
        "standard" => Ok(Dialect::Standard),
        // The word that captures of earlier versions have.
        "cva6" | "seed" => Ok(Dialect::Cva6),
        _ => Err(wrong(alloc::format!("dialect is `{value}`, expected standard or cva6"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_headings_and_spaces_are_skipped() {
        let text = "# a comment\n[Required Attributes]\n  iaddress_width_p = 64 # wide\necause_width_p=5\nfull-address=1\n";
        let (params, options) = Params::parse(text).unwrap();
        assert_eq!((params.iaddress_width, params.ecause_width), (64, 5));
        assert!(options.full_address);
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        let error = Params::parse("arch_p=0\n\niaddress_width_p=65").unwrap_err();
        assert_eq!(error.to_string(), "line 3: iaddress_width_p is `65`, expected 3 to 64");
        let error = Params::parse("colour_p=1").unwrap_err();
        assert_eq!(error.to_string(), "line 1: unknown parameter `colour_p`");
        let error = Params::parse("bpred_size_p=3\ncache_size_p=3").unwrap_err();
        assert!(error.to_string().contains("f0s_width"));
        assert!(Params::parse("arch_p").unwrap_err().to_string().contains("NAME=VALUE"));
    }

    #[test]
    fn the_parameter_sijump_is_not_the_option() {
        let (params, options) = Params::parse("sijump_p=1").unwrap();
        assert_eq!((params.sijump, options.sijump), (1, false));
        let (_, options) = Params::parse("sequential_jump=on").unwrap();
        assert!(options.sijump);
    }
}
