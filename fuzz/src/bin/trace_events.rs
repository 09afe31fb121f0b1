//! Events in the trace: bytes of an STM to messages to a log; messages as they are, and what is written is read back.
#![no_main]

use backsight_arm::stm::Decoder;
use backsight_capture::events::message::{MessageLog, decode, encode, frame};
use backsight_core::Located;
use backsight_flow::Event;
use backsight_flow::stm::Follower;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The message as it is, and with a check that fits.
    let _ = decode(data);
    let framed = frame(7, data).unwrap_or_default();
    if let Ok((sequence, item)) = decode(&framed)
        && let Some(bytes) = encode(sequence, &item)
    {
        assert_eq!(decode(&bytes), Ok((sequence, item)));
    }
    let (mut decoder, mut follower, mut log) = (Decoder::new(), Follower::new(), MessageLog::new());
    let sync = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x0F, 0x30];
    for bytes in [&sync[..], data] {
        decoder.feed(bytes, &mut |packet| {
            follower.push(packet, &mut |event: Located<Event>| match event.value {
                Event::Software(written) => log.push(written.bytes(), written.is_marked(), written.time()),
                Event::NoSync(_) => log.lose(),
                _ => {}
            });
        });
    }
    // Whole messages, one after the other.
    for (number, payload) in (0..).zip(data.split(|byte| *byte == b'\n')) {
        let message = frame(number, payload).unwrap_or_default();
        log.push(message.iter().copied(), true, Some(message.len() as u64));
        log.push(std::iter::empty(), true, None);
    }
    let (log, counts) = log.finish();
    let events = log.records.iter().filter(|record| record.time.is_some()).count() as u64;
    assert_eq!(events, counts.messages);
    let times: Vec<u64> = log.records.iter().filter_map(|record| record.time).collect();
    assert!(times.is_sorted());
});
