//! Arm PTM and ETMv3: how their units are programmed by `KEY=VALUE`, and how a capture describes them.

use backsight_arm::etm::{OptionError, Registers};
use backsight_arm::{etm3, ptm};
use backsight_capture::Register;
use backsight_core::{Execution, Isa, TraceId};
use backsight_unit::etm::{Protocol, Unit, UnitConfig};

use super::etm4::SYSTEM_TIMESTAMPS;
use super::{TraceUnit, TracedData, UnitDescription, UnitError, UnitKind, UnitTemplate};
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

/// A programmed unit.
#[derive(Debug)]
struct Template<C>(UnitConfig<C>);

/// What is asked of each protocol in its own way.
trait Programmed: Protocol {
    /// The word that captures have for the version.
    fn format(&self) -> &'static str;

    fn traced_data(&self) -> TracedData {
        TracedData::None
    }
}

impl Programmed for ptm::Config {
    fn format(&self) -> &'static str {
        if self.minor() == 0 { "PFT1.0" } else { "PFT1.1" }
    }
}

impl Programmed for etm3::Config {
    fn format(&self) -> &'static str {
        const FORMATS: [&str; 6] = ["ETM3.0", "ETM3.1", "ETM3.2", "ETM3.3", "ETM3.4", "ETM3.5"];
        FORMATS.get(usize::from(self.minor())).copied().unwrap_or("ETM3.5")
    }

    fn traced_data(&self) -> TracedData {
        match (self.data_values(), self.data_addresses()) {
            (true, _) => TracedData::Values,
            (false, true) => TracedData::Addresses,
            (false, false) => TracedData::None,
        }
    }
}

impl<C: Programmed> UnitTemplate for Template<C> {
    fn first_id(&self) -> TraceId {
        TraceId::new((self.0.config.registers().traceidr & 0x7F) as u8)
    }

    fn framing(&self) -> Option<&'static str> {
        None
    }

    fn in_frames(&self) -> Box<dyn UnitTemplate> {
        Box::new(Self(self.0))
    }

    fn traced_data(&self) -> TracedData {
        self.0.config.traced_data()
    }

    fn build(&self, id: TraceId) -> Result<Box<dyn TraceUnit>, UnitError> {
        let mut unit = self.0;
        unit.config.registers_mut().traceidr = id.get().into();
        Ok(Box::new(Unit::new(unit)))
    }

    /// Programs what a system of several processes needs and is missing: timestamps, and contexts if they are wanted.
    fn for_system(&self, contexts: bool) -> Option<Box<dyn UnitTemplate>> {
        let mut unit = self.0;
        if !unit.config.timestamps() {
            unit.config.set("timestamp_bits", "64").ok()?;
            unit.timestamps.period = SYSTEM_TIMESTAMPS;
        }
        // The clock that events are timed by begins at 0.
        unit.timestamps.first = 0;
        if contexts && unit.config.registers().context_id_bytes() == 0 {
            unit.config.set("context_id", "4").ok()?;
        }
        Some(Box::new(Self(unit)))
    }

    fn describe(&self, id: TraceId) -> UnitDescription {
        let registers = Registers { traceidr: id.get().into(), ..*self.0.config.registers() };
        UnitDescription {
            format: self.0.config.format(),
            registers: described(&registers),
            options: Vec::new(),
        }
    }
}

impl<C: Protocol> TraceUnit for Unit<C> {
    fn push(&mut self, items: &[Execution], out: &mut Vec<u8>) {
        self.push_all(items, out);
    }

    fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        Self::request_timestamp(self, time, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        Self::finish(self, out);
    }
}

fn described(registers: &Registers) -> Vec<Register> {
    let register = |name: &str| {
        let value = registers.get(name)?;
        let text = format!("{value:#010x}");
        Some(Register { name: name.to_owned(), info: String::new(), text, value: Some(value.into()) })
    };
    Registers::NAMES.into_iter().filter_map(register).collect()
}

/// Programs a unit; `special` knows settings that only its protocol has.
fn program<C: Programmed>(
    settings: &Settings,
    special: impl Fn(&mut UnitConfig<C>, &str, &str) -> Result<bool, SettingError>,
) -> Result<Template<C>, SettingError> {
    let mut config = C::default();
    config.registers_mut().traceidr = FIRST_ID;
    let mut unit = UnitConfig::new(config);
    for (key, value) in settings {
        match key.to_ascii_lowercase().as_str() {
            "sync_period" => unit.sync_period = number(key, value)?,
            "timestamps" => {
                unit.timestamps.period = number(key, value)?;
                option(unit.config.set("timestamp_bits", "64"), key, value, C::OPTIONS)?;
            }
            _ if special(&mut unit, key, value)? => {}
            name => option(unit.config.set(name, value), key, value, C::OPTIONS)?,
        }
    }
    Ok(Template(unit))
}

impl<C: Programmed> Template<C> {
    /// The same, if its trace ID can be that of a source.
    fn checked(self) -> Result<Self, SettingError> {
        let id = self.first_id();
        if id.is_source() {
            return Ok(self);
        }
        let what = format!("trace ID {:#x} is not that of a source: 0x01 to 0x6f is expected", id.get());
        Err(SettingError::together(what))
    }
}

fn program_ptm(settings: &Settings) -> Result<Template<ptm::Config>, SettingError> {
    let template: Template<ptm::Config> = program(settings, |unit, key, value| {
        if !key.eq_ignore_ascii_case("return_stack_depth") {
            return Ok(false);
        }
        unit.return_stack_depth = number(key, value)?;
        if !(1..=15).contains(&unit.return_stack_depth) {
            return Err(SettingError::new(key, value, "expected 1 to 15 entries"));
        }
        Ok(true)
    })?;
    template.checked()
}

fn program_etm3(settings: &Settings) -> Result<Template<etm3::Config>, SettingError> {
    let template: Template<etm3::Config> = program(settings, |_, _, _| Ok(false))?;
    if template.0.config.coprocessor_transfers() {
        return Err(SettingError::together(
            "ETMCR bit 1 traces transfers of coprocessor registers; this unit does not see them",
        ));
    }
    template.checked()
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
