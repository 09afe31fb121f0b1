//! The trace unit that watches: which one, and how it is programmed.

use backsight_riscv::etrace::{Resync, ResyncMode};
use backsight_riscv::retire::Retirement;
use backsight_run::Target;
use backsight_unit::etm4;
use clap::{Args, ValueEnum};

use super::hart::HartConfig;
use super::{etm4_unit, etrace_unit, ntrace_unit};
use crate::failure::{Failure, Result};

/// Which trace unit to attach.
#[derive(Args, Clone, Debug, Default)]
pub struct UnitArgs {
    /// The trace unit; without it etrace for riscv64 and etm4 for Arm
    #[arg(long, value_enum, value_name = "UNIT")]
    pub unit: Option<UnitKind>,

    /// Programs the unit: a register of the hardware (TRCCONFIGR=0x1841), one of its options (cyclecount=1,
    /// branch_prediction=1), what it traces (range=0x1000..0x2000) or how it is built (return_stack_depth=4). A name
    /// that is not known lists them all. May be given several times; a file of them, one a line, is taken too
    #[arg(long, value_name = "FILE|KEY=VALUE")]
    pub config: Vec<String>,

    /// Model the cycles of a hart that retires several instructions in one, and show what they cost (RISC-V).
    /// SHAPE is `single`, `branches:N` (up to N branches a cycle and one other discontinuity, the last; one packet a
    /// cycle) or `blocks:N` (up to N blocks of any kind, up to N packets). `/PORTS` gives another number of commit ports
    /// than N, `+serial` a connector that takes one port a cycle. The packets are the same whatever the shape, but for
    /// time and resyncs that count cycles
    #[arg(long, value_name = "SHAPE")]
    pub retire: Option<Retirement>,
}

/// A kind of trace unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnitKind {
    /// Arm ETMv4
    Etm4,
    /// Arm Embedded Trace Extension
    Ete,
    /// RISC-V Efficient Trace
    Etrace,
    /// RISC-V Nexus Trace
    Ntrace,
}

/// A unit that is programmed and ready.
#[derive(Clone, Debug)]
pub enum Programmed {
    /// ETMv4 or ETE.
    Etm4(Box<etm4::UnitConfig>),
    /// E-Trace or N-Trace.
    Hart(HartConfig),
}

impl UnitArgs {
    /// The unit for programs of this kind.
    pub fn program(&self, target: Target) -> Result<Programmed> {
        let riscv = target == Target::Riscv64;
        let kind = self.unit.unwrap_or(if riscv { UnitKind::Etrace } else { UnitKind::Etm4 });
        if matches!(kind, UnitKind::Etrace | UnitKind::Ntrace) != riscv {
            let fits = if riscv { "etrace and ntrace" } else { "etm4 and ete" };
            return Err(Failure::usage(format!("--unit: this is a {target} program, {fits} can trace it")));
        }
        let settings = backsight_capture::settings(&self.config).map_err(Failure::usage)?;
        if self.retire.is_some() && !riscv {
            return Err(Failure::usage(
                "--retire: only the units etrace and ntrace model the cycles of a hart",
            ));
        }
        match kind {
            UnitKind::Etrace => etrace_unit::program(&settings, self.retire),
            UnitKind::Ntrace => ntrace_unit::program(&settings, self.retire),
            UnitKind::Etm4 | UnitKind::Ete => etm4_unit::program(kind == UnitKind::Ete, &settings),
        }
    }
}

/// Yes or no, in the words that configurations use.
pub fn flag(key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(Failure::usage(format!("--config {key}={value}: expected 0 or 1"))),
    }
}

/// How often a RISC-V unit synchronises: `N` packets, or `N:cycles`, `N:halfwords`; 0: never.
pub fn resync(key: &str, value: &str) -> Result<Resync> {
    let (limit, unit) = value.split_once(':').unwrap_or((value, "packets"));
    let mode = match unit {
        "packets" | "messages" => ResyncMode::Packets,
        "cycles" => ResyncMode::Cycles,
        "halfwords" => ResyncMode::HalfWords,
        _ => {
            let why = "expected a number, or one with :packets, :cycles or :halfwords";
            return Err(Failure::usage(format!("--config {key}={value}: {why}")));
        }
    };
    let limit = number(key, limit)?;
    Ok(Resync { mode: if limit == 0 { ResyncMode::Off } else { mode }, limit })
}

/// A number of some width.
pub fn number<T: TryFrom<u64>>(key: &str, value: &str) -> Result<T> {
    let wrong = |why: String| Failure::usage(format!("--config {key}={value}: {why}"));
    let number = crate::args::parse_number(value).map_err(wrong)?;
    T::try_from(number).map_err(|_| wrong("the number is too large".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_towards_a_synchronisation_may_be_named() {
        let taken = |value| resync("resync", value).map(|resync| (resync.mode, resync.limit)).ok();
        assert_eq!(taken("64"), Some((ResyncMode::Packets, 64)));
        assert_eq!(taken("0x1fff:cycles"), Some((ResyncMode::Cycles, 8191)));
        assert_eq!(taken("100:halfwords"), Some((ResyncMode::HalfWords, 100)));
        assert_eq!(taken("0:cycles"), Some((ResyncMode::Off, 0)));
        assert_eq!((taken("64:days"), taken(":cycles")), (None, None));
    }
}
