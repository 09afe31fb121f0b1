//! Settings of sources that a user gives, besides what the capture says.

use backsight_capture::{Capture, Register, is_register, settings};
use backsight_core::TraceId;

use crate::{Error, Result, protocol};

/// The ID and the setting of `ID:KEY=VALUE`.
pub(crate) fn id_of(argument: &str) -> Option<(TraceId, &str)> {
    let (key, _) = argument.split_once('=')?;
    let (id, _) = key.split_once(':')?;
    let number = match id.strip_prefix("0x").or_else(|| id.strip_prefix("0X")) {
        Some(hexadecimal) => u8::from_str_radix(hexadecimal, 16),
        None => id.parse(),
    };
    let id_and_colon = id.len() + 1;
    number
        .ok()
        .filter(|&number| number < 0x80)
        .map(|number| (TraceId::new(number), &argument[id_and_colon..]))
}

/// Puts settings into the description of a capture, where they come before its own: into the source with that ID, or
/// into all whose protocol knows them.
pub(crate) fn apply(arguments: &[String], capture: &mut Capture) -> Result {
    if arguments.is_empty() {
        return Ok(());
    }
    for argument in arguments {
        let (id, plain) = match id_of(argument) {
            Some((id, setting)) => (Some(id), setting),
            None => (None, argument.as_str()),
        };
        let parsed = settings(&[plain.to_owned()]).map_err(|error| Error::misuse(error.to_string()))?;
        for (key, value) in parsed {
            apply_one(id, &key, &value, capture)?;
        }
    }
    Ok(())
}

fn apply_one(id: Option<TraceId>, key: &str, value: &str, capture: &mut Capture) -> Result {
    let ids = ids(capture);
    let mut refusal = None;
    let mut applied = false;
    for (source, own) in capture.sources.iter_mut().zip(ids) {
        if id.is_some() && id != own {
            continue;
        }
        let Some(names) = protocol::of_format(&source.format, source.stream) else { continue };
        match protocol::check(names, key, value) {
            Ok(()) => applied = true,
            Err(bad) if bad.unknown => {
                refusal.get_or_insert(bad);
                continue;
            }
            Err(bad) => return Err(Error::misuse(format!("{key}={value}: {}", bad.what))),
        }
        if is_register(key) {
            source.registers.retain(|register| !register.name.eq_ignore_ascii_case(key));
            source.registers.push(Register::new(key, value));
        } else {
            source.options.retain(|(other, _)| !other.eq_ignore_ascii_case(key));
            source.options.push((key.to_owned(), value.to_owned()));
        }
    }
    match (applied, refusal, id) {
        (true, ..) => Ok(()),
        (false, Some(bad), _) => Err(Error::misuse(format!("{key}={value}: {}", bad.what))),
        (false, None, Some(id)) => Err(Error::misuse(format!("{key}={value}: no source has the ID {id}"))),
        (false, None, None) => Err(Error::misuse(format!("{key}={value}: no source is decoded"))),
    }
}

/// The trace IDs of the sources; those of a snapshot stand in registers.
fn ids(capture: &Capture) -> Vec<Option<TraceId>> {
    let mut copy = Capture { warnings: Vec::new(), ..capture.clone() };
    let _ = crate::sources::all(&mut copy);
    copy.sources.iter().map(|source| source.id).collect()
}
