//! Parameters as text: `esdc:sets=64,ways=2` is a preset with two of them changed.
//!
//! The same text, with every parameter, describes the scheme in a container.

use crate::general::General;
use crate::mix::Mix;
use crate::scheme::{PRESETS, Scheme};
use crate::sdc::Upper;
use crate::tmbp::Field;
use std::fmt;

/// A value that can be written and read.
trait Value: Sized {
    fn write(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

macro_rules! plain_values {
    ($($type:ty)*) => {
        $(impl Value for $type {
            fn write(&self) -> String {
                self.to_string()
            }

            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        })*
    };
}

plain_values!(u8 u16 u32 bool);

impl Value for Option<u32> {
    fn write(&self) -> String {
        self.map_or("all".into(), |bits| bits.to_string())
    }

    fn read(text: &str) -> Option<Self> {
        if text == "all" { Some(None) } else { text.parse().ok().map(Some) }
    }
}

impl Value for Upper {
    fn write(&self) -> String {
        match self {
            Self::Everywhere => "everywhere".into(),
            Self::LastSent { low } => format!("sent/{low}"),
            Self::LastStream { low } => format!("stream/{low}"),
        }
    }

    fn read(text: &str) -> Option<Self> {
        match text.split_once('/') {
            None if text == "everywhere" => Some(Self::Everywhere),
            Some(("sent", low)) => Some(Self::LastSent { low: low.parse().ok()? }),
            Some(("stream", low)) => Some(Self::LastStream { low: low.parse().ok()? }),
            _ => None,
        }
    }
}

impl Value for Field {
    fn write(&self) -> String {
        format!("{}/{}", self.size, self.step)
    }

    fn read(text: &str) -> Option<Self> {
        let (size, step) = text.split_once('/')?;
        Some(Self { size: size.parse().ok()?, step: step.parse().ok()? })
    }
}

/// Lengths with `/` between them; the rest is unused.
impl<const N: usize> Value for [u16; N] {
    fn write(&self) -> String {
        let used: Vec<_> =
            self.iter().filter(|&&length| length != Mix::UNUSED).map(ToString::to_string).collect();
        used.join("/")
    }

    fn read(text: &str) -> Option<Self> {
        let mut all = [Mix::UNUSED; N];
        if !text.is_empty() {
            for (at, length) in text.split('/').enumerate() {
                *all.get_mut(at)? = length.parse().ok()?;
            }
        }
        Some(all)
    }
}

/// Why a text describes no scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadScheme {
    /// There is no scheme of that name.
    Name(String),
    /// The scheme has no such parameter.
    Parameter(String),
    /// The parameter cannot have that value.
    Value(String),
    /// The parameters do not fit together.
    Build(&'static str),
}

impl fmt::Display for BadScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(f, "there is no scheme `{name}`; there are")?;
                PRESETS.iter().try_for_each(|(name, _)| write!(f, " {name}"))
            }
            Self::Parameter(name) => write!(f, "the scheme has no parameter `{name}`"),
            Self::Value(text) => write!(f, "`{text}` is no value of that parameter"),
            Self::Build(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BadScheme {}

macro_rules! parameters {
    ($($scheme:ident { $($field:ident)* })*) => {
        impl Scheme {
            fn set(&mut self, name: &str, text: &str) -> Result<(), BadScheme> {
                let bad = || BadScheme::Value(text.into());
                match self {
                    $(Self::$scheme(build) => match name {
                        $(stringify!($field) => build.$field = Value::read(text).ok_or_else(bad)?,)*
                        _ => return Err(BadScheme::Parameter(name.into())),
                    },)*
                }
                Ok(())
            }

            /// Every parameter and its value.
            pub fn parameters(&self) -> Vec<(&'static str, String)> {
                match self {
                    $(Self::$scheme(build) => vec![$((stringify!($field), build.$field.write()),)*],)*
                }
            }
        }
    };
}

parameters! {
    Base { grouped longest address_bits }
    Dmtf { first second entry_bits count_runs longest address_bits }
    Sdc { sets ways shift upper count_runs align longest address_bits }
    Tmbp { index_bits history_bits shift returns sets ways branches targets exceptions address_bits }
    Lz { window longest address_bits }
    Mix {
        table state tag_bits events iterations locals paths loops runs branches surprise rate certain sets layers refined returns
        targets buffer_bits start_bits address_bits
    }
    General { level longest address_bits }
}

impl Scheme {
    /// Reads `PRESET[:NAME=VALUE,…]`.
    pub fn parse(text: &str) -> Result<Self, BadScheme> {
        let (name, changes) = text.split_once(':').unwrap_or((text, ""));
        let mut scheme = Self::preset(name).ok_or_else(|| BadScheme::Name(name.into()))?;
        for change in changes.split(',').filter(|change| !change.is_empty()) {
            let (name, value) = change.split_once('=').ok_or_else(|| BadScheme::Parameter(change.into()))?;
            scheme.set(name.trim(), value.trim())?;
        }
        scheme.check().map_err(BadScheme::Build)?;
        Ok(scheme)
    }

    /// The name of the preset that it is, whatever its addresses; else the whole description.
    pub fn name(&self) -> String {
        let is_it = |preset: &Self| preset.with_address_bits(64) == self.with_address_bits(64);
        let preset = PRESETS.iter().find(|(_, preset)| is_it(preset));
        preset.map_or_else(|| self.to_string(), |(name, _)| (*name).to_owned())
    }

    /// The name of a preset of the same kind.
    pub fn kind(&self) -> &'static str {
        let same = |other: &Self| match (self, other) {
            (Self::General(General { program: a, .. }), Self::General(General { program: b, .. })) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        };
        PRESETS.iter().find(|(_, scheme)| same(scheme)).map_or("base", |(name, _)| name)
    }
}

/// The whole description, as [`Scheme::parse`] reads it.
impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind())?;
        for (number, (name, value)) in self.parameters().iter().enumerate() {
            write!(f, "{}{name}={value}", if number == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdc::Sdc;

    #[test]
    fn every_preset_is_read_as_it_is_written() {
        for (name, scheme) in PRESETS {
            assert_eq!(Scheme::parse(name).as_ref(), Ok(scheme));
            assert_eq!(Scheme::parse(&scheme.to_string()).as_ref(), Ok(scheme), "{scheme}");
            assert_eq!(scheme.with_address_bits(32).name(), *name);
        }
    }

    #[test]
    fn what_is_wrong_with_a_description_is_said() {
        assert_eq!(
            Scheme::parse("esdc:sets=64,ways=2"),
            Ok(Scheme::Sdc(Sdc { ways: 2, ..Sdc::enhanced(64, 4) }))
        );
        // How the mixes were built before: what they wrote is refused, not read as if it were of today.
        assert_eq!(
            Scheme::parse("mix1k:table=372,state=3,threshold=7864"),
            Err(BadScheme::Parameter("threshold".into()))
        );
        assert_eq!(Scheme::parse("zip"), Err(BadScheme::Name("zip".into())));
        assert_eq!(Scheme::parse("btmbp:size=1"), Err(BadScheme::Parameter("size".into())));
        assert_eq!(Scheme::parse("btmbp:sets=x"), Err(BadScheme::Value("x".into())));
        assert!(matches!(Scheme::parse("btmbp:sets=3"), Err(BadScheme::Build(_))));
    }
}
