//! Searches: with an index, whatever it counts and on however many threads, they find what they find without one.

use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::moments::{Moment, Wanted, Window};
use backsight::{Capture, Event, Source};
use backsight_testing::{Random, corpus, repository, skipped};

use super::pieces::{captures, damaged};

/// Where something was found: instructions before it, and what it was.
type Found = (u64, u16, Event);

/// Things to look for in a source: of each kind that there is some.
fn things(capture: &Capture, source: &Source, random: &mut Random) -> Vec<Wanted> {
    let mut all = vec![Wanted::Exceptions, Wanted::Gaps];
    let (mut starts, mut contexts) = (Vec::new(), Vec::new());
    let decode = capture.execution().buffer(source.buffer()).id(source.id().get().into());
    let each = |item: backsight::Item<'_, Event>| match item.value {
        Event::Range(range) => starts.push(range.start.0),
        Event::Context(context, _) => contexts.extend(context.context_id),
        _ => {}
    };
    decode.run(each).unwrap();
    contexts.sort_unstable();
    contexts.dedup();
    all.extend(contexts.into_iter().take(3).map(Wanted::Context));
    starts.sort_unstable();
    starts.dedup();
    if starts.is_empty() {
        return all;
    }
    let image = capture.code().unwrap().of(source);
    let names = image.functions().filter(|function| starts.binary_search(&function.start.0).is_ok());
    let names: Vec<_> = names.map(|function| function.name.to_owned()).collect();
    for _ in 0..4.min(names.len()) {
        all.push(Wanted::function(&names[random.below(names.len() as u64) as usize], image).unwrap());
    }
    for _ in 0..2 {
        let address = starts[random.below(starts.len() as u64) as usize];
        all.push(Wanted::at(address));
        all.push(Wanted::function(&format!("{address:#x}"), image).unwrap());
    }
    all
}

/// Compares searches in a source; says how many of them found something that an index had counted.
fn check(capture: &Capture, what: &str, random: &mut Random) -> usize {
    let index = Arc::new(capture.moments().distance(500).index(2).unwrap());
    let (plain, indexed) = (capture.moments(), capture.moments().with_index(Arc::clone(&index)));
    let mut found = 0;
    for source in &capture.execution().sources().unwrap() {
        let end = index.source(source).unwrap().end.instructions;
        for wanted in things(capture, source, random) {
            let what = format!("{what}, {}, {wanted:?}", source.name());
            let (one, other) = (random.below(end + 2), random.below(end + 2));
            let part = Window {
                from: Some(Moment::Instruction(one.min(other))),
                to: Some(Moment::Instruction(one.max(other))),
            };
            for window in [Window::default(), part] {
                let mut expected: Vec<Found> = Vec::new();
                let each = &mut |hit: &backsight::moments::Hit| {
                    expected.push((hit.place.instructions, hit.hart, hit.event));
                    ControlFlow::Continue(())
                };
                plain.find(&capture.execution(), source, window, &wanted, each).unwrap();
                found += usize::from(!expected.is_empty());
                for threads in [1, 3] {
                    let decode = capture.execution().threads(threads);
                    let mut given: Vec<Found> = Vec::new();
                    let each = &mut |hit: &backsight::moments::Hit| {
                        given.push((hit.place.instructions, hit.hart, hit.event));
                        ControlFlow::Continue(())
                    };
                    indexed.find(&decode, source, window, &wanted, each).unwrap();
                    assert_eq!(given, expected, "{what}, {threads} threads");
                    let count = indexed.count(&decode, source, window, &wanted).unwrap();
                    assert_eq!(count, expected.len() as u64, "{what}, {threads} threads");
                    let place = |hit: Option<backsight::moments::Hit>| {
                        hit.map(|hit| (hit.place.instructions, hit.hart, hit.event))
                    };
                    let last = indexed.find_last(&decode, source, window, &wanted).unwrap();
                    assert_eq!(place(last).as_ref(), expected.last(), "{what}, {threads} threads, the last");
                    for nth in [1, 1 + random.below(expected.len() as u64 + 1)] {
                        let hit = indexed.find_nth(&decode, source, window, &wanted, nth).unwrap();
                        let expected = expected.get(nth as usize - 1);
                        assert_eq!(place(hit).as_ref(), expected, "{what}, {threads} threads, number {nth}");
                    }
                }
            }
        }
    }
    found
}

#[test]
fn searches_in_bundled_captures_find_the_same_with_an_index() {
    let mut random = Random(50);
    let mut found = 0;
    for (name, path) in captures(&repository().join("testdata/captures")) {
        found += check(&Capture::open(path).unwrap(), &name, &mut random);
    }
    assert!(found > 20, "{found}");
}

#[test]
fn searches_in_real_captures_find_the_same_with_an_index() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let (mut random, mut found) = (Random(51), 0);
    for (name, path) in captures(&corpus.join("opencsd")) {
        // Some folders are of captures that are described wrongly on purpose.
        if let Ok(capture) = Capture::open(&path) {
            found += check(&capture, &name, &mut random);
        }
    }
    assert!(found > 100, "{found}");
}

#[test]
fn searches_in_damaged_captures_find_the_same_with_an_index() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut random = Random(52);
    let folder = std::env::temp_dir().join(format!("backsight-searches-{}", std::process::id()));
    for name in ["a55-test-tpiu", "juno_r1_1", "cc1-head", "juno-ret-stck", "ete_spec_1", "q_elem"] {
        for round in 0..2 {
            let to = folder.join(format!("{name}-{round}"));
            damaged(&corpus.join("opencsd").join(name).join("capture"), &to, &mut random);
            check(&Capture::open(&to).unwrap(), &format!("{name}, damaged, {round}"), &mut random);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
