//! Configuration by plain options, as a person or a trace package gives it: `cyclecount=1`, `vmid=8` …
//!
//! An option is turned into the register fields that say the same. Switching something on also sets the ID
//! register bit that says the trace unit has it; switching it off leaves that bit alone, because the sizes of
//! packets depend on what a unit has, not on what is on.

use core::fmt;

use super::core::core;
use super::{Architecture, Config, Profile, Registers};

/// Why a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A trace unit has no register of that name.
    UnknownRegister,
    /// There is no option of that name.
    UnknownOption,
    /// The value makes no sense for that option.
    BadValue {
        /// What would.
        expected: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRegister => {
                f.write_str("no such register; expected TRCCONFIGR, TRCIDR0 or another TRC register")
            }
            Self::UnknownOption => {
                f.write_str("no such option; expected one of ")?;
                Config::OPTIONS.iter().enumerate().try_for_each(|(index, (name, _))| {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{name}")
                })
            }
            Self::BadValue { expected } => write!(f, "expected {expected}"),
        }
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// The options, each with what it takes.
    pub const OPTIONS: &[(&str, &str)] = &[
        ("version", VERSION),
        ("core", CORE),
        ("profile", PROFILE),
        ("architecture", ARCHITECTURE),
        ("trace_id", NUMBER),
        ("cyclecount", BOOLEAN),
        ("timestamp_bits", TIMESTAMP_BITS),
        ("context_id", CONTEXT_ID),
        ("vmid", VMID),
        ("return_stack", BOOLEAN),
        ("branch_broadcast", BOOLEAN),
        ("commopt", BOOLEAN),
        ("max_spec", NUMBER),
        ("q_elements", BOOLEAN),
        ("conditional", CONDITIONAL),
        ("data_trace", BOOLEAN),
        ("timestamp_marker", BOOLEAN),
        ("wfx_p0", BOOLEAN),
    ];

    /// Sets a register (a name that begins with TRC) or an option from text. Numbers are decimal, or hexadecimal
    /// after `0x`; booleans are 0 or 1, false or true, no or yes, off or on.
    ///
    /// # Errors
    /// If there is no such register or option, or the value does not fit it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let value = value.trim();
        if name.get(..3).is_some_and(|prefix| prefix.eq_ignore_ascii_case("TRC")) {
            self.set_register(name, number(value)?)
        } else {
            self.set_option(name, value)
        }
    }

    /// Sets an option of [`Config::OPTIONS`] from text. `version` (or `format`, its name in trace packages) decides
    /// which VMID sizes exist: set it first.
    ///
    /// # Errors
    /// If there is no such option, or the value does not fit it.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match () {
            () if is("version") || is("format") => self.set_version(value)?,
            () if is("core") => (self.architecture, self.profile) = core(value)?,
            () if is("profile") => self.profile = profile(value)?,
            () if is("architecture") => self.architecture = architecture(value)?,
            () if is("trace_id") => self.registers.traceidr = number(value)?,
            () if is("cyclecount") => self.switch(boolean(value)?, Feature::CYCLE_COUNT),
            () if is("timestamp_bits") => self.set_timestamp_bits(number(value)?)?,
            () if is("context_id") => self.set_context_id(number(value)?)?,
            () if is("vmid") => self.set_vmid(number(value)?)?,
            () if is("return_stack") => self.switch(boolean(value)?, Feature::RETURN_STACK),
            () if is("branch_broadcast") => self.switch(boolean(value)?, Feature::BRANCH_BROADCAST),
            () if is("commopt") => self.set_commopt(boolean(value)?),
            () if is("max_spec") => self.registers.idr8 = number(value)?,
            () if is("q_elements") => self.switch(boolean(value)?, Feature::Q),
            () if is("conditional") => self.set_conditional(value)?,
            () if is("data_trace") => self.switch(boolean(value)?, Feature::DATA_TRACE),
            () if is("timestamp_marker") => put(&mut self.registers.idr0, 23, 1, boolean(value)?.into()),
            () if is("wfx_p0") => put(&mut self.registers.idr2, 31, 1, boolean(value)?.into()),
            () => return Err(ConfigError::UnknownOption),
        }
        Ok(())
    }

    fn switch(&mut self, on: bool, feature: Feature) {
        if on {
            self.registers.configr |= feature.configr;
            self.registers.idr0 |= feature.idr0;
        } else {
            self.registers.configr &= !feature.configr;
        }
    }

    fn set_version(&mut self, value: &str) -> Result<(), ConfigError> {
        let bad = ConfigError::BadValue { expected: VERSION };
        let upper =
            |prefix: &str| value.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        let digits = value.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let (major, minor) = digits.split_once('.').unwrap_or((digits, "0"));
        let minor: u32 = if minor == "x" { 0 } else { minor.parse().map_err(|_| bad)? };
        if minor > 15 {
            return Err(bad);
        }
        let Registers { idr1, devarch, .. } = &mut self.registers;
        match major {
            "4" if !upper("ETE") => put(idr1, 4, 8, 0x40 | minor),
            "" | "1" if upper("ETE") || value.starts_with('1') => {
                put(idr1, 4, 8, 0xFF);
                *devarch = 0x4770_5A13 | minor << 16;
            }
            _ => return Err(bad),
        }
        Ok(())
    }

    fn set_timestamp_bits(&mut self, bits: u32) -> Result<(), ConfigError> {
        let size = match bits {
            0 => {
                put(&mut self.registers.configr, 11, 1, 0);
                return Ok(());
            }
            48 => 6,
            64 => 8,
            _ => return Err(ConfigError::BadValue { expected: TIMESTAMP_BITS }),
        };
        put(&mut self.registers.idr0, 24, 5, size);
        put(&mut self.registers.configr, 11, 1, 1);
        Ok(())
    }

    fn set_context_id(&mut self, bits: u32) -> Result<(), ConfigError> {
        match bits {
            0 => put(&mut self.registers.configr, 6, 1, 0),
            32 => {
                put(&mut self.registers.configr, 6, 1, 1);
                put(&mut self.registers.idr2, 5, 5, 4);
            }
            _ => return Err(ConfigError::BadValue { expected: CONTEXT_ID }),
        }
        Ok(())
    }

    fn set_vmid(&mut self, bits: u32) -> Result<(), ConfigError> {
        match bits {
            0 => put(&mut self.registers.configr, 7, 1, 0),
            8 | 16 | 32 if bits == 8 || self.version().0 > 0x40 => {
                put(&mut self.registers.configr, 7, 1, 1);
                put(&mut self.registers.idr2, 10, 5, bits / 8);
            }
            _ => return Err(ConfigError::BadValue { expected: VMID }),
        }
        Ok(())
    }

    /// COMMOPT counts only where cycle counting is implemented.
    fn set_commopt(&mut self, on: bool) {
        put(&mut self.registers.idr0, 29, 1, on.into());
        if on {
            put(&mut self.registers.idr0, 7, 1, 1);
        }
    }

    fn set_conditional(&mut self, value: &str) -> Result<(), ConfigError> {
        let mode = match value {
            "off" | "0" => 0,
            "loads" => 1,
            "stores" => 2,
            "loads_stores" => 3,
            "all" | "1" => 7,
            _ => return Err(ConfigError::BadValue { expected: CONDITIONAL }),
        };
        put(&mut self.registers.configr, 8, 3, mode);
        if mode != 0 {
            put(&mut self.registers.idr0, 6, 1, 1);
        }
        Ok(())
    }
}

const BOOLEAN: &str = "0 or 1";
const NUMBER: &str = "a 32-bit number, decimal or 0x hexadecimal";
const VERSION: &str = "ETM4.0 to ETM4.6 or ETE1.0 to ETE1.3";
const PROFILE: &str = "A, R or M";
const ARCHITECTURE: &str = "v7, v8, v8.3 or newest";
pub(super) const CORE: &str = "a core such as Cortex-A53, or ARMv8-A, ARMv8.3-A, ARMv7-M, ARM-AA64";
const TIMESTAMP_BITS: &str = "0, 48 or 64";
const CONTEXT_ID: &str = "0 or 32 (the only sizes that ETMv4 and ETE have)";
const VMID: &str = "0 or 8, and from ETM4.1 on 16 or 32 (set the version first)";
const CONDITIONAL: &str = "off, loads, stores, loads_stores or all";

/// What switching a feature on sets.
struct Feature {
    configr: u32,
    idr0: u32,
}

impl Feature {
    const CYCLE_COUNT: Self = Self { configr: 1 << 4, idr0: 1 << 7 };
    const RETURN_STACK: Self = Self { configr: 1 << 12, idr0: 1 << 9 };
    const BRANCH_BROADCAST: Self = Self { configr: 1 << 3, idr0: 1 << 5 };
    const Q: Self = Self { configr: 3 << 13, idr0: 3 << 15 };
    const DATA_TRACE: Self = Self { configr: 3 << 16 | 3 << 1, idr0: 3 << 3 | 3 << 1 };
}

const fn put(register: &mut u32, lowest: u32, width: u32, value: u32) {
    let mask = (1 << width) - 1;
    *register = *register & !(mask << lowest) | (value & mask) << lowest;
}

fn number(text: &str) -> Result<u32, ConfigError> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .map_err(|_| ConfigError::BadValue { expected: NUMBER })
}

fn boolean(text: &str) -> Result<bool, ConfigError> {
    let any = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if any(["1", "true", "yes", "on"]) {
        Ok(true)
    } else if any(["0", "false", "no", "off"]) {
        Ok(false)
    } else {
        Err(ConfigError::BadValue { expected: BOOLEAN })
    }
}

pub(super) fn profile(text: &str) -> Result<Profile, ConfigError> {
    match text {
        "A" | "a" => Ok(Profile::A),
        "R" | "r" => Ok(Profile::R),
        "M" | "m" => Ok(Profile::M),
        _ => Err(ConfigError::BadValue { expected: PROFILE }),
    }
}

fn architecture(text: &str) -> Result<Architecture, ConfigError> {
    match text.trim_start_matches(['v', 'V']) {
        "7" => Ok(Architecture::V7),
        "8" | "8.0" | "8.1" | "8.2" => Ok(Architecture::V8),
        "8.3" => Ok(Architecture::V8_3),
        "newest" => Ok(Architecture::Newest),
        _ => Err(ConfigError::BadValue { expected: ARCHITECTURE }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Version;
    use super::*;

    fn with(settings: &[(&str, &str)]) -> Config {
        let mut config = Config::etm4_default();
        for (name, value) in settings {
            config.set(name, value).unwrap_or_else(|error| panic!("{name}={value}: {error}"));
        }
        config
    }

    #[test]
    fn options_say_the_same_as_registers() {
        let config = with(&[
            ("cyclecount", "1"),
            ("timestamp_bits", "48"),
            ("return_stack", "yes"),
            ("max_spec", "0x6"),
        ]);
        assert!(config.cycle_counting() && config.timestamps() && config.return_stack());
        assert_eq!((config.timestamp_bits(), config.max_speculation()), (48, 6));
        let config = with(&[("TRCCONFIGR", "0x1010"), ("cyclecount", "off")]);
        assert!(!config.cycle_counting() && config.return_stack());
        assert!(with(&[("TRCIDR0", "0"), ("commopt", "1")]).commit_mode1());
        assert!(with(&[("conditional", "all")]).conditional());
        assert!(with(&[("data_trace", "1")]).data_trace());
        assert!(with(&[("q_elements", "1")]).q_elements());
    }

    #[test]
    fn switching_tracing_off_keeps_the_sizes_of_packets() {
        let config = with(&[("context_id", "0"), ("vmid", "0")]);
        assert!(!config.context_id() && !config.vmid());
        assert_eq!((config.context_id_bytes(), config.vmid_bytes()), (4, 1));
    }

    #[test]
    fn versions_are_read_in_every_spelling() {
        for (text, version) in
            [("4.2", 0x42), ("ETM4.6", 0x46), ("ETM4", 0x40), ("ETE1.3", 0x53), ("ETE", 0x50), ("1.1", 0x51)]
        {
            assert_eq!(with(&[("version", text)]).version(), Version(version), "{text}");
        }
        for text in ["3.5", "ETE4.0", "", "ETM", "4.99", "4.é"] {
            assert!(Config::etm4_default().set("version", text).is_err(), "{text}");
        }
    }

    #[test]
    fn wide_vmids_are_refused_before_v4_1() {
        assert!(Config::etm4_default().set("vmid", "32").is_err());
        assert_eq!(with(&[("version", "4.1"), ("vmid", "32")]).vmid_bytes(), 4);
    }

    #[test]
    fn every_option_is_known_and_refuses_nonsense() {
        for (name, _) in Config::OPTIONS {
            let refused = Config::etm4_default().set(name, "nonsense");
            assert!(matches!(refused, Err(ConfigError::BadValue { .. })), "{name}: {refused:?}");
        }
        assert_eq!(Config::etm4_default().set("flavour", "1"), Err(ConfigError::UnknownOption));
    }
}
