//! The tables of `docs/json.md` hold what listings write. `BLESS=1` writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use backsight::core::{Address, AddressSpace, Cause, Context, Isa, Security};
use backsight::decode::Consumer as _;
use backsight::flow::{
    AccessKind, Channel, DwtEvent, Event, HardwareEvent, InCircuitEvent, NoSync, Outcome, Range,
    SoftwareMessage, SourceTime, Symptom, SystemEvent, SystemEventKind, TimeRelation, TraceOn, TracedAccess,
    Transaction,
};
use backsight::isa::{Class, Flags};
use backsight::listing::{
    Detail, ExecutionFormat, ExecutionWriter, Filter, FilterOptions, ListedCounts, PacketFormat,
    PacketWriter, Style,
};
use backsight::riscv::encap::{Framing, Kind};
use backsight::riscv::etrace::data;
use backsight::riscv::etrace::{
    self, BranchMap, Content, ContextPacket, CountEnd, DataOptions, Message, Options, Packet, Params,
    Reported, Start, Support, TrapPacket,
};
use backsight::riscv::ingress::{DataAccess, DataRecord, Dtype};
use backsight::riscv::ntrace::{self, BranchKind, History, Resource};
use backsight::{Capture, OpenOptions};
use serde_json::{Map, Value};

/// What the members of each kind of line can be, and in how many of its lines they are.
#[derive(Default)]
struct Kinds(BTreeMap<String, (usize, Members)>);

/// By name: what it can be, and how often it was there.
type Members = BTreeMap<String, (Vec<&'static str>, usize)>;

impl Kinds {
    /// Takes lines, which say their kind in that member.
    fn add(&mut self, lines: &[u8], kind: &str) {
        for line in std::str::from_utf8(lines).expect("UTF-8").lines() {
            let Value::Object(mut object) = serde_json::from_str(line).expect(line) else { panic!("{line}") };
            for always in ["index", "id"] {
                assert!(object.remove(always).is_some_and(|value| value.is_u64()), "{line}");
            }
            let Some(Value::String(name)) = object.remove(kind) else { panic!("no {kind}: {line}") };
            if kind == "packet" {
                let bytes = object.remove("bytes").and_then(|bytes| Some(bytes.as_str()?.len() as u64 / 2));
                assert_eq!(bytes, object.remove("length").and_then(|length| length.as_u64()), "{line}");
            }
            let (lines, members) = self.0.entry(name).or_default();
            *lines += 1;
            count_members("", &object, members);
        }
    }

    fn table(&self, heading: &str) -> String {
        let mut table = format!("| {heading} | members |\n|---|---|\n");
        for (kind, (lines, members)) in &self.0 {
            let members: Vec<String> = members
                .iter()
                .map(|(name, (types, count))| {
                    let optional = if count < lines { "?" } else { "" };
                    format!("`{name}`{optional} {}", types.join(" or "))
                })
                .collect();
            let _ = writeln!(table, "| `{kind}` | {} |", members.join(", "));
        }
        table
    }
}

fn count_members(inside: &str, object: &Map<String, Value>, members: &mut Members) {
    for (name, value) in object {
        let name = format!("{inside}{name}");
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "number",
            Value::String(text) if text.starts_with("0x") => "hexadecimal",
            Value::String(_) => "text",
            Value::Array(_) => panic!("no listing has arrays: {name}"),
            Value::Object(inner) => {
                count_members(&format!("{name}."), inner, members);
                continue;
            }
        };
        let (kinds, count) = members.entry(name).or_default();
        *count += 1;
        if !kinds.contains(&kind) {
            kinds.push(kind);
            kinds.sort_unstable();
        }
    }
}

/// Holds a table of the document against what was written.
fn assert_documented(section: &str, table: &str) {
    // One test at a time may change the document.
    static DOCUMENT: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _lock = DOCUMENT.lock();
    let path = backsight_testing::repository().join("docs/json.md");
    let text = std::fs::read_to_string(&path).expect("docs/json.md");
    let (begin, end) = (format!("<!-- begin {section} -->\n"), format!("<!-- end {section} -->"));
    let (before, rest) = text.split_once(&begin).expect("where the table begins");
    let (documented, after) = rest.split_once(&end).expect("where the table ends");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).expect("docs/json.md");
        return;
    }
    let differs = documented.lines().zip(table.lines()).find(|(documented, written)| documented != written);
    assert!(differs.is_none(), "documented and written: {differs:#?} (BLESS=1 accepts what is written)");
    assert_eq!(documented.lines().count(), table.lines().count());
}

/// Packets of some bytes, in JSON.
fn packets(options: OpenOptions, bytes: &[u8]) -> Vec<u8> {
    let capture = options.live().expect("options");
    let mut writer = PacketWriter::new(PacketFormat::Json);
    let mut session = capture.packets().session().expect("one buffer");
    let _ = session.feed(bytes, &mut writer);
    let _ = session.finish(&mut writer);
    writer.text().map(std::mem::take).unwrap_or_default()
}

fn configured(protocol: &str, settings: &str) -> OpenOptions {
    let options = OpenOptions::new().protocol(protocol);
    settings.split_whitespace().fold(options, |options, setting| options.config(setting))
}

/// Settings, and bytes after an Async.
const ETM4: &[(&str, &str, &str)] = &[
    (
        "etm4",
        "",
        "01 1f 01 82 01 03 90 01 05  02 d7 df 01  03 05 85 01  04  06 1d  06 5c  07  0e 85 01  0f  11",
    ),
    ("etm4", "", "01 00  2d 81 01  2e 05  2f 06  30  33  34  36  38  3f  71  80  00 03  00 05"),
    ("etm4", "", "01 00  81 f1 01 2a 00 00 00  82 6e 08 02 00 11  83 6e 08 02 00 00"),
    ("etm4", "", "01 00  85 20 58 22 80 ff ff ff ff 31  86 20 58 22 80 ff ff ff ff 31  90  95 2c  96 ac 01"),
    (
        "etm4",
        "",
        "01 00  9a 59 15 59 00  9b 59 95 59 00  9d 00 40 10 80 c0 ff ff ff  9e 01 40 10 80 c0 ff ff ff",
    ),
    ("etm4", "", "01 00  f7  d8  fd  dc  d6  e8  00 00 12"),
    ("etm4", "", "01 00  06"),
    ("etm4", "commopt=0 max_spec=20", "01 00  0c 96  0d d5  0e 81 01 85 01  0f 03  1f"),
    ("etm4", "version=ETM4.3 profile=M", "01 00  05  06 91 30  70"),
    ("etm4", "data_trace=1", "01 00  20  27  28  2c"),
    (
        "etm4",
        "conditional=all",
        "01 00  42  43  46  4e  5f 12  68 25 31  6b a5 01 31  6c 85 01  6d 07  6e 25  6f 25",
    ),
    (
        "etm4",
        "q_elements=1",
        "01 00  a0 03  a5 2c 03  a6 2c 03  aa 34 3f 06 00 03  ab 34 bf 06 00 03  ac 07  af",
    ),
    (
        "ete",
        "version=ETE1.3 vmid=32",
        "01 00  06 01 70  06 31 70  09 01 ff ff 0f 00 00 00 00 00  0a  0b  88  81 2a",
    ),
    ("ete", "version=ETE1.3 vmid=32", "01 00  b0  b4 48  b5 48  b6 31 03 06 00  b7 31 03 06 00"),
];

#[test]
fn packets_of_etm4() {
    let mut kinds = Kinds::default();
    for (protocol, settings, bytes) in ETM4 {
        let bytes = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
        let mut stream = [[0; 11].as_slice(), &[0x80]].concat();
        stream.extend(bytes);
        kinds.add(&packets(configured(protocol, settings), &stream), "packet");
    }
    // Bytes before the first Async.
    kinds
        .add(&packets(configured("etm4", ""), &[[0xF7; 4].as_slice(), &[0; 11], &[0x80]].concat()), "packet");
    assert!(kinds.0.len() > 55, "{}", kinds.0.len());
    assert_documented("etm4", &kinds.table("packet"));
}

/// Settings, and bytes after an A-sync.
const PTM: &[(&str, &str)] = &[
    (
        "",
        "08 54 05 00 80 61  84 c8  2f  fd 9e 80 80 18  81 80 80 80 48 02  72 2f  76  0c  66  3c 05  42 85 00  02",
    ),
    (
        "cyclecount=1 context_id=4 timestamp_bits=64",
        "08 df 8d 01 c0 2b cc 03 2a 00 00 00  de 01  a3 0b 68 17  42 05 00  6e 2b 00 00 00",
    ),
    // An address whose upper bits nobody knows, malformed information, and a packet that is cut off.
    ("", "2f  81 80 80 80 00"),
    ("", "08"),
];

const ETM3: &[(&str, &str)] = &[
    ("", "08 21 01 20 00 00  88 8a  2b  85 80 80 80 48 34  04 05  0c  66  76  7e  3c 05  42 85 00  02"),
    ("cyclecount=1 context_id=1", "70 c3 02 2a 29 01 20 00 00  bc 84  6e 2b  10"),
    ("", "08 a1 01 20 00 00 05"),
    (
        "version=3.0 data=both",
        "2b  08 01 00 20 00 00  8f 80 80 80 e8  2e 84 80 80 80 12 78 56 34 12  06 ff  26 0a 01  78 08  58  48 34 12  50  6a  7a 0c  62",
    ),
    ("data=address", "08 01 00 20 00 00  22 04  6a"),
    ("alternative_branches=1 profile=M", "08 01 01 20 00 00  91 41 9a 81 45  81 80 80 80 00"),
    ("data=value data_only=1", "08 01  0e 78 56 34 12"),
    ("", "08"),
];

fn packets_after_a_sync(protocol: &str, streams: &[(&str, &str)]) -> Kinds {
    let mut kinds = Kinds::default();
    for (settings, bytes) in streams {
        let bytes = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
        // A byte before it.
        let mut stream = vec![0xF7, 0, 0, 0, 0, 0, 0x80];
        stream.extend(bytes);
        kinds.add(&packets(configured(protocol, settings), &stream), "packet");
    }
    kinds
}

#[test]
fn packets_of_ptm() {
    let kinds = packets_after_a_sync("ptm", PTM);
    assert_eq!(kinds.0.len(), 15, "{:?}", kinds.0.keys());
    assert_documented("ptm", &kinds.table("packet"));
}

#[test]
fn packets_of_etm3() {
    let kinds = packets_after_a_sync("etm3", ETM3);
    assert_eq!(kinds.0.len(), 24, "{:?}", kinds.0.keys());
    assert_documented("etm3", &kinds.table("packet"));
}

#[test]
fn packets_of_tarmac() {
    let mut kinds = Kinds::default();
    for name in ["dialects", "calls"] {
        let log = backsight_testing::repository().join(format!("testdata/tarmac/{name}.tarmac"));
        kinds.add(&packets(configured("tarmac", ""), &std::fs::read(log).expect("a bundled log")), "packet");
    }
    assert_eq!(kinds.0.len(), 10, "{:?}", kinds.0.keys());
    assert_documented("tarmac", &kinds.table("packet"));
}

fn etrace_bytes(config: &etrace::Config) -> Vec<u8> {
    let reported = Reported { address: 8, irreport: Some(3), ..Reported::default() };
    let packets = [
        Packet::Support(Support {
            ienable: true,
            denable: true,
            options: config.options,
            ..Support::default()
        }),
        Packet::Start(Start { address: 0x800, time: 5, context: 7, ..Start::default() }),
        BranchMap::new(3, 0b101).with_address(reported),
        Packet::Branches { map: BranchMap::new(31, 5), address: None },
        Packet::address(reported),
        Packet::BranchCount { count: 3, end: CountEnd::Mispredicted },
        Packet::BranchCount { count: 3, end: CountEnd::Address(reported) },
        Packet::JumpTarget { index: 5, map: BranchMap::new(1, 1), irreport: Some(3) },
        Packet::address(reported),
        Packet::Trap(TrapPacket { ecause: 2, address: Some(0x80), tval: 9, ..TrapPacket::default() }),
        Packet::Context(ContextPacket { context: 9, ..ContextPacket::default() }),
    ];
    let (mut encoder, mut bytes) = (etrace::Encoder::new(config), Vec::new());
    for packet in packets {
        let message = Message { source: Some(2), ..packet.into() };
        encoder.put(&message, &mut bytes).expect("expressible");
    }
    encoder.put(&Message { content: Content::Null, ..packets[0].into() }, &mut bytes).expect("expressible");
    let mut data = data::Encoder::new(&config.params, &DataOptions::default());
    for record in data_records(config.params.data_split != 0) {
        let payload = data.push(&record).expect("expressible").1;
        encoder.put_payload(2, Kind::Data, None, &payload, &mut bytes).expect("room");
    }
    encoder.put_payload(2, Kind::Vendor(2), None, &[1, 2, 3], &mut bytes).expect("room");
    encoder.put_payload(2, Kind::Instruction, None, &[0x0B; 30], &mut bytes).expect("room");
    encoder.put_payload(2, Kind::Data, None, &[0xFF; 30], &mut bytes).expect("room");
    // The header of a frame whose payload never comes.
    bytes.push(bytes[0]);
    bytes
}

/// Accesses with their data, or requests and responses.
fn data_records(split: bool) -> Vec<DataRecord> {
    let access = |dtype, address, operand, data, lrid| {
        let (size, multiple) = (3, false);
        DataRecord::Access(DataAccess { dtype, multiple, size, address: Some(address), operand, data, lrid })
    };
    if split {
        let response = |lrid, atomic, data| DataRecord::Response { lrid, atomic, size: 3, data };
        return vec![
            access(Dtype::Load, 0x1000, None, None, Some(1)),
            response(1, false, Some(5)),
            access(Dtype::Load, 0x1000, None, None, Some(1)),
            response(1, false, None),
            access(Dtype::Swap, 0x1000, Some(4), None, Some(2)),
            response(2, true, Some(6)),
        ];
    }
    let mut records = Vec::new();
    for address in [0x1000, 0x1010] {
        for dtype in [Dtype::Load, Dtype::Store] {
            records.push(access(dtype, address, None, Some(0xABCD), None));
        }
        for code in 8..15 {
            let dtype = Dtype::from_code(code).expect("an atomic operation");
            records.push(access(dtype, address, Some(7), Some(0xABCD), None));
        }
        for code in 4..7 {
            let dtype = Dtype::from_code(code).expect("an operation on a CSR");
            records.push(access(dtype, 0x300, Some(7), Some(0xABCD), None));
        }
    }
    records
}

#[test]
fn packets_of_etrace() {
    let options = Options {
        jump_target_cache: true,
        branch_prediction: true,
        implicit_return: true,
        ..Options::default()
    };
    let mut kinds = Kinds::default();
    for data_split in [0, 1] {
        let params = Params {
            nocontext: 0,
            context_width: 16,
            notime: 0,
            time_width: 16,
            cache_size: 3,
            f0s_width: 1,
            bpred_size: 4,
            return_stack_size: 4,
            data_width: 64,
            daddress_width: 64,
            dtype_width: 4,
            lrid_width: 4,
            data_split,
            ..Params::default()
        };
        let settings = params.list().map(|(name, value)| format!("{name}={value}"));
        let mut settings: Vec<String> = settings.collect();
        settings
            .extend(["jump_target_cache=1", "branch_prediction=1", "implicit_return=1"].map(String::from));
        let bytes = etrace_bytes(&etrace::Config { params, options, framing: Framing::SIEMENS });
        let options = configured("etrace", &settings.join(" ")).framing("siemens");
        kinds.add(&packets(options, &bytes), "packet");
    }
    assert!(kinds.0.len() > 24, "{:?}", kinds.0.keys());
    assert_documented("etrace", &kinds.table("packet"));
}

#[test]
fn packets_of_ntrace() {
    use ntrace::Message;
    let (history, kind) = (History(0b110), BranchKind::Indirect);
    let (reason, count, address) = (2, 3, 8);
    let messages = [
        Message::IndirectBranch { kind, count, address },
        Message::ProgramTraceSync { reason, count, address },
        Message::DirectBranchSync { reason, count, address },
        Message::IndirectBranchSync { reason, kind, count, address },
        Message::IndirectBranchHistorySync { reason, kind, count, address, history },
        Message::IndirectBranch { kind, count, address },
        Message::IndirectBranchHistory { kind, count, address, history },
        Message::DirectBranch { count },
        Message::RepeatBranch { count },
        Message::ResourceFull(Resource::Count(count)),
        Message::ResourceFull(Resource::History(history)),
        Message::ResourceFull(Resource::HistoryRepeat { history, times: 9 }),
        Message::ResourceFull(Resource::Run { taken: true, branches: 40 }),
        Message::ResourceFull(Resource::Run { taken: false, branches: 40 }),
        Message::DataAcquisition { tag: 4, data: 0x6C6C_6548, old: false },
        Message::DataAcquisition { tag: 4, data: 0x6C6C_6548, old: true },
        Message::InCircuitTrace { event: 0, is_sync: true, first: 8, second: Some(2) },
        Message::InCircuitTrace { event: 9, is_sync: false, first: 8, second: Some(2) },
        Message::InCircuitTrace { event: 12, is_sync: false, first: 8, second: None },
        Message::Ownership { process: 0x3B2 },
        Message::Ownership { process: 0x3B3 },
        Message::ProgramTraceCorrelation { reason: 4, count, history: Some(history) },
        Message::ProgramTraceCorrelation { reason: 4, count, history: None },
        Message::Error { kind: 0, code: 4 },
    ];
    let (config, mut bytes) = (ntrace::Config::with_source_bits(2), Vec::new());
    for timestamp in [None, Some(5)] {
        for message in messages {
            assert!(ntrace::encode(&config, &ntrace::Packet::new(1, timestamp, message), &mut bytes));
        }
    }
    // A message of a vendor, and one that is cut off.
    bytes.extend([56 << 2, 0x03, 36 << 2]);
    let mut kinds = Kinds::default();
    kinds.add(&packets(configured("ntrace", "source_bits=2"), &bytes), "packet");
    assert!(kinds.0.len() > 13, "{:?}", kinds.0.keys());
    assert_documented("ntrace", &kinds.table("packet"));
}

#[test]
fn packets_of_itm() {
    use backsight::itm::{Encoder, Packet};
    let packets_sent = [
        Packet::Sync,
        Packet::Overflow,
        Packet::LocalTimestamp { ticks: 9, relation: 1 },
        Packet::GlobalTimestamp1 { low: 5, length: 4, wrapped: true, clock_changed: false },
        Packet::GlobalTimestamp2 { high: 5, wide: true },
        Packet::Extension { hardware: false, value: 2, length: 0 },
        Packet::Instrumentation { port: 1, value: 0x41, size: 1 },
        Packet::Hardware { id: 2, value: 0x1000, size: 4 },
    ];
    let (mut encoder, mut bytes) = (Encoder::new(), vec![0x33]);
    packets_sent.iter().for_each(|packet| assert!(encoder.put(packet, &mut bytes)));
    bytes.push(0x04);
    let mut kinds = Kinds::default();
    kinds.add(&packets(configured("itm", "sync=packets"), &bytes), "packet");
    assert_eq!(kinds.0.len(), 10, "{:?}", kinds.0.keys());
    assert_documented("itm", &kinds.table("packet"));
}

#[test]
fn packets_of_stm() {
    use backsight::stm::{Content, Encoder, Packet};
    let data = |nibbles, marked| Packet::new(Content::Data { value: 5, nibbles, marked });
    let mut sent = vec![
        Packet::new(Content::Async { found: false }),
        Packet::new(Content::Version { value: 0xB, more: Some(0) }),
        Packet::new(Content::Version { value: 3, more: None }),
        Packet::new(Content::Master8(1)),
        Packet::new(Content::Master16(1)),
        Packet::new(Content::Channel8(1)),
        Packet::new(Content::Channel16(1)),
        Packet::new(Content::MasterError(1)),
        Packet::new(Content::GlobalError(1)),
    ];
    let plain =
        [Content::Null, Content::Flag, Content::Trigger(1), Content::Frequency(1), Content::Frequency40(1)];
    let either = plain.into_iter().chain([Content::CrossSync(1)]).map(Packet::new);
    let all_data =
        [1, 2, 4, 8, 16].into_iter().flat_map(|nibbles| [data(nibbles, false), data(nibbles, true)]);
    sent.extend(either.chain(all_data).flat_map(|packet| [packet, packet.at(2, 0x12)]));
    let (mut encoder, mut bytes) = (Encoder::new(), vec![0x11]);
    sent.iter().for_each(|packet| assert!(encoder.put(packet, &mut bytes), "{packet:?}"));
    encoder.finish(&mut bytes);
    // Cut off.
    bytes.push(0x17);
    let mut kinds = Kinds::default();
    kinds.add(&packets(OpenOptions::new().protocol("stm"), &bytes), "packet");
    assert_eq!(kinds.0.len(), 42, "{:?}", kinds.0.keys());
    assert_documented("stm", &kinds.table("packet"));
}

#[test]
fn packets_of_etm4_data() {
    let synchronisation = [&[0; 11][..], &[0x80]].concat();
    let mut bytes = vec![7];
    let starts = (1..=255u8).map(|byte| vec![byte, 0x55]).chain((1..=255u8).map(|byte| vec![0, byte, 0x55]));
    for start in starts {
        bytes.extend(&synchronisation);
        bytes.extend(start);
    }
    let mut kinds = Kinds::default();
    kinds.add(&packets(OpenOptions::new().protocol("etm4-data"), &bytes), "packet");
    assert_eq!(kinds.0.len(), 24, "{:?}", kinds.0.keys());
    assert_documented("etm4_data", &kinds.table("packet"));
}

/// One of each.
fn events(start: Address) -> Vec<Event> {
    let (address, space) = (Address(0x1000), AddressSpace::EL1N);
    let range = |offset, class, flags| {
        let (start, executed) = (start.plus(offset), true);
        let (end, instructions, isa, last_size) = (start.plus(8), 2, Isa::Rv64, 4);
        Event::Range(Range { start, end, instructions, isa, class, flags, last_size, executed })
    };
    let exception = |cause, return_address| Event::Exception {
        cause,
        return_address,
        is_branch_target: false,
        fault_pending: false,
        value: 0,
    };
    let dwt = |id, value, size| {
        Event::Hardware(HardwareEvent::Dwt(DwtEvent { id, size, value, after_loss: false }))
    };
    let in_circuit = |event, address, first, second| {
        Event::Hardware(HardwareEvent::InCircuit(InCircuitEvent::new(event, address, first, second)))
    };
    let arm = Context { vmid: Some(1), context_id: Some(2), ..Context::arm(1, Security::NonSecure, true) };
    let access = TracedAccess::new(AccessKind::Load, 8);
    vec![
        Event::StartOfTrace,
        Event::NoSync(NoSync::Overflow),
        Event::TraceOn(TraceOn::Begin),
        Event::Context(arm, Isa::A64),
        Event::Context(Context::arm(1, Security::NonSecure, true), Isa::A64),
        Event::Context(Context::riscv(0, true), Isa::Rv64),
        Event::Timestamp { value: 5, cycles: Some(3) },
        Event::Timestamp { value: 5, cycles: None },
        Event::CycleCount(Some(7)),
        range(0, Class::Other, Flags::NONE),
        Event::CycleCount(Some(3)),
        range(8, Class::DirectBranch, Flags { link: true, ..Flags::NONE }),
        range(0x400, Class::IndirectBranch, Flags { returns: true, ..Flags::NONE }),
        range(16, Class::Other, Flags::NONE),
        Event::Context(Context::armv7(Security::Secure, false), Isa::T32),
        Event::AddressUnknown,
        Event::Trigger,
        Event::AccessesLost,
        Event::PathUnknown { start: Some(address), next: address, instructions: 3 },
        Event::PathUnknown { start: None, next: address, instructions: 0 },
        Event::UncountedLoop { address },
        Event::NoMemory { address, space },
        Event::NoMemory { address, space: AddressSpace::ANY },
        exception(Cause::Arm(1), Some(address)),
        exception(Cause::Riscv(60), None),
        Event::ExceptionReturn,
        Event::CycleCount(None),
        Event::UnitEvents(5),
        Event::TimestampMarker,
        Event::Transaction(Transaction::Start),
        Event::Software(SoftwareMessage::new(Channel::ExceptionLevel(1), 5, 8)),
        Event::Software(SoftwareMessage::new(Channel::Port(1), 0x41, 1).after_loss(true)),
        Event::Software(SoftwareMessage::new(Channel::Master { master: 1, channel: 2 }, 5, 4).at(7).marked()),
        Event::Software(SoftwareMessage::new(Channel::Unknown, 0, 0).marked()),
        Event::SourceTime(SourceTime::Local {
            delta: 5,
            total: 9,
            relation: TimeRelation::Exact,
            after_loss: false,
        }),
        Event::SourceTime(SourceTime::Global { value: 9, after_loss: false }),
        dwt(0, 0x15, 1),
        dwt(1, 0x1004, 2),
        dwt(2, 0x1000, 4),
        dwt(3, 1, 1),
        dwt(8, 0x1000, 4),
        dwt(9, 0x1000, 2),
        dwt(17, 5, 4),
        Event::Hardware(HardwareEvent::System(SystemEvent::new(
            SystemEventKind::Trigger,
            Channel::Master { master: 1, channel: 2 },
            3,
            Some(7),
        ))),
        in_circuit(0, Some(address), 0, Some(2)),
        in_circuit(9, Some(address), 0, Some(8)),
        in_circuit(12, None, 5, Some(6)),
        Event::Condition { key: 3, outcome: Outcome::Flags(5) },
        Event::Condition { key: 3, outcome: Outcome::Passed },
        Event::Access(access.at(Some(0x1000)).with_value(Some(5)).with_operand(Some(6))),
        Event::Access(access.failed()),
        Event::Access(TracedAccess::new(AccessKind::Unknown, 0).by(Some(address))),
        Event::Mismatch { symptom: Symptom::BadAddress, address },
        Event::EndOfTrace { after_overflow: false },
    ]
}

/// Execution as JSON: through a program that has names and lines, and where there is none.
fn execution(detail: Detail) -> Vec<u8> {
    let capture = Capture::open("../../testdata/captures/calls-riscv64").expect("bundled");
    let code = capture.code().expect("code");
    let mut functions = code.image().functions();
    let program = functions.find(|function| function.name == "program").expect("a function").start;
    let style = Style { format: ExecutionFormat::Json, detail, ..Style::default() };
    let id = backsight::core::TraceId::new(1);
    let writer = || {
        let filter = Filter::new(&FilterOptions::default(), || code.image()).expect("no names");
        ExecutionWriter::labelled(style, id, code.seen_by_all(), filter, Arc::<ListedCounts>::default())
    };
    let mut out = Vec::new();
    // A function with a name, the headers of the program's file, and no code.
    for start in [program, Address(0x1_0040), Address(0x77_0000)] {
        let mut writer = writer();
        for event in events(start) {
            writer.event(0, &|| 3, &event);
        }
        writer.finish();
        out.append(writer.text().expect("a writer"));
    }
    let mut writer = writer();
    capture.execution().run_to(&mut writer).expect("decoded");
    out.append(writer.text().expect("a writer"));
    out
}

#[test]
fn events_of_execution() {
    let mut kinds = Kinds::default();
    kinds.add(&execution(Detail::Instructions), "event");
    kinds.add(&execution(Detail::Ranges), "event");
    assert_eq!(kinds.0.len(), 27, "{:?}", kinds.0.keys());
    assert_documented("events", &kinds.table("event"));
}

#[test]
fn a_range_that_is_listed_again_differs_only_in_where_it_was_reported() {
    let lines = |detail| String::from_utf8(execution(detail)).expect("text");
    let (again, anew) = (lines(Detail::Ranges), lines(Detail::Instructions));
    let mut anew = anew.lines().filter(|line| !line.contains(r#""event":"instruction""#));
    let mut count = 0;
    for line in again.lines() {
        assert_eq!(Some(line), anew.next());
        count += usize::from(line.contains(r#""event":"range""#));
    }
    assert!(anew.next().is_none() && count > 100, "{count} ranges");
}

#[test]
fn calls() {
    let mut kinds = Kinds::default();
    kinds.add(&execution(Detail::Calls), "event");
    kinds.add(&execution(Detail::CallTree), "event");
    kinds.0.retain(|kind, _| matches!(kind.as_str(), "visit" | "function"));
    assert_eq!(kinds.0.len(), 2);
    assert_documented("calls", &kinds.table("event"));
}
