//! The N-Trace stream of the corpus, followed through its program.

use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::ntrace::{Follower, Options};
use backsight_flow::{Buffer, Event};
use backsight_image::Code;
use backsight_isa::rv;
use backsight_riscv::ntrace::{BranchKind, Config, History, Message, Packet, Resource, encode, messages};
use backsight_testing::{corpus, gunzip};

/// Code from one address on.
#[derive(Clone)]
struct Flat {
    base: u64,
    bytes: Vec<u8>,
}

impl Code for Flat {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let offset = usize::try_from(address.0.checked_sub(self.base)?).ok()?;
        self.bytes.get(offset..).filter(|bytes| !bytes.is_empty())
    }
}

/// The loaded segment of a 32-bit ELF file that holds `address`.
fn segment(elf: &[u8], address: u64) -> Flat {
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().expect("four bytes")) as usize;
    let half = |at: usize| u16::from_le_bytes(elf[at..at + 2].try_into().expect("two bytes")) as usize;
    let (table, size, count) = (word(28), half(42), half(44));
    (0..count)
        .map(|index| table + index * size)
        .map(|at| (word(at + 4), word(at + 8), word(at + 16)))
        .find(|&(_, base, length)| (base as u64..(base + length) as u64).contains(&address))
        .map(|(offset, base, length)| Flat {
            base: base as u64,
            bytes: elf[offset..offset + length].to_vec(),
        })
        .expect("a segment with the code")
}

#[test]
fn the_reference_stream_gives_its_pc_sequence() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("ntrace");
    let trace = std::fs::read(folder.join("test-NEX.bin")).expect("trace");
    let code = segment(&std::fs::read(folder.join("test.elf")).expect("program"), 0x2001_0522);
    let expected: Vec<u64> = String::from_utf8(gunzip(&folder.join("test-PCSEQ.txt.gz")))
        .expect("text")
        .lines()
        .map(|line| u64::from_str_radix(&line[2..10], 16).expect("address"))
        .collect();

    let mut executed = Vec::new();
    let mut follower = Follower::new(rv::Set::RV32, &code);
    let mut sink = |event: Located<Event>| match event.value {
        Event::Range(range) => {
            let mut pc = range.start;
            for _ in 0..range.instructions {
                executed.push(pc.0);
                let bytes = code.bytes_at(AddressSpace::ANY, pc).expect("code");
                pc = pc.plus(u64::from(rv::size(u16::from_le_bytes([bytes[0], bytes[1]]))));
            }
            assert_eq!(pc, range.end);
        }
        Event::StartOfTrace | Event::TraceOn(_) | Event::EndOfTrace { .. } => {}
        other => panic!("{other:?}"),
    };
    for packet in messages(&Config::default(), &trace) {
        follower.push(packet, &mut sink);
    }
    follower.finish(&mut sink);
    assert_eq!(executed.len(), expected.len());
    assert!(executed == expected, "the sequences differ");
}

#[test]
fn the_reference_stream_is_encoded_to_the_same_bytes() {
    let Some(corpus) = corpus() else { return };
    let trace = std::fs::read(corpus.join("ntrace/test-NEX.bin")).expect("trace");
    let mut bytes = Vec::new();
    for packet in messages(&Config::default(), &trace) {
        assert!(encode(&Config::default(), &packet.value, &mut bytes));
    }
    assert_eq!(bytes.len(), trace.len());
    assert!(bytes == trace, "the bytes differ");
}

/// `0x100: c.nop; beq x0, x0, +0x10`, and at 0x112 `c.nop` twice.
fn forward_branch() -> Flat {
    let mut bytes = vec![0x01, 0x00, 0x63, 0x08, 0x00, 0x00];
    bytes.resize(0x12, 0);
    bytes.extend([0x01, 0x00, 0x01, 0x00]);
    Flat { base: 0x100, bytes }
}

fn addresses(packets: &[Packet]) -> Vec<u64> {
    let code = forward_branch();
    let mut follower = Follower::new(rv::Set::RV64, &code);
    let mut executed = Vec::new();
    let mut sink = |event: Located<Event>| match event.value {
        Event::Range(range) => executed.push(range.start.0..range.end.0),
        Event::Mismatch { .. } | Event::NoMemory { .. } => panic!("{event:x?}"),
        _ => {}
    };
    for &value in packets {
        follower.push(Located { offset: 0, length: 1, value }, &mut sink);
    }
    follower.finish(&mut sink);
    executed.into_iter().flatten().filter(|address| address % 2 == 0).collect()
}

fn packet(message: Message) -> Packet {
    Packet::new(0, None, message)
}

#[test]
fn a_full_counter_waits_for_the_history_of_what_it_spans() {
    let start = packet(Message::ProgramTraceSync { reason: 3, count: 0, address: 0x80 });
    let full = packet(Message::ResourceFull(Resource::Count(4)));
    let history = Some(History::EMPTY.with(true));
    let end = packet(Message::ProgramTraceCorrelation { reason: 0, count: 1, history });
    assert_eq!(addresses(&[start, full, end]), [0x100, 0x102, 0x104, 0x112, 0x114]);
    // Without histories every taken branch is told: what the counter spans was not taken.
    let branch = packet(Message::DirectBranch { count: 3 });
    let end = packet(Message::ProgramTraceCorrelation { reason: 0, count: 0, history: None });
    let full = packet(Message::ResourceFull(Resource::Count(1)));
    assert_eq!(addresses(&[start, branch, full, end]), [0x100, 0x102, 0x104, 0x112]);
}

#[test]
fn differences_mean_nothing_where_messages_are_missing() {
    let start = packet(Message::ProgramTraceSync { reason: 3, count: 0, address: 0x80 });
    let error = packet(Message::Error { kind: 0, code: 4 });
    let jump = |address| packet(Message::IndirectBranch { kind: BranchKind::Indirect, count: 1, address });
    let end = packet(Message::ProgramTraceCorrelation { reason: 0, count: 1, history: None });
    assert_eq!(addresses(&[jump(0x80), end]), [0u64; 0]);
    assert_eq!(addresses(&[start, error, jump(0), end]), [0u64; 0]);
}

/// `0x100: c.nop; bne x0, x0, 0x100; c.nop; c.nop`: a reader of its trace cannot know that it never branches.
fn turns() -> Flat {
    Flat { base: 0x100, bytes: vec![0x01, 0x00, 0xE3, 0x1F, 0x00, 0xFE, 0x01, 0x00, 0x01, 0x00] }
}

fn start() -> Packet {
    packet(Message::ProgramTraceSync { reason: 5, count: 0, address: 0x80 })
}

/// Ranges, most events at a time, and how many of them are no ranges.
fn counted(code: &Flat, packets: &[Packet]) -> (u64, usize, u64) {
    let (mut follower, mut buffer) = (Follower::new(rv::Set::RV64, code), Buffer::new(100));
    let (mut ranges, mut others, mut most) = (0, 0, 0);
    let mut drain = |buffer: &mut Buffer| {
        most = most.max(buffer.events().len());
        for event in buffer.drain() {
            let is_range = matches!(event.value, Event::Range(_));
            (ranges, others) = (ranges + u64::from(is_range), others + u64::from(!is_range));
        }
    };
    for &value in packets {
        follower.push(Located { offset: 0, length: 1, value }, &mut buffer);
        while follower.is_paused() {
            drain(&mut buffer);
            follower.resume(&mut buffer);
        }
    }
    follower.finish(&mut buffer);
    drain(&mut buffer);
    assert_eq!(follower.statistics().ranges, ranges);
    (ranges, most, others)
}

#[test]
fn a_message_that_stands_for_millions_of_turns_fills_no_memory() {
    let history = (0..31).fold(History::EMPTY, |history, _| history.with(true));
    let repeated = packet(Message::ResourceFull(Resource::HistoryRepeat { history, times: 100_000 }));
    assert_eq!(counted(&turns(), &[start(), repeated]), (3_100_000, 100, 3));
    let branch = packet(Message::DirectBranch { count: 3 });
    let again = packet(Message::RepeatBranch { count: 262_144 });
    assert_eq!(counted(&turns(), &[start(), branch, again, again]), (524_289, 100, 3));
}

#[test]
fn a_count_that_no_field_can_have_is_a_bad_packet() {
    let history = History::EMPTY.with(true);
    let repeated = Message::ResourceFull(Resource::HistoryRepeat { history, times: 1 << 20 });
    let full = Message::ResourceFull(Resource::Count(u32::MAX));
    for message in [repeated, full, Message::RepeatBranch { count: u32::MAX }] {
        let branch = packet(Message::DirectBranch { count: 3 });
        let (ranges, _, others) = counted(&turns(), &[start(), branch, packet(message)]);
        // Start of trace, trace on, the gap, end of trace.
        assert_eq!((ranges, others), (1, 4), "{message:?}");
    }
}

fn lines(follower: &mut Follower<Flat>, messages: &[Message]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
    for &message in messages {
        follower.push(Located { offset: 0, length: 1, value: packet(message) }, &mut sink);
    }
    lines
}

#[test]
fn repetitions_end_where_code_and_trace_do_not_fit() {
    let begin = Message::ProgramTraceSync { reason: 5, count: 0, address: 0x80 };
    let again = Message::RepeatBranch { count: 262_144 };
    // Where the trace has a taken branch, the code has none.
    let mut follower = Follower::new(rv::Set::RV64, turns());
    let differs = "image does not fit at 0x102: the trace counts other instructions than the code has";
    let direct = lines(&mut follower, &[begin, Message::DirectBranch { count: 1 }, again]);
    assert_eq!(direct[2..], ["0x100-0x102 1 instructions RV64", differs]);
    let kind = BranchKind::Indirect;
    let mut follower = Follower::new(rv::Set::RV64, turns());
    let jump = Message::IndirectBranch { kind, count: 1, address: 0 };
    let indirect = lines(&mut follower, &[begin, jump, again]);
    let elsewhere = "image does not fit at 0x102: the trace names another address than the code leads to";
    let once = ["0x100-0x102 1 instructions RV64", elsewhere];
    assert_eq!(indirect[2..], [once, once].concat());
}

#[test]
fn a_follower_can_begin_anew_and_its_code_can_change() {
    let begin = Message::ProgramTraceSync { reason: 5, count: 0, address: 0x80 };
    let turn = Message::DirectBranch { count: 3 };
    let mut follower = Follower::new(rv::Set::RV64, turns());
    let old = "0x100-0x106 2 instructions RV64 branch";
    assert_eq!(lines(&mut follower, &[begin, turn, turn])[2..], [old, old]);
    // A jump takes the place of the branch, and another instruction comes before it.
    *follower.change_code(AddressSpace::ANY, 0x100..0x108) =
        Flat { base: 0x100, bytes: vec![0x01, 0x00, 0x01, 0x00, 0x6F, 0xF0, 0xDF, 0xFF] };
    let new = "0x100-0x108 3 instructions RV64 branch";
    assert_eq!(lines(&mut follower, &[Message::DirectBranch { count: 4 }]), [new]);
    follower.reset();
    assert_eq!(lines(&mut follower, &[turn]), ["start of trace"]);
    let again = ["gap: not synchronised yet", "trace on: begin or filter", new];
    assert_eq!(lines(&mut follower, &[begin, Message::DirectBranch { count: 4 }]), again);
    assert_eq!((follower.statistics().instructions, follower.statistics().skipped), (10, 1));
}

#[test]
fn an_undefined_instruction_ends_what_is_followed_only_where_the_image_is_to_be_strict() {
    let code = Flat { base: 0x100, bytes: vec![0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x82, 0x80] };
    let begin = Message::ProgramTraceSync { reason: 5, count: 0, address: 0x80 };
    let full = Message::ResourceFull(Resource::Count(4));
    for (strict_image, left) in [(false, 1), (true, 0)] {
        let options = Options { strict_image, ..Options::default() };
        let mut follower = Follower::with_options(rv::Set::RV64, code.clone(), options);
        let lines = lines(&mut follower, &[begin, full]);
        let symptom = "image does not fit at 0x102: an undefined instruction was executed";
        assert_eq!(lines[2..4], ["0x100-0x102 1 instructions RV64", symptom]);
        let returns = lines.iter().filter(|line| line.ends_with(" return")).count();
        assert_eq!(returns, left, "{lines:?}");
        assert_eq!(lines.contains(&"gap: wrong image".to_owned()), strict_image);
    }
}
