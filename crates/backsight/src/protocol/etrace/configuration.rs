//! How E-Trace sources are described: by plain settings.

use backsight_capture::is_register;
use backsight_flow::etrace::Handlers;
use backsight_riscv::encap::{Encapsulation, Framing};
use backsight_riscv::etrace::{Config, Options, Params, set};

use super::super::riscv::parse_number;
use super::super::{BadSetting, Described};

/// How packets may be framed; the first is the usual way.
pub(super) const FRAMINGS: &[&str] = &["reference", "encap", "atb", "siemens", "esp32", "pulp"];

/// How E-Trace is understood.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Parameters of the encoder.
    pub params: Params,
    /// Options until the trace says otherwise.
    pub options: Options,
    /// How packets are framed.
    pub framing: Framing,
    /// Where trap handlers are, for traces that leave that out.
    pub handlers: Handlers,
}

impl Configuration {
    /// What the decoder must know.
    pub const fn config(&self) -> Config {
        Config { params: self.params, options: self.options, framing: self.framing }
    }
}

/// What settings have said so far.
struct EtraceSettings {
    params: Params,
    options: Options,
    widths: Encapsulation,
    hart_bits: u8,
    handlers: Handlers,
}

impl EtraceSettings {
    fn new(params: Params) -> Self {
        let (options, widths, handlers) = Default::default();
        Self { params, options, widths, hart_bits: 0, handlers }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BadSetting> {
        let bad = |what: String| BadSetting { key: key.to_owned(), what, unknown: false };
        let width = || value.parse::<u8>().map_err(|_| bad("a small number is expected".to_owned()));
        if handler(&mut self.handlers, key, value).map_err(bad)? {
            return Ok(());
        }
        match key {
            "source_bits" | "srcid_bits" => self.widths.source_bits = width()?,
            "time_bytes" => self.widths.time_bytes = width()?,
            "type_bits" => self.widths.type_bits = width()?,
            "hart_bits" => self.hart_bits = width()?,
            _ => set(&mut self.params, &mut self.options, &format!("{key}={value}")).map_err(|what| {
                BadSetting { unknown: is_foreign(key, &self.params), ..bad(what.to_string()) }
            })?,
        }
        Ok(())
    }
}

/// Reads the configuration of a source.
pub(super) fn read(source: &Described<'_>, notes: &mut Vec<String>) -> Result<Configuration, BadSetting> {
    let framing = source.framing.unwrap_or(FRAMINGS[0]);
    // The widths of that dialect's encoder are fixed; each may yet be set.
    let names_cva6 =
        |(key, value): &(String, String)| key == "dialect" && matches!(value.as_str(), "cva6" | "seed");
    let cva6 = framing == "pulp" || source.options.iter().any(names_cva6);
    let mut settings =
        EtraceSettings::new(if cva6 { backsight_riscv::cva6::params() } else { Params::default() });
    for (key, value) in source.options {
        match settings.set(key, value) {
            Ok(()) => {}
            // Files of parameters may have more than a decoder needs.
            Err(BadSetting { unknown: true, .. }) => {
                notes.push(format!("parameter {key} is not known, and not used"));
            }
            Err(bad) => return Err(BadSetting { what: format!("{key}={value}: {}", bad.what), ..bad }),
        }
    }
    let EtraceSettings { params, options, widths, hart_bits, handlers } = settings;
    let what =
        |why| BadSetting { key: String::new(), what: format!("E-Trace parameters: {why}"), unknown: false };
    params.validate().map_err(what)?;
    let framing = match framing {
        "encap" => Framing::Standard(widths),
        "atb" => Framing::ATB,
        "siemens" => Framing::SIEMENS,
        "esp32" => Framing::Esp32,
        "pulp" => Framing::Pulp,
        _ => Framing::Reference { hart_bits },
    };
    Ok(Configuration { params, options, framing, handlers })
}

/// Is this a setting?
pub(super) fn check(key: &str, value: &str) -> Result<(), BadSetting> {
    if is_register(key) {
        let what = "E-Trace is described by parameters, not by registers".to_owned();
        return Err(BadSetting { key: key.to_owned(), what, unknown: true });
    }
    match EtraceSettings::new(Params::default()).set(key, value) {
        Err(BadSetting { unknown: true, .. }) => Ok(()),
        other => other,
    }
}

/// A parameter by its name, but none that we know.
fn is_foreign(key: &str, params: &Params) -> bool {
    key.strip_suffix("_p").is_some_and(|name| !params.list().any(|(known, _)| known == name))
}

/// Takes a setting that says where trap handlers are; `false`: it is about something else.
fn handler(handlers: &mut Handlers, key: &str, value: &str) -> Result<bool, String> {
    let single = |interrupt: bool, prefix: &str| {
        key.strip_prefix(prefix).and_then(|cause| parse_number(cause).ok()).map(|cause| (cause, interrupt))
    };
    match key {
        "trap_base" => handlers.base = Some(parse_number(value)?),
        "vectored" => {
            handlers.vectored = match value {
                "0" => false,
                "1" => true,
                _ => return Err("0 or 1 is expected".to_owned()),
            }
        }
        _ => {
            let Some(cause) = single(false, "exception_").or_else(|| single(true, "interrupt_")) else {
                return Ok(false);
            };
            handlers.single.insert(cause, parse_number(value)?);
        }
    }
    Ok(true)
}
