//! Snapshots and packages in a virtual folder: the input is cut into files at zero bytes. What is read can be
//! written, and what was written can be read.
#![no_main]

use backsight_capture::folder::Memory;
use backsight_capture::{Capture, Format};
use std::io::Read;
use std::sync::Arc;

const NAMES: [&str; 8] = [
    "snapshot.ini",
    "trace.ini",
    "device0.ini",
    "device1.ini",
    "data.bin",
    "contents.ini",
    "log",
    "images/a",
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    // One bit decides which kind of capture it is.
    let skip = if choice & 1 == 0 { "contents.ini" } else { "snapshot.ini" };
    let parts = rest.split(|&byte| byte == 0).map(Arc::from);
    let names = NAMES.into_iter().filter(|name| *name != skip).map(str::to_owned);
    let folder = Memory(names.zip(parts).collect());
    let Ok(capture) = Capture::from_folder(Arc::new(folder), "capture") else { return };
    for buffer in &capture.buffers {
        if let Ok(mut stream) = buffer.open() {
            let mut contents = Vec::new();
            let read = stream.by_ref().take(1 << 16).read_to_end(&mut contents).is_ok();
            assert!(
                !read || buffer.length().is_none_or(|length| contents.len() as u64 == length.min(1 << 16))
            );
        }
    }
    if capture.buffers.len() > 20 || capture.buffers.iter().any(|buffer| buffer.files.len() > 20) {
        return;
    }
    for format in [Format::Snapshot, Format::Package] {
        let mut written = Memory::default();
        if capture.write(format, &mut written).is_ok() {
            let again = Capture::from_folder(Arc::new(written), "again");
            let again = again.unwrap_or_else(|error| panic!("{format:?}: {error}"));
            assert_eq!(again.buffers.len(), capture.buffers.len());
        }
    }
});
