//! How RISC-V sources are understood: their parameters are plain settings.

use backsight_riscv::{encap, etrace, ntrace};

use super::{Decoding, Etrace};
use crate::failure::{Failure, Result};

/// E-Trace with these settings, its packets framed in this way.
pub fn etrace(framing: &str, settings: &[(String, String)]) -> Result<Decoding> {
    let mut params = if framing == "pulp" { etrace::Params::seed() } else { etrace::Params::default() };
    let mut options = etrace::Options::default();
    let mut widths = encap::Encapsulation::default();
    let mut hart_bits = 0;
    for (key, value) in settings {
        let refused = |why: String| Failure::usage(format!("{key}={value}: {why}"));
        let width = || value.parse::<u8>().map_err(|_| refused("a small number is expected".into()));
        match key.as_str() {
            "source_bits" | "srcid_bits" => widths.source_bits = width()?,
            "time_bytes" => widths.time_bytes = width()?,
            "type_bits" => widths.type_bits = width()?,
            "hart_bits" => hart_bits = width()?,
            _ => etrace::set(&mut params, &mut options, &format!("{key}={value}")).map_err(refused)?,
        }
    }
    params.validate().map_err(|why| Failure::usage(format!("E-Trace parameters: {why}")))?;
    let framing = match framing {
        "encap" => encap::Framing::Standard(widths),
        "atb" => encap::Framing::ATB,
        "siemens" => encap::Framing::SIEMENS,
        "pulp" => encap::Framing::Pulp,
        _ => encap::Framing::Reference { hart_bits },
    };
    Ok(Decoding::Etrace(Box::new(Etrace { params, options, framing })))
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
