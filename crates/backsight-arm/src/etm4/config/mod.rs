//! How a trace unit was built and programmed.
//!
//! The ID registers (TRCIDRn) say what the unit can do and how wide its fields are; TRCCONFIGR says what was
//! switched on. A [`Config`] holds the register values and reads everything from them, so that it cannot
//! contradict itself. Two facts are in no register and stand beside them: the [`Profile`] and the
//! [`Architecture`] of the processor.

mod core;
mod option;
mod register;
mod words;

pub use option::ConfigError;
pub use register::Registers;
pub use words::Words;

/// Architecture profile of the traced processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Application.
    #[default]
    A,
    /// Real-time.
    R,
    /// Microcontroller: T32 only, exception numbers of its own.
    M,
}

/// Architecture of the traced processor, as far as instruction decoding depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// Armv6-M, Armv7.
    V7,
    /// Armv8.0 to Armv8.2.
    V8,
    /// Armv8.3 on: pointer authentication.
    V8_3,
    /// Every instruction known; what an older processor lacks is unallocated there.
    #[default]
    Newest,
}

/// Version of the trace unit architecture: major number in bits 7:4, minor in bits 3:0. ETMv4.x is 0x40 to
/// 0x46; ETE 1.x is 0x50 to 0x53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u8);

impl Version {
    /// The first ETE: from here on the packets are those of ETE.
    pub const ETE: Self = Self(0x50);

    /// Is this an Embedded Trace Extension, not an ETMv4?
    #[inline]
    pub const fn is_ete(self) -> bool {
        self.0 >= Self::ETE.0
    }
}

/// Configuration of one trace unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What was read from the trace unit.
    pub registers: Registers,
    /// Profile of the processor.
    pub profile: Profile,
    /// Architecture of the processor.
    pub architecture: Architecture,
}

impl Config {
    /// What to assume of an ETMv4 of which nothing is known.
    pub const fn etm4_default() -> Self {
        Self { registers: Registers::ETM4, profile: Profile::A, architecture: Architecture::Newest }
    }

    /// What to assume of an ETE of which nothing is known.
    pub const fn ete_default() -> Self {
        Self { registers: Registers::ETE, profile: Profile::A, architecture: Architecture::Newest }
    }

    /// Version of the trace unit. TRCDEVARCH gives it where TRCIDR1 says so (all ETE, recent ETMv4).
    #[inline]
    pub const fn version(&self) -> Version {
        let Registers { idr1, devarch, .. } = self.registers;
        if idr1 >> 8 & 0xF == 0xF {
            Version((devarch >> 8 & 0xF0 | devarch >> 16 & 0x0F) as u8)
        } else {
            Version((idr1 >> 4 & 0xFF) as u8)
        }
    }

    /// Is this an ETE?
    #[inline]
    pub const fn is_ete(&self) -> bool {
        self.version().is_ete()
    }

    /// Trace ID of the instruction stream (TRCTRACEIDR).
    #[inline]
    pub const fn trace_id(&self) -> u8 {
        (self.registers.traceidr & 0x7F) as u8
    }

    /// Bytes of a context ID in context packets.
    #[inline]
    pub const fn context_id_bytes(&self) -> u8 {
        if self.registers.idr2 >> 5 & 0x1F == 4 { 4 } else { 0 }
    }

    /// Bytes of a VMID in context packets. v4.0 knows 8-bit ones only.
    #[inline]
    pub const fn vmid_bytes(&self) -> u8 {
        match self.registers.idr2 >> 10 & 0x1F {
            1 => 1,
            size @ (2 | 4) if self.version().0 > 0x40 => size as u8,
            _ => 0,
        }
    }

    /// Width of the cycle counter in bits.
    #[inline]
    pub const fn cycle_counter_bits(&self) -> u8 {
        12 + (self.registers.idr2 >> 25 & 0xF) as u8
    }

    /// The bits of the cycle counter, all set.
    #[inline]
    pub const fn cycle_counter_mask(&self) -> u32 {
        (1 << self.cycle_counter_bits()) - 1
    }

    /// Bits of an instruction address, 32 or 64.
    #[inline]
    pub const fn address_bits(&self) -> u8 {
        if self.registers.idr2 & 0x1F == 8 { 64 } else { 32 }
    }

    /// Bits of a timestamp: 0, 48 or 64.
    #[inline]
    pub const fn timestamp_bits(&self) -> u8 {
        match self.registers.idr0 >> 24 & 0x1F {
            6 => 48,
            8 => 64,
            _ => 0,
        }
    }

    /// Commit mode 1: cycle count packets carry no commit; each implies that of the element before.
    #[inline]
    pub const fn commit_mode1(&self) -> bool {
        self.registers.idr0 >> 29 & 1 == 1 && self.registers.idr0 >> 7 & 1 == 1
    }

    /// Greatest number of P0 elements that can be unresolved. 0: every element is committed at once.
    #[inline]
    pub const fn max_speculation(&self) -> u32 {
        self.registers.idr8
    }

    /// Number of P0 keys, the modulus of the P0 key.
    #[inline]
    pub const fn p0_keys(&self) -> u32 {
        if self.registers.idr9 == 0 || self.is_ete() { 1 } else { self.registers.idr9 }
    }

    /// Modulus of the conditional keys; keys from this value on are special.
    #[inline]
    pub const fn conditional_keys(&self) -> u32 {
        self.registers.idr12.saturating_sub(self.registers.idr13)
    }

    /// Conditional results carry the APSR flags, not pass or fail.
    #[inline]
    pub const fn conditional_flags(&self) -> bool {
        self.registers.idr0 >> 12 & 3 == 1
    }

    /// WFI and WFE are P0 instructions.
    #[inline]
    pub const fn wfx_p0(&self) -> bool {
        self.registers.idr2 >> 31 == 1 && self.version().0 >= 0x43
    }

    /// Data trace is on: data synchronisation markers occur.
    #[inline]
    pub const fn data_trace(&self) -> bool {
        self.registers.idr0 >> 3 & 3 == 3
            && self.registers.configr >> 1 & 3 != 0
            && self.registers.configr >> 16 & 3 != 0
            && !self.is_ete()
    }

    /// Conditional instruction tracing is on. ETE has none.
    #[inline]
    pub const fn conditional(&self) -> bool {
        self.registers.idr0 >> 6 & 1 == 1
            && matches!(self.registers.configr >> 8 & 7, 1 | 2 | 3 | 7)
            && !self.is_ete()
    }

    /// Loads are P0 instructions.
    #[inline]
    pub const fn loads_p0(&self) -> bool {
        self.registers.configr >> 1 & 1 == 1
    }

    /// Stores are P0 instructions.
    #[inline]
    pub const fn stores_p0(&self) -> bool {
        self.registers.configr >> 2 & 1 == 1
    }

    /// The trace unit has Q packets.
    #[inline]
    pub const fn q_elements(&self) -> bool {
        self.registers.idr0 >> 15 & 3 != 0
    }

    /// The return stack is on: targets of returns that match it are not traced.
    #[inline]
    pub const fn return_stack(&self) -> bool {
        self.registers.configr >> 12 & 1 == 1
    }

    /// Branch broadcast is on: targets of direct branches are traced too.
    #[inline]
    pub const fn branch_broadcast(&self) -> bool {
        self.registers.configr >> 3 & 1 == 1
    }

    /// Cycle counting is on.
    #[inline]
    pub const fn cycle_counting(&self) -> bool {
        self.registers.configr >> 4 & 1 == 1
    }

    /// Timestamps are on.
    #[inline]
    pub const fn timestamps(&self) -> bool {
        self.registers.configr >> 11 & 1 == 1
    }

    /// Context IDs are traced.
    #[inline]
    pub const fn context_id(&self) -> bool {
        self.registers.configr >> 6 & 1 == 1
    }

    /// VMIDs are traced.
    #[inline]
    pub const fn vmid(&self) -> bool {
        self.registers.configr >> 7 & 1 == 1
    }

    /// A timestamp belongs to the marker before it, and is of no use before the first marker.
    #[inline]
    pub const fn timestamp_markers(&self) -> bool {
        self.version().0 >= 0x51 && self.registers.idr0 >> 23 & 1 == 1
    }

    /// ETE: Transaction Start is a P0 element.
    #[inline]
    pub const fn transaction_start_p0(&self) -> bool {
        self.registers.idr0 >> 30 & 1 == 0
    }

    /// The VMID field carries CONTEXTIDR_EL2, not the VMID of VTTBR.
    #[inline]
    pub const fn vmid_is_context_id(&self) -> bool {
        let Registers { idr2, configr, .. } = self.registers;
        if idr2 >> 29 & 1 == 1 {
            configr >> 15 & 1 == 1
        } else {
            self.version().0 >= 0x45 && idr2 >> 30 & 1 == 1
        }
    }

    /// Function Return packets exist: Armv8-M from v4.2 on.
    #[inline]
    pub const fn function_return(&self) -> bool {
        matches!(self.profile, Profile::M)
            && !matches!(self.architecture, Architecture::V7)
            && self.version().0 >= 0x42
            && !self.is_ete()
    }

    /// What is on, in words.
    pub const fn words(&self) -> Words<'_> {
        Words(self)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::etm4_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(registers: &[(&str, u32)]) -> Config {
        let mut config = Config::etm4_default();
        for &(name, value) in registers {
            config.set_register(name, value).unwrap();
        }
        config
    }

    #[test]
    fn version_comes_from_devarch_where_idr1_says_so() {
        assert_eq!(Config::etm4_default().version(), Version(0x40));
        assert_eq!(Config::ete_default().version(), Version(0x50));
        assert_eq!(with(&[("TRCIDR1", 0x4200_F410)]).version(), Version(0x41));
        let ete = with(&[("TRCIDR1", 0x4100_FFF0), ("TRCDEVARCH", 0x4773_5A13)]);
        assert_eq!(ete.version(), Version(0x53));
        assert!(ete.is_ete());
        let etm = with(&[("TRCIDR1", 0x4100_FFF0), ("TRCDEVARCH", 0x4776_4A13)]);
        assert_eq!(etm.version(), Version(0x46));
    }

    #[test]
    fn wide_vmids_need_v4_1() {
        assert_eq!(Config::etm4_default().vmid_bytes(), 1);
        assert_eq!(with(&[("TRCIDR2", 0x2000_1088)]).vmid_bytes(), 0);
        assert_eq!(with(&[("TRCIDR2", 0x2000_1088), ("TRCIDR1", 0x4200_F410)]).vmid_bytes(), 4);
        assert_eq!(Config::etm4_default().context_id_bytes(), 4);
    }

    #[test]
    fn commopt_without_cycle_counting_is_commit_mode_0() {
        assert!(Config::etm4_default().commit_mode1());
        assert!(!with(&[("TRCIDR0", 0x2800_0E21)]).commit_mode1());
        assert!(!with(&[("TRCIDR0", 0x0800_0CA1)]).commit_mode1());
    }

    #[test]
    fn the_values_of_an_ete_model_are_read() {
        let config = with(&[
            ("TRCIDR0", 0x28C1_CEA1),
            ("TRCIDR1", 0x4100_FFF0),
            ("TRCIDR2", 0xD000_1088),
            ("TRCDEVARCH", 0x4773_5A13),
        ]);
        assert!(
            config.q_elements() && config.timestamp_markers() && config.wfx_p0() && config.commit_mode1()
        );
        assert_eq!(config.timestamp_bits(), 64);
        assert_eq!(config.vmid_bytes(), 4);
        assert!(config.transaction_start_p0());
    }

    #[test]
    fn conditional_and_data_trace_need_both_the_feature_and_the_switch() {
        assert!(!with(&[("TRCCONFIGR", 0x701)]).conditional());
        assert!(with(&[("TRCCONFIGR", 0x701), ("TRCIDR0", 0x2800_0EE1)]).conditional());
        assert!(!with(&[("TRCCONFIGR", 0x401), ("TRCIDR0", 0x2800_0EE1)]).conditional());
        assert!(with(&[("TRCCONFIGR", 0x3_0007), ("TRCIDR0", 0x2800_0EBF)]).data_trace());
        assert!(!with(&[("TRCCONFIGR", 0x3_0001), ("TRCIDR0", 0x2800_0EBF)]).data_trace());
    }
}
