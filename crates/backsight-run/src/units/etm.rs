//! Arm PTM and ETMv3: how their units are programmed by `KEY=VALUE`, and how a capture describes them.

use backsight_arm::ptm::{OptionError, Registers};
use backsight_arm::{etm3, ptm};
use backsight_capture::Register;
use backsight_core::{Execution, Isa, TraceId};
use backsight_unit::ptm::Timestamps;
use backsight_unit::{etm3 as etm3_unit, ptm as ptm_unit};

use super::etm4::SYSTEM_TIMESTAMPS;
use super::{TraceUnit, TracedData, UnitDescription, UnitKind, UnitTemplate};
use crate::settings::{SettingError, Settings, listed, number};

const ISAS: &[Isa] = &[Isa::A32, Isa::T32];

/// The row of PTM.
pub const PTM: UnitKind = UnitKind {
    name: "ptm",
    title: "Arm PTM (Program Flow Trace 1.1)",
    isas: ISAS,
    retires: false,
    program: |_, settings| Ok(Box::new(program_ptm(settings)?)),
};

/// The row of ETMv3.
pub const ETM3: UnitKind = UnitKind {
    name: "etm3",
    title: "Arm ETMv3, with data trace",
    isas: ISAS,
    retires: false,
    program: |_, settings| Ok(Box::new(program_etm3(settings)?)),
};

/// Trace ID of the first thread.
const FIRST_ID: u32 = 0x10;

/// What both units take beside registers and the options that decoders know, each with what it means.
const OPTIONS: [(&str, &str); 2] = [
    ("sync_period", "bytes between synchronisations; 0: only the first"),
    ("timestamps", "instructions or cycles between timestamps; switches them on"),
];

/// A programmed PTM.
#[derive(Debug)]
struct PtmTemplate(ptm_unit::UnitConfig);

/// A programmed ETMv3.
#[derive(Debug)]
struct Etm3Template(etm3_unit::UnitConfig);

impl PtmTemplate {
    fn with_id(&self, id: TraceId) -> ptm_unit::UnitConfig {
        let mut unit = self.0;
        unit.config.registers.traceidr = id.get().into();
        unit
    }
}

impl Etm3Template {
    fn with_id(&self, id: TraceId) -> etm3_unit::UnitConfig {
        let mut unit = self.0;
        unit.config.registers.traceidr = id.get().into();
        unit
    }
}

/// What a unit was programmed to trace, of what a system of several processes needs.
struct Traced {
    timestamps: bool,
    contexts: bool,
}

impl Traced {
    /// Programs what is missing: timestamps, and contexts if they are wanted.
    fn add(
        &self,
        contexts: bool,
        timestamps: &mut Timestamps,
        mut set: impl FnMut(&str, &str) -> Result<(), OptionError>,
    ) -> Result<(), OptionError> {
        if !self.timestamps {
            set("timestamp_bits", "64")?;
            timestamps.period = SYSTEM_TIMESTAMPS;
        }
        // The clock that events are timed by begins at 0.
        timestamps.first = 0;
        if contexts && !self.contexts {
            set("context_id", "4")?;
        }
        Ok(())
    }
}

impl UnitTemplate for PtmTemplate {
    fn first_id(&self) -> TraceId {
        TraceId::new(self.0.config.trace_id())
    }

    fn framing(&self) -> Option<&'static str> {
        None
    }

    fn in_frames(&self) -> Box<dyn UnitTemplate> {
        Box::new(Self(self.0))
    }

    fn build(&self, id: TraceId) -> Result<Box<dyn TraceUnit>, String> {
        Ok(Box::new(ptm_unit::Unit::new(self.with_id(id))))
    }

    fn for_system(&self, contexts: bool) -> Option<Box<dyn UnitTemplate>> {
        let mut unit = self.0;
        let config = &mut unit.config;
        let traced = Traced { timestamps: config.timestamps(), contexts: config.context_id_bytes() > 0 };
        traced.add(contexts, &mut unit.timestamps, |name, value| config.set(name, value)).ok()?;
        Some(Box::new(Self(unit)))
    }

    fn describe(&self, id: TraceId) -> UnitDescription {
        let config = self.with_id(id).config;
        let format = if config.minor() == 0 { "PFT1.0" } else { "PFT1.1" };
        UnitDescription { format, registers: registers(&config.registers), options: Vec::new() }
    }
}

impl UnitTemplate for Etm3Template {
    fn first_id(&self) -> TraceId {
        TraceId::new(self.0.config.trace_id())
    }

    fn framing(&self) -> Option<&'static str> {
        None
    }

    fn in_frames(&self) -> Box<dyn UnitTemplate> {
        Box::new(Self(self.0))
    }

    fn traced_data(&self) -> TracedData {
        let config = &self.0.config;
        match (config.data_values(), config.data_addresses()) {
            (true, _) => TracedData::Values,
            (false, true) => TracedData::Addresses,
            (false, false) => TracedData::None,
        }
    }

    fn build(&self, id: TraceId) -> Result<Box<dyn TraceUnit>, String> {
        Ok(Box::new(etm3_unit::Unit::new(self.with_id(id))))
    }

    fn for_system(&self, contexts: bool) -> Option<Box<dyn UnitTemplate>> {
        let mut unit = self.0;
        let config = &mut unit.config;
        let traced = Traced { timestamps: config.timestamps(), contexts: config.context_id_bytes() > 0 };
        traced.add(contexts, &mut unit.timestamps, |name, value| config.set(name, value)).ok()?;
        Some(Box::new(Self(unit)))
    }

    fn describe(&self, id: TraceId) -> UnitDescription {
        const FORMATS: [&str; 6] = ["ETM3.0", "ETM3.1", "ETM3.2", "ETM3.3", "ETM3.4", "ETM3.5"];
        let config = self.with_id(id).config;
        let format = FORMATS.get(usize::from(config.minor())).copied().unwrap_or("ETM3.5");
        UnitDescription { format, registers: registers(&config.registers), options: Vec::new() }
    }
}

impl TraceUnit for ptm_unit::Unit {
    fn push(&mut self, items: &[Execution], out: &mut Vec<u8>) -> Result<(), String> {
        self.push_all(items, out);
        Ok(())
    }

    fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        Self::request_timestamp(self, time, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        Self::finish(self, out);
        Ok(())
    }
}

impl TraceUnit for etm3_unit::Unit {
    fn push(&mut self, items: &[Execution], out: &mut Vec<u8>) -> Result<(), String> {
        self.push_all(items, out);
        Ok(())
    }

    fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        Self::request_timestamp(self, time, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        Self::finish(self, out);
        Ok(())
    }
}

fn registers(registers: &Registers) -> Vec<Register> {
    let register = |name: &str| {
        let value = registers.get(name)?;
        let text = format!("{value:#010x}");
        Some(Register { name: name.to_owned(), info: String::new(), text, value: Some(value.into()) })
    };
    Registers::NAMES.into_iter().filter_map(register).collect()
}

fn program_ptm(settings: &Settings) -> Result<PtmTemplate, SettingError> {
    let mut config = ptm::Config::default();
    config.registers.traceidr = FIRST_ID;
    let mut unit = ptm_unit::UnitConfig::new(config);
    for (key, value) in settings {
        match key.to_ascii_lowercase().as_str() {
            "sync_period" => unit.sync_period = number(key, value)?,
            "timestamps" => {
                unit.timestamps.period = number(key, value)?;
                option(unit.config.set("timestamp_bits", "64"), key, value, ptm::Config::OPTIONS)?;
            }
            "return_stack_depth" => {
                unit.return_stack_depth = number(key, value)?;
                if !(1..=15).contains(&unit.return_stack_depth) {
                    return Err(SettingError::new(key, value, "expected 1 to 15 entries"));
                }
            }
            name => option(unit.config.set(name, value), key, value, ptm::Config::OPTIONS)?,
        }
    }
    check_id(unit.config.trace_id())?;
    Ok(PtmTemplate(unit))
}

fn program_etm3(settings: &Settings) -> Result<Etm3Template, SettingError> {
    let mut config = etm3::Config::default();
    config.registers.traceidr = FIRST_ID;
    let mut unit = etm3_unit::UnitConfig::new(config);
    for (key, value) in settings {
        match key.to_ascii_lowercase().as_str() {
            "sync_period" => unit.sync_period = number(key, value)?,
            "timestamps" => {
                unit.timestamps.period = number(key, value)?;
                option(unit.config.set("timestamp_bits", "64"), key, value, etm3::Config::OPTIONS)?;
            }
            name => option(unit.config.set(name, value), key, value, etm3::Config::OPTIONS)?,
        }
    }
    if unit.config.coprocessor_transfers() {
        return Err(SettingError::together(
            "ETMCR bit 1 traces transfers of coprocessor registers; this unit does not see them",
        ));
    }
    check_id(unit.config.trace_id())?;
    Ok(Etm3Template(unit))
}

/// What became of setting an option, with the options that there are where it is none of them.
fn option(
    outcome: Result<(), OptionError>,
    key: &str,
    value: &str,
    options: &[(&str, &str)],
) -> Result<(), SettingError> {
    outcome.map_err(|why| match why {
        OptionError::Unknown => {
            let all = format!("{why}; the settings are:{}{}", listed(options), listed(&OPTIONS));
            SettingError::new(key, value, all)
        }
        why => SettingError::new(key, value, why),
    })
}

fn check_id(id: u8) -> Result<(), SettingError> {
    if TraceId::new(id).is_source() {
        return Ok(());
    }
    Err(SettingError::together(format!("trace ID {id:#x} is not that of a source: 0x01 to 0x6f is expected")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(settings: &[(&str, &str)]) -> Vec<(String, String)> {
        settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn data_trace_says_which_accesses_it_needs() {
        for (data, needs) in [
            ("none", TracedData::None),
            ("address", TracedData::Addresses),
            ("value", TracedData::Values),
            ("both", TracedData::Values),
        ] {
            let template = program_etm3(&settings(&[("data", data)])).expect("known");
            assert_eq!(template.traced_data(), needs);
        }
        assert_eq!(program_ptm(&[]).expect("nothing said").traced_data(), TracedData::None);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (key, value, expected) in [
            ("colour", "1", "sync_period"),
            ("cyclecount", "maybe", "0 or 1"),
            ("etmtraceidr", "0x70", "0x01 to 0x6f"),
            ("return_stack_depth", "16", "1 to 15"),
        ] {
            let refused = program_ptm(&settings(&[(key, value)])).expect_err(key).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
        let refused = program_etm3(&settings(&[("data", "all")])).expect_err("data").to_string();
        assert!(refused.contains("address, value or both"), "{refused}");
        assert!(program_etm3(&settings(&[("etmcr", "2")])).is_err());
    }
}
