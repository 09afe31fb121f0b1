//! Arm ETMv4 and ETE: how a unit is programmed by `KEY=VALUE`, and how a capture describes it.

use backsight_arm::etm4::{Config, ConfigError};
use backsight_capture::Register;
use backsight_core::{Execution, Isa, RetiredBlock, RetiredBlocks, TraceId};
use backsight_unit::etm4::{Fifo, FrontEnd, Unit, UnitConfig};
use backsight_unit::model::{CoreModel, ModelConfig};

use super::model::ModelledUnit;
use super::{TraceUnit, TracedData, UnitDescription, UnitError, UnitKind, UnitTemplate};
use crate::settings::{SettingError, Settings, flag, listed, number, pair, range};

const ISAS: &[Isa] = &[Isa::A64, Isa::A32, Isa::T32];

/// The row of ETMv4.
pub const ETM4: UnitKind = UnitKind {
    name: "etm4",
    title: "Arm ETMv4",
    isas: ISAS,
    retires: false,
    program: |_, settings| Ok(Box::new(program(Config::etm4_default(), settings)?)),
};

/// The row of ETE.
pub const ETE: UnitKind = UnitKind {
    name: "ete",
    title: "Arm Embedded Trace Extension",
    isas: ISAS,
    retires: false,
    program: |_, settings| Ok(Box::new(program(Config::ete_default(), settings)?)),
};

/// Trace ID of the first thread.
const FIRST_ID: u32 = 0x10;
/// Instructions between timestamps in a system of several processes, beside those that its events ask for.
pub(super) const SYSTEM_TIMESTAMPS: u64 = 1 << 14;
/// TRCIDR8 of a unit that guesses, unless `max_spec` says otherwise.
const USUAL_DEPTH: u32 = 16;

/// What this unit takes beside registers and the options that decoders know, each with what it means.
const OPTIONS: [(&str, &str); 13] = [
    ("sync_period", "bytes between synchronisations, a power of two; 0: none"),
    ("cycle_threshold", "least cycles that are counted (TRCCCCTLR)"),
    ("timestamps", "instructions or cycles between timestamps; switches them on"),
    ("events", "instructions or cycles between events of the unit"),
    ("return_stack_depth", "1 to 15"),
    ("range", "FROM..TO: trace only inside; up to 8"),
    ("exclude", "FROM..TO: do not trace inside; up to 8 with `range`"),
    ("broadcast_range", "FROM..TO: broadcast only inside; switches broadcasting on"),
    ("fifo", "BYTES:DRAIN, a buffer that loses what does not fit; DRAIN is bytes in 1024 cycles"),
    ("speculation", "a front end that guesses wrong in so many of 256 cases"),
    ("source_addresses", "ETE: name taken branches that replace so many N atoms"),
    ("longest_q", "most instructions in a Q element"),
    ("halt_at_end", "show by a debug halt how far execution went"),
];

/// The registers of a unit that a decoder needs.
const REGISTERS: [&str; 11] = [
    "TRCCONFIGR",
    "TRCTRACEIDR",
    "TRCIDR0",
    "TRCIDR1",
    "TRCIDR2",
    "TRCIDR8",
    "TRCIDR9",
    "TRCIDR12",
    "TRCIDR13",
    "TRCDEVARCH",
    "TRCCCCTLR",
];

/// A programmed unit.
#[derive(Debug)]
struct Etm4Template {
    unit: UnitConfig,
    /// The core that it watches, where that is modelled.
    model: Option<ModelConfig>,
}

impl Etm4Template {
    fn with_id(&self, id: TraceId) -> UnitConfig {
        let mut unit = self.unit.clone();
        unit.config.registers.traceidr = id.get().into();
        unit
    }
}

impl UnitTemplate for Etm4Template {
    fn first_id(&self) -> TraceId {
        TraceId::new(self.unit.config.trace_id())
    }

    fn framing(&self) -> Option<&'static str> {
        None
    }

    fn in_frames(&self) -> Box<dyn UnitTemplate> {
        Box::new(Self { unit: self.unit.clone(), model: self.model })
    }

    fn traced_data(&self) -> TracedData {
        if self.model.is_some() { TracedData::Addresses } else { TracedData::None }
    }

    fn modelled(&self, model: ModelConfig) -> Option<Box<dyn UnitTemplate>> {
        Some(Box::new(Self { unit: self.unit.clone(), model: Some(model) }))
    }

    fn keeps_time(&self) -> bool {
        self.model.is_none()
    }

    fn for_system(&self, contexts: bool) -> Option<Box<dyn UnitTemplate>> {
        // A core that is modelled has a clock of its own.
        self.model.is_none().then_some(())?;
        let mut unit = self.unit.clone();
        if !unit.config.timestamps() {
            unit.config.set_option("timestamp_bits", "64").ok()?;
            unit.timestamps.period = SYSTEM_TIMESTAMPS;
        }
        if contexts && !unit.config.context_id() {
            unit.config.set_option("context_id", "32").ok()?;
        }
        Some(Box::new(Self { unit, model: None }))
    }

    fn build(&self, id: TraceId) -> Result<Box<dyn TraceUnit>, UnitError> {
        let unit = Unit::new(self.with_id(id)).map_err(UnitError::Etm4)?;
        Ok(match self.model {
            Some(model) => {
                Box::new(ModelledUnit::new(unit, CoreModel::new(model).map_err(UnitError::Model)?))
            }
            None => Box::new(unit),
        })
    }

    fn describe(&self, id: TraceId) -> UnitDescription {
        let config = self.with_id(id).config;
        UnitDescription {
            format: if config.is_ete() { "ETE1.0" } else { "ETM4.0" },
            registers: registers(&config),
            options: Vec::new(),
        }
    }
}

impl TraceUnit for Unit {
    fn push(&mut self, items: &[Execution], out: &mut Vec<u8>) {
        self.push_all(items, out);
    }

    fn push_block(&mut self, block: &RetiredBlock<'_>, out: &mut Vec<u8>) {
        Unit::push_block(self, block, out);
    }

    fn push_blocks(&mut self, blocks: &RetiredBlocks<'_>, out: &mut Vec<u8>) {
        Unit::push_blocks(self, blocks, out);
    }

    fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        Unit::request_timestamp(self, time, out);
    }

    fn set_time(&mut self, time: u64) {
        Unit::set_time(self, time);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        Unit::finish(self, out);
    }
}

fn registers(config: &Config) -> Vec<Register> {
    let wanted = REGISTERS.iter().filter(|name| **name != "TRCDEVARCH" || config.is_ete());
    let register = |name: &&str| {
        let value = config.register(name)?;
        let text = format!("{value:#010x}");
        Some(Register { name: (*name).to_owned(), info: String::new(), text, value: Some(value.into()) })
    };
    wanted.filter_map(register).collect()
}

/// A unit with these settings.
fn program(mut config: Config, settings: &Settings) -> Result<Etm4Template, SettingError> {
    config.registers.traceidr = FIRST_ID;
    let mut unit = UnitConfig::new(config);
    let mut ranges = 0;
    for (key, value) in settings {
        set(&mut unit, &mut ranges, &key.to_ascii_lowercase(), value)?;
    }
    if unit.front_end.is_some() && unit.config.max_speculation() == 0 {
        unit.config.registers.idr8 = USUAL_DEPTH;
    }
    if !TraceId::new(unit.config.trace_id()).is_source() {
        return Err(SettingError::together(format!(
            "trace ID {:#x} is not that of a source: 0x01 to 0x6f is expected",
            unit.config.trace_id()
        )));
    }
    Unit::new(unit.clone()).map_err(SettingError::together)?;
    Ok(Etm4Template { unit, model: None })
}

fn set(unit: &mut UnitConfig, ranges: &mut usize, key: &str, value: &str) -> Result<(), SettingError> {
    let wrong = |why: &dyn std::fmt::Display| SettingError::new(key, value, why);
    match key {
        "sync_period" => {
            let bytes: u64 = number(key, value)?;
            if bytes != 0 && !(bytes.is_power_of_two() && (256..=1 << 20).contains(&bytes)) {
                return Err(wrong(&"a power of two from 256 to 1048576, or 0, is expected"));
            }
            unit.controls.syncpr = if bytes == 0 { 0 } else { bytes.trailing_zeros() };
        }
        "cycle_threshold" => unit.config.registers.ccctlr = number(key, value)?,
        "timestamps" => {
            unit.timestamps.period = number(key, value)?;
            unit.config.set_option("timestamp_bits", "64").map_err(|why| wrong(&why))?;
        }
        "events" => unit.events = Some((number(key, value)?, 1)),
        "return_stack_depth" => unit.return_stack_depth = number(key, value)?,
        "range" => unit.controls.viiectlr |= 1 << take_range(unit, ranges, key, value)?,
        "exclude" => unit.controls.viiectlr |= 1 << (16 + take_range(unit, ranges, key, value)?),
        "broadcast_range" => {
            unit.controls.bbctlr |= 0x100 | 1 << take_range(unit, ranges, key, value)?;
            unit.config.set_option("branch_broadcast", "1").map_err(|why| wrong(&why))?;
        }
        "fifo" => {
            let (capacity, drain) = pair(key, value)?;
            unit.fifo = Some(Fifo { capacity, drain });
        }
        "speculation" => {
            unit.front_end = Some(FrontEnd { wrong: number(key, value)?, ..FrontEnd::default() });
        }
        "source_addresses" => unit.source_addresses = Some(number(key, value)?),
        "longest_q" => unit.longest_q = number(key, value)?,
        "halt_at_end" => unit.halt_at_end = flag(key, value)?,
        _ if key.starts_with("trc") && unit.controls.set_register(key, number(key, value)?) => {}
        _ => unit.config.set(key, value).map_err(|why| match why {
            ConfigError::UnknownOption => wrong(&format_args!("{why}; or one of:{}", listed(&OPTIONS))),
            why => wrong(&why),
        })?,
    }
    Ok(())
}

/// Programs the next pair of address comparators; gives its number.
fn take_range(
    unit: &mut UnitConfig,
    ranges: &mut usize,
    key: &str,
    value: &str,
) -> Result<usize, SettingError> {
    let range = range(key, value)?;
    if *ranges == 8 {
        return Err(SettingError::new(key, value, "a unit has 8 address ranges, and all are used"));
    }
    let number = *ranges;
    unit.controls.set_range(number, range.start, range.end - 1);
    *ranges += 1;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(settings: &[(&str, &str)]) -> Result<UnitConfig, SettingError> {
        let settings: Vec<_> =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        program(Config::etm4_default(), &settings).map(|template| template.unit)
    }

    #[test]
    fn registers_options_and_models_are_all_taken() {
        let made = unit(&[
            ("TRCSYNCPR", "9"),
            ("TRCCONFIGR", "0x1001"),
            ("cyclecount", "1"),
            ("range", "0x1000..0x2000"),
            ("exclude", "0x1800..0x1900"),
            ("speculation", "40"),
        ])
        .expect("all are known");
        assert_eq!(made.controls.syncpr, 9);
        assert!(made.config.return_stack() && made.config.cycle_counting());
        assert_eq!(made.controls.viiectlr, 1 | 1 << 17);
        assert_eq!(made.controls.acvr[..4], [0x1000, 0x1FFF, 0x1800, 0x18FF]);
        assert_eq!(made.config.max_speculation(), USUAL_DEPTH);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (key, value, expected) in [
            ("colour", "1", "return_stack_depth"),
            ("sync_period", "300", "power of two"),
            ("range", "5", "FROM..TO"),
            ("fifo", "5", "BYTES:DRAIN"),
            ("source_addresses", "1", "ETE only"),
            ("cyclecount", "maybe", "0 or 1"),
            ("TRCTRACEIDR", "0x70", "0x01 to 0x6f"),
        ] {
            let refused = unit(&[(key, value)]).expect_err(key).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
