//! Whatever comes to the server of `backsight view`: it is refused, or answered. The first byte chooses the capture and whether the bytes are a
//! request, or a question of one who knows the key.
#![no_main]

use std::sync::OnceLock;

use backsight::Capture;
use backsight_view::{View, ViewOptions, parse};

fn captures() -> &'static [Capture; 2] {
    static CAPTURES: OnceLock<[Capture; 2]> = OnceLock::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/captures");
    CAPTURES.get_or_init(|| {
        ["first", "interwork-arm"].map(|name| Capture::open(format!("{folder}/{name}")).expect("a capture"))
    })
}

const QUESTIONS: [&str; 12] = [
    "overview",
    "progress",
    "calls",
    "counters",
    "profile",
    "function",
    "compare",
    "at",
    "code",
    "find",
    "functions",
    "export",
];

/// The view of each capture, whose threads go on as long as the process does.
fn views() -> &'static [View<'static>; 2] {
    static VIEWS: OnceLock<[View<'static>; 2]> = OnceLock::new();
    let views = VIEWS.get_or_init(|| {
        [0, 1].map(|number| {
            let capture = &captures()[number];
            let mut view = View::new(ViewOptions { threads: 1, ..ViewOptions::default() });
            view.add("fuzzed", capture, capture.execution(), None).expect("a capture");
            view
        })
    });
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        for view in views {
            std::thread::spawn(|| std::thread::scope(|scope| view.start(scope)));
            view.wait();
        }
    });
    views
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let view = &views()[usize::from(first & 1)];
    if first & 2 == 0 {
        if let Ok(request) = parse(bytes) {
            let question = request.path.last().map_or("", String::as_str);
            view.answer(question, &request.values);
        }
        return;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let values: Vec<_> = text
        .split('\n')
        .take(16)
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let answer = view.answer(QUESTIONS[usize::from(first >> 2) % QUESTIONS.len()], &values);
    assert!(matches!(answer.status, 200 | 400 | 404 | 503));
});
