//! What an ETMv4 or ETE packet says, for people and for programs.

use std::fmt;

use backsight_arm::etm4::Context;
use backsight_arm::etm4::{AddressPacket, Atoms, Bad, ConditionalResult, CycleCount, Is, Packet};
use serde_json::{Map, Value, json};

/// The contents of a packet in words, without its name. Empty where the name says it all.
pub struct Details<'a>(pub &'a Packet);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Packet::TraceInfo(info) => write!(
                f,
                "INFO={:#x} KEY={:#x} SPEC={} CYCT={:#x} WNDW={:#x}",
                info.info, info.key, info.speculation, info.threshold, info.window
            ),
            Packet::Timestamp(timestamp) => {
                write!(f, "TS={:#x}", timestamp.value)?;
                timestamp.cycles.map_or(Ok(()), |cycles| write!(f, " CC={cycles}"))
            }
            Packet::Exception(exception) => write!(
                f,
                "number={:#x}{}{}",
                exception.number,
                match exception.address {
                    0b01 => ", return address follows",
                    0b10 => ", return address follows and is the branch target",
                    _ => ", reserved address form",
                },
                if exception.fault_pending { ", fault pending" } else { "" }
            ),
            Packet::Instrumentation { level, value } => write!(f, "EL{level} value={value:#018x}"),
            Packet::CycleCount(count) => cycle_count(f, count),
            Packet::NumberedDataSync(number) | Packet::UnnumberedDataSync(number) => {
                write!(f, "number={number}")
            }
            Packet::Commit { count } | Packet::CancelF1 { count, .. } => write!(f, "count={count}"),
            Packet::Mispredict(atoms) | Packet::CancelF2(atoms) if atoms.count == 0 => Ok(()),
            Packet::Mispredict(atoms) | Packet::CancelF2(atoms) => write!(f, "atoms={}", Letters(*atoms)),
            Packet::CancelF3 { atom, count } => {
                write!(f, "{}count={count}", if *atom { "atoms=E " } else { "" })
            }
            Packet::ConditionalInstructionF1 { key } => write!(f, "key={key:#x}"),
            Packet::ConditionalInstructionF2(kind) => write!(f, "CI={kind}"),
            Packet::ConditionalInstructionF3 { count, repeat } => {
                write!(f, "count={count}{}", if *repeat { " and one more" } else { "" })
            }
            Packet::ConditionalResultF1 { first, second } => {
                conditional_result(f, first)?;
                second.map_or(Ok(()), |second| {
                    f.write_str(", ")?;
                    conditional_result(f, &second)
                })
            }
            Packet::ConditionalResultF2 { skip, token } => write!(f, "K={} T={token}", u8::from(*skip)),
            Packet::ConditionalResultF3(tokens) => write!(f, "tokens={tokens:#05x}"),
            Packet::ConditionalResultF4(token) => write!(f, "T={token}"),
            Packet::Event(events) => write!(f, "events={events:#06b}"),
            Packet::Context(None) => f.write_str("unchanged"),
            Packet::Context(Some(context)) => context_words(f, context),
            Packet::Address(address) | Packet::SourceAddress(address) => address_words(f, address),
            Packet::AddressContext(address, context) => {
                address_words(f, address)?;
                f.write_str(" ")?;
                context_words(f, context)
            }
            Packet::Q(q) => {
                match q.count {
                    Some(count) => write!(f, "count={count}")?,
                    None => f.write_str("count unknown")?,
                }
                match &q.address {
                    Some(address) => {
                        f.write_str(" ")?;
                        address_words(f, address)
                    }
                    None => f.write_str(", address follows"),
                }
            }
            Packet::Atoms(atoms) => write!(f, "{}", Letters(*atoms)),
            Packet::Bad(why) => f.write_str(bad_words(*why)),
            _ => Ok(()),
        }
    }
}

/// The atoms as letters, oldest first.
pub struct Letters(pub Atoms);

impl fmt::Display for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut letters = [0; 32];
        for (letter, atom) in letters.iter_mut().zip(self.0.iter()) {
            *letter = if atom { b'E' } else { b'N' };
        }
        let count = usize::from(self.0.count).min(letters.len());
        f.write_str(std::str::from_utf8(&letters[..count]).unwrap_or_default())
    }
}

/// The values that the familiar listing shows behind the name: the address, the atoms, then the rest in words.
pub fn opencsd(packet: &Packet, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match packet {
        Packet::Atoms(atoms) => write!(f, "; {}", Letters(*atoms)),
        Packet::Address(address)
        | Packet::SourceAddress(address)
        | Packet::AddressContext(address, _)
        | Packet::Q(backsight_arm::etm4::Q { address: Some(address), .. }) => {
            write!(f, "; Addr=0x{:016X}; ", address.address)?;
            match packet {
                Packet::AddressContext(_, context) => context_words(f, context),
                Packet::Q(q) => q.count.map_or(Ok(()), |count| write!(f, "Count=0x{count:x}")),
                _ => Ok(()),
            }
        }
        _ => match Details(packet).to_string() {
            details if details.is_empty() => Ok(()),
            details => write!(f, "; [{details}]"),
        },
    }
}

fn cycle_count(f: &mut fmt::Formatter<'_>, count: &CycleCount) -> fmt::Result {
    match count.cycles {
        Some(cycles) => write!(f, "cycles={cycles}")?,
        None => f.write_str("cycles unknown")?,
    }
    if count.commit > 0 { write!(f, " commit={}", count.commit) } else { Ok(()) }
}

fn conditional_result(f: &mut fmt::Formatter<'_>, set: &ConditionalResult) -> fmt::Result {
    write!(f, "key={:#x} result={:#x}{}", set.key, set.result, if set.implied { " implied" } else { "" })
}

fn address_words(f: &mut fmt::Formatter<'_>, address: &AddressPacket) -> fmt::Result {
    write!(f, "{:#018x}{}", address.address.0, if address.is == Is::Is1 { " IS1" } else { "" })
}

fn context_words(f: &mut fmt::Formatter<'_>, context: &Context) -> fmt::Result {
    write!(
        f,
        "Ctxt: {}, EL{}, {}",
        if context.wide { "AArch64" } else { "AArch32" },
        context.level,
        context.security.name()
    )?;
    if let Some(context_id) = context.context_id {
        write!(f, ", CID={context_id:#010x}")?;
    }
    if let Some(vmid) = context.vmid {
        write!(f, ", VMID={vmid:#06x}")?;
    }
    Ok(())
}

/// Why bytes are no packet, in words.
pub fn bad_words(why: Bad) -> &'static str {
    match why {
        Bad::Reserved => "reserved header",
        Bad::ReservedByConfiguration => "header does not exist in this configuration",
        Bad::Extension => "neither Async, Discard nor Overflow",
        Bad::NotImplemented => "packet that this trace unit cannot send",
        Bad::AsyncLength => "Async of a wrong length",
        Bad::FieldTooLong => "field too long",
        Bad::Incomplete => "cut off by the end of the data",
    }
}

/// Adds the contents of a packet to a JSON object.
pub fn json(packet: &Packet, object: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| {
        object.insert(key.to_owned(), value);
    };
    match packet {
        Packet::TraceInfo(info) => {
            put("info", json!(info.info));
            put("key", json!(info.key));
            put("speculation", json!(info.speculation));
            put("threshold", json!(info.threshold));
            put("window", json!(info.window));
        }
        Packet::Timestamp(timestamp) => {
            put("timestamp", json!(timestamp.value));
            if let Some(cycles) = timestamp.cycles {
                put("cycles", json!(cycles));
            }
        }
        Packet::Exception(exception) => {
            put("number", json!(exception.number));
            put("branch_target", json!(exception.address_is_branch_target()));
            put("fault_pending", json!(exception.fault_pending));
        }
        Packet::Instrumentation { level, value } => {
            put("level", json!(level));
            put("value", json!(value));
        }
        Packet::CycleCount(count) => {
            put("cycles", json!(count.cycles));
            put("commit", json!(count.commit));
        }
        Packet::NumberedDataSync(number) | Packet::UnnumberedDataSync(number) => put("number", json!(number)),
        Packet::Commit { count } => put("count", json!(count)),
        Packet::CancelF1 { count, mispredict } => {
            put("count", json!(count));
            put("mispredict", json!(mispredict));
        }
        Packet::CancelF3 { atom, count } => {
            put("count", json!(count));
            put("atoms", json!(if *atom { "E" } else { "" }));
        }
        Packet::Mispredict(atoms) | Packet::CancelF2(atoms) | Packet::Atoms(atoms) => {
            put("atoms", json!(Letters(*atoms).to_string()));
        }
        Packet::Event(events) => put("events", json!(events)),
        Packet::Context(Some(context)) => put("context", context_json(context)),
        Packet::Address(address) | Packet::SourceAddress(address) => put_address(&mut put, address),
        Packet::AddressContext(address, context) => {
            put_address(&mut put, address);
            put("context", context_json(context));
        }
        Packet::Q(q) => {
            put("count", json!(q.count));
            if let Some(address) = &q.address {
                put_address(&mut put, address);
            }
        }
        Packet::Bad(why) => put("why", json!(bad_words(*why))),
        other => {
            let details = Details(other).to_string();
            if !details.is_empty() {
                put("details", json!(details));
            }
        }
    }
}

fn put_address(put: &mut impl FnMut(&str, Value), address: &AddressPacket) {
    put("address", json!(format!("{:#x}", address.address)));
    put("is", json!(u8::from(address.is == Is::Is1)));
}

/// A context as a JSON object.
fn context_json(context: &Context) -> Value {
    json!({
        "level": context.level,
        "security": context.security.name(),
        "bits": if context.wide { 64 } else { 32 },
        "vmid": context.vmid,
        "context_id": context.context_id,
    })
}
