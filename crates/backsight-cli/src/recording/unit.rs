//! The trace unit that watches: which one, and how it is programmed.

use backsight_core::Isa;
use backsight_run::UnitKind;
use backsight_run::units::{UNITS, UnitTemplate};
use backsight_unit::riscv::retire::Retirement;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::failure::{Failure, Result};

/// Which trace unit to attach.
#[derive(Args, Clone, Debug, Default)]
pub struct UnitArgs {
    /// The trace unit; without it etrace for riscv64 and etm4 for Arm
    #[arg(long, value_name = "UNIT", value_parser = units())]
    pub unit: Option<String>,

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

fn units() -> PossibleValuesParser {
    PossibleValuesParser::new(UNITS.map(|kind| PossibleValue::new(kind.name).help(kind.title)))
}

impl UnitArgs {
    /// The unit for programs of this instruction set, which is called `target`.
    pub fn program(&self, isa: Isa, target: &str) -> Result<Box<dyn UnitTemplate>> {
        let mut fitting = UnitKind::for_isa(isa).collect::<Vec<_>>().into_iter();
        let kind = match &self.unit {
            None => fitting.next(),
            Some(name) => fitting.find(|kind| kind.name == name),
        };
        let kind = kind.ok_or_else(|| {
            let names: Vec<_> = UnitKind::for_isa(isa).map(|kind| kind.name).collect();
            Failure::usage(format!(
                "--unit: this program is for {target}, which {} can trace",
                names.join(" and ")
            ))
        })?;
        let mut settings = backsight_capture::settings(&self.config).map_err(Failure::usage)?;
        if let Some(shape) = &self.retire {
            if !kind.retires {
                let models: Vec<_> = UNITS.iter().filter(|kind| kind.retires).map(|kind| kind.name).collect();
                let models = models.join(" and ");
                return Err(Failure::usage(format!(
                    "--retire: only the units {models} model the cycles of a hart"
                )));
            }
            settings.push(("retire".to_owned(), shape.to_string()));
        }
        kind.program(isa, &settings).map_err(|error| Failure::usage(format!("--config {error}")))
    }
}
