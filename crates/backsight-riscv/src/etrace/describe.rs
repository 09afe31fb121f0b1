//! What a listing of a stream says.

use backsight_core::{Address, Describe, Field, Text, Value};

use super::data::{DataCoding, Traced};
use super::{Content, Message, Packet};
use crate::encap::Kind;
use crate::ingress::DataRecord;

type Each<'e> = &'e mut dyn FnMut(Field);

impl Describe for Message {
    fn name(&self) -> &'static str {
        match &self.content {
            Content::Instruction(packet) => packet.kind().row().name,
            Content::Data(traced) => data_name(&traced.record()),
            Content::Other(..) => "other",
            Content::Null => "null",
            Content::BadPacket(_) => "bad_packet",
            Content::BadData(_) => "bad_data",
            Content::BadFrame(_) => "bad_frame",
        }
    }

    fn fields(&self, each: Each<'_>) {
        if let Some(source) = self.source {
            let text = if source == 0 { Text::Hidden } else { Text::Labelled("source") };
            each(Field::new("source", Value::Decimal(source.into())).text(text));
        }
        if let Some(time) = self.time {
            each(Field::new("timestamp", Value::Hexadecimal(time)));
        }
        let why = |words| Field::new("why", Value::Word(words)).text(Text::Plain);
        match &self.content {
            Content::Instruction(packet) => self.instruction_fields(packet, each),
            Content::Data(traced) => data_fields(traced, each),
            Content::Other(kind, bytes) => {
                if let Kind::Vendor(number) = kind {
                    each(Field::new("type", Value::Decimal((*number).into())));
                }
                // Every line of a listing has the bytes of its packet.
                let text = Text::Labelled("bytes");
                each(Field::new("payload_bytes", Value::Decimal((*bytes).into())).text(text));
            }
            Content::Null => {}
            Content::BadPacket(bad) => each(why(bad.text())),
            Content::BadData(bad) => each(why(bad.text())),
            Content::BadFrame(fault) => each(why(fault.text())),
        }
    }
}

impl Message {
    /// The fields by the names of the specification, as they are sent: `notify`, `updiscon` and `irreport` are bits that
    /// say whether a flag differs from the one before. Only `address` is not the field, which is cut and most often a
    /// difference, but the whole address; where that is not known, `address_field` stands in the line.
    fn instruction_fields(&self, packet: &Packet, each: Each<'_>) {
        packet.fields(&self.layout, &mut |field| match field {
            Field { name: "address", value: Value::Hexadecimal(sent), .. } => self.address_fields(sent, each),
            _ => each(field),
        });
    }

    fn address_fields(&self, field: u64, each: Each<'_>) {
        let (address, text, field_text) = match self.address {
            Some(address) => (Value::Address(address), Text::Labelled("address"), Text::Hidden),
            None => (Value::Absent, Text::Hidden, Text::Labelled("address_field")),
        };
        each(Field::new("address", address).text(text));
        each(Field::new("address_field", Value::Hexadecimal(field)).text(field_text));
    }
}

const fn data_name(record: &DataRecord) -> &'static str {
    match record {
        DataRecord::Access(access) => access.dtype.name(),
        DataRecord::Response { atomic: true, .. } => "atomic_data",
        DataRecord::Response { .. } => "load_data",
    }
}

/// Address and data as they are, and in words how they were sent.
fn data_fields(traced: &Traced, each: Each<'_>) {
    let coding = traced.coding();
    let mut number = |name, value: Option<u64>| {
        if let Some(value) = value {
            each(Field::new(name, Value::Decimal(value)));
        }
    };
    let size = match traced.record() {
        DataRecord::Access(access) => access.size,
        DataRecord::Response { size, .. } => size,
    };
    number("size", Some(1 << size.min(7)));
    let (address, operand, data) = match traced.record() {
        DataRecord::Access(access) => {
            number("multiple", access.multiple.then_some(1));
            number("lrid", access.lrid.map(u64::from));
            (access.address, access.operand, access.data)
        }
        DataRecord::Response { lrid, data, .. } => {
            number("lrid", Some(lrid.into()));
            number("error", data.is_none().then_some(1));
            (None, None, data)
        }
    };
    number("diff_address", coding.differential_address.then_some(1));
    number("xor_data", (coding.data == DataCoding::Xor).then_some(1));
    number("diff_data", (coding.data == DataCoding::Differential).then_some(1));
    for (name, value) in [("operand", operand), ("data", data)] {
        if let Some(value) = value {
            each(Field::new(name, Value::Wide(value)));
        }
    }
    if let Some(address) = address {
        each(Field::new("address", Value::Address(Address(address))));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        BadPacket, BranchMap, Config, Decoder, Encoder, Options, Params, Reported, Start, Support, TrapPacket,
    };
    use super::*;
    use crate::encap::Framing;
    use crate::ingress::{DataAccess, Dtype};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use backsight_core::Located;

    /// Name and fields of each message that these become: hidden ones in brackets.
    fn listed(packets: &[Packet], params: Params, options: Options) -> Vec<String> {
        let config = Config { params, options, framing: Framing::SIEMENS };
        let (mut encoder, mut bytes) = (Encoder::new(&config), Vec::new());
        for packet in packets {
            encoder.put(&Message { source: Some(2), ..(*packet).into() }, &mut bytes).unwrap();
        }
        let mut lines = Vec::new();
        Decoder::new(&config).feed(&bytes, &mut |message: Located<Message>| lines.push(line(&message.value)));
        lines
    }

    fn line(message: &Message) -> String {
        let mut line = String::from(message.name());
        message.fields(&mut |field| {
            let value = match field.value {
                Value::Decimal(value) => format!("{value}"),
                Value::Hexadecimal(value) => format!("{value:#x}"),
                Value::Wide(value) => format!("{value:#x}"),
                Value::Address(address) => format!("@{:x}", address.0),
                Value::Word(word) => word.into(),
                Value::Absent => "-".into(),
                other => panic!("{other:?}"),
            };
            line += &match field.text {
                Text::Labelled(label) => format!(" {label}={value}"),
                Text::Hidden => format!(" ({}={value})", field.name),
                Text::Plain => format!(" {value}"),
                other => panic!("{other:?}"),
            };
        });
        line
    }

    #[test]
    fn addresses_are_whole_whatever_was_sent() {
        let reported =
            |address: i64| Reported { address: address as u64 & 0x7FFF_FFFF, ..Reported::default() };
        let packets = [
            Packet::Start(Start { branch: true, privilege: 3, address: 0x4000_0000, ..Start::default() }),
            BranchMap::new(3, 0b101).with_address(reported(-8)),
            Packet::address(reported(0x10)),
            Packet::JumpTarget { index: 5, map: BranchMap::EMPTY, irreport: None },
            Packet::address(reported(2)),
            Packet::Trap(TrapPacket {
                ecause: 2,
                thaddr: true,
                address: Some(0x80),
                ..TrapPacket::default()
            }),
        ];
        let params = Params { cache_size: 3, f0s_width: 1, ..Params::default() };
        let options = Options { jump_target_cache: true, ..Options::default() };
        let expected = [
            "F3.0_start source=2 (format=3) (subformat=0) address=@80000000 (address_field=0x40000000) branch=1 privilege=3",
            "F1_map source=2 (format=1) branches=3 branch_map=5 address=@7ffffff0 (address_field=0x7ffffff8) notify=1 updiscon=1 irreport=1",
            "F2_address source=2 (format=2) address=@80000010 (address_field=0x10) notify=0 updiscon=0 irreport=0",
            "F0.1_cache source=2 (format=0) (subformat=1) index=5 branches=0 branch_map=0 irreport=0",
            "F2_address source=2 (format=2) (address=-) address_field=0x2 notify=0 updiscon=0 irreport=0",
            "F3.1_trap source=2 (format=3) (subformat=1) address=@100 (address_field=0x80) branch=0 privilege=0 ecause=2 interrupt=0 thaddr=1 tval=0x0",
        ];
        assert_eq!(listed(&packets, params, options), expected);
    }

    #[test]
    fn times_contexts_and_options_are_listed_where_packets_have_them() {
        let params = Params { notime: 0, time_width: 8, nocontext: 0, context_width: 8, ..Params::default() };
        let options = Options { full_address: true, ..Options::default() };
        let packets = [
            Packet::Support(Support { ienable: true, options, ..Support::default() }),
            Packet::Start(Start { time: 7, context: 9, address: 4, ..Start::default() }),
        ];
        let expected = [
            "F3.3_support source=2 (format=3) (subformat=3) ienable=1 encoder_mode=0 qual_status=0 ioptions=4",
            "F3.0_start source=2 (format=3) (subformat=0) address=@8 (address_field=0x4) branch=0 privilege=0 time=7 context=9",
        ];
        assert_eq!(listed(&packets, params, Options::default()), expected);
    }

    #[test]
    fn what_is_bad_says_why_and_data_is_listed_resolved() {
        let bad = Message { source: Some(1), ..Err(BadPacket::TooLong).into() };
        assert_eq!(line(&bad), "bad_packet source=1 payload longer than its fields");
        assert_eq!(line(&Message::of_nobody(Content::Null)), "null");
        let params = Params { data_width: 64, daddress_width: 64, ..Params::default() };
        let mut encoder = super::super::data::Encoder::new(&params, &Default::default());
        let mut decoder = super::super::data::Decoder::new(&params, &Default::default());
        let lines: Vec<_> = [0x1000u64, 0x1008]
            .map(|address| {
                let access = DataAccess {
                    dtype: Dtype::Store,
                    size: 3,
                    address: Some(address),
                    data: Some(0xABCD),
                    ..DataAccess::default()
                };
                let payload = encoder.push(&DataRecord::Access(access)).unwrap().1;
                let traced = decoder.trace(&payload).unwrap();
                line(&Message {
                    source: Some(0),
                    time: Some(16),
                    ..Message::of_nobody(Content::Data(traced))
                })
            })
            .into();
        assert_eq!(lines[0], "store (source=0) timestamp=0x10 size=8 data=0xabcd address=@1000");
        assert!(
            lines[1].starts_with("store (source=0) timestamp=0x10 size=8 diff_address=1"),
            "{}",
            lines[1]
        );
        assert!(lines[1].ends_with("data=0xabcd address=@1008"), "{}", lines[1]);
    }
}
