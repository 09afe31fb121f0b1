//! Configuration by plain options, as a person or a trace package gives it: `cyclecount=1`, `context_id=4` …
//!
//! An option is turned into the register fields that say the same, those of what the unit has included.

use core::fmt;

use super::Registers;
use super::registers::put;

/// Why a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// There is no option or register of that name.
    Unknown,
    /// The value makes no sense for it.
    BadValue {
        /// What would.
        expected: &'static str,
    },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such option or register"),
            Self::BadValue { expected } => write!(f, "expected {expected}"),
        }
    }
}

impl core::error::Error for OptionError {}

const NUMBER: &str = "a number, decimal or after 0x hexadecimal";
const BOOLEAN: &str = "0 or 1";

/// A number, decimal or hexadecimal.
fn number(text: &str) -> Result<u32, OptionError> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| OptionError::BadValue { expected: NUMBER })
}

/// Yes or no.
pub(crate) fn boolean(text: &str) -> Result<bool, OptionError> {
    const WORDS: [(&str, bool); 8] = [
        ("1", true),
        ("true", true),
        ("yes", true),
        ("on", true),
        ("0", false),
        ("false", false),
        ("no", false),
        ("off", false),
    ];
    let found = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|&(_, value)| value).ok_or(OptionError::BadValue { expected: BOOLEAN })
}

/// How many bits of context IDs are sent, in words.
pub(crate) const fn context_id_words(bytes: u8) -> &'static str {
    match bytes {
        1 => "context ID (8 bits)",
        2 => "context ID (16 bits)",
        4 => "context ID (32 bits)",
        _ => "",
    }
}

/// Writes what is switched on, or that nothing is beyond what there always is.
pub(crate) fn write_switched_on(
    parts: &[(bool, &str)],
    always: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut separator = "; on: ";
    for (_, words) in parts.iter().filter(|(is_on, _)| *is_on) {
        write!(f, "{separator}{words}")?;
        separator = ", ";
    }
    if separator == ", " { Ok(()) } else { write!(f, "; nothing beyond {always} is on") }
}

impl Registers {
    /// Sets a register, or an option that both protocols have.
    pub(crate) fn set_common(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        if self.get(name).is_some() {
            self.set(name, number(value)?);
            return Ok(());
        }
        match name {
            "trace_id" => put(&mut self.traceidr, 0, 7, number(value)?),
            "cyclecount" => put(&mut self.cr, 12, 1, boolean(value)?.into()),
            "branch_broadcast" => put(&mut self.cr, 8, 1, boolean(value)?.into()),
            "context_id" => {
                if !self.set_context_id_bytes(number(value)?) {
                    return Err(OptionError::BadValue { expected: "0, 1, 2 or 4 bytes" });
                }
            }
            "vmid" => {
                let on = boolean(value)?;
                put(&mut self.cr, 30, 1, on.into());
                self.ccer |= u32::from(on) << 26;
            }
            "timestamp_bits" => {
                let wide = match number(value)? {
                    0 => {
                        put(&mut self.cr, 28, 1, 0);
                        return Ok(());
                    }
                    48 => 0,
                    64 => 1,
                    _ => return Err(OptionError::BadValue { expected: "0, 48 or 64 bits" }),
                };
                put(&mut self.cr, 28, 1, 1);
                put(&mut self.ccer, 22, 1, 1);
                put(&mut self.ccer, 29, 1, wide);
            }
            "timestamp_encoding" => {
                let binary = match value {
                    "binary" => 1,
                    "gray" => 0,
                    _ => return Err(OptionError::BadValue { expected: "binary or gray" }),
                };
                put(&mut self.ccer, 28, 1, binary);
            }
            _ => return Err(OptionError::Unknown),
        }
        Ok(())
    }

    /// Sets the minor version from a word: `3.5`, `PFT1.1`, `ETM3.3`.
    pub(crate) fn set_version(&mut self, text: &str, major: &str, most: u8) -> Result<(), OptionError> {
        let expected = if most == 1 { "1.0 or 1.1" } else { "3.0 to 3.5" };
        let (before, minor) = text.rsplit_once('.').ok_or(OptionError::BadValue { expected })?;
        let minor: u8 = minor.parse().map_err(|_| OptionError::BadValue { expected })?;
        if !before.ends_with(major) || minor > most {
            return Err(OptionError::BadValue { expected });
        }
        self.set_minor(minor);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_set_the_bits_of_registers() {
        let mut registers = Registers::default();
        for (name, value) in [
            ("trace_id", "0x13"),
            ("cyclecount", "yes"),
            ("context_id", "4"),
            ("timestamp_bits", "64"),
            ("timestamp_encoding", "binary"),
            ("vmid", "1"),
            ("etmidr", "0x411cf312"),
        ] {
            registers.set_common(name, value).unwrap();
        }
        assert_eq!(registers.cr, 1 << 12 | 3 << 14 | 1 << 28 | 1 << 30);
        assert_eq!(registers.ccer, 1 << 22 | 1 << 26 | 1 << 28 | 1 << 29);
        assert_eq!((registers.traceidr, registers.idr), (0x13, 0x411C_F312));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut registers = Registers::default();
        assert_eq!(registers.set_common("colour", "1"), Err(OptionError::Unknown));
        for (name, value) in
            [("cyclecount", "maybe"), ("context_id", "3"), ("timestamp_bits", "32"), ("ETMCR", "x")]
        {
            assert!(matches!(registers.set_common(name, value), Err(OptionError::BadValue { .. })), "{name}");
        }
        for version in ["1.2", "x", "2.0"] {
            assert!(registers.set_version(version, "1", 1).is_err());
        }
        assert!(registers.set_version("PFT1.1", "1", 1).is_ok() && registers.minor() == 1);
    }
}
