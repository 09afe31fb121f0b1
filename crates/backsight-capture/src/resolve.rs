//! From registers and options to the configuration of a protocol.
//!
//! Registers say what the hardware was; options say what somebody wants. Where both are given and differ, options
//! win, and the capture says so.

use crate::model::{Register, SourceConfig};
use crate::{Protocol, ini::short};
use backsight_arm::etm4::{Config, ConfigError};
use backsight_core::TraceId;

/// What a capture says of one source.
pub(crate) struct Given<'a> {
    pub(crate) name: &'a str,
    pub(crate) protocol: Protocol,
    /// The version label, where it counts: a snapshot's does not.
    pub(crate) version: Option<&'a str>,
    pub(crate) registers: &'a [Register],
    pub(crate) options: &'a [(String, String)],
    /// Type of the processor.
    pub(crate) core: Option<&'a str>,
    /// Registers are how this capture describes sources: complain about those that are missing.
    pub(crate) complete: bool,
}

/// An option that makes no sense.
pub(crate) struct BadOption {
    pub(crate) key: String,
    pub(crate) what: String,
}

impl Given<'_> {
    fn register(&self, name: &str) -> Option<&Register> {
        self.registers.iter().find(|register| register.name.eq_ignore_ascii_case(name))
    }

    /// The trace ID in the registers.
    pub(crate) fn trace_id(&self, warnings: &mut Vec<String>) -> Option<TraceId> {
        let (names, lowest) = self.protocol.id_register()?;
        let Some(register) = names.iter().find_map(|name| self.register(name)) else {
            warnings.push(format!(
                "source {}: register {} is not given: its trace ID is not known",
                self.name, names[0]
            ));
            return None;
        };
        let Some(value) = register.value else {
            let (name, text) = (&register.name, short(&register.text));
            warnings.push(format!("source {}: {name} is `{text}`, expected a number", self.name));
            return None;
        };
        Some(TraceId::new((value >> lowest) as u8 & 0x7F))
    }

    /// The configuration in the terms of the protocol.
    pub(crate) fn resolve(&self, warnings: &mut Vec<String>) -> Result<SourceConfig, BadOption> {
        if self.complete {
            for name in self.protocol.needed_registers() {
                if self.register(name).is_none() {
                    warnings.push(format!(
                        "source {}: register {name} is not given: a usual value is assumed",
                        self.name
                    ));
                }
            }
        }
        match self.protocol {
            Protocol::Etm4 | Protocol::Etm4Data | Protocol::Ete => self.etm4(warnings),
            _ => Ok(SourceConfig::Plain),
        }
    }

    fn etm4(&self, warnings: &mut Vec<String>) -> Result<SourceConfig, BadOption> {
        let ete = self.protocol == Protocol::Ete;
        let mut config = if ete { Config::ete_default() } else { Config::etm4_default() };
        if let Some(version) = self.version
            && config.set_option("version", version).is_err()
        {
            warnings.push(format!("source {}: the version in `{}` is not known", self.name, short(version)));
        }
        for register in self.registers {
            match register.value.map(u32::try_from) {
                Some(Ok(value)) => drop(config.set_register(&register.name, value)),
                _ if config.register(&register.name).is_some() => {
                    let (name, text) = (&register.name, short(&register.text));
                    warnings
                        .push(format!("source {}: {name} is `{text}`, expected a 32-bit number", self.name));
                }
                _ => {}
            }
        }
        self.settle_version(&mut config, warnings);
        if let Some(core) = self.core
            && config.set_option("core", core).is_err()
        {
            warnings.push(format!(
                "source {}: core type `{}` is not known: the newest architecture, A profile, is assumed",
                self.name,
                short(core)
            ));
        }
        self.apply_options(&mut config, warnings)?;
        Ok(SourceConfig::Etm4(Box::new(config)))
    }

    /// Makes the version agree with the protocol, which the type of the device decides.
    fn settle_version(&self, config: &mut Config, warnings: &mut Vec<String>) {
        let ete = self.protocol == Protocol::Ete;
        if config.is_ete() == ete && config.version().0 >= 0x40 {
            return;
        }
        let before = config.version().0;
        if ete {
            config.registers.idr1 |= 0xFF0;
            if !config.is_ete() {
                config.registers.devarch = 0x4770_5A13;
            }
        } else {
            config.registers.idr1 = config.registers.idr1 & !0xFF0 | 0x460;
        }
        if self.register("TRCIDR1").is_some() {
            warnings.push(format!(
                "source {}: TRCIDR1 and TRCDEVARCH say version {}.{}, which is no {}: read as {}",
                self.name,
                before >> 4,
                before & 0xF,
                if ete { "ETE" } else { "ETMv4" },
                config.words()
            ));
        }
    }

    fn apply_options(&self, config: &mut Config, warnings: &mut Vec<String>) -> Result<(), BadOption> {
        for (key, value) in self.options {
            let before = *config;
            match config.set_option(key, value) {
                Ok(()) => {}
                // Options of other protocols, and what is said for people.
                Err(ConfigError::UnknownOption | ConfigError::UnknownRegister) => continue,
                Err(error) => {
                    return Err(BadOption {
                        key: key.clone(),
                        what: format!("`{key}` is `{}`: {error}", short(value)),
                    });
                }
            }
            for register in self.registers {
                let values = (before.register(&register.name), config.register(&register.name));
                if let (Some(from), Some(to)) = values
                    && from != to
                {
                    let name = &register.name;
                    warnings.push(format!(
                        "source {}: option {key}={value} contradicts {name}={from:#x}; the option wins",
                        self.name
                    ));
                }
            }
        }
        Ok(())
    }
}
