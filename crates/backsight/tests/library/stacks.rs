//! The calls under way at a moment: exactly those of a decode from the beginning.

use std::collections::BTreeMap;
use std::sync::Arc;

use backsight::calls::{ShadowStack, UnderWay};
use backsight::decode::Span;
use backsight::listing::{
    Detail, ExecutionFormat, ExecutionWriter, Filter, FilterOptions, ListedCounts, Style,
};
use backsight::moments::{Index, Moment, Moments, Window};
use backsight::{Capture, Event, Item, Source};
use backsight_testing::{Random, corpus, repository, skipped};

use super::pieces::{captures, damaged};

/// A call: its function, where that was entered, where it returns to, when it began, and whether nobody called it.
type Call = (String, u64, Option<u64>, u64, bool);

/// Hart, thread, and whether the next instruction is theirs; calls that are forgotten, and calls.
type Calls = (u16, Option<u64>, bool, usize, Vec<Call>);

fn call(call: UnderWay<'_>) -> Call {
    let (name, address) = (call.function.to_string(), call.function.address.0);
    (name, address, call.return_address.map(|address| address.0), call.entered, call.is_handler)
}

/// The calls of the harts of a source at these moments, which are in order, by a decode of all of it.
fn sequence(capture: &Capture, source: &Source, moments: &[u64]) -> Vec<Vec<Calls>> {
    let code = capture.code().unwrap().seen_by(source);
    let mut harts: BTreeMap<u16, ShadowStack<'_>> = BTreeMap::new();
    let (mut count, mut given) = (0, Vec::new());
    let each = &mut |item: Item<'_, Event>| {
        let hart = item.sub_source;
        let stack = harts.entry(hart).or_insert_with(|| ShadowStack::new(code));
        stack.elsewhere(count - stack.instructions());
        stack.push(&item.value, &mut |_| {});
        let Event::Range(range) = item.value else { return };
        count += u64::from(range.instructions);
        while moments.get(given.len()).is_some_and(|&moment| moment < count) {
            let of_hart = |(&number, stack): (&u16, &ShadowStack<'_>)| {
                let calls = stack.under_way().map(call).collect();
                (number, stack.thread(), number == hart, stack.forgotten(), calls)
            };
            given.push(harts.iter().map(of_hart).collect());
        }
    };
    capture.execution().span(&Span::all(source.buffer(), source.id())).run(each).unwrap();
    given
}

fn stack_at(moments: &Moments<'_>, source: &Source, moment: Moment) -> Vec<Calls> {
    let stacks = moments.stack_at(&moments.capture().execution(), source, moment).unwrap();
    let running = stacks.into_iter().filter(|stack| stack.is_running);
    running
        .map(|stack| {
            let calls = stack.calls.into_iter().map(call).collect();
            (stack.hart, stack.thread, stack.is_next, stack.forgotten, calls)
        })
        .collect()
}

/// What is listed of the calls in a window.
fn listed(moments: &Moments<'_>, source: &Source, window: Window, style: Style) -> String {
    let (capture, mut text) = (moments.capture(), Vec::new());
    let code = capture.code().unwrap();
    let filter = Filter::new(&FilterOptions::default(), || code.of(source)).unwrap();
    let counts = Arc::new(ListedCounts::default());
    let writer = ExecutionWriter::new(style, source, code.seen_by(source), filter, counts);
    let decode = capture.execution().positions(false);
    let put = &mut |more: &[u8]| {
        text.extend_from_slice(more);
        Ok::<(), backsight::Error>(())
    };
    moments.write(decode, source, window, (writer, true), put).unwrap();
    String::from_utf8(text).unwrap()
}

/// Looks at every source of a capture. Gives how many points know calls.
fn check(capture: &Capture, what: &str, random: &mut Random) -> usize {
    let index = capture.moments().distance(3_000).index(2).unwrap();
    let identity = capture.identity().unwrap();
    let index = Arc::new(Index::from_bytes(&index.to_bytes(identity), identity).unwrap());
    let with_index = capture.moments().with_index(Arc::clone(&index));
    let mut known = 0;
    for source in &capture.execution().sources().unwrap() {
        let what = format!("{what}, {}", source.name());
        let source_index = index.source(source).unwrap();
        let total = source_index.end.instructions;
        known += source_index.points.iter().filter(|point| point.knows_calls()).count();
        let mut moments: Vec<u64> = (0..12).map(|_| random.below(total.max(1))).collect();
        moments.extend(source_index.points.iter().take(8).map(|point| point.place.instructions));
        moments.retain(|&moment| moment < total);
        moments.sort();
        let expected = sequence(capture, source, &moments);
        assert_eq!(expected.len(), moments.len(), "{what}");
        for (number, (&moment, expected)) in moments.iter().zip(&expected).enumerate() {
            let moment = match number % 4 {
                0 => Moment::BeforeEnd(total - moment),
                _ => Moment::Instruction(moment),
            };
            // A hart that comes later is not known yet where decoding begins.
            assert_eq!(&stack_at(&with_index, source, moment), expected, "{what}, {moment}, with an index");
            if number % 5 == 0 {
                let given = stack_at(&capture.moments(), source, moment);
                assert_eq!(&given, expected, "{what}, {moment}, without an index");
            }
        }
        let Some((&first, &last)) = moments.get(2).zip(moments.get(5)) else { continue };
        let window = Window { from: Some(Moment::Instruction(first)), to: Some(Moment::Instruction(last)) };
        for style in [
            Style { detail: Detail::Calls, ..Style::default() },
            Style { detail: Detail::Calls, format: ExecutionFormat::Json, ..Style::default() },
            Style { detail: Detail::CallTree, ..Style::default() },
        ] {
            let expected = listed(&capture.moments(), source, window, style);
            let given = listed(&with_index, source, window, style);
            assert_eq!(given, expected, "{what}, #{first} to #{last}, {:?}", style.detail);
        }
    }
    known
}

#[test]
fn calls_under_way_in_bundled_captures_are_those_of_the_whole() {
    let mut random = Random(77);
    for (name, path) in captures(&repository().join("testdata/captures")) {
        check(&Capture::open(path).unwrap(), &name, &mut random);
    }
}

#[test]
fn calls_under_way_in_real_captures_are_those_of_the_whole() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let (mut random, mut known) = (Random(78), 0);
    for (name, path) in captures(&corpus.join("opencsd")) {
        // Some folders are of captures that are described wrongly on purpose.
        if let Ok(capture) = Capture::open(&path) {
            known += check(&capture, &name, &mut random);
        }
    }
    assert!(known > 100, "{known}");
}

#[test]
fn calls_under_way_in_damaged_captures_are_those_of_the_whole() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut random = Random(79);
    let folder = std::env::temp_dir().join(format!("backsight-stacks-{}", std::process::id()));
    for name in ["a55-test-tpiu", "juno_r1_1", "cc1-head", "juno-ret-stck", "ete_spec_1"] {
        let to = folder.join(name);
        damaged(&corpus.join("opencsd").join(name).join("capture"), &to, &mut random);
        check(&Capture::open(&to).unwrap(), &format!("{name}, damaged"), &mut random);
    }
    std::fs::remove_dir_all(folder).unwrap();
}
