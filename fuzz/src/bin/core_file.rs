//! ELF core files with trace: any bytes after the header, and a good one with bytes changed.
#![no_main]

use std::io::{Cursor, Read};

use backsight_capture::{Capture, CoreWriter, Output};

fn open(bytes: Vec<u8>) {
    let Ok(capture) = Capture::from_core_file(bytes, "core") else { return };
    for buffer in capture.buffers.iter().take(4) {
        if let Ok(mut stream) = buffer.open() {
            let _ = stream.by_ref().take(1 << 20).read_to_end(&mut Vec::new());
        }
    }
}

fn good(notes: &[u8]) -> Option<Vec<u8>> {
    let mut writer = CoreWriter::new(Cursor::new(Vec::new())).ok()?;
    let contents = "[trace]\nmetadata=trace.ini\nbuffer0=trace.bin\n[events]\nlog=log\n";
    writer.file("contents.ini", &mut contents.as_bytes()).ok()?;
    writer.file("trace.ini", &mut &b"[buffer]\nformat: coresight\n[trace_16]\nformat: ETM4.2\n"[..]).ok()?;
    writer.file("trace.bin", &mut &[0; 32][..]).ok()?;
    writer.file("log", &mut &b"%system-event-log version=1\n"[..]).ok()?;
    writer.memory(0x1000, true, &[0; 16]).ok()?;
    let (kind, description) = notes.split_first()?;
    let kinds = [1, 3, 0x4649_4C45, 7];
    writer.note(kinds[usize::from(*kind) % kinds.len()], description);
    Some(writer.finish(183).ok()?.into_inner())
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for (class, order) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        let kind = if order == 1 { [4, 0] } else { [0, 4] };
        open([&b"\x7FELF"[..], &[class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0], &kind, data].concat());
    }
    let Some(mut bytes) = good(data) else { return };
    open(bytes.clone());
    // Pairs of a position and a value, from the end where the headers are.
    for change in data.chunks_exact(3).take(8) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let at = bytes.len().saturating_sub(1 + at);
        bytes[at] = change[2];
    }
    open(bytes);
});
