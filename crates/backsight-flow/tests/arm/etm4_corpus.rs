//! What must hold for every capture, whatever is expected of it.

use std::collections::HashMap;

use crate::corpus::{Memory, Source, buffers, follow};
use backsight_arm::etm4::{Atoms, Config, Decoder, Packet};
use backsight_core::Located;
use backsight_flow::etm4::{Follower, Options};
use backsight_flow::{Event, PathId, PathRanges, Range, Sink, Statistics, Symptom};
use backsight_isa::Class;
use backsight_testing::Random;

/// Sources that are small enough to be followed often. `None` without a corpus.
fn small() -> Option<impl Iterator<Item = (String, Source)>> {
    let sources = buffers(None)?.into_iter().flat_map(|buffer| {
        let name = buffer.name;
        buffer.sources.into_iter().map(move |source| (name.clone(), source))
    });
    Some(sources.filter(|(_, source)| source.streams.iter().map(Vec::len).sum::<usize>() < 16_384))
}

#[test]
fn remembering_blocks_changes_nothing() {
    let Some(sources) = small() else { return };
    for (name, source) in sources {
        let usual = source.events(Options::default());
        for cached_blocks in [0, 7] {
            assert!(usual == source.events(Options { cached_blocks, ..Options::default() }), "{name}");
        }
    }
}

/// Follows streams twice, so that what was remembered is used.
fn follow_twice(source: &Source, streams: &[Vec<u8>], by_runs: bool) -> (Vec<Located<Event>>, Statistics) {
    let mut events = Vec::new();
    let mut follower = Follower::new(&source.config, &source.memory);
    let mut decoder = Decoder::new(&source.config);
    for stream in streams.iter().chain(streams) {
        let mut sink = |event: Located<Event>| events.push(event);
        if by_runs {
            decoder.feed_to(stream, &mut follower.input(&mut sink));
        } else {
            decoder.feed(stream, &mut |packet| follower.push(packet, &mut sink));
        }
        decoder.reset(&mut |packet| follower.push(packet, &mut sink));
        follower.finish(&mut sink);
    }
    (events, *follower.statistics())
}

#[test]
fn runs_of_atoms_are_followed_as_packet_by_packet() {
    let Some(buffers) = buffers(None) else { return };
    let mut random = Random(3);
    for buffer in buffers {
        for source in &buffer.sources {
            let mut streams = source.streams.clone();
            for _ in 0..4 {
                let (events, statistics) = follow_twice(source, &streams, false);
                let (by_runs, counted) = follow_twice(source, &streams, true);
                assert!(events == by_runs, "{}", buffer.name);
                assert_eq!(statistics, counted, "{}", buffer.name);
                for stream in streams.iter_mut().filter(|stream| !stream.is_empty()) {
                    let at = random.below(stream.len() as u64) as usize;
                    stream[at] ^= 1 << random.below(8);
                }
            }
        }
    }
}

/// Keeps events, and what each path was when it came first.
#[derive(Default)]
struct NamedPaths {
    events: Vec<Located<Event>>,
    known: HashMap<PathId, Vec<Range>>,
    recalled: u32,
}

impl Sink for NamedPaths {
    fn take(&mut self, event: Located<Event>) {
        self.events.push(event);
    }

    fn take_path(&mut self, path: PathId, ranges: PathRanges<'_>) {
        let ranges: Vec<_> = ranges.collect();
        self.events.extend(ranges.iter().map(|range| range.map(Event::Range)));
        let values: Vec<_> = ranges.iter().map(|range| range.value).collect();
        match self.known.get(&path) {
            Some(known) => assert_eq!(*known, values, "{path:?}"),
            None => drop(self.known.insert(path, values)),
        }
        self.recalled += 1;
    }
}

#[test]
fn the_name_of_a_path_stands_for_the_same_ranges_however_little_is_remembered() {
    let Some(sources) = small() else { return };
    let (mut random, mut recalled, mut named) = (Random(5), 0, 0);
    for (name, source) in sources {
        let mut streams = source.streams.clone();
        for cached_blocks in [10, 60, 1 << 20] {
            let options = Options { cached_blocks, ..Options::default() };
            let mut follower = Follower::with_options(&source.config, &source.memory, options);
            let (mut decoder, mut sink) = (Decoder::new(&source.config), NamedPaths::default());
            for stream in streams.iter().chain(&streams) {
                decoder.feed_to(stream, &mut follower.input(&mut sink));
                decoder.reset(&mut |packet| follower.push(packet, &mut sink));
                follower.finish(&mut sink);
            }
            assert!(sink.events == follow_twice(&source, &streams, false).0, "{name}");
            recalled += sink.recalled;
            named += sink.known.len() as u32;
            for stream in streams.iter_mut().filter(|stream| !stream.is_empty()) {
                let at = random.below(stream.len() as u64) as usize;
                stream[at] ^= 1 << random.below(8);
            }
        }
    }
    assert!(named > 100 && recalled > 2 * named, "{named} paths, {recalled} times");
}

/// The address at which execution must continue behind a range, where the code says so.
fn leads_to(range: &Range, memory: &Memory, event: &Event) -> bool {
    use backsight_image::Code;
    let Event::Range(next) = event else { return true };
    let target = match (range.class, range.executed) {
        (Class::IndirectBranch, true) => return true,
        (Class::DirectBranch, true) => {
            let at = backsight_core::Address(range.end.0 - u64::from(range.last_size));
            let bytes = memory.bytes_at(backsight_core::AddressSpace::ANY, at).expect("code");
            backsight_isa::classify(range.isa, bytes, at).expect("an instruction").target
        }
        _ => range.end,
    };
    next.start == target
}

#[test]
fn ranges_chain() {
    let Some(buffers) = buffers(None) else { return };
    for buffer in buffers {
        for source in &buffer.sources {
            let events: Vec<_> = source
                .events(Options::default())
                .into_iter()
                .map(|event| event.value)
                .filter(|event| !is_record(event))
                .collect();
            for pair in events.windows(2) {
                if let Event::Range(range) = &pair[0] {
                    assert!(
                        leads_to(range, &source.memory, &pair[1]),
                        "{}: {} then {}",
                        buffer.name,
                        pair[0],
                        pair[1]
                    );
                }
            }
        }
    }
}

fn is_record(event: &Event) -> bool {
    matches!(
        event,
        Event::Timestamp { .. } | Event::CycleCount(_) | Event::UnitEvents(_) | Event::Context(..)
    )
}

/// A capture is followed from a later synchronisation point as it is from the beginning, from the first address
/// on that the later start sees.
#[test]
fn decoding_from_any_synchronisation_point_gives_the_tail() {
    let Some(buffers) = buffers(None) else { return };
    let mut points = 0;
    for buffer in buffers {
        for source in &buffer.sources {
            let Some(stream) = source.streams.first() else { continue };
            let packets = Source::packets(&source.config, stream);
            let whole = follow(&source.config, &source.memory, &packets);
            let syncs: Vec<_> = packets.iter().filter(|packet| packet.value == Packet::Async).collect();
            for sync in syncs.iter().skip(1).step_by(syncs.len() / 3 + 1) {
                let start = sync.offset as usize;
                let mut later = Source::packets(&source.config, &stream[start..]);
                later.iter_mut().for_each(|packet| packet.offset += start as u64);
                let tail: Vec<_> = flow(follow(&source.config, &source.memory, &later)).collect();
                let whole: Vec<_> = flow(whole.clone()).collect();
                let first = tail.first().map(|event| event.offset).unwrap_or(u64::MAX);
                let expected: Vec<_> = whole.into_iter().filter(|event| event.offset >= first).collect();
                assert!(tail == expected || expected.ends_with(&tail), "{} from {start:#x}", buffer.name);
                points += 1;
            }
        }
    }
    println!("{points} synchronisation points");
}

/// Only what was executed: synchronisation itself differs.
fn flow(events: Vec<Located<Event>>) -> impl Iterator<Item = Located<Event>> {
    events.into_iter().filter(|event| matches!(event.value, Event::Range(_) | Event::Exception { .. }))
}

#[test]
fn damage_changes_nothing_before_it_and_nothing_behind_the_next_synchronisation() {
    let Some(sources) = small() else { return };
    let mut random = Random(2);
    let mut checked = 0;
    for (name, source) in sources {
        let Some(stream) = source.streams.first().filter(|stream| stream.len() > 64) else { continue };
        let clean = Source::packets(&source.config, stream);
        for _ in 0..120 {
            let at = random.below(stream.len() as u64) as usize;
            let mut damaged = stream.clone();
            let lost = damage(&mut damaged, at, &mut random);
            let events = follow(&source.config, &source.memory, &Source::packets(&source.config, &damaged));
            assert!(events.starts_with(&before(&source, &clean, at)), "{name}: damage at {at:#x}");
            checked += assert_behind(&source, stream, &damaged, at, lost);
        }
    }
    println!("{checked} tails compared");
}

/// Flips a bit, changes a byte, or takes some out; says how many are gone.
fn damage(bytes: &mut Vec<u8>, at: usize, random: &mut Random) -> usize {
    match random.below(3) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        _ => {
            let end = (at + 1 + random.below(16) as usize).min(bytes.len());
            bytes.drain(at..end);
            return end - at;
        }
    }
    0
}

/// What was certain before the damage.
fn before(source: &Source, packets: &[Located<Packet>], at: usize) -> Vec<Located<Event>> {
    let mut events = Vec::new();
    let mut follower = Follower::new(&source.config, &source.memory);
    for &packet in packets.iter().take_while(|packet| packet.end() <= at as u64) {
        follower.push(packet, &mut |event| events.push(event));
    }
    events
}

/// Behind the next place where decoding can begin, everything that was executed is the same.
fn assert_behind(source: &Source, clean: &[u8], damaged: &[u8], at: usize, lost: usize) -> usize {
    const ASYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
    let Some(sync) =
        clean.get(at + 16..).and_then(|rest| rest.windows(12).position(|window| window == ASYNC))
    else {
        return 0;
    };
    let start = at + 16 + sync;
    let tail = Source::packets(&source.config, &clean[start..]);
    let tail: Vec<_> = flow(follow(&source.config, &source.memory, &tail)).collect();
    let whole = Source::packets(&source.config, damaged);
    let whole: Vec<_> = flow(follow(&source.config, &source.memory, &whole))
        .filter(|event| event.offset >= (start - lost) as u64)
        .map(|event| Located { offset: event.offset - (start - lost) as u64, ..event })
        .collect();
    assert!(whole.ends_with(&tail), "the tail behind {start:#x} differs with damage at {at:#x}");
    1
}

#[test]
fn half_of_the_code_gives_the_half_of_the_flow_that_it_has() {
    let Some(buffers) = buffers(Some("ete_mem")) else { return };
    for buffer in buffers {
        for source in &buffer.sources {
            let whole = source.events(Options::default());
            let mut half = Memory::default();
            for (space, base, bytes) in &source.memory.0 {
                half.0.push((*space, *base, bytes[..bytes.len() / 2].to_vec()));
            }
            let mut follower = Follower::new(&source.config, &half);
            let mut events = Vec::new();
            for packet in Source::packets(&source.config, &source.streams[0]) {
                follower.push(packet, &mut |event: Located<Event>| events.push(event));
            }
            assert!(follower.statistics().gaps.no_memory > 0);
            assert!(follower.statistics().instructions > 0);
            let ranges = |events: &[Located<Event>]| {
                let ranges = events.iter().filter_map(|event| match event.value {
                    Event::Range(range) if range.class != Class::Other => Some(range.start),
                    _ => None,
                });
                ranges.collect::<std::collections::BTreeSet<_>>()
            };
            assert!(ranges(&events).is_subset(&ranges(&whole)), "code that is there was misread");
        }
    }
}

#[test]
fn a_patched_branch_is_reported_and_a_strict_follower_stops_there() {
    let Some(buffers) = buffers(Some("ete_mem")) else { return };
    for buffer in buffers {
        for source in &buffer.sources {
            let usual = source.events(Options::default());
            let patched = usual.iter().find_map(|event| match event.value {
                Event::Range(range) if range.class == Class::DirectBranch && !range.executed => {
                    Some(range.end.0 - 4)
                }
                _ => None,
            });
            let patched = patched.expect("a branch that was not taken");
            let mut memory = source.memory.clone();
            for (_, base, bytes) in &mut memory.0 {
                if let Some(offset) = patched.checked_sub(*base)
                    && let Some(word) = bytes.get_mut(offset as usize..offset as usize + 4)
                {
                    // b .+0x100
                    word.copy_from_slice(&0x1400_0040_u32.to_le_bytes());
                }
            }
            let packets = Source::packets(&source.config, &source.streams[0]);
            let mut reported = false;
            let mut options = Options::default();
            for strict in [false, true] {
                options.strict_image = strict;
                let mut follower = Follower::with_options(&source.config, &memory, options);
                let mut blind = false;
                for &packet in &packets {
                    follower.push(packet, &mut |event: Located<Event>| match event.value {
                        Event::Mismatch { symptom: Symptom::UnconditionalNotTaken, address } => {
                            reported |= address.0 == patched;
                            blind = strict;
                        }
                        Event::Range(_) => assert!(!blind, "an instruction was listed after strong evidence"),
                        _ => {}
                    });
                    if matches!(packet.value, Packet::Address(_) | Packet::AddressContext(..)) {
                        blind = false;
                    }
                }
                assert!(reported && follower.statistics().symptom(Symptom::UnconditionalNotTaken) > 0);
                assert_eq!(follower.statistics().gaps.wrong_image > 0, strict);
            }
        }
    }
}

#[test]
fn the_depth_of_speculation_does_not_change_what_was_executed() {
    let mut runs: Vec<Vec<Event>> = Vec::new();
    for capture in ["ete_spec_1", "ete_spec_2"] {
        let Some(buffers) = buffers(Some(capture)) else { return };
        for buffer in buffers {
            for source in &buffer.sources {
                runs.push(flow(source.events(Options::default())).map(|event| event.value).collect());
            }
        }
    }
    for pair in runs.windows(2) {
        let common = pair[0].len().min(pair[1].len());
        assert!(common > 50 && pair[0][..common] == pair[1][..common]);
    }
}

/// Rewrites a stream as a trace unit that speculates could have written it: wrong paths that are cancelled,
/// branches that are mispredicted, commits that come late.
fn speculate(config: &Config, packets: &[Located<Packet>], random: &mut Random) -> Vec<Located<Packet>> {
    let mut written = Vec::new();
    let mut waiting = 0;
    for &packet in packets {
        let at = |value| packet.map(|_| value);
        let Packet::Atoms(atoms) = packet.value else {
            waiting += u32::from(match packet.value {
                Packet::SourceAddress(_) | Packet::Exception(_) => true,
                Packet::TransactionStart => config.transaction_start_p0(),
                _ => false,
            });
            written.push(packet);
            continue;
        };
        for taken in atoms.iter() {
            let atom = |taken: bool| at(Packet::Atoms(Atoms { bits: u32::from(taken), count: 1 }));
            match random.below(4) {
                0 => written.extend([atom(!taken), at(Packet::Mispredict(Atoms::NONE))]),
                1 => {
                    let wrong = 1 + random.below(3) as u32;
                    written.push(atom(!taken));
                    written.extend((0..wrong).map(|_| atom(random.below(2) == 0)));
                    written.push(at(Packet::CancelF1 { count: wrong, mispredict: true }));
                }
                _ => written.push(atom(taken)),
            }
            waiting += 1;
            if random.below(3) == 0 || waiting > config.max_speculation() / 2 {
                let count = random.below(u64::from(waiting) + 1) as u32;
                waiting -= count;
                written.push(at(Packet::Commit { count }));
            }
        }
    }
    written
}

#[test]
fn a_unit_that_speculates_tells_the_same_story() {
    let Some(sources) = small() else { return };
    const DEPTH: u32 = 64;
    let mut random = Random(3);
    let mut compared = 0;
    for (name, source) in sources {
        let Some(stream) = source.streams.first() else { continue };
        let packets = Source::packets(&source.config, stream);
        let alone = |packet: &Located<Packet>| {
            matches!(packet.value, Packet::Q(_) | Packet::Bad(_) | Packet::Discard)
        };
        if source.config.max_speculation() != 0 || packets.iter().any(alone) {
            continue;
        }
        let mut config = source.config;
        config.registers.idr8 = DEPTH;
        let story = flow(follow(&source.config, &source.memory, &packets)).map(|event| event.value);
        let story: Vec<_> = story.collect();
        let retold = speculate(&config, &packets, &mut random);
        let retold: Vec<_> =
            flow(follow(&config, &source.memory, &retold)).map(|event| event.value).collect();
        // What is not committed at the end stays untold.
        assert!(story.starts_with(&retold) && story.len() - retold.len() <= DEPTH as usize + 1, "{name}");
        compared += retold.len();
    }
    println!("{compared} ranges and exceptions compared");
}
