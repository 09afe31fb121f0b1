//! Registers and memory of a log, by an index and without.

use std::path::PathBuf;
use std::sync::Arc;

use backsight::moments::Identity;
use backsight::states::{Machine, Making, StateIndex, States, Touch, Watched, register_named};
use backsight::{Buffer, Capture, OpenOptions, Source};
use backsight_tarmac::{Config, Decoder, Line};
use backsight_testing::{Random, corpus, repository};

/// A log in memory, whose last line may be a state.
fn opened(bytes: Vec<u8>, cores: bool) -> Capture {
    let options = OpenOptions::new().protocol("tarmac");
    let options = if cores { options.config("cores=yes") } else { options };
    options.bytes(bytes).expect("options of a log")
}

fn log_of(capture: &Capture) -> (Source, &Buffer) {
    capture.log().expect("a log")
}

fn index(capture: &Capture, part: u64, threads: usize) -> Arc<StateIndex> {
    let (source, buffer) = log_of(capture);
    let making = Making { threads, part };
    Arc::new(making.in_memory(&source, buffer, 1 << 28).expect("an index"))
}

/// Offsets of all lines, and the bytes that they touch.
fn lines(bytes: &[u8]) -> (Vec<u64>, Vec<u64>) {
    let (mut offsets, mut addresses) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::new(&Config { cores: true, ..Config::default() });
    decoder.feed(bytes, &mut |packet| {
        offsets.push(packet.offset);
        if let Line::Memory(memory) = packet.value.line {
            let touched = (0..16).filter(|at| memory.data.touched >> at & 1 == 1);
            addresses.extend(touched.map(|at: u64| memory.address.wrapping_add(at)));
        }
    });
    offsets.dedup();
    addresses.sort_unstable();
    addresses.dedup();
    (offsets, addresses)
}

/// A machine that has read all lines before an offset.
fn plain(bytes: &[u8], offset: u64) -> Machine {
    let (mut machine, mut decoder) = (Machine::new(1 << 30), Decoder::new(&Config::default()));
    decoder.feed(bytes, &mut |packet| {
        if packet.offset < offset {
            machine.push(&packet);
        }
    });
    machine
}

/// Registers and memory of both are the same, but that an index does not keep which instruction wrote memory.
fn assert_same(known: &Machine, expected: &Machine, addresses: &[u64], what: &str) {
    for core in expected.cores() {
        let all = |machine: &Machine| {
            let registers = machine.registers(core);
            registers.map(|(name, contents)| (name, contents.clone())).collect::<Vec<_>>()
        };
        assert_eq!(all(known), all(expected), "{what}");
    }
    for &address in addresses {
        let byte = |machine: &Machine| {
            machine.byte(address).map(|(byte, writer)| (byte, writer.map(|writer| writer.offset)))
        };
        assert_eq!(byte(known), byte(expected), "{what}: {address:#x}");
    }
}

fn bundled(name: &str) -> Vec<u8> {
    std::fs::read(repository().join("testdata/tarmac").join(name)).expect("a bundled log")
}

fn check(bytes: &[u8], part: u64, step: usize, cores: bool) {
    let capture = opened(bytes.to_vec(), cores);
    let (source, _) = log_of(&capture);
    let index = index(&capture, part, 1 + step % 2);
    assert!(index.parts() > 2 || (bytes.len() as u64) < 3 * part, "{} parts", index.parts());
    let (offsets, addresses) = lines(bytes);
    let mut forwards = States::new(&capture, &source, Some(Arc::clone(&index))).expect("a log");
    let mut backwards = States::new(&capture, &source, Some(index)).expect("a log");
    let places: Vec<u64> = offsets.iter().copied().step_by(step).chain([u64::MAX]).collect();
    for (&offset, &last) in places.iter().zip(places.iter().rev()) {
        assert_same(forwards.before(offset).expect("a log"), &plain(bytes, offset), &addresses, "forwards");
        assert_same(backwards.before(last).expect("a log"), &plain(bytes, last), &addresses, "backwards");
    }
}

#[test]
fn states_by_an_index_are_those_of_a_plain_pass_forwards_and_backwards() {
    check(&bundled("calls.tarmac"), 400, 1, false);
    check(&bundled("dialects.tarmac"), 300, 1, true);
    check(&bundled("dialects.tarmac").repeat(3), 700, 7, true);
}

#[test]
fn states_of_other_logs_are_those_of_a_plain_pass() {
    let Some(folder) = corpus().map(|corpus| corpus.join("tarmac")) else { return };
    for name in ["quicksort", "calltests/calltest32", "calltests/calltest64"] {
        let path: PathBuf = folder.join(format!("{name}.tarmac"));
        check(&std::fs::read(path).expect("a log"), 6000, 37, false);
    }
}

/// All accesses of a log that touch some bytes, by a plain pass.
fn touches(bytes: &[u8], first: u64, length: u64, reads: bool) -> Vec<u64> {
    let mut all = Vec::new();
    Decoder::new(&Config::default()).feed(bytes, &mut |packet| {
        if let Line::Memory(memory) = packet.value.line
            && !memory.aborted
            && (memory.write || reads)
        {
            let touched = (0..16).filter(|at| memory.data.touched >> at & 1 == 1);
            let mut touched = touched.map(|at: u64| memory.address.wrapping_add(at));
            if touched.any(|address| (first..first + length).contains(&address)) {
                all.push(packet.offset);
            }
        }
    });
    all
}

#[test]
fn the_last_and_the_next_access_are_those_of_a_plain_pass() {
    let log = bundled("dialects.tarmac").repeat(4);
    let capture = opened(log.clone(), true);
    let (source, _) = log_of(&capture);
    let (offsets, addresses) = lines(&log);
    let mut with = States::new(&capture, &source, Some(index(&capture, 500, 1))).expect("a log");
    let mut without = States::new(&capture, &source, None).expect("a log");
    let mut random = Random(3);
    let mut found = 0;
    for _ in 0..400 {
        let address = addresses[random.below(addresses.len() as u64) as usize];
        let (length, reads) = (1 + random.below(8), random.below(2) == 1);
        let offset = offsets[random.below(offsets.len() as u64) as usize];
        let expected = touches(&log, address, length, reads);
        let last = expected.iter().copied().rfind(|at| *at < offset);
        let next = expected.iter().copied().find(|at| *at >= offset);
        let watched = Watched::Memory { addresses: address..address + length, reads, writes: true };
        let at = |touch: Option<Touch>| touch.map(|touch| touch.writer.offset);
        for states in [&mut with, &mut without] {
            assert_eq!(at(states.last_before(offset, &watched).expect("a log")), last);
            assert_eq!(at(states.next_from(offset, &watched).expect("a log")), next);
        }
        found += u32::from(last.is_some()) + u32::from(next.is_some());
    }
    assert!(found > 400, "{found}");
}

#[test]
fn the_last_and_the_next_write_of_a_register_are_found() {
    let log = bundled("calls.tarmac");
    let capture = opened(log.clone(), false);
    let (source, _) = log_of(&capture);
    let mut with = States::new(&capture, &source, Some(index(&capture, 400, 1))).expect("a log");
    let mut without = States::new(&capture, &source, None).expect("a log");
    let text = String::from_utf8(log).expect("text");
    let expected: Vec<u64> = text.match_indices(" R X30 ").map(|(at, _)| at as u64).collect();
    let watched = Watched::Register(0, register_named("x30").expect("a register"));
    for offset in (0..text.len() as u64).step_by(97) {
        let begins = |at: u64| text[..at as usize].rfind('\n').map_or(0, |end| end as u64 + 1);
        let last = expected.iter().copied().map(begins).rfind(|at| *at < begins(offset));
        let next = expected.iter().copied().map(begins).find(|at| *at >= begins(offset));
        let at = |touch: Option<Touch>| touch.map(|touch| touch.writer.offset);
        for states in [&mut with, &mut without] {
            assert_eq!(at(states.last_before(begins(offset), &watched).expect("a log")), last, "{offset}");
            assert_eq!(at(states.next_from(begins(offset), &watched).expect("a log")), next, "{offset}");
        }
    }
}

#[test]
fn memory_that_changed_between_two_moments_is_named_with_what_it_was() {
    let log = bundled("calls.tarmac");
    let capture = opened(log.clone(), false);
    let (source, _) = log_of(&capture);
    let (offsets, addresses) = lines(&log);
    let mut states = States::new(&capture, &source, Some(index(&capture, 400, 1))).expect("a log");
    let mut random = Random(11);
    let mut found = 0;
    for _ in 0..100 {
        let offset = |random: &mut Random| offsets[random.below(offsets.len() as u64) as usize];
        let (one, other) = (offset(&mut random), offset(&mut random));
        let (from, to) = (one.min(other), one.max(other));
        let byte = |machine: &Machine, address| machine.byte(address).map(|(byte, _)| byte);
        let (before, after) = (plain(&log, from), plain(&log, to));
        let expected: Vec<_> = addresses
            .iter()
            .map(|&address| (address, byte(&before, address), byte(&after, address)))
            .filter(|(_, old, new)| old != new)
            .collect();
        let Ok((changes, false)) = states.memory_changes(one, other) else { continue };
        let changes: Vec<_> = changes.iter().map(|one| (one.address, one.old, one.new)).collect();
        assert_eq!(changes, expected);
        found += changes.len();
    }
    assert!(found > 100, "{found}");
}

#[test]
fn an_index_in_a_file_says_the_same_and_a_damaged_one_nothing_that_is_wrong() {
    let log = bundled("dialects.tarmac").repeat(8);
    let capture = opened(log.clone(), true);
    let (source, buffer) = log_of(&capture);
    let identity = capture.identity_of_trace().expect("a log in memory");
    let mut bytes = Vec::new();
    Making { threads: 2, part: 500 }.write(&source, buffer, identity, &mut bytes).expect("memory");
    let folder = std::env::temp_dir().join(format!("backsight-states-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("log.states");
    let open = |bytes: &[u8], identity| {
        std::fs::write(&path, bytes).expect("a file");
        StateIndex::open(std::fs::File::open(&path).expect("a file"), identity)
    };
    let (offsets, addresses) = lines(&log);
    let offset = offsets[offsets.len() - 5];
    let expected = plain(&log, offset);
    let whole = Arc::new(open(&bytes, identity).expect("an index"));
    let mut states = States::new(&capture, &source, Some(whole)).expect("a log");
    assert_same(states.before(offset).expect("a log"), &expected, &addresses, "a file");
    assert!(open(&bytes, Identity::default()).is_err());
    let mut random = Random(5);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        match random.below(4) {
            0 => damaged.truncate(random.below(bytes.len() as u64) as usize),
            _ => {
                let at = random.below(bytes.len() as u64) as usize;
                damaged[at] ^= 1 << random.below(8);
            }
        }
        let Ok(index) = open(&damaged, identity) else { continue };
        let mut states = States::new(&capture, &source, Some(Arc::new(index))).expect("a log");
        let Ok(machine) = states.before(offset) else { continue };
        for &address in &addresses {
            // What is known is right.
            if let Some((byte, _)) = machine.byte(address) {
                assert_eq!(Some(byte), expected.byte(address).map(|(byte, _)| byte), "{address:#x}");
            }
        }
    }
    std::fs::remove_dir_all(folder).expect("a folder");
}
