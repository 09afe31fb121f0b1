//! How the trace units were built and programmed: the AUXTRACE_INFO record of CoreSight, and the time of its timestamps.

use super::fields::Fields;
use crate::Register;

/// The number of CoreSight among kinds of trace.
pub(super) const CS_ETM: u32 = 3;

/// The names of the others.
pub(super) fn other_trace(number: u32) -> &'static str {
    match number {
        1 => "Intel PT",
        2 => "Intel BTS",
        4 => "Arm SPE",
        5 => "IBM s390 CPU-MF",
        6 => "HiSilicon PTT",
        _ => "unknown",
    }
}

const ETM3: u64 = 0x3030_3030_3030_3030;
const ETM4: u64 = 0x4040_4040_4040_4040;
const ETE: u64 = 0x5050_5050_5050_5050;

const OF_ETM3: &[&str] = &["ETMCR", "ETMTRACEIDR", "ETMCCER", "ETMIDR"];
const OF_ETM4: &[&str] =
    &["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", TIME_SOURCE];
const OF_ETE: &[&str] = &[
    "TRCCONFIGR",
    "TRCTRACEIDR",
    "TRCIDR0",
    "TRCIDR1",
    "TRCIDR2",
    "TRCIDR8",
    "TRCAUTHSTATUS",
    "TRCDEVARCH",
    TIME_SOURCE,
];
/// No register: which counter timestamps are taken from.
const TIME_SOURCE: &str = "time source";
/// The architecture that TRCDEVARCH of an ETMv4 names.
const ARCHITECTURE_ETM4: u64 = 0x4A13;
/// The virtual counter, which perf can convert.
const VIRTUAL_COUNTER: u64 = 1;

/// One trace unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub cpu: u32,
    /// The word for what it speaks.
    pub format: &'static str,
    /// Registers with their values; the one of the trace ID is left out.
    pub registers: Vec<(&'static str, u64)>,
    /// The trace ID that stands in its register.
    pub id: u8,
    /// Its timestamps are the virtual counter.
    pub virtual_counter: bool,
}

impl Unit {
    fn register(&self, name: &str) -> u64 {
        self.registers.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value)
    }

    /// Are context identifiers in the field for virtual machines? They are if the kernel runs at EL2.
    pub fn context_in_vmid(&self) -> bool {
        self.register("TRCCONFIGR") & (1 << 7 | 1 << 15) != 0
    }

    /// Are there context identifiers at all?
    pub fn traces_context(&self) -> bool {
        self.context_in_vmid()
            || self.register("TRCCONFIGR") & 1 << 6 != 0
            || self.register("ETMCR") >> 14 & 3 != 0
    }

    /// Its registers as a capture has them.
    pub fn described(&self) -> Vec<Register> {
        self.registers.iter().map(|(name, value)| Register::new(name, &format!("{value:#x}"))).collect()
    }
}

/// The trace units of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Info {
    pub units: Vec<Unit>,
    pub is_snapshot: bool,
}

impl Info {
    /// Reads the words of an AUXTRACE_INFO record.
    pub fn parse(words: &[u64]) -> Result<Self, String> {
        let [version, count, snapshot, rest @ ..] = words else { return Err("it is cut off".to_owned()) };
        if *version > 2 {
            return Err(format!("version {version}, expected 0, 1 or 2"));
        }
        let (mut rest, mut units) = (rest, Vec::new());
        for _ in 0..*count as u32 {
            let (unit, after) = unit(rest, *version)?;
            units.push(unit);
            rest = after;
        }
        Ok(Self { units, is_snapshot: *snapshot != 0 })
    }
}

fn unit(words: &[u64], version: u64) -> Result<(Unit, &[u64]), String> {
    let [magic, cpu, rest @ ..] = words else { return Err("it ends within a trace unit".to_owned()) };
    let (names, mut format) = match *magic {
        ETM3 => (OF_ETM3, "ETM3"),
        ETM4 => (OF_ETM4, "ETM4"),
        ETE => (OF_ETE, "ETE"),
        other => return Err(format!("a trace unit of unknown kind {other:#x}")),
    };
    // Before the number of parameters was written it was always the same.
    let (count, rest) = match (version, rest) {
        (0, rest) => (if *magic == ETM3 { 4 } else { 7 }, rest),
        (_, [count, rest @ ..]) => (usize::try_from(*count).unwrap_or(usize::MAX), rest),
        (_, []) => return Err("it ends within a trace unit".to_owned()),
    };
    let Some((values, rest)) = rest.split_at_checked(count) else {
        return Err(format!("CPU {cpu}: {count} parameters, but it ends before"));
    };
    let mut registers: Vec<(&str, u64)> = names.iter().copied().zip(values.iter().copied()).collect();
    let mut take = |name: &str| {
        let index = registers.iter().position(|(other, _)| *other == name)?;
        Some(registers.remove(index).1)
    };
    let virtual_counter = take(TIME_SOURCE) == Some(VIRTUAL_COUNTER);
    let id = take("TRCTRACEIDR").or_else(|| take("ETMTRACEIDR")).unwrap_or(0);
    let is_ptm = registers.iter().any(|&(name, value)| name == "ETMIDR" && value >> 8 & 0xF == 3);
    if is_ptm {
        format = "PTM";
    }
    // simpleperf calls every unit an ETE that has TRCDEVARCH; ETMv4 has it, too.
    let architecture =
        registers.iter().find(|(name, _)| *name == "TRCDEVARCH").map(|(_, value)| value & 0xFFFF);
    if architecture == Some(ARCHITECTURE_ETM4) {
        format = "ETM4";
    }
    let unit = Unit { cpu: *cpu as u32, format, registers, id: id as u8 & 0x7F, virtual_counter };
    Ok((unit, rest))
}

/// How perf's nanoseconds come of the virtual counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TimeConversion {
    shift: u32,
    multiplier: u64,
    zero: u64,
}

impl TimeConversion {
    pub fn parse(mut fields: Fields<'_>) -> Option<Self> {
        let (shift, multiplier, zero) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let shift = u32::try_from(shift).ok().filter(|shift| *shift < 64)?;
        (multiplier != 0).then_some(Self { shift, multiplier, zero })
    }

    /// The counter at a time: nanoseconds are `zero + counter × multiplier / 2^shift`.
    pub fn counter(&self, nanoseconds: u64) -> u64 {
        let since = u128::from(nanoseconds.saturating_sub(self.zero));
        u64::try_from((since << self.shift) / u128::from(self.multiplier)).unwrap_or(u64::MAX)
    }

    /// Ticks of the counter in a second.
    pub fn frequency(&self) -> u64 {
        u64::try_from((1_000_000_000_u128 << self.shift) / u128::from(self.multiplier)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_parameters_is_fixed_before_version_1() {
        let words = [0, 8 << 32 | 1, 0, ETM4, 3, 0x40, 0x16, 1, 2, 3, 4, 5];
        let info = Info::parse(&words).unwrap();
        assert_eq!((info.units[0].cpu, info.units[0].id, info.units[0].registers.len()), (3, 0x16, 6));
        let words = [0, 1, 0, ETM3, 0, 0x1000, 0x10, 2, 0x4110_F312];
        assert_eq!(Info::parse(&words).unwrap().units[0].format, "PTM");
    }

    #[test]
    fn the_time_source_of_an_ete_comes_after_trcdevarch() {
        let words = [2, 1, 1, ETE, 0, 9, 0x40, 0x90, 1, 2, 3, 4, 5, 0x4770_5A13, 1];
        let info = Info::parse(&words).unwrap();
        assert!(info.is_snapshot && info.units[0].virtual_counter);
        assert_eq!(info.units[0].register("TRCDEVARCH"), 0x4770_5A13);
        assert_eq!(info.units[0].id, 0x10, "flags above bit 6 are no part of the ID");
    }

    #[test]
    fn parameters_that_nobody_knows_are_passed_over_and_missing_ones_left_out() {
        let words = [1, 2, 0, ETM4, 0, 10, 1, 2, 3, 4, 5, 6, 7, 1, 9, 9, ETM4, 1, 2, 0x800, 0x12];
        let info = Info::parse(&words).unwrap();
        assert_eq!(info.units[1].registers, [("TRCCONFIGR", 0x800)]);
        assert!(info.units[0].virtual_counter && !info.units[1].virtual_counter);
    }

    #[test]
    fn a_unit_is_what_its_trcdevarch_says() {
        for (devarch, format) in [(0x4772_4A13, "ETM4"), (0x4770_5A13, "ETE")] {
            let words = [1, 1, 0, ETE, 0, 9, 0x800, 0x12, 1, 0x4100_FFF3, 3, 4, 5, devarch, 1];
            assert_eq!(Info::parse(&words).unwrap().units[0].format, format, "{devarch:#x}");
        }
    }

    #[test]
    fn what_is_cut_off_is_reported() {
        for words in [
            &[][..],
            &[1, 1, 0],
            &[1, 1, 0, ETM4, 0],
            &[1, 1, 0, ETM4, 0, 99, 1],
            &[1, 1, 0, 7, 0, 0],
            &[9, 0, 0],
        ] {
            assert!(Info::parse(words).is_err(), "{words:x?}");
        }
    }

    #[test]
    fn the_counter_of_a_time_is_the_one_that_the_time_came_of() {
        // 25 MHz: 40 ns each.
        let conversion = TimeConversion { shift: 2, multiplier: 160, zero: 1000 };
        assert_eq!(conversion.counter(1000 + 40 * 77), 77);
        assert_eq!(conversion.frequency(), 25_000_000);
    }
}
