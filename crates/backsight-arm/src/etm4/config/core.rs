//! What the name of a core says of it.

use super::option::{CORE, profile};
use super::{Architecture, ConfigError, Profile};

/// Core names that no pattern covers: the name after `Cortex-`, its architecture.
const CORES: &[(&str, Architecture)] = &[
    ("A5", Architecture::V7),
    ("A7", Architecture::V7),
    ("A8", Architecture::V7),
    ("A9", Architecture::V7),
    ("A12", Architecture::V7),
    ("A15", Architecture::V7),
    ("A17", Architecture::V7),
    ("A32", Architecture::V8),
    ("A35", Architecture::V8),
    ("A53", Architecture::V8),
    ("A57", Architecture::V8),
    ("A72", Architecture::V8),
    ("A73", Architecture::V8),
    ("A55", Architecture::V8_3),
    ("A65", Architecture::V8_3),
    ("A75", Architecture::V8_3),
    ("A76", Architecture::V8_3),
    ("A77", Architecture::V8_3),
    ("R4", Architecture::V7),
    ("R5", Architecture::V7),
    ("R7", Architecture::V7),
    ("R8", Architecture::V7),
    ("R52", Architecture::V8),
    ("M0", Architecture::V7),
    ("M0+", Architecture::V7),
    ("M3", Architecture::V7),
    ("M4", Architecture::V7),
    ("M7", Architecture::V7),
    ("M23", Architecture::V8),
    ("M33", Architecture::V8),
    ("M52", Architecture::V8),
    ("M55", Architecture::V8),
    ("M85", Architecture::V8),
];

/// Architecture and profile of a core by its name: a Cortex, or `ARMv8.3-A`, `ARM-AA64` and the like.
pub(super) fn core(text: &str) -> Result<(Architecture, Profile), ConfigError> {
    let bad = ConfigError::BadValue { expected: CORE };
    let after = |prefix: &str| {
        let start = text.get(..prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
    };
    if let Some(name) = after("Cortex-") {
        let known = CORES.iter().find(|(core, _)| core.eq_ignore_ascii_case(name)).ok_or(bad)?;
        return Ok((known.1, profile(name.get(..1).unwrap_or_default())?));
    }
    let (version, suffix) = if let Some(rest) = after("ARM-AA64") {
        ("newest", rest.strip_prefix('-').unwrap_or(rest))
    } else {
        after("ARMv").and_then(|rest| rest.split_once('-')).ok_or(bad)?
    };
    let profile = if suffix.is_empty() { Profile::A } else { profile(suffix).map_err(|_| bad)? };
    Ok((core_architecture(version).ok_or(bad)?, profile))
}

fn core_architecture(version: &str) -> Option<Architecture> {
    if version == "newest" {
        return Some(Architecture::Newest);
    }
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    Some(match (major.parse::<u8>().ok()?, minor.parse::<u8>().ok()?) {
        (6 | 7, _) => Architecture::V7,
        (8, 0..=2) => Architecture::V8,
        (8, 3) => Architecture::V8_3,
        (8.., _) => Architecture::Newest,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_give_profile_and_architecture() {
        for (name, expected) in [
            ("Cortex-A53", (Architecture::V8, Profile::A)),
            ("cortex-m0+", (Architecture::V7, Profile::M)),
            ("ARMv8.3-A", (Architecture::V8_3, Profile::A)),
            ("ARMv7-M", (Architecture::V7, Profile::M)),
            ("ARMv9-A", (Architecture::Newest, Profile::A)),
            ("ARM-aa64", (Architecture::Newest, Profile::A)),
            ("ARM-AA64-R", (Architecture::Newest, Profile::R)),
        ] {
            assert_eq!(core(name), Ok(expected), "{name}");
        }
        for name in ["Cortex-Z80", "ARMv5-A", "", "Cortex-", "ARMv8", "ärger"] {
            assert!(core(name).is_err(), "{name}");
        }
    }
}
