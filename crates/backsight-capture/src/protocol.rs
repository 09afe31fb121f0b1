//! What a trace source speaks.

use std::fmt;

/// A trace protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// ETMv4 instruction trace.
    Etm4,
    /// ETMv4 data trace, the second stream of a trace unit.
    Etm4Data,
    /// Embedded Trace Extension.
    Ete,
    /// ETMv3.
    Etm3,
    /// Program Flow Trace (PTM).
    Ptm,
    /// Instrumentation Trace Macrocell.
    Itm,
    /// MIPI System Trace Protocol, from a System Trace Macrocell.
    Stm,
    /// RISC-V Efficient Trace.
    Etrace,
    /// RISC-V N-Trace (Nexus).
    Ntrace,
    /// Something else.
    Unknown,
}

impl Protocol {
    /// Those with a name.
    pub const ALL: [Self; 9] = [
        Self::Etm4,
        Self::Etm4Data,
        Self::Ete,
        Self::Etm3,
        Self::Ptm,
        Self::Itm,
        Self::Stm,
        Self::Etrace,
        Self::Ntrace,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etm4 => "etm4",
            Self::Etm4Data => "etm4-data",
            Self::Ete => "ete",
            Self::Etm3 => "etm3",
            Self::Ptm => "ptm",
            Self::Itm => "itm",
            Self::Stm => "stm",
            Self::Etrace => "etrace",
            Self::Ntrace => "ntrace",
            Self::Unknown => "unknown",
        }
    }

    /// The protocol that a device type (`ETM4.2`), a format (`PFT1.1`) or a name on the command line means. The
    /// version does not matter here: ID registers tell it better.
    pub fn from_name(name: &str) -> Self {
        let name = name.trim().to_ascii_lowercase();
        let base = name.split('.').next().unwrap_or_default();
        match base {
            "etm4" => Self::Etm4,
            "etm4-data" | "etm4_data" => Self::Etm4Data,
            "ete" | "ete1" => Self::Ete,
            "etm3" => Self::Etm3,
            "ptm" | "ptm1" | "pft" | "pft1" => Self::Ptm,
            "itm" | "itm1" => Self::Itm,
            "stm" | "stp" | "stp1" | "stp2" => Self::Stm,
            "etrace" | "e-trace" | "etrace1" | "etrace2" => Self::Etrace,
            "ntrace" | "n-trace" | "nexus" | "ntrace1" => Self::Ntrace,
            _ => Self::Unknown,
        }
    }

    /// The word for it in a trace package where nothing more exact was given.
    pub const fn format(self) -> &'static str {
        match self {
            Self::Etm4 | Self::Etm4Data => "ETM4.0",
            Self::Ete => "ETE1.0",
            Self::Etm3 => "ETM3.5",
            Self::Ptm => "PFT1.1",
            Self::Itm => "ITM",
            Self::Stm => "STP",
            Self::Etrace => "E-Trace",
            Self::Ntrace => "N-Trace",
            Self::Unknown => "unknown",
        }
    }

    /// The register that holds the trace ID, and the lowest bit of the ID in it.
    pub const fn id_register(self) -> Option<(&'static [&'static str], u32)> {
        match self {
            Self::Etm4 | Self::Etm4Data | Self::Ete => Some((&["TRCTRACEIDR"], 0)),
            Self::Etm3 | Self::Ptm => Some((&["ETMTRACEIDR"], 0)),
            Self::Itm => Some((&["ITMTCR", "CONTROL_REGISTER"], 16)),
            Self::Stm => Some((&["STMTCSR"], 16)),
            Self::Etrace | Self::Ntrace | Self::Unknown => None,
        }
    }

    /// Registers without which a stream cannot be read for certain.
    pub const fn needed_registers(self) -> &'static [&'static str] {
        match self {
            Self::Etm4 | Self::Ete => &["TRCCONFIGR", "TRCIDR0", "TRCIDR2"],
            Self::Etm3 | Self::Ptm => &["ETMCR", "ETMIDR", "ETMCCER"],
            _ => &[],
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_snapshots_and_formats_of_packages_name_protocols() {
        for (text, protocol) in [
            ("ETM4", Protocol::Etm4),
            ("ETM4.2", Protocol::Etm4),
            ("ETE", Protocol::Ete),
            ("ETE1.1", Protocol::Ete),
            ("ETM3.5", Protocol::Etm3),
            ("PTM1.1", Protocol::Ptm),
            ("PFT1.1", Protocol::Ptm),
            ("PTM", Protocol::Ptm),
            ("STM", Protocol::Stm),
            ("STP", Protocol::Stm),
            ("ITM", Protocol::Itm),
            ("E-Trace", Protocol::Etrace),
            ("ETM1.0", Protocol::Unknown),
            ("", Protocol::Unknown),
        ] {
            assert_eq!(Protocol::from_name(text), protocol, "{text}");
        }
    }

    #[test]
    fn names_and_formats_come_back() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::from_name(protocol.name()), protocol);
            if protocol != Protocol::Etm4Data {
                assert_eq!(Protocol::from_name(protocol.format()), protocol);
            }
        }
    }
}
