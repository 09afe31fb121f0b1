//! What a listing of messages says.

use backsight_core::{Describe, Field, Text, Value};

use super::message::{BranchKind, History, Message, Packet, Resource};
use super::process::{Process, ProcessContext};
use super::{event, in_circuit, sync};

type Each<'e> = &'e mut dyn FnMut(Field);

impl Describe for Packet {
    fn name(&self) -> &'static str {
        self.message.name()
    }

    /// The fields by the names of the specification, as they are sent; `address` is the whole address.
    fn fields(&self, each: Each<'_>) {
        let text = if self.source == 0 { Text::Hidden } else { Text::Labelled("SRC") };
        each(Field::new("SRC", Value::Decimal(self.source.into())).text(text));
        self.message.fields(each);
        if let Some(address) = self.address {
            each(Field::new("address", Value::Address(address)));
        }
        if let Some(timestamp) = self.timestamp {
            each(Field::new("TSTAMP", Value::Decimal(timestamp)));
        }
    }
}

impl Message {
    fn fields(&self, each: Each<'_>) {
        match *self {
            Self::Ownership { process } => ownership(process, each),
            Self::DirectBranch { count } => instruction_count(count, each),
            Self::RepeatBranch { count } => each(Field::new("BCNT", Value::Decimal(count.into()))),
            Self::Error { kind, code } => {
                each(Field::new("ETYPE", Value::Decimal(kind.into())));
                each(Field::new("ECODE", Value::Hexadecimal(code)));
            }
            Self::IndirectBranch { kind, count, address } => {
                branch_kind(kind, each);
                instruction_count(count, each);
                each(Field::new("UADDR", Value::Hexadecimal(address)));
            }
            Self::ProgramTraceSync { reason, count, address }
            | Self::DirectBranchSync { reason, count, address } => {
                synchronisation(reason, each);
                instruction_count(count, each);
                each(Field::new("FADDR", Value::Hexadecimal(address)));
            }
            Self::IndirectBranchSync { reason, kind, count, address } => {
                synchronisation(reason, each);
                branch_kind(kind, each);
                instruction_count(count, each);
                each(Field::new("FADDR", Value::Hexadecimal(address)));
            }
            Self::IndirectBranchHistory { kind, count, address, history } => {
                branch_kind(kind, each);
                instruction_count(count, each);
                each(Field::new("UADDR", Value::Hexadecimal(address)));
                outcomes(history, each);
            }
            Self::IndirectBranchHistorySync { reason, kind, count, address, history } => {
                synchronisation(reason, each);
                branch_kind(kind, each);
                instruction_count(count, each);
                each(Field::new("FADDR", Value::Hexadecimal(address)));
                outcomes(history, each);
            }
            Self::ResourceFull(resource) => resource_full(resource, each),
            Self::ProgramTraceCorrelation { reason, count, history } => {
                each(Field::new("EVCODE", Value::Decimal(reason.into())));
                each(Field::new("reason", Value::Word(event::name(reason))));
                instruction_count(count, each);
                if let Some(history) = history {
                    outcomes(history, each);
                }
            }
            Self::DataAcquisition { tag, data, .. } => {
                each(Field::new("IDTAG", Value::Hexadecimal(tag.into())));
                each(Field::new("DATA", Value::Hexadecimal(data)));
            }
            Self::InCircuitTrace { event, first, second, .. } => {
                each(Field::new("CKSRC", Value::Decimal(event.into())));
                each(Field::new("event", Value::Word(in_circuit::name(event))));
                each(Field::new("CKDATA0", Value::Hexadecimal(first)));
                if let Some(second) = second {
                    each(Field::new("CKDATA1", Value::Hexadecimal(second)));
                }
            }
            Self::Other(code) => each(Field::new("TCODE", Value::Decimal(code.into()))),
            Self::Bad(why) => each(Field::new("why", Value::Word(why.name()))),
        }
    }
}

fn ownership(process: u64, each: Each<'_>) {
    each(Field::new("PROCESS", Value::Hexadecimal(process)));
    let Some(Process { privilege, context }) = Process::from_field(process) else { return };
    each(Field::new("privilege", Value::Decimal(privilege.into())));
    match context {
        ProcessContext::Same => {}
        ProcessContext::Supervisor(context) => each(Field::new("scontext", Value::Hexadecimal(context))),
        ProcessContext::Hypervisor(context) => each(Field::new("hcontext", Value::Hexadecimal(context))),
    }
}

fn instruction_count(count: u32, each: Each<'_>) {
    each(Field::new("ICNT", Value::Decimal(count.into())));
}

fn branch_kind(kind: BranchKind, each: Each<'_>) {
    each(Field::new("BTYPE", Value::Word(kind.text())));
}

fn synchronisation(reason: u8, each: Each<'_>) {
    each(Field::new("SYNC", Value::Decimal(reason.into())));
    each(Field::new("reason", Value::Word(sync::name(reason))));
}

fn outcomes(history: History, each: Each<'_>) {
    each(Field::new("HIST", Value::Hexadecimal(history.0)));
}

fn resource_full(resource: Resource, each: Each<'_>) {
    match resource {
        Resource::Count(count) => instruction_count(count, each),
        Resource::History(history) => outcomes(history, each),
        Resource::HistoryRepeat { history, times } => {
            outcomes(history, each);
            each(Field::new("HREPEAT", Value::Decimal(times.into())));
        }
        Resource::Run { taken, branches } => {
            let name = if taken { "TAKEN" } else { "NOTTAKEN" };
            each(Field::new(name, Value::Decimal(branches.into())));
        }
        Resource::Other(code) => each(Field::new("RCODE", Value::Decimal(code.into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, encode, messages};
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;
    use alloc::{format, vec};

    fn listed(packets: &[Packet]) -> Vec<String> {
        let (config, mut bytes) = (Config::with_source_bits(2), vec![]);
        packets.iter().for_each(|packet| assert!(encode(&config, packet, &mut bytes)));
        let line = |packet: &Packet| {
            let mut line = String::from(Describe::name(packet));
            Describe::fields(packet, &mut |field| {
                let value = match field.value {
                    Value::Decimal(value) => format!("{value}"),
                    Value::Hexadecimal(value) => format!("{value:#x}"),
                    Value::Address(address) => format!("@{:x}", address.0),
                    Value::Word(word) => format!("`{word}`"),
                    other => panic!("{other:?}"),
                };
                if field.text != Text::Hidden {
                    line += &format!(" {}={value}", field.name);
                }
            });
            line
        };
        messages(&config, &bytes).iter().map(|packet| line(&packet.value)).collect()
    }

    #[test]
    fn addresses_are_whole_for_each_source() {
        let kind = BranchKind::Indirect;
        let sync = |source, address| {
            Packet::new(source, Some(5), Message::ProgramTraceSync { reason: 5, count: 0, address })
        };
        let jump =
            |source, address| Packet::new(source, None, Message::IndirectBranch { kind, count: 3, address });
        let repeat = |count| Packet::new(1, None, Message::RepeatBranch { count });
        let expected = [
            "IndirectBranch SRC=1 BTYPE=`indirect` ICNT=3 UADDR=0x1",
            "ProgTraceSync SRC=1 SYNC=5 reason=`trace enabled` ICNT=0 FADDR=0x800 address=@1000 TSTAMP=5",
            "ProgTraceSync SYNC=5 reason=`trace enabled` ICNT=0 FADDR=0x10 address=@20 TSTAMP=5",
            "IndirectBranch SRC=1 BTYPE=`indirect` ICNT=3 UADDR=0x8 address=@1010",
            "RepeatBranch SRC=1 BCNT=3",
            "IndirectBranch SRC=1 BTYPE=`indirect` ICNT=3 UADDR=0x1 address=@1012",
            "IndirectBranch BTYPE=`indirect` ICNT=3 UADDR=0x1 address=@22",
            "Error SRC=1 ETYPE=0 ECODE=0x4",
            "IndirectBranch SRC=1 BTYPE=`indirect` ICNT=3 UADDR=0x1",
        ];
        let packets = [
            jump(1, 1),
            sync(1, 0x800),
            sync(0, 0x10),
            jump(1, 8),
            repeat(3),
            jump(1, 1),
            jump(0, 1),
            Packet::new(1, None, Message::Error { kind: 0, code: 4 }),
            jump(1, 1),
        ];
        assert_eq!(listed(&packets), expected);
    }

    #[test]
    fn every_message_lists_what_it_says() {
        let history = History(0b110);
        let kind = BranchKind::Exception;
        let messages = [
            Message::Ownership { process: 0x3B2 },
            Message::DirectBranch { count: 7 },
            Message::ResourceFull(Resource::HistoryRepeat { history, times: 9 }),
            Message::ProgramTraceCorrelation { reason: 4, count: 1, history: Some(history) },
            Message::IndirectBranchHistorySync { reason: 2, kind, count: 4, address: 8, history },
        ];
        let expected = [
            "Ownership PROCESS=0x3b2 privilege=5 scontext=0x1d",
            "DirectBranch ICNT=7",
            "ResourceFull HIST=0x6 HREPEAT=9",
            "ProgTraceCorrelation EVCODE=4 reason=`trace disabled` ICNT=1 HIST=0x6",
            "IndirectBranchHistSync SYNC=2 reason=`periodic` BTYPE=`exception` ICNT=4 FADDR=0x8 HIST=0x6 address=@10",
        ];
        assert_eq!(listed(&messages.map(|message| Packet::new(0, None, message))), expected);
    }
}
