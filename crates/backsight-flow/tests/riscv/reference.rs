//! The reference flow's streams give its list of retired instructions, and the list gives the streams.

use std::fs;
use std::path::Path;

use backsight_core::{Address, Cause, Execution, Isa, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_image::Code;
use backsight_isa::rv;
use backsight_riscv::encap::{Encapsulated, Framer, Framing, Kind};
use backsight_riscv::etrace::{self, Config, Content, Decoder, Message, Packet, Params};
use backsight_riscv::ingress::{Builder, Ctype, Ingress, LogReader};
use backsight_testing::{corpus, gunzip};
use backsight_unit::etrace::{Algorithm, Settings as TracerSettings, Tracer};

use crate::program::Program;

/// Addresses of the instructions in the ranges of a trace.
pub fn addresses(code: &impl Code, events: &[Event]) -> Vec<u64> {
    let mut addresses = Vec::new();
    for event in events {
        if let Event::Range(range) = event {
            let (mut at, before) = (range.start, addresses.len());
            while at != range.end {
                addresses.push(at.0);
                let bytes = code.bytes_at(backsight_core::AddressSpace::ANY, at).unwrap();
                at = at.plus(rv::size(u16::from_le_bytes([bytes[0], bytes[1]])).into());
            }
            assert_eq!(addresses.len() - before, range.instructions as usize, "{range:?}");
        }
    }
    addresses
}

pub fn packets(bytes: &[u8], params: Params) -> Vec<Located<Packet>> {
    let config = Config { params, options: Default::default(), framing: Framing::REFERENCE };
    let (mut decoder, mut packets) = (Decoder::new(&config), Vec::new());
    let mut sink = |message: Located<Message>| match message.value.content {
        Content::Instruction(packet) => packets.push(message.map(|_| packet)),
        other => panic!("{other:?}"),
    };
    decoder.feed(bytes, &mut sink);
    decoder.finish(&mut sink);
    packets
}

fn follow(params: Params, program: &Program, packets: &[Located<Packet>]) -> Vec<Event> {
    let mut follower = Follower::new(Settings::new(params, Default::default()), program);
    let mut events = Vec::new();
    let mut sink = |event: Located<Event>| events.push(event.value);
    for packet in packets {
        follower.push(*packet, &mut sink);
    }
    follower.finish(&mut sink);
    assert_eq!(follower.faults().total(), 0, "{:?}", follower.faults());
    events
}

/// Every line of a PC list that retired.
pub fn retired(list: &[u8]) -> Vec<u64> {
    let text = std::str::from_utf8(list).unwrap();
    let cells = |line: &str| line.split(',').map(str::to_string).collect::<Vec<_>>();
    text.lines()
        .skip(1)
        .map(cells)
        .filter(|cells| cells[4] == "0")
        .map(|cells| u64::from_str_radix(&cells[1], 16).unwrap())
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().file_name().to_str()?.strip_suffix(".te_inst_raw").map(str::to_string)
        })
        .collect();
    names.sort();
    names
}

#[test]
fn streams_give_every_retired_instruction() {
    let Some(corpus) = corpus() else { return };
    let root = corpus.join("etrace/refflow");
    for kind in ["itype3", "itype4"] {
        let folder = root.join(kind);
        let (params, _) =
            Params::parse(&fs::read_to_string(folder.join("hardware_64.scf")).unwrap()).unwrap();
        for name in names(&folder) {
            let elf = root.join(format!("elf/{name}.riscv"));
            let program = Program::with_boot_rom(&elf, &root.join("elf/bootrom64.bin"));
            let bytes = fs::read(folder.join(format!("{name}.te_inst_raw"))).unwrap();
            let events = follow(params, &program, &packets(&bytes, params));
            let expected = retired(&gunzip(&root.join(format!("itype3/{name}.spike_pc_trace.gz"))));
            let got = addresses(&program, &events);
            let same = got.iter().zip(&expected).take_while(|(got, expected)| got == expected).count();
            assert_eq!((same, got.len()), (expected.len(), expected.len()), "{kind}/{name}");
        }
    }
}

#[test]
fn an_exception_is_told_with_its_place_and_cause() {
    let Some(corpus) = corpus() else { return };
    let root = corpus.join("etrace/refflow");
    let name = "test_discon_branch_exception";
    let text = fs::read_to_string(root.join("itype3/hardware_64.scf")).unwrap();
    let (params, _) = Params::parse(&text).unwrap();
    let elf = root.join(format!("elf/{name}.riscv"));
    let program = Program::with_boot_rom(&elf, &root.join("elf/bootrom64.bin"));
    let bytes = fs::read(root.join(format!("itype3/{name}.te_inst_raw"))).unwrap();
    let events = follow(params, &program, &packets(&bytes, params));
    let exceptions: Vec<_> = events.iter().filter(|event| matches!(event, Event::Exception { .. })).collect();
    let expected = Event::Exception {
        cause: Cause::Riscv(2),
        return_address: Some(Address(0x8000_005C)),
        is_branch_target: false,
        fault_pending: false,
        value: 0,
    };
    assert_eq!(exceptions, [&expected]);
}

/// A PC list as execution.
fn execution(list: &[u8]) -> Vec<Execution> {
    let (mut reader, mut out) = (LogReader::new(Isa::Rv64, 0), Vec::new());
    for line in std::str::from_utf8(list).unwrap().lines() {
        reader.line(line, &mut |item| out.push(item)).unwrap();
    }
    reader.finish(&mut |item| out.push(item));
    out
}

#[test]
fn the_list_of_instructions_encodes_to_the_stream() {
    let Some(corpus) = corpus() else { return };
    let root = corpus.join("etrace/refflow");
    let folder = root.join("itype4");
    let (params, options) =
        Params::parse(&fs::read_to_string(folder.join("hardware_64.scf")).unwrap()).unwrap();
    for name in names(&folder) {
        let list = gunzip(&root.join(format!("itype3/{name}.spike_pc_trace.gz")));
        let settings = TracerSettings { algorithm: Algorithm::Reference, ..TracerSettings::default() };
        let mut encoder = Tracer::new(params, options, settings).unwrap();
        let mut builder = Builder::new(params.itype_width, Ctype::Precise);
        let (mut framer, mut bytes) = (Framer::new(Framing::REFERENCE), Vec::new());
        let mut sink = |packet: Packet| {
            let payload = etrace::encode(&packet, &params, &options);
            let message =
                Encapsulated { source: 0, kind: Kind::Instruction, flow: 0, time: None, payload: &payload };
            framer.frame(&message, &mut bytes).unwrap();
        };
        let mut ingress = |ingress: Ingress| {
            if let Ingress::Block(block) = ingress {
                encoder.push(&block, &mut sink);
            }
        };
        for item in execution(&list) {
            builder.push(&item, &mut ingress);
        }
        builder.finish(&mut ingress);
        encoder.finish(&mut sink);
        assert!(bytes == fs::read(folder.join(format!("{name}.te_inst_raw"))).unwrap(), "{name}");
    }
}
