//! The N-Trace stream of the corpus, followed through its program.

use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::{Event, ntrace::Follower};
use backsight_image::Code;
use backsight_isa::rv;
use backsight_riscv::ntrace::{BranchKind, Config, History, Message, Packet, Resource, encode, messages};
use backsight_testing::{corpus, gunzip};

/// Code at one place.
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
        Event::TraceOn(_) | Event::EndOfTrace { .. } => {}
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
    Packet { source: 0, timestamp: None, message }
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
