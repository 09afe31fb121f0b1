//! RISC-V N-Trace: how a unit is programmed by `KEY=VALUE`, and how a capture describes it.

use backsight_core::{Execution, Isa, RetiredBlock, TraceId};
use backsight_riscv::ntrace::{MOST_RETURNS, Mode};
use backsight_unit::ntrace::Timestamps;
use backsight_unit::ntrace::{Unit, UnitConfig};
use backsight_unit::riscv::{Resync, ResyncMode};

use super::riscv_filter::{self, Conditions, FIRST_ID, RETIRE};
use super::{TraceUnit, UnitError, UnitDescription, UnitFigures, UnitKind, UnitTemplate};
use crate::settings::{SettingError, Settings, flag, listed, number, resync};

/// The row of N-Trace.
pub const NTRACE: UnitKind = UnitKind {
    name: "ntrace",
    title: "RISC-V Nexus Trace",
    isas: &[Isa::Rv64, Isa::Rv32],
    retires: true,
    program: |_, settings| Ok(Box::new(program(settings)?)),
};

/// What this unit takes, each with what it means.
const OPTIONS: [(&str, &str); 11] = [
    ("mode", "history: outcomes of branches collect; branch: every taken branch is a message"),
    ("history_bits", "outcomes in a full history, 1 to 31"),
    ("repeat_history", "0 or 1: the same full history several times is sent once"),
    ("repeat_branch", "0 or 1: the same branch message several times is sent once"),
    ("count_limit", "half-words that a message can count"),
    ("return_stack", "calls whose returns are not sent, 0 to 64"),
    ("resync", "messages between synchronisations, or N:cycles, N:halfwords; 0: none"),
    ("ownership", "0 or 1: send privilege and context"),
    ("timestamps", "off, sync: in messages that synchronise, or all"),
    ("source, source_bits", "SRC of the messages, and its bits"),
    RETIRE,
];
/// Messages between synchronisations, unless `resync` says otherwise.
const USUAL_RESYNC: u64 = 4096;

/// A programmed unit.
#[derive(Clone, Debug)]
struct NtraceTemplate(Box<UnitConfig>);

impl UnitTemplate for NtraceTemplate {
    fn first_id(&self) -> TraceId {
        FIRST_ID
    }

    fn framing(&self) -> Option<&'static str> {
        Some("raw")
    }

    fn in_frames(&self) -> Box<dyn UnitTemplate> {
        Box::new(self.clone())
    }

    fn build(&self, _: TraceId) -> Result<Box<dyn TraceUnit>, UnitError> {
        Ok(Box::new(Unit::new(*self.0).map_err(UnitError::Ntrace)?))
    }

    fn describe(&self, _: TraceId) -> UnitDescription {
        let mut options = vec![("dialect".to_owned(), "1.0".to_owned())];
        if self.0.config.source_bits > 0 {
            options.push(("source_bits".to_owned(), self.0.config.source_bits.to_string()));
        }
        UnitDescription { format: "N-Trace", registers: Vec::new(), options }
    }
}

impl TraceUnit for Unit {
    fn push(&mut self, items: &[Execution], out: &mut Vec<u8>) {
        items.iter().for_each(|&item| Unit::push(self, item, out));
    }

    fn push_block(&mut self, block: &RetiredBlock<'_>, out: &mut Vec<u8>) {
        Unit::push_block(self, block, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        Unit::finish(self, out);
    }

    fn figures(&self) -> UnitFigures {
        UnitFigures { cycles: self.cycles(), losses: None }
    }
}

/// A unit with these settings.
fn program(settings: &Settings) -> Result<NtraceTemplate, SettingError> {
    let mut unit = UnitConfig::default();
    unit.settings.resync = Resync { mode: ResyncMode::Packets, limit: USUAL_RESYNC };
    let mut conditions = Conditions::default();
    for (key, value) in settings {
        let key = key.to_ascii_lowercase();
        if !conditions.set(&key, value)? {
            set(&mut unit, &key, value)?;
        }
    }
    unit.filter = conditions.filter()?;
    Unit::new(unit).map_err(SettingError::together)?;
    Ok(NtraceTemplate(Box::new(unit)))
}

fn set(unit: &mut UnitConfig, key: &str, value: &str) -> Result<(), SettingError> {
    let wrong = |why: &str| SettingError::new(key, value, why);
    let to = &mut unit.settings;
    match key {
        "mode" => {
            to.mode = match value {
                "history" => Mode::History,
                "branch" => Mode::Branch,
                _ => return Err(wrong("expected history or branch")),
            };
        }
        "history_bits" => {
            let bits = number(key, value)?;
            to.history_bits =
                Some(bits).filter(|bits| (1..=31).contains(bits)).ok_or_else(|| wrong("expected 1 to 31"))?;
        }
        "repeat_history" => to.repeat_history = flag(key, value)?,
        "repeat_branch" => to.repeat_branch = flag(key, value)?,
        "count_limit" => {
            let limit = number(key, value)?;
            let fits = (1..1 << 22).contains(&limit);
            to.count_limit = Some(limit)
                .filter(|_| fits)
                .ok_or_else(|| wrong("expected 1 to 4194303: the field has 22 bits"))?;
        }
        "return_stack" => {
            let depth = number(key, value)?;
            to.return_stack = Some(depth)
                .filter(|&depth| depth <= MOST_RETURNS)
                .ok_or_else(|| wrong("expected 0 to 64"))?;
        }
        "resync" => to.resync = resync(key, value)?,
        "ownership" => to.ownership = flag(key, value)?,
        "timestamps" => {
            to.timestamps = match value {
                "off" | "0" => Timestamps::Off,
                "sync" => Timestamps::Synchronising,
                "all" | "1" => Timestamps::All,
                _ => return Err(wrong("expected off, sync or all")),
            };
        }
        "retire" => unit.retirement = Some(value.parse().map_err(|why: String| wrong(&why))?),
        "source" => to.source = number(key, value)?,
        "source_bits" => unit.config.source_bits = number(key, value)?,
        _ => {
            let (own, filters) = (listed(&OPTIONS), listed(&riscv_filter::OPTIONS));
            return Err(wrong(&format!("there is no such setting; the settings are:{own}{filters}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(settings: &[(&str, &str)]) -> Result<NtraceTemplate, SettingError> {
        let settings: Vec<_> =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        program(&settings)
    }

    #[test]
    fn every_setting_is_taken() {
        let NtraceTemplate(made) = template(&[
            ("mode", "branch"),
            ("repeat_branch", "1"),
            ("history_bits", "30"),
            ("count_limit", "1000"),
            ("return_stack", "0"),
            ("resync", "50"),
            ("ownership", "1"),
            ("timestamps", "sync"),
            ("source", "5"),
            ("source_bits", "4"),
            ("range", "0x1000..0x2000"),
        ])
        .expect("all are known");
        assert_eq!((made.settings.mode, made.settings.timestamps), (Mode::Branch, Timestamps::Synchronising));
        assert!(made.settings.repeat_branch && made.settings.ownership && made.filter.is_some());
        let options = NtraceTemplate(made).describe(TraceId::new(1)).options;
        let expected = [("dialect", "1.0"), ("source_bits", "4")];
        assert_eq!(options, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (key, value, expected) in [
            ("colour", "1", "repeat_history"),
            ("mode", "loud", "history or branch"),
            ("history_bits", "32", "1 to 31"),
            ("count_limit", "0x400000", "22 bits"),
            ("return_stack", "65", "0 to 64"),
            ("timestamps", "some", "sync"),
            ("retire", "blocks:0", "branches:N"),
            ("source", "1", "does not fit 0 bits"),
        ] {
            let refused = template(&[(key, value)]).expect_err(key).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
