//! Whatever an editor sends: the server answers, or passes over it, and stays where it was unless it was told to move. The first byte
//! chooses the capture and whether the bytes are a connection or the bodies of messages, one a line.
#![no_main]

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use backsight::Capture;
use backsight_debug::dap::{Launcher, Server, Settings, Walk, serve};
use backsight_debug::replay::{At, Replay};

fn captures() -> &'static [Capture; 2] {
    static CAPTURES: OnceLock<[Capture; 2]> = OnceLock::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/captures");
    CAPTURES.get_or_init(|| {
        ["first", "interwork-arm"].map(|name| Capture::open(format!("{folder}/{name}")).expect("a capture"))
    })
}

/// Walks through one capture, whatever is launched.
struct One(&'static Capture);

impl One {
    fn walk(&self, walk: &mut dyn FnMut(&mut Replay<'_>)) {
        let index = self.0.moments().index(1).expect("an index");
        let moments = self.0.moments().with_index(index.into());
        let mut replay = Replay::new(self.0, &moments, &self.0.execution()).expect("a walk");
        walk(&mut replay);
        // It stands at an instruction that there is.
        replay.stop_flag().store(false, std::sync::atomic::Ordering::SeqCst);
        let thread = replay.current();
        let place: At = replay.place(thread).expect("a place").expect("it was met");
        assert!(place.instruction < replay.instructions(place.source));
        assert!(replay.what(place).expect("code").is_some());
    }
}

impl Launcher for One {
    fn launch(
        &mut self,
        _arguments: &serde_json::Value,
        _stop: &Arc<AtomicBool>,
        walk: &mut Walk<'_>,
    ) -> Result<(), String> {
        self.walk(&mut |replay| walk(replay, Settings::default()));
        Ok(())
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let mut one = One(&captures()[usize::from(first & 1)]);
    let mut answers = Vec::new();
    if first & 2 == 0 {
        let bytes = std::io::Cursor::new(bytes.to_vec());
        // What is no message is an error, which the editor is told.
        let _ = serve(&mut one, bytes, &mut answers);
    } else {
        one.walk(&mut |replay| {
            let mut server = Server::new(replay, Settings::default());
            for body in bytes.split(|byte| *byte == b'\n').take(64) {
                if !server.take(body, &mut answers).expect("memory takes everything") {
                    break;
                }
            }
        });
    }
});
