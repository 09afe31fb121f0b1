//! A file of trace with nothing beside it: the user says what it is.

use crate::folder::{LONGEST_METADATA, Lone};
use crate::ini::{Dialect, parse_number, short};
use crate::model::{Buffer, Capture, Format, Register, Source};
use crate::resolve::Given;
use crate::{Error, Protocol};
use backsight_arm::etm4;
use backsight_arm::frame::Framing;
use backsight_core::TraceId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What errors call the settings that came with the command.
const SETTINGS: &str = "configuration";

/// How packets of RISC-V trace are told apart where no formatter carries them. The carrier is then raw.
pub(crate) const PACKET_FRAMINGS: [&str; 6] = ["reference", "encap", "atb", "siemens", "esp32", "pulp"];

/// The framing that a word means.
pub(crate) fn framing_of(word: &str) -> Option<Framing> {
    let word = word.to_ascii_lowercase().replace('_', "-");
    Framing::from_name(&word).or(PACKET_FRAMINGS.contains(&word.as_str()).then_some(Framing::Raw))
}

impl Capture {
    /// A bare file, or standard input if `path` is `-`, described by `settings`: registers (`TRCCONFIGR`) and
    /// options (`cyclecount`) with their values. One source speaks for all trace IDs in the file, unless the
    /// option `trace_id` names one. `framing` is a name of [`Framing`], or a packet framing of RISC-V trace.
    ///
    /// # Errors
    /// If the framing is not known, or a setting makes no sense for the protocol.
    pub fn bare(
        path: impl Into<PathBuf>,
        protocol: Protocol,
        framing: &str,
        settings: &[(String, String)],
    ) -> Result<Self, Error> {
        let path = path.into();
        let carrier = framing_of(framing).ok_or_else(|| {
            let names: Vec<&str> =
                Framing::ALL.iter().map(|framing| framing.name()).chain(PACKET_FRAMINGS).collect();
            let what =
                format!("framing `{}` is not known, expected one of {}", short(framing), names.join(", "));
            Error::file(SETTINGS, what)
        })?;
        let (registers, options) = sort(protocol, settings)?;
        let mut capture = Self::empty(name_of(&path), Format::Bare, Arc::new(Lone(path.clone())));
        let given = Given {
            name: protocol.name(),
            protocol,
            version: None,
            registers: &registers,
            options: &options,
            core: None,
            complete: false,
        };
        let config = given.resolve(&mut capture.warnings).map_err(|bad| Error::file(SETTINGS, bad.what))?;
        let trace_id = options.iter().find(|(key, _)| key.eq_ignore_ascii_case("trace_id"));
        let id = trace_id.and_then(|(_, value)| parse_number(value, Dialect::Package));
        capture.buffers.push(Buffer {
            name: capture.name.clone(),
            files: vec![Lone(path).file()],
            framing: carrier,
            format: framing.to_owned(),
            wrapped: false,
            details: Vec::new(),
        });
        capture.sources.push(Source {
            name: protocol.name().to_owned(),
            id: id.and_then(|id| u8::try_from(id).ok()).map(TraceId::new),
            protocol,
            format: protocol.format().to_owned(),
            registers,
            options,
            config,
            core: None,
            buffers: vec![0],
            location: None,
        });
        Ok(capture)
    }
}

/// Settings as a command line gives them: each `KEY=VALUE`, or the name of a file with one on each line (comments
/// behind `;` or `#`, section headers ignored).
///
/// # Errors
/// If a file cannot be read, or a line is no setting.
pub fn settings(arguments: &[String]) -> Result<Vec<(String, String)>, Error> {
    let mut settings = Vec::new();
    for argument in arguments {
        if let Some((key, value)) = argument.split_once('=') {
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
            continue;
        }
        let file = Lone(PathBuf::from(argument)).file();
        for (number, line) in (1..).zip(file.text(LONGEST_METADATA)?.lines()) {
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('[') {
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(|| {
                Error::line(argument, number, format!("expected `KEY=VALUE`, found `{}`", short(line)))
            })?;
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Ok(settings)
}

/// Tells registers from options, and refuses what the protocol does not know.
#[allow(clippy::type_complexity)]
fn sort(
    protocol: Protocol,
    settings: &[(String, String)],
) -> Result<(Vec<Register>, Vec<(String, String)>), Error> {
    let mut registers = Vec::new();
    let mut options = Vec::new();
    let mut etm4 = match protocol {
        Protocol::Etm4 | Protocol::Etm4Data => Some(etm4::Config::etm4_default()),
        Protocol::Ete => Some(etm4::Config::ete_default()),
        _ => None,
    };
    for (key, value) in settings {
        if let Some(config) = &mut etm4
            && let Err(error) = config.set(key, value)
        {
            return Err(Error::file(SETTINGS, format!("{}={}: {error}", short(key), short(value))));
        }
        if is_register(key) {
            let value = value.clone();
            let number = parse_number(&value, Dialect::Package);
            registers.push(Register { name: key.clone(), info: String::new(), text: value, value: number });
        } else {
            options.push((key.clone(), value.clone()));
        }
    }
    Ok((registers, options))
}

/// Register names are those of the manuals: TRC…, ETM…, ITM…, STM….
pub(crate) fn is_register(key: &str) -> bool {
    let prefix = key.get(..3).unwrap_or_default().to_ascii_uppercase();
    key.len() > 3 && ["TRC", "ETM", "ITM", "STM"].contains(&prefix.as_str())
}

fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}
