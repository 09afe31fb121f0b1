//! Decodes of whole captures: order, threads, iterators, and stopping early.

use std::ops::ControlFlow;

use backsight::decode::{Consumer, Written};
use backsight::{Capture, Error, Event, Item};
use backsight_testing::repository;

fn capture(name: &str) -> Capture {
    let path = repository().join("testdata/captures").join(name);
    Capture::open(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const CAPTURES: [&str; 4] = ["first", "calls-aarch64", "calls-riscv64", "interwork-arm"];

/// An item in words: whatever should be the same.
fn words<T: std::fmt::Debug>(item: &Item<'_, T>) -> String {
    let (source, hart, position) = (item.source.name(), item.sub_source, item.position());
    format!("{source} {hart} {} {} {position:?} {:?}", item.offset, item.length, item.value)
}

#[test]
fn an_iterator_gives_what_a_sink_gets() {
    for name in CAPTURES {
        let capture = capture(name);
        let mut expected = Vec::new();
        let summary = capture.execution().run(|item| expected.push(words(&item))).unwrap();
        let mut items = capture.execution().iter();
        let mut given = Vec::new();
        for item in items.by_ref() {
            let item = item.unwrap();
            let (source, hart, position) = (item.source.name(), item.sub_source, item.position);
            given.push(format!(
                "{source} {hart} {} {} {position:?} {:?}",
                item.offset, item.length, item.value
            ));
        }
        assert!(expected == given && !given.is_empty(), "{name}");
        assert_eq!(items.summary().map(ToString::to_string), Some(summary.to_string()), "{name}");
        assert!(items.next().is_none());
    }
}

#[test]
fn an_iterator_of_packets_has_their_bytes() {
    let capture = capture("calls-riscv64");
    let mut expected = Vec::new();
    capture.packets().run(|item| expected.push(item.bytes().to_vec())).unwrap();
    let given: Vec<_> = capture.packets().iter().map(|item| item.unwrap().bytes.into_vec()).collect();
    assert!(expected == given);
    assert!(given.iter().all(|bytes| !bytes.is_empty()));
}

#[test]
fn an_iterator_may_be_left_before_its_end() {
    let first = capture("calls-aarch64").execution().iter().next().map(|item| item.unwrap().offset);
    assert_eq!(first, Some(0));
}

#[test]
fn what_does_not_fit_the_capture_is_the_only_item() {
    let mut items = capture("first").packets().id(0x55).iter();
    let refused = items.next().and_then(Result::err).map(|error| error.to_string());
    assert_eq!(refused.as_deref(), Some("ID 0x55: the sources have 0x10"));
    assert!(items.next().is_none() && items.summary().is_none());
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for name in CAPTURES {
        let capture = capture(name);
        let of = |threads| {
            let decode = capture.execution().threads(threads);
            let keep = |items: &mut Vec<String>, item: Item<'_, Event>| items.push(words(&item));
            let (_, states) = decode.fold(|_| Vec::new(), keep).unwrap();
            states.into_iter().flat_map(|(_, items)| items).collect::<Vec<_>>()
        };
        let one = of(1);
        assert!(one.len() > 10, "{name}");
        for threads in [2, 3, 8] {
            assert!(of(threads) == one, "{name}, {threads} threads");
        }
    }
}

/// Writes which thread it is on.
#[derive(Default)]
struct OwnThread(Vec<u8>);

impl<T> Consumer<T> for OwnThread {
    fn item(&mut self, _: Item<'_, T>) {
        self.0.extend_from_slice(format!("{:?}\n", std::thread::current().id()).as_bytes());
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.0)
    }
}

#[test]
fn a_tiny_buffer_is_decoded_on_the_calling_thread() {
    let here = format!("{:?}", std::thread::current().id());
    for (name, expected) in [("first", true), ("calls-aarch64", false)] {
        let mut text = Vec::new();
        let output = |written: Written<'_>| {
            if let Written::Text(more) = written {
                text.extend_from_slice(more);
            }
            Ok::<_, Error>(())
        };
        capture(name).execution().threads(4).write(|_| Ok(OwnThread::default()), output).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.is_empty() && text.lines().all(|thread| (thread == here) == expected), "{name}");
    }
}

#[test]
fn a_sink_that_wants_no_more_stops_the_decode() {
    let capture = capture("calls-aarch64");
    let mut count = 0;
    let summary = capture
        .execution()
        .run(|_| {
            count += 1;
            if count == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(count, 10);
    assert!(summary.stopped);
    let all = capture.execution().run(|_| {}).unwrap();
    let followed = |summary: &backsight::Summary| {
        summary.sources().map(|source| source.statistics.instructions).sum::<u64>()
    };
    assert!(followed(&summary) < followed(&all) / 2, "{} of {}", followed(&summary), followed(&all));
}

#[test]
fn states_of_sources_add_up_on_any_number_of_threads() {
    let capture = capture("calls-riscv64");
    let of = |threads| {
        let (_, states) = capture
            .execution()
            .threads(threads)
            .fold(
                |_| 0_u64,
                |sum, item| {
                    if let Event::Range(range) = item.value {
                        *sum += u64::from(range.instructions);
                    }
                },
            )
            .unwrap();
        states.into_iter().map(|(source, sum)| (source.name().to_owned(), sum)).collect::<Vec<_>>()
    };
    assert_eq!(of(1), of(4));
    assert!(of(1).iter().map(|(_, sum)| sum).sum::<u64>() > 1000);
}
