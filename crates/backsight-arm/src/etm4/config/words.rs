//! A configuration in words, for people.

use core::fmt;

use super::{Architecture, Config, Profile};

/// Displays a [`Config`] in words: `ETMv4.0, A profile; on: context ID (32 bits), VMID (8 bits)`.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(pub(super) &'a Config);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.0;
        let version = config.version().0;
        if config.is_ete() {
            write!(f, "ETE 1.{}", version & 0xF)?;
        } else {
            write!(f, "ETMv{}.{}", version >> 4, version & 0xF)?;
        }
        let profile = match config.profile {
            Profile::A => "A",
            Profile::R => "R",
            Profile::M => "M",
        };
        let architecture = match config.architecture {
            Architecture::V7 => ", Armv7",
            Architecture::V8 => ", Armv8.0",
            Architecture::V8_3 => ", Armv8.3",
            Architecture::Newest => "",
        };
        write!(f, "{architecture}, {profile} profile, {}-bit addresses", config.address_bits())?;
        if config.max_speculation() > 0 {
            write!(f, ", speculation depth {}", config.max_speculation())?;
        }
        let mut list = List { f, any: false };
        list.item(
            config.cycle_counting(),
            format_args!("cycle counts (commit mode {})", u8::from(config.commit_mode1())),
        )?;
        list.item(config.timestamps(), format_args!("timestamps ({} bits)", config.timestamp_bits()))?;
        list.item(config.context_id(), format_args!("context ID ({} bits)", config.context_id_bytes() * 8))?;
        let of = if config.vmid_is_context_id() { " of CONTEXTIDR_EL2" } else { "" };
        list.item(config.vmid(), format_args!("VMID ({} bits{of})", config.vmid_bytes() * 8))?;
        list.item(config.return_stack(), format_args!("return stack"))?;
        list.item(config.branch_broadcast(), format_args!("branch broadcast"))?;
        list.item(
            config.q_elements() && config.registers.configr >> 13 & 3 != 0,
            format_args!("Q elements"),
        )?;
        list.item(config.conditional(), format_args!("conditional instructions"))?;
        list.item(config.loads_p0(), format_args!("loads"))?;
        list.item(config.stores_p0(), format_args!("stores"))?;
        list.item(config.data_trace(), format_args!("data trace"))?;
        if list.any { Ok(()) } else { f.write_str("; nothing beyond branches is on") }
    }
}

struct List<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    any: bool,
}

impl List<'_, '_> {
    fn item(&mut self, on: bool, text: fmt::Arguments<'_>) -> fmt::Result {
        if !on {
            return Ok(());
        }
        self.f.write_str(if self.any { ", " } else { "; on: " })?;
        self.any = true;
        self.f.write_fmt(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_configuration_reads_as_a_sentence() {
        assert_eq!(
            Config::etm4_default().words().to_string(),
            "ETMv4.0, A profile, 64-bit addresses; on: context ID (32 bits), VMID (8 bits)"
        );
        let mut config = Config::ete_default();
        for (name, value) in [("TRCCONFIGR", "0x1"), ("max_spec", "6"), ("core", "Cortex-A53")] {
            config.set(name, value).unwrap();
        }
        assert_eq!(
            config.words().to_string(),
            "ETE 1.0, Armv8.0, A profile, 64-bit addresses, speculation depth 6; nothing beyond branches is on"
        );
        config.set("cyclecount", "1").unwrap();
        config.set("return_stack", "1").unwrap();
        assert!(config.words().to_string().ends_with("; on: cycle counts (commit mode 1), return stack"));
    }
}
