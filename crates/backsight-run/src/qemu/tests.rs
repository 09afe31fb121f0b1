//! Streams written by hand.

use backsight_core::{Access, Execution, Input, Isa, Retired, Trap, TrapKind};
use proptest::prelude::*;

use super::*;
use crate::{Observation, Target};

const DEFINITIONS: u32 = u32::MAX;
const END: u32 = u32::MAX - 1;
const WATCHED: u8 = 0x80;
const MAY_FAULT: u8 = 0x40;

const NOP: u32 = 0xD503_201F;
const LDR: u32 = 0xF940_0000; // ldr x0, [x0]
const SVC: u32 = 0xD400_0001;
const B_NE_16: u32 = 0x5400_0081; // b.ne .+16
const B_BACK_28: u32 = 0x17FF_FFF9; // b .-28
const BR: u32 = 0xD61F_0000; // br x0

/// Writes a stream as the plugin does.
struct StreamWriter {
    bytes: Vec<u8>,
    blocks: u32,
    positions: std::collections::HashMap<u32, u64>,
}

impl StreamWriter {
    fn new(target: u8) -> Self {
        let mut bytes = b"BSQEMU\x00\x01".to_vec();
        bytes.extend([target, 0, 0, 0]);
        bytes.extend(77u32.to_le_bytes());
        Self { bytes, blocks: 0, positions: Default::default() }
    }

    fn chunk(&mut self, source: u32, payload: &[u8]) {
        let position = self.positions.entry(source).or_default();
        self.bytes.extend(source.to_le_bytes());
        self.bytes.extend((payload.len() as u32).to_le_bytes());
        self.bytes.extend(position.to_le_bytes());
        self.bytes.extend(1000u32.wrapping_add(source).to_le_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(payload);
        *position += payload.len() as u64;
    }

    /// A block of instructions as bytes, with flags each.
    fn define(&mut self, address: u64, instructions: &[(&[u8], u8)]) {
        let mut payload = self.blocks.to_le_bytes().to_vec();
        payload.extend(address.to_le_bytes());
        payload.extend((instructions.len() as u32).to_le_bytes());
        payload.extend(instructions.iter().map(|(bytes, flags)| bytes.len() as u8 | flags));
        payload.extend(instructions.iter().flat_map(|(bytes, _)| *bytes));
        self.chunk(DEFINITIONS, &payload);
        self.blocks += 1;
    }

    /// A block of 4-byte instructions without flags.
    fn words_at(&mut self, address: u64, opcodes: &[u32]) {
        let bytes: Vec<_> = opcodes.iter().map(|opcode| opcode.to_le_bytes()).collect();
        let instructions: Vec<_> = bytes.iter().map(|bytes| (&bytes[..], 0)).collect();
        self.define(address, &instructions);
    }

    fn thread(&mut self, thread: u32, words: &[u32]) {
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.chunk(thread, &payload);
    }

    fn end(mut self) -> Vec<u8> {
        self.chunk(END, &[]);
        self.bytes
    }
}

fn event(kind: u32, argument: u32) -> u32 {
    1 << 31 | kind << 24 | argument
}

fn handler(signal: u32, address: u32) -> [u32; 3] {
    [event(5, signal), address, 0]
}

fn tail(source: u32, position: u64, begun: u64, expected: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"BSQTAIL1".to_vec();
    bytes.extend(source.to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    for number in [position, begun, expected, 0, 0, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// What was executed; the same with blocks.
fn execution(pieces: &[&[u8]], tails: &[Vec<u8>]) -> (Vec<Execution>, Result<Summary, StreamError>) {
    let (single, blocks) = execution_from(StreamReader::new(), pieces, tails);
    assert_eq!(blocks, 0, "nobody asked for blocks");
    let (by_blocks, _) = execution_from(StreamReader::with_blocks(), pieces, tails);
    assert_eq!(by_blocks, single, "other execution with blocks");
    single
}

/// The same, and how many blocks it was given in.
fn execution_from(
    mut reader: StreamReader,
    pieces: &[&[u8]],
    tails: &[Vec<u8>],
) -> ((Vec<Execution>, Result<Summary, StreamError>), usize) {
    let (mut items, mut given) = (Vec::new(), 0);
    let mut sink = |item: Observation<'_>| match item {
        Observation::Execution(execution) => items.push(execution),
        Observation::Blocks(blocks) => {
            given += blocks.steps.len();
            items.extend(blocks.iter().flat_map(|block| block.instructions()).map(Execution::Instruction));
        }
        _ => {}
    };
    let mut result = pieces.iter().try_for_each(|piece| reader.feed(piece, &mut sink));
    for tail in tails {
        result = result.and_then(|()| reader.tail(tail, &mut sink));
    }
    let summary = reader.finish(&mut sink);
    ((items, result.map(|()| summary)), given)
}

/// What a stream says, in short: `a->n` retired, `!a->h` exception, `?a->h` interrupt.
fn observed(stream: &[u8]) -> Vec<String> {
    let (items, result) = execution(&[stream], &[]);
    result.unwrap();
    in_short(&items)
}

fn in_short(items: &[Execution]) -> Vec<String> {
    let short = |item: &Execution| match item {
        Execution::Instruction(Retired { address, next, taken, .. }) => {
            Some(format!("{:x}{}{:x}", address.0, if *taken { "->" } else { "-x" }, next.0))
        }
        Execution::Trap(Trap { kind, return_address, handler, cause, .. }) => {
            let mark = if *kind == TrapKind::Exception { '!' } else { '?' };
            Some(format!("{mark}{cause} {:x}->{:x}", return_address.0, handler.0))
        }
        Execution::Access(Access { address, size, store, value, .. }) => {
            Some(format!("{}{} {:x}={value:x}", if *store { 's' } else { 'l' }, size, address.0))
        }
        Execution::Thread(number) => Some(format!("#{number}")),
        Execution::Gap => Some("gap".into()),
        Execution::Input(Input::Result(value)) => Some(format!("={value:x}")),
        Execution::Input(Input::Memory { address, value, size }) => {
            Some(format!("w{size} {:x}={value:x}", address.0))
        }
        Execution::Input(Input::Cleared { address, length }) => Some(format!("z{length:x} {:x}", address.0)),
        Execution::Context(_) | Execution::Input(_) => None,
    };
    items.iter().filter_map(short).collect()
}

#[test]
fn blocks_become_instructions_and_the_next_block_tells_the_branch() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[NOP, B_NE_16]);
    writer.words_at(0x1014, &[NOP, B_NE_16]);
    writer.words_at(0x101C, &[NOP, SVC]);
    writer.thread(0, &[0, 1, 2, event(9, 94)]);
    let expected = ["#0", "1000->1004", "1004->1014", "1014->1018", "1018-x101c", "101c->1020", "1020->1024"];
    assert_eq!(observed(&writer.end()), expected);
}

#[test]
fn a_system_call_is_an_instruction_and_on_arm_a_trap_that_comes_back() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[SVC]);
    writer.words_at(0x1004, &[NOP, SVC]);
    writer.thread(0, &[0, event(9, 64), 1, event(9, 94)]);
    assert_eq!(observed(&writer.end()), ["#0", "1000->1004", "!2 1004->1004", "1004->1008", "1008->100c"]);
    let mut writer = StreamWriter::new(3);
    writer.words_at(0x1000, &[0x73]);
    writer.words_at(0x1004, &[0x13, 0x73]);
    writer.thread(0, &[0, event(9, 64), 1, event(9, 94)]);
    assert_eq!(observed(&writer.end()), ["#0", "1000->1004", "1004->1008", "1008->100c"]);
}

#[test]
fn a_fault_cuts_its_block_and_does_not_retire() {
    let mut writer = StreamWriter::new(1);
    let [nop, ldr, br] = [NOP, LDR, BR].map(u32::to_le_bytes);
    writer.define(
        0x1000,
        &[(&nop, 0), (&ldr, WATCHED | MAY_FAULT), (&nop, 0), (&ldr, WATCHED | MAY_FAULT), (&br, WATCHED)],
    );
    writer.words_at(0x2000, &[SVC]);
    writer.words_at(0x3000, &[BR]);
    let [a, b, c] = handler(11, 0x2000);
    // The second load faults; the handler returns to it, QEMU begins there.
    writer.define(0x100C, &[(&ldr, WATCHED | MAY_FAULT), (&br, WATCHED)]);
    writer.thread(0, &[a, b, c, 0, event(1, 2), 1, event(9, 139), event(3, 0), 3, 2, 2]);
    let expected = [
        "#0",
        "1000->1004",
        "1004->1008",
        "1008->100c",
        "!12 100c->2000",
        "2000->2004",
        "!2 2004->100c",
        "100c->1010",
        "1010->3000",
        "3000->3000",
    ];
    assert_eq!(observed(&writer.end()), expected);
}

#[test]
fn an_instruction_that_qemu_begins_again_is_reported_once() {
    let mut writer = StreamWriter::new(1);
    let [nop, ldr] = [NOP, LDR].map(u32::to_le_bytes);
    writer.define(0x1000, &[(&nop, 0), (&ldr, WATCHED | MAY_FAULT), (&nop, WATCHED)]);
    writer.define(0x1004, &[(&ldr, MAY_FAULT)]);
    writer.words_at(0x1008, &[NOP]);
    writer.thread(0, &[0, event(1, 1), 1, 2]);
    assert_eq!(observed(&writer.end()), ["#0", "1000->1004", "1004->1008", "1008->100c"]);
}

#[test]
fn a_signal_between_blocks_is_an_interrupt() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[NOP]);
    writer.words_at(0x2000, &[SVC]);
    writer.words_at(0x1004, &[NOP]);
    let [a, b, c] = handler(14, 0x2000);
    writer.thread(0, &[a, b, c, 0, 1, event(9, 139), event(3, 0), 2]);
    let expected = ["#0", "1000->1004", "?14 1004->2000", "2000->2004", "!2 2004->1004", "1004->1008"];
    assert_eq!(observed(&writer.end()), expected);
}

#[test]
fn an_interrupted_system_call_is_made_again() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[SVC]);
    writer.words_at(0x2000, &[SVC]);
    let [a, b, c] = handler(14, 0x2000);
    writer
        .thread(0, &[a, b, c, 0, event(9, 63), event(4, 0), 1, event(9, 139), event(3, 0), 0, event(9, 63)]);
    let expected =
        ["#0", "1000->1004", "!2 1004->1000", "?14 1000->2000", "2000->2004", "!2 2004->1000", "1000->1004"];
    assert_eq!(observed(&writer.end()), expected);
}

#[test]
fn accesses_follow_their_instruction_and_those_of_a_fault_are_dropped() {
    let mut writer = StreamWriter::new(1);
    let [nop, ldr] = [NOP, LDR].map(u32::to_le_bytes);
    let load = (&ldr[..], WATCHED | MAY_FAULT);
    writer.define(0x1000, &[load, (&nop, 0), load, (&nop, WATCHED)]);
    writer.words_at(0x2000, &[NOP]);
    let [a, b, c] = handler(11, 0x2000);
    let access = |index: u32, known: u32| event(2, index | 3 << 9 | known << 13);
    let sixteen = event(2, 2 | 4 << 9 | 1 << 12);
    let words = [
        a,
        b,
        c,
        0,
        access(0, 1),
        0x8000,
        0,
        5,
        6,
        sixteen,
        0x9000,
        0,
        event(1, 2),
        1,
        0,
        sixteen,
        0x9000,
        0,
    ];
    writer.thread(0, &words);
    let expected = [
        "#0",
        "1000->1004",
        "l8 8000=600000005",
        "1004->1008",
        "!12 1008->2000",
        "2000->2004",
        "?14 2004->1000",
        "1000->1004",
        "1004->1008",
        "1008->100c",
        "s8 9000=0",
        "s8 9008=0",
        "100c->1010",
    ];
    assert_eq!(observed(&writer.end()), expected);
}

/// A loop of two blocks, the first of which has two loads, and a block elsewhere.
fn two_blocks_around() -> (StreamWriter, [&'static str; 5]) {
    let mut writer = StreamWriter::new(1);
    let [ldr, branch, nop, back] = [LDR, B_NE_16, NOP, B_BACK_28].map(u32::to_le_bytes);
    writer.define(0x1000, &[(&ldr, WATCHED), (&ldr, WATCHED), (&branch, 0)]);
    writer.define(0x1018, &[(&nop, 0), (&back, 0)]);
    writer.words_at(0x2000, &[NOP]);
    (writer, ["1000->1004", "1004->1008", "1008->1018", "1018->101c", "101c->1000"])
}

#[test]
fn accesses_come_after_the_known_blocks_before_them() {
    let (mut writer, around) = two_blocks_around();
    let load = |index: u32, value: u32| [event(2, index | 3 << 9 | 1 << 13), 0x8000, 0, value, 0];
    let (first, both) = (load(0, 5), [load(0, 6), load(1, 7)].concat());
    writer.thread(0, &[&[0], &first[..], &[1, 0, 1, 0], &both, &[1, 0]].concat());
    let [one, two, ..] = around;
    let expected = [
        &["#0", one, "l8 8000=5"],
        &around[1..],
        &around,
        &[one, "l8 8000=6", two, "l8 8000=7"],
        &around[2..],
    ];
    assert_eq!(observed(&writer.end())[..expected.concat().len()], expected.concat());
}

#[test]
fn an_interrupt_comes_after_the_known_blocks_before_it() {
    let (mut writer, around) = two_blocks_around();
    writer.thread(0, &[0, 1, 0, 1, 0, 1, 2]);
    let expected = [&["#0"], &around[..], &around, &around, &["?14 1000->2000", "2000->2004"]].concat();
    assert_eq!(observed(&writer.end()), expected);
}

#[test]
fn what_a_system_call_brings_follows_its_instruction() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[NOP, SVC]);
    writer.words_at(0x1008, &[NOP]);
    let written = [event(11, 9), 0x8000, 0, 0x0403_0201, 0x0807_0605, 9];
    let cleared = [event(12, 0), 0x9000, 0, 0x1000, 0];
    let call = [&[0, event(9, 63)], &written[..], &cleared, &[event(10, 0), 9, 0, 1]].concat();
    writer.thread(0, &call);
    let expected = [
        "#0",
        "1000->1004",
        "1004->1008",
        "w8 8000=807060504030201",
        "w1 8008=9",
        "z1000 9000",
        "=9",
        "!2 1008->1008",
        "1008->100c",
    ];
    assert_eq!(observed(&writer.end()), expected);
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[NOP]);
    writer.thread(0, &[0, event(10, 0), 9, 0]);
    let (_, result) = execution(&[&writer.end()], &[]);
    assert_eq!(result.unwrap_err().what, Damage::EventContents(10));
}

#[test]
fn each_thread_follows_its_own_blocks() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[NOP]);
    writer.words_at(0x1004, &[NOP]);
    writer.thread(0, &[0]);
    writer.thread(1, &[1, event(8, 0)]);
    writer.thread(0, &[1]);
    let stream = writer.end();
    assert_eq!(observed(&stream), ["#0", "#1", "1004->1008", "#0", "1000->1004", "1004->1008"]);
    let (mut process, mut threads) = (0, Vec::new());
    let mut reader = StreamReader::new();
    let mut sink = |item: Observation<'_>| match item {
        Observation::ProcessStarts { pid } => process = pid,
        Observation::ThreadStarts { thread, tid } => threads.push((thread, Some(tid))),
        Observation::ThreadEnds { thread } => threads.push((thread, None)),
        _ => {}
    };
    reader.feed(&stream, &mut sink).unwrap();
    let summary = reader.finish(&mut sink);
    assert_eq!(threads, [(0, Some(1000)), (1, Some(1001)), (1, None)]);
    assert_eq!((summary.threads, summary.complete, summary.instructions), (2, true, 3));
    assert_eq!((reader.target(), process), (Some(Target::Aarch64), 77));
}

#[test]
fn mappings_and_code_are_reported() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[NOP]);
    let path = u32::from_le_bytes(*b"/a.s");
    let map = [event(6, 16 | 5), 0x1000, 0, 0x2000, 0, 0x3000, 0, 5, path, u32::from(b'o')];
    writer.thread(0, &map);
    writer.thread(0, &[event(7, 0), 0x1000, 0, 0x2000, 0]);
    let mut seen = Vec::new();
    StreamReader::new()
        .feed(&writer.end(), &mut |item| match item {
            Observation::Map(map) => seen.push(format!("{map:x?}")),
            Observation::Unmap { address, length } => seen.push(format!("unmap {address} {length:x}")),
            Observation::Code { address, bytes } => seen.push(format!("code {address} {bytes:x?}")),
            _ => {}
        })
        .unwrap();
    assert_eq!(seen[0], "code 0x1000 [1f, 20, 3, d5]");
    assert_eq!(
        seen[1],
        "CodeMap { address: Address(1000), length: 2000, offset: 3000, path: \"/a.so\", program: true, writable: false }"
    );
    assert_eq!(seen[2], "unmap 0x1000 2000");
}

#[test]
fn arm_and_thumb_are_told_apart() {
    let mut writer = StreamWriter::new(2);
    let isa_of = |stream: &[u8]| -> Vec<_> {
        let (items, result) = execution(&[stream], &[]);
        result.unwrap();
        let isa = |item: &Execution| match item {
            Execution::Instruction(retired) => Some((retired.address.0, retired.isa, retired.opcode)),
            _ => None,
        };
        items.iter().filter_map(isa).collect()
    };
    // A32: nop, blx 0x2000. T32: a wide instruction only (nop.w, bl 0x3000), then bx lr back to A32.
    writer.words_at(0x1000, &[0xE320_F000, 0xFA00_03FD]);
    writer.words_at(0x2000, &[0x8000_F3AF, 0xFFFC_F000]);
    writer.define(0x3000, &[(&[0x70, 0x47], 0)]);
    writer.words_at(0x1008, &[0xE320_F000]);
    writer.thread(0, &[0, 1, 2, 3]);
    let expected = [
        (0x1000, Isa::A32, 0xE320_F000),
        (0x1004, Isa::A32, 0xFA00_03FD),
        (0x2000, Isa::T32, 0xF3AF_8000),
        (0x2004, Isa::T32, 0xF000_FFFC),
        (0x3000, Isa::T32, 0x4770),
        (0x1008, Isa::A32, 0xE320_F000),
    ];
    assert_eq!(isa_of(&writer.end()), expected);
}

#[test]
fn a_branch_in_an_it_block_may_fall_through() {
    let mut writer = StreamWriter::new(2);
    // it eq; bxeq lr
    writer.define(0x1000, &[(&[0x08, 0xBF], 0), (&[0x70, 0x47], 0)]);
    writer.define(0x1004, &[(&[0x00, 0xBF], 0)]);
    writer.thread(0, &[0, 1]);
    assert_eq!(observed(&writer.end()), ["#0", "1000->1002", "1002-x1004", "1004->1006"]);
}

#[test]
fn a_kernel_helper_of_arm_is_a_gap() {
    let mut writer = StreamWriter::new(2);
    writer.define(0xFFFF_0FE0, &[(&[], MAY_FAULT)]);
    writer.words_at(0x1000, &[0xE320_F000]);
    writer.thread(0, &[0, 1]);
    assert_eq!(observed(&writer.end()), ["#0", "gap", "1000->1004"]);
}

#[test]
fn what_a_program_writes_comes_after_the_call_that_wrote_it() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[NOP, SVC]);
    writer.words_at(0x1008, &[NOP]);
    let bytes = u32::from_le_bytes(*b"hey\0");
    let error = u32::from_le_bytes(*b"no\0\0");
    writer.thread(0, &[0, event(9, 64), event(13, 3), bytes, event(13, 1 << 23 | 2), error, 1]);
    let mut seen = Vec::new();
    let mut reader = StreamReader::new();
    let fed = reader.feed(&writer.end(), &mut |item| match item {
        Observation::Output { stream, bytes } => {
            seen.push(format!("{stream} {}", String::from_utf8_lossy(bytes)))
        }
        Observation::Execution(execution) => seen.extend(in_short(&[execution])),
        _ => {}
    });
    fed.expect("a good stream");
    assert_eq!(seen, ["#0", "1000->1004", "1004->1008", "1 hey", "2 no", "!2 1008->1008"]);
}

#[test]
fn what_nobody_wrote_is_damage() {
    let mut writer = StreamWriter::new(1);
    writer.words_at(0x1000, &[NOP, SVC]);
    writer.thread(0, &[0, event(13, 1), 0x61]);
    let (_, result) = execution(&[&writer.end()], &[]);
    assert_eq!(result.unwrap_err().what, Damage::EventContents(13));
}

fn cut_short() -> (StreamWriter, Vec<u8>) {
    let mut writer = StreamWriter::new(1);
    let [nop, ldr] = [NOP, LDR].map(u32::to_le_bytes);
    writer.define(0x1000, &[(&nop, 0), (&ldr, WATCHED | MAY_FAULT), (&nop, WATCHED)]);
    writer.thread(0, &[0]);
    (writer, [0u32.to_le_bytes(), 0u32.to_le_bytes()].concat())
}

#[test]
fn a_tail_continues_a_stream_that_was_cut_short() {
    let (writer, words) = cut_short();
    let (items, result) = execution(&[&writer.bytes], &[tail(0, 0, 1, 2, &words)]);
    // The first word is in the stream already; the load of the second block began and faulted.
    let expected = ["#0", "1000->1004", "1004->1008", "1008->100c", "?14 100c->1000", "1000->1004"];
    assert_eq!(in_short(&items), expected);
    assert!(!result.unwrap().complete);
}

#[test]
fn a_block_that_was_about_to_begin_does_not_cut_the_one_before() {
    let (mut writer, words) = cut_short();
    writer.define(0x1010, &[(&NOP.to_le_bytes(), 0)]);
    let words = [words, 1u32.to_le_bytes().to_vec()].concat();
    // The header speaks of a block with two watched instructions, whose number would stand behind these words.
    let mut bytes = tail(0, 0, 0, 2, &words);
    bytes[40..48].copy_from_slice(&(words.len() as u64).to_le_bytes());
    let (items, result) = execution(&[&writer.bytes], &[bytes]);
    assert_eq!(in_short(&items).last().map(String::as_str), Some("1010->1014"));
    assert!(!result.unwrap().complete);
}

#[test]
fn a_tail_that_leaves_a_hole_is_refused() {
    let (writer, words) = cut_short();
    let (_, result) = execution(&[&writer.bytes], &[tail(0, 8, 0, 0, &words)]);
    assert_eq!(result.unwrap_err().what, Damage::Position);
    let (_, result) = execution(&[&writer.bytes], &[words]);
    assert_eq!(result.unwrap_err().what, Damage::Tail);
}

#[test]
fn a_chunk_that_is_cut_off_is_counted() {
    let (writer, _) = cut_short();
    let (items, result) = execution(&[&writer.bytes[..writer.bytes.len() - 1]], &[]);
    assert_eq!(items, []);
    let summary = result.unwrap();
    assert_eq!((summary.complete, summary.unread), (false, 27));
}

#[test]
fn damage_is_reported_with_its_position() {
    let damage = |stream: &[u8]| execution(&[stream], &[]).1.unwrap_err();
    assert_eq!(damage(b"ELF? no: sixteen").what, Damage::Header);
    let writer = StreamWriter::new(9);
    assert_eq!(damage(&writer.end()).what, Damage::Target(9));
    let mut writer = StreamWriter::new(1);
    writer.thread(0, &[3]);
    assert_eq!(damage(&writer.end()), StreamError { offset: 16, what: Damage::Block(3) });
    let mut writer = StreamWriter::new(1);
    writer.thread(0, &[event(99, 0)]);
    assert_eq!(damage(&writer.end()).what, Damage::Event(99));
    let mut writer = StreamWriter::new(1);
    writer.thread(0, &[event(1, 0)]);
    assert_eq!(damage(&writer.end()).what, Damage::EventContents(1));
    let mut writer = StreamWriter::new(1);
    writer.thread(u32::MAX - 5, &[]);
    assert_eq!(damage(&writer.end()).what, Damage::Threads);
    let mut writer = StreamWriter::new(1);
    writer.define(0, &[]);
    assert_eq!(damage(&writer.end()).what, Damage::Definition);
    let mut writer = StreamWriter::new(1);
    writer.bytes.extend([0, 0, 0, 0, 1, 0, 1, 0]);
    let error = damage(&writer.bytes);
    assert_eq!(error.to_string(), "chunk at offset 0x10: 65537 bytes (expected at most 65536)");
}

/// A stream of two threads with a bit of everything.
fn sample() -> Vec<u8> {
    let mut writer = StreamWriter::new(2);
    let nop = 0xE320_F000u32.to_le_bytes();
    let ldr = 0xE590_0000u32.to_le_bytes();
    writer.define(0x1000, &[(&nop, 0), (&ldr, WATCHED | MAY_FAULT), (&nop, WATCHED)]);
    writer.define(0x2000, &[(&[0x00, 0xBF], 0), (&[0x70, 0x47], 0)]);
    let [a, b, c] = handler(11, 0x2001);
    writer.thread(0, &[a, b, c, 0, event(2, 1 | 2 << 9), 0x8000, 0, 0, event(1, 1), 1, 0]);
    writer.thread(1, &[0, event(9, 1), event(3, 0), 1, event(8, 0)]);
    writer.thread(0, &[1, 0]);
    writer.end()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_division_into_pieces_gives_the_same(cuts in prop::collection::vec(0usize..400, 0..12)) {
        let stream = sample();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % stream.len()).chain([0, stream.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        prop_assert_eq!(execution(&pieces, &[]), execution(&[&stream], &[]));
    }

    #[test]
    fn a_damaged_stream_is_an_error_or_another_stream(at in 16usize..400, with: u8, cut in 0usize..400) {
        let mut stream = sample();
        let at = at % stream.len();
        stream[at] = with;
        stream.truncate(stream.len() - cut % stream.len());
        let (items, _) = execution(&[&stream], &[]);
        prop_assert!(items.len() < 10_000);
    }
}
