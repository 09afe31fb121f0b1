use std::io::{Cursor, Read};

use super::*;
use crate::write::Output;

const CONTENTS: &str = "[trace]\nmetadata=trace.ini\nbuffer0=data/trace.bin\n";
const METADATA: &str = "[buffer]\nformat: coresight\n[trace_16]\nformat: ETM4.2\ncpu: 0\n";

/// A note with the files that a process had mapped: start, end, first page, path.
fn files(mapped: &[(u64, u64, u64, &str)]) -> Vec<u8> {
    let mut words = vec![mapped.len() as u64, 0x1000];
    mapped.iter().for_each(|&(start, end, page, _)| words.extend([start, end, page]));
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    mapped.iter().for_each(|(.., path)| bytes.extend(path.bytes().chain([0])));
    bytes
}

fn core_file() -> Vec<u8> {
    let mut writer = CoreWriter::new(Cursor::new(Vec::new())).expect("memory");
    writer.file("contents.ini", &mut CONTENTS.as_bytes()).expect("memory");
    writer.file("trace.ini", &mut METADATA.as_bytes()).expect("memory");
    writer.file("data/trace.bin", &mut &[0x5A; 64][..]).expect("memory");
    writer.memory(0x40_0000, true, &[1; 32]).expect("memory");
    writer.memory(0x50_0000, false, &[2; 32]).expect("memory");
    writer.memory(0x7F00_0000, true, &[]).expect("memory");
    let mut process = vec![0; 136];
    process[24..28].copy_from_slice(&412_u32.to_le_bytes());
    process[40..44].copy_from_slice(b"demo");
    writer.note(3, &process);
    for tid in [412_u32, 413] {
        let mut status = vec![0; 112];
        status[32..36].copy_from_slice(&tid.to_le_bytes());
        writer.note(1, &status);
    }
    writer.note(
        0x4649_4C45,
        &files(&[
            (0x40_0000, 0x40_1000, 0, "/usr/bin/demo"),
            (0x50_0000, 0x50_1000, 1, "/usr/bin/demo"),
            (0x7F00_0000, 0x7F02_0000, 0x10, "/lib/libc.so.6"),
        ]),
    );
    writer.finish(183).expect("memory").into_inner()
}

#[test]
fn the_sections_are_a_package_and_the_dump_says_what_there_was() {
    let capture = Capture::from_core_file(core_file(), "core").expect("a core file");
    assert_eq!((capture.format, capture.buffers.len(), capture.sources.len()), (Format::ElfCore, 1, 1));
    let mut trace = Vec::new();
    capture.buffers[0].open().expect("a buffer").read_to_end(&mut trace).expect("its bytes");
    assert_eq!(trace, [0x5A; 64]);
    assert_eq!(capture.description.as_deref(), Some("process 412, demo"));
    let [memory] = &capture.memory[..] else { panic!("{:?}", capture.memory) };
    assert_eq!((memory.address, memory.length), (Address(0x40_0000), Some(32)), "only code that is there");
    let mut bytes = Vec::new();
    memory.file.open().expect("a file").read_to_end(&mut bytes).expect("its bytes");
    assert_eq!(bytes[memory.offset as usize..][..32], [1; 32]);
    let log = capture.events.expect("what the notes say").log().to_string();
    let lines: Vec<&str> = log.lines().skip(1).collect();
    let expected = [
        "%snapshot at=begin complete=0",
        "- declare_library CURRENT pid=412 base=0x400000 image=\"/usr/bin/demo\" size=0x1000",
        "- declare_library CURRENT pid=412 base=0x7f000000 image=\"/lib/libc.so.6\" size=0x20000 offset=0x10000",
        "- declare_thread CURRENT tid=413 pid=412",
        "%snapshot at=end",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_dump_without_trace_is_refused_with_the_reason() {
    let bytes =
        CoreWriter::new(Cursor::new(Vec::new())).and_then(|writer| writer.finish(183)).expect("memory");
    let error = Capture::from_core_file(bytes.into_inner(), "core").expect_err("no trace");
    assert!(
        error.to_string().contains("without trace: it has no section .coresight.contents.ini"),
        "{error}"
    );
    assert!(Capture::from_core_file(b"\x7FELF\x02\x01\x01".to_vec(), "core").is_err());
}

#[test]
fn a_dump_that_is_cut_off_or_changed_anywhere_is_an_error_or_another_dump() {
    let good = core_file();
    for length in 0..good.len() {
        let _ = Capture::from_core_file(&good[..length], "core");
    }
    for at in (0..64).chain(good.len() - 600..good.len()) {
        for value in [0, 1, 0x7F, 0xFF] {
            let mut changed = good.clone();
            changed[at] = value;
            if let Ok(capture) = Capture::from_core_file(changed, "core") {
                for buffer in &capture.buffers {
                    let read = buffer.open().map(|stream| stream.take(1 << 16).read_to_end(&mut Vec::new()));
                    assert!(
                        read.is_err()
                            || read.is_ok_and(|read| read.is_err() || read.is_ok_and(|n| n <= 1 << 16))
                    );
                }
            }
        }
    }
}

#[test]
fn a_capture_that_is_written_as_a_core_file_is_read_back() {
    let first = Capture::from_core_file(core_file(), "core").expect("a core file");
    let mut writer = CoreWriter::new(Cursor::new(Vec::new())).expect("memory");
    first.write(Format::ElfCore, &mut writer).expect("memory");
    let again = writer.finish(183).expect("memory").into_inner();
    let again = Capture::from_core_file(again, "again").expect("a core file");
    assert_eq!(again.buffers.len(), 1);
    let text = |capture: &Capture| capture.events.as_ref().map(|events| events.log().to_string());
    assert_eq!(text(&again), text(&first));
    assert_eq!((again.memory.len(), again.memory[0].address), (1, Address(0x40_0000)));
    assert_eq!(again.sources[0].format, "ETM4.2");
}
