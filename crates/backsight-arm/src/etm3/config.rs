//! How an ETMv3 was built and programmed.

use core::fmt;

use crate::etm::{
    AddressEncoding, OptionError, Profile, Registers, TimestampCode, boolean, context_id_words,
    write_switched_on,
};

/// How an ETMv3 was built and programmed: what a decoder needs to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The registers.
    pub registers: Registers,
    /// The profile of the processor, which decides what exception numbers mean.
    pub profile: Profile,
}

impl Default for Config {
    /// An ETMv3.5 of an A profile processor, of which nothing is switched on.
    fn default() -> Self {
        Self {
            registers: Registers { cr: 0, idr: 0x410C_F250, ccer: 0x3440_08F2, traceidr: 0 },
            profile: Profile::AOrR,
        }
    }
}

impl Config {
    /// The options, each with what it takes.
    pub const OPTIONS: &[(&str, &str)] = &[
        ("version", "3.0 to 3.5"),
        ("core", "the name of the processor: its profile counts"),
        ("profile", "A, R or M"),
        ("trace_id", "a number"),
        ("cyclecount", "0 or 1"),
        ("branch_broadcast", "0 or 1"),
        ("alternative_branches", "0 or 1: the alternative encoding of branch addresses"),
        ("data", "none, address, value or both"),
        ("data_only", "0 or 1: no instruction trace"),
        ("context_id", "0, 1, 2 or 4 bytes"),
        ("vmid", "0 or 1"),
        ("timestamp_bits", "0, 48 or 64"),
        ("timestamp_encoding", "binary or gray"),
    ];

    /// Sets a register or an option from text.
    ///
    /// # Errors
    /// If there is no such register or option, or the value does not fit it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let value = value.trim();
        let registers = &mut self.registers;
        match name {
            "version" | "format" => registers.set_version(value, "3", 5)?,
            "profile" => self.profile = profile(value)?,
            "core" => {
                let name = value.get(..7).filter(|start| start.eq_ignore_ascii_case("Cortex-"));
                let name = name.and_then(|_| value.get(7..8)).or(value.rsplit_once('-').map(|(_, end)| end));
                // Older processors have names without a letter for the profile: they are no microcontrollers.
                self.profile = name.map_or(Ok(Profile::AOrR), profile).unwrap_or_default();
            }
            "alternative_branches" => {
                registers.idr = registers.idr & !(1 << 20) | u32::from(boolean(value)?) << 20;
            }
            "data" => {
                let bits = match value {
                    "none" => 0,
                    "value" => 1,
                    "address" => 2,
                    "both" => 3,
                    _ => return Err(OptionError::BadValue { expected: "none, address, value or both" }),
                };
                registers.cr = registers.cr & !0b1100 | bits << 2;
            }
            "data_only" => registers.cr = registers.cr & !(1 << 20) | u32::from(boolean(value)?) << 20,
            _ => return registers.set_common(name, value),
        }
        Ok(())
    }

    /// The minor version: x of ETMv3.x.
    pub const fn minor(&self) -> u8 {
        self.registers.minor()
    }

    /// P-headers have cycle marks.
    pub const fn cycle_accurate(&self) -> bool {
        self.registers.cr_bit(12)
    }

    /// Every taken branch has a branch packet.
    pub const fn branch_broadcast(&self) -> bool {
        self.registers.cr_bit(8)
    }

    /// Data addresses are traced.
    pub const fn data_addresses(&self) -> bool {
        self.registers.cr_bit(3)
    }

    /// Data values are traced.
    pub const fn data_values(&self) -> bool {
        self.registers.cr_bit(2)
    }

    /// Transfers of coprocessor registers are traced as data.
    pub const fn coprocessor_transfers(&self) -> bool {
        self.registers.cr_bit(1)
    }

    /// Some data is traced.
    pub const fn data_trace(&self) -> bool {
        self.data_addresses() || self.data_values() || self.coprocessor_transfers()
    }

    /// There is no instruction trace.
    pub const fn data_only(&self) -> bool {
        self.minor() >= 1 && self.registers.cr_bit(20)
    }

    /// Of a load multiple with the PC in its list, the PC is transferred first.
    pub const fn loads_pc_first(&self) -> bool {
        self.registers.idr >> 16 & 1 == 1
    }

    /// Bytes of a context ID.
    pub const fn context_id_bytes(&self) -> u8 {
        self.registers.context_id_bytes()
    }

    /// Timestamps are switched on.
    pub const fn timestamps(&self) -> bool {
        self.minor() >= 5 && self.registers.cr_bit(28)
    }

    /// VMID packets are switched on.
    pub const fn vmid(&self) -> bool {
        self.minor() >= 5 && self.registers.cr_bit(30)
    }

    /// Is it the trace unit of a microcontroller?
    pub fn is_m_profile(&self) -> bool {
        self.profile == Profile::M
    }

    /// The trace ID.
    pub const fn trace_id(&self) -> u8 {
        (self.registers.traceidr & 0x7F) as u8
    }

    pub(crate) const fn address_encoding(&self) -> AddressEncoding {
        if self.minor() >= 4 && self.registers.idr >> 20 & 1 == 1 {
            AddressEncoding::Alternative
        } else {
            AddressEncoding::Original
        }
    }

    pub(crate) const fn timestamp_code(&self) -> TimestampCode {
        TimestampCode { is_wide: self.registers.ccer_bit(29), is_gray: !self.registers.ccer_bit(28) }
    }

    /// The configuration in words.
    pub const fn words(&self) -> Words<'_> {
        Words(self)
    }
}

fn profile(text: &str) -> Result<Profile, OptionError> {
    match text {
        "A" | "a" | "R" | "r" => Ok(Profile::AOrR),
        "M" | "m" => Ok(Profile::M),
        _ => Err(OptionError::BadValue { expected: "A, R or M" }),
    }
}

/// Displays a [`Config`] in words: `ETMv3.5, A or R profile; on: cycle counts, data addresses`.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a Config);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.0;
        let profile = if config.is_m_profile() { "M" } else { "A or R" };
        write!(f, "ETMv3.{}, {profile} profile", config.minor())?;
        if config.address_encoding() == AddressEncoding::Alternative {
            f.write_str(", alternative branch encoding")?;
        }
        let context_id = context_id_words(config.context_id_bytes());
        let switched_on = [
            (config.data_only(), "data only"),
            (config.cycle_accurate(), "cycle counts"),
            (config.timestamps(), "timestamps"),
            (config.data_addresses(), "data addresses"),
            (config.data_values(), "data values"),
            (config.coprocessor_transfers(), "coprocessor register transfers"),
            (config.context_id_bytes() > 0, context_id),
            (config.vmid(), "VMID"),
            (config.branch_broadcast(), "branch broadcast"),
        ];
        write_switched_on(&switched_on, "instructions", f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_configuration_reads_as_a_sentence() {
        let mut config = Config::default();
        let words = "ETMv3.5, A or R profile; nothing beyond instructions is on";
        assert_eq!(config.words().to_string(), words);
        for (name, value) in
            [("data", "both"), ("cyclecount", "1"), ("core", "Cortex-M3"), ("alternative_branches", "1")]
        {
            config.set(name, value).unwrap();
        }
        let words =
            "ETMv3.5, M profile, alternative branch encoding; on: cycle counts, data addresses, data values";
        assert_eq!(config.words().to_string(), words);
    }

    #[test]
    fn every_option_is_known() {
        let mut config = Config::default();
        for (name, _) in Config::OPTIONS {
            assert_ne!(config.set(name, "nonsense"), Err(OptionError::Unknown), "{name}");
        }
        assert_eq!(config.set("colour", "1"), Err(OptionError::Unknown));
        assert!(config.set("version", "1.1").is_err() && config.set("version", "ETM3.3").is_ok());
        assert_eq!(config.minor(), 3);
    }

    #[test]
    fn the_name_of_a_core_says_its_profile() {
        let mut config = Config::default();
        for (core, profile) in [
            ("Cortex-M4", Profile::M),
            ("Cortex-A7", Profile::AOrR),
            ("Cortex-R5", Profile::AOrR),
            ("ARMv7-M", Profile::M),
            ("ARM1176", Profile::AOrR),
        ] {
            config.set("core", core).unwrap();
            assert_eq!(config.profile, profile, "{core}");
        }
    }
}
