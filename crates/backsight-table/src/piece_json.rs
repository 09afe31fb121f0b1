//! Pieces as JSON: one object each.

use std::path::PathBuf;

use backsight::core::{Address, Context, Isa, Mode, Privilege, Security, TraceId};
use backsight::decode::{Cut, Seek};
use backsight::isa::{Class, Flags};
use backsight_profile::Handover;
use serde_json::{Map, Value, json};

use crate::identity::Identity;
use crate::piece::{Carried, Piece};
use crate::rows::Pending;
use crate::{Error, Result};

/// The version of the format: pieces of another one are refused.
const VERSION: u64 = 3;

const SECURITIES: [Security; 4] = [Security::Secure, Security::NonSecure, Security::Root, Security::Realm];
const ISAS: [Isa; 7] = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64, Isa::ThumbEe, Isa::Jazelle];

impl Piece {
    /// As a JSON object.
    pub fn to_json(&self) -> String {
        let Self { capture, name, identity, buffer, source, start, end, latest, carried, pending, counted } =
            self;
        let Identity { bytes, modified, digest } = identity;
        let mut object = json!({
            "version": VERSION,
            "capture": capture.to_string_lossy(),
            "name": name,
            "identity": { "bytes": bytes, "modified": modified, "digest": digest },
            "buffer": buffer,
            "source": source,
            "start": start.as_ref().map(cut_json),
            "end": end,
            "latest": latest,
        });
        if !carried.is_empty() {
            object["carried"] = carried.iter().map(carried_json).collect();
        }
        if !pending.is_empty() {
            object["pending"] = pending.iter().map(pending_json).collect();
        }
        if let Some(Handover(bytes)) = counted {
            object["counted"] = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
        }
        object.to_string()
    }

    /// From a JSON object.
    ///
    /// # Errors
    /// If it is none of a piece, with what is wrong.
    pub fn from_json(text: &str) -> Result<Self> {
        let wrong = |what: String| Error::misuse(format!("a piece: {what}"));
        let value: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        piece(&value).map_err(wrong)
    }
}

type Read<T> = std::result::Result<T, String>;

fn cut_json(cut: &Cut) -> Value {
    let Cut { sync, offset, seek } = cut;
    let seek = seek.map(|Seek { position, id, offset }| {
        json!({ "position": position, "id": id.map(TraceId::get), "offset": offset })
    });
    json!({ "sync": sync, "offset": offset, "seek": seek })
}

fn cut(value: &Value) -> Read<Cut> {
    let start = object(value)?;
    let seek = match start.get("seek") {
        None | Some(Value::Null) => None,
        Some(seek) => Some(self::seek(object(seek)?)?),
    };
    let cut = Cut { sync: number(start, "sync")?, offset: number(start, "offset")?, seek };
    if cut.sync > cut.offset {
        return Err("start: sync comes after offset".to_owned());
    }
    if seek.is_some_and(|seek| seek.offset > cut.sync) {
        return Err("start: seek comes after sync".to_owned());
    }
    Ok(cut)
}

fn seek(object: &Map<String, Value>) -> Read<Seek> {
    let id = optional(object, "id")?.map(|id| match u8::try_from(id) {
        Ok(id @ 0..=0x7F) => Ok(TraceId::new(id)),
        _ => Err("seek: no trace ID".to_owned()),
    });
    Ok(Seek { position: number(object, "position")?, id: id.transpose()?, offset: number(object, "offset")? })
}

fn carried_json(carried: &Carried) -> Value {
    let Carried { hart, time, cycles, context } = carried;
    json!({ "hart": hart, "time": time, "cycles": cycles, "context": context.as_ref().map(context_json) })
}

fn context_json(context: &Context) -> Value {
    let Context { privilege, wide, vmid, context_id } = context;
    let privilege = match privilege {
        Privilege::Unknown => json!(["unknown"]),
        Privilege::Arm { level, security } => json!(["arm", level, security.name()]),
        Privilege::Armv7 { security, hyp } => json!(["armv7", hyp, security.name()]),
        Privilege::Riscv(mode) => json!(["riscv", mode.0]),
    };
    json!({ "privilege": privilege, "wide": wide, "vmid": vmid, "context_id": context_id })
}

fn pending_json(pending: &Pending) -> Value {
    let Pending { range, offset, position, now } = pending;
    let Flags { link, returns, exception_return, conditional, .. } = range.flags;
    json!({
        "from": range.end.0.wrapping_sub(range.last_size.into()),
        "isa": range.isa.name(),
        "indirect": range.class == Class::IndirectBranch,
        "flags": [link, returns, exception_return, conditional],
        "offset": offset,
        "position": position,
        "at": carried_json(&Carried::of(now)),
    })
}

fn piece(value: &Value) -> Read<Piece> {
    let object = object(value)?;
    let version = number(object, "version")?;
    if version != VERSION {
        return Err(format!("version {version}: expected {VERSION}"));
    }
    let identity = self::object(member(object, "identity")?)?;
    let start = match member(object, "start")? {
        Value::Null => None,
        start => Some(cut(start)?),
    };
    Ok(Piece {
        capture: PathBuf::from(text(object, "capture")?),
        identity: Identity {
            bytes: number(identity, "bytes")?,
            modified: number(identity, "modified")?,
            digest: narrow(identity, "digest")?,
        },
        name: text(object, "name")?.to_owned(),
        buffer: text(object, "buffer")?.to_owned(),
        source: optional(object, "source")?
            .map(|id| u8::try_from(id).map_err(|_| "source: no trace ID"))
            .transpose()?,
        start,
        end: optional(object, "end")?,
        latest: optional(object, "latest")?,
        carried: list(object, "carried", carried)?,
        pending: list(object, "pending", pending)?,
        counted: object.get("counted").map(|_| text(object, "counted").and_then(handover)).transpose()?,
    })
}

/// Bytes in hexadecimal.
fn handover(text: &str) -> Read<Handover> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    let bytes = bytes.filter(|_| rest.is_empty());
    bytes.map(Handover).ok_or_else(|| "counted: expected bytes in hexadecimal".to_owned())
}

fn carried(value: &Value) -> Read<Carried> {
    let object = object(value)?;
    let context = match object.get("context") {
        None | Some(Value::Null) => None,
        Some(value) => Some(context(value)?),
    };
    let (time, cycles) = (optional(object, "time")?, optional(object, "cycles")?);
    Ok(Carried { hart: narrow(object, "hart")?, time, cycles, context })
}

fn context(value: &Value) -> Read<Context> {
    let object = object(value)?;
    let parts = member(object, "privilege")?.as_array().map(Vec::as_slice).unwrap_or_default();
    let small = |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
    let security =
        |value: &Value| SECURITIES.into_iter().find(|security| value.as_str() == Some(security.name()));
    let kind = parts.first().and_then(Value::as_str);
    let privilege = match (kind, parts) {
        (Some("unknown"), [_]) => Some(Privilege::Unknown),
        (Some("arm"), [_, level, state]) => {
            small(level).zip(security(state)).map(|(level, security)| Privilege::Arm { level, security })
        }
        (Some("armv7"), [_, hyp, state]) => {
            hyp.as_bool().zip(security(state)).map(|(hyp, security)| Privilege::Armv7 { security, hyp })
        }
        (Some("riscv"), [_, mode]) => small(mode).map(|mode| Privilege::Riscv(Mode(mode))),
        _ => None,
    };
    Ok(Context {
        privilege: privilege.ok_or("privilege: none that is known")?,
        wide: flag(object, "wide")?,
        vmid: optional(object, "vmid")?
            .map(|id| u32::try_from(id).map_err(|_| "vmid: too large"))
            .transpose()?,
        context_id: optional(object, "context_id")?,
    })
}

fn pending(value: &Value) -> Read<Pending> {
    let object = object(value)?;
    let isa = text(object, "isa")?;
    let isa = ISAS.into_iter().find(|known| known.name() == isa).ok_or("isa: none that is known")?;
    let flags = member(object, "flags")?.as_array().map(Vec::as_slice).unwrap_or_default();
    let flags: Option<Vec<bool>> = flags.iter().map(Value::as_bool).collect();
    let Some(&[link, returns, exception_return, conditional]) = flags.as_deref() else {
        return Err("flags: expected four of true and false".to_owned());
    };
    let flags = Flags { link, returns, exception_return, conditional, ..Flags::NONE };
    let class = if flag(object, "indirect")? { Class::IndirectBranch } else { Class::DirectBranch };
    let from = Address(number(object, "from")?);
    Ok(Pending {
        range: Pending::range_of(from, isa, class, flags),
        offset: number(object, "offset")?,
        position: number(object, "position")?,
        now: carried(member(object, "at")?)?.now(None),
    })
}

fn object(value: &Value) -> Read<&Map<String, Value>> {
    value.as_object().ok_or_else(|| "expected an object".to_owned())
}

fn member<'v>(object: &'v Map<String, Value>, name: &str) -> Read<&'v Value> {
    object.get(name).ok_or_else(|| format!("`{name}` is missing"))
}

fn number(object: &Map<String, Value>, name: &str) -> Read<u64> {
    member(object, name)?.as_u64().ok_or_else(|| format!("`{name}`: expected a number"))
}

fn narrow<T: TryFrom<u64>>(object: &Map<String, Value>, name: &str) -> Read<T> {
    T::try_from(number(object, name)?).map_err(|_| format!("`{name}`: the number is too large"))
}

fn optional(object: &Map<String, Value>, name: &str) -> Read<Option<u64>> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => number(object, name).map(Some),
    }
}

fn text<'v>(object: &'v Map<String, Value>, name: &str) -> Read<&'v str> {
    member(object, name)?.as_str().ok_or_else(|| format!("`{name}`: expected a text"))
}

fn flag(object: &Map<String, Value>, name: &str) -> Read<bool> {
    member(object, name)?.as_bool().ok_or_else(|| format!("`{name}`: expected true or false"))
}

fn list<T>(object: &Map<String, Value>, name: &str, read: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    let values = match object.get(name) {
        None => return Ok(Vec::new()),
        Some(values) => values.as_array().ok_or_else(|| format!("`{name}`: expected a list"))?,
    };
    values.iter().map(read).collect::<Read<Vec<T>>>().map_err(|what| format!("`{name}`: {what}"))
}
