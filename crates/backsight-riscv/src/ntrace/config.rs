//! How messages of a stream are laid out.

/// How messages of a stream are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Bits of the SRC field; 0 if there is only one source.
    pub source_bits: u8,
    /// Bits of an address field of which the highest is copied upward; 0 if addresses are not extended.
    pub address_bits: u8,
    /// Whose messages they are; `None` if that has to show in the messages.
    pub dialect: Option<Dialect>,
}

/// Whose messages they are. All messages of one can stand beside those of the other; times differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// N-Trace 1.0: a TSTAMP is added to the time.
    Ratified,
    /// SiFive's trace encoders: a TSTAMP is what changed in the time, bit by bit.
    Sifive,
}

impl Config {
    /// A stream with so many bits of SRC.
    pub const fn with_source_bits(source_bits: u8) -> Self {
        Self { source_bits, address_bits: 0, dialect: None }
    }

    /// Whose messages they are, as far as the layout says: only SiFive's addresses are extended from a fixed bit.
    pub const fn known_dialect(&self) -> Option<Dialect> {
        match (self.dialect, self.address_bits) {
            (None, 1..) => Some(Dialect::Sifive),
            (dialect, _) => dialect,
        }
    }

    /// Bits of the SRC field, as many as there can be at most.
    #[inline]
    pub(super) fn source_width(&self) -> u32 {
        self.source_bits.min(MOST_SOURCE_BITS).into()
    }

    /// An address field, with its highest bit copied upward.
    pub const fn extend(&self, field: u64) -> u64 {
        match self.address_bits {
            bits @ 1..=63 => (((field << (64 - bits)) as i64) >> (64 - bits)) as u64,
            _ => field,
        }
    }
}

/// Most bits of the SRC field.
pub const MOST_SOURCE_BITS: u8 = 12;
