//! Counting by the paths that followers remember is counting range by range: of real captures, whole and damaged.

use std::path::{Path, PathBuf};

use backsight::Capture;
use backsight_profile::{CountOptions, Counter, Profile, count};
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
        assert!(check(&capture, &path.display().to_string()) > 1000);
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
            check(&capture, &format!("{}, round {round}", path.display()));
            std::fs::remove_dir_all(&copy).expect("the copy");
        }
    }
}
