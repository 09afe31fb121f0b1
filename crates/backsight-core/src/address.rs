//! Addresses, instruction sets and trace source identifiers.

use core::fmt;

/// A virtual address of the traced processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Address(pub u64);

impl Address {
    /// The address `bytes` further on; wraps like the hardware does.
    #[inline]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// The address at a signed distance; wraps like the hardware does.
    #[inline]
    pub const fn offset(self, distance: i64) -> Self {
        Self(self.0.wrapping_add_signed(distance))
    }
}

impl From<u64> for Address {
    fn from(value: u64) -> Self {
        Self(value)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::UpperHex for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::UpperHex::fmt(&self.0, f)
    }
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Isa {
    /// AArch64.
    A64,
    /// AArch32, 4-byte instructions.
    A32,
    /// AArch32, 2- and 4-byte instructions (Thumb).
    T32,
    /// RISC-V with 32-bit registers, compressed instructions included.
    Rv32,
    /// RISC-V with 64-bit registers, compressed instructions included.
    Rv64,
    /// AArch32, Thumb with the changes of the Thumb Execution Environment (ThumbEE).
    ThumbEe,
    /// AArch32 in Jazelle state: Java bytecodes.
    Jazelle,
}

impl Isa {
    /// The name used in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A64 => "A64",
            Self::A32 => "A32",
            Self::T32 => "T32",
            Self::ThumbEe => "ThumbEE",
            Self::Jazelle => "Jazelle",
            Self::Rv32 => "RV32",
            Self::Rv64 => "RV64",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The 7-bit number of a trace source in a CoreSight system. 0x01 to 0x6F name sources, 0 is padding,
/// the rest is reserved or has a meaning to the formatter. A capture of one raw stream uses 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TraceId(u8);

impl TraceId {
    /// Padding in frames; the label of a raw stream that has no number.
    pub const NULL: Self = Self(0x00);
    /// The sink finished a flush here.
    pub const FLUSH: Self = Self(0x7B);
    /// The sink saw its trigger here.
    pub const TRIGGER: Self = Self(0x7D);
    /// Never used: as an ID byte it would imitate a synchronisation packet.
    pub const ILLEGAL: Self = Self(0x7F);

    /// Takes the low seven bits of `value`.
    #[inline]
    pub const fn new(value: u8) -> Self {
        Self(value & 0x7F)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Is this the number of a trace source (0x01 to 0x6F)?
    #[inline]
    pub const fn is_source(self) -> bool {
        matches!(self.0, 0x01..=0x6F)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_0x01_to_0x6f_are_sources() {
        let sources = (0..=0x7F).filter(|&id| TraceId::new(id).is_source()).count();
        assert_eq!(sources, 0x6F);
        assert!(!TraceId::NULL.is_source() && !TraceId::TRIGGER.is_source());
    }

    #[test]
    fn addresses_wrap_like_the_hardware() {
        assert_eq!(Address(u64::MAX).plus(1), Address(0));
        assert_eq!(Address(2).offset(-4), Address(u64::MAX - 1));
    }
}
