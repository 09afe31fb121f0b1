//! Counting by the paths that followers remember is counting range by range: of real captures, whole and damaged.

use std::path::{Path, PathBuf};

use backsight::listing::{Filter, FilterOptions};
use backsight::{Capture, Source};
use backsight_profile::{CountOptions, Counter, EventChoice, Profile, count};
use backsight_testing::{Random, corpus, repository, skipped};

mod support;

use support::Scratch;

fn by_range(capture: &Capture, options: &CountOptions) -> Profile {
    let code = capture.code().expect("code");
    let (_, counters) = capture
        .execution()
        .any_order()
        .positions(false)
        .fold(
            |source| Counter::new(source, code.seen_by(source), options),
            |counter, item| counter.push(item.sub_source, &item.value),
        )
        .expect("execution");
    let mut profile = Profile::default();
    counters.into_iter().for_each(|(_, counter)| profile.merge(counter.finish()));
    profile.threads.iter_mut().for_each(|thread| capture.name().clone_into(&mut thread.capture));
    profile
}

/// Counts in both ways. Gives the instructions.
fn check(capture: &Capture, what: &str) -> u64 {
    let options = CountOptions { timeline: 1000, by_core: true, ..CountOptions::default() };
    // Some captures have no code.
    let Ok((profile, _)) = count(capture, capture.execution(), &options) else { return 0 };
    let clear = by_range(capture, &options);
    assert_eq!(profile.totals, clear.totals, "{what}");
    assert!(format!("{profile:?}") == format!("{clear:?}"), "{what}");
    profile.totals.instructions
}

/// What parts are asked for: nothing more, calls over time for which there is room and for which there is not, paths, events,
/// and only some of what was executed.
fn choices(capture: &Capture) -> Vec<CountOptions> {
    let plain = CountOptions { by_core: true, ..CountOptions::default() };
    let events = [(0, "INST_RETIRED"), (1, "L1D_CACHE_REFILL"), (2, "BR_MIS_PRED")];
    let events = events.map(|(number, name)| EventChoice { number, name: name.to_owned() });
    let code = capture.code().expect("code");
    let first = code.image().functions().next();
    let function = first.map(|function| function.start.0..function.start.0 + 0x400);
    vec![
        CountOptions { timeline: 40, ..plain.clone() },
        CountOptions { timeline: 1 << 20, paths: 5, ..plain.clone() },
        CountOptions { events: events.into(), skid: (1, 9), ..plain.clone() },
        CountOptions {
            filter: FilterOptions { ranges: function.into_iter().collect(), ..FilterOptions::default() },
            ..plain.clone()
        },
        CountOptions {
            filter: FilterOptions { contexts: vec![0x2A, 1], ..FilterOptions::default() },
            ..plain.clone()
        },
        plain,
    ]
}

/// Counts each source in parts of many sizes, on several threads, and on one. Gives how often parts come to the whole for
/// certain, and how often they do not: then sources are counted whole.
fn check_parts(capture: &Capture, what: &str) -> (u32, u32) {
    let code = capture.code().expect("code");
    let (mut exact, mut inexact) = (0, 0);
    let sources = capture.buffers().iter().flat_map(|buffer| buffer.sources().map(move |one| (buffer, one)));
    for ((buffer, source), options) in
        sources.flat_map(|one| choices(capture).into_iter().map(move |options| (one, options)))
    {
        let decode = || capture.execution().buffer(buffer.name()).id(source.id().get().into());
        let Ok((whole, _)) = count(capture, decode(), &options) else { continue };
        // Two sizes for what is seldom asked for, and all for what is asked for mostly.
        let sizes = [(2, 1_030), (4, 20_000), (3, 1_500), (2, 4_000)];
        let is_plain = options.timeline + options.paths == 0 && !options.filter.is_selective();
        for (threads, size) in sizes.into_iter().take(if is_plain { 4 } else { 2 }) {
            let decode = decode().any_order().positions(false).threads(threads).piece_size(size);
            if !decode.is_in_pieces().expect("a source") {
                continue;
            }
            let (joined, _) = count(capture, decode.clone(), &options).expect("a profile");
            assert_eq!(joined.totals, whole.totals, "{what}, {}, parts of {size} bytes", source.name());
            let is_same = format!("{joined:?}") == format!("{whole:?}");
            assert!(is_same, "{what}, {}, parts of {size} bytes", source.name());
            let filter = || match options.filter.is_selective() {
                true => Filter::new(&options.filter, || code.of(source)).ok(),
                false => None,
            };
            let counter = |source: &Source| Counter::new(source, code.seen_by(source), &options);
            let part = |source: &Source| counter(source).selecting(filter()).of_part();
            let (_, counters) = decode.consume(part).expect("execution");
            match counters.iter().all(|(_, counter)| counter.is_exact()) {
                true => exact += 1,
                false => inexact += 1,
            }
        }
    }
    (exact, inexact)
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let inner = |path: PathBuf| Some(path.join("capture")).filter(|inner| inner.is_dir()).unwrap_or(path);
    let mut all: Vec<_> = entries.filter(|path| path.is_dir()).map(inner).collect();
    all.sort();
    all
}

#[test]
fn bundled_captures_count_the_same_by_paths_and_by_ranges() {
    for path in captures(&repository().join("testdata/captures")) {
        let capture = Capture::open(&path).expect("a capture");
        let what = path.display().to_string();
        assert!(check(&capture, &what) > 1000);
        assert_eq!(check_parts(&capture, &what).1, 0, "{what}");
    }
}

#[test]
fn real_captures_count_the_same_by_paths_and_by_ranges() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut instructions = 0;
    for path in captures(&corpus.join("opencsd")) {
        // Some folders are of captures that are described wrongly on purpose.
        let Ok(capture) = Capture::open(&path) else { continue };
        instructions += check(&capture, &path.display().to_string());
    }
    assert!(instructions > 2_000_000, "{instructions}");
}

#[test]
fn parts_of_real_captures_come_to_the_whole() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let (mut exact, mut inexact) = (0, 0);
    for path in captures(&corpus.join("opencsd")) {
        let Ok(capture) = Capture::open(&path) else { continue };
        if capture.code().is_ok() {
            let counted = check_parts(&capture, &path.display().to_string());
            (exact, inexact) = (exact + counted.0, inexact + counted.1);
        }
    }
    // Handwritten handlers return to other functions than they interrupt.
    assert!(exact > 5 * inexact && exact > 20, "{exact} are exact, {inexact} are not");
}

/// A copy of a capture with the trace damaged in a few positions.
fn damage(from: &Path, to: &Path, trace: &str, random: &mut Random) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_owned();
        if path.is_dir() {
            damage(&path, &to.join(name), "", random);
            continue;
        }
        let mut bytes = std::fs::read(&path).expect("a file");
        if name == *trace {
            for _ in 0..20 {
                let at = random.below(bytes.len() as u64 - 50) as usize;
                match random.below(3) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at..at + 40].fill(random.next() as u8),
                    _ => drop(bytes.drain(at..at + 1 + random.below(40) as usize)),
                }
            }
        }
        std::fs::write(to.join(name), bytes).expect("a copy");
    }
}

#[test]
fn damaged_captures_count_the_same_by_paths_and_by_ranges() {
    let (scratch, mut random) = (Scratch::new("damaged-paths"), Random(14));
    let bundled = repository().join("testdata/captures");
    let mut all = vec![
        (bundled.join("calls-aarch64"), "trace.bin"),
        (bundled.join("calls-riscv64"), "trace.bin"),
        (bundled.join("interwork-arm"), "trace.bin"),
    ];
    all.extend(corpus().map(|corpus| (corpus.join("opencsd/cc1-head/capture"), "cstrace.bin")));
    for (path, trace) in all {
        for round in 0..6 {
            let copy = scratch.path(&format!("{round}"));
            damage(&path, &copy, trace, &mut random);
            let capture = Capture::open(&copy).expect("a capture");
            let what = format!("{}, round {round}", path.display());
            check(&capture, &what);
            assert_eq!(check_parts(&capture, &what).1, 0, "{what}");
            std::fs::remove_dir_all(&copy).expect("the copy");
        }
    }
}
