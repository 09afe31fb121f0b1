//! The registers that decide how a stream is read.

use super::{Config, ConfigError};

/// Values of the registers that a decoder or encoder needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// TRCCONFIGR: what is switched on.
    pub configr: u32,
    /// TRCTRACEIDR: trace ID.
    pub traceidr: u32,
    /// TRCCCCTLR: cycle count threshold as programmed. The stream repeats it in Trace Info.
    pub ccctlr: u32,
    /// TRCIDR0: capabilities.
    pub idr0: u32,
    /// TRCIDR1: version.
    pub idr1: u32,
    /// TRCIDR2: sizes.
    pub idr2: u32,
    /// TRCIDR3: smallest cycle threshold and more.
    pub idr3: u32,
    /// TRCIDR4: numbers of comparators.
    pub idr4: u32,
    /// TRCIDR5: width of the trace ID and more.
    pub idr5: u32,
    /// TRCIDR8: maximum speculation depth.
    pub idr8: u32,
    /// TRCIDR9: number of P0 keys.
    pub idr9: u32,
    /// TRCIDR10: number of P1 keys (data trace).
    pub idr10: u32,
    /// TRCIDR11: number of special P1 keys (data trace).
    pub idr11: u32,
    /// TRCIDR12: number of conditional keys.
    pub idr12: u32,
    /// TRCIDR13: number of special conditional keys.
    pub idr13: u32,
    /// TRCAUTHSTATUS: which debug was allowed.
    pub authstatus: u32,
    /// TRCDEVARCH: architecture and its revision.
    pub devarch: u32,
}

impl Registers {
    /// A Cortex-A53 or A57 class ETMv4.0 tracing context IDs and VMIDs.
    pub const ETM4: Self = Self {
        configr: 0xC1,
        traceidr: 0,
        ccctlr: 0,
        idr0: 0x2800_0EA1,
        idr1: 0x4100_F403,
        idr2: 0x0000_0488,
        idr3: 0,
        idr4: 0,
        idr5: 0,
        idr8: 0,
        idr9: 0,
        idr10: 0,
        idr11: 0,
        idr12: 0,
        idr13: 0,
        authstatus: 0,
        devarch: 0,
    };

    /// The same as an ETE 1.0.
    pub const ETE: Self = Self { idr1: 0x4100_FFF3, devarch: 0x4770_5A13, ..Self::ETM4 };

    fn by_name(&mut self, name: &str) -> Option<&mut u32> {
        let name = name.get(..3).filter(|prefix| prefix.eq_ignore_ascii_case("TRC")).and(name.get(3..))?;
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        Some(match () {
            () if is("CONFIGR") => &mut self.configr,
            () if is("TRACEIDR") => &mut self.traceidr,
            () if is("CCCTLR") => &mut self.ccctlr,
            () if is("IDR0") => &mut self.idr0,
            () if is("IDR1") => &mut self.idr1,
            () if is("IDR2") => &mut self.idr2,
            () if is("IDR3") => &mut self.idr3,
            () if is("IDR4") => &mut self.idr4,
            () if is("IDR5") => &mut self.idr5,
            () if is("IDR8") => &mut self.idr8,
            () if is("IDR9") => &mut self.idr9,
            () if is("IDR10") => &mut self.idr10,
            () if is("IDR11") => &mut self.idr11,
            () if is("IDR12") => &mut self.idr12,
            () if is("IDR13") => &mut self.idr13,
            () if is("AUTHSTATUS") => &mut self.authstatus,
            () if is("DEVARCH") => &mut self.devarch,
            () => return None,
        })
    }
}

/// Registers of a trace unit that do not change how its stream is read, without `TRC` and a number at the end.
const WITHOUT_EFFECT: &[&str] = &[
    "ACATR",
    "ACVR",
    "AUXCTLR",
    "BBCTLR",
    "CIDCCTLR",
    "CIDCVR",
    "CIDR",
    "CLAIMCLR",
    "CLAIMSET",
    "CNTCTLR",
    "CNTRLDVR",
    "CNTVR",
    "DEVAFF",
    "DEVID",
    "DEVTYPE",
    "DVCMR",
    "DVCVR",
    "EVENTCTL",
    "EVENTCTL0R",
    "EVENTCTL1R",
    "EXTINSELR",
    "IDR",
    "IMSPEC",
    "ITCTRL",
    "ITEEDCR",
    "LAR",
    "LSR",
    "OSLAR",
    "OSLSR",
    "PDCR",
    "PDSR",
    "PIDR",
    "PRGCTLR",
    "PROCSELR",
    "QCTLR",
    "RSCTLR",
    "RSR",
    "SEQEVR",
    "SEQRSTEVR",
    "SEQSTR",
    "SSCCR",
    "SSCSR",
    "SSPCICR",
    "STALLCTLR",
    "STATR",
    "SYNCPR",
    "TSCTLR",
    "VDARCCTLR",
    "VDCTLR",
    "VDSACCTLR",
    "VICTLR",
    "VIIECTLR",
    "VIPCSSCTLR",
    "VISSCTLR",
    "VMIDCCTLR",
    "VMIDCVR",
];

impl Config {
    /// Sets a register by the manual's name, in any case: `TRCCONFIGR`, `TRCIDR0` … A register that does not
    /// change how the stream is read is accepted and has no effect.
    ///
    /// # Errors
    /// If a trace unit has no register of that name.
    pub fn set_register(&mut self, name: &str, value: u32) -> Result<(), ConfigError> {
        if let Some(register) = self.registers.by_name(name) {
            *register = value;
            return Ok(());
        }
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let known = name.get(..3).is_some_and(|prefix| prefix.eq_ignore_ascii_case("TRC"))
            && WITHOUT_EFFECT
                .iter()
                .any(|other| base.get(3..).is_some_and(|rest| rest.eq_ignore_ascii_case(other)));
        if known { Ok(()) } else { Err(ConfigError::UnknownRegister) }
    }

    /// The value of a register by the manual's name, in any case, where it is one that matters.
    pub fn register(&self, name: &str) -> Option<u32> {
        let mut registers = self.registers;
        registers.by_name(name).map(|register| *register)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_set_by_name_in_any_case() {
        let mut config = Config::etm4_default();
        config.set_register("trcConfigR", 0x1234).unwrap();
        config.set_register("TRCIDR13", 7).unwrap();
        assert_eq!(config.registers.configr, 0x1234);
        assert_eq!(config.register("TRCIDR13"), Some(7));
    }

    #[test]
    fn other_registers_of_a_trace_unit_have_no_effect_and_unknown_ones_are_an_error() {
        let mut config = Config::etm4_default();
        for name in ["TRCVICTLR", "TRCEVENTCTL0R", "TRCACVR15", "TRCPIDR4", "TRCIDR7"] {
            assert_eq!(config.set_register(name, 1), Ok(()), "{name}");
        }
        assert_eq!(config, Config::etm4_default());
        for name in ["TRCCONFGR", "ETMCR", "", "TRC", "é", "TRCé", "PC"] {
            assert_eq!(config.set_register(name, 1), Err(ConfigError::UnknownRegister), "{name}");
        }
    }
}
