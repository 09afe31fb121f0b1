//! What RISC-V trace packets say.

use std::fmt;

use backsight_riscv::etrace::data::{self, DataCoding};
use backsight_riscv::etrace::{Packet, PacketLayout, Value};
use backsight_riscv::ingress::DataRecord;
use backsight_riscv::ntrace::{self, BranchKind, Message, Process, ProcessContext, Resource, event, sync};
use serde_json::{Map, Value as Json, json};

use super::packet::Listed;
use crate::protocol::EtraceMessage as Found;

impl Listed for Found {
    fn name(&self) -> &'static str {
        match self {
            Self::Instruction { packet, .. } => instruction_name(packet),
            Self::Data { traced, .. } => data_name(&traced.record()),
            Self::BadData(_) => "bad_data",
            Self::Other(..) => "other",
            Self::Null => "null",
            Self::BadPacket(_) => "bad_packet",
            Self::BadFrame(_) => "bad_frame",
        }
    }

    fn details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instruction { source, packet, params } => {
                if *source != 0 {
                    write!(f, "source={source} ")?;
                }
                let mut outcome = Ok(());
                packet.fields(&PacketLayout::new(params), &mut |name, value| {
                    if outcome.is_ok() && !matches!(name, "format" | "subformat") {
                        outcome = match value {
                            Value::Decimal(value) => write!(f, "{name}={value} "),
                            Value::Hexadecimal(value) => write!(f, "{name}={value:#x} "),
                        };
                    }
                });
                outcome
            }
            Self::Data { source, traced } => {
                if *source != 0 {
                    write!(f, "source={source} ")?;
                }
                data_fields(traced).iter().try_for_each(|(name, value, hexadecimal)| match hexadecimal {
                    true => write!(f, "{name}={value:#x} "),
                    false => write!(f, "{name}={value} "),
                })
            }
            Self::BadData(why) => write!(f, "{why}"),
            Self::Other(kind, bytes) => write!(f, "{kind:?}, {bytes} bytes"),
            Self::Null => Ok(()),
            Self::BadPacket(why) => write!(f, "{why}"),
            Self::BadFrame(why) => write!(f, "{why}"),
        }
    }

    fn opencsd(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.details(f)
    }

    fn json(&self, object: &mut Map<String, Json>) {
        match self {
            Self::Instruction { source, packet, params } => {
                object.insert("source".into(), json!(source));
                packet.fields(&PacketLayout::new(params), &mut |name, value| {
                    let (Value::Decimal(value) | Value::Hexadecimal(value)) = value;
                    // A listing has the place of the packet as its index.
                    let name = if name == "index" { "cache_index" } else { name };
                    object.insert(name.into(), json!(value));
                });
            }
            Self::Data { source, traced } => {
                object.insert("source".into(), json!(source));
                for (name, value, hexadecimal) in data_fields(traced) {
                    let value = if hexadecimal { json!(format!("{value:#x}")) } else { json!(value as u64) };
                    object.insert(name.into(), value);
                }
            }
            Self::BadData(why) => drop(object.insert("why".into(), json!(why.to_string()))),
            Self::BadPacket(why) => drop(object.insert("why".into(), json!(why.to_string()))),
            Self::BadFrame(why) => drop(object.insert("why".into(), json!(why.to_string()))),
            Self::Other(..) | Self::Null => {}
        }
    }

    fn is_unsynchronised(&self) -> bool {
        false
    }
}

/// What a record of data trace says: name, value, and whether it is listed in hexadecimal.
fn data_fields(traced: &data::Traced) -> Vec<(&'static str, u128, bool)> {
    let mut fields = Vec::new();
    let mut flag = |name, on: bool| fields.extend(on.then_some((name, 1, false)));
    flag("diff_address", traced.coding().differential_address);
    flag("xor_data", traced.coding().data == DataCoding::Xor);
    flag("diff_data", traced.coding().data == DataCoding::Differential);
    let mut number = |name, value: Option<u128>, hex| fields.extend(value.map(|value| (name, value, hex)));
    match traced.record() {
        DataRecord::Access(access) => {
            number("size", Some(1 << access.size.min(7)), false);
            number("multiple", access.multiple.then_some(1), false);
            number("lrid", access.lrid.map(u128::from), false);
            number("operand", access.operand, true);
            number("data", access.data, true);
            number("address", access.address.map(u128::from), true);
        }
        DataRecord::Response { lrid, size, data, .. } => {
            number("size", Some(1 << size.min(7)), false);
            number("lrid", Some(lrid.into()), false);
            number("error", data.is_none().then_some(1), false);
            number("data", data, true);
        }
    }
    fields
}

const fn data_name(record: &DataRecord) -> &'static str {
    match record {
        DataRecord::Access(access) => access.dtype.name(),
        DataRecord::Response { atomic: true, .. } => "atomic_data",
        DataRecord::Response { .. } => "load_data",
    }
}

fn instruction_name(packet: &Packet) -> &'static str {
    match packet.format() {
        (0, Some(0)) => "F0.0_count",
        (0, _) => "F0.1_cache",
        (1, _) => "F1_map",
        (2, _) => "F2_address",
        (_, Some(0)) => "F3.0_start",
        (_, Some(1)) => "F3.1_trap",
        (_, Some(2)) => "F3.2_context",
        (_, _) => "F3.3_support",
    }
}

impl Listed for ntrace::Packet {
    fn name(&self) -> &'static str {
        self.message.name()
    }

    fn details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut object = Map::new();
        self.json(&mut object);
        for (number, (key, value)) in object.iter().enumerate() {
            let separator = if number == 0 { "" } else { " " };
            match value {
                Json::String(text) => write!(f, "{separator}{key}={text}")?,
                other => write!(f, "{separator}{key}={other}")?,
            }
        }
        Ok(())
    }

    fn opencsd(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.details(f)
    }

    fn json(&self, object: &mut Map<String, Json>) {
        let mut put = |key: &str, value: Json| drop(object.insert(key.to_owned(), value));
        let hex = |value: u64| json!(format!("{value:#x}"));
        if self.source != 0 {
            put("SRC", json!(self.source));
        }
        match self.message {
            Message::Ownership { process } => {
                put("PROCESS", hex(process));
                if let Some(Process { privilege, context }) = Process::from_field(process) {
                    put("privilege", json!(privilege));
                    match context {
                        ProcessContext::Same => {}
                        ProcessContext::Supervisor(context) => put("scontext", hex(context)),
                        ProcessContext::Hypervisor(context) => put("hcontext", hex(context)),
                    }
                }
            }
            Message::DirectBranch { count } => put("ICNT", json!(count)),
            Message::RepeatBranch { count } => put("BCNT", json!(count)),
            Message::Error { kind, code } => {
                put("ETYPE", json!(kind));
                put("ECODE", hex(code));
            }
            Message::IndirectBranch { kind, count, address } => {
                put("BTYPE", json!(branch_word(kind)));
                put("ICNT", json!(count));
                put("UADDR", hex(address));
            }
            Message::ProgramTraceSync { reason, count, address }
            | Message::DirectBranchSync { reason, count, address } => {
                put("SYNC", json!(reason));
                put("reason", json!(sync::name(reason)));
                put("ICNT", json!(count));
                put("FADDR", hex(address));
            }
            Message::IndirectBranchSync { reason, kind, count, address } => {
                put("SYNC", json!(reason));
                put("reason", json!(sync::name(reason)));
                put("BTYPE", json!(branch_word(kind)));
                put("ICNT", json!(count));
                put("FADDR", hex(address));
            }
            Message::IndirectBranchHistory { kind, count, address, history } => {
                put("BTYPE", json!(branch_word(kind)));
                put("ICNT", json!(count));
                put("UADDR", hex(address));
                put("HIST", hex(history.0));
            }
            Message::IndirectBranchHistorySync { reason, kind, count, address, history } => {
                put("SYNC", json!(reason));
                put("reason", json!(sync::name(reason)));
                put("BTYPE", json!(branch_word(kind)));
                put("ICNT", json!(count));
                put("FADDR", hex(address));
                put("HIST", hex(history.0));
            }
            Message::ResourceFull(Resource::Count(count)) => put("ICNT", json!(count)),
            Message::ResourceFull(Resource::History(history)) => put("HIST", hex(history.0)),
            Message::ResourceFull(Resource::HistoryRepeat { history, times }) => {
                put("HIST", hex(history.0));
                put("HREPEAT", json!(times));
            }
            Message::ResourceFull(Resource::Other(code)) => put("RCODE", json!(code)),
            Message::ProgramTraceCorrelation { reason, count, history } => {
                put("EVCODE", json!(reason));
                put("reason", json!(event::name(reason)));
                put("ICNT", json!(count));
                if let Some(history) = history {
                    put("HIST", hex(history.0));
                }
            }
            Message::Other(code) => put("TCODE", json!(code)),
            Message::Bad(why) => put("why", json!(why.name())),
        }
        if let Some(timestamp) = self.timestamp {
            put("TSTAMP", json!(timestamp));
        }
    }

    fn is_unsynchronised(&self) -> bool {
        false
    }
}

fn branch_word(kind: BranchKind) -> &'static str {
    match kind {
        BranchKind::Indirect => "indirect",
        BranchKind::Trap => "trap",
        BranchKind::Exception => "exception",
        BranchKind::Interrupt => "interrupt",
    }
}
