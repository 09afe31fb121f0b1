//! What ETMv3 and PTM share: names of registers, and how their configuration is read.

use backsight_arm::etm::{Configuration, Decoder, OptionError, Registers};
use backsight_core::{Accounting, Located};

use super::packets::PacketDecoder;
use super::{BadSetting, Described, IdRegister};

/// The register that holds the trace ID.
pub(super) const ID: IdRegister = IdRegister { names: &["ETMTRACEIDR"], lowest_bit: 0 };
/// What a decoder cannot do without.
pub(super) const NEEDED: &[&str] = &["ETMCR", "ETMIDR", "ETMCCER"];

/// Reads the configuration of a source: version, registers, then options, which win where they differ.
pub(super) fn configure(
    source: &Described<'_>,
    config: &mut impl Configuration,
    notes: &mut Vec<String>,
) -> Result<(), BadSetting> {
    // A version without a number says nothing that the ID register does not.
    if let Some(version) = source.version.filter(|version| version.contains('.'))
        && config.set("version", version).is_err()
    {
        notes.push(format!("source {}: the version in `{version}` is not known", source.name));
    }
    for name in Registers::NAMES {
        let Some(register) = source.register(name) else { continue };
        if config.set(name, &register.text).is_err() {
            let text = &register.text;
            notes.push(format!("source {}: {name} is `{text}`, expected a 32-bit number", source.name));
        }
    }
    for (key, value) in source.options {
        match config.set(&key.to_ascii_lowercase(), value) {
            // Options of other protocols, and what is said for people.
            Ok(()) | Err(OptionError::Unknown) => {}
            Err(error) => {
                let what = format!("`{key}` is `{value}`: {error}");
                return Err(BadSetting { key: key.clone(), what, unknown: false });
            }
        }
    }
    if let Some(id) = source.id {
        config.registers_mut().traceidr = u32::from(id.get());
    }
    Ok(())
}

/// The registers that say how the unit was programmed.
pub(super) fn registers(config: &impl Configuration) -> Vec<(&'static str, u32)> {
    let named = Registers::NAMES.into_iter().take(3);
    named.filter_map(|name| Some((name, config.registers().get(name)?))).collect()
}

/// Is this a register or an option, with a value that it can have?
pub(super) fn check<C: Configuration>(key: &str, value: &str) -> Result<(), BadSetting> {
    C::default().set(&key.to_ascii_lowercase(), value).map_err(|error| {
        let unknown = error == OptionError::Unknown;
        let what = if unknown {
            let names: Vec<&str> = C::OPTIONS.iter().map(|(name, _)| *name).collect();
            format!("{error}; expected ETMCR, ETMIDR, ETMCCER or one of {}", names.join(", "))
        } else {
            error.to_string()
        };
        BadSetting { key: key.to_owned(), what, unknown }
    })
}

impl<C: Configuration> PacketDecoder for Decoder<C> {
    type Packet = C::Packet;

    #[inline]
    fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<C::Packet>)) {
        Self::feed(self, bytes, sink);
    }

    fn reset(&mut self, sink: &mut impl FnMut(Located<C::Packet>)) {
        Self::reset(self, sink);
    }

    fn accounting(&self) -> Accounting {
        Self::accounting(self)
    }

    fn is_skipped(packet: &C::Packet) -> bool {
        *packet == C::UNSYNCHRONISED
    }
}
