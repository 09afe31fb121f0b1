//! ZIP archives.
#![no_main]

use backsight_capture::Capture;
use backsight_capture::archive::Archive;
use std::io::Read;
use std::sync::Arc;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(archive) = Archive::in_memory(Arc::from(data), "a.zip") else { return };
    let Ok(capture) = Capture::from_folder(Arc::new(archive), "a.zip") else { return };
    for buffer in capture.buffers.iter().take(4) {
        if let Ok(mut stream) = buffer.open() {
            let _ = stream.by_ref().take(1 << 20).read_to_end(&mut Vec::new());
        }
    }
});
