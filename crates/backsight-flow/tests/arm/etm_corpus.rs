//! The PTM and ETMv3 captures of the corpus give the packets and the elements that are expected of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use backsight_arm::{etm3, ptm};
use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::opencsd::Lines;
use backsight_flow::{Event, etm3 as etm3_flow, ptm as ptm_flow};
use backsight_image::Code;
use backsight_testing::gunzip;

/// A trace unit that wrote a buffer alone.
struct Source {
    expected: PathBuf,
    registers: Vec<(String, String)>,
    id: u64,
    bytes: Vec<u8>,
    memory: Memory,
}

struct Memory(Vec<(u64, Vec<u8>)>);

impl Code for Memory {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        self.0.iter().find_map(|(base, bytes)| {
            let offset = usize::try_from(address.0.checked_sub(*base)?).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }
}

fn number(text: &str) -> u64 {
    let text = text.trim();
    text.strip_prefix("0x")
        .map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16))
        .expect(text)
}

/// Keys and values of an ini file, without what stands in parentheses after a key.
fn ini(path: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).expect("an ini file");
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let key = |key: &str| key.split('(').next().unwrap_or_default().trim().to_owned();
    lines.map(|(name, value)| (key(name), value.trim().to_owned())).collect()
}

/// The source of a capture whose only buffer is `buffer`, by the files that describe core and trace unit.
fn source(capture: &str, buffer: &str, bytes: &str, core: &str, unit: &str) -> Option<Source> {
    let folder = backsight_testing::corpus()?.join("opencsd").join(capture);
    let file = |name: &str| folder.join("capture").join(name);
    let registers = ini(&file(unit));
    let id = registers.iter().find(|(name, _)| name == "ETMTRACEIDR").map_or(0, |(_, id)| number(id));
    let mut memory = Vec::new();
    let (mut dump, mut address) = (None, None);
    for (key, value) in ini(&file(core)) {
        match key.as_str() {
            "file" => dump = Some(fs::read(file(value.trim_matches('"'))).expect("a dump")),
            "address" => address = Some(number(&value)),
            _ => {}
        }
        if dump.is_some() && address.is_some() {
            memory.extend(address.take().zip(dump.take()));
        }
    }
    Some(Source {
        expected: folder.join("expected").join(buffer),
        registers,
        id,
        bytes: fs::read(file(bytes)).expect("a stream"),
        memory: Memory(memory),
    })
}

fn expected(source: &Source, kind: &str) -> String {
    let path = source.expected.with_extension(kind);
    String::from_utf8(gunzip(&path)).expect("text")
}

fn assert_lines(what: &str, actual: &str, expected: &str) {
    let mut expected = expected.lines();
    for (number, line) in actual.lines().enumerate() {
        assert_eq!(Some(line), expected.next(), "{what}, line {}", number + 1);
    }
    assert_eq!(expected.next(), None, "{what}: lines are missing");
}

/// A packet as the canonical listing has it.
fn packet_line(bytes: &[u8], packet: Located<(&str, String)>) -> Option<String> {
    let (name, text) = &packet.value;
    if *name == "NOTSYNC" {
        return None;
    }
    let bytes = &bytes[packet.offset as usize..packet.end() as usize];
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut line = format!("{}\t0\t{name}\t{hex}", packet.offset);
    for part in text.split("; ").map(|part| part.trim().trim_end_matches(';')) {
        let is_atoms = !part.is_empty() && part.bytes().all(|byte| b"ENW".contains(&byte));
        if is_atoms || part.starts_with("Addr=") {
            let _ = write!(line, "\t{part}");
        }
    }
    Some(line)
}

/// Elements as the canonical listing has them.
fn element_lines(id: u64, mut lines: Lines, events: &[Located<Event>]) -> String {
    let mut text = String::new();
    let mut each = |_: u64, element: backsight_flow::opencsd::Element<'_>| {
        let line = element.to_string();
        let (name, arguments) = line.split_once('(').expect("arguments");
        let arguments = arguments.strip_suffix(')').expect("an end");
        let arguments = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "{id:x}\t{}({arguments})", name.trim_start_matches("OCSD_GEN_TRC_ELEM_"));
    };
    events.iter().for_each(|event| lines.push(event.offset, &event.value, &mut each));
    lines.finish(&mut each);
    text
}

fn check_ptm(what: &str, source: &Source) {
    let mut config = ptm::Config::default();
    for (name, value) in &source.registers {
        let _ = config.set(name, value);
    }
    let (mut packets, mut events) = (String::new(), Vec::new());
    let mut follower = ptm_flow::Follower::new(&config, &source.memory);
    ptm::packets(&config, &source.bytes, &mut |packet| {
        let described = packet.map(|packet| (packet.name(), ptm::opencsd(&packet).to_string()));
        packets.extend(packet_line(&source.bytes, described).map(|line| line + "\n"));
        follower.push(packet, &mut |event| events.push(event));
    });
    follower.finish(&mut |event| events.push(event));
    assert_lines(what, &packets, &expected(source, "packets.gz"));
    let lines = Lines::new(config.cycle_accurate());
    assert_lines(what, &element_lines(source.id, lines, &events), &expected(source, "elements.gz"));
}

#[test]
fn cycle_accurate_ptm() {
    if let Some(source) = source("tc2-raw-13", "ETB_0.x", "stream.bin", "cpu_3.ini", "device_8.ini") {
        check_ptm("tc2-raw-13", &source);
    }
}

#[test]
fn ptm_with_a_return_stack() {
    for capture in ["tc2-ptm-rstk-t32", "trace_cov_a15"] {
        if let Some(source) = source(capture, "PTM_0_2.x", "PTM_0_2.bin", "device1.ini", "device5.ini") {
            check_ptm(capture, &source);
        }
    }
}

#[test]
fn cycle_accurate_etm3() {
    let source = source("tc2-raw-10", "ETB_0.x", "stream.bin", "cpu_0.ini", "device_5.ini");
    let Some(source) = source else { return };
    let mut config = etm3::Config::default();
    for (name, value) in &source.registers {
        let _ = config.set(name, value);
    }
    let (mut packets, mut events) = (String::new(), Vec::new());
    let mut follower = etm3_flow::Follower::new(&config, &source.memory);
    etm3::packets(&config, &source.bytes, &mut |packet| {
        let described = packet.map(|packet| (packet.name(), etm3::opencsd(&packet).to_string()));
        packets.extend(packet_line(&source.bytes, described).map(|line| line + "\n"));
        follower.push(packet, &mut |event| events.push(event));
    });
    follower.finish(&mut |event| events.push(event));
    let mut by_runs = Vec::new();
    let mut decoder = etm3::Decoder::new(&config);
    decoder.feed_runs(&source.bytes, &mut |decoded| match decoded {
        etm3::Decoded::Packet(packet) => follower.push(packet, &mut |event| by_runs.push(event)),
        etm3::Decoded::PHeaders { offset, headers } => {
            follower.push_p_headers(offset, headers, &mut |event| by_runs.push(event));
        }
    });
    decoder.finish(&mut |packet| follower.push(packet, &mut |event| by_runs.push(event)));
    follower.finish(&mut |event| by_runs.push(event));
    assert!(by_runs == events);
    assert_lines("tc2-raw-10", &packets, &expected(&source, "packets.gz"));
    let mut lines = Lines::new(false);
    lines.hides_return_addresses = true;
    assert_lines("tc2-raw-10", &element_lines(source.id, lines, &events), &expected(&source, "elements.gz"));
}
