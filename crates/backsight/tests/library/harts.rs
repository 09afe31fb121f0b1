//! Several harts in one stream: each is followed by itself.

use backsight::riscv::encap::{Deframer, Encapsulated, Frame, Framer, Framing, Kind};
use backsight::riscv::ntrace::{Config, Encoder, Message, Packet};
use backsight::{Capture, Event, OpenOptions};
use backsight_testing::{Random, repository};

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

/// Payloads that a hart sent.
fn payloads() -> Vec<Vec<u8>> {
    let bytes = std::fs::read(repository().join("testdata/captures/calls-riscv64/trace.bin")).unwrap();
    let (mut deframer, mut payloads) = (Deframer::new(Framing::ATB), Vec::new());
    let mut sink = |frame: backsight::core::Located<Frame<'_>>| {
        if let Frame::Packet(packet) = frame.value {
            payloads.push(packet.payload.to_vec());
        }
    };
    deframer.feed(&bytes, &mut sink);
    deframer.finish(&mut sink);
    payloads
}

/// A stream in which several harts send the same, in turns.
fn stream_of(harts: u16, payloads: &[Vec<u8>], random: &mut Random) -> Capture {
    let (mut framer, mut bytes) = (Framer::new(Framing::Reference { hart_bits: 8 }), Vec::new());
    let mut next = vec![0; usize::from(harts)];
    while next.iter().any(|&next| next < payloads.len()) {
        let source = random.below(harts.into()) as u16;
        for _ in 0..1 + random.below(5) {
            let Some(payload) = payloads.get(next[usize::from(source)]) else { break };
            let packet = Encapsulated { source, kind: Kind::Instruction, flow: 0, time: None, payload };
            framer.frame(&packet, &mut bytes).unwrap();
            next[usize::from(source)] += 1;
        }
    }
    let settings =
        ["hart_bits=8", "ecause_width=5", "iaddress_width=64", "return_stack_size=4", "iret_ext=1"];
    let code = repository().join("testdata/captures/calls-riscv64/code/calls");
    let options =
        OpenOptions::new().protocol("etrace").framing("reference").image(&code.display().to_string());
    let options = settings.iter().fold(options, |options, setting| options.config(setting));
    options.config("implicit_return=1").bytes(bytes).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_harts_of_an_e_trace_stream_do_not_disturb_one_another() {
    let (payloads, mut random) = (payloads(), Random(7));
    let mut alone = Vec::new();
    let mut take = |event| alone.push(event);
    stream_of(1, &payloads, &mut random).execution().run(|item| take(item.value)).unwrap();
    let ranges = alone.iter().filter(|event| matches!(event, Event::Range(_))).count();
    assert!(ranges > 1000 && !alone.iter().any(|event| matches!(event, Event::Mismatch { .. })), "{ranges}");
    let mut harts = vec![Vec::new(); 64];
    let capture = stream_of(64, &payloads, &mut random);
    capture.execution().run(|item| harts[usize::from(item.sub_source)].push(item.value)).unwrap();
    assert!(harts.iter().all(|events| *events == alone));
}
