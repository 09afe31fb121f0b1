//! Captures of the thesis's RTL encoder against their programs. Nobody wrote down what was executed, so what the
//! follower says is held against the program, the packets, and what the program prints.

use std::fs;
use std::path::PathBuf;

use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::etrace::{Follower, Settings};
use backsight_flow::{Event, Statistics};
use backsight_image::{Code, Image};
use backsight_isa::rv::{self, JumpKind, Operation, Set, Source};
use backsight_riscv::encap::Framing;
use backsight_riscv::etrace::{BranchMap, Config, Content, Decoder, Message, Packet};
use backsight_testing::corpus;

use crate::reference::addresses;

pub const CAPTURES: [(&str, &str); 3] =
    [("gpios_all", "gpios_all"), ("hello_culsans", "hello_culsans"), ("l1_test", "l1")];

const UNCOUNTED: usize = BranchMap::UNCOUNTED as usize;

/// One capture, followed.
pub struct Followed {
    pub image: Image,
    pub packets: Vec<Packet>,
    events: Vec<Event>,
    statistics: Statistics,
}

pub fn folder() -> Option<PathBuf> {
    corpus().map(|corpus| corpus.join("etrace/pulp"))
}

fn packets(bytes: &[u8], framing: Framing) -> Vec<Located<Packet>> {
    let config = Config { params: backsight_riscv::cva6::params(), options: Default::default(), framing };
    let (mut decoder, mut packets, mut end) = (Decoder::new(&config), Vec::new(), 0);
    let mut sink = |message: Located<Message>| {
        assert_eq!(message.offset, end);
        end = message.end();
        match message.value.content {
            Content::Instruction(packet) => packets.push(message.map(|_| packet)),
            other => panic!("{other:?}"),
        }
    };
    decoder.feed(bytes, &mut sink);
    decoder.finish(&mut sink);
    assert_eq!(end, bytes.len() as u64, "every byte is a packet's");
    packets
}

pub fn follow(capture: &str, program: &str, framing: Framing) -> Option<Followed> {
    let folder = folder()?;
    let mut image = Image::new();
    image.add_elf(folder.join(format!("{program}.riscv")), None, AddressSpace::ANY).unwrap();
    let extension = if framing == Framing::Pulp { "packets.bin" } else { "encap.bin" };
    let packets = packets(&fs::read(folder.join(format!("{capture}.{extension}"))).unwrap(), framing);
    let mut follower =
        Follower::new(Settings::new(backsight_riscv::cva6::params(), Default::default()), &image);
    let mut events = Vec::new();
    let mut sink = |event: Located<Event>| events.push(event.value);
    for packet in &packets {
        follower.push(*packet, &mut sink);
    }
    follower.finish(&mut sink);
    assert_eq!(follower.faults().total(), 0, "{capture}: {:?}", follower.faults());
    let statistics = *follower.statistics();
    let packets = packets.iter().map(|packet| packet.value).collect();
    Some(Followed { image, packets, events, statistics })
}

pub fn decode(image: &Image, address: u64) -> rv::Decoded {
    let (bytes, _) = image.opcode_at(AddressSpace::ANY, Address(address));
    rv::decode(Set::RV64, rv::opcode(&bytes).expect("code"), Address(address))
}

/// What was executed, with what the program says about it.
#[derive(Default)]
pub struct Path {
    pub pcs: Vec<u64>,
    /// Branches up to and with each of them.
    branches: Vec<usize>,
    /// Uninferable jumps before each of them.
    jumps: Vec<usize>,
    /// Outcomes of branches: not taken.
    outcomes: Vec<bool>,
    /// Jumps behind which instructions are unknown.
    unknown: Vec<u64>,
}

/// Every instruction follows from the one before; returns go to where calls came from.
pub fn path(followed: &Followed) -> Path {
    let (mut path, mut calls, mut jumps) = (Path::default(), Vec::new(), 0);
    let mut pending: Option<u64> = None;
    let mut gap = false;
    for event in &followed.events {
        gap |= matches!(event, Event::PathUnknown { .. });
        for pc in addresses(&followed.image, &[*event]) {
            if let Some(before) = pending {
                let decoded = decode(&followed.image, before);
                let behind = before + u64::from(decoded.instruction.size);
                let target = decoded.instruction.target.0;
                let is_call = matches!(decoded.operation, Operation::Jump { kind: JumpKind::Call, .. });
                match decoded.operation {
                    Operation::Branch => {
                        assert!(pc == behind || pc == target, "{before:#x} to {pc:#x}");
                        path.outcomes.push(pc != target);
                    }
                    Operation::Jump { source: Source::Opcode, .. } => assert_eq!(pc, target, "{before:#x}"),
                    Operation::Jump { kind, .. } => {
                        jumps += 1;
                        match kind {
                            _ if gap => path.unknown.push(before),
                            JumpKind::Return => assert_eq!(Some(pc), calls.pop(), "return at {before:#x}"),
                            _ => panic!("{before:#x} to {pc:#x}"),
                        }
                    }
                    _ => assert_eq!(pc, behind, "{before:#x}"),
                }
                assert!(!gap || decoded.is_uninferable(), "unknown instructions behind {before:#x}");
                if is_call {
                    calls.push(behind);
                }
            }
            gap = false;
            path.pcs.push(pc);
            path.jumps.push(jumps);
            let is_branch = decode(&followed.image, pc).operation == Operation::Branch;
            path.branches.push(path.outcomes.len() + usize::from(is_branch));
            pending = Some(pc);
        }
    }
    path
}

/// The packets tell exactly the outcomes, jumps and addresses of the path: none is missing, none is left over. Gives
/// the place on the path that each of them leads to.
pub fn assert_told_by(path: &Path, packets: &[Packet]) -> Vec<usize> {
    let (mut place, mut told, mut address) = (0, 0, 0u64);
    let mut places = Vec::new();
    for packet in packets {
        let (map, reported) = match packet {
            Packet::Support(_) => {
                places.push(place);
                continue;
            }
            Packet::Start(start) => {
                address = start.address;
                // Behind a flush it names the same instruction once more.
                let behind = path.pcs[place] != address || told == 0;
                place = find(path, place + usize::from(behind && told > 0), address, told);
                places.push(place);
                continue;
            }
            Packet::Branches { map, address } => (Some(*map).filter(|map| map.count > 0), *address),
            other => panic!("{other:?}"),
        };
        let count = map.map(|map| usize::from(map.count));
        let Some(reported) = reported else {
            told += 31;
            assert_outcomes(path, told - 31, 31, map.unwrap().bits);
            places.push(place);
            continue;
        };
        address = address.wrapping_add(reported.address);
        let found = match count {
            Some(UNCOUNTED) => {
                let fits = |&count: &usize| try_find(path, place + 1, address, told + count).is_some();
                let fitting: Vec<_> = (16..31).filter(fits).collect();
                let right = |&&count: &&usize| outcomes(path, told, count) == map.unwrap().bits;
                let count = *fitting.iter().find(right).expect("a number of branches");
                told += count;
                find(path, place + 1, address, told)
            }
            _ => {
                told += count.unwrap_or(0);
                assert_outcomes(
                    path,
                    told - count.unwrap_or(0),
                    count.unwrap_or(0),
                    map.map_or(0, |map| map.bits),
                );
                find(path, place + 1, address, told)
            }
        };
        let crossed = path.jumps[found] - path.jumps[place];
        assert_eq!(crossed, usize::from(reported.updiscon), "jumps before {address:#x}");
        place = found;
        places.push(place);
    }
    assert_eq!((place, told), (path.pcs.len() - 1, path.outcomes.len()), "everything is told");
    places
}

fn outcomes(path: &Path, from: usize, count: usize) -> u32 {
    let range = path.outcomes.get(from..from + count).unwrap_or_default();
    range.iter().enumerate().fold(0, |bits, (n, &not_taken)| bits | u32::from(not_taken) << n)
}

fn assert_outcomes(path: &Path, from: usize, count: usize, bits: u32) {
    assert!(path.outcomes.len() >= from + count);
    assert_eq!(outcomes(path, from, count), bits, "outcomes from {from} on");
}

/// The first visit of `address` from `from` on, where so many branches were told.
fn try_find(path: &Path, from: usize, address: u64, branches: usize) -> Option<usize> {
    (from..path.pcs.len()).find(|&n| path.pcs[n] == address && path.branches[n] == branches)
}

fn find(path: &Path, from: usize, address: u64, branches: usize) -> usize {
    try_find(path, from, address, branches)
        .unwrap_or_else(|| panic!("{address:#x} is not visited behind {branches} branches"))
}

/// Names of functions in the order in which they were entered at their beginning.
fn entered(followed: &Followed, path: &Path) -> Vec<String> {
    let name = |&pc: &u64| {
        let symbol = followed.image.symbolise(AddressSpace::ANY, Address(pc))?;
        (symbol.offset == 0).then(|| symbol.name.to_owned())
    };
    path.pcs.iter().filter_map(name).collect()
}

#[test]
fn captures_of_the_seed_follow_their_programs() {
    for (capture, program) in CAPTURES {
        let Some(followed) = follow(capture, program, Framing::Pulp) else { return };
        let path = path(&followed);
        assert_told_by(&path, &followed.packets);
        assert_eq!(followed.statistics.instructions, path.pcs.len() as u64);
        let symbol = followed.image.symbolise(AddressSpace::ANY, Address(path.pcs[0])).unwrap();
        assert_eq!(symbol.name, "_init", "{capture}: tracing begins where the runtime sets itself up");
        let last = *path.pcs.last().unwrap();
        let symbol = followed.image.symbolise(AddressSpace::ANY, Address(last)).unwrap();
        assert_eq!(symbol.name, "tohost_exit", "{capture}");
        assert!(decode(&followed.image, last).instruction.target.0 <= last, "it stays there");
    }
}

#[test]
fn both_framings_of_a_capture_tell_the_same() {
    for (capture, program) in CAPTURES {
        let Some(beats) = follow(capture, program, Framing::Pulp) else { return };
        let encap = follow(capture, program, Framing::PULP_ENCAP).unwrap();
        assert_eq!(beats.packets, encap.packets, "{capture}");
        assert_eq!(beats.events, encap.events, "{capture}");
    }
}

/// One jump in the three captures is neither a return nor in the opcode: `printf` looks up `%d` in a table.
#[test]
fn only_behind_the_jump_through_a_table_instructions_are_unknown() {
    for (capture, program, expected) in [
        ("gpios_all", "gpios_all", vec![]),
        ("hello_culsans", "hello_culsans", vec!["printf"]),
        ("l1_test", "l1", vec![]),
    ] {
        let Some(followed) = follow(capture, program, Framing::Pulp) else { return };
        let name = |&pc: &u64| followed.image.symbolise(AddressSpace::ANY, Address(pc)).unwrap().name;
        let path = path(&followed);
        let unknown: Vec<_> = path.unknown.iter().map(name).collect();
        assert_eq!(unknown, expected, "{capture}");
    }
}

#[test]
fn the_programs_do_what_they_were_written_to_do() {
    let printed = [
        ("gpios_all", "gpios_all", "Start pad_a GPIOs...\nStart pad_b GPIOs...\nTest PASSED\n\r"),
        ("hello_culsans", "hello_culsans", "Hello Culsans! I'm Core 0!\r\n"),
        ("l1_test", "l1", "0k!\n"),
    ];
    for (capture, program, text) in printed {
        let Some(followed) = follow(capture, program, Framing::Pulp) else { return };
        let path = path(&followed);
        let entered = entered(&followed, &path);
        let count = |name: &str| entered.iter().filter(|&entered| entered == name).count();
        assert_eq!(count("uart_sendchar"), text.len(), "{capture}: a call for each character");
        let milestones =
            ["memcpy", "memset", "uart_set_cfg", "set_flls", "thread_entry", "main", "tohost_exit"];
        let places: Vec<_> = milestones.iter().map(|name| entered.iter().position(|e| e == name)).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{capture}: {entered:?}");
        assert_eq!(count("main"), 1);
        assert_eq!(entered.last().unwrap(), "tohost_exit");
    }
}

/// The test of the pads switches the functions of all 78, in order, and then once more.
#[test]
fn every_pad_is_switched_twice_and_in_order() {
    let Some(followed) = follow("gpios_all", "gpios_all", Framing::Pulp) else { return };
    let entered = entered(&followed, &path(&followed));
    let pads: Vec<_> = entered.iter().filter(|name| name.ends_with("_mux_set")).collect();
    let pad = |bank: &str, n: u32| format!("alsaqr_periph_padframe_periphs_{bank}_{n:02}_mux_set");
    let all = || (0..30).map(|n| pad("a", n)).chain((0..48).map(|n| pad("b", n)));
    assert!(pads.into_iter().eq(&all().chain(all()).collect::<Vec<_>>()));
}
