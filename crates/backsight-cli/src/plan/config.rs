//! How RISC-V sources are understood: their parameters are plain settings.

use backsight_flow::etrace::Handlers;
use backsight_riscv::{encap, etrace, ntrace};

use super::{Decoding, Etrace};
use crate::args::parse_number;
use crate::failure::{Failure, Result};

/// E-Trace with these settings, its packets framed in this way.
pub fn etrace(framing: &str, settings: &[(String, String)]) -> Result<Decoding> {
    // The widths of that dialect's encoder are fixed; each may yet be set.
    let seed = framing == "pulp" || settings.iter().any(|(key, value)| key == "dialect" && value == "seed");
    let mut params = if seed { etrace::Params::seed() } else { etrace::Params::default() };
    let mut options = etrace::Options::default();
    let mut widths = encap::Encapsulation::default();
    let mut hart_bits = 0;
    let (mut handlers, mut unknown) = (Handlers::default(), Vec::new());
    for (key, value) in settings {
        let refused = |why: String| Failure::usage(format!("{key}={value}: {why}"));
        let width = || value.parse::<u8>().map_err(|_| refused("a small number is expected".into()));
        if handler(&mut handlers, key, value).map_err(refused)? {
            continue;
        }
        match key.as_str() {
            "source_bits" | "srcid_bits" => widths.source_bits = width()?,
            "time_bytes" => widths.time_bytes = width()?,
            "type_bits" => widths.type_bits = width()?,
            "hart_bits" => hart_bits = width()?,
            _ => match etrace::set(&mut params, &mut options, &format!("{key}={value}")) {
                Ok(()) => {}
                // Files of parameters may have more than a decoder needs.
                Err(_) if is_foreign(key, &params) => unknown.push(key.clone()),
                Err(why) => return Err(refused(why)),
            },
        }
    }
    params.validate().map_err(|why| Failure::usage(format!("E-Trace parameters: {why}")))?;
    let framing = match framing {
        "encap" => encap::Framing::Standard(widths),
        "atb" => encap::Framing::ATB,
        "siemens" => encap::Framing::SIEMENS,
        "esp32" => encap::Framing::Esp32,
        "pulp" => encap::Framing::Pulp,
        _ => encap::Framing::Reference { hart_bits },
    };
    Ok(Decoding::Etrace(Box::new(Etrace { params, options, framing, handlers, unknown })))
}

/// A parameter by its name, but none that we know.
fn is_foreign(key: &str, params: &etrace::Params) -> bool {
    key.strip_suffix("_p").is_some_and(|name| !params.list().any(|(known, _)| known == name))
}

/// Takes a setting that says where trap handlers are; `false`: it is about something else.
fn handler(handlers: &mut Handlers, key: &str, value: &str) -> std::result::Result<bool, String> {
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

/// N-Trace with these settings.
pub fn ntrace(settings: &[(String, String)]) -> Result<Decoding> {
    let mut config = ntrace::Config::default();
    for (key, value) in settings {
        let bits = value.parse().ok().filter(|&bits| bits <= ntrace::MOST_SOURCE_BITS);
        match (key.as_str(), bits) {
            ("source_bits" | "src_bits", Some(bits)) => config.source_bits = bits,
            ("source_bits" | "src_bits", None) => {
                return Err(Failure::usage(format!("{key}={value}: 0 to 12 bits are expected")));
            }
            _ => return Err(Failure::usage(format!("{key}: N-Trace has the setting source_bits only"))),
        }
    }
    Ok(Decoding::Ntrace(config))
}
