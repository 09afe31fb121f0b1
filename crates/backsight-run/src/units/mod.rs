//! Trace units by name: how each is programmed, built and described.
//!
//! A kind of unit is a module here and a row of [`UNITS`]. The row says what it is called, what it can trace and how its
//! settings are read; what comes of them, a [`UnitTemplate`], makes units and says how a capture describes them. Nothing
//! else here or in the program names a kind of unit.

mod error;
mod etm;
mod etm4;
mod etrace;
mod messages;
mod model;
mod ntrace;
mod riscv_filter;

pub use self::error::UnitError;
pub use self::etrace::etrace_unit;
pub use self::messages::{MessageKind, MessageUnit};
pub use self::model::EventCause;
use backsight_capture::Register;
use backsight_core::{Execution, Isa, RetiredBlock, RetiredBlocks, TraceId};
use backsight_unit::etrace::Losses;
use backsight_unit::model::ModelConfig;
use backsight_unit::riscv::retire::Figures;

use crate::settings::{SettingError, Settings};

/// Every kind of unit there is. The first that traces an instruction set is the usual one for it.
pub const UNITS: [UnitKind; 6] = [etm4::ETM4, etm4::ETE, etm::PTM, etm::ETM3, etrace::ETRACE, ntrace::NTRACE];

/// A unit that is programmed, or why there is none.
pub type Programmed = Result<Box<dyn UnitTemplate>, SettingError>;

/// A kind of trace unit.
#[derive(Clone, Copy, Debug)]
pub struct UnitKind {
    /// What it is called in arguments.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// The instruction sets that it traces.
    pub isas: &'static [Isa],
    /// It has a model of the cycles of its hart: the setting `retire`.
    pub retires: bool,
    program: fn(Isa, &Settings) -> Programmed,
}

impl UnitKind {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        UNITS.into_iter().find(|kind| kind.name == name)
    }

    /// The kinds that trace an instruction set; the first is the usual one.
    pub fn for_isa(isa: Isa) -> impl Iterator<Item = Self> {
        UNITS.into_iter().filter(move |kind| kind.isas.contains(&isa))
    }

    /// A unit with these settings, for programs that start in this instruction set.
    ///
    /// # Errors
    /// If a setting is not known (the message lists those that are), or there can be no such unit.
    pub fn program(&self, isa: Isa, settings: &Settings) -> Programmed {
        (self.program)(isa, settings)
    }
}

/// A unit that is programmed and ready to be built, once for each thread.
pub trait UnitTemplate: Send {
    /// The trace ID of the first thread; those of the others follow.
    fn first_id(&self) -> TraceId;

    /// The word for how the bytes of one unit alone are framed; `None` if they always travel in CoreSight frames.
    fn framing(&self) -> Option<&'static str>;

    /// The same for units whose bytes travel in CoreSight frames, which tell them apart.
    fn in_frames(&self) -> Box<dyn UnitTemplate>;

    /// The accesses of its program that it needs to see.
    fn traced_data(&self) -> TracedData {
        TracedData::None
    }

    /// The same at a core whose caches and branch predictor are modelled; `None` if the unit has no packets for that.
    fn modelled(&self, _model: ModelConfig) -> Option<Box<dyn UnitTemplate>> {
        None
    }

    /// The same with timestamps and, if wanted, context identifiers: what a system of several processes needs. `None` if
    /// the unit has no timestamps that can be asked for.
    fn for_system(&self, _contexts: bool) -> Option<Box<dyn UnitTemplate>> {
        None
    }

    /// Do its units count cycles by themselves, from a time that they are [told](TraceUnit::set_time)?
    fn keeps_time(&self) -> bool {
        false
    }

    /// A unit that has seen nothing yet.
    ///
    /// # Errors
    /// If there can be no such unit.
    fn build(&self, id: TraceId) -> Result<Box<dyn TraceUnit>, UnitError>;

    /// How a capture describes it.
    fn describe(&self, id: TraceId) -> UnitDescription;
}

/// The accesses of a program that a unit traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedData {
    /// None.
    None,
    /// Where they are.
    Addresses,
    /// And what is loaded and stored.
    Values,
}

/// A unit: what one thread executes goes in, bytes of trace come out.
pub trait TraceUnit: Send {
    /// Steps of execution; bytes go to the end of `out`.
    fn push(&mut self, items: &[Execution], out: &mut Vec<u8>);

    /// Straight-line code that retired: the same as its instructions one by one.
    fn push_block(&mut self, block: &RetiredBlock<'_>, out: &mut Vec<u8>) {
        block.instructions().for_each(|retired| self.push(&[Execution::Instruction(retired)], out));
    }

    /// Blocks that retired one after the other.
    fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>, out: &mut Vec<u8>) {
        blocks.iter().for_each(|block| self.push_block(&block, out));
    }

    /// A timestamp is wanted here. Units of which [`UnitTemplate::for_system`] makes none have nothing to write.
    fn request_timestamp(&mut self, _time: u64, _out: &mut Vec<u8>) {}

    /// Instructions without a cycle take one each from now on, the next one this cycle. Only for units of a template that
    /// [keeps time](UnitTemplate::keeps_time).
    fn set_time(&mut self, _time: u64) {}

    /// Execution ends here.
    fn finish(&mut self, out: &mut Vec<u8>);

    /// The instructions that caused events since the last call, where the core is modelled.
    fn take_causes(&mut self) -> Vec<EventCause> {
        Vec::new()
    }

    /// What it counted.
    fn figures(&self) -> UnitFigures {
        UnitFigures::default()
    }
}

/// What a unit counted, where it was programmed to.
#[derive(Clone, Debug, Default)]
pub struct UnitFigures {
    /// What the cycles of its hart cost.
    pub cycles: Option<Figures>,
    /// What the buffer after its encoder cost.
    pub losses: Option<Losses>,
}

/// What a capture says about a source.
#[derive(Clone, Debug)]
pub struct UnitDescription {
    /// The word of captures for what it speaks.
    pub format: &'static str,
    /// Registers that a decoder needs.
    pub registers: Vec<Register>,
    /// Options that a decoder needs.
    pub options: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_has_a_unit_and_every_unit_a_name_of_its_own() {
        let usual = |isa| UnitKind::for_isa(isa).next().map(|kind| kind.name);
        assert_eq!([Isa::A64, Isa::A32, Isa::T32].map(usual), [Some("etm4"); 3]);
        assert_eq!([Isa::Rv32, Isa::Rv64].map(usual), [Some("etrace"); 2]);
        for kind in UNITS {
            assert_eq!(UnitKind::named(kind.name).map(|found| found.title), Some(kind.title));
        }
    }

    #[test]
    fn every_unit_can_be_built_with_nothing_said_and_describes_itself() {
        for kind in UNITS {
            for &isa in kind.isas {
                let template = kind.program(isa, &[]).expect(kind.name);
                let framed = template.in_frames();
                assert!(framed.framing().is_none_or(|word| word == "coresight" || word == "raw"));
                for template in [template, framed] {
                    let id = template.first_id();
                    assert!(id.is_source(), "{}", kind.name);
                    template.build(id).expect(kind.name);
                    assert_ne!(template.describe(id).format, "", "{}", kind.name);
                }
            }
        }
    }
}
