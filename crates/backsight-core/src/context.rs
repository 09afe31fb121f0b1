//! The state a processor executes in, as far as trace tells it.

use core::fmt;

/// Security state of an Arm processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Security {
    /// Secure.
    #[default]
    Secure,
    /// Non-secure.
    NonSecure,
    /// Root (RME).
    Root,
    /// Realm (RME).
    Realm,
}

/// Exception level, security state, register width and the identifiers software gave to what runs.
/// RISC-V traces use `level` for the privilege (0 U, 1 S, 3 M, 4 D, 5 VU, 6 VS) and `context_id` for the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context {
    /// Exception level (Arm) or privilege (RISC-V).
    pub level: u8,
    /// Security state.
    pub security: Security,
    /// 64-bit registers.
    pub wide: bool,
    /// Virtual machine identifier, once one was traced.
    pub vmid: Option<u32>,
    /// Context identifier, once one was traced.
    pub context_id: Option<u32>,
}

impl Context {
    /// The memory space that instructions of this context are fetched from.
    pub const fn space(&self) -> MemorySpace {
        match (self.security, self.level) {
            (Security::Root, _) => MemorySpace::ROOT,
            (Security::Realm, 0 | 1) => MemorySpace::EL1R,
            (Security::Realm, _) => MemorySpace::EL2R,
            (_, 3) => MemorySpace::EL3,
            (Security::Secure, 2) => MemorySpace::EL2S,
            (Security::NonSecure, 2) => MemorySpace::EL2N,
            (Security::Secure, _) => MemorySpace::EL1S,
            (Security::NonSecure, _) => MemorySpace::EL1N,
        }
    }
}

/// A set of memory spaces: what code is visible from which exception level and security state.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct MemorySpace(pub u8);

impl MemorySpace {
    /// Secure EL0 and EL1.
    pub const EL1S: Self = Self(0x01);
    /// Non-secure EL0 and EL1.
    pub const EL1N: Self = Self(0x02);
    /// Non-secure EL2.
    pub const EL2N: Self = Self(0x04);
    /// EL3.
    pub const EL3: Self = Self(0x08);
    /// Secure EL2.
    pub const EL2S: Self = Self(0x10);
    /// Realm EL0 and EL1.
    pub const EL1R: Self = Self(0x20);
    /// Realm EL2.
    pub const EL2R: Self = Self(0x40);
    /// Root.
    pub const ROOT: Self = Self(0x80);
    /// Every secure space.
    pub const ANY_S: Self = Self(0x19);
    /// Every non-secure space.
    pub const ANY_N: Self = Self(0x06);
    /// Every realm space.
    pub const ANY_R: Self = Self(0x60);
    /// Everywhere.
    pub const ANY: Self = Self(0xFF);

    /// Do the two sets share a space?
    #[inline]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The name in listings and snapshot files, where the set has one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::EL1S => "EL1S",
            Self::EL1N => "EL1N",
            Self::EL2N => "EL2N",
            Self::EL3 => "EL3",
            Self::EL2S => "EL2S",
            Self::EL1R => "EL1R",
            Self::EL2R => "EL2R",
            Self::ROOT => "Root",
            Self::ANY_S => "Any S",
            Self::ANY_N => "Any NS",
            Self::ANY_R => "Any R",
            Self::ANY => "Any",
            _ => return None,
        })
    }
}

impl fmt::Debug for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "MemorySpace({name})"),
            None => write!(f, "MemorySpace({:#04x})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_context_has_exactly_one_space() {
        for security in [Security::Secure, Security::NonSecure, Security::Root, Security::Realm] {
            for level in 0..4 {
                let space = Context { level, security, ..Context::default() }.space();
                assert_eq!(space.0.count_ones(), 1, "{security:?} EL{level}");
            }
        }
    }
}
