//! Windows, points and the way back: exactly what a decode from the beginning gives.

use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::decode::Span;
use backsight::moments::{Index, Moment, Window};
use backsight::{Capture, Event, Source};
use backsight_testing::{Random, corpus, repository, skipped};

use super::pieces::{captures, damaged};

/// Something that happened, with how many instructions came before it.
type Happened = (u64, u16, Event);

/// Everything that a source reports.
fn sequence(capture: &Capture, source: &Source) -> Vec<Happened> {
    let (mut all, mut count) = (Vec::new(), 0);
    let span = Span::all(source.buffer(), source.id());
    let each = &mut |item: backsight::Item<'_, Event>| {
        all.push((count, item.sub_source, item.value));
        count += instructions(&item.value);
    };
    capture.execution().span(&span).run(each).unwrap();
    all
}

fn instructions(event: &Event) -> u64 {
    match event {
        Event::Range(range) => range.instructions.into(),
        _ => 0,
    }
}

/// Are these the same, but for ranges that were cut in two?
fn assert_same(expected: &[Happened], given: &[(u16, Event)], what: &str) {
    let mut given = given.iter().copied();
    for (number, &(at, hart, event)) in expected.iter().enumerate() {
        let first = given.next();
        let Event::Range(whole) = event else {
            assert_eq!(first, Some((hart, event)), "{what}, {number} at #{at}");
            continue;
        };
        let Some((first_hart, Event::Range(mut sum))) = first else {
            panic!("{what}, {number} at #{at}: {event:?} expected, {first:?} given");
        };
        while sum.instructions < whole.instructions {
            let next = given.next();
            let Some((_, Event::Range(more))) = next else {
                panic!("{what}, {number} at #{at}: more of {event:?} expected, {next:?} given");
            };
            assert!(!sum.ends_in_branch() && more.start == sum.end, "{what}, {number} at #{at}");
            let (start, instructions) = (sum.start, sum.instructions + more.instructions);
            sum = backsight::flow::Range { start, instructions, ..more };
        }
        assert_eq!((first_hart, sum), (hart, whole), "{what}, {number} at #{at}");
    }
    assert_eq!(given.next(), None, "{what}: more than there is");
}

/// Windows that meet at these moments, put together.
fn in_windows(
    capture: &Capture,
    index: Option<&Arc<Index>>,
    source: &Source,
    edges: &[Moment],
) -> Vec<(u16, Event)> {
    let mut given = Vec::new();
    let mut from = None;
    for to in edges.iter().copied().map(Some).chain([None]) {
        let moments =
            index.iter().fold(capture.moments(), |moments, index| moments.with_index(Arc::clone(index)));
        let each = |item: backsight::Item<'_, Event>| given.push((item.sub_source, item.value));
        moments.run(capture.execution(), source, Window { from, to }, each).unwrap();
        from = to;
    }
    given
}

/// Looks at every source of a capture. Gives how many points there were.
fn check(capture: &Capture, what: &str, random: &mut Random) -> usize {
    let index = Arc::new(capture.moments().distance(3_000).index(2).unwrap());
    let identity = capture.identity().unwrap();
    let bytes = index.to_bytes(identity);
    assert_eq!(Index::from_bytes(&bytes, identity).as_ref(), Ok(&*index), "{what}");
    let mut points = 0;
    for source in &capture.execution().sources().unwrap() {
        let what = format!("{what}, {}", source.name());
        let expected = sequence(capture, source);
        let total: u64 = expected.iter().map(|(.., event)| instructions(event)).sum();
        let known = index.source(source).unwrap();
        points += known.points.len();
        assert_eq!(known.end.instructions, total, "{what}");
        // From every point to the next.
        let all_points = known.points.iter().map(|point| Moment::Instruction(point.place.instructions));
        let all_points: Vec<_> = all_points.collect();
        assert_same(&expected, &in_windows(capture, Some(&index), source, &all_points), &what);
        // From anywhere to anywhere.
        let mut anywhere: Vec<_> = (0..12).map(|_| random.below(total + 2)).collect();
        anywhere.sort();
        let anywhere: Vec<_> = anywhere.into_iter().map(Moment::Instruction).collect();
        assert_same(&expected, &in_windows(capture, Some(&index), source, &anywhere), &what);
        assert_same(&expected, &in_windows(capture, None, source, &anywhere[..3]), &what);
        // Not from the end itself: what comes after the last instruction also belongs to a window up to there.
        let last = 2 + random.below(total.max(1));
        let edges = [Moment::BeforeEnd(last), Moment::BeforeEnd(last / 2)];
        assert_same(&expected, &in_windows(capture, Some(&index), source, &edges), &what);
        assert_same(&expected, &in_windows(capture, None, source, &edges), &what);
        // By position.
        let size = capture.buffer(source.buffer()).unwrap().size().unwrap();
        let mut positions: Vec<_> = (0..4).map(|_| random.below(size + 1)).collect();
        positions.sort();
        let positions: Vec<_> = positions.into_iter().map(Moment::Position).collect();
        assert_same(&expected, &in_windows(capture, Some(&index), source, &positions), &what);
        assert_eq!(
            in_windows(capture, Some(&index), source, &positions),
            in_windows(capture, None, source, &positions),
            "{what}, {positions:?}"
        );
        // By time.
        let time = |event: &Event| match event {
            Event::Timestamp { value, .. } => Some(*value),
            _ => None,
        };
        let times: Vec<_> = expected.iter().filter_map(|(.., event)| time(event)).collect();
        if let Some(middle) = times.get(times.len() / 2) {
            let edges = [Moment::Time(*middle)];
            assert_same(&expected, &in_windows(capture, Some(&index), source, &edges), &what);
            assert_eq!(
                in_windows(capture, Some(&index), source, &edges),
                in_windows(capture, None, source, &edges),
                "{what}, {edges:?}"
            );
        }
        back(capture, &index, source, &expected, &what);
    }
    points
}

/// Backwards is the reverse of forwards.
fn back(capture: &Capture, index: &Arc<Index>, source: &Source, expected: &[Happened], what: &str) {
    let mut given = Vec::new();
    let moments = capture.moments().with_index(Arc::clone(index));
    let each = |item: backsight::Item<'_, Event>| {
        given.push((item.sub_source, item.value));
        ControlFlow::Continue(())
    };
    moments.run_back(capture.execution(), source, Moment::END, each).unwrap();
    given.reverse();
    assert_same(expected, &given, &format!("{what}, backwards"));
    // Backwards from the middle, and enough after a while.
    let middle = expected.len() / 2;
    let mut given = Vec::new();
    let each = |item: backsight::Item<'_, Event>| {
        given.push((item.sub_source, item.value));
        if given.len() < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let Some(&(at, ..)) = expected.get(middle) else { return };
    moments.run_back(capture.execution(), source, Moment::Instruction(at), each).unwrap();
    let begins = expected.partition_point(|(before, ..)| *before < at);
    let first = begins.saturating_sub(given.len());
    given.reverse();
    // The first may be the rest of a range.
    if begins >= 10 {
        assert_same(&expected[first + 1..begins], &given[1..], &format!("{what}, back from #{at}"));
    }
}

#[test]
fn windows_and_the_way_back_of_bundled_captures_are_what_the_whole_gives() {
    let mut random = Random(39);
    for (name, path) in captures(&repository().join("testdata/captures")) {
        check(&Capture::open(path).unwrap(), &name, &mut random);
    }
}

#[test]
fn windows_and_the_way_back_of_real_captures_are_what_the_whole_gives() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let (mut random, mut points) = (Random(40), 0);
    for (name, path) in captures(&corpus.join("opencsd")) {
        // Some folders are of captures that are described wrongly on purpose.
        if let Ok(capture) = Capture::open(&path) {
            points += check(&capture, &name, &mut random);
        }
    }
    assert!(points > 100, "{points}");
}

#[test]
fn windows_and_the_way_back_of_damaged_captures_are_what_the_whole_gives() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut random = Random(41);
    let folder = std::env::temp_dir().join(format!("backsight-moments-{}", std::process::id()));
    for name in ["a55-test-tpiu", "juno_r1_1", "cc1-head", "juno-ret-stck", "ete_spec_1", "q_elem"] {
        for round in 0..3 {
            let to = folder.join(format!("{name}-{round}"));
            damaged(&corpus.join("opencsd").join(name).join("capture"), &to, &mut random);
            check(&Capture::open(&to).unwrap(), &format!("{name}, damaged, {round}"), &mut random);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_end_is_found_without_decoding_what_comes_before() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let capture = Capture::open(corpus.join("opencsd/cc1-head/capture")).unwrap();
    let sources = capture.execution().sources().unwrap();
    let mut decoded = 0;
    for source in &sources {
        let found = capture.moments().run(capture.execution(), source, Window::last(100), |_| {}).unwrap();
        assert_eq!(found.places.is_some(), found.is_counted_from_end);
        decoded += found.decoded.total();
    }
    assert!((1..40_000).contains(&decoded), "{decoded}");
}

#[test]
fn a_window_in_seconds_needs_to_know_how_fast_timestamps_count() {
    let capture = Capture::open(repository().join("testdata/captures/first")).unwrap();
    let source = &capture.execution().sources().unwrap()[0];
    let window = Window { from: Some("1ms".parse().unwrap()), to: None };
    let error = capture.moments().run(capture.execution(), source, window, |_| {}).unwrap_err();
    assert!(error.to_string().contains("how fast its timestamps count"), "{error}");
}
