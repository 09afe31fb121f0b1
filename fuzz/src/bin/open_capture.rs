//! Captures as the program opens them: a folder, an archive or a bare file, with settings that somebody typed; then their
//! packets and a part of what was executed.
#![no_main]

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use backsight::{Capture, OpenOptions};

const NAMES: [&str; 6] =
    ["contents.ini", "trace.ini", "trace.bin", "code.bin", "system-event-log", "snapshot.ini"];
const PROTOCOLS: [&str; 4] = ["etm4", "ete", "etrace", "ntrace"];
const FRAMINGS: [&str; 6] = ["raw", "coresight", "tpiu", "encap", "reference", "siemens"];
/// What is looked at of a capture.
const MOST: usize = 10_000;

fn look(capture: &Capture) {
    let mut left = MOST;
    let mut count = || {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let _ = capture.packets().run(|_| count());
    let _ = capture.execution().run(|_| count());
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("backsight-fuzz-{}", std::process::id()))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [choice, more, rest @ ..] = data else { return };
    let mut parts = rest.splitn(NAMES.len(), |&byte| byte == 0);
    let options = OpenOptions::new().budget(1 << 20);
    match choice % 3 {
        0 => {
            let folder = folder();
            let _ = fs::create_dir_all(&folder);
            for name in NAMES {
                // One kind of capture or the other.
                let is_snapshot = choice & 4 != 0;
                let skipped = if is_snapshot { "contents.ini" } else { "snapshot.ini" };
                let _ = match parts.next() {
                    Some(contents) if name != skipped => fs::write(folder.join(name), contents),
                    _ => fs::remove_file(folder.join(name)),
                };
            }
            if let Ok(capture) = options.open(&folder) {
                look(&capture);
            }
        }
        1 => {
            let file = folder().with_extension("zip");
            if fs::write(&file, rest).is_ok()
                && let Ok(capture) = options.open(&file)
            {
                look(&capture);
            }
        }
        _ => {
            let setting = String::from_utf8_lossy(parts.next().unwrap_or_default());
            // The name of a file is a setting too; those of this machine are no part of the input.
            if !setting.contains('=') {
                return;
            }
            let bytes = parts.next().unwrap_or_default();
            let options = options
                .protocol(PROTOCOLS[usize::from(more % 4)])
                .framing(FRAMINGS[usize::from(more >> 4) % FRAMINGS.len()])
                .config(&setting);
            if let Ok(capture) = options.bytes(bytes) {
                look(&capture);
            }
        }
    }
});
