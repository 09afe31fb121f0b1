//! RISC-V E-Trace: how a unit is programmed by `KEY=VALUE`, and how a capture describes it.

use backsight_core::{Execution, Isa, RetiredBlock, RetiredBlocks, TraceId};
use backsight_riscv::encap::{Encapsulation, Framing};
use backsight_riscv::etrace::{Dialect, ImplicitReturn, Options, Params, SupportLayout, set};
use backsight_unit::cva6::Fidelity;
use backsight_unit::etrace::{Algorithm, Fifo};
use backsight_unit::etrace::{Unit, UnitConfig};
use backsight_unit::riscv::{Resync, ResyncMode};

use super::riscv_filter::{self, Conditions, FIRST_ID, RETIRE};
use super::{TraceUnit, UnitError, UnitDescription, UnitFigures, UnitKind, UnitTemplate};
use crate::settings::{SettingError, Settings, flag, listed, pair, resync};

/// The row of E-Trace.
pub const ETRACE: UnitKind = UnitKind {
    name: "etrace",
    title: "RISC-V Efficient Trace",
    isas: &[Isa::Rv64, Isa::Rv32],
    retires: true,
    program: |isa, settings| Ok(Box::new(program(isa, settings)?)),
};

/// What this unit takes beside parameters and options of E-Trace, each with what it means.
const OPTIONS: [(&str, &str); 7] = [
    ("framing", "encap, reference, siemens, atb or pulp"),
    ("resync", "packets between synchronisations, or N:cycles, N:halfwords; 0: none"),
    ("shallow", "0 or 1: forget branches after every packet"),
    ("fifo", "BYTES:DRAIN, a buffer that loses what does not fit; DRAIN is bytes in 1024 cycles"),
    ("lossless", "0 or 1: the hart waits for that buffer"),
    (
        "algorithm",
        "current, reference, cva6: the CVA6 encoder of U. Laghi (Efficient Trace for RISC-V, University of Bologna \
         2024), in its dialect, or cva6-rtl: also where its hardware leaves a reader in doubt",
    ),
    RETIRE,
];
/// Packets between synchronisations, unless `resync` says otherwise.
const USUAL_RESYNC: u64 = 4096;

/// A programmed unit, and the word for its framing.
#[derive(Clone, Debug)]
struct EtraceTemplate {
    unit: Box<UnitConfig>,
    framing: &'static str,
}

impl UnitTemplate for EtraceTemplate {
    fn first_id(&self) -> TraceId {
        FIRST_ID
    }

    fn framing(&self) -> Option<&'static str> {
        Some(self.framing)
    }

    /// Frames tell harts apart, so packets need no more than a header.
    fn in_frames(&self) -> Box<dyn UnitTemplate> {
        let unit = UnitConfig { framing: Framing::REFERENCE, ..*self.unit };
        Box::new(Self { unit: Box::new(unit), framing: "coresight" })
    }

    fn build(&self, _: TraceId) -> Result<Box<dyn TraceUnit>, UnitError> {
        Ok(Box::new(Unit::new(*self.unit).map_err(UnitError::Etrace)?))
    }

    fn describe(&self, _: TraceId) -> UnitDescription {
        UnitDescription { format: "E-Trace", registers: Vec::new(), options: described(&self.unit) }
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

    fn finish(&mut self, out: &mut Vec<u8>) {
        Unit::finish(self, out);
    }

    fn figures(&self) -> UnitFigures {
        UnitFigures { cycles: self.cycles(), losses: self.losses() }
    }
}

/// The unit that these settings describe, as its hardware is built: `backsight rtl etrace` takes the same words.
///
/// # Errors
/// If a setting is not known, or settings do not fit together.
pub fn etrace_unit(isa: Isa, settings: &Settings) -> Result<UnitConfig, SettingError> {
    program(isa, settings).map(|template| *template.unit)
}

/// A unit with these settings.
fn program(isa: Isa, settings: &Settings) -> Result<EtraceTemplate, SettingError> {
    let mut unit = usual(isa);
    let mut framing = "encap";
    let is_cva6 = |value: &str| value.starts_with("cva6") || value.starts_with("seed");
    if settings.iter().any(|(key, value)| key.eq_ignore_ascii_case("algorithm") && is_cva6(value)) {
        unit.params = backsight_riscv::cva6::params();
        (framing, unit.framing) = ("pulp", Framing::Pulp);
    }
    let mut lossless = false;
    let mut conditions = Conditions::default();
    for (key, value) in settings {
        if conditions.set(&key.to_ascii_lowercase(), value)? {
            continue;
        }
        match key.to_ascii_lowercase().as_str() {
            "framing" => (framing, unit.framing) = framing_of(key, value)?,
            "lossless" => lossless = flag(key, value)?,
            _ => set_unit(&mut unit, key, value)?,
        }
    }
    match &mut unit.fifo {
        Some(fifo) => fifo.lossless = lossless,
        None if lossless => return Err(SettingError::new("lossless", "1", "needs fifo=BYTES:DRAIN")),
        None => {}
    }
    complete(&mut unit);
    unit.filter = conditions.filter()?;
    if (unit.params.dialect == Dialect::Cva6) != unit.cva6.is_some() {
        return Err(SettingError::together("algorithm=cva6 and dialect=cva6 belong together"));
    }
    Unit::new(unit).map_err(SettingError::together)?;
    Ok(EtraceTemplate { unit: Box::new(unit), framing })
}

/// What is not said otherwise: addresses of the program's width, Linux's exception codes, returns that can be told
/// apart from jumps.
fn usual(isa: Isa) -> UnitConfig {
    let mut unit =
        UnitConfig { framing: Framing::Standard(Encapsulation::default()), ..UnitConfig::default() };
    unit.params.iaddress_width = if isa == Isa::Rv32 { 32 } else { 64 };
    unit.params.ecause_width = 5;
    unit.params.implicit_return = ImplicitReturn::Returns;
    unit.settings.resync = Resync { mode: ResyncMode::Packets, limit: USUAL_RESYNC };
    unit
}

fn set_unit(unit: &mut UnitConfig, key: &str, value: &str) -> Result<(), SettingError> {
    let wrong = |why: &str| SettingError::new(key, value, why);
    match key.to_ascii_lowercase().as_str() {
        "resync" => unit.settings.resync = resync(key, value)?,
        "shallow" => unit.settings.shallow = flag(key, value)?,
        "retire" => unit.retirement = Some(value.parse().map_err(|why: String| wrong(&why))?),
        "fifo" => {
            let (capacity, drain) = pair(key, value)?;
            unit.fifo = Some(Fifo { capacity, drain, lossless: false });
        }
        "algorithm" => {
            (unit.settings.algorithm, unit.cva6) = match value {
                "current" => (Algorithm::Current, None),
                "reference" => (Algorithm::Reference, None),
                // The words of earlier versions are taken too.
                "cva6" | "seed" => (Algorithm::Reference, Some(Fidelity::Followable)),
                "cva6-rtl" | "seed-rtl" => (Algorithm::Reference, Some(Fidelity::Rtl)),
                _ => return Err(wrong("expected current, reference, cva6 or cva6-rtl")),
            };
        }
        _ => set(&mut unit.params, &mut unit.options, &format!("{key}={value}")).map_err(|why| {
            let (own, filters) = (listed(&OPTIONS), listed(&riscv_filter::OPTIONS));
            wrong(&format!(
                "{why}; the settings are the parameters and options of E-Trace, and:{own}{filters}"
            ))
        })?,
    }
    Ok(())
}

/// An option that needs a table gets a usual one if its size was not given.
fn complete(unit: &mut UnitConfig) {
    let Params { return_stack_size, call_counter_size, bpred_size, cache_size, f0s_width, sijump, .. } =
        &mut unit.params;
    let usual = |wanted: bool, size: &mut u8, usual: u8| {
        if wanted && *size == 0 {
            *size = usual;
        }
    };
    usual(unit.options.implicit_return && *call_counter_size == 0, return_stack_size, 4);
    usual(unit.options.branch_prediction, bpred_size, 8);
    usual(unit.options.jump_target_cache, cache_size, 6);
    usual(*bpred_size > 0 && *cache_size > 0, f0s_width, 1);
    usual(unit.options.sijump, sijump, 1);
}

fn framing_of(key: &str, word: &str) -> Result<(&'static str, Framing), SettingError> {
    Ok(match word {
        "encap" => ("encap", Framing::Standard(Encapsulation::default())),
        "reference" => ("reference", Framing::REFERENCE),
        "siemens" => ("siemens", Framing::SIEMENS),
        "atb" => ("atb", Framing::ATB),
        "pulp" => ("pulp", Framing::Pulp),
        _ => return Err(SettingError::new(key, word, "expected encap, reference, siemens, atb or pulp")),
    })
}

/// Parameters and options that differ from the usual, as a capture keeps them.
fn described(unit: &UnitConfig) -> Vec<(String, String)> {
    let mut described: Vec<(String, String)> = Vec::new();
    let mut say = |key: &str, value: &str| described.push((key.to_owned(), value.to_owned()));
    for ((name, value), (_, usual)) in unit.params.list().zip(Params::default().list()) {
        if value != usual {
            say(name, &value.to_string());
        }
    }
    match unit.params.layout {
        SupportLayout::Reference => {}
        SupportLayout::Cva6 => say("layout", "cva6"),
        SupportLayout::Standard => say("layout", "standard"),
    }
    if unit.params.dialect == Dialect::Cva6 {
        say("dialect", "cva6");
    }
    if unit.params.implicit_return == ImplicitReturn::Returns {
        say("iret_ext", "1");
    }
    let Options {
        implicit_return,
        implicit_exception,
        full_address,
        jump_target_cache,
        branch_prediction,
        sijump,
        resync_disabled,
    } = unit.options;
    let switches = [
        ("implicit_return", implicit_return),
        ("implicit_exception", implicit_exception),
        ("full_address", full_address),
        ("jump_target_cache", jump_target_cache),
        ("branch_prediction", branch_prediction),
        ("sijump_enable", sijump),
        ("resync_disabled", resync_disabled),
    ];
    switches.iter().filter(|(_, on)| *on).for_each(|(name, _)| say(name, "1"));
    described
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(settings: &[(&str, &str)]) -> Result<UnitConfig, SettingError> {
        let settings: Vec<_> =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        program(Isa::Rv64, &settings).map(|template| *template.unit)
    }

    #[test]
    fn a_description_says_all_that_a_decoder_needs() {
        let all =
            ["implicit_return", "branch_prediction", "jump_target_cache", "sijump_enable", "full_address"];
        let made = unit(&all.map(|name| (name, "1"))).expect("all at once");
        let (mut params, mut options) = (Params::default(), Options::default());
        for (key, value) in described(&made) {
            set(&mut params, &mut options, &format!("{key}={value}")).expect("known");
        }
        assert_eq!((params, options), (made.params, made.options));
    }

    #[test]
    fn the_encoder_for_cva6_brings_its_parameters_and_framing_also_by_its_earlier_name() {
        let made = unit(&[("resync", "100"), ("algorithm", "seed")]).expect("a unit");
        assert_eq!((made.params, made.framing), (backsight_riscv::cva6::params(), Framing::Pulp));
        assert_eq!((made.cva6, made.settings.resync.limit), (Some(Fidelity::Followable), 100));
        let refused = unit(&[("algorithm", "cva6"), ("sijump_enable", "1")]).expect_err("an option");
        assert!(refused.to_string().contains("full_address only"), "{refused}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (key, value, expected) in [
            ("colour", "1", "framing"),
            ("framing", "oak", "siemens"),
            ("iaddress_width", "70", "3 to 64"),
            ("algorithm", "best", "cva6-rtl"),
            ("dialect", "cva6", "algorithm=cva6"),
            ("fifo", "5", "BYTES:DRAIN"),
            ("fifo", "10:1", "64 bytes"),
            ("lossless", "1", "fifo=BYTES:DRAIN"),
            ("retire", "blocks:0", "branches:N"),
        ] {
            let refused = unit(&[(key, value)]).expect_err(key).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
