//! Tarmac logs as captures.

use std::io::Write as _;
use std::path::PathBuf;

use backsight::core::{Address, AddressSpace};
use backsight::image::{Code as _, Elf};
use backsight::moments::Moment;
use backsight::{Capture, Error, Event, OpenOptions, states};
use backsight_testing::{Random, corpus, repository};

use super::pieces;

fn bundled(name: &str) -> PathBuf {
    repository().join("testdata/tarmac").join(name)
}

/// The addresses of all instructions, by core.
fn executed(capture: &Capture) -> Vec<(u16, u64)> {
    let code = capture.code().unwrap();
    let source = capture.buffers()[0].sources().next().unwrap().clone();
    let code = code.seen_by(&source);
    let mut all = Vec::new();
    let take = |item: backsight::Item<'_, Event>| {
        let Event::Range(range) = item.value else { return };
        let mut address = range.start;
        for _ in 0..range.instructions {
            all.push((item.sub_source, address.0));
            let (bytes, count) = code.opcode_at(AddressSpace::ANY, address);
            let opcode = backsight::isa::classify(range.isa, &bytes[..count], address);
            address = address.plus(opcode.expect("code of an executed instruction").size.into());
        }
        assert_eq!(address, range.end);
    };
    capture.execution().threads(1).run(take).unwrap();
    all
}

/// The instructions that the text of a log has: core and address, in the order of lines.
fn listed(text: &str) -> Vec<(u16, u64)> {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let core = words.iter().find_map(|word| word.strip_prefix("cpu")?.parse().ok()).unwrap_or(0);
        let kind = words.iter().position(|&word| word == "IT" || word == "IS")?;
        let address = words.get(kind + 2)?.split(':').next()?;
        Some((core, u64::from_str_radix(address, 16).ok()?))
    };
    text.lines().filter_map(of_line).collect()
}

#[test]
fn a_log_is_recognised_plain_and_compressed_and_brings_its_code() {
    let text = std::fs::read(bundled("calls.tarmac")).unwrap();
    let expected = listed(std::str::from_utf8(&text).unwrap());
    assert_eq!(expected.len(), 32);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&text).unwrap();
    // Two frames of Zstandard, each of one block that is stored as it is.
    let frame = |bytes: &[u8]| {
        let size = u32::try_from(bytes.len()).unwrap();
        let block = size << 3 | 1;
        [&[0x28, 0xB5, 0x2F, 0xFD, 0xA0], &size.to_le_bytes()[..], &block.to_le_bytes()[..3], bytes].concat()
    };
    let zstd = [frame(&text[..1000]), frame(&text[1000..])].concat();
    let folder = std::env::temp_dir().join(format!("backsight-tarmac-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in [("plain", &text), ("gzip", &gzip.finish().unwrap()), ("zstd", &zstd)] {
        std::fs::write(folder.join(name), bytes).unwrap();
        let capture = Capture::open(folder.join(name)).unwrap();
        assert_eq!(executed(&capture), expected, "{name}");
    }
    std::fs::write(folder.join("other"), "1 clk of text that is no log\n2 clk R\n").unwrap();
    assert!(matches!(Capture::open(folder.join("other")), Err(Error::Undescribed(_))));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn branches_exceptions_and_returns_show_in_what_comes_next() {
    let capture = Capture::open(bundled("calls.tarmac")).unwrap();
    let mut ends = Vec::new();
    let take = |item: backsight::Item<'_, Event>| match item.value {
        Event::Range(range) => ends.push((range.end.0, range.ending())),
        Event::Exception { cause, return_address, .. } if return_address.is_some() => {
            ends.push((return_address.unwrap().0, cause.name().unwrap()));
        }
        Event::ExceptionReturn => ends.push((0, "returned")),
        _ => {}
    };
    let summary = capture.execution().run(take).unwrap();
    assert_eq!(summary.statistics().symptoms.iter().sum::<u64>(), 0);
    let last: Vec<_> = ends.iter().rev().take(6).rev().copied().collect();
    let expected = [
        (0x1014, "not taken"),
        (0x1018, ""),
        (0x1018, "Call: SVC, HVC or SMC"),
        (0x2204, "exception return"),
        (0, "returned"),
        (0x101C, ""),
    ];
    assert_eq!(last, expected);
    assert_eq!(ends.iter().filter(|(_, ending)| *ending == "call").count(), 6);
    assert_eq!(ends.iter().filter(|(_, ending)| *ending == "branch").count(), 2);
}

#[test]
fn cores_are_apart_and_damage_is_counted() {
    let capture = Capture::open(bundled("dialects.tarmac")).unwrap();
    let source = capture.buffers()[0].sources().next().unwrap();
    assert!(source.numbers_harts());
    let mut of_core_1 = Vec::new();
    let take = |item: backsight::Item<'_, Event>| {
        if item.sub_source == 1 {
            of_core_1.push(item.value);
        }
    };
    let summary = capture.execution().run(take).unwrap();
    let ranges: Vec<_> = of_core_1
        .iter()
        .filter_map(|event| match event {
            Event::Range(range) => Some((range.start.0, range.instructions)),
            _ => None,
        })
        .collect();
    // The instruction that faulted is not among them.
    assert_eq!(ranges, [(0x9000, 1), (0x10, 1)]);
    let is_abort =
        |event: &Event| matches!(event, Event::Exception { return_address: Some(Address(0x9004)), .. });
    assert_eq!(of_core_1.iter().filter(|event| is_abort(event)).count(), 1);
    assert_eq!(summary.statistics().gaps.bad_packet, 2);
    assert_eq!(summary.accounting().bad, 41);
}

/// A long log: the small one again and again, with times that go on.
fn long(turns: u64) -> Vec<u8> {
    let text = std::fs::read_to_string(bundled("calls.tarmac")).unwrap();
    let mut long = String::new();
    for turn in 0..turns {
        for line in text.lines() {
            let (time, rest) = line.split_once(' ').unwrap();
            long += &format!("{} {rest}\n", time.parse::<u64>().unwrap() + 40 * turn);
        }
    }
    long.into_bytes()
}

#[test]
fn pieces_of_a_log_give_what_one_thread_gives() {
    let capture = OpenOptions::new().protocol("tarmac").bytes(long(100)).unwrap();
    pieces::check(&capture, &[3000, 20_000, 100_000], "calls");
    let text = std::fs::read(bundled("dialects.tarmac")).unwrap();
    let options = OpenOptions::new().protocol("tarmac").config("cores=yes");
    pieces::check(&options.bytes(text.repeat(40)).unwrap(), &[3000, 20_000], "dialects");
}

#[test]
fn every_cut_and_thousands_of_mutations_are_followed() {
    let text = std::fs::read(bundled("dialects.tarmac")).unwrap();
    let follow = |bytes: &[u8]| {
        let capture = OpenOptions::new().protocol("tarmac").config("cores=yes").bytes(bytes).unwrap();
        let mut last = 0;
        let summary = capture.execution().threads(1).run(|item| last = item.offset).unwrap();
        assert_eq!(summary.accounting().total(), bytes.len() as u64);
        assert!(last <= bytes.len() as u64);
        capture.code().unwrap().seen_by_all().bytes_at(AddressSpace::ANY, Address(0x8000)).map(<[u8]>::len)
    };
    for end in 0..=text.len() {
        follow(&text[..end]);
    }
    let mut random = Random(7);
    for _ in 0..2000 {
        let mut bytes = text.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b" \n:()<>_-xX0fA#"[random.below(15) as usize]),
            }
        }
        follow(&bytes);
    }
}

#[test]
fn opcodes_and_instructions_of_other_logs_are_those_of_their_programs() {
    let Some(folder) = corpus().map(|corpus| corpus.join("tarmac")) else { return };
    for (log, program) in [
        ("quicksort", "quicksort"),
        ("calculator-aarch32-fastmodel", "calculator-aarch32"),
        ("calculator-aarch64-fastmodel", "calculator-aarch64"),
        ("calltests/calltest32", "calltests/calltest32"),
        ("calltests/calltest64", "calltests/calltest64"),
    ] {
        let path = folder.join(format!("{log}.tarmac"));
        let text = std::fs::read_to_string(&path).unwrap();
        let capture = Capture::open(&path).unwrap();
        let all = executed(&capture);
        assert_eq!(all, listed(&text), "{log}");
        let summary = capture.execution().run(|_| {}).unwrap();
        assert_eq!((summary.accounting().bad, summary.statistics().gaps.total()), (0, 0), "{log}");
        assert_eq!(summary.statistics().symptoms.iter().sum::<u64>(), 0, "{log}");
        let elf = folder.join(format!("{program}.elf"));
        assert!(Elf::is_elf(&std::fs::read(&elf).unwrap()));
        let known = OpenOptions::new().image(elf.to_str().unwrap()).open(&path).unwrap();
        let (logged, known) = (capture.code().unwrap().seen_by_all(), known.code().unwrap());
        for (_, address) in all {
            let logged = logged.opcode_at(AddressSpace::ANY, Address(address));
            let own = known.image().opcode_at(AddressSpace::ANY, Address(address));
            assert_eq!(logged.0[..logged.1.min(4)], own.0[..logged.1.min(4)], "{log} {address:#x}");
        }
    }
}

#[test]
fn the_state_of_a_moment_is_that_before_its_instruction() {
    let capture = Capture::open(bundled("calls.tarmac")).unwrap();
    let source = capture.buffers()[0].sources().next().unwrap().clone();
    let (moments, decode) = (capture.moments(), capture.execution());
    let state = |moment| states::state_at(&moments, &decode, &source, moment, None).unwrap();
    let x19 = |state: &states::State| {
        let found = state.machine.registers(0).find(|(name, _)| name.as_str() == "x19");
        found.and_then(|(_, contents)| contents.bytes[0])
    };
    for (number, (_, address)) in executed(&capture).into_iter().enumerate() {
        let state = state(Moment::Instruction(number as u64));
        assert_eq!(state.next, Some(Address(address)), "{number}");
        assert_eq!(state.place.map(|place| place.instructions), Some(number as u64));
        let turns = match number {
            0 => 0,
            1..=9 => 3,
            10..=18 => 2,
            19..=27 => 1,
            _ => 0,
        };
        assert_eq!(x19(&state), Some(turns), "{number}");
    }
    let end = state(Moment::END);
    assert!(end.next.is_none() && end.place.is_none());
    // The host was called: its result is not in the log.
    assert!(end.machine.registers(0).all(|(name, _)| name.as_str() != "x0"));
    let before = state(Moment::BeforeEnd(1));
    let (byte, writer) = before.machine.byte(0xFFF0).unwrap();
    assert_eq!((byte, writer.and_then(|writer| writer.instruction)), (0x0C, Some(0x1030)));
}
