//! How a PTM was built and programmed.

use core::fmt;

use crate::etm::{OptionError, Registers, TimestampCode, boolean, context_id_words, write_switched_on};

/// How a PTM was built and programmed: what a decoder needs to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The registers.
    pub registers: Registers,
}

impl Default for Config {
    /// A PTM of PFTv1.1 with everything that it can have, of which nothing is switched on.
    fn default() -> Self {
        Self { registers: Registers { cr: 0, idr: 0x411C_F312, ccer: 0x34C0_1AC2, traceidr: 0 } }
    }
}

impl Config {
    /// The options, each with what it takes.
    pub const OPTIONS: &[(&str, &str)] = &[
        ("version", "1.0 or 1.1"),
        ("trace_id", "a number"),
        ("cyclecount", "0 or 1"),
        ("branch_broadcast", "0 or 1"),
        ("return_stack", "0 or 1"),
        ("barriers", "0 or 1: DMB and DSB are waypoints"),
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
            "version" | "format" => registers.set_version(value, "1", 1),
            "return_stack" => {
                let on = u32::from(boolean(value)?);
                registers.cr = registers.cr & !(1 << 29) | on << 29;
                registers.ccer |= on << 23;
                Ok(())
            }
            "barriers" => {
                registers.ccer = registers.ccer & !(1 << 24) | u32::from(boolean(value)?) << 24;
                Ok(())
            }
            _ => registers.set_common(name, value),
        }
    }

    /// The minor version: x of PFTv1.x.
    pub const fn minor(&self) -> u8 {
        self.registers.minor()
    }

    /// Packets carry cycle counts, and an atom packet has one atom.
    pub const fn cycle_accurate(&self) -> bool {
        self.registers.cr_bit(12)
    }

    /// Taken direct branches come with an address too.
    pub const fn branch_broadcast(&self) -> bool {
        self.registers.cr_bit(8)
    }

    /// Returns to where a call came from need no address.
    pub const fn return_stack(&self) -> bool {
        self.registers.cr_bit(29) && self.registers.ccer_bit(23)
    }

    /// Timestamps are switched on.
    pub const fn timestamps(&self) -> bool {
        self.registers.cr_bit(28)
    }

    /// VMID packets are switched on.
    pub const fn vmid(&self) -> bool {
        self.minor() >= 1 && self.registers.cr_bit(30)
    }

    /// Bytes of a context ID.
    pub const fn context_id_bytes(&self) -> u8 {
        self.registers.context_id_bytes()
    }

    /// DMB and DSB are waypoints.
    pub const fn barriers_are_waypoints(&self) -> bool {
        self.registers.ccer_bit(24)
    }

    /// The trace ID.
    pub const fn trace_id(&self) -> u8 {
        (self.registers.traceidr & 0x7F) as u8
    }

    /// PFTv1.0 has 48 bits in Gray code; later units say what they have.
    pub(crate) const fn timestamp_code(&self) -> TimestampCode {
        let says = self.minor() >= 1;
        TimestampCode {
            is_wide: says && self.registers.ccer_bit(29),
            is_gray: !(says && self.registers.ccer_bit(28)),
        }
    }

    /// The configuration in words.
    pub const fn words(&self) -> Words<'_> {
        Words(self)
    }
}

/// Displays a [`Config`] in words: `PFTv1.1; on: cycle counts, timestamps (64 bits)`.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a Config);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.0;
        let code = config.timestamp_code();
        write!(f, "PFTv1.{}", config.minor())?;
        let timestamps = match (code.is_wide, code.is_gray) {
            (false, false) => "timestamps (48 bits)",
            (false, true) => "timestamps (48 bits, Gray code)",
            (true, false) => "timestamps (64 bits)",
            (true, true) => "timestamps (64 bits, Gray code)",
        };
        let context_id = context_id_words(config.context_id_bytes());
        let switched_on = [
            (config.cycle_accurate(), "cycle counts"),
            (config.timestamps(), timestamps),
            (config.context_id_bytes() > 0, context_id),
            (config.vmid(), "VMID"),
            (config.return_stack(), "return stack"),
            (config.branch_broadcast(), "branch broadcast"),
            (config.barriers_are_waypoints(), "barriers"),
        ];
        write_switched_on(&switched_on, "waypoints", f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_configuration_reads_as_a_sentence() {
        let mut config = Config::default();
        assert_eq!(config.words().to_string(), "PFTv1.1; nothing beyond waypoints is on");
        for (name, value) in [("cyclecount", "1"), ("timestamp_bits", "64"), ("return_stack", "1")] {
            config.set(name, value).unwrap();
        }
        let words = "PFTv1.1; on: cycle counts, timestamps (64 bits), return stack";
        assert_eq!(config.words().to_string(), words);
        assert_eq!(config.set("version", "3.5"), Err(OptionError::BadValue { expected: "1.0 or 1.1" }));
    }

    #[test]
    fn the_first_version_has_48_bits_in_gray_code() {
        let mut config = Config::default();
        assert_eq!(config.timestamp_code(), TimestampCode { is_wide: true, is_gray: false });
        config.set("version", "PFT1.0").unwrap();
        assert_eq!(config.timestamp_code(), TimestampCode { is_wide: false, is_gray: true });
    }

    #[test]
    fn every_option_is_known() {
        let mut config = Config::default();
        for (name, _) in Config::OPTIONS {
            assert_ne!(config.set(name, "nonsense"), Err(OptionError::Unknown), "{name}");
        }
        assert_eq!(config.set("colour", "1"), Err(OptionError::Unknown));
    }
}
