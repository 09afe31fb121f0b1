//! The trace unit that watches: which one, and how it is programmed.

use backsight_core::Isa;
use backsight_run::UnitKind;
use backsight_run::units::{MessageKind, UNITS, UnitTemplate};
use backsight_unit::riscv::retire::Retirement;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::failure::{Failure, Result};

/// Which trace unit to attach.
#[derive(Args, Clone, Debug, Default)]
pub struct UnitArgs {
    /// The trace unit; without it etrace for riscv64 and etm4 for Arm. With `record`, `stm` or `itm` after a comma, as in
    /// etrace,stm: what the program writes to its standard output and error appears as messages beside its trace
    #[arg(long, value_name = "UNIT", value_parser = units(), value_delimiter = ',')]
    pub unit: Vec<String>,

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
    let cores = UNITS.iter().map(|kind| PossibleValue::new(kind.name).help(kind.title));
    let messages = MessageKind::ALL.iter().map(|kind| {
        PossibleValue::new(kind.name()).help("messages of the program, beside the unit of its core")
    });
    PossibleValuesParser::new(cores.chain(messages))
}

impl UnitArgs {
    /// The source of messages beside the unit.
    pub fn messages(&self) -> Result<Option<MessageKind>> {
        let mut kinds = self.unit.iter().filter_map(|name| MessageKind::named(name));
        match (kinds.next(), kinds.next()) {
            (kind, None) => Ok(kind),
            _ => Err(Failure::usage("--unit: one of stm and itm takes the messages")),
        }
    }

    /// The unit for programs of this instruction set, which is called `target`.
    pub fn program(&self, isa: Isa, target: &str) -> Result<Box<dyn UnitTemplate>> {
        let mut fitting = UnitKind::for_isa(isa).collect::<Vec<_>>().into_iter();
        let mut named = self.unit.iter().filter(|name| MessageKind::named(name).is_none());
        let kind = match (named.next(), named.next()) {
            (None, _) => fitting.next(),
            (Some(name), None) => fitting.find(|kind| kind.name == name),
            (Some(_), Some(_)) => {
                return Err(Failure::usage("--unit: one unit traces a core; stm or itm may stand beside it"));
            }
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
