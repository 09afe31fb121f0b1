//! Several harts in one stream: each is followed by itself.

use backsight::riscv::ntrace::{Config, Encoder, Message, Packet};
use backsight::{Event, OpenOptions};

const C_NOP: [u8; 2] = [1, 0];

/// The messages of two harts in turns.
fn stream() -> Vec<u8> {
    let mut encoder = Encoder::new(&Config::with_source_bits(4));
    let mut bytes = Vec::new();
    let sync = |address: u64| Message::ProgramTraceSync { reason: 0, count: 0, address: address >> 1 };
    let end = |count: u32| Message::ProgramTraceCorrelation { reason: 0, count, history: None };
    for (hart, message) in [(1, sync(0x1000)), (2, sync(0x1100)), (1, end(2)), (2, end(3))] {
        assert!(encoder.put(&Packet::new(hart, None, message), &mut bytes));
    }
    bytes
}

#[test]
fn the_harts_of_an_n_trace_stream_are_followed_each_by_itself() {
    let folder = std::env::temp_dir().join(format!("backsight-{}-harts", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let code = folder.join("code");
    std::fs::write(&code, C_NOP.repeat(0x100)).unwrap();
    let capture = OpenOptions::new()
        .protocol("ntrace")
        .config("source_bits=4")
        .image(&format!("{}@0x1000", code.display()))
        .bytes(stream())
        .unwrap_or_else(|error| panic!("{error}"));
    let mut ranges = Vec::new();
    let summary = capture.execution().run(|item| {
        if let Event::Range(range) = item.value {
            ranges.push((item.sub_source, range.start.0, range.instructions));
        }
    });
    let summary = summary.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ranges, [(1, 0x1000, 2), (2, 0x1100, 3)], "{summary}");
    let mut harts = Vec::new();
    capture.packets().run(|item| harts.push(item.sub_source)).unwrap();
    assert_eq!(harts, [1, 2, 1, 2]);
    let _ = std::fs::remove_dir_all(&folder);
}
