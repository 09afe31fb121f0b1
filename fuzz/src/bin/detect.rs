//! Bare files of which nobody says what they hold: any bytes, as they are and as a part of something larger.
#![no_main]

use backsight::detect::Detection;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let detection = Detection::of_bytes("bytes", data);
    let words = detection.to_string();
    assert!(words.starts_with("bytes: "), "{words}");
    assert_eq!(detection.reading().is_some(), !detection.commands("info").is_empty());
    if let Some(reading) = detection.reading() {
        assert!((0.0..=1.0).contains(&reading.share), "{reading:?}");
    }
});
