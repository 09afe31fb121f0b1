//! Whatever a debugger sends: the server answers, or passes over it, and stays where it was unless it was told to move. The first byte
//! chooses the capture and whether the bytes are packets or the contents of packets, one a line.
#![no_main]

use std::sync::OnceLock;

use backsight::Capture;
use backsight_debug::gdb::Server;
use backsight_debug::replay::{At, Replay};

fn captures() -> &'static [Capture; 2] {
    static CAPTURES: OnceLock<[Capture; 2]> = OnceLock::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/captures");
    CAPTURES.get_or_init(|| {
        ["first", "interwork-arm"].map(|name| Capture::open(format!("{folder}/{name}")).expect("a capture"))
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let capture = &captures()[usize::from(first & 1)];
    let index = capture.moments().index(1).expect("an index");
    let moments = capture.moments().with_index(index.into());
    let mut replay = Replay::new(capture, &moments, &capture.execution()).expect("a walk");
    let mut answers = Vec::new();
    let mut server = Server::new(&mut replay, &mut answers).expect("a server");
    if first & 2 == 0 {
        let _ = server.take(bytes).expect("memory takes everything");
    } else {
        for contents in bytes.split(|byte| *byte == b'\n').take(64) {
            let sum = contents.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
            let packet = [b"$", contents, format!("#{sum:02x}").as_bytes()].concat();
            if !server.take(&packet).expect("memory takes everything") {
                break;
            }
        }
    }
    drop(server);
    // It stands at an instruction that there is.
    let thread = replay.current();
    let place: At = replay.place(thread).expect("a place").expect("it was met");
    assert!(place.instruction < replay.instructions(place.source));
    assert!(replay.what(place).expect("code").is_some());
});
