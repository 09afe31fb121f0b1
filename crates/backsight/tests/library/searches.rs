//! Searches: with an index, whatever it counts and on however many threads, they find what they find without one.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::calls::ShadowStack;
use backsight::core::AddressSpace;
use backsight::image::Code as _;
use backsight::moments::{Counts, Moment, Wanted, Window};
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

/// What the parts of an index say together, beside what the whole source does.
fn check_parts(capture: &Capture, what: &str) -> usize {
    let index = capture.moments().distance(500).index(1).unwrap();
    let code = capture.code().unwrap();
    let mut most_parts = 0;
    for source in &capture.execution().sources().unwrap() {
        let of_source = index.source(source).unwrap();
        let parts = of_source.part_sums();
        if parts.is_empty() {
            continue;
        }
        let what = format!("{what}, {}", source.name());
        let seen = code.seen_by(source);
        let functions: Vec<_> =
            code.of(source).functions().map(|one| (one.start.0, one.size.max(1))).collect();
        let mut expected = BTreeMap::<Option<u64>, u64>::new();
        let (mut stack, mut space) = (ShadowStack::new(seen), AddressSpace::ANY);
        let (mut instructions, mut events) = (0, [0_u64; 4]);
        let mut depths = Vec::new();
        let decode = capture.execution().buffer(source.buffer()).id(source.id().get().into());
        let each = |item: backsight::Item<'_, Event>| {
            let event = item.value;
            stack.push(&event, &mut |_| {});
            match &event {
                Event::Context(context, _) => space = seen.space_of(context),
                Event::Range(range) if range.instructions > 0 => {
                    let mut left = range.instructions;
                    backsight::listing::steps(range, space, &seen, |step| {
                        let address = step.address.0;
                        let has = |one: &&(u64, u64)| one.0 <= address && address - one.0 < one.1;
                        let start = functions.iter().filter(has).map(|one| one.0).max();
                        *expected.entry(start).or_default() += 1;
                        left -= 1;
                    });
                    assert_eq!(left, 0, "{what}");
                    instructions += u64::from(range.instructions);
                    depths.push((stack.under_way().count() + stack.forgotten()) as u64 - 1);
                }
                _ => {}
            }
            let kinds = [
                matches!(event, Event::Exception { .. }),
                event.is_loss(),
                event.is_break(),
                matches!(event, Event::Software(_)),
            ];
            events.iter_mut().zip(kinds).for_each(|(count, is_it)| *count += u64::from(is_it));
        };
        decode.run(each).unwrap();
        let mut counted = BTreeMap::<Option<u64>, u64>::new();
        for one in parts.iter().flat_map(|part| &part.counts.functions) {
            let start = of_source.function(one.function).map(|start| start.0);
            *counted.entry(start).or_default() += one.instructions;
        }
        counted.retain(|_, count| *count > 0);
        assert_eq!(counted, expected, "{what}");
        let sum = |count: fn(&Counts) -> u64| parts.iter().map(|part| count(&part.counts)).sum::<u64>();
        let counted =
            [sum(|one| one.exceptions), sum(|one| one.gaps), sum(|one| one.breaks), sum(|one| one.messages)];
        assert_eq!(counted, events, "{what}");
        assert!(parts.is_sorted_by_key(|part| part.end), "{what}");
        let last = parts.last().unwrap();
        assert_eq!((last.end, last.time), (instructions, of_source.end.time), "{what}");
        let with_depths = parts.iter().filter(|part| !part.counts.functions.is_empty());
        let least = with_depths.clone().map(|part| part.depths.0).min();
        let most = with_depths.map(|part| part.depths.1).max();
        assert_eq!((least, most), (depths.iter().min().copied(), depths.iter().max().copied()), "{what}");
        most_parts = most_parts.max(parts.len());
    }
    most_parts
}

#[test]
fn parts_of_bundled_captures_are_together_what_the_whole_is() {
    let mut parts = 0;
    for (name, path) in captures(&repository().join("testdata/captures")) {
        parts = parts.max(check_parts(&Capture::open(path).unwrap(), &name));
    }
    // They are short.
    assert!(parts > 0, "{parts}");
}

#[test]
fn parts_of_real_captures_are_together_what_the_whole_is() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    for name in ["a55-test-tpiu", "juno_r1_1", "cc1-head", "juno-ret-stck", "Snowball"] {
        let path = corpus.join("opencsd").join(name).join("capture");
        if let Ok(capture) = Capture::open(&path) {
            check_parts(&capture, name);
        }
    }
}
