//! What ETMv3 and PTM share: names of registers, and how their configuration is read.

use backsight_arm::ptm::{OptionError, Registers};

use super::{BadSetting, Described, IdRegister};

/// The register that holds the trace ID.
pub(super) const ID: IdRegister = IdRegister { names: &["ETMTRACEIDR"], lowest_bit: 0 };
/// What a decoder cannot do without.
pub(super) const NEEDED: &[&str] = &["ETMCR", "ETMIDR", "ETMCCER"];

/// Sets a register or an option of a configuration.
type Set<C> = fn(&mut C, &str, &str) -> Result<(), OptionError>;

/// Reads the configuration of a source: version, registers, then options, which win where they differ.
pub(super) fn configure<C>(
    source: &Described<'_>,
    config: &mut C,
    set: Set<C>,
    notes: &mut Vec<String>,
) -> Result<(), BadSetting> {
    // A version without a number says nothing that the ID register does not.
    if let Some(version) = source.version.filter(|version| version.contains('.'))
        && set(config, "version", version).is_err()
    {
        notes.push(format!("source {}: the version in `{version}` is not known", source.name));
    }
    for name in Registers::NAMES {
        let Some(register) = source.register(name) else { continue };
        if set(config, name, &register.text).is_err() {
            let text = &register.text;
            notes.push(format!("source {}: {name} is `{text}`, expected a 32-bit number", source.name));
        }
    }
    for (key, value) in source.options {
        match set(config, &key.to_ascii_lowercase(), value) {
            // Options of other protocols, and what is said for people.
            Ok(()) | Err(OptionError::Unknown) => {}
            Err(error) => {
                let what = format!("`{key}` is `{value}`: {error}");
                return Err(BadSetting { key: key.clone(), what, unknown: false });
            }
        }
    }
    Ok(())
}

/// Is this a register or an option, with a value that it can have?
pub(super) fn check<C: Default>(
    key: &str,
    value: &str,
    set: Set<C>,
    options: &[(&str, &str)],
) -> Result<(), BadSetting> {
    set(&mut C::default(), &key.to_ascii_lowercase(), value).map_err(|error| {
        let unknown = error == OptionError::Unknown;
        let what = if unknown {
            let names: Vec<&str> = options.iter().map(|(name, _)| *name).collect();
            format!("{error}; expected ETMCR, ETMIDR, ETMCCER or one of {}", names.join(", "))
        } else {
            error.to_string()
        };
        BadSetting { key: key.to_owned(), what, unknown }
    })
}
