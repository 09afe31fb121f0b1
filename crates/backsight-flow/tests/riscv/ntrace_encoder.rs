//! What was executed comes back from its N-Trace messages: the corpus, random programs, every setting.

use std::collections::BTreeSet;

use backsight_core::{Address, AddressSpace, Execution, Isa, Located, Retired};
use backsight_flow::{Buffer, Event, ntrace::Follower};
use backsight_image::Code as _;
use backsight_isa::rv;

use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress, Itype};
use backsight_riscv::ntrace::{Config, Message, Mode, Packet, Resource, encode, event, messages, sync};
use backsight_testing::{Random, corpus, gunzip};
use backsight_unit::ntrace::{Settings, Timestamps, Tracer};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::program::Program;
use crate::random::{Code, Wildness, execute};

/// What both sides must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Retired(u64),
    Trap { interrupt: bool, at: u64 },
}

fn instructions(code: &Program, from: u64, to: u64) -> impl Iterator<Item = u64> + '_ {
    let size = |at: u64| {
        let bytes = code.bytes_at(AddressSpace::ANY, Address(at)).expect("code");
        u64::from(rv::size(u16::from(bytes[0])))
    };
    let mut next = from;
    std::iter::from_fn(move || {
        let at = next;
        (at != to).then(|| {
            next += size(at);
            at
        })
    })
}

/// Blocks, each with whether it is traced.
pub fn blocks(
    executed: &[Execution],
    random: &mut Random,
    filtered: bool,
    ctype: Ctype,
) -> Vec<(Ingress, bool)> {
    let mut builder = Builder::new(4, ctype).longest_block([1 << 16, 6, 1][random.below(3) as usize]);
    let (mut blocks, mut traced) = (Vec::new(), true);
    let mut sink = |ingress: Ingress| {
        traced ^= filtered && random.below(20) == 0;
        blocks.push((ingress, traced));
    };
    executed.iter().for_each(|execution| builder.push(execution, &mut sink));
    builder.finish(&mut sink);
    blocks
}

fn expected(code: &Program, blocks: &[(Ingress, bool)]) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (n, (ingress, traced)) in blocks.iter().enumerate() {
        let (Ingress::Block(block), true) = (ingress, traced) else { continue };
        facts.extend(instructions(code, block.iaddr, block.end()).map(Fact::Retired));
        // A trap is told once its handler is entered.
        let entered = matches!(blocks.get(n + 1), Some((Ingress::Block(_), true)));
        if block.itype.is_trap() && entered {
            facts.push(Fact::Trap { interrupt: block.itype == Itype::Interrupt, at: block.end() });
        }
    }
    facts
}

/// What a trace tells; beside it privileges and contexts, and times.
#[derive(Default)]
struct Told {
    facts: Vec<Fact>,
    owners: Vec<(u8, Option<u64>)>,
    times: Vec<u64>,
}

fn told(code: &Program, bytes: &[u8], config: &Config) -> Told {
    let mut follower = Follower::new(rv::Set::RV64, code);
    let Told { mut facts, mut owners, mut times } = Told::default();
    let mut sink = |event: Located<Event>| match event.value {
        Event::Range(range) => {
            facts.extend(instructions(code, range.start.0, range.end.0).map(Fact::Retired));
        }
        Event::Exception { cause, return_address, .. } => {
            facts
                .push(Fact::Trap { interrupt: cause.is_interrupt(), at: return_address.expect("a place").0 });
        }
        Event::Context(context, _) => owners.push((context.level(), context.context_id)),
        Event::Timestamp { value, .. } => times.push(value),
        Event::Mismatch { .. } | Event::NoMemory { .. } | Event::NoSync(_) => panic!("{event:x?}"),
        _ => {}
    };
    let mut all = Vec::new();
    let mut both = |event: Located<Event>| {
        all.push(event);
        sink(event);
    };
    messages(config, bytes).into_iter().for_each(|packet| follower.push(packet, &mut both));
    follower.finish(&mut both);
    assert!(in_pieces(code, bytes, config) == all, "a sink that has enough gets other events");
    owners.dedup();
    Told { facts, owners, times }
}

/// The events, through a sink that has enough after each.
fn in_pieces(code: &Program, bytes: &[u8], config: &Config) -> Vec<Located<Event>> {
    let mut follower = Follower::new(rv::Set::RV64, code);
    let (mut events, mut buffer) = (Vec::new(), Buffer::new(1));
    for packet in messages(config, bytes) {
        follower.push(packet, &mut buffer);
        while follower.is_paused() {
            assert!(buffer.events().len() < 8);
            events.extend(buffer.drain());
            follower.resume(&mut buffer);
        }
        events.extend(buffer.drain());
    }
    follower.finish(&mut buffer);
    events.extend(buffer.drain());
    events
}

/// Privileges and contexts of the traced blocks.
fn owners(blocks: &[(Ingress, bool)]) -> Vec<(u8, Option<u64>)> {
    let of = |(ingress, traced): &(Ingress, bool)| match ingress {
        Ingress::Block(block) if *traced => Some((block.privilege, Some(block.context))),
        _ => None,
    };
    let mut owners: Vec<_> = blocks.iter().filter_map(of).collect();
    owners.dedup();
    owners
}

pub fn settings(random: &mut Random) -> Settings {
    let mode = [ResyncMode::Off, ResyncMode::Packets, ResyncMode::Cycles, ResyncMode::HalfWords];
    Settings {
        mode: [Mode::History, Mode::History, Mode::Branch][random.below(3) as usize],
        history_bits: [1, 2, 7, 31, 62][random.below(5) as usize],
        repeat_history: random.below(2) == 0,
        count_limit: [1, 20, 300, u32::MAX][random.below(4) as usize],
        repeat_branch: random.below(2) == 0,
        return_stack: [0, 1, 3, 64][random.below(4) as usize],
        ownership: random.below(2) == 0,
        timestamps: [Timestamps::Off, Timestamps::Synchronising, Timestamps::All][random.below(3) as usize],
        resync: Resync {
            mode: mode[random.below(4) as usize],
            limit: [1, 3, 16, 60][random.below(4) as usize],
        },
        source: random.below(16) as u16,
        ..Settings::default()
    }
}

/// Gives the names of the messages sent.
fn run(seed: u64) -> BTreeSet<&'static str> {
    let mut random = Random(seed);
    let settings = settings(&mut random);
    let code = Code::new(&mut random, 60);
    let wild = Wildness {
        returns: random.below(2) == 0,
        traps: [0, 10, 80][random.below(3) as usize],
        contexts: [0, 10][random.below(2) as usize],
        taken: [10, 50, 90, 99][random.below(4) as usize],
    };
    let executed = execute(&code, &mut random, 400, wild);
    let filtered = random.below(3) == 0;
    let ctype = [Ctype::Unreported, Ctype::Precise][random.below(2) as usize];
    let blocks = blocks(&executed, &mut random, filtered, ctype);
    let config = Config::with_source_bits(4);
    let mut encoder = Tracer::new(settings);
    let mut bytes = Vec::new();
    let mut names = BTreeSet::new();
    let mut sink = |packet: Packet| {
        names.insert(packet.message.name());
        assert!(encode(&config, &packet, &mut bytes));
    };
    for (ingress, traced) in &blocks {
        match ingress {
            Ingress::Block(block) if *traced => encoder.push(block, &mut sink),
            _ => encoder.unqualified(&mut sink),
        }
    }
    encoder.finish(&mut sink);
    let Told { facts, owners: told_owners, times } = told(&code.program, &bytes, &config);
    let expected = expected(&code.program, &blocks);
    let same = expected.iter().zip(&facts).take_while(|(a, b)| a == b).count();
    assert_eq!(expected.get(same), facts.get(same), "seed {seed}, fact {same}: {settings:?}");
    if settings.ownership && ctype == Ctype::Precise {
        assert_eq!(told_owners, owners(&blocks), "seed {seed}: {settings:?}");
    } else if !settings.ownership {
        assert!(told_owners.is_empty(), "seed {seed}");
    }
    assert!(times.is_sorted(), "seed {seed}: {times:?}");
    assert_eq!(times.is_empty(), settings.timestamps == Timestamps::Off || facts.is_empty(), "seed {seed}");
    names
}

#[test]
fn what_was_executed_comes_back_with_every_setting() {
    let names: BTreeSet<_> = (0..1500).flat_map(run).collect();
    let all = [
        "DirectBranch",
        "DirectBranchSync",
        "IndirectBranch",
        "IndirectBranchHist",
        "IndirectBranchHistSync",
        "IndirectBranchSync",
        "Ownership",
        "ProgTraceCorrelation",
        "ProgTraceSync",
        "RepeatBranch",
        "ResourceFull",
    ];
    assert!(names.iter().eq(all.iter()), "{names:?}");
}

#[test]
fn the_reference_stream_is_made_from_its_pc_sequence() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("ntrace");
    let trace = std::fs::read(folder.join("test-NEX.bin")).expect("trace");
    let text = String::from_utf8(gunzip(&folder.join("test-PCSEQ.txt.gz"))).expect("text");
    let sequence: Vec<(u64, u8)> = text
        .lines()
        .map(|line| {
            let (address, kind) = line.split_once(',').expect("address and kind");
            let size = kind.as_bytes()[1 + usize::from(!kind.as_bytes()[1].is_ascii_digit())];
            (u64::from_str_radix(&address[2..], 16).expect("address"), size - b'0')
        })
        .collect();
    let elf = std::fs::read(folder.join("test.elf")).expect("program");
    let opcode = |address: u64| opcode_of(&elf, address);
    let settings = Settings { start: sync::EXIT_FROM_RESET, end: event::DEBUG_ENTRY, ..Settings::default() };
    let mut encoder = Tracer::new(settings);
    let mut builder = Builder::new(4, Ctype::Unreported);
    let mut bytes = Vec::new();
    let mut send = |packet: Packet| assert!(encode(&Config::default(), &packet, &mut bytes));
    let mut each = |ingress: Ingress| {
        if let Ingress::Block(block) = ingress {
            encoder.push(&block, &mut send);
        }
    };
    for (n, &(address, size)) in sequence.iter().enumerate() {
        let end = address + u64::from(size);
        let next = sequence.get(n + 1).map_or(end, |&(next, _)| next);
        let retired = Retired {
            address: Address(address),
            next: Address(next),
            cycle: 0,
            opcode: opcode(address),
            size,
            isa: Isa::Rv32,
            taken: next != end,
        };
        builder.push(&Execution::Instruction(retired), &mut each);
    }
    builder.finish(&mut each);
    encoder.finish(&mut send);
    let same = bytes.iter().zip(&trace).take_while(|(a, b)| a == b).count();
    assert_eq!((same, bytes.len()), (trace.len(), trace.len()));
}

/// The opcode at an address of a 32-bit ELF file.
fn opcode_of(elf: &[u8], address: u64) -> u32 {
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().expect("four bytes")) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(elf[at..at + 2].try_into().expect("two bytes")));
    let (table, size, count) = (word(28), half(42), half(44));
    let address = address as usize;
    let (offset, base) = (0..count)
        .map(|index| table + index * size)
        .map(|at| (word(at + 4), word(at + 8), word(at + 16)))
        .find(|&(_, base, length)| (base..base + length).contains(&address))
        .map(|(offset, base, _)| (offset, base))
        .expect("a segment with the code");
    rv::opcode(&elf[offset + address - base..]).expect("an instruction")
}

fn branch(taken: bool) -> Block {
    let itype = if taken { Itype::Taken } else { Itype::NotTaken };
    Block { iaddr: 0x1000, iretire: 2, ilastsize: 1, itype, ..Block::default() }
}

#[test]
fn a_history_that_repeats_is_sent_once() {
    let mut encoder = Tracer::new(Settings { history_bits: 2, ..Settings::default() });
    let mut sent = Vec::new();
    for taken in [true, false, true, false, true, false, true, true, true] {
        encoder.push(&branch(taken), &mut |packet| sent.push(packet.message));
    }
    encoder.finish(&mut |packet| sent.push(packet.message));
    let full = |message: &Message| match message {
        Message::ResourceFull(Resource::HistoryRepeat { history, times }) => Some((history.0, *times)),
        Message::ResourceFull(Resource::History(history)) => Some((history.0, 1)),
        _ => None,
    };
    assert_eq!(sent.iter().filter_map(full).collect::<Vec<_>>(), [(0b110, 3), (0b111, 1)]);
    assert!(matches!(sent.first(), Some(Message::ProgramTraceSync { reason: sync::TRACE_ENABLE, .. })));
    let last = sent.last();
    assert!(
        matches!(last, Some(Message::ProgramTraceCorrelation { count: 18, history: Some(rest), .. }) if rest.0 == 0b11)
    );
}

#[test]
fn the_time_of_a_message_is_that_of_what_led_to_its_address() {
    let settings = Settings { timestamps: Timestamps::All, repeat_branch: true, ..Settings::default() };
    let (mut encoder, mut sent) = (Tracer::new(settings), Vec::new());
    for time in [100, 110, 140, 190] {
        let block = Block { time, itype: Itype::UninferableJump, ..branch(true) };
        encoder.push(&block, &mut |packet| sent.push((packet.timestamp, packet.message.name())));
    }
    encoder.finish(&mut |packet| sent.push((packet.timestamp, packet.message.name())));
    let expected = [
        (Some(100), "ProgTraceSync"),
        (Some(0), "IndirectBranchHist"),
        (Some(90), "RepeatBranch"),
        (Some(0), "ProgTraceCorrelation"),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn a_loss_is_told_and_followed_by_synchronisation() {
    let mut encoder = Tracer::new(Settings::default());
    encoder.push(&branch(true), &mut |_| {});
    encoder.lose();
    let mut sent = Vec::new();
    encoder.push(&branch(false), &mut |packet| sent.push(packet.message));
    assert!(matches!(
        sent[..],
        [
            Message::Error { .. },
            Message::ProgramTraceSync { reason: sync::OVERRUN, count: 0, address: 0x800 }
        ]
    ));
}
